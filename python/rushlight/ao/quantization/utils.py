"""Small questions about QConfigs, observers, dtypes and names."""
import rushlight as torch
from rushlight.nn.utils.parametrize import is_parametrized

__all__ = ["activation_dtype", "weight_dtype", "activation_is_statically_quantized", "activation_is_dynamically_quantized", "activation_is_int8_quantized",
           "activation_is_int32_quantized", "weight_is_quantized", "weight_is_statically_quantized", "op_is_int8_dynamically_quantized", "get_qconfig_dtypes",
           "get_quant_type", "get_qparam_dict", "is_per_tensor", "is_per_channel", "to_underlying_dtype", "getattr_from_fqn", "check_min_max_valid",
           "validate_qmin_qmax", "get_combined_dict", "has_no_children_ignoring_parametrizations", "MatchAllNode", "Pattern"]

Pattern = object
_UNDERLYING = {torch.quint8: torch.uint8, torch.qint8: torch.int8, torch.qint32: torch.int32, torch.quint4x2: torch.uint8, torch.quint2x4: torch.uint8}
_GRIDS = (torch.quint8, torch.qint8, torch.qint32, torch.quint4x2, torch.quint2x4, torch.uint8, torch.int8, torch.int16, torch.int32, torch.float8_e5m2, torch.float8_e4m3fn)


class MatchAllNode:
    """In a pattern: whatever there is."""


def get_combined_dict(default_dict, additional_dict):
    return {**default_dict, **additional_dict}


def is_per_tensor(qscheme):
    return qscheme in (torch.per_tensor_affine, torch.per_tensor_symmetric)


def is_per_channel(qscheme):
    return qscheme in (torch.per_channel_affine, torch.per_channel_affine_float_qparams, torch.per_channel_symmetric)


def to_underlying_dtype(qdtype):
    """The dtype of the numbers that a quantized dtype keeps; a plain one is its own."""
    return _UNDERLYING.get(qdtype, qdtype)


def getattr_from_fqn(obj, fqn):
    for part in fqn.split("."):
        obj = getattr(obj, part)
    return obj


def activation_dtype(qconfig):
    return qconfig.activation().dtype


def weight_dtype(qconfig):
    return qconfig.weight().dtype


def _is_dynamic(qconfig):
    return getattr(qconfig.activation(), "is_dynamic", False)


def activation_is_statically_quantized(qconfig):
    return activation_dtype(qconfig) in _GRIDS and not _is_dynamic(qconfig)


def activation_is_dynamically_quantized(qconfig):
    return _is_dynamic(qconfig)


def activation_is_int8_quantized(qconfig):
    return activation_dtype(qconfig) in (torch.quint8, torch.qint8, torch.uint8, torch.int8)


def activation_is_int32_quantized(qconfig):
    return activation_dtype(qconfig) in (torch.qint32, torch.int32)


def weight_is_quantized(qconfig):
    return weight_dtype(qconfig) in _GRIDS


def weight_is_statically_quantized(qconfig):
    return weight_dtype(qconfig) in (torch.quint8, torch.qint8, torch.uint8, torch.int8)


def op_is_int8_dynamically_quantized(qconfig):
    return activation_dtype(qconfig) in (torch.quint8, torch.uint8) and weight_dtype(qconfig) in (torch.qint8, torch.int8) and _is_dynamic(qconfig)


def get_qconfig_dtypes(qconfig):
    """(activation's dtype, weight's dtype, whether the grid is found at each call)."""
    return activation_dtype(qconfig), weight_dtype(qconfig), _is_dynamic(qconfig)


def get_quant_type(qconfig):
    from .quant_type import QuantType
    if qconfig is None:
        raise AssertionError("qconfig must be provided to determine quant type")
    activation, static = qconfig.activation(), (torch.quint8, torch.qint8, torch.quint4x2, torch.qint32, torch.uint8, torch.int8, torch.int16, torch.int32)
    weight = qconfig.weight()
    if weight.dtype in static:
        if getattr(activation, "is_dynamic", False):
            return QuantType.DYNAMIC
        return QuantType.STATIC if activation.dtype in static else QuantType.WEIGHT_ONLY
    if weight.dtype == torch.float16:
        if getattr(activation, "is_dynamic", False):
            return QuantType.DYNAMIC
        if activation.dtype == torch.float16:
            return QuantType.STATIC
    raise Exception("Unrecognized dtype combination in get_quant_type: activation(%s),weight(%s)" % (activation.dtype, weight.dtype))  # noqa: TRY002


def get_qparam_dict(observer_or_fake_quant):
    """The grid that an observer found, as quantized layers take it."""
    scheme = getattr(observer_or_fake_quant, "qscheme", None)
    found = {"qscheme": scheme, "dtype": observer_or_fake_quant.dtype}
    if scheme is None:
        return found
    if is_per_tensor(scheme):
        found["qscheme"] = torch.per_tensor_affine
    elif is_per_channel(scheme):
        if scheme is torch.per_channel_symmetric:       # one of two names for it
            found["qscheme"] = torch.per_channel_affine
        found["axis"] = observer_or_fake_quant.ch_axis
    else:
        raise RuntimeError("Unrecognized qscheme: %s" % scheme)
    found["scale"], found["zero_point"] = observer_or_fake_quant.calculate_qparams()
    for name in ("quant_min", "quant_max"):
        if hasattr(observer_or_fake_quant, name):
            found[name] = getattr(observer_or_fake_quant, name)
    return found


def check_min_max_valid(min_val, max_val):
    """Whether an observer saw anything; its least value must not be above the greatest."""
    from .observer import _ends_known
    return _ends_known(min_val, max_val)


def validate_qmin_qmax(quant_min, quant_max):
    if not quant_min <= 0 <= quant_max:
        raise AssertionError("Used-specified quantization range must include 0.")
    if quant_min >= quant_max:
        raise AssertionError("qmin must be strictly less than qmax for user-specified quantization range.")


def has_no_children_ignoring_parametrizations(module):
    """Whether a module has no submodules but those of parametrizations."""
    return len(module._modules) == 0 or (is_parametrized(module) and len(module._modules) == 1 and "parametrizations" in module._modules)


def _parent_name(target):
    """"a.b.c" as ("a.b", "c")."""
    parent, _, name = target.rpartition(".")
    return parent, name
