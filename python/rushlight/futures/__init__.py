"""Futures: values that arrive later."""
import logging
import threading
from typing import Generic, TypeVar

__all__ = ["Future", "collect_all", "wait_all"]

T = TypeVar("T")


class Future(Generic[T]):
    """A value, or an exception, that some thread will set."""

    def __init__(self, *, devices=None):
        self._condition = threading.Condition()
        self._done, self._value, self._error = False, None, None
        self._callbacks = []

    def done(self):
        return self._done

    def wait(self):
        """The value, once it is there; an exception set instead is raised."""
        with self._condition:
            while not self._done:
                self._condition.wait()
        return self.value()

    def value(self):
        if not self._done:
            raise RuntimeError("value() was called before the future completed")
        if self._error is not None:
            raise self._error
        return self._value

    def _finish(self, value, error):
        with self._condition:
            if self._done:
                raise RuntimeError("Future can only be marked completed once")
            self._value, self._error, self._done = value, error, True
            callbacks, self._callbacks = self._callbacks, []
            self._condition.notify_all()
        for callback in callbacks:
            self._call(callback)

    def _call(self, callback):
        """What a callback raises is for nobody to catch; it is logged."""
        try:
            callback(self)
        except Exception:
            logging.getLogger(__name__).exception("Got the following error when running the callback:")

    def __getstate__(self):
        raise RuntimeError("Can not pickle torch.futures.Future")

    def set_result(self, result):
        self._finish(result, None)

    def set_exception(self, result):
        if not isinstance(result, Exception):
            raise AssertionError("%s is of type %s, not an Exception." % (result, type(result)))
        self._finish(None, result)

    def add_done_callback(self, callback):
        with self._condition:
            if not self._done:
                self._callbacks.append(callback)
                return
        self._call(callback)

    def then(self, callback):
        """A future of callback(this future)."""
        following = Future()

        def run(finished):
            try:
                result = callback(finished)
            except Exception as error:
                told = RuntimeError("Got the following error when running the callback: %s: %s" % (type(error).__name__, error))
                told.__cause__ = error
                following.set_exception(told)
            else:
                following.set_result(result)
        self.add_done_callback(run)
        return following


def collect_all(futures):
    """A future of the list of all futures, once all are done."""
    futures = list(futures)
    if None in futures:
        raise RuntimeError("Future can't be None")
    result, lock, left = Future(), threading.Lock(), [len(futures)]
    if not futures:
        result.set_result(futures)

    def one_done(_):
        with lock:
            left[0] -= 1
            last = left[0] == 0
        if last:
            result.set_result(futures)
    for future in futures:
        future.add_done_callback(one_done)
    return result


def wait_all(futures):
    """The values of all futures."""
    return [future.wait() for future in collect_all(futures).wait()]
