"""Pooling.  A max pool gives its indices too when asked; operators with indices are other operators."""
import rushlight as torch
from rushlight.nn._override import handle, overridden
from rushlight.nn._tuples import _list_with_default, _pair, _single, _triple


def _steps(stride):
    # No stride means: as far as the kernel is long; operators say it with an empty list.
    return [] if stride is None else stride


def _describe(dims, choose, with_indices, name, parameters, sides, call):
    """Name both forms and write their docstrings, which differ in the number of sides only."""
    choose.__name__ = choose.__qualname__ = name
    with_indices.__name__ = with_indices.__qualname__ = name + "_with_indices"
    shape = ", ".join("DHW"[-dims:]) if dims > 1 else "L"
    for function, asked, flag in ((choose, "", "return_indices: give also where each maximum stood, its number within the channel"),
                                  (with_indices, "[1]", "return_indices has no effect: where each maximum stood is always given")):
        function.__doc__ = f"""{function.__doc__}

    {parameters}
    {flag}.
    Shapes: input (N, C, {shape}) or (C, {shape}); {sides}.

    >>> F.{function.__name__}(torch.zeros(1, 3{", 8" * dims}), {call}){asked}.shape
    torch.Size([1, 3{", 4" * dims}])
    """


def _make_max_pool(dims):
    """max_poolNd, its variant that returns indices, and the plain one."""
    name = f"max_pool{dims}d"

    def plain(input, kernel_size, stride=None, padding=0, dilation=1, ceil_mode=False, return_indices=False):
        if overridden(input):
            return handle(choose, (input,), input, kernel_size, stride=stride, padding=padding, dilation=dilation,
                          ceil_mode=ceil_mode, return_indices=False)
        return getattr(torch, name)(input, kernel_size, _steps(stride), padding, dilation, ceil_mode)

    def with_indices(input, kernel_size, stride=None, padding=0, dilation=1, ceil_mode=False, return_indices=False):
        """As the function without indices; also where each maximum stood."""
        if overridden(input):
            return handle(with_indices, (input,), input, kernel_size, stride=stride, padding=padding,
                          dilation=dilation, ceil_mode=ceil_mode, return_indices=return_indices)
        home = torch if dims == 1 else torch._C._nn
        op = getattr(home, name + "_with_indices")
        return op(input, kernel_size, _steps(stride), padding, dilation, ceil_mode)

    def choose(input, kernel_size, stride=None, padding=0, dilation=1, ceil_mode=False, return_indices=False):
        """Maximum over windows; with `return_indices` also where each maximum stood."""
        chosen = with_indices if return_indices else plain
        return chosen(input, kernel_size, stride, padding, dilation, ceil_mode, return_indices)

    _describe(dims, choose, with_indices, name, """kernel_size: the window; stride: distance of windows, kernel_size by default; padding: added on both sides, at most half a window;
    dilation: distance of a window's elements; ceil_mode: windows that begin inside but end outside count, too;""",
              "each side of n becomes (n + 2 padding - dilation (kernel_size - 1) - 1) // stride + 1", "2")
    plain.__name__ = plain.__qualname__ = "_" + name
    return choose, with_indices, plain


max_pool1d, max_pool1d_with_indices, _max_pool1d = _make_max_pool(1)
max_pool2d, max_pool2d_with_indices, _max_pool2d = _make_max_pool(2)
max_pool3d, max_pool3d_with_indices, _max_pool3d = _make_max_pool(3)


def _make_adaptive_max_pool(dims):
    name = f"adaptive_max_pool{dims}d"

    def with_indices(input, output_size, return_indices=False):
        """As the function without indices; also where each maximum stood."""
        if overridden(input):
            return handle(with_indices, (input,), input, output_size, return_indices=return_indices)
        if dims == 1:
            return torch.adaptive_max_pool1d(input, output_size)
        return getattr(torch._C._nn, name)(input, _list_with_default(output_size, input.size()))

    def plain(input, output_size, return_indices=False):
        if overridden(input):
            return handle(choose, (input,), input, output_size, return_indices=return_indices)
        return with_indices(input, output_size)[0]

    def choose(input, output_size, return_indices=False):
        """Maximum over windows that are chosen so that the output has `output_size`."""
        return (with_indices if return_indices else plain)(input, output_size, return_indices)

    _describe(dims, choose, with_indices, name, """output_size: how many windows along each side;""",
              "result (N, C, *output_size) or without N", "4")
    plain.__name__ = plain.__qualname__ = "_" + name
    return choose, with_indices, plain


