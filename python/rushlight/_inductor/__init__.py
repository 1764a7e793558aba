"""Settings of a code generator that is not there, and programs that it compiled elsewhere."""
from . import codecache, config  # noqa: F401,E402
from .package import aoti_compile_and_package, aoti_load_package  # noqa: F401,E402

_MODES = {"default": {}, "reduce-overhead": {"triton.cudagraphs": True},
          "max-autotune-no-cudagraphs": {"max_autotune": True, "coordinate_descent_tuning": True},
          "max-autotune": {"max_autotune": True, "triton.cudagraphs": True, "coordinate_descent_tuning": True},
          "lite": {"fallback_by_default": True, "selective_decompose": True, "reorder_for_peak_memory": False,
                   "reorder_for_compute_comm_overlap": False, "triton.reorder_for_reducing_graph_partitions": False,
                   "use_pre_grad_passes": False, "use_joint_graph_passes": False, "use_post_grad_passes": False, "use_dce": False,
                   "allow_buffer_reuse": False}}


def list_mode_options(mode=None, dynamic=None):
    """The settings that torch.compile's modes stand for: of one mode, or of each."""
    if mode is None:
        return {name: dict(options) for name, options in _MODES.items()}
    if mode not in _MODES:
        raise RuntimeError("Unrecognized mode=%s, should be one of: %s" % (mode, ", ".join(_MODES)))
    return dict(_MODES[mode])


def list_options():
    """The names of the settings."""
    return list(config.shallow_copy_dict())


def cudagraph_mark_step_begin():
    """Of CUDA graphs, which are not there: nothing to do."""
