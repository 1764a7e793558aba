"""What is told of operations beside their records: parameters, shapes and an example, read when somebody asks for help(torch.conv2d).

_EXAMPLES has one line for each of the plain operations, _MANUAL a paragraph for those of nn.functional, linalg and fft. Tests run all examples.
"""
import re
import textwrap

_EXAMPLES = """
torch.abs(torch.tensor([-1., 2.])) = tensor([1., 2.])
torch.acos(torch.tensor([1., 0.])) = tensor([0.0000, 1.5708])
torch.add(torch.tensor([1., 2.]), torch.tensor([[10.], [20.]]), alpha=2) = tensor([[21., 22.], [41., 42.]])
torch.addmm(torch.zeros(2), torch.ones(1, 2), torch.ones(2, 2)) = tensor([[2., 2.]])
torch.all(torch.tensor([True, False])) = tensor(False)
torch.allclose(torch.tensor([1.]), torch.tensor([1. + 1e-9])) = True
torch.amax(torch.tensor([[1., 5.], [3., 2.]]), dim=1) = tensor([5., 3.])
torch.any(torch.tensor([True, False])) = tensor(True)
torch.arange(1, 2.5, 0.5) = tensor([1.0000, 1.5000, 2.0000])
torch.argmax(torch.tensor([3., 9., 4.])) = tensor(1)
torch.argsort(torch.tensor([3., 9., 4.]), descending=True) = tensor([1, 2, 0])
torch.atan2(torch.tensor([1.]), torch.tensor([1.])) = tensor([0.7854])
torch.bincount(torch.tensor([0, 1, 1, 3])) = tensor([1, 2, 0, 1])
torch.bmm(torch.ones(2, 1, 3), torch.ones(2, 3, 1)).shape = torch.Size([2, 1, 1])
torch.bucketize(torch.tensor([1., 4.]), torch.tensor([0., 2., 4.])) = tensor([1, 2])
torch.cat([torch.tensor([1, 2]), torch.tensor([3])]) = tensor([1, 2, 3])
torch.ceil(torch.tensor([0.5, -0.5])) = tensor([1., -0.])
torch.chunk(torch.arange(5), 2) = (tensor([0, 1, 2]), tensor([3, 4]))
torch.clamp(torch.tensor([-2., 0.5, 3.]), -1, 1) = tensor([-1.0000,  0.5000,  1.0000])
torch.cos(torch.tensor([0.])) = tensor([1.])
torch.count_nonzero(torch.tensor([0, 3, 5])) = tensor(2)
torch.cross(torch.tensor([1., 0., 0.]), torch.tensor([0., 1., 0.]), dim=0) = tensor([0., 0., 1.])
torch.cumprod(torch.tensor([1, 2, 3]), 0) = tensor([1, 2, 6])
torch.cumsum(torch.tensor([1, 2, 3]), 0) = tensor([1, 3, 6])
torch.diag(torch.tensor([1, 2])) = tensor([[1, 0], [0, 2]])
torch.diff(torch.tensor([1, 4, 9])) = tensor([3, 5])
torch.div(torch.tensor([7, 9]), 2, rounding_mode="floor") = tensor([3, 4])
torch.dot(torch.tensor([1., 2.]), torch.tensor([3., 4.])) = tensor(11.)
torch.eq(torch.tensor([1, 2]), torch.tensor([1, 3])) = tensor([ True, False])
torch.exp(torch.tensor([0., 1.])) = tensor([1.0000, 2.7183])
torch.eye(2) = tensor([[1., 0.], [0., 1.]])
torch.flatten(torch.zeros(2, 3, 4), start_dim=1).shape = torch.Size([2, 12])
torch.flip(torch.tensor([1, 2, 3]), [0]) = tensor([3, 2, 1])
torch.floor(torch.tensor([0.5, -0.5])) = tensor([ 0., -1.])
torch.full((2,), 7) = tensor([7, 7])
torch.gather(torch.tensor([[1, 2], [3, 4]]), 1, torch.tensor([[0], [1]])) = tensor([[1], [4]])
torch.histc(torch.tensor([1., 2., 1.]), bins=2, min=1, max=2) = tensor([2., 1.])
torch.index_select(torch.tensor([10, 20, 30]), 0, torch.tensor([2, 0])) = tensor([30, 10])
torch.isnan(torch.tensor([1., float("nan")])) = tensor([False,  True])
torch.kron(torch.tensor([1, 2]), torch.tensor([1, 1])) = tensor([1, 1, 2, 2])
torch.lerp(torch.tensor([0.]), torch.tensor([10.]), 0.25) = tensor([2.5000])
torch.linspace(0, 1, 3) = tensor([0.0000, 0.5000, 1.0000])
torch.log(torch.tensor([1.])) = tensor([0.])
torch.log_softmax(torch.tensor([0., 0.]), 0) = tensor([-0.6931, -0.6931])
torch.logsumexp(torch.tensor([0., 0.]), 0) = tensor(0.6931)
torch.masked_select(torch.tensor([1, 2, 3]), torch.tensor([True, False, True])) = tensor([1, 3])
torch.matmul(torch.ones(2, 3), torch.ones(3, 4)).shape = torch.Size([2, 4])
torch.max(torch.tensor([3., 9., 4.])) = tensor(9.)
torch.maximum(torch.tensor([1, 5]), torch.tensor([3, 2])) = tensor([3, 5])
torch.mean(torch.tensor([1., 2., 6.])) = tensor(3.)
torch.median(torch.tensor([1., 5., 3.])) = tensor(3.)
torch.min(torch.tensor([3., 9., 4.])) = tensor(3.)
torch.mm(torch.tensor([[1., 2.]]), torch.tensor([[3.], [4.]])) = tensor([[11.]])
torch.movedim(torch.zeros(2, 3, 4), 0, -1).shape = torch.Size([3, 4, 2])
torch.mul(torch.tensor([1, 2]), 3) = tensor([3, 6])
torch.nan_to_num(torch.tensor([float("nan"), 1.])) = tensor([0., 1.])
torch.neg(torch.tensor([1, -2])) = tensor([-1,  2])
torch.ones(2) = tensor([1., 1.])
torch.outer(torch.tensor([1, 2]), torch.tensor([3, 4])) = tensor([[3, 4], [6, 8]])
torch.permute(torch.zeros(2, 3, 4), (2, 0, 1)).shape = torch.Size([4, 2, 3])
torch.pow(torch.tensor([1, 2, 3]), 2) = tensor([1, 4, 9])
torch.prod(torch.tensor([1, 2, 3, 4])) = tensor(24)
torch.quantile(torch.tensor([0., 1., 2.]), 0.25) = tensor(0.5000)
torch.reciprocal(torch.tensor([4.])) = tensor([0.2500])
torch.relu(torch.tensor([-1., 2.])) = tensor([0., 2.])
torch.remainder(torch.tensor([-3, 3]), 2) = tensor([1, 1])
torch.repeat_interleave(torch.tensor([1, 2]), 2) = tensor([1, 1, 2, 2])
torch.reshape(torch.arange(4), (2, 2)) = tensor([[0, 1], [2, 3]])
torch.roll(torch.tensor([1, 2, 3]), 1) = tensor([3, 1, 2])
torch.round(torch.tensor([0.5, 1.5])) = tensor([0., 2.])
torch.rsqrt(torch.tensor([4.])) = tensor([0.5000])
torch.scatter(torch.zeros(3), 0, torch.tensor([1]), torch.tensor([5.])) = tensor([0., 5., 0.])
torch.searchsorted(torch.tensor([1, 3, 5]), torch.tensor([4])) = tensor([2])
torch.sigmoid(torch.tensor([0.])) = tensor([0.5000])
torch.sign(torch.tensor([-3., 0., 2.])) = tensor([-1.,  0.,  1.])
torch.sin(torch.tensor([0.])) = tensor([0.])
torch.softmax(torch.tensor([0., 0.]), 0) = tensor([0.5000, 0.5000])
torch.sort(torch.tensor([3, 1, 2])).values = tensor([1, 2, 3])
torch.sqrt(torch.tensor([4., 9.])) = tensor([2., 3.])
torch.squeeze(torch.zeros(1, 3, 1)).shape = torch.Size([3])
torch.stack([torch.tensor([1, 2]), torch.tensor([3, 4])]) = tensor([[1, 2], [3, 4]])
torch.std(torch.tensor([1., 2., 3.])) = tensor(1.)
torch.sub(torch.tensor([5, 6]), torch.tensor([1, 2])) = tensor([4, 4])
torch.sum(torch.tensor([[1., 2.], [3., 4.]]), dim=0) = tensor([4., 6.])
torch.take(torch.tensor([10, 20, 30]), torch.tensor([2, 0])) = tensor([30, 10])
torch.tanh(torch.tensor([0.])) = tensor([0.])
torch.tile(torch.tensor([1, 2]), (2,)) = tensor([1, 2, 1, 2])
torch.topk(torch.tensor([1., 9., 4.]), 2).values = tensor([9., 4.])
torch.transpose(torch.zeros(2, 3), 0, 1).shape = torch.Size([3, 2])
torch.tril(torch.ones(2, 2)) = tensor([[1., 0.], [1., 1.]])
torch.triu(torch.ones(2, 2)) = tensor([[1., 1.], [0., 1.]])
torch.unbind(torch.tensor([[1, 2], [3, 4]])) = (tensor([1, 2]), tensor([3, 4]))
torch.unsqueeze(torch.zeros(3), 0).shape = torch.Size([1, 3])
torch.var(torch.tensor([1., 2., 3.])) = tensor(1.)
torch.where(torch.tensor([True, False]), torch.tensor([1, 2]), torch.tensor([9, 9])) = tensor([1, 9])
torch.zeros(2, 3).shape = torch.Size([2, 3])
torch.zeros_like(torch.tensor([1, 2])) = tensor([0, 0])
torch.special.expit(torch.tensor([0.])) = tensor([0.5000])
"""

