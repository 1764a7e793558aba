"""torch.mps: Apple's devices. There is no backend for them."""
from rushlight._absent_device import fill


def _refuse(what):
    def function(*args, **kwargs):
        raise RuntimeError("Cannot execute %s() without MPS backend." % what)
    function.__name__ = what
    return function


empty_cache, synchronize = _refuse("emptyCache"), _refuse("deviceSynchronize")
current_allocated_memory = _refuse("currentAllocatedMemory")
driver_allocated_memory = _refuse("driverAllocatedMemory")
recommended_max_memory = _refuse("recommendedMaxMemory")
set_per_process_memory_fraction = _refuse("setMemoryFraction")
manual_seed, seed = _refuse("manual_seed"), _refuse("seed")
get_rng_state, set_rng_state = _refuse("get_rng_state"), _refuse("set_rng_state")
compile_shader = _refuse("compile_shader")

fill(__name__, "mps", RuntimeError("the MPS backend is not available"))
