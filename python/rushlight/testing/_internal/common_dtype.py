"""Tuples of dtypes by what they hold."""
import rushlight as torch

_INTEGRAL = (torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64)
_FLOATING = (torch.float32, torch.float64)
_COMPLEX = (torch.complex64, torch.complex128)


def _with(dtypes, more):
    return tuple(dict.fromkeys(dtypes + more))


def empty_types():
    return ()


def floating_types():
    return _FLOATING


def floating_types_and_half():
    return (*_FLOATING, torch.half)


def floating_types_and(*dtypes):
    return _with(_FLOATING, dtypes)


def floating_and_complex_types():
    return _FLOATING + _COMPLEX


def floating_and_complex_types_and(*dtypes):
    return _with(_FLOATING + _COMPLEX, dtypes)


def double_types():
    return torch.float64, torch.complex128


def integral_types():
    return _INTEGRAL


def integral_types_and(*dtypes):
    return _with(_INTEGRAL, dtypes)


def all_types():
    return _FLOATING + _INTEGRAL


def all_types_and(*dtypes):
    return _with(_FLOATING + _INTEGRAL, dtypes)


def all_types_and_half():
    return all_types_and(torch.half)


def complex_types():
    return _COMPLEX


def complex_types_and(*dtypes):
    return _with(_COMPLEX, dtypes)


def all_types_and_complex():
    return _FLOATING + _INTEGRAL + _COMPLEX


def all_types_and_complex_and(*dtypes):
    return _with(_FLOATING + _INTEGRAL + _COMPLEX, dtypes)


def float8_types():
    return torch.float8_e4m3fn, torch.float8_e4m3fnuz, torch.float8_e5m2, torch.float8_e5m2fnuz


def custom_types(*dtypes):
    return _with((), dtypes)


def get_all_dtypes(include_half=True, include_bfloat16=True, include_bool=True, include_complex=True, include_complex32=False, include_qint=False):
    return (get_all_int_dtypes() + get_all_fp_dtypes(include_half=include_half, include_bfloat16=include_bfloat16)
            + ([torch.bool] if include_bool else []) + (get_all_complex_dtypes(include_complex32) if include_complex else [])
            + (get_all_qint_dtypes() if include_qint else []))


def get_all_math_dtypes(device):
    return (get_all_int_dtypes() + get_all_fp_dtypes(include_half=str(device).startswith("cuda"), include_bfloat16=False) + get_all_complex_dtypes())


def get_all_complex_dtypes(include_complex32=False):
    return [torch.complex32, *_COMPLEX] if include_complex32 else list(_COMPLEX)


def get_all_int_dtypes():
    return list(_INTEGRAL)


def get_all_fp_dtypes(include_half=True, include_bfloat16=True):
    return [*_FLOATING, *([torch.float16] if include_half else []), *([torch.bfloat16] if include_bfloat16 else [])]


def get_all_qint_dtypes():
    return [torch.qint8, torch.quint8, torch.qint32, torch.quint4x2, torch.quint2x4]


float_to_corresponding_complex_type_map = {torch.float16: torch.complex32, torch.float32: torch.complex64, torch.float64: torch.complex128}
