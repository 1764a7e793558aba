"""Which layer becomes which: by static quantization, by dynamic quantization, in training."""
import copy

import rushlight as torch
from rushlight import nn
from rushlight.ao.nn import intrinsic as nni
from rushlight.ao.nn import qat as nnqat
from rushlight.ao.nn import quantized as nnq
from rushlight.ao.nn.intrinsic import qat as nniqat
from rushlight.ao.nn.intrinsic import quantized as nniq
from rushlight.ao.nn.quantized import dynamic as nnqd
from .fake_quantize import default_fixed_qparams_range_0to1_fake_quant, default_fixed_qparams_range_neg1to1_fake_quant
from .stubs import DeQuantStub, QuantStub

__all__ = ["DEFAULT_STATIC_QUANT_MODULE_MAPPINGS", "DEFAULT_QAT_MODULE_MAPPINGS", "DEFAULT_DYNAMIC_QUANT_MODULE_MAPPINGS", "DEFAULT_REFERENCE_STATIC_QUANT_MODULE_MAPPINGS",
           "DEFAULT_MODULE_TO_ACT_POST_PROCESS", "no_observer_set", "get_default_static_quant_module_mappings", "get_default_dynamic_quant_module_mappings",
           "get_default_qat_module_mappings", "get_default_qconfig_propagation_list", "get_default_compare_output_module_list",
           "get_static_quant_module_class", "get_dynamic_quant_module_class", "get_default_float_to_quantized_operator_mappings", "get_quantized_operator"]

_LAYERS = ("BatchNorm2d BatchNorm3d Conv1d Conv2d Conv3d ConvTranspose1d ConvTranspose2d ConvTranspose3d Dropout ELU Embedding EmbeddingBag GroupNorm Hardswish "
           "InstanceNorm1d InstanceNorm2d InstanceNorm3d LayerNorm LeakyReLU Linear PReLU ReLU6").split()
_CONVS = [kind + "%dd" % n for kind in ("ConvReLU", "ConvBn", "ConvBnReLU") for n in (1, 2, 3)]

DEFAULT_STATIC_QUANT_MODULE_MAPPINGS = {
    QuantStub: nnq.Quantize, DeQuantStub: nnq.DeQuantize, **{getattr(nn, name): getattr(nnq, name) for name in _LAYERS},
    nn.modules.linear.NonDynamicallyQuantizableLinear: nnq.Linear, nn.Sigmoid: nnq.Sigmoid, nn.Softmax: nnq.Softmax,
    nnq.FloatFunctional: nnq.QFunctional, nni.BNReLU2d: nniq.BNReLU2d, nni.BNReLU3d: nniq.BNReLU3d, nni.LinearReLU: nniq.LinearReLU,
    nni.LinearLeakyReLU: nniq.LinearLeakyReLU, nni.LinearTanh: nniq.LinearTanh, nni.ConvAdd2d: nniq.ConvAdd2d, nni.ConvAddReLU2d: nniq.ConvAddReLU2d,
    **{getattr(nni, "ConvReLU%dd" % n): getattr(nniq, "ConvReLU%dd" % n) for n in (1, 2, 3)},
    **{getattr(nniqat, "ConvBn%dd" % n): getattr(nnq, "Conv%dd" % n) for n in (1, 2, 3)},
    **{getattr(nniqat, kind + "%dd" % n): getattr(nniq, "ConvReLU%dd" % n) for kind in ("ConvBnReLU", "ConvReLU") for n in (1, 2, 3)},
    nniqat.LinearBn1d: nnq.Linear, nniqat.LinearReLU: nniq.LinearReLU,
    nnqat.Embedding: nnq.Embedding, nnqat.EmbeddingBag: nnq.EmbeddingBag, nnqat.Linear: nnq.Linear,
    **{getattr(nnqat, "Conv%dd" % n): getattr(nnq, "Conv%dd" % n) for n in (1, 2, 3)},
}
DEFAULT_REFERENCE_STATIC_QUANT_MODULE_MAPPINGS = {}
DEFAULT_QAT_MODULE_MAPPINGS = {
    **{getattr(nn, name): getattr(nnqat, name) for name in ("Conv1d", "Conv2d", "Conv3d", "Linear", "Embedding", "EmbeddingBag")},
    nn.modules.linear.NonDynamicallyQuantizableLinear: nnqat.Linear, **{getattr(nni, name): getattr(nniqat, name) for name in _CONVS},
    nni.LinearReLU: nniqat.LinearReLU, nni.LinearBn1d: nniqat.LinearBn1d}
