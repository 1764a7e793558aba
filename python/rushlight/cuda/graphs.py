"""CUDA graphs: work of a device is recorded once and launched again as a whole."""
import rushlight as torch
from rushlight import _C

__all__ = ["is_current_stream_capturing", "graph_pool_handle", "CUDAGraph", "graph", "make_graphed_callables"]


def is_current_stream_capturing():
    """Whether the current stream is recorded: never before a device is used."""
    return _C._cuda_isCurrentStreamCapturing()


def graph_pool_handle():
    """The number of a new pool of memory, that several graphs may have together."""
    torch.cuda._lazy_init()
    return _C._graph_pool_handle()


class CUDAGraph(_C._CUDAGraph):
    """What a stream is given between capture_begin() and capture_end(), to be replayed.

    keep_graph: instantiate() is called by the program, or by the first replay(), and raw_cuda_graph() shows what may be changed before.
    """

    def __new__(cls, keep_graph=False):
        torch.cuda._lazy_init()
        self = super().__new__(cls, keep_graph)
        self._tracker = None
        return self

    def capture_begin(self, pool=None, capture_error_mode="global", check_input_liveness=False):
        """Record what the current stream is given; pool: that of another graph, whose memory it may use again."""
        if check_input_liveness:
            raise NotImplementedError("torch.cuda.CUDAGraph: check_input_liveness is not supported")
        super().capture_begin(pool, capture_error_mode)

    def get_graph_data(self):
        raise RuntimeError("get_graph_data requires the cuda.bindings package")


class graph:
    """Context manager: work inside is recorded, on a stream of its own."""

    default_capture_stream = None

    def __init__(self, cuda_graph, pool=None, stream=None, capture_error_mode="global", enable_annotations=False,
                 check_input_liveness=False):
        if enable_annotations:
            raise NotImplementedError("torch.cuda.graph: enable_annotations is not supported")
        if stream is None:
            if type(self).default_capture_stream is None:
                type(self).default_capture_stream = torch.cuda.Stream()
            stream = type(self).default_capture_stream
        self.pool = () if pool is None else (pool,)
        self.capture_stream, self.stream_ctx = stream, torch.cuda.stream(stream)
        self.cuda_graph, self.capture_error_mode = cuda_graph, capture_error_mode
        self.check_input_liveness = check_input_liveness

    def __enter__(self):
        torch.cuda.synchronize()
        torch.cuda.empty_cache()  # what nobody holds may go to the graph's pool
        self.stream_ctx.__enter__()
        try:
            self.cuda_graph.capture_begin(*self.pool, capture_error_mode=self.capture_error_mode,
                                          check_input_liveness=self.check_input_liveness)
        except BaseException:
            self.stream_ctx.__exit__(None, None, None)
            raise

    def __exit__(self, *error):
        try:
            self.cuda_graph.capture_end()
        finally:
            self.stream_ctx.__exit__(*error)


def make_graphed_callables(callables, sample_args, num_warmup_iters=3, allow_unused_input=False, pool=None):
    """Functions or modules whose passes, forward and back, are graphs; several share a pool and are to run in their order.

    sample_args: a tuple of tensors for each, of the sizes, dtypes and requires_grad that are given later.
    """
    if torch.is_autocast_enabled() and torch.is_autocast_cache_enabled():
        raise RuntimeError("make_graphed_callables does not support the autocast caching. Please set `cache_enabled=False`.")
    alone = not isinstance(callables, tuple)
    if alone:
        callables, sample_args = (callables,), (sample_args,)
    pool = graph_pool_handle() if pool is None else pool
    passes = [_Pass(f, args, allow_unused_input) for f, args in zip(callables, sample_args)]

    torch.cuda.synchronize()
    with torch.cuda.stream(torch.cuda.Stream()):  # what is made at first use is made here
        for one in passes:
            one.warm_up(num_warmup_iters)
    torch.cuda.synchronize()
    for one in passes:
        one.capture_forward(pool)
    for one in reversed(passes):
        one.capture_backward(pool)
    made = tuple(one.graphed() for one in passes)
    return made[0] if alone else made