_MANUAL = """
adaptive_avg_pool1d
    output_size: how many windows.
    Shapes: input (N, C, L) or (C, L); result (N, C, output_size).

    >>> F.adaptive_avg_pool1d(torch.tensor([[1., 2., 3., 4., 5.]]), 2)
    tensor([[2., 4.]])
avg_pool1d
    kernel_size: the window; stride: distance of windows, the window's size by default; padding: zeros on both sides; each is one number.
    ceil_mode: windows that begin inside but end outside count, too; count_include_pad: padding counts as elements.
    Shapes: input (N, C, L) or (C, L); each side of n becomes (n + 2 padding - kernel_size) // stride + 1.

    >>> F.avg_pool1d(torch.tensor([[[1., 3., 5., 7.]]]), 2)
    tensor([[[2., 6.]]])
avg_pool2d
    kernel_size: the window; stride: distance of windows, the window's size by default; padding: zeros on both sides; each is one number or
    2. ceil_mode: windows that begin inside but end outside count, too; count_include_pad: padding counts as elements. divisor_override:
    divide by this number instead.
    Shapes: input (N, C, H, W) or (C, H, W); each side of n becomes (n + 2 padding - kernel_size) // stride + 1.

    >>> F.avg_pool2d(torch.ones(1, 3, 10, 12), 2).shape
    torch.Size([1, 3, 5, 6])
avg_pool3d
    kernel_size: the window; stride: distance of windows, the window's size by default; padding: zeros on both sides; each is one number or
    3. ceil_mode: windows that begin inside but end outside count, too; count_include_pad: padding counts as elements. divisor_override:
    divide by this number instead.
    Shapes: input (N, C, D, H, W) or (C, D, H, W); each side of n becomes (n + 2 padding - kernel_size) // stride + 1.

    >>> F.avg_pool3d(torch.ones(1, 3, 6, 8, 8), 2).shape
    torch.Size([1, 3, 3, 4, 4])
bilinear
    Shapes: input1 (*, in1), input2 (*, in2), weight (out, in1, in2), bias (out) or None; result (*, out).

    >>> F.bilinear(torch.tensor([[1., 2.]]), torch.tensor([[3., 4.]]), torch.ones(1, 2, 2))
    tensor([[21.]])
celu
    alpha: how deep it falls below 0.
    Shape: input may have any; the result has the same.

    >>> F.celu_(torch.tensor([-1., 0., 2.]))
    tensor([-0.6321,  0.0000,  2.0000])
channel_shuffle
    groups: into how many groups the C channels are dealt; it divides C.
    Shape: input (N, C, *); the result has the same.

    >>> F.channel_shuffle(torch.arange(4.).reshape(1, 4, 1, 1), 2).flatten()
    tensor([0., 2., 1., 3.])
conv1d
    weight: one filter per output channel; bias: one number per output channel, or None. stride: distance of windows; padding: zeros added
    on both sides, or "same" or "valid"; dilation: distance of a filter's elements; each of the three is one number. groups: how many groups
    of channels are convolved separately.
    Shapes: input (N, C, L) or (C, L), weight (out, C / groups, k), bias (out); result (N, out, L'), where L' = (L + 2 padding - dilation (k
    - 1) - 1) // stride + 1.

    >>> F.conv1d(torch.ones(2, 4, 10), torch.ones(6, 2, 3), stride=2, padding=1, groups=2).shape
    torch.Size([2, 6, 5])
conv2d
    weight: one filter per output channel; bias: one number per output channel, or None. stride: distance of windows; padding: zeros added
    on both sides, or "same" or "valid"; dilation: distance of a filter's elements; each of the three is one number or 2. groups: how many
    groups of channels are convolved separately.
    Shapes: input (N, C, H, W) or (C, H, W), weight (out, C / groups, kh, kw), bias (out); result (N, out, H', W'), where W' = (W + 2
    padding - dilation (kw - 1) - 1) // stride + 1.

    >>> F.conv2d(torch.ones(2, 4, 10, 12), torch.ones(6, 2, 3, 3), stride=2, padding=1, groups=2).shape
    torch.Size([2, 6, 5, 6])
conv3d
    weight: one filter per output channel; bias: one number per output channel, or None. stride: distance of windows; padding: zeros added
    on both sides, or "same" or "valid"; dilation: distance of a filter's elements; each of the three is one number or 3. groups: how many
    groups of channels are convolved separately.
    Shapes: input (N, C, D, H, W) or (C, D, H, W), weight (out, C / groups, kd, kh, kw), bias (out); result (N, out, D', H', W'), where W' =
    (W + 2 padding - dilation (kw - 1) - 1) // stride + 1.

    >>> F.conv3d(torch.ones(2, 4, 6, 8, 8), torch.ones(6, 2, 3, 3, 3), stride=2, padding=1, groups=2).shape
    torch.Size([2, 6, 3, 4, 4])
conv_tbc
    pad: zeros added at both ends.
    Shapes: input (T, N, in), weight (k, in, out), bias (out); result (T + 2 pad - k + 1, N, out).

    >>> F.conv_tbc(torch.ones(5, 2, 3), torch.ones(3, 3, 4), torch.zeros(4), pad=1).shape
    torch.Size([5, 2, 4])
conv_transpose1d
    weight: the filters of the convolution whose gradient this is; bias: one number per output channel, or None. stride: distance of windows
    in the result; padding: how much is cut off both sides; output_padding: how much longer one side gets; dilation: distance of a filter's
    elements; each is one number. groups: how many groups of channels are treated separately.
    Shapes: input (N, C, L) or (C, L), weight (C, out / groups, k), bias (out); result (N, out, L'), a side of n growing to (n - 1) stride -
    2 padding + dilation (k - 1) + output_padding + 1.

    >>> F.conv_transpose1d(torch.ones(2, 4, 10), torch.ones(4, 3, 3), stride=2, padding=1, output_padding=1).shape
    torch.Size([2, 3, 20])
conv_transpose2d
    weight: the filters of the convolution whose gradient this is; bias: one number per output channel, or None. stride: distance of windows
    in the result; padding: how much is cut off both sides; output_padding: how much longer one side gets; dilation: distance of a filter's
    elements; each is one number or 2. groups: how many groups of channels are treated separately.
    Shapes: input (N, C, H, W) or (C, H, W), weight (C, out / groups, kh, kw), bias (out); result (N, out, H', W'), a side of n growing to
    (n - 1) stride - 2 padding + dilation (k - 1) + output_padding + 1.

    >>> F.conv_transpose2d(torch.ones(2, 4, 10, 12), torch.ones(4, 3, 3, 3), stride=2, padding=1, output_padding=1).shape
    torch.Size([2, 3, 20, 24])
conv_transpose3d
    weight: the filters of the convolution whose gradient this is; bias: one number per output channel, or None. stride: distance of windows
    in the result; padding: how much is cut off both sides; output_padding: how much longer one side gets; dilation: distance of a filter's
    elements; each is one number or 3. groups: how many groups of channels are treated separately.
    Shapes: input (N, C, D, H, W) or (C, D, H, W), weight (C, out / groups, kd, kh, kw), bias (out); result (N, out, D', H', W'), a side of
    n growing to (n - 1) stride - 2 padding + dilation (k - 1) + output_padding + 1.

    >>> F.conv_transpose3d(torch.ones(2, 4, 6, 8, 8), torch.ones(4, 3, 3, 3, 3), stride=2, padding=1, output_padding=1).shape
    torch.Size([2, 3, 12, 16, 16])
cosine_similarity
    dim: along which the vectors lie; eps: the least norm that is divided by.
    Shapes: x1 and x2 broadcast with each other; the result lacks dim.

    >>> F.cosine_similarity(torch.tensor([[1., 0.], [1., 1.]]), torch.tensor([[0., 2.], [3., 3.]]))
    tensor([0., 1.])
elu
    alpha: how deep it falls below 0; scale: a factor for all; input_scale: a factor for what the exponential gets.
    Shape: input may have any; the result has the same.

    >>> F.elu_(torch.tensor([-1., 0., 2.]), alpha=0.5)
    tensor([-0.3161,  0.0000,  2.0000])
fft_fft
    Discrete Fourier transform. n: cut off or add zeros to this length first (for irfft and hfft: the result's length); dim: along which.
    norm: which direction is scaled: "forward" by 1 / n, "backward" (the inverse by 1 / n, the default), or "ortho" (both by 1 / sqrt(n)).
    Shapes: along dim input real or complex; result complex, n long; other dimensions stay.

    >>> torch.fft.fft(torch.tensor([1., 2., 3., 4.]))
    tensor([10.+0.j, -2.+2.j, -2.+0.j, -2.-2.j])
fft_fft2
    Discrete Fourier transform. s: the size in each of dim, reached by cutting off or adding zeros (for irfft2 and hfft2: of the result);
    dim: the last two by default. norm: which direction is scaled: "forward" by 1 / n, "backward" (the inverse by 1 / n, the default), or
    "ortho" (both by 1 / sqrt(n)).
    Shapes: along the last of dim input real or complex; result complex, n long; other dimensions stay.

    >>> torch.fft.fft2(torch.ones(4, 6)).shape
    torch.Size([4, 6])
fft_fftfreq
    n: the transform's length; d: the distance of two samples.
    Shape: result (n): 0, 1, ..., -2, -1, each divided by n d.

    >>> torch.fft.fftfreq(4, d=0.5)
    tensor([ 0.0000,  0.5000, -1.0000, -0.5000])
fft_fftn
    Discrete Fourier transform. s: the size in each of dim, reached by cutting off or adding zeros (for irfftn and hfftn: of the result);
    dim: all, or as many of the last as s has, by default. norm: which direction is scaled: "forward" by 1 / n, "backward" (the inverse by 1
    / n, the default), or "ortho" (both by 1 / sqrt(n)).
    Shapes: along the last of dim input real or complex; result complex, n long; other dimensions stay.

    >>> torch.fft.fftn(torch.ones(4, 6)).shape
    torch.Size([4, 6])
fft_fftshift
    dim: one or several dimensions, all by default.
    Shape: any input; the result has its shape.

    >>> torch.fft.fftshift(torch.fft.fftfreq(4))
    tensor([-0.5000, -0.2500,  0.0000,  0.2500])
fft_hfft
    Transform of a signal that is real in the other domain, of which half is given. n: cut off or add zeros to this length first (for irfft
    and hfft: the result's length); dim: along which. norm: which direction is scaled: "forward" by 1 / n, "backward" (the inverse by 1 / n,
    the default), or "ortho" (both by 1 / sqrt(n)).
    Shapes: along dim input complex, n // 2 + 1 long; result real, n long, by default an even size; other dimensions stay.

    >>> torch.fft.hfft(torch.tensor([1., 0., 1.]))
    tensor([2., 0., 2., 0.])
fft_hfft2
    Transform of a signal that is real in the other domain, of which half is given. s: the size in each of dim, reached by cutting off or
    adding zeros (for irfft2 and hfft2: of the result); dim: the last two by default. norm: which direction is scaled: "forward" by 1 / n,
    "backward" (the inverse by 1 / n, the default), or "ortho" (both by 1 / sqrt(n)).
    Shapes: along the last of dim input complex, n // 2 + 1 long; result real, n long, by default an even size; other dimensions stay.

    >>> torch.fft.hfft2(torch.ones(4, 4)).shape
    torch.Size([4, 6])
fft_hfftn
    Transform of a signal that is real in the other domain, of which half is given. s: the size in each of dim, reached by cutting off or
    adding zeros (for irfftn and hfftn: of the result); dim: all, or as many of the last as s has, by default. norm: which direction is
    scaled: "forward" by 1 / n, "backward" (the inverse by 1 / n, the default), or "ortho" (both by 1 / sqrt(n)).
    Shapes: along the last of dim input complex, n // 2 + 1 long; result real, n long, by default an even size; other dimensions stay.

    >>> torch.fft.hfftn(torch.ones(4, 4)).shape
    torch.Size([4, 6])
fft_ifft
    Inverse of fft. n: cut off or add zeros to this length first (for irfft and hfft: the result's length); dim: along which. norm: which
    direction is scaled: "forward" by 1 / n, "backward" (the inverse by 1 / n, the default), or "ortho" (both by 1 / sqrt(n)).
    Shapes: along dim input real or complex; result complex, n long; other dimensions stay.

    >>> torch.fft.ifft(torch.tensor([10., 0., 0., 0.])).real
    tensor([2.5000, 2.5000, 2.5000, 2.5000])
fft_ifft2
    Inverse of fft. s: the size in each of dim, reached by cutting off or adding zeros (for irfft2 and hfft2: of the result); dim: the last
    two by default. norm: which direction is scaled: "forward" by 1 / n, "backward" (the inverse by 1 / n, the default), or "ortho" (both by
    1 / sqrt(n)).
    Shapes: along the last of dim input real or complex; result complex, n long; other dimensions stay.

    >>> torch.fft.ifft2(torch.ones(4, 6)).shape
    torch.Size([4, 6])
fft_ifftn
    Inverse of fft. s: the size in each of dim, reached by cutting off or adding zeros (for irfftn and hfftn: of the result); dim: all, or
    as many of the last as s has, by default. norm: which direction is scaled: "forward" by 1 / n, "backward" (the inverse by 1 / n, the
    default), or "ortho" (both by 1 / sqrt(n)).
    Shapes: along the last of dim input real or complex; result complex, n long; other dimensions stay.

    >>> torch.fft.ifftn(torch.ones(4, 6)).shape
    torch.Size([4, 6])
fft_ifftshift
    dim: one or several dimensions, all by default.
    Shape: any input; the result has its shape.

    >>> torch.fft.ifftshift(torch.tensor([-2, -1, 0, 1]))
    tensor([ 0,  1, -2, -1])
fft_ihfft
    Inverse of hfft. n: cut off or add zeros to this length first (for irfft and hfft: the result's length); dim: along which. norm: which
    direction is scaled: "forward" by 1 / n, "backward" (the inverse by 1 / n, the default), or "ortho" (both by 1 / sqrt(n)).
    Shapes: along dim input real; result complex, n // 2 + 1 long; other dimensions stay.

    >>> torch.fft.ihfft(torch.tensor([4., 0., 0., 0.]))
    tensor([1.-0.j, 1.-0.j, 1.-0.j])
fft_ihfft2
    Inverse of hfft. s: the size in each of dim, reached by cutting off or adding zeros (for irfft2 and hfft2: of the result); dim: the last
    two by default. norm: which direction is scaled: "forward" by 1 / n, "backward" (the inverse by 1 / n, the default), or "ortho" (both by
    1 / sqrt(n)).
    Shapes: along the last of dim input real; result complex, n // 2 + 1 long; other dimensions stay.

    >>> torch.fft.ihfft2(torch.ones(4, 6)).shape
    torch.Size([4, 4])
fft_ihfftn
    Inverse of hfft. s: the size in each of dim, reached by cutting off or adding zeros (for irfftn and hfftn: of the result); dim: all, or
    as many of the last as s has, by default. norm: which direction is scaled: "forward" by 1 / n, "backward" (the inverse by 1 / n, the
    default), or "ortho" (both by 1 / sqrt(n)).
    Shapes: along the last of dim input real; result complex, n // 2 + 1 long; other dimensions stay.

    >>> torch.fft.ihfftn(torch.ones(4, 6)).shape
    torch.Size([4, 4])
fft_irfft
    Inverse of rfft; the size of the result should be said where it is odd. n: cut off or add zeros to this length first (for irfft and
    hfft: the result's length); dim: along which. norm: which direction is scaled: "forward" by 1 / n, "backward" (the inverse by 1 / n, the
    default), or "ortho" (both by 1 / sqrt(n)).
    Shapes: along dim input complex, n // 2 + 1 long; result real, n long, by default an even size; other dimensions stay.

    >>> torch.fft.irfft(torch.tensor([10., 0., -2.]))
    tensor([2., 3., 2., 3.])
fft_irfft2
    Inverse of rfft; the size of the result should be said where it is odd. s: the size in each of dim, reached by cutting off or adding
    zeros (for irfft2 and hfft2: of the result); dim: the last two by default. norm: which direction is scaled: "forward" by 1 / n,
    "backward" (the inverse by 1 / n, the default), or "ortho" (both by 1 / sqrt(n)).
    Shapes: along the last of dim input complex, n // 2 + 1 long; result real, n long, by default an even size; other dimensions stay.

    >>> torch.fft.irfft2(torch.ones(4, 4)).shape
    torch.Size([4, 6])
fft_irfftn
    Inverse of rfft; the size of the result should be said where it is odd. s: the size in each of dim, reached by cutting off or adding
    zeros (for irfftn and hfftn: of the result); dim: all, or as many of the last as s has, by default. norm: which direction is scaled:
    "forward" by 1 / n, "backward" (the inverse by 1 / n, the default), or "ortho" (both by 1 / sqrt(n)).
    Shapes: along the last of dim input complex, n // 2 + 1 long; result real, n long, by default an even size; other dimensions stay.

    >>> torch.fft.irfftn(torch.ones(4, 4)).shape
    torch.Size([4, 6])
fft_rfft
    Discrete Fourier transform of real numbers: the half that is not its own mirror. n: cut off or add zeros to this length first (for irfft
    and hfft: the result's length); dim: along which. norm: which direction is scaled: "forward" by 1 / n, "backward" (the inverse by 1 / n,
    the default), or "ortho" (both by 1 / sqrt(n)).
    Shapes: along dim input real; result complex, n // 2 + 1 long; other dimensions stay.

    >>> torch.fft.rfft(torch.tensor([1., 2., 3., 4.]))
    tensor([10.+0.j, -2.+2.j, -2.+0.j])
fft_rfft2
    Discrete Fourier transform of real numbers: the half that is not its own mirror. s: the size in each of dim, reached by cutting off or
    adding zeros (for irfft2 and hfft2: of the result); dim: the last two by default. norm: which direction is scaled: "forward" by 1 / n,
    "backward" (the inverse by 1 / n, the default), or "ortho" (both by 1 / sqrt(n)).
    Shapes: along the last of dim input real; result complex, n // 2 + 1 long; other dimensions stay.

    >>> torch.fft.rfft2(torch.ones(4, 6)).shape
    torch.Size([4, 4])
fft_rfftfreq
    n: the transform's length; d: the distance of two samples.
    Shape: result (n // 2 + 1): 0, 1, ..., each divided by n d.

    >>> torch.fft.rfftfreq(4, d=0.5)
    tensor([0.0000, 0.5000, 1.0000])
fft_rfftn
    Discrete Fourier transform of real numbers: the half that is not its own mirror. s: the size in each of dim, reached by cutting off or
    adding zeros (for irfftn and hfftn: of the result); dim: all, or as many of the last as s has, by default. norm: which direction is
    scaled: "forward" by 1 / n, "backward" (the inverse by 1 / n, the default), or "ortho" (both by 1 / sqrt(n)).
    Shapes: along the last of dim input real; result complex, n // 2 + 1 long; other dimensions stay.

    >>> torch.fft.rfftn(torch.ones(4, 6)).shape
    torch.Size([4, 4])
gelu
    approximate: "none", or "tanh" for the cheaper formula.
    Shape: input may have any; the result has the same.

    >>> F.gelu(torch.tensor([-1., 0., 2.]))
    tensor([-0.1587,  0.0000,  1.9545])
hardshrink
    lambd: what is not larger in absolute value becomes 0.
    Shape: input may have any; the result has the same.

    >>> F.hardshrink(torch.tensor([-1., 0.3, 0.7]))
    tensor([-1.0000,  0.0000,  0.7000])
hardtanh
    min_val, max_val: the ends of the interval.
    Shape: input may have any; the result has the same.

    >>> F.hardtanh_(torch.tensor([-3., 0.5, 2.]))
    tensor([-1.0000,  0.5000,  1.0000])
leaky_relu
    negative_slope: the factor of negative elements.
    Shape: input may have any; the result has the same.

    >>> F.leaky_relu_(torch.tensor([-100., 5.]))
    tensor([-1.,  5.])
linalg_cholesky
    input: Hermitian (symmetric when real) and positive-definite; only one triangle is read. upper: give the conjugate transpose of L.
    Shapes: input (*, n, n); result (*, n, n).

    >>> torch.linalg.cholesky(torch.tensor([[4., 2.], [2., 3.]]))
    tensor([[2.0000, 0.0000],
            [1.0000, 1.4142]])
linalg_cholesky_ex
    upper: give the conjugate transpose of L; check_errors: raise LinAlgError as linalg.cholesky does.
    Shapes: input (*, n, n); L (*, n, n), info (*), int32.

    >>> torch.linalg.cholesky_ex(torch.tensor([[4., 2.], [2., 3.]])).info
    tensor(0, dtype=torch.int32)
linalg_cond
    p: None for the ratio of largest to smallest singular value, 2, -2, "fro", "nuc", 1, -1, inf or -inf.
    Shapes: input (*, n, n), or (*, m, n) where p is None, 2 or -2; result (*).

    >>> torch.linalg.cond(torch.tensor([[4., 0.], [0., 2.]]))
    tensor(2.)
linalg_cross
    dim: of size 3, in both.
    Shapes: input and other broadcast with each other, as does the result.

    >>> torch.linalg.cross(torch.tensor([1., 0., 0.]), torch.tensor([0., 1., 0.]))
    tensor([0., 0., 1.])
linalg_det
    Shapes: A (*, n, n); result (*).

    >>> torch.linalg.det(torch.tensor([[2., 1.], [1., 3.]]))
    tensor(5.)
linalg_diagonal
    offset: which diagonal, above (positive) or below the main one; dim1, dim2: rows and columns.
    Shapes: A (*, m, n); result (*, k), a view.

    >>> torch.linalg.diagonal(torch.arange(9).reshape(3, 3), offset=1)
    tensor([1, 5])
linalg_eig
    Shapes: input (*, n, n); eigenvalues (*, n) and eigenvectors (*, n, n), both complex; column i of the vectors belongs to value i.

    >>> torch.linalg.eig(torch.tensor([[0., -1.], [1., 0.]])).eigenvalues
    tensor([0.+1.j, 0.-1.j])
linalg_eigh
    UPLO: "L" or "U", the triangle that is read.
    Shapes: input (*, n, n); eigenvalues (*, n), real, and eigenvectors (*, n, n) as columns.

    >>> torch.linalg.eigh(torch.tensor([[2., 1.], [1., 2.]])).eigenvalues
    tensor([1., 3.])
linalg_eigvals
    Shapes: input (*, n, n); result (*, n), complex.

    >>> torch.linalg.eigvals(torch.tensor([[2., 0.], [0., 2.]]))
    tensor([2.+0.j, 2.+0.j])
linalg_eigvalsh
    UPLO: "L" or "U", the triangle that is read.
    Shapes: input (*, n, n); result (*, n), real.

    >>> torch.linalg.eigvalsh(torch.tensor([[2., 1.], [1., 2.]]))
    tensor([1., 3.])
linalg_householder_product
    tau: the factors of the reflectors, whose vectors stand below the diagonal of input.
    Shapes: input (*, m, n) with m >= n, tau (*, k) with k <= n; result (*, m, n).

    >>> torch.linalg.householder_product(torch.ones(3, 2), torch.ones(2)).shape
    torch.Size([3, 2])
linalg_inv
    Shapes: A (*, n, n); result (*, n, n).

    >>> torch.linalg.inv(torch.tensor([[2., 0.], [0., 4.]]))
    tensor([[0.5000, 0.0000],
            [0.0000, 0.2500]])
linalg_inv_ex
    check_errors: raise LinAlgError as linalg.inv does.
    Shapes: A (*, n, n); inverse (*, n, n), info (*), int32, 0 where it succeeded.

    >>> torch.linalg.inv_ex(torch.zeros(2, 2)).info
    tensor(1, dtype=torch.int32)
linalg_ldl_factor
    hermitian: whether a complex matrix is Hermitian instead of symmetric.
    Shapes: input (*, n, n); LD (*, n, n), pivots (*, n), int32.

    >>> LD, pivots = torch.linalg.ldl_factor(torch.tensor([[4., 2.], [2., 3.]]))
    >>> torch.linalg.ldl_solve(LD, pivots, torch.tensor([[8.], [8.]]))
    tensor([[1.],
            [2.]])
linalg_ldl_factor_ex
    hermitian: whether a complex matrix is Hermitian instead of symmetric. check_errors: raise an error for singular matrices.
    Shapes: input (*, n, n); LD (*, n, n), pivots (*, n), int32, info (*), int32.

    >>> LD, pivots, info = torch.linalg.ldl_factor_ex(torch.tensor([[4., 2.], [2., 3.]]))
    >>> torch.linalg.ldl_solve(LD, pivots, torch.tensor([[8.], [8.]]))
    tensor([[1.],
            [2.]])
linalg_ldl_solve
    LD, pivots: of linalg.ldl_factor; hermitian: as it was there.
    Shapes: LD (*, n, n), pivots (*, n), B (*, n, k); result (*, n, k).

    >>> LD, pivots = torch.linalg.ldl_factor(torch.tensor([[4., 2.], [2., 3.]]))
    >>> torch.linalg.ldl_solve(LD, pivots, torch.tensor([[8.], [8.]]))
    tensor([[1.],
            [2.]])
linalg_lstsq
    b: the right sides; rcond: singular values below rcond times the largest count as 0 when the rank is decided; driver: LAPACK's routine,
    "gelsy" by default, "gels", "gelsd" or "gelss".
    Shapes: input (*, m, n), b (*, m, k); solution (*, n, k), residuals (*, k) or empty, rank (*), singular_values (*, min(m, n)) or empty.

    >>> torch.linalg.lstsq(torch.tensor([[1., 0.], [1., 1.], [1., 2.]]), torch.tensor([[1.], [3.], [5.]])).solution.round(decimals=3)
    tensor([[1.],
            [2.]])
linalg_lu
    pivot: whether rows are exchanged; False works on CUDA only.
    Shapes: A (*, m, n); P (*, m, m), L (*, m, k), U (*, k, n), k = min(m, n).

    >>> P, L, U = torch.linalg.lu(torch.tensor([[1., 2.], [4., 4.]]))
    >>> P @ L @ U
    tensor([[1., 2.],
            [4., 4.]])
linalg_lu_factor
    pivot: whether rows are exchanged; False works on CUDA only.
    Shapes: A (*, m, n); LU (*, m, n), pivots (*, min(m, n)), int32.

    >>> LU, pivots = torch.linalg.lu_factor(torch.tensor([[1., 2.], [4., 4.]]))
    >>> LU, pivots
    (tensor([[4.0000, 4.0000],
            [0.2500, 1.0000]]), tensor([2, 2], dtype=torch.int32))
linalg_lu_factor_ex
    pivot: whether rows are exchanged; False works on CUDA only. check_errors: raise an error for singular matrices.
    Shapes: A (*, m, n); LU (*, m, n), pivots (*, min(m, n)), int32, info (*), int32.

    >>> LU, pivots, info = torch.linalg.lu_factor_ex(torch.tensor([[1., 2.], [4., 4.]]))
    >>> LU, pivots
    (tensor([[4.0000, 4.0000],
            [0.2500, 1.0000]]), tensor([2, 2], dtype=torch.int32))
linalg_lu_solve
    LU, pivots: of linalg.lu_factor; left: False for X A = B; adjoint: solve with the conjugate transpose of A.
    Shapes: LU (*, n, n), pivots (*, n), B (*, n, k); result (*, n, k).

    >>> LU, pivots = torch.linalg.lu_factor(torch.tensor([[2., 0.], [0., 4.]]))
    >>> torch.linalg.lu_solve(LU, pivots, torch.tensor([[2.], [2.]]))
    tensor([[1.0000],
            [0.5000]])
linalg_matmul
    Shapes: input (*, n, m) or (m), other (*, m, p) or (m); result (*, n, p), less the dimensions that a vector lacks.

    >>> torch.linalg.matmul(torch.ones(2, 3), torch.ones(3, 4)).shape
    torch.Size([2, 4])
linalg_matrix_exp
    Shapes: input (*, n, n); result (*, n, n).

    >>> torch.linalg.matrix_exp(torch.tensor([[0., 1.], [0., 0.]]))
    tensor([[1., 1.],
            [0., 1.]])
linalg_matrix_norm
    ord: "fro", "nuc", inf, -inf (largest and smallest row sum), 1, -1 (column sum), 2, -2 (singular value). dim: rows and columns; keepdim:
    keep them with size 1; dtype: compute in it.
    Shapes: input (*, m, n); result (*).

    >>> torch.linalg.matrix_norm(torch.tensor([[1., -7.], [2., 3.]]), ord=float("inf"))
    tensor(8.)
linalg_matrix_power
    n: the power, any integer.
    Shapes: input (*, k, k); result (*, k, k).

    >>> torch.linalg.matrix_power(torch.tensor([[1., 1.], [0., 1.]]), 5)
    tensor([[1., 5.],
            [0., 1.]])
linalg_matrix_rank
    atol, rtol: absolute and relative tolerance, 0 and max(m, n) times the dtype's epsilon by default; hermitian: take absolute eigenvalues,
    which is faster.
    Shapes: input (*, m, n); result (*), int64.

    >>> torch.linalg.matrix_rank(torch.tensor([[1., 2.], [2., 4.]]))
    tensor(1)
linalg_multi_dot
    tensors: two matrices or more, whose sizes fit one after the other.
    Shapes: (m, a), (a, b), ..., (z, n); result (m, n), less a dimension for each end that is a vector.

    >>> torch.linalg.multi_dot([torch.ones(2, 3), torch.ones(3, 4), torch.ones(4)])
    tensor([12., 12.])
linalg_norm
    ord: the 2-norm of all elements by default; else as linalg.matrix_norm has it for two dims, and linalg.vector_norm for one. dim: one or
    two; keepdim: keep them with size 1; dtype: compute in it.
    Shapes: any input; the result lacks dim.

    >>> torch.linalg.norm(torch.tensor([[3., 4.], [0., 5.]]), dim=1)
    tensor([5., 5.])
linalg_pinv
    atol, rtol: absolute and relative tolerance, 0 and max(m, n) times the dtype's epsilon by default; hermitian: the matrix is Hermitian.
    Shapes: input (*, m, n); result (*, n, m).

    >>> torch.linalg.pinv(torch.tensor([[2., 0.], [0., 0.]]))
    tensor([[0.5000, 0.0000],
            [0.0000, 0.0000]])
linalg_qr
    mode: "reduced", "complete" for a square Q, or "r" for an empty Q.
    Shapes: A (*, m, n); Q (*, m, k), R (*, k, n), k = min(m, n), or m when complete.

    >>> Q, R = torch.linalg.qr(torch.ones(4, 2))
    >>> Q.shape, R.shape
    (torch.Size([4, 2]), torch.Size([2, 2]))
linalg_slogdet
    Shapes: A (*, n, n); sign (*), logabsdet (*).

    >>> torch.linalg.slogdet(torch.tensor([[-2., 0.], [0., 1.]]))
    torch.return_types.linalg_slogdet(
    sign=tensor(-1.),
    logabsdet=tensor(0.6931))
linalg_solve
    left: False for X A = B.
    Shapes: A (*, n, n), B (*, n, k) or (*, n); result like B.

    >>> torch.linalg.solve(torch.tensor([[2., 0.], [0., 4.]]), torch.tensor([2., 4.]))
    tensor([1., 1.])
linalg_solve_ex
    left: False for X A = B. check_errors: raise LinAlgError as linalg.solve does.
    Shapes: A (*, n, n), B (*, n, k) or (*, n); result like B; info (*), int32.

    >>> torch.linalg.solve_ex(torch.tensor([[2., 0.], [0., 4.]]), torch.tensor([2., 4.]))
    torch.return_types.linalg_solve_ex(
    result=tensor([1., 1.]),
    info=tensor(0, dtype=torch.int32))
linalg_solve_triangular
    upper: which triangle of input is read; left: False for X self = B; unitriangular: the diagonal counts as ones.
    Shapes: input (*, n, n), B (*, n, k); result (*, n, k).

    >>> torch.linalg.solve_triangular(torch.tensor([[2., 0.], [1., 1.]]), torch.tensor([[4.], [5.]]), upper=False)
    tensor([[2.],
            [3.]])
linalg_svd
    full_matrices: square U and Vh; driver: an algorithm of CUDA's.
    Shapes: A (*, m, n); U (*, m, k), S (*, k), descending, Vh (*, k, n), k = min(m, n) unless full.

    >>> torch.linalg.svd(torch.tensor([[3., 0.], [0., 4.]])).S
    tensor([4., 3.])
linalg_svdvals
    driver: an algorithm of CUDA's.
    Shapes: A (*, m, n); result (*, min(m, n)).

    >>> torch.linalg.svdvals(torch.tensor([[3., 0.], [0., 4.]]))
    tensor([4., 3.])
linalg_tensorinv
    ind: how many of the first dimensions are on the left.
    Shapes: the first ind sizes of input have the product of the others; result: the others, then the first.

    >>> torch.linalg.tensorinv(torch.eye(4).reshape(4, 2, 2), ind=1).shape
    torch.Size([2, 2, 4])
linalg_tensorsolve
    dims: dimensions of input that are moved to its end before.
    Shapes: input (other's sizes, X's sizes), both of equal product; result: X's sizes.

    >>> torch.linalg.tensorsolve(2 * torch.eye(4).reshape(4, 2, 2), torch.ones(4))
    tensor([[0.5000, 0.5000],
            [0.5000, 0.5000]])
linalg_vander
    N: how many powers, the length of x by default.
    Shapes: x (*, n); result (*, n, N).

    >>> torch.linalg.vander(torch.tensor([1, 2, 3]), N=4)
    tensor([[ 1,  1,  1,  1],
            [ 1,  2,  4,  8],
            [ 1,  3,  9, 27]])
linalg_vecdot
    dim: along which the vectors lie.
    Shapes: x and y broadcast with each other; the result lacks dim.

    >>> torch.linalg.vecdot(torch.tensor([[1., 2.], [3., 4.]]), torch.tensor([1., 10.]))
    tensor([21., 43.])
linalg_vector_norm
    ord: any number, inf or -inf; dim: one, several, or None for all elements; keepdim: keep them with size 1; dtype: compute in it.
    Shapes: any input; the result lacks dim.

    >>> torch.linalg.vector_norm(torch.tensor([3., -4.]), ord=1)
    tensor(7.)
linear
    Shapes: input (*, in), weight (out, in) or (in), bias (out) or None; result (*, out), or (*) when weight is a vector.

    >>> F.linear(torch.tensor([[1., 2.]]), torch.tensor([[1., 1.], [0., 2.]]), torch.tensor([0., 10.]))
    tensor([[ 3., 14.]])
log_sigmoid
    Shape: input may have any; the result has the same.

    >>> F.logsigmoid(torch.tensor([-2., 0., 2.]))
    tensor([-2.1269, -0.6931, -0.1269])
native_channel_shuffle
    groups: into how many groups the C channels are dealt; it divides C.
    Shape: input (N, C, *); the result has the same.

    >>> F.native_channel_shuffle(torch.arange(4.).reshape(1, 4, 1, 1), 2).flatten()
    tensor([0., 2., 1., 3.])
one_hot
    num_classes: how many classes, or -1: one more than the largest number.
    Shapes: input (*), int64; result (*, num_classes), int64.

    >>> F.one_hot(torch.tensor([2, 0]), num_classes=3)
    tensor([[0, 0, 1],
            [1, 0, 0]])
pairwise_distance
    p: which norm; eps: added to each difference; keepdim: keep the last dimension with size 1.
    Shapes: x1 and x2 (N, D) or (D), broadcast; result (N), or (N, 1) with keepdim.

    >>> F.pairwise_distance(torch.tensor([[0., 0.]]), torch.tensor([[3., 4.]]))
    tensor([5.0000])
pdist
    p: which norm.
    Shapes: input (N, M); result (N (N - 1) / 2): the pairs (0, 1), (0, 2), ..., (1, 2), ...

    >>> F.pdist(torch.tensor([[0., 0.], [3., 4.], [0., 1.]]))
    tensor([5.0000, 1.0000, 4.2426])
pixel_shuffle
    upscale_factor: r, by which height and width grow.
    Shapes: input (*, C r r, H, W); result (*, C, H r, W r).

    >>> F.pixel_shuffle(torch.arange(4.).reshape(1, 4, 1, 1), 2)
    tensor([[[[0., 1.],
              [2., 3.]]]])
pixel_unshuffle
    downscale_factor: r, by which height and width shrink.
    Shapes: input (*, C, H r, W r); result (*, C r r, H, W).

    >>> F.pixel_unshuffle(torch.zeros(1, 3, 8, 8), 2).shape
    torch.Size([1, 12, 4, 4])
prelu
    weight: the slope of negative elements, one for all or one per channel.
    Shapes: input (N, C, *), weight (1) or (C); the result is like input.

    >>> F.prelu(torch.tensor([[-2., 3.]]), torch.tensor([0.5]))
    tensor([[-1.,  3.]])
relu_
    Shape: any; the result is input itself.

    >>> F.relu_(torch.tensor([-1., 2.]))
    tensor([0., 2.])
rrelu
    lower, upper: between them slopes are drawn; training: draw them, else their mean is used; generator: the source of random numbers.
    Shape: input may have any; the result has the same.

    >>> F.rrelu_(torch.tensor([-48., 1.]))
    tensor([-11.,   1.])
scaled_dot_product_attention
    attn_mask: bool (True: attend) or numbers that are added to the scores; dropout_p: the probability that a weight is dropped, also
    outside of training; is_causal: position i sees positions up to i only; scale: the factor of the scores, 1 / sqrt(E) by default;
    enable_gqa: key and value may have fewer heads, each serving several of query's.
    Shapes: query (N, heads, L, E), key (N, heads, S, E), value (N, heads, S, V), attn_mask broadcasting to (N, heads, L, S); result (N,
    heads, L, V). The leading dimensions may be others.

    >>> q, k, v = torch.zeros(1, 2, 3, 4), torch.zeros(1, 2, 3, 4), torch.arange(6.).reshape(1, 2, 3, 1)
    >>> F.scaled_dot_product_attention(q, k, v, is_causal=True)[0, 0, :, 0]
    tensor([0.0000, 0.5000, 1.0000])
selu_
    Shape: any; the result is input itself.

    >>> F.selu_(torch.tensor([-1., 0., 2.]))
    tensor([-1.1113,  0.0000,  2.1014])
softplus
    beta: how sharp the bend is; threshold: where beta x is above it, x itself is taken.
    Shape: input may have any; the result has the same.

    >>> F.softplus(torch.tensor([-1., 0., 30.]))
    tensor([ 0.3133,  0.6931, 30.0000])
softshrink
    lambd: how far elements move towards 0.
    Shape: input may have any; the result has the same.

    >>> F.softshrink(torch.tensor([-1., 0.25, 2.]))
    tensor([-0.5000,  0.0000,  1.5000])
threshold
    threshold: what is not above it, value replaces.
    Shape: input may have any; the result has the same.

    >>> F.threshold_(torch.tensor([0.5, 2.]), 1., 20.)
    tensor([20.,  2.])
"""


def every():
    """(operation, expression, what it gives) of each line of _EXAMPLES; a result of several lines stands in one."""
    for line in _EXAMPLES.strip().splitlines():
        expression, _, result = line.rpartition(" = ")
        yield expression[len("torch."):expression.index("(")].replace(".", "_"), expression, result


def of(name):
    """The paragraph or the example of an operation, as the last lines of its description, or nothing."""
    for key in (name, name.rstrip("_")):    # an in-place form that differs has its own
        found = re.search("^%s\n((?:    .*\n|\n)+)" % key, _MANUAL, re.M)
        if found:
            return "\n\n" + textwrap.dedent(found[1]).rstrip()
    for operation, expression, result in every():
        if operation == name.rstrip("_"):
            return "\n\nExample::\n\n    >>> %s\n    %s" % (expression, result)
    return ""
