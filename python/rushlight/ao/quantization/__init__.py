"""torch.ao.quantization: observers, fake quantization, and what makes quantized models of float ones."""
import importlib

from rushlight._functions_first import functions_first

from .fake_quantize import *  # noqa: F401,F403
from .observer import *  # noqa: F401,F403
from .observer import _PartialWrapper  # noqa: F401
from .qconfig import *  # noqa: F401,F403
from .qconfig_mapping import *  # noqa: F401,F403
from .quant_type import QuantType  # noqa: F401
from .stubs import *  # noqa: F401,F403

functions_first(__name__, "fuse_modules", "quantize")
_LATER = {"fuse_modules": "fuse_modules fuse_modules_qat fuse_known_modules fuse_conv_bn fuse_conv_bn_relu fuse_linear_bn fuse_convtranspose_bn "
                          "get_fuser_method",
          "granularity": "Granularity PerAxis PerBlock PerGroup PerRow PerTensor PerToken MappingType ZeroPointDomain TorchAODType get_block_size",
          "quantize": "quantize prepare convert prepare_qat quantize_qat quantize_dynamic propagate_qconfig_ add_quant_dequant swap_module get_observer_dict "
                      "get_default_custom_config_dict",
          "quantization_mappings": "get_default_static_quant_module_mappings get_default_dynamic_quant_module_mappings get_default_qat_module_mappings "
                                   "get_default_qconfig_propagation_list get_default_compare_output_module_list get_static_quant_module_class "
                                   "get_dynamic_quant_module_class no_observer_set DEFAULT_STATIC_QUANT_MODULE_MAPPINGS DEFAULT_QAT_MODULE_MAPPINGS "
                                   "DEFAULT_DYNAMIC_QUANT_MODULE_MAPPINGS get_default_float_to_quantized_operator_mappings get_quantized_operator "
                                   "DEFAULT_FLOAT_TO_QUANTIZED_OPERATOR_MAPPINGS DEFAULT_MODULE_TO_ACT_POST_PROCESS"}
_LATER = {name: home for home, names in _LATER.items() for name in names.split()}
_MODULES = ("backend_config", "fake_quantize", "fx", "utils", "observer", "qconfig", "qconfig_mapping", "quant_type", "quantization_mappings", "quantize_fx", "stubs")


def default_eval_fn(model, calib_data):
    """Runs the model on (data, target) pairs."""
    for data, _ in calib_data:
        model(data)


def __getattr__(name):
    if name in _LATER:
        return getattr(importlib.import_module(__name__ + "." + _LATER[name]), name)
    if name in _MODULES:
        return importlib.import_module(__name__ + "." + name)
    raise AttributeError("module 'torch.ao.quantization' has no attribute '%s'" % name)


def __dir__():
    return sorted({*globals(), *_LATER, *_MODULES})