class _Pass:
    """One callable of make_graphed_callables: the tensors that its two graphs read and write."""

    def __init__(self, f, args, allow_unused):
        tree = torch.utils._pytree
        self.f, self.args, self.allow_unused = f, args, allow_unused
        parameters = ()
        if isinstance(f, torch.nn.Module):
            if f._backward_hooks or f._forward_hooks or f._forward_pre_hooks:
                raise AssertionError("Modules must not have hooks registered at the time they are passed. However, registering hooks "
                                     "on modules after passing them through make_graphed_callables is allowed.")
            if any(b.requires_grad for b in f.buffers()):
                raise AssertionError("In any :class:`~torch.nn.Module` passed to :func:`~make_graphed_callables`, only parameters "
                                     "may be trainable. All buffers must have ``requires_grad=False``.")
            parameters = tuple(f.parameters())
        given = tuple(tree.arg_tree_leaves(*args))
        if not all(isinstance(arg, torch.Tensor) for arg in given):
            raise AssertionError("In the beta API, sample_args for each callable must contain only Tensors. Other types are not allowed.")
        self.parameters, self.n, self.inputs = parameters, len(given), given + parameters
        self.wanted = tuple(t for t in self.inputs if t.requires_grad)
        self.forward_graph, self.backward_graph = CUDAGraph(), CUDAGraph()

    def grads(self, outputs, given):
        """The inputs' gradients, where there are any."""
        outputs = tuple(o for o in outputs if o.requires_grad)
        if not outputs:
            return None
        return torch.autograd.grad(outputs, self.wanted, tuple(g for g in given if g is not None), allow_unused=self.allow_unused)

    def warm_up(self, times):
        for _ in range(times):
            outputs = torch.utils._pytree.tree_leaves(self.f(*self.args))
            self.grads(outputs, [torch.empty_like(o) if o.requires_grad else None for o in outputs])

    def capture_forward(self, pool):
        with graph(self.forward_graph, pool=pool):
            outputs = self.f(*self.args)
        leaves, self.shape = torch.utils._pytree.tree_flatten(outputs)
        self.outputs = tuple(leaves)

    def capture_backward(self, pool):
        self.output_grads = tuple(torch.empty_like(o) if o.requires_grad else None for o in self.outputs)
        grads = None
        if any(o.requires_grad for o in self.outputs):
            with graph(self.backward_graph, pool=pool):
                grads = self.grads(self.outputs, self.output_grads)
        grads = iter(grads or ())
        self.input_grads = tuple(next(grads, None) if t.requires_grad else None for t in self.inputs)

    def graphed(self):
        one = self

        class Graphed(torch.autograd.Function):
            @staticmethod
            def forward(ctx, *inputs):
                for mine, given in zip(one.inputs[:one.n], inputs):
                    if mine.data_ptr() != given.data_ptr():
                        mine.copy_(given)
                one.forward_graph.replay()
                return tuple(o.detach() for o in one.outputs)

            @staticmethod
            @torch.autograd.function.once_differentiable
            def backward(ctx, *grads):
                if len(grads) != len(one.output_grads):
                    raise AssertionError(f"len(grads)={len(grads)} != len(static_grad_outputs)={len(one.output_grads)}")
                for mine, given in zip(one.output_grads, grads):
                    if mine is not None and mine.data_ptr() != given.data_ptr():
                        mine.copy_(given)
                one.backward_graph.replay()
                return tuple(g if g is None else g.detach() for g in one.input_grads)

        def call(*args):
            outputs = Graphed.apply(*torch.utils._pytree.arg_tree_leaves(*args), *one.parameters)
            return torch.utils._pytree.tree_unflatten(outputs, one.shape)

        f = self.f
        if not isinstance(f, torch.nn.Module):
            return call
        training, before = f.training, f.forward

        def forward(*args, **kwargs):
            return call(*args, **kwargs) if f.training == training else before(*args, **kwargs)
        f.forward = forward
        return f
