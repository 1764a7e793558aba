"""torch.ao.quantization: the stubs that models carry; quantizing itself is not there yet and says so."""
import importlib

import rushlight as torch
from rushlight import _absent as _not_here
from rushlight._functions_first import functions_first


class QuantStub(torch.nn.Module):
    """Where a quantized model would quantize; passes its input through."""

    def __init__(self, qconfig=None):
        super().__init__()
        if qconfig:
            self.qconfig = qconfig

    def forward(self, x):
        return x


class DeQuantStub(QuantStub):
    """Where a quantized model would dequantize; passes its input through."""


class QuantWrapper(torch.nn.Module):
    """A module between a QuantStub and a DeQuantStub."""

    def __init__(self, module):
        super().__init__()
        self.quant, self.dequant = QuantStub(), DeQuantStub()
        self.add_module("module", module)
        self.train(module.training)

    def forward(self, x):
        return self.dequant(self.module(self.quant(x)))


def _absent(name):
    def function(*args, **kwargs):
        raise NotImplementedError(f"torch.ao.quantization.{name}: quantization is not supported yet")
    function.__name__ = name
    return function


for _name in ("quantize quantize_dynamic quantize_qat prepare prepare_qat convert get_default_qconfig "
              "get_default_qat_qconfig default_qconfig propagate_qconfig_ add_quant_dequant").split():
    globals()[_name] = _absent(_name)
del _name


def get_default_qconfig_propagation_list():
    """The kinds of modules that quantization would observe."""
    from rushlight.ao.nn import intrinsic
    layers = ("Linear Conv1d Conv2d Conv3d ConvTranspose1d ConvTranspose2d ConvTranspose3d BatchNorm2d BatchNorm3d Embedding EmbeddingBag LSTM GRU "
              "LayerNorm GroupNorm InstanceNorm1d InstanceNorm2d InstanceNorm3d ELU Hardswish LeakyReLU PReLU Sigmoid Softmax Dropout Identity").split()
    return {getattr(torch.nn, name) for name in layers} | {getattr(intrinsic, name) for name in intrinsic.__all__} | \
        {QuantStub, torch.nn.quantized.FloatFunctional}


functions_first(__name__, "fuse_modules")


def __getattr__(name):
    if name in ("fuse_modules", "fuse_modules_qat", "fuse_known_modules"):
        return getattr(importlib.import_module(__name__ + ".fuse_modules"), name)
    if name == "quantize_fx":
        return importlib.import_module(__name__ + ".quantize_fx")
    return _not_here.of_module("ao.quantization", name)
