"""Fusing neighbours of a model into one layer, in evaluation into the weights, for training into a module of the three."""
import copy

from rushlight import nn
from rushlight.ao.nn import intrinsic
from rushlight.nn.utils.fusion import fuse_conv_bn_eval, fuse_linear_bn_eval

__all__ = ["fuse_known_modules", "fuse_modules", "fuse_modules_qat", "fuse_conv_bn", "fuse_conv_bn_relu", "fuse_linear_bn", "fuse_convtranspose_bn",
           "get_fuser_method"]

_CONVS = {nn.Conv1d: (nn.BatchNorm1d, 1), nn.Conv2d: (nn.BatchNorm2d, 2), nn.Conv3d: (nn.BatchNorm3d, 3)}
_TRANSPOSED = {nn.ConvTranspose1d: nn.BatchNorm1d, nn.ConvTranspose2d: nn.BatchNorm2d, nn.ConvTranspose3d: nn.BatchNorm3d}
_PAIRS = {(nn.Linear, nn.ReLU): intrinsic.LinearReLU, (nn.Linear, nn.LeakyReLU): intrinsic.LinearLeakyReLU, (nn.Linear, nn.Tanh): intrinsic.LinearTanh,
          (nn.BatchNorm2d, nn.ReLU): intrinsic.BNReLU2d, (nn.BatchNorm3d, nn.ReLU): intrinsic.BNReLU3d}


def _one_mode(parts):
    if len({part.training for part in parts}) != 1:
        raise AssertionError("%s and BN both must be in the same mode (train or eval)." % ("Linear" if isinstance(parts[0], nn.Linear) else "Conv"))


def _fits(conv, norm):
    """For training, where the two stay as they are."""
    name = type(norm).__name__
    if conv.out_channels != norm.num_features:
        raise AssertionError(f"Output channel of {type(conv).__name__} must match num_features of {name}.")
    if not norm.affine:
        raise AssertionError(f"Only support fusing {name} with affine set to True")
    if not norm.track_running_stats:
        raise AssertionError(f"Only support fusing {name} with tracking_running_stats set to True")


def _fuse_conv(parts, kinds, is_qat):
    norm, n = _CONVS[kinds[0]]
    if kinds == (kinds[0], nn.ReLU):
        return getattr(intrinsic, f"ConvReLU{n}d")(*parts)
    if kinds[1:] not in ((norm,), (norm, nn.ReLU)):
        return None
    _one_mode(parts)
    if is_qat:
        _fits(*parts[:2])
        return getattr(intrinsic, f"ConvBn{n}d" if len(kinds) == 2 else f"ConvBnReLU{n}d")(*parts)
    conv = fuse_conv_bn_eval(parts[0], parts[1])
    return conv if len(kinds) == 2 else getattr(intrinsic, f"ConvReLU{n}d")(conv, parts[2])


def _fuse(parts, is_qat):
    kinds = tuple(type(part) for part in parts)
    fused = None
    if kinds in _PAIRS:
        fused = _PAIRS[kinds](*parts)
    elif kinds[0] in _CONVS and len(kinds) > 1:
        fused = _fuse_conv(parts, kinds, is_qat)
    elif kinds == (nn.Linear, nn.BatchNorm1d):
        _one_mode(parts)
        fused = intrinsic.LinearBn1d(*parts) if is_qat else fuse_linear_bn_eval(*parts)
    elif len(kinds) == 2 and _TRANSPOSED.get(kinds[0]) is kinds[1]:
        _one_mode(parts)
        if is_qat:
            raise Exception("Fusing ConvTranspose+BatchNorm not yet supported in QAT.")
        fused = fuse_conv_bn_eval(*parts, transpose=True)
    if fused is None:
        raise AssertionError(f"did not find fuser method for: {kinds} ")
    return fused


def fuse_conv_bn(is_qat, conv, bn):
    """The convolution with the normalisation in its weights (both in evaluation), or for training a module of the two."""
    return _fuse([conv, bn], is_qat)


