"""How gradients are sent."""
import enum
import functools

from . import debugging_hooks as debugging, default_hooks as default, powerSGD_hook as powerSGD

__all__ = ["DDPCommHookType", "register_ddp_comm_hook"]


def _plain(model, state, hook):
    model.register_comm_hook(state, hook)


def _power(model, state, hook, rank):
    model.register_comm_hook(powerSGD.PowerSGDState(state, matrix_approximation_rank=rank), hook)


_member = getattr(enum, "member", lambda value: value)   # from Python 3.14 on a partial function alone would be a method


class DDPCommHookType(enum.Enum):
    """The hooks by name. The value registers one: value(model=..., state=...)."""
    ALLREDUCE = _member(functools.partial(_plain, hook=default.allreduce_hook))
    FP16_COMPRESS = _member(functools.partial(_plain, hook=default.fp16_compress_hook))
    BF16_COMPRESS = _member(functools.partial(_plain, hook=default.bf16_compress_hook))
    POWER_SGD = _member(functools.partial(_power, hook=powerSGD.powerSGD_hook, rank=1))
    POWER_SGD_RANK2 = _member(functools.partial(_power, hook=powerSGD.powerSGD_hook, rank=2))
    BATCHED_POWER_SGD = _member(functools.partial(_power, hook=powerSGD.batched_powerSGD_hook, rank=1))
    BATCHED_POWER_SGD_RANK2 = _member(functools.partial(_power, hook=powerSGD.batched_powerSGD_hook, rank=2))
    NOOP = _member(functools.partial(_plain, hook=debugging.noop_hook))


def register_ddp_comm_hook(comm_hook_type, model, state=None):
    """Has a DistributedDataParallel model send its gradients so; state is the hook's, mostly a process group."""
    comm_hook_type.value(model=model, state=state)
