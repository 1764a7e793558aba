"""Checkpointing: a segment's intermediate results are not kept but computed again on the way back. Chen et al., 2016."""
import contextlib
import warnings

import rushlight as torch

__all__ = ["checkpoint", "checkpoint_sequential", "CheckpointError", "CheckpointFunction", "check_backward_validity", "detach_variable",
           "get_device_states", "set_device_states", "noop_context_fn", "set_checkpoint_early_stop", "DefaultDeviceType",
           "set_checkpoint_debug_enabled", "CheckpointPolicy", "SelectiveCheckpointContext", "create_selective_checkpoint_contexts"]


_early_stop = None  # of set_checkpoint_early_stop; None: the argument decides


class CheckpointError(RuntimeError):
    """The second run of a segment did not save what the first one saved."""


class _AllMade(Exception):
    """The second run has saved what is asked for: the rest of it is left out."""


class DefaultDeviceType:
    """The kind of device whose random state is kept."""
    _default = "cuda"

    @staticmethod
    def set_device_type(device="cuda"):
        DefaultDeviceType._default = device

    @staticmethod
    def get_device_type():
        return DefaultDeviceType._default


def detach_variable(inputs):
    """The tuple with its tensors detached, each requiring gradients as it did."""
    if not isinstance(inputs, tuple):
        raise RuntimeError("Only tuple of tensors is supported. Got Unsupported input type: ", type(inputs).__name__)
    return tuple(x.detach().requires_grad_(x.requires_grad) if isinstance(x, torch.Tensor) else x for x in inputs)


def check_backward_validity(inputs):
    if not any(x.requires_grad for x in inputs if isinstance(x, torch.Tensor)):
        warnings.warn("None of the inputs have requires_grad=True. Gradients will be None", stacklevel=2)


def get_device_states(*args):
    """Random states of accelerators among the arguments: there are none."""
    return [], []


def set_device_states(devices, states, *, device_type=None):
    """Nothing to restore without accelerators."""


def noop_context_fn():
    return contextlib.nullcontext(), contextlib.nullcontext()


class _Circumstances:
    """What a run depends on besides its arguments: random state, autocast."""

    def __init__(self, preserve_rng_state):
        self.rng = torch.get_rng_state() if preserve_rng_state else None
        self.autocast = {"device_type": "cpu", "enabled": torch.is_autocast_enabled("cpu"), "dtype": torch.get_autocast_dtype("cpu"),
                         "cache_enabled": torch.is_autocast_cache_enabled()}

    @contextlib.contextmanager
    def again(self):
        state = torch.get_rng_state() if self.rng is not None else None
        if self.rng is not None:
            torch.set_rng_state(self.rng)
        try:
            with torch.autocast(**self.autocast):
                yield
        finally:
            if state is not None:
                torch.set_rng_state(state)


class CheckpointFunction(torch.autograd.Function):
    """The reentrant form: runs without a graph, and on the way back runs again with one and differentiates that."""

    @staticmethod
    def forward(ctx, run_function, preserve_rng_state, *args):
        check_backward_validity(args)
        ctx.run_function, ctx.circumstances = run_function, _Circumstances(preserve_rng_state)
        ctx.inputs, ctx.tensor_at, tensors = [], [], []
        for k, x in enumerate(args):
            if isinstance(x, torch.Tensor):
                tensors.append(x)
                ctx.tensor_at.append(k)
                ctx.inputs.append(None)
            else:
                ctx.inputs.append(x)
        ctx.save_for_backward(*tensors)
        with torch.no_grad():
            return run_function(*args)

    @staticmethod
    def backward(ctx, *grads):
        inputs = list(ctx.inputs)
        for k, x in zip(ctx.tensor_at, ctx.saved_tensors):
            inputs[k] = x
        inputs = detach_variable(tuple(inputs))
        with torch.enable_grad(), ctx.circumstances.again():
            outputs = ctx.run_function(*inputs)
        if isinstance(outputs, torch.Tensor):
            outputs = (outputs,)
        pairs = [(o, g) for o, g in zip(outputs, grads) if isinstance(o, torch.Tensor) and o.requires_grad]
        if not pairs:
            raise RuntimeError("none of output has requires_grad=True, this checkpoint() is not necessary")
        torch.autograd.backward([o for o, _ in pairs], [g for _, g in pairs])
        return (None, None) + tuple(x.grad if isinstance(x, torch.Tensor) else None for x in inputs)


