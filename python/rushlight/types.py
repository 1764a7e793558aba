"""Names of types, for annotations."""
import os
from builtins import bool as _bool, bytes as _bytes, complex as _complex, float as _float, int as _int, str as _str
from typing import IO, Any, List, Sequence, Union

import rushlight as torch
from rushlight import Size, SymBool, SymFloat, SymInt, Tensor, device as _device, dtype as _dtype, layout as _layout, \
    qscheme as _qscheme

__all__ = ["Number", "Device", "FileLike", "Storage"]

_TensorOrTensors = Union[Tensor, Sequence[Tensor]]
_TensorOrOptionalTensors = Union[Tensor, Sequence[Any]]
_TensorOrTensorsOrGradEdge = Union[Tensor, Sequence[Tensor], Any]
_size = Union[Size, List[int], tuple]
_symsize = Union[Size, Sequence[Any]]
_dispatchkey = Union[str, Any]
IntLikeType = Union[int, SymInt]
FloatLikeType = Union[float, SymFloat]
BoolLikeType = Union[bool, SymBool]
py_sym_types = (SymInt, SymFloat, SymBool)
PySymType = Union[SymInt, SymFloat, SymBool]
Number = Union[_int, _float, _bool]
_Number = (_int, _float, _bool)
FileLike = Union[str, os.PathLike, IO[bytes]]
Device = Union[_device, str, int, None]


class Storage:
    """Any storage, for annotations."""

    def __new__(cls, *args, **kwargs):
        return torch.UntypedStorage(*args, **kwargs)