adaptive_max_pool1d, adaptive_max_pool1d_with_indices, _adaptive_max_pool1d = _make_adaptive_max_pool(1)
adaptive_max_pool2d, adaptive_max_pool2d_with_indices, _adaptive_max_pool2d = _make_adaptive_max_pool(2)
adaptive_max_pool3d, adaptive_max_pool3d_with_indices, _adaptive_max_pool3d = _make_adaptive_max_pool(3)


def adaptive_avg_pool2d(input, output_size):
    """Mean over windows that are chosen so that the output has `output_size`.

    output_size: how many windows, one number or 2; None keeps a side.
    Shapes: input (N, C, H, W) or (C, H, W); result (N, C, *output_size) or without N.

    >>> F.adaptive_avg_pool2d(torch.zeros(1, 3, 10, 12), 2).shape
    torch.Size([1, 3, 2, 2])
    """
    if overridden(input):
        return handle(adaptive_avg_pool2d, (input,), input, output_size)
    return torch._C._nn.adaptive_avg_pool2d(input, _list_with_default(output_size, input.size()))


def adaptive_avg_pool3d(input, output_size):
    """Mean over windows that are chosen so that the output has `output_size`.

    output_size: how many windows, one number or 3; None keeps a side.
    Shapes: input (N, C, D, H, W) or (C, D, H, W); result (N, C, *output_size) or without N.

    >>> F.adaptive_avg_pool3d(torch.zeros(1, 3, 6, 8, 8), 2).shape
    torch.Size([1, 3, 2, 2, 2])
    """
    if overridden(input):
        return handle(adaptive_avg_pool3d, (input,), input, output_size)
    return torch._C._nn.adaptive_avg_pool3d(input, _list_with_default(output_size, input.size()))


def _make_fractional_max_pool(dims):
    name = f"fractional_max_pool{dims}d"
    spread = _pair if dims == 2 else _triple

    def with_indices(input, kernel_size, output_size=None, output_ratio=None, return_indices=False,
                     _random_samples=None):
        """As the function without indices; also where each maximum stood."""
        if overridden(input, _random_samples):
            return handle(with_indices, (input, _random_samples), input, kernel_size, output_size=output_size,
                          output_ratio=output_ratio, return_indices=return_indices, _random_samples=_random_samples)
        if output_size is None and output_ratio is None:
            raise ValueError(f"{name} requires specifying either an output_size or an output_ratio")
        if output_size is None:
            if len(spread(output_ratio)) > dims:
                raise ValueError(f"{name} requires output_ratio to either be a single Int or tuple of Ints.")
            output_size = [int(extent * r) for extent, r in zip(input.size()[-dims:], spread(output_ratio))]
        if _random_samples is None:
            batch = 1 if input.dim() == dims + 1 else input.size(0)
            _random_samples = torch.rand(batch, input.size(-dims - 1), dims, dtype=input.dtype, device=input.device)
        return getattr(torch._C._nn, name)(input, kernel_size, output_size, _random_samples)

    def plain(input, kernel_size, output_size=None, output_ratio=None, return_indices=False, _random_samples=None):
        return with_indices(input, kernel_size, output_size, output_ratio, return_indices, _random_samples)[0]

    def choose(input, kernel_size, output_size=None, output_ratio=None, return_indices=False, _random_samples=None):
        """Maximum over windows of random size, so that the output has the size or ratio asked for."""
        chosen = with_indices if return_indices else plain
        return chosen(input, kernel_size, output_size, output_ratio, return_indices, _random_samples)

    _describe(dims, choose, with_indices, name, """kernel_size: the window; output_size: the result's sides, or output_ratio: their ratios to the input's, between 0 and 1, one per side;""",
              "result (N, C, *output_size) or without N", "2, output_size=4")
    plain.__name__ = plain.__qualname__ = "_" + name
    return choose, with_indices, plain


