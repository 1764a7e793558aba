"""torch.mps: Apple's devices. There is no backend for them."""
from rushlight._absent_device import fill


def _refuse(what):
    def function(*args, **kwargs):
        raise RuntimeError("Cannot execute %s() without MPS backend." % what)
    function.__name__ = what
    return function


empty_cache, synchronize = _refuse("emptyCache"), _refuse("deviceSynchronize")
current_allocated_memory = _refuse("getCurrentAllocatedMemory")
driver_allocated_memory = _refuse("getDriverAllocatedMemory")
recommended_max_memory = _refuse("getRecommendedMaxMemory")
set_per_process_memory_fraction = _refuse("setMemoryFraction")
seed = get_rng_state = set_rng_state = _refuse("getDefaultGenerator")
compile_shader = _refuse("compile_shader")


def manual_seed(seed):
    """Nothing: programs seed every kind of device that there may be."""


fill(__name__, "mps", RuntimeError("the MPS backend is not available"))