class _Frame:
    """One segment of the other form: what it saved, by number, made again when first asked for."""

    def __init__(self, run, circumstances, contexts, check, early_stop):
        self.run, self.circumstances, self.contexts, self.check, self.early_stop = run, circumstances, contexts, check, early_stop
        self.count, self.kinds, self.held = 0, [], None

    def pack(self, tensor):
        self.kinds.append((tensor.shape, tensor.dtype))
        self.count += 1
        return self.count - 1

    def unpack(self, number):
        if self.held is None or number not in self.held:
            self.recompute()
        if number not in self.held:
            raise CheckpointError("torch.utils.checkpoint: trying to backward through the same buffers a second time, or the second run of the segment "
                                  f"saved {len(self.held)} tensors where the first saved {self.count}")
        return self.held.pop(number)

    def recompute(self):
        made = {}

        def keep(tensor):
            number = len(made)
            if number < self.count and self.check and (tensor.shape, tensor.dtype) != self.kinds[number]:
                raise CheckpointError(f"torch.utils.checkpoint: Recomputed values for the following tensors have different metadata than during the "
                                      f"forward pass: tensor {number} was {tuple(self.kinds[number][0])} {self.kinds[number][1]}, "
                                      f"now {tuple(tensor.shape)} {tensor.dtype}")
            made[number] = tensor.detach()
            if self.early_stop and len(made) == self.count:
                raise _AllMade
            return number
        with contextlib.suppress(_AllMade), torch.enable_grad(), self.circumstances.again(), self.contexts[1], \
                torch.autograd.graph.saved_tensors_hooks(keep, lambda number: made[number]):
            self.run()
        if len(made) != self.count and self.check:
            raise CheckpointError("torch.utils.checkpoint: A different number of tensors was saved during the original forward and recomputation.\n"
                                  f"Number of tensors saved during forward: {self.count}\nNumber of tensors saved during recomputation: {len(made)}")
        self.held = made


def checkpoint(function, *args, use_reentrant=None, context_fn=noop_context_fn, determinism_check="default", debug=False, early_stop=True,
               preserve_rng_state=True, **kwargs):
    """function(*args, **kwargs), of whose intermediate results none is kept: they are computed again on the way back.

    use_reentrant=True runs the segment's backward inside the outer one; False (better) makes saved tensors again when
    they are asked for. The random state of the first run is restored for the second unless preserve_rng_state is False.
    """
    if use_reentrant is None:
        warnings.warn("torch.utils.checkpoint: the use_reentrant parameter should be passed explicitly. use_reentrant=False is recommended.", stacklevel=2)
        use_reentrant = True
    if use_reentrant:
        if context_fn is not noop_context_fn or debug:
            raise ValueError("Passing `context_fn` or `debug` is only supported when use_reentrant=False.")
        if kwargs:
            raise ValueError("Unexpected keyword arguments: " + ",".join(kwargs))
        return CheckpointFunction.apply(function, preserve_rng_state, *args)
    if not torch.is_grad_enabled():
        return function(*args, **kwargs)
    contexts = context_fn()
    frame = _Frame(lambda: function(*args, **kwargs), _Circumstances(preserve_rng_state), contexts, determinism_check != "none",
                   early_stop if _early_stop is None else _early_stop)
    with torch.autograd.graph.saved_tensors_hooks(frame.pack, frame.unpack), contexts[0]:
        return function(*args, **kwargs)


def checkpoint_sequential(functions, segments, input, use_reentrant=None, preserve_rng_state=True, **kwargs):
    """A sequence of modules in `segments` pieces, each but the last checkpointed."""
    if kwargs:
        raise ValueError("Unexpected keyword arguments: " + ",".join(kwargs))
    if use_reentrant is None:
        warnings.warn("torch.utils.checkpoint.checkpoint_sequential: the use_reentrant parameter should be passed explicitly.", stacklevel=2)
        use_reentrant = True
    functions = list(functions.children()) if isinstance(functions, torch.nn.Sequential) else list(functions)

    def part(begin, end):
        def run(x):
            for f in functions[begin:end]:
                x = f(x)
            return x
        return run
    size, begin = len(functions) // segments, 0
    for _ in range(segments - 1):
        input = checkpoint(part(begin, begin + size), input, use_reentrant=use_reentrant, preserve_rng_state=preserve_rng_state)
        begin += size
    return part(begin, len(functions))(input)


@contextlib.contextmanager
def set_checkpoint_early_stop(enable):
    """Second runs within the block end when all is made that is asked for, or never do, whatever their checkpoints say."""
    global _early_stop
    before, _early_stop = _early_stop, enable
    try:
        yield
    finally:
        _early_stop = before


@contextlib.contextmanager
def set_checkpoint_debug_enabled(enabled):
    yield


class CheckpointPolicy:
    """What selective checkpointing does with an operation's result."""
    MUST_SAVE, PREFER_SAVE, MUST_RECOMPUTE, PREFER_RECOMPUTE = range(4)


class SelectiveCheckpointContext:
    def __init__(self, *, is_recompute):
        self.is_recompute = is_recompute


def create_selective_checkpoint_contexts(policy_fn_or_list, allow_cache_entry_mutation=False):
    """Contexts for checkpoint(context_fn=...): everything is computed again, whatever the policy prefers to save."""
    return noop_context_fn()
