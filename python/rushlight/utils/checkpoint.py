"""Checkpointing: a segment's intermediate results are not kept but computed again on the way back. Chen et al., 2016."""
import contextlib
import enum
import warnings

import rushlight as torch
from rushlight.utils._python_dispatch import TorchDispatchMode
from rushlight.utils._pytree import tree_leaves, tree_map

__all__ = ["checkpoint", "checkpoint_sequential", "CheckpointError", "CheckpointFunction", "check_backward_validity", "detach_variable",
           "get_device_states", "set_device_states", "noop_context_fn", "set_checkpoint_early_stop", "DefaultDeviceType",
           "set_checkpoint_debug_enabled", "CheckpointPolicy", "SelectiveCheckpointContext", "create_selective_checkpoint_contexts"]


_early_stop = None  # of set_checkpoint_early_stop; None: the argument decides
_debug = None  # of set_checkpoint_debug_enabled, as well


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


def _on_accelerators(args):
    """Tensors among the arguments, nested too, that lie on an accelerator."""
    return [x for x in tree_leaves(args) if isinstance(x, torch.Tensor) and x.device.type not in ("cpu", "meta")]


def _device_type(args):
    kinds = sorted({x.device.type for x in _on_accelerators(args)})
    if len(kinds) > 1:
        warnings.warn("torch.utils.checkpoint: arguments on several kinds of device (%s): the random state of %s alone is kept" % (", ".join(kinds), kinds[0]), stacklevel=4)
    return kinds[0] if kinds else DefaultDeviceType.get_device_type()


def get_device_states(*args):
    """Numbers of the accelerators that hold arguments, and the states of their generators."""
    kind = _device_type(args)
    devices = sorted({x.get_device() for x in _on_accelerators(args) if x.device.type == kind})
    return devices, [torch.get_device_module(kind).get_rng_state(device) for device in devices]


def set_device_states(devices, states, *, device_type=None):
    """Generators of these accelerators go on from states that get_device_states() gave."""
    for device, state in zip(devices, states):
        torch.get_device_module(device_type or DefaultDeviceType.get_device_type()).set_rng_state(state, device)


def noop_context_fn():
    return contextlib.nullcontext(), contextlib.nullcontext()


def _autocast_of(kind):
    return {"device_type": kind, "enabled": torch.is_autocast_enabled(kind), "dtype": torch.get_autocast_dtype(kind), "cache_enabled": torch.is_autocast_cache_enabled()}


class _Circumstances:
    """What a run depends on besides its arguments: random states of the CPU and of the arguments' devices, autocast."""

    def __init__(self, preserve_rng_state, args):
        self.kind = _device_type(args)
        self.rng = (torch.get_rng_state(), *get_device_states(*args)) if preserve_rng_state else None
        self.autocast = [_autocast_of(kind) for kind in ("cpu", self.kind) if torch.amp.is_autocast_available(kind)]

    @contextlib.contextmanager
    def again(self):
        with contextlib.ExitStack() as stack:
            if self.rng is not None:
                stack.enter_context(torch.random.fork_rng(self.rng[1], device_type=self.kind))
                torch.set_rng_state(self.rng[0])
                set_device_states(*self.rng[1:], device_type=self.kind)
            for autocast in self.autocast:
                stack.enter_context(torch.autocast(**autocast))
            yield


class CheckpointFunction(torch.autograd.Function):
    """The reentrant form: runs without a graph, and on the way back runs again with one and differentiates that."""

    @staticmethod
    def forward(ctx, run_function, preserve_rng_state, *args):
        check_backward_validity(args)
        ctx.run_function, ctx.circumstances = run_function, _Circumstances(preserve_rng_state, args)
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
        if not torch.autograd._is_checkpoint_valid():
            raise RuntimeError("When use_reentrant=True, torch.utils.checkpoint is incompatible with .grad() or passing an `inputs` parameter to "
                               ".backward(): the second run's backward would add to the .grad of all. Pass use_reentrant=False.")
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


