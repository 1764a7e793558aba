"""The parts of the loader that run in workers, and those that watch them."""
import atexit

from rushlight._utils import ExceptionWrapper

IS_WINDOWS = False
MP_STATUS_CHECK_INTERVAL = 5.0      # seconds between looks at whether the other side is alive

# True once the interpreter is shutting down: nothing may be waited for then.
python_exit_status = False

try:
    import numpy
    import numpy.random  # here, not in every worker: it takes longer than starting one
    HAS_NUMPY = True
except ModuleNotFoundError:
    HAS_NUMPY = False


def _set_python_exit_flag():
    global python_exit_status
    python_exit_status = True


atexit.register(_set_python_exit_flag)

from rushlight.utils.data._utils import collate, fetch, pin_memory, signal_handling, worker  # noqa: E402
