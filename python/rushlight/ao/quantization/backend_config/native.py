"""What rushlight runs on quantized tensors, as a BackendConfig: the layers and functions that convert_fx() knows."""
import operator

import rushlight as torch
from rushlight import nn
from rushlight.ao.nn import intrinsic
from rushlight.nn import functional as F

from ..quantization_mappings import get_default_qat_module_mappings
from .backend_config import BackendConfig, BackendPatternConfig, DTypeConfig, ObservationType

__all__ = ["get_native_backend_config", "get_native_backend_config_dict"]

_OWN, _SHARED, _NONE = ObservationType.OUTPUT_USE_DIFFERENT_OBSERVER_AS_INPUT, ObservationType.OUTPUT_SHARE_OBSERVER_WITH_INPUT, ObservationType.INPUT_OUTPUT_NOT_OBSERVED


def _static():
    return DTypeConfig(torch.quint8, torch.quint8, torch.qint8, torch.float32)


def _dynamic():
    return [DTypeConfig(torch.quint8, torch.float32, torch.qint8, torch.float32, True), DTypeConfig(torch.float16, torch.float32, torch.float16, torch.float32, True)]


def _plain():
    return [DTypeConfig(torch.quint8, torch.quint8)]


def _pattern(pattern, dtypes, observation=_OWN, **more):
    made = BackendPatternConfig(pattern).set_observation_type(observation).set_dtype_configs(dtypes)
    for name, value in more.items():
        (getattr(made, "_set_" + name, None) or getattr(made, "set_" + name))(value)
    return made


def _fuser(is_qat, *layers):
    """One layer of several."""
    from ..fuse_modules import fuse_known_modules
    return fuse_known_modules(list(layers), is_qat)[0]


def _layers(root, norm, fused, function, transposed, dtypes):
    """A layer with a weight, alone and with what follows it; `fused`: the classes of layer and relu, layer and norm, all three."""
    with_relu, with_norm, with_both = fused
    qat, made = get_default_qat_module_mappings(), []
    for kind in (root, with_relu, with_norm, with_both):
        if kind is not None:
            made.append(_pattern(kind, dtypes(), root_module=root, **({"qat_module": qat[kind]} if kind in qat else {})))
            if kind in qat:
                made.append(_pattern(qat[kind], dtypes(), root_module=root))
    made.append(_pattern(function, dtypes(), input_type_to_index={"weight": 1, "bias": 2}))
    for relu in (nn.ReLU, F.relu):
        made.append(_pattern((root, relu), dtypes(), fused_module=with_relu, fuser_method=_fuser))
        made.append(_pattern((function, relu), dtypes()))
        if with_both is not None:
            made.append(_pattern((root, norm, relu), dtypes(), fused_module=with_both, fuser_method=_fuser, root_module=root))
    made.append(_pattern((root, norm), dtypes(), fused_module=with_norm, fuser_method=_fuser))
    if transposed is not None:
        kind, call = transposed
        made.append(_pattern(kind, dtypes(), root_module=kind))
        made.append(_pattern((kind, norm), dtypes(), root_module=kind, fuser_method=_fuser))
        made.append(_pattern(call, dtypes(), input_type_to_index={"weight": 1, "bias": 2}))
    return made


def _convolutions():
    made = []
    for d in (1, 2, 3):
        def of(where, name, d=d):
            return getattr(where, name % d)
        fused = [of(intrinsic, name) for name in ("ConvReLU%dd", "ConvBn%dd", "ConvBnReLU%dd")]
        made += _layers(of(nn, "Conv%dd"), of(nn, "BatchNorm%dd"), fused, of(F, "conv%dd"), (of(nn, "ConvTranspose%dd"), of(F, "conv_transpose%dd")), lambda: [_static()])
    return made


def _binaries():
    counts = {0: _OWN, 1: _SHARED, 2: _OWN}
    made = []
    for op in (operator.add, torch.add, operator.mul, torch.mul):
        made += [_pattern(p, _plain(), num_tensor_args_to_observation_type=dict(counts)) for p in ((op, nn.ReLU), (op, F.relu), (op, torch.relu), op)]
    return made


