"""Modules wrapped so that what they keep for backward is recomputed, or kept in memory of its own.

The wrapper is seen neither in a state dict nor in the names of parameters of the wrapper itself: a checkpoint of the
plain model fits the wrapped one.
"""
import enum
import functools

from rushlight import nn
from rushlight.autograd.graph import save_on_cpu
from rushlight.utils.checkpoint import checkpoint

_CHECKPOINT_WRAPPED_MODULE = "_checkpoint_wrapped_module"
_CHECKPOINT_PREFIX = _CHECKPOINT_WRAPPED_MODULE + "."


class CheckpointImpl(enum.Enum):
    """How a forward is recomputed: by an autograd function, or by hooks on what is saved."""

    REENTRANT = enum.auto()
    NO_REENTRANT = enum.auto()


def _renamed(state, old, new):
    """Replace a prefix of the keys of a state dict, in place and in order."""
    for key in [key for key in state if key.startswith(old)]:
        state[new + key[len(old):]] = state.pop(key)


def _strip(module, state, prefix, *metadata):
    _renamed(state, prefix + _CHECKPOINT_PREFIX, prefix)
    return state


def _restore(module, state, prefix, *args):
    _renamed(state, prefix, prefix + _CHECKPOINT_PREFIX)


class ActivationWrapper(nn.Module):
    """A module around another one, which it passes for."""

    def __init__(self, mod):
        super().__init__()
        self._checkpoint_wrapped_module = mod
        self._register_state_dict_hook(_strip)
        self.register_load_state_dict_pre_hook(_restore)

    def forward(self, *args, **kwargs):
        raise ValueError("Subclasses should implement forward().")

    def __getattr__(self, name):
        try:
            return super().__getattr__(name)
        except AttributeError:
            return getattr(super().__getattr__(_CHECKPOINT_WRAPPED_MODULE), name)

    def __getitem__(self, key):
        return self._checkpoint_wrapped_module[key]

    def named_parameters(self, *args, **kwargs):
        for name, parameter in super().named_parameters(*args, **kwargs):
            yield name.replace(_CHECKPOINT_PREFIX, ""), parameter


class OffloadWrapper(ActivationWrapper):
    """What is kept for backward is copied to the CPU's memory."""

    def forward(self, *args, **kwargs):
        with save_on_cpu(pin_memory=True):
            return self._checkpoint_wrapped_module(*args, **kwargs)


class CheckpointWrapper(ActivationWrapper):
    """The forward runs again in backward instead of keeping what it computed."""

    def __init__(self, mod, checkpoint_impl=CheckpointImpl.NO_REENTRANT, checkpoint_fn=None, **checkpoint_fn_kwargs):
        super().__init__(mod)
        self.checkpoint_impl = checkpoint_impl
        if checkpoint_fn is None:
            checkpoint_fn = functools.partial(checkpoint, use_reentrant=checkpoint_impl is CheckpointImpl.REENTRANT)
        self.checkpoint_fn = functools.partial(checkpoint_fn, **checkpoint_fn_kwargs)

    def forward(self, *args, **kwargs):
        if kwargs and self.checkpoint_impl is CheckpointImpl.REENTRANT:
            # That kind takes positional arguments only.
            names = list(kwargs)

            def run(*flat):
                own = len(flat) - len(names)
                return self._checkpoint_wrapped_module(*flat[:own], **dict(zip(names, flat[own:])))
            return self.checkpoint_fn(run, *args, *kwargs.values())
        return self.checkpoint_fn(self._checkpoint_wrapped_module, *args, **kwargs)


def offload_wrapper(module):
    """The module, keeping for backward in the CPU's memory."""
    return OffloadWrapper(module)


def checkpoint_wrapper(module, checkpoint_impl=CheckpointImpl.NO_REENTRANT, checkpoint_fn=None, **checkpoint_fn_kwargs):
    """The module, recomputed in backward."""
    return CheckpointWrapper(module, checkpoint_impl, checkpoint_fn, **checkpoint_fn_kwargs)


def apply_activation_checkpointing(model, checkpoint_wrapper_fn=checkpoint_wrapper, check_fn=lambda _: True, auto_wrap_policy=None):
    """Wrap, in place, the submodules that check_fn (or a policy of FSDP's kind) chooses."""
    def chosen(module):
        if auto_wrap_policy is not None:
            return auto_wrap_policy(module=module, recurse=False, nonwrapped_numel=sum(p.numel() for p in module.parameters()))
        return check_fn(module)

    def visit(module):
        for name, child in list(module.named_children()):
            if isinstance(child, ActivationWrapper):
                continue
            visit(child)
            if chosen(child):
                setattr(module, name, checkpoint_wrapper_fn(child))
    visit(model)
