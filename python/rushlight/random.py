"""The generator of the CPU (and seeds of all devices)."""
import contextlib
import warnings

import rushlight as torch
from rushlight import _pending
from rushlight._C import default_generator

__all__ = ["set_rng_state", "get_rng_state", "manual_seed", "seed", "initial_seed", "fork_rng"]


def _drawn():
    """Has compiled functions draw first what they put off."""
    if _pending.open:
        _pending.settle("the state of the generator is read or set", real=False)


def set_rng_state(new_state):
    """Continue from a state that get_rng_state gave."""
    _drawn()
    default_generator.set_state(new_state)


def get_rng_state():
    """The state of the generator, as a tensor of bytes."""
    _drawn()
    return default_generator.get_state()


def _states():
    """States of all generators that programs draw from without naming one: the CPU's and, once CUDA is in use, its devices'."""
    return [get_rng_state(), *(torch.cuda.get_rng_state_all() if torch.cuda.is_initialized() else ())]


def _go_on_from(states):
    """Continue from what _states() gave."""
    set_rng_state(states[0])
    if states[1:]:
        torch.cuda.set_rng_state_all(states[1:])


def _drawn_since(states):
    """Has anything been drawn since _states() gave these?"""
    was = torch._C._watch_off(True)  # a program that is being traced has no part in it
    try:
        return not all(map(torch.equal, states, _states()))
    finally:
        torch._C._watch_off(was)


def manual_seed(seed):
    """Start the random numbers that belong to a seed, on all devices."""
    _drawn()
    seed = int(seed)
    if torch.cuda.is_initialized():
        torch.cuda.manual_seed_all(seed)
    torch._C._device_manual_seed(seed)
    return default_generator.manual_seed(seed)


def seed():
    """A seed from the system's randomness, for all devices."""
    _drawn()
    value = default_generator.seed()
    if torch.cuda.is_initialized():
        torch.cuda.manual_seed_all(value)
    torch._C._device_manual_seed(value)
    return value


def initial_seed():
    """The seed that was set last."""
    return default_generator.initial_seed()


def thread_safe_generator():
    """A generator for worker threads of a loader, None elsewhere."""
    info = torch.utils.data.get_worker_info()
    return getattr(info, "generator", None)


@contextlib.contextmanager
def fork_rng(devices=None, enabled=True, _caller="fork_rng", _devices_kw="devices", device_type="cuda"):
    """Random numbers drawn inside do not move the generators outside."""
    if device_type == "meta":
        yield
        return
    module = getattr(torch, device_type, None)
    if module is None:
        raise RuntimeError("torch has no module of `%s`, you should register a module by "
                           "`torch._register_device_module`." % device_type)
    if not enabled:
        yield
        return
    if devices is None:
        count = module.device_count()
        if count > 1:
            warnings.warn("%s reports that you have %d available devices, and you have used %s without explicitly "
                          "specifying which devices are being used." % (device_type.upper(), count, _caller), stacklevel=3)
        devices = list(range(count))
    else:
        devices = list(devices)
    before = torch.get_rng_state()
    states = [module.get_rng_state(device) for device in devices]
    try:
        yield
    finally:
        torch.set_rng_state(before)
        for device, state in zip(devices, states):
            module.set_rng_state(state, device)
