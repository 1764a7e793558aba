"""Logs as tests see them."""
import contextlib
import io
import logging


@contextlib.contextmanager
def preserve_log_state():
    """Levels and handlers of the package's logger are as before afterwards."""
    log = logging.getLogger("torch")
    before = log.level, list(log.handlers)
    try:
        yield
    finally:
        log.setLevel(before[0])
        log.handlers[:] = before[1]


@contextlib.contextmanager
def log_settings(settings):
    with preserve_log_state():
        yield


def logs_to_string(module, log_option):
    """(stream, a context in which the logger writes there)."""
    stream = io.StringIO()

    @contextlib.contextmanager
    def context():
        handler = logging.StreamHandler(stream)
        logger = logging.getLogger(module)
        logger.addHandler(handler)
        try:
            yield
        finally:
            logger.removeHandler(handler)
    return stream, context
