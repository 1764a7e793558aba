"""Settings of a splitter of graphs that is not there; they can be set and read."""
from .._settings import settings

_ON = """ban_recompute_long_fusible_chains ban_recompute_materialized_backward ban_recompute_not_in_allowlist ban_recompute_reductions
ban_recompute_used_far_apart cse donated_buffer enable_autograd_cache fake_tensor_allow_meta fake_tensor_allow_unsafe_data_ptr_access
guess_tangent_strides_as_outputs static_weight_shapes treat_parameters_as_free_to_save view_replay_for_aliased_outputs"""
_OFF = """aggressive_recomputation debug_assert debug_partitioner fake_tensor_crossref fake_tensor_propagate_real_tensors functionalize_rng_ops
recompute_views strict_autograd_cache unlift_effect_tokens visualize_memory_budget_pareto"""
_NONE = """"""
_VALUES = {"activation_memory_budget": 1.0, "activation_memory_budget_solver": "dp", "max_dist_from_bw": 1000}

settings(__name__, {**dict.fromkeys(_ON.split(), True), **dict.fromkeys(_OFF.split(), False), **dict.fromkeys(_NONE.split()), **_VALUES})
