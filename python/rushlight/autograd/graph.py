"""The graph: nodes, edges, hooks on saved tensors and on several gradients at once."""
import abc
import contextlib
import functools
import threading
from collections import defaultdict
from typing import NamedTuple, Optional
from weakref import WeakKeyDictionary

import rushlight as torch
from rushlight import _C
from rushlight.utils.hooks import RemovableHandle

__all__ = ["saved_tensors_hooks", "save_on_cpu", "disable_saved_tensors_hooks", "register_multi_grad_hook",
           "allow_mutation_on_saved_tensors", "Node", "GradientEdge", "get_gradient_edge", "increment_version",
           "set_warn_on_accumulate_grad_stream_mismatch"]


class Node(abc.ABC):
    """What grad_fn is: a step of backward."""

    @abc.abstractmethod
    def name(self):
        """The name of the step."""

    @property
    @abc.abstractmethod
    def next_functions(self):
        """((node, index of its input), ...) of what comes next in backward."""

    @abc.abstractmethod
    def metadata(self):
        """A dict for the user."""

    @property
    @abc.abstractmethod
    def _input_metadata(self):
        """Shape, dtype and device of each gradient that comes in."""

    @abc.abstractmethod
    def register_hook(self, fn):
        """fn(grad_inputs, grad_outputs) after the step."""

    @abc.abstractmethod
    def register_prehook(self, fn):
        """fn(grad_outputs) before the step."""

    @classmethod
    def __subclasshook__(cls, subclass):
        if cls is not Node:
            return NotImplemented
        base = getattr(_C, "Node", None)
        if base is not None and issubclass(subclass, base):
            return True
        from rushlight.autograd.function import BackwardCFunction
        return True if issubclass(subclass, BackwardCFunction) or hasattr(subclass, "next_functions") \
            else NotImplemented


class GradientEdge(NamedTuple):
    """An output of a node: what a tensor is in the graph."""

    node: Node
    output_nr: int
    ownership_token: Optional[Node] = None


def _get_grad_fn_or_grad_acc(t):
    """The node that makes t, or the one that accumulates its gradient."""
    if isinstance(t, GradientEdge):
        return t.node
    if t.requires_grad and t.grad_fn is None:
        with torch.enable_grad():
            return t.view_as(t).grad_fn.next_functions[0][0]
    if t.grad_fn is None:
        raise AssertionError("the tensor has no grad_fn")
    return t.grad_fn


def get_gradient_edge(tensor):
    if not tensor.requires_grad:
        raise RuntimeError("It is not possible to get the gradient edge for a Tensor that does not require gradients")
    return GradientEdge(_get_grad_fn_or_grad_acc(tensor), tensor.output_nr)  # the node holds what is behind it: no token is needed


def increment_version(tensor):
    """Count a change of the tensor's data that autograd cannot see."""
    _C._increment_version((tensor,) if isinstance(tensor, torch.Tensor) else tensor)


class saved_tensors_hooks:
    """Inside, tensors saved for backward go through pack_hook, and come back through unpack_hook."""

    def __init__(self, pack_hook, unpack_hook):
        self.pack_hook, self.unpack_hook = pack_hook, unpack_hook

    def __enter__(self):
        _C._autograd._push_saved_tensors_default_hooks(self.pack_hook, self.unpack_hook)

    def __exit__(self, *error):
        _C._autograd._pop_saved_tensors_default_hooks()


class save_on_cpu(saved_tensors_hooks):
    """Inside, tensors saved for backward wait on the CPU."""

    def __init__(self, pin_memory=False, device_type="cuda"):
        def pack(tensor):
            if not pin_memory:
                return tensor.device, tensor.cpu()
            packed = torch.empty(tensor.size(), dtype=tensor.dtype, layout=tensor.layout,
                                 pin_memory=getattr(torch, device_type).is_available() and not tensor.is_sparse)
            packed.copy_(tensor)
            return tensor.device, packed

        def unpack(packed):
            device, tensor = packed
            return tensor.to(device, non_blocking=pin_memory)
        super().__init__(pack, unpack)


