"""Eager quantization: observe a model's layers, then put quantized layers in their place."""
import copy
import inspect
import itertools
import warnings

import rushlight as torch
from rushlight import nn
from rushlight.ao.nn import intrinsic
from rushlight.nn.quantized import FloatFunctional, FXFloatFunctional
from . import quantization_mappings as _mappings
from .observer import _is_activation_post_process
from .qconfig import (_activation_is_memoryless, _add_module_to_qconfig_obs_ctr, _assert_valid_qconfig, default_dynamic_qconfig, float16_dynamic_qconfig,
                      float_qparams_weight_only_qconfig, float_qparams_weight_only_qconfig_4bit)
from .stubs import DeQuantStub, QuantWrapper

__all__ = ["get_default_custom_config_dict", "propagate_qconfig_", "add_quant_dequant", "prepare", "quantize", "quantize_dynamic", "prepare_qat", "quantize_qat",
           "convert", "swap_module", "get_observer_dict"]

is_activation_post_process = _is_activation_post_process


def get_default_custom_config_dict():
    """Layers that bring their own observed and quantized forms: none."""
    return {"float_to_observed_custom_module_class": {}, "observed_to_quantized_custom_module_class": {}}


# ---- which layer has which QConfig

def _propagate(module, by_name, parent, prefix):
    qconfig = by_name.get(type(module), parent)
    qconfig = by_name.get(prefix, qconfig)
    qconfig = getattr(module, "qconfig", qconfig)
    _assert_valid_qconfig(qconfig, module)
    module.qconfig = _add_module_to_qconfig_obs_ctr(qconfig, module)
    for name, child in module.named_children():
        _propagate(child, by_name, qconfig, prefix + "." + name if prefix else name)


def propagate_qconfig_(module, qconfig_dict=None, prepare_custom_config_dict=None):
    """Gives every layer the qconfig of its name, of its type, or of what it is part of."""
    _propagate(module, qconfig_dict or {}, None, "")


def _wants_observer(module):
    return getattr(module, "qconfig", None) is not None


# ---- observers

def _observer_forward_hook(self, input, output):
    return self.activation_post_process(output)


def _observer_forward_pre_hook(self, input):
    return self.activation_post_process(input[0])


def _register_activation_post_process_hook(module, pre_hook=False):
    if not hasattr(module, "activation_post_process"):
        raise AssertionError("Expect activation_post_process attribute already attached to the module")
    if pre_hook:
        module.register_forward_pre_hook(_observer_forward_pre_hook, prepend=True)
    else:
        module.register_forward_hook(_observer_forward_hook, prepend=True)


def _insert_observer(module, special=None):
    if not _wants_observer(module) or isinstance(module, DeQuantStub):
        return
    module.add_module("activation_post_process", (special or module.qconfig.activation)())
    _register_activation_post_process_hook(module, pre_hook=_activation_is_memoryless(module.qconfig))


def _add_observer_(module, qconfig_propagation_list=None, non_leaf_module_list=None, device=None, custom_module_class_mapping=None):
    """Puts an observer behind each layer of the list."""
    known = _mappings.get_default_qconfig_propagation_list() if qconfig_propagation_list is None else qconfig_propagation_list
    custom = custom_module_class_mapping or {}
    for name, child in list(module.named_children()):
        if type(child) is nn.Dropout:
            continue
        if issubclass(type(child), (FloatFunctional, FXFloatFunctional)):
            if _wants_observer(child):
                child.activation_post_process = child.qconfig.activation()
        elif isinstance(child, intrinsic._FusedModule) or (non_leaf_module_list is not None and type(child) in non_leaf_module_list):
            _insert_observer(child)
        elif _mappings._has_special_act_post_process(child):
            _insert_observer(child, _mappings._get_special_act_post_process(child))
        elif _wants_observer(child) and type(child) in custom:
            observed = custom[type(child)].from_float(child)
            setattr(module, name, observed)
            _insert_observer(observed)
        else:
            _add_observer_(child, known, non_leaf_module_list, device, custom)
    if not len(module._modules) and not isinstance(module, nn.Sequential) and type(module) in known:
        _insert_observer(module)


