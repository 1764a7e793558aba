"""Random numbers of torch.cuda, under the module's own name."""
import rushlight.cuda as _cuda

__all__ = ["get_rng_state", "get_rng_state_all", "set_rng_state", "set_rng_state_all", "manual_seed", "manual_seed_all",
           "seed", "seed_all", "initial_seed"]


def __getattr__(name):
    if name in __all__:
        return getattr(_cuda, name)
    raise AttributeError("module 'torch.cuda.random' has no attribute '%s'" % name)
