"""What a checkpoint in pieces says of itself: the classes that its file .metadata holds, pickled under PyTorch's names."""
import dataclasses
import enum
import os
from typing import Any, Optional, Union

import rushlight as torch

__all__ = ["ChunkStorageMetadata", "TensorStorageMetadata", "BytesStorageMetadata", "Metadata", "MetadataIndex", "TensorProperties", "StorageMeta"]


@dataclasses.dataclass
class ChunkStorageMetadata:
    """A piece of a tensor: where it begins, and its sizes."""
    offsets: torch.Size
    sizes: torch.Size


class _MEM_FORMAT_ENCODING(enum.Enum):
    """Memory formats, as files name them."""
    TORCH_CONTIGUOUS_FORMAT = 0
    TORCH_CHANNELS_LAST = 1
    TORCH_PRESERVE_FORMAT = 2


_FORMATS = (torch.contiguous_format, torch.channels_last, torch.preserve_format)  # ORDER: _MEM_FORMAT_ENCODING


@dataclasses.dataclass
class TensorProperties:
    """What is needed to make a tensor, besides its size."""
    dtype: torch.dtype = dataclasses.field(default_factory=torch.get_default_dtype)
    layout: torch.layout = torch.strided
    requires_grad: bool = False
    memory_format: torch.memory_format = torch.contiguous_format
    pin_memory: bool = False

    def __getstate__(self):
        if self.memory_format not in _FORMATS:
            raise RuntimeError(f"Invalid torch.memory_format: {self.memory_format}")
        return self.dtype, self.layout, self.requires_grad, _MEM_FORMAT_ENCODING(_FORMATS.index(self.memory_format)), self.pin_memory

    def __setstate__(self, state):
        self.dtype, self.layout, self.requires_grad, encoding, self.pin_memory = state
        self.memory_format = _FORMATS[encoding.value]

    @staticmethod
    def create_from_tensor(tensor):
        return TensorProperties(dtype=tensor.dtype, layout=tensor.layout, requires_grad=tensor.requires_grad)


@dataclasses.dataclass
class TensorStorageMetadata:
    """A tensor: its size, and the pieces that were saved."""
    properties: TensorProperties
    size: torch.Size
    chunks: list


@dataclasses.dataclass
class BytesStorageMetadata:
    """An object that is not a tensor."""


STORAGE_TYPES = Union[TensorStorageMetadata, BytesStorageMetadata]


@dataclasses.dataclass
class StorageMeta:
    """What the storage says of itself."""
    checkpoint_id: Optional[Union[str, os.PathLike]] = None
    save_id: Optional[str] = None
    load_id: Optional[str] = None
    modules: list = dataclasses.field(default_factory=list)


@dataclasses.dataclass
class Metadata:
    """The checkpoint: its entries, how nested keys were joined, and where each piece lies."""
    state_dict_metadata: dict
    planner_data: Any = None
    storage_data: Any = None
    storage_meta: Optional[StorageMeta] = None
    version: Optional[str] = None


@dataclasses.dataclass(frozen=True)
class MetadataIndex:
    """A piece of an entry. `index`, its number in the list of pieces, is a hint: it takes no part in comparisons."""
    fqn: str
    offset: Optional[torch.Size] = None
    index: Optional[int] = dataclasses.field(hash=False, compare=False, default=None)

    def __init__(self, fqn, offset=None, index=None):
        object.__setattr__(self, "fqn", fqn)
        object.__setattr__(self, "index", index)
        object.__setattr__(self, "offset", torch.Size(offset) if offset is not None else None)
