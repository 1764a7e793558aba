"""How the library was built."""
from rushlight import _C, version


def show():
    """A description of the build, for bug reports."""
    text = getattr(_C, "_show_config", None)
    return text() if text is not None else "rushlight %s, as PyTorch %s\n" % (version.rushlight, version.__version__)


def parallel_info():
    """How work is spread over threads."""
    import rushlight as torch
    return "ATen/Parallel:\n\tat::get_num_threads() : %d\n\tat::get_num_interop_threads() : %d\nATen parallel backend: OpenMP\n" % (
        torch.get_num_threads(), torch.get_num_interop_threads())


def _cxx_flags():
    return ""