def fuse_conv_bn_relu(is_qat, conv, bn, relu):
    """The same, and ReLU behind it."""
    return _fuse([conv, bn, relu], is_qat)


def fuse_linear_bn(is_qat, linear, bn):
    """The same of a linear layer."""
    return _fuse([linear, bn], is_qat)


def fuse_convtranspose_bn(is_qat, convt, bn):
    """The same of a transposed convolution, in evaluation only."""
    return _fuse([convt, bn], is_qat)


def get_fuser_method(op_list, additional_fuser_method_mapping=None):
    """f(is_qat, *modules) that fuses modules of these types; additional_fuser_method_mapping: {types: such a function}."""
    kinds, additional = tuple(op_list), additional_fuser_method_mapping or {}
    known = {(nn.Linear, nn.BatchNorm1d): fuse_linear_bn, **{(conv, norm): fuse_convtranspose_bn for conv, norm in _TRANSPOSED.items()},
             **dict.fromkeys(_PAIRS, lambda is_qat, *parts: _fuse(parts, is_qat))}
    for conv, (norm, _) in _CONVS.items():
        known.update({(conv, norm): fuse_conv_bn, (conv, norm, nn.ReLU): fuse_conv_bn_relu, (conv, nn.ReLU): known[nn.Linear, nn.ReLU]})
    found = {**known, **additional}.get(kinds)
    if found is None:
        raise AssertionError(f"did not find fuser method for: {kinds} ")
    return found


def fuse_known_modules(mod_list, is_qat, additional_fuser_method_mapping=None):
    """The layer that does what the modules do, then Identity for each of the others; hooks move to its ends."""
    mapping = additional_fuser_method_mapping or {}
    fuser = mapping.get(tuple(type(part) for part in mod_list))
    for part in mod_list[1:-1]:
        if part._forward_hooks or part._forward_pre_hooks:
            raise AssertionError("hooks in the middle of modules that are fused")
    first, last = dict(mod_list[0]._forward_pre_hooks), dict(mod_list[-1]._forward_hooks)
    mod_list[0]._forward_pre_hooks.clear()
    mod_list[-1]._forward_hooks.clear()
    fused = fuser(is_qat, *mod_list) if fuser else _fuse(mod_list, is_qat)
    for hook in first.values():
        fused.register_forward_pre_hook(hook)
    for hook in last.values():
        fused.register_forward_hook(hook)
    rest = [nn.Identity() for _ in mod_list[1:]]
    for identity in rest:
        identity.training = mod_list[0].training
    return [fused, *rest]


def _fuse_group(model, names, is_qat, fuser_func, mapping):
    fused = fuser_func([model.get_submodule(name) for name in names], is_qat, mapping)
    for name, module in zip(names, fused):
        parent, _, child = name.rpartition(".")
        setattr(model.get_submodule(parent), child, module)


def _fuse_modules(model, modules_to_fuse, is_qat, inplace=False, fuser_func=fuse_known_modules, fuse_custom_config_dict=None):
    if not inplace:
        model = copy.deepcopy(model)
    mapping = (fuse_custom_config_dict or {}).get("additional_fuser_method_mapping", {})
    groups = [modules_to_fuse] if all(isinstance(name, str) for name in modules_to_fuse) else modules_to_fuse
    for names in groups:
        _fuse_group(model, names, is_qat, fuser_func, mapping)
    return model


def fuse_modules(model, modules_to_fuse, inplace=False, fuser_func=fuse_known_modules, fuse_custom_config_dict=None):
    """The model with each list of names made one layer (the others Identity): ["conv", "bn", "relu"], or several such lists."""
    return _fuse_modules(model, modules_to_fuse, False, inplace, fuser_func, fuse_custom_config_dict)


def fuse_modules_qat(model, modules_to_fuse, inplace=False, fuser_func=fuse_known_modules, fuse_custom_config_dict=None):
    """fuse_modules for a model that goes on training."""
    return _fuse_modules(model, modules_to_fuse, True, inplace, fuser_func, fuse_custom_config_dict)