@contextlib.contextmanager
def disable_saved_tensors_hooks(error_message):
    """Inside, saved_tensors_hooks is an error with this message."""
    before = _C._autograd._saved_tensors_hooks_get_disabled_error_message()
    try:
        _C._autograd._saved_tensors_hooks_disable(error_message)
        yield
    finally:
        if before is None:
            _C._autograd._saved_tensors_hooks_enable()
        else:
            _C._autograd._saved_tensors_hooks_disable(before)


def set_warn_on_accumulate_grad_stream_mismatch(enabled):
    """Warnings about streams of devices: there are none on the CPU."""


class _MultiHandle(RemovableHandle):
    def __init__(self, handles):
        self.handles = handles

    def remove(self):
        for handle in self.handles:
            handle.remove()

    def __getstate__(self):
        return self.handles

    def __setstate__(self, state):
        self.handles = state


def register_multi_grad_hook(tensors, fn, *, mode="all"):
    """fn(gradients) once those of all tensors are there ("all"), or fn(gradient) at the first ("any")."""
    if mode not in ("all", "any"):
        raise ValueError("Expects mode to be one of ('all', 'any') but got %s" % mode)
    lock = threading.Lock()
    if mode == "any":
        done = defaultdict(bool)

        @functools.wraps(fn)
        def first(grad):
            task = _C._current_graph_task_id()
            if task == -1:
                raise AssertionError("expected this hook to be called inside a backward call")
            with lock:
                seen, done[task] = done[task], True
            if not seen:
                fn(grad)
        return _MultiHandle(tuple(t.register_hook(first) for t in tensors if t.requires_grad))

    needed, buffers = {}, {}
    nodes = [_get_grad_fn_or_grad_acc(t) for t in tensors]
    length = len(tensors)

    def hook_for(index):
        def hook(grad):
            task = _C._current_graph_task_id()
            if task == -1:
                raise AssertionError("expected this hook to be called inside a backward call")
            with lock:
                if task not in buffers:
                    buffers[task] = [None] * length
                    # Only tensors that this backward reaches are waited for.
                    needed[task] = sum(_C._will_engine_execute_node(node) for node in nodes)
                buffers[task][index] = grad
                needed[task] -= 1
                ready = needed[task] == 0
                values = buffers.pop(task) if ready else None
                if ready:
                    del needed[task]
            if ready:
                fn(values)
        return hook
    return _MultiHandle(tuple(t.register_hook(hook_for(i)) for i, t in enumerate(tensors)))


_mutation_allowed = None  # the context of allow_mutation_on_saved_tensors() that is open


class _AllowMutationOnSavedContext:
    def __init__(self):
        self.cloned = WeakKeyDictionary()
        self.original = WeakKeyDictionary()

    def clear(self):
        self.cloned.clear()
        self.original.clear()


@contextlib.contextmanager
def allow_mutation_on_saved_tensors():
    """Inside, tensors saved for backward may be changed in place: backward, inside too, sees copies made when they were saved."""
    global _mutation_allowed
    if _mutation_allowed is not None:
        raise RuntimeError("allow_mutation_on_saved_tensors contexts cannot be nested")
    context = _AllowMutationOnSavedContext()

    def unpack(tensor):
        if _mutation_allowed is not context:
            raise AssertionError("Trying to backward outside of the 'allow_mutation_on_saved_tensors' context in which the graph was originally recorded.")
        return tensor
    with saved_tensors_hooks(lambda t: t.detach().clone(), unpack):
        try:
            _mutation_allowed = context
            yield context
        finally:
            _mutation_allowed = None
            context.clear()


def region_activation_memory_budget(budget):
    """A hint for a compiler; nothing here."""
    return contextlib.nullcontext()


def _engine_run_backward(t_outputs, *args, **kwargs):
    """Run the engine from these outputs."""
    from rushlight.autograd.variable import Variable
    return Variable._execution_engine.run_backward(t_outputs, *args, **kwargs)