fractional_max_pool2d, fractional_max_pool2d_with_indices, _fractional_max_pool2d = _make_fractional_max_pool(2)
fractional_max_pool3d, fractional_max_pool3d_with_indices, _fractional_max_pool3d = _make_fractional_max_pool(3)


def _check_unpool_output_size(output_size, dim):
    if len(output_size) == dim + 2:
        output_size = output_size[2:]
    return output_size


def _unpool_output_size(input, kernel_size, stride, padding, output_size):
    """The size that pooling started from: what the arithmetic says, or the caller within one stride of it."""
    dims = len(kernel_size)
    space = input.size()[-dims:]
    default = [(space[d] - 1) * stride[d] + kernel_size[d] - 2 * padding[d] for d in range(dims)]
    if output_size is None:
        return default
    if len(output_size) == dims + 2:
        output_size = output_size[2:]
    if len(output_size) != dims:
        raise ValueError("output_size should be a sequence containing "
                         f"{dims} or {dims + 2} elements, but it has a length of '{len(output_size)}'")
    for d in range(dims):
        low, high = default[d] - stride[d], default[d] + stride[d]
        if not low < output_size[d] < high:
            raise ValueError(f'invalid output_size "{output_size}" (dim {d} must be between {low} and {high})')
    return output_size


def _unpool(public, spread, input, indices, kernel_size, stride, padding, output_size):
    kernel_size = spread(kernel_size)
    stride = spread(stride) if stride is not None else kernel_size
    padding = spread(padding)
    size = _unpool_output_size(input, kernel_size, stride, padding, output_size)
    return kernel_size, stride, padding, size


def max_unpool1d(input, indices, kernel_size, stride=None, padding=0, output_size=None):
    """Put the values of a max pool back where they stood; zeros elsewhere.

    kernel_size, stride, padding: of the pool whose maxima these are, one number; indices: where they stood; output_size: the result's sides
    where the rule is ambiguous.
    Shapes: input and indices (N, C, L) or (C, L); each side of n becomes (n - 1) stride - 2 padding + kernel_size, or as output_size says.

    >>> values, indices = F.max_pool1d(torch.tensor([[[1., 5., 2., 4.]]]), 2, return_indices=True)
    >>> F.max_unpool1d(values, indices, 2)
    tensor([[[0., 5., 0., 4.]]])
    """
    if overridden(input):
        return handle(max_unpool1d, (input,), input, indices, kernel_size, stride=stride, padding=padding,
                      output_size=output_size)
    *_, size = _unpool(max_unpool1d, _single, input, indices, kernel_size, stride, padding, output_size)
    return torch._C._nn.max_unpool2d(input.unsqueeze(-1), indices.unsqueeze(-1), [*size, 1]).squeeze(-1)


def max_unpool2d(input, indices, kernel_size, stride=None, padding=0, output_size=None):
    """Put the values of a max pool back where they stood; zeros elsewhere.

    kernel_size, stride, padding: of the pool whose maxima these are, one number or 2; indices: where they stood; output_size: the result's
    sides where the rule is ambiguous.
    Shapes: input and indices (N, C, H, W) or (C, H, W); each side of n becomes (n - 1) stride - 2 padding + kernel_size, or as output_size
    says.

    >>> values, indices = F.max_pool2d(torch.zeros(1, 3, 10, 12), 2, return_indices=True)
    >>> F.max_unpool2d(values, indices, 2).shape
    torch.Size([1, 3, 10, 12])
    """
    if overridden(input):
        return handle(max_unpool2d, (input,), input, indices, kernel_size, stride=stride, padding=padding,
                      output_size=output_size)
    *_, size = _unpool(max_unpool2d, _pair, input, indices, kernel_size, stride, padding, output_size)
    return torch._C._nn.max_unpool2d(input, indices, size)