class _Calls(TorchDispatchMode):
    """The operations of a run, by name."""

    def __init__(self):
        super().__init__()
        self.names = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.names.append(str(func))
        return func(*args, **kwargs or {})

    def __str__(self):
        return "".join("    %s\n" % name for name in self.names)


class _Frame:
    """One segment of the other form: what it saved, by number, made again when first asked for."""

    def __init__(self, run, circumstances, contexts, check, early_stop, debug):
        self.run, self.circumstances, self.contexts, self.check, self.early_stop = run, circumstances, contexts, check, early_stop
        self.count, self.kinds, self.held = 0, [], None
        self.complete = False  # the first run has ended: a gradient within it makes the run again before that
        self.first, self.second = (_Calls(), _Calls()) if debug else (contextlib.nullcontext(), contextlib.nullcontext())

    def pack(self, tensor):
        self.kinds.append((tensor.shape, tensor.dtype))
        self.count += 1
        return self.count - 1

    def unpack(self, number):
        if self.held is None or number not in self.held:
            try:
                self.recompute()
            except CheckpointError as error:
                if not isinstance(self.first, _Calls):
                    raise
                raise CheckpointError("%s\nYou are seeing this error because you passed `debug=True` to checkpoint. The first run of the segment called\n%sand the "
                                      "second\n%s" % (error, self.first, self.second)) from error
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
            if number >= self.count and self.check and self.complete:
                raise CheckpointError("torch.utils.checkpoint: trying to save more tensors during recomputation than during the original forward pass.")
            made[number] = tensor.detach() if tensor.requires_grad else tensor
            if self.early_stop and len(made) == self.count:
                raise _AllMade
            return number
        with contextlib.suppress(_AllMade), torch.enable_grad(), self.circumstances.again(), self.contexts[1], self.second, \
                torch.autograd.graph.saved_tensors_hooks(keep, lambda number: made[number]):
            self.run()
        if len(made) != self.count and self.check and self.complete:
            raise CheckpointError("torch.utils.checkpoint: A different number of tensors was saved during the original forward and recomputation.\n"
                                  f"Number of tensors saved during forward: {self.count}\nNumber of tensors saved during recomputation: {len(made)}")
        self.held = made


def checkpoint(function, *args, use_reentrant=None, context_fn=noop_context_fn, determinism_check="default", debug=False, early_stop=True,
               preserve_rng_state=True, **kwargs):
    """function(*args, **kwargs), of whose intermediate results none is kept: they are computed again on the way back.

    use_reentrant=True runs the segment's backward inside the outer one; False (better) makes saved tensors again when
    they are asked for. The random state of the first run, on the CPU and on the devices of the arguments, is restored for the
    second unless preserve_rng_state is False. debug=True lists the operations of both runs in an error about their difference.
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
    frame = _Frame(lambda: function(*args, **kwargs), _Circumstances(preserve_rng_state, (args, kwargs)), contexts, determinism_check != "none",
                   early_stop if _early_stop is None else _early_stop, debug if _debug is None else _debug)
    with torch.autograd.graph.saved_tensors_hooks(frame.pack, frame.unpack), contexts[0], frame.first:
        out = function(*args, **kwargs)
    frame.complete = True
    return out


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
    """Checkpoints of the block are as with debug=enabled; None leaves it to their arguments."""
    global _debug
    before, _debug = _debug, enabled
    try:
        yield
    finally:
        _debug = before


class CheckpointPolicy(enum.Enum):
    """What selective checkpointing does with an operation's result: those to save are kept (on the CPU, to offload), others are computed again."""
    MUST_SAVE, PREFER_SAVE, MUST_RECOMPUTE, PREFER_RECOMPUTE, MUST_CPU_OFFLOAD, PREFER_CPU_OFFLOAD = range(6)