DEFAULT_DYNAMIC_QUANT_MODULE_MAPPINGS = {
    **{getattr(nn, name): getattr(nnqd, name) for name in ("GRUCell", "Linear", "LSTM", "GRU", "LSTMCell", "RNNCell")},
    nn.modules.linear.NonDynamicallyQuantizableLinear: nnqd.Linear, nni.LinearReLU: nniq.dynamic.LinearReLU, nn.EmbeddingBag: nnq.EmbeddingBag,
    nn.Embedding: nnq.Embedding}
DEFAULT_FLOAT_TO_QUANTIZED_OPERATOR_MAPPINGS = {nn.functional.elu: torch.ops.quantized.elu, nn.functional.hardswish: torch.ops.quantized.hardswish,
                                               nn.functional.instance_norm: torch.ops.quantized.instance_norm,
                                               nn.functional.layer_norm: torch.ops.quantized.layer_norm,
                                               nn.functional.leaky_relu: torch.ops.quantized.leaky_relu,
                                               nn.functional.dropout: torch.ops.quantized.dropout}
DEFAULT_MODULE_TO_ACT_POST_PROCESS = {
    nn.Hardsigmoid: default_fixed_qparams_range_0to1_fake_quant, nn.Sigmoid: default_fixed_qparams_range_0to1_fake_quant,
    nn.Softmax: default_fixed_qparams_range_0to1_fake_quant, nn.Tanh: default_fixed_qparams_range_neg1to1_fake_quant}


def no_observer_set():
    """Layers whose results are not observed."""
    return set()


def get_default_static_quant_module_mappings():
    """Layer to quantized layer."""
    return copy.deepcopy(DEFAULT_STATIC_QUANT_MODULE_MAPPINGS)


def get_default_qat_module_mappings():
    """Layer to layer in training."""
    return copy.deepcopy(DEFAULT_QAT_MODULE_MAPPINGS)


def get_default_dynamic_quant_module_mappings():
    """Layer to layer of float inputs with quantized weights."""
    return DEFAULT_DYNAMIC_QUANT_MODULE_MAPPINGS


def get_static_quant_module_class(float_module_class, additional_static_quant_mapping=None, is_reference=False):
    """The quantized layer of a layer's class."""
    made = {**DEFAULT_STATIC_QUANT_MODULE_MAPPINGS, **(additional_static_quant_mapping or {})}.get(float_module_class)
    if made is None:
        raise AssertionError("Floating point module class %s does not have a corresponding quantized module class" % float_module_class)
    return copy.deepcopy(made)


def get_dynamic_quant_module_class(float_module_class, additional_dynamic_quant_mapping=None):
    """The dynamically quantized layer of a layer's class."""
    made = {**DEFAULT_DYNAMIC_QUANT_MODULE_MAPPINGS, **(additional_dynamic_quant_mapping or {})}.get(float_module_class)
    if made is None:
        raise AssertionError("Floating point module class %s does not have a corresponding quantized module class" % float_module_class)
    return copy.deepcopy(made)


def get_default_qat_module_class_list():
    """Layers that become others in training."""
    return set(DEFAULT_QAT_MODULE_MAPPINGS)


def get_default_qconfig_propagation_list():
    """Layers that are observed."""
    return set(DEFAULT_STATIC_QUANT_MODULE_MAPPINGS) | set(DEFAULT_QAT_MODULE_MAPPINGS) | set(DEFAULT_DYNAMIC_QUANT_MODULE_MAPPINGS)


def get_default_compare_output_module_list():
    """Layers whose results can be compared before and after."""
    return set(DEFAULT_STATIC_QUANT_MODULE_MAPPINGS.values()) | set(DEFAULT_QAT_MODULE_MAPPINGS.values()) | set(DEFAULT_DYNAMIC_QUANT_MODULE_MAPPINGS.values())


def get_default_float_to_quantized_operator_mappings():
    """Function to function of quantized tensors."""
    return copy.deepcopy(DEFAULT_FLOAT_TO_QUANTIZED_OPERATOR_MAPPINGS)


def get_quantized_operator(float_op):
    """The function of quantized tensors for one of floats."""
    made = DEFAULT_FLOAT_TO_QUANTIZED_OPERATOR_MAPPINGS.get(float_op)
    if made is None:
        raise AssertionError("Operator %s does not have corresponding quantized op" % (float_op,))
    return made


def _get_special_act_post_process(module):
    return DEFAULT_MODULE_TO_ACT_POST_PROCESS.get(type(module))


def _has_special_act_post_process(module):
    return module.training and type(module) in DEFAULT_MODULE_TO_ACT_POST_PROCESS
