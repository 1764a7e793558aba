"""Plans: which pieces a process saves or loads. A planner makes them, of one process and then of all."""
import abc
import dataclasses
import enum
import io
import operator
from functools import reduce
from typing import Any, Optional

import rushlight as torch

from .metadata import ChunkStorageMetadata, MetadataIndex, TensorProperties

__all__ = ["WriteItemType", "LoadItemType", "BytesIOWriteData", "TensorWriteData", "WriteItem", "ReadItem", "SavePlan", "LoadPlan", "SavePlanner",
           "LoadPlanner"]


class WriteItemType(enum.Enum):
    TENSOR, SHARD, BYTE_IO = 1, 2, 3


class LoadItemType(enum.Enum):
    TENSOR, BYTE_IO = 1, 2


@dataclasses.dataclass(frozen=True)
class BytesIOWriteData:
    nbytes: int


@dataclasses.dataclass(frozen=True)
class TensorWriteData:
    chunk: ChunkStorageMetadata
    properties: TensorProperties
    size: torch.Size


@dataclasses.dataclass(frozen=True)
class WriteItem:
    """One piece to save."""
    index: MetadataIndex
    type: WriteItemType
    bytes_io_data: Optional[BytesIOWriteData] = None
    tensor_data: Optional[TensorWriteData] = None

    def tensor_storage_size(self):
        """In bytes; None of what is not a tensor."""
        if self.tensor_data is None:
            return None
        return reduce(operator.mul, self.tensor_data.size, 1) * self.tensor_data.properties.dtype.itemsize


@dataclasses.dataclass(frozen=True)
class ReadItem:
    """A box of a saved piece that goes to a box of a piece at hand."""
    type: LoadItemType
    dest_index: MetadataIndex
    dest_offsets: torch.Size
    storage_index: MetadataIndex
    storage_offsets: torch.Size
    lengths: torch.Size


@dataclasses.dataclass(frozen=True)
class SavePlan:
    items: list
    storage_data: Any = None
    planner_data: Any = None
    usable: bool = True


@dataclasses.dataclass
class LoadPlan:
    items: list
    storage_data: Any = None
    planner_data: Any = None


class SavePlanner(abc.ABC):
    """set_up_planner and create_local_plan on all processes, create_global_plan on one, finish_plan on all, then resolve_data per piece."""

    @abc.abstractmethod
    def set_up_planner(self, state_dict, storage_meta=None, is_coordinator=False):
        """Remember what is to be saved."""

    @abc.abstractmethod
    def create_local_plan(self):
        """What this process would save."""

    @abc.abstractmethod
    def create_global_plan(self, all_plans):
        """(the plans as they are to be, the Metadata of the checkpoint)"""

    @abc.abstractmethod
    def finish_plan(self, new_plan):
        """The plan of this process, as it came back."""

    @abc.abstractmethod
    def resolve_data(self, write_item):
        """The tensor or the io.BytesIO of a piece."""


class LoadPlanner:
    """set_up_planner and create_local_plan on all processes, create_global_plan on one, finish_plan on all, then a call per piece."""

    @abc.abstractmethod
    def set_up_planner(self, state_dict, metadata=None, is_coordinator=False):
        """Remember what is to be loaded."""

    @abc.abstractmethod
    def create_local_plan(self):
        """What this process reads."""

    @abc.abstractmethod
    def create_global_plan(self, global_plan):
        """The plans of all as they are to be."""

    @abc.abstractmethod
    def finish_plan(self, central_plan):
        """The plan of this process, as it came back."""

    @abc.abstractmethod
    def load_bytes(self, read_item, value):
        """Take an object that was read."""

    def resolve_bytes(self, read_item):
        return io.BytesIO()

    @abc.abstractmethod
    def resolve_tensor(self, read_item):
        """The tensor that a piece is copied to."""

    @abc.abstractmethod
    def commit_tensor(self, read_item, tensor):
        """The tensor of resolve_tensor has been filled."""