_ALONE = (torch.matmul, nn.ELU, nn.LeakyReLU, nn.Hardswish, nn.InstanceNorm1d, nn.InstanceNorm2d, nn.InstanceNorm3d, nn.Dropout, nn.PReLU, F.elu, F.hardswish,
          F.leaky_relu, F.dropout, nn.Hardsigmoid, F.hardsigmoid, "hardsigmoid", "hardsigmoid_", nn.Sigmoid, torch.sigmoid, "sigmoid", "sigmoid_", nn.Softmax,
          nn.Tanh, torch.tanh, "tanh", "tanh_", nn.BatchNorm2d, nn.BatchNorm3d, intrinsic.BNReLU2d, intrinsic.BNReLU3d)
_SHARING = (torch.cat, nn.AdaptiveAvgPool1d, nn.AdaptiveAvgPool2d, nn.AdaptiveAvgPool3d, nn.AvgPool1d, nn.AvgPool2d, nn.AvgPool3d, nn.Hardtanh, nn.Identity,
            nn.MaxPool1d, nn.MaxPool2d, nn.MaxPool3d, nn.PixelShuffle, nn.PixelUnshuffle, nn.ReLU, nn.ReLU6, F.adaptive_avg_pool1d, F.adaptive_avg_pool2d,
            F.adaptive_avg_pool3d, F.hardtanh, F.hardtanh_, F.interpolate, F.max_pool1d, F.max_pool2d, F.max_pool3d, F.pixel_shuffle, F.pixel_unshuffle, F.relu,
            F.relu6, F.avg_pool1d, F.avg_pool2d, F.avg_pool3d, torch.clamp, torch.flatten, torch.mean, torch.narrow, torch.repeat_interleave, torch.transpose,
            torch.squeeze, torch.stack, torch.unsqueeze, operator.floordiv, "contiguous", "clamp", "detach", "detach_", "mean", "permute", "repeat",
            "repeat_interleave", "reshape", "resize_", "relu", "relu_", "squeeze", "squeeze_", "transpose", "unsqueeze", "unsqueeze_", "view")


def _norms():
    made = [_pattern(F.group_norm, _plain(), input_type_to_index={"weight": 2, "bias": 3}), _pattern(F.instance_norm, _plain(), input_type_to_index={"weight": 3, "bias": 4})]
    kept = [DTypeConfig(torch.quint8, torch.quint8, torch.float32, torch.float32)]
    made += [_pattern(nn.LayerNorm, kept), _pattern(F.layer_norm, kept, input_type_to_index={"weight": 2, "bias": 3})]
    for d in (2, 3):
        norm, fused = getattr(nn, "BatchNorm%dd" % d), getattr(intrinsic, "BNReLU%dd" % d)
        made += [_pattern((norm, relu), _plain(), fused_module=fused, fuser_method=_fuser) for relu in (nn.ReLU, F.relu)]
    return made


def _tables():
    qat, dtypes = get_default_qat_module_mappings(), [DTypeConfig(torch.float32, torch.float32, torch.quint8), DTypeConfig(torch.float32, torch.float32, torch.quint4x2)]
    made = []
    for kind in (nn.Embedding, nn.EmbeddingBag):
        made += [_pattern(kind, dtypes, root_module=kind, **({"qat_module": qat[kind]} if kind in qat else {}))]
        made += [_pattern(qat[kind], dtypes, root_module=kind)] if kind in qat else []
    return made


def get_native_backend_config():
    """The patterns that rushlight runs."""
    linear = _layers(nn.Linear, nn.BatchNorm1d, (intrinsic.LinearReLU, intrinsic.LinearBn1d, None), F.linear, None, lambda: [_static(), *_dynamic()])
    cells = [_pattern(kind, _dynamic(), root_module=kind) for kind in (nn.GRUCell, nn.LSTMCell, nn.RNNCell, nn.LSTM, nn.GRU)]
    return BackendConfig("native").set_backend_pattern_configs([
        *_convolutions(), *linear, *_binaries(), *(_pattern(p, _plain()) for p in _ALONE), *(_pattern(p, _plain(), _SHARED) for p in _SHARING), *_norms(),
        *(_pattern(p, _plain(), _NONE) for p in ("shape", "size")), *cells, *_tables()])


def get_native_backend_config_dict():
    """The same as a dict of old."""
    return get_native_backend_config().to_dict()
