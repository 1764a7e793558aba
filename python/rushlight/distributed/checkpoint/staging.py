"""Stagers: how async_save() takes a copy of what it saves, which the training may change meanwhile."""
import dataclasses
import typing
from concurrent.futures import ThreadPoolExecutor

import rushlight as torch

from .._dtensor import is_dtensor

__all__ = ["AsyncStager", "BlockingAsyncStager", "DefaultStager", "StagingOptions"]


@typing.runtime_checkable
class AsyncStager(typing.Protocol):
    """stage(state_dict) gives the copy, or a Future of it; synchronize_staging() is called when the saving has begun, where should_synchronize_after_execute says so."""

    _synchronize_after_execute = True

    @property
    def should_synchronize_after_execute(self):
        return self._synchronize_after_execute

    def stage(self, state_dict):
        raise NotImplementedError(f"{type(self).__name__} must implement stage method")

    def synchronize_staging(self):
        """The copy is whole when this returns."""

    def close(self):
        """Gives up what it has."""


@dataclasses.dataclass
class StagingOptions:
    """Copies in pinned memory, in shared memory, made by a thread, and not waited for one by one."""
    use_pinned_memory: bool = True
    use_shared_memory: bool = True
    use_async_staging: bool = True
    use_non_blocking_copy: bool = True


class _Copies:
    """Copies on the CPU. Their memory is used again for the next ones, where kept is a dict: {place in the state: tensor}."""

    def __init__(self, pinned, shared, non_blocking, keep):
        self.pinned, self.shared, self.non_blocking, self.kept = pinned and torch.accelerator.is_available(), shared, non_blocking, {} if keep else None

    def of(self, value, place=()):
        if isinstance(value, dict):
            made = {k: self.of(v, (*place, k)) for k, v in value.items()}
            return made if type(value) is dict else type(value)(made)
        if type(value) in (list, tuple):
            return type(value)(self.of(v, (*place, i)) for i, v in enumerate(value))
        return self._tensor(value, place) if isinstance(value, torch.Tensor) else value

    def _tensor(self, value, place):
        if is_dtensor(value):
            return value.detach().clone()
        to = self.kept.get(place) if self.kept is not None else None
        if to is None or to.shape != value.shape or to.dtype != value.dtype:
            to = torch.empty_like(value, device="cpu", memory_format=torch.contiguous_format, pin_memory=self.pinned)
            to = to.share_memory_() if self.shared else to
            if self.kept is not None:
                self.kept[place] = to
        return to.copy_(value.detach(), non_blocking=self.non_blocking)

    def clear(self):
        if self.kept is not None:
            self.kept.clear()


class BlockingAsyncStager(AsyncStager):
    """The copy is whole when stage() returns; with cache_staged_state_dict in memory that is pinned and used again."""

    _synchronize_after_execute = False

    def __init__(self, cache_staged_state_dict=False, type_check=False):
        self.cache_staged_state_dict, self.type_check = cache_staged_state_dict, type_check
        self._copies = _Copies(cache_staged_state_dict, False, False, cache_staged_state_dict)

    def stage(self, state_dict):
        with torch.no_grad():
            return self._copies.of(state_dict)

    def synchronize_staging(self):
        """It is."""

    def close(self):
        self._copies.clear()


class DefaultStager(AsyncStager):
    """As StagingOptions say; the memory of a copy is used for the next one, too."""

    _synchronize_after_execute = False

    def __init__(self, config=StagingOptions()):
        if config.use_non_blocking_copy and not torch.accelerator.is_available():
            raise AssertionError("Non-blocking copy requires that the current accelerator is available.")
        self._config, self._future = config, None
        self._copies = _Copies(config.use_pinned_memory, config.use_shared_memory, config.use_non_blocking_copy, True)
        self._threads = ThreadPoolExecutor(1, thread_name_prefix="staging") if config.use_async_staging else None

    def stage(self, state_dict, **kwargs):
        """The copy; with use_async_staging a Future of it."""
        if self._threads is None:
            return self._stage(state_dict)
        self._future = self._threads.submit(self._stage, state_dict)
        return self._future

    def _stage(self, state_dict):
        with torch.no_grad():
            made = self._copies.of(state_dict)
        if self._config.use_non_blocking_copy:
            torch.accelerator.synchronize()
        return made

    def synchronize_staging(self):
        if self._future is not None:
            self._future.result()

    def close(self):
        if self._threads is not None:
            self._threads.shutdown()
        self._copies.clear()
