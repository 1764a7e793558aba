"""Storages: what writes and reads the pieces of a plan."""
import abc
import dataclasses
from typing import Any

from .metadata import MetadataIndex

__all__ = ["WriteResult", "StorageWriter", "StorageReader"]


@dataclasses.dataclass(frozen=True)
class WriteResult:
    index: MetadataIndex
    size_in_bytes: int
    storage_data: Any


class StorageWriter(abc.ABC):
    """reset, set_up_storage_writer, prepare_local_plan on all processes, prepare_global_plan on one, write_data on all, finish on one."""

    @abc.abstractmethod
    def reset(self, checkpoint_id=None):
        """Begin a checkpoint."""

    @abc.abstractmethod
    def set_up_storage_writer(self, is_coordinator, *args, **kwargs):
        """Prepare this process."""

    @abc.abstractmethod
    def prepare_local_plan(self, plan):
        """The plan of this process, with what the storage adds."""

    @abc.abstractmethod
    def prepare_global_plan(self, plans):
        """The plans of all, with what the storage adds."""

    @abc.abstractmethod
    def write_data(self, plan, planner):
        """Write the pieces; a Future of a list of WriteResult."""

    @abc.abstractmethod
    def finish(self, metadata, results):
        """All pieces are written: from now on the checkpoint counts."""

    @classmethod
    @abc.abstractmethod
    def validate_checkpoint_id(cls, checkpoint_id):
        """Can this class write there?"""

    def storage_meta(self):
        return None


class StorageReader(abc.ABC):
    """reset, read_metadata, set_up_storage_reader, prepare_local_plan on all processes, prepare_global_plan on one, read_data on all."""

    @abc.abstractmethod
    def reset(self, checkpoint_id=None):
        """Begin to read."""

    @abc.abstractmethod
    def read_metadata(self, *args, **kwargs):
        """The checkpoint's Metadata."""

    @abc.abstractmethod
    def set_up_storage_reader(self, metadata, is_coordinator, *args, **kwargs):
        """Prepare this process."""

    @abc.abstractmethod
    def prepare_local_plan(self, plan):
        """The plan of this process, with what the storage adds."""

    @abc.abstractmethod
    def prepare_global_plan(self, plans):
        """The plans of all, with what the storage adds."""

    @abc.abstractmethod
    def read_data(self, plan, planner):
        """Read the pieces; a Future of None."""

    @classmethod
    @abc.abstractmethod
    def validate_checkpoint_id(cls, checkpoint_id):
        """Can this class read there?"""