def prepare(model, inplace=False, allow_list=None, observer_non_leaf_module_list=None, prepare_custom_config_dict=None):
    """The model with observers behind the layers that have a qconfig; run it on samples, then convert()."""
    custom = (prepare_custom_config_dict or {}).get("float_to_observed_custom_module_class", {})
    if not inplace:
        model = copy.deepcopy(model)
    propagate_qconfig_(model, qconfig_dict=None)
    if not any(_wants_observer(m) for m in model.modules()):
        warnings.warn("None of the submodule got qconfig applied. Make sure you passed correct configuration through `qconfig_dict` or by assigning the "
                      "`.qconfig` attribute directly on submodules", stacklevel=2)
    _add_observer_(model, allow_list, observer_non_leaf_module_list, custom_module_class_mapping=custom)
    return model


def _remove_activation_post_process(module):
    if hasattr(module, "activation_post_process") and _is_activation_post_process(module.activation_post_process):
        del module.activation_post_process
    for hooks, ours in ((module._forward_pre_hooks, _observer_forward_pre_hook), (module._forward_hooks, _observer_forward_hook)):
        for key in [key for key, hook in hooks.items() if hook is ours]:
            hooks.pop(key)


def _remove_qconfig(module):
    for child in module.children():
        _remove_qconfig(child)
    if hasattr(module, "qconfig"):
        del module.qconfig
    _remove_activation_post_process(module)


# ---- quantized layers

def swap_module(mod, mapping, custom_module_class_mapping, use_precomputed_fake_quant=False):
    """What the mapping has for an observed layer, or the layer itself."""
    if not _wants_observer(mod):
        return mod
    kind = nn.utils.parametrize.type_before_parametrizations(mod)
    if kind in custom_module_class_mapping:
        made = custom_module_class_mapping[kind].from_observed(mod)
    elif kind in mapping:
        target = mapping[kind]
        if getattr(target, "_IS_REFERENCE", False):
            made = target.from_float(mod, mod.qconfig.weight())
        elif "use_precomputed_fake_quant" in inspect.signature(target.from_float).parameters:
            made = target.from_float(mod, use_precomputed_fake_quant=use_precomputed_fake_quant)
        else:
            made = target.from_float(mod)
    else:
        return mod
    for hook in mod._forward_pre_hooks.values():
        made.register_forward_pre_hook(hook)
    for hook in mod._forward_hooks.values():
        if hook is not _observer_forward_hook:
            made.register_forward_hook(hook)
    return made


def _convert(module, mapping=None, inplace=False, is_reference=False, convert_custom_config_dict=None, use_precomputed_fake_quant=False):
    if mapping is None:
        mapping = _mappings.get_default_static_quant_module_mappings()
    custom = (convert_custom_config_dict or {}).get("observed_to_quantized_custom_module_class", {})
    if not inplace:
        module = copy.deepcopy(module)
    made = {}
    for name, child in module.named_children():
        if not isinstance(child, intrinsic._FusedModule) and type(child) not in custom:
            _convert(child, mapping, True, is_reference, convert_custom_config_dict, use_precomputed_fake_quant)
        made[name] = swap_module(child, mapping, custom, use_precomputed_fake_quant)
    module._modules.update(made)
    return module


def convert(module, mapping=None, inplace=False, remove_qconfig=True, is_reference=False, convert_custom_config_dict=None, use_precomputed_fake_quant=False):
    """The model with quantized layers in place of the observed ones."""
    if is_reference:
        raise NotImplementedError("convert(is_reference=True) is not supported")
    if not inplace:
        module = copy.deepcopy(module)
    _convert(module, mapping, True, is_reference, convert_custom_config_dict, use_precomputed_fake_quant)
    if remove_qconfig:
        _remove_qconfig(module)
    return module