_OFFLOADED = CheckpointPolicy.MUST_CPU_OFFLOAD, CheckpointPolicy.PREFER_CPU_OFFLOAD
_SAVED = CheckpointPolicy.MUST_SAVE, CheckpointPolicy.PREFER_SAVE, *_OFFLOADED
SAC_IGNORED_OPS = {torch.ops.aten.detach.default}  # what autograd itself calls, not the segment


class SelectiveCheckpointContext:
    """What a policy is told of a call: whether it is the second run's, and what it returned."""

    def __init__(self, *, is_recompute, op_output=None):
        self.is_recompute, self.op_output = is_recompute, op_output


class _Kept:
    """A result that waits for the second run."""

    def __init__(self, x, offload):
        self.tensor, self.device = (x.detach().to("cpu", copy=x.device.type == "cpu") if offload else x.detach()), x.device
        self.version = None if offload else x._version

    def given(self, mutated):
        if self.version is not None and self.tensor._version != self.version and not mutated:
            raise RuntimeError("Tensor cached during selective activation checkpoint has been mutated")
        return self.tensor.to(self.device)


class _CachingTorchDispatchMode(TorchDispatchMode):
    """The first run: for each call of an operation, its result or None."""

    def __init__(self, policy, kept):
        super().__init__()
        self.policy, self.kept = policy, kept

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        out = func(*args, **kwargs)
        if func not in SAC_IGNORED_OPS:
            policy = self.policy(SelectiveCheckpointContext(is_recompute=False, op_output=out), func, *args, **kwargs)
            saved = policy in _SAVED or policy is True
            self.kept.setdefault(func, []).append(
                tree_map(lambda x: _Kept(x, policy in _OFFLOADED) if isinstance(x, torch.Tensor) else x, (out,)) if saved else None)
        return out


class _CachedTorchDispatchMode(TorchDispatchMode):
    """The second run: what was kept is not computed again."""

    def __init__(self, kept, allow_cache_entry_mutation):
        super().__init__()
        self.kept, self.mutated = kept, allow_cache_entry_mutation

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        if func in SAC_IGNORED_OPS:
            return func(*args, **kwargs or {})
        if not self.kept.get(func):
            if func in self.kept:
                raise RuntimeError("Trying to backward an extra time. You are only allowed to backward once on any region computed under selective activation checkpoint.")
            raise RuntimeError("%s was called by the second run of a segment under selective activation checkpoint, and not by the first" % func)
        held = self.kept[func].pop(0)
        if held is None:
            return func(*args, **kwargs or {})
        return tree_map(lambda x: x.given(self.mutated) if isinstance(x, _Kept) else x, held)[0]


def create_selective_checkpoint_contexts(policy_fn_or_list, allow_cache_entry_mutation=False):
    """Contexts for checkpoint(context_fn=...) that keep the results of some operations; the others are computed again.

    policy_fn_or_list: operations (torch.ops.aten.mm.default) whose results are kept, or policy(context, op, *args, **kwargs) that returns a
    CheckpointPolicy, or True to keep; it is asked during the first run, after each call. allow_cache_entry_mutation: without it a result that was
    kept and changed in place since is an error.
    """
    if isinstance(policy_fn_or_list, list):
        for op in policy_fn_or_list:
            if not isinstance(op, torch._ops.OpOverload):
                raise ValueError("Expected op in `op_list` to be an OpOverload but got: %s of type %s. %s" % (op, type(op), (
                    "Please update the OpOverloadPacket to a specific OpOverload. For example, if you have `torch.ops.aten.mm`, change it to "
                    "`torch.ops.aten.mm.default`.") if isinstance(op, torch._ops.OpOverloadPacket) else ""))
        ops = set(policy_fn_or_list)
        policy = lambda context, op, *args, **kwargs: op in ops  # noqa: E731
    elif callable(policy_fn_or_list):
        policy = policy_fn_or_list
    else:
        raise TypeError("policy_fn_or_list must be either a function or a list of ops.")
    kept = {}
    return _CachingTorchDispatchMode(policy, kept), _CachedTorchDispatchMode(kept, allow_cache_entry_mutation)