def max_unpool3d(input, indices, kernel_size, stride=None, padding=0, output_size=None):
    """Put the values of a max pool back where they stood; zeros elsewhere.

    kernel_size, stride, padding: of the pool whose maxima these are, one number or 3; indices: where they stood; output_size: the result's
    sides where the rule is ambiguous.
    Shapes: input and indices (N, C, D, H, W) or (C, D, H, W); each side of n becomes (n - 1) stride - 2 padding + kernel_size, or as
    output_size says.

    >>> values, indices = F.max_pool3d(torch.zeros(1, 3, 6, 8, 8), 2, return_indices=True)
    >>> F.max_unpool3d(values, indices, 2).shape
    torch.Size([1, 3, 6, 8, 8])
    """
    if overridden(input):
        return handle(max_unpool3d, (input,), input, indices, kernel_size, stride=stride, padding=padding,
                      output_size=output_size)
    _, stride, padding, size = _unpool(max_unpool3d, _triple, input, indices, kernel_size, stride, padding,
                                       output_size)
    return torch._C._nn.max_unpool3d(input, indices, size, stride, padding)


def _lp_pool(public, spread, pool, input, norm_type, kernel_size, stride, ceil_mode):
    """(sum of x^p)^(1/p), made of an average pool times the window's size."""
    if overridden(input):
        return handle(public, (input,), input, norm_type, kernel_size, stride=stride, ceil_mode=ceil_mode)
    window = 1
    for extent in spread(kernel_size):
        window *= extent
    mean = pool(input.pow(norm_type), kernel_size, _steps(stride), 0, ceil_mode)
    return (torch.sign(mean) * torch.relu(torch.abs(mean))).mul(window).pow(1.0 / norm_type)


def lp_pool1d(input, norm_type, kernel_size, stride=None, ceil_mode=False):
    """p-norm over windows.

    norm_type: p; kernel_size: the window; stride: distance of windows, kernel_size by default; both are one number. ceil_mode: windows that
    begin inside but end outside count, too.
    Shapes: input (N, C, L) or (C, L); each side of n becomes (n - kernel_size) // stride + 1.

    >>> F.lp_pool1d(torch.tensor([[[1., 5., 2., 4.]]]), 2, 2)
    tensor([[[5.0990, 4.4721]]])
    """
    return _lp_pool(lp_pool1d, _single, torch.avg_pool1d, input, norm_type, kernel_size, stride, ceil_mode)


def lp_pool2d(input, norm_type, kernel_size, stride=None, ceil_mode=False):
    """p-norm over windows.

    norm_type: p; kernel_size: the window; stride: distance of windows, kernel_size by default; both are one number or 2. ceil_mode: windows
    that begin inside but end outside count, too.
    Shapes: input (N, C, H, W) or (C, H, W); each side of n becomes (n - kernel_size) // stride + 1.

    >>> F.lp_pool2d(torch.zeros(1, 3, 10, 12), 2, 2).shape
    torch.Size([1, 3, 5, 6])
    """
    return _lp_pool(lp_pool2d, _pair, torch._C._nn.avg_pool2d, input, norm_type, kernel_size, stride, ceil_mode)


def lp_pool3d(input, norm_type, kernel_size, stride=None, ceil_mode=False):
    """p-norm over windows.

    norm_type: p; kernel_size: the window; stride: distance of windows, kernel_size by default; both are one number or 3. ceil_mode: windows
    that begin inside but end outside count, too.
    Shapes: input (N, C, D, H, W) or (C, D, H, W); each side of n becomes (n - kernel_size) // stride + 1.

    >>> F.lp_pool3d(torch.zeros(1, 3, 6, 8, 8), 2, 2).shape
    torch.Size([1, 3, 3, 4, 4])
    """
    return _lp_pool(lp_pool3d, _triple, torch._C._nn.avg_pool3d, input, norm_type, kernel_size, stride, ceil_mode)
