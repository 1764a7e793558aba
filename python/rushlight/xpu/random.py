"""Random numbers of torch.xpu."""
from rushlight.xpu import (get_rng_state, get_rng_state_all, initial_seed, manual_seed, manual_seed_all, seed,  # noqa
                           seed_all, set_rng_state, set_rng_state_all)