# ---- all at once

def add_quant_dequant(module):
    """The model with each layer that has a qconfig between a QuantStub and a DeQuantStub."""
    if not len(module._modules) and getattr(module, "qconfig", None):
        return QuantWrapper(module)
    for name, child in module.named_children():
        module._modules[name] = add_quant_dequant(child)
    return module


def quantize(model, run_fn, run_args, mapping=None, inplace=False):
    """prepare(), run_fn(model, *run_args), convert()."""
    if mapping is None:
        mapping = _mappings.get_default_static_quant_module_mappings()
    if not inplace:
        model = copy.deepcopy(model)
    model.eval()
    prepare(model, inplace=True)
    run_fn(model, *run_args)
    convert(model, mapping, inplace=True)
    return model


def _dynamic_spec(dtype):
    layers = (nn.Linear, nn.LSTM, nn.GRU, nn.LSTMCell, nn.RNNCell, nn.GRUCell)
    if dtype == torch.qint8:
        return dict.fromkeys(layers, default_dynamic_qconfig)
    if dtype == torch.float16:
        return dict.fromkeys(layers, float16_dynamic_qconfig)
    if dtype == torch.quint8:
        return dict.fromkeys((nn.EmbeddingBag, nn.Embedding), float_qparams_weight_only_qconfig)
    if dtype == torch.quint4x2:
        return {nn.EmbeddingBag: float_qparams_weight_only_qconfig_4bit}
    raise ValueError("Don't know how to quantize with default settings for %s. Provide full qconfig please" % dtype)


def quantize_dynamic(model, qconfig_spec=None, dtype=torch.qint8, mapping=None, inplace=False):
    """The model with quantized weights; inputs are quantized by their own range when it runs."""
    if qconfig_spec is None:
        qconfig_spec = _dynamic_spec(dtype)
    elif isinstance(qconfig_spec, set):
        by_dtype = {torch.qint8: default_dynamic_qconfig, torch.float16: float16_dynamic_qconfig, torch.quint8: float_qparams_weight_only_qconfig,
                    torch.quint4x2: float_qparams_weight_only_qconfig_4bit}
        if dtype not in by_dtype:
            raise RuntimeError("Unknown dtype specified for quantize_dynamic: ", str(dtype))
        qconfig_spec = dict(zip(qconfig_spec, itertools.repeat(by_dtype[dtype])))
    if mapping is None:
        mapping = _mappings.get_default_dynamic_quant_module_mappings()
    if not inplace:
        model = copy.deepcopy(model)
    model.eval()
    propagate_qconfig_(model, qconfig_spec)
    convert(model, mapping, inplace=True)
    return model


def prepare_qat(model, mapping=None, inplace=False):
    """The model with layers that round their weights and results on the way, to be trained so."""
    if not model.training:
        raise AssertionError("prepare_qat only works on models in training mode")
    if mapping is None:
        mapping = _mappings.get_default_qat_module_mappings()
    if not inplace:
        model = copy.deepcopy(model)
    propagate_qconfig_(model, qconfig_dict=None)
    convert(model, mapping=mapping, inplace=True, remove_qconfig=False)
    prepare(model, observer_non_leaf_module_list=set(mapping.values()), inplace=True)
    return model


def quantize_qat(model, run_fn, run_args, inplace=False):
    """prepare_qat(), run_fn(model, *run_args), convert()."""
    if not inplace:
        model = copy.deepcopy(model)
    model.train()
    prepare_qat(model, inplace=True)
    run_fn(model, *run_args)
    convert(model, inplace=True)
    return model


def get_observer_dict(mod, target_dict, prefix=""):
    """Into target_dict: the observer of each layer, by name."""
    dot = prefix + "." if prefix else prefix
    if hasattr(mod, "activation_post_process"):
        target_dict[dot + "activation_post_process"] = mod.activation_post_process
    for name, child in mod.named_children():
        get_observer_dict(child, target_dict, dot + name)
