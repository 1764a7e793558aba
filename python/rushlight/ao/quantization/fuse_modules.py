"""Fusing neighbours of a model into one layer, in evaluation into the weights, for training into a module of the three."""
import copy

from rushlight import nn
from rushlight.ao.nn import intrinsic
from rushlight.nn.utils.fusion import fuse_conv_bn_eval, fuse_linear_bn_eval

__all__ = ["fuse_known_modules", "fuse_modules", "fuse_modules_qat"]

_CONVS = {nn.Conv1d: (nn.BatchNorm1d, 1), nn.Conv2d: (nn.BatchNorm2d, 2), nn.Conv3d: (nn.BatchNorm3d, 3)}
_TRANSPOSED = {nn.ConvTranspose1d: nn.BatchNorm1d, nn.ConvTranspose2d: nn.BatchNorm2d, nn.ConvTranspose3d: nn.BatchNorm3d}
_PAIRS = {(nn.Linear, nn.ReLU): intrinsic.LinearReLU, (nn.Linear, nn.LeakyReLU): intrinsic.LinearLeakyReLU, (nn.Linear, nn.Tanh): intrinsic.LinearTanh,
          (nn.BatchNorm2d, nn.ReLU): intrinsic.BNReLU2d, (nn.BatchNorm3d, nn.ReLU): intrinsic.BNReLU3d}


def _one_mode(parts):
    if len({part.training for part in parts}) != 1:
        raise AssertionError("Conv and BN both must be in the same mode (train or eval).")


def _fuse_conv(parts, kinds, is_qat):
    norm, n = _CONVS[kinds[0]]
    if kinds == (kinds[0], nn.ReLU):
        return getattr(intrinsic, f"ConvReLU{n}d")(*parts)
    if kinds[1:] not in ((norm,), (norm, nn.ReLU)):
        return None
    _one_mode(parts)
    if is_qat:
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
            raise AssertionError("Fusing ConvTranspose+BatchNorm not yet supported in QAT.")
        fused = fuse_conv_bn_eval(*parts, transpose=True)
    if fused is None:
        raise AssertionError(f"did not find fuser method for: {kinds} ")
    return fused


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
