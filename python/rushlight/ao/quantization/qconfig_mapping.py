"""QConfigMapping: which QConfig the parts of a model have, for graph mode."""
import re
from collections import OrderedDict

import rushlight as torch
from rushlight import nn
from . import fake_quantize as _fake
from . import observer as _observer
from .qconfig import (default_quint8_weight_qconfig, default_reuse_input_qconfig, get_default_qat_qconfig, get_default_qconfig, QConfig)

__all__ = ["get_default_qconfig_mapping", "get_default_qat_qconfig_mapping", "QConfigMapping"]

_KEYS = ("global_qconfig", "object_type_qconfigs", "module_name_regex_qconfigs", "module_name_qconfigs", "module_name_object_type_order_qconfigs")


class QConfigMapping:
    """QConfigs of all, of kinds of layers and functions, and of names; the more particular one counts."""

    def __init__(self):
        self.global_qconfig = None
        self.object_type_qconfigs, self.module_name_regex_qconfigs = OrderedDict(), OrderedDict()
        self.module_name_qconfigs, self.module_name_object_type_order_qconfigs = OrderedDict(), OrderedDict()

    def set_global(self, global_qconfig):
        """Of all that nothing else names."""
        self.global_qconfig = global_qconfig
        return self

    def set_object_type(self, object_type, qconfig):
        """Of a class of layers, a function, or a method's name."""
        self.object_type_qconfigs[object_type] = qconfig
        return self

    def set_module_name_regex(self, module_name_regex, qconfig):
        """Of layers whose name matches."""
        self.module_name_regex_qconfigs[module_name_regex] = qconfig
        return self

    def set_module_name(self, module_name, qconfig):
        """Of a layer."""
        self.module_name_qconfigs[module_name] = qconfig
        return self

    def set_module_name_object_type_order(self, module_name, object_type, index, qconfig):
        """Of the index-th use of a function in a module."""
        self.module_name_object_type_order_qconfigs[(module_name, object_type, index)] = qconfig
        return self

    def __repr__(self):
        def lines(value):
            if isinstance(value, dict):
                return "\n  " + "\n  ".join("%s: %s" % pair for pair in value.items()) if value else "\n  " + str(value)
            return "\n  " + str(value)
        return "QConfigMapping (" + "".join("\n %s%s" % (key, lines(getattr(self, key))) for key in _KEYS) + "\n)"

    def to_dict(self):
        """As a dict of old."""
        return {"": self.global_qconfig, "object_type": list(self.object_type_qconfigs.items()), "module_name_regex": list(self.module_name_regex_qconfigs.items()),
                "module_name": list(self.module_name_qconfigs.items()),
                "module_name_object_type_order": [(*key, value) for key, value in self.module_name_object_type_order_qconfigs.items()]}

    @classmethod
    def from_dict(cls, qconfig_dict):
        """Of a dict of old."""
        made = cls()
        if "" in qconfig_dict:
            made.set_global(qconfig_dict[""])
        for key, setter in (("object_type", made.set_object_type), ("module_name_regex", made.set_module_name_regex), ("module_name", made.set_module_name)):
            for name, qconfig in qconfig_dict.get(key, []):
                setter(name, qconfig)
        for item in qconfig_dict.get("module_name_object_type_order", []):
            made.set_module_name_object_type_order(*item)
        return made

    def _of(self, name, kind, scope="", index=0):
        """The QConfig of a layer or a function's use: by place, name, pattern, kind, or that of all."""
        if (scope, kind, index) in self.module_name_object_type_order_qconfigs:
            return self.module_name_object_type_order_qconfigs[(scope, kind, index)]
        part = name
        while part:
            if part in self.module_name_qconfigs:
                return self.module_name_qconfigs[part]
            part = part.rpartition(".")[0]
        for pattern, qconfig in self.module_name_regex_qconfigs.items():
            if name and re.match(pattern, name):
                return qconfig
        for key in (kind, getattr(kind, "__name__", None)):
            if key in self.object_type_qconfigs:
                return self.object_type_qconfigs[key]
        return self.global_qconfig


_FIXED = {torch.nn.Hardsigmoid: 0, nn.functional.hardsigmoid: 0, "hardsigmoid": 0, "hardsigmoid_": 0, nn.Sigmoid: 0, torch.sigmoid: 0, "sigmoid": 0, "sigmoid_": 0,
          nn.Softmax: 0, nn.Tanh: 1, torch.tanh: 1, "tanh": 1, "tanh_": 1}


def _default(is_qat, backend, version):
    qconfig = (get_default_qat_qconfig if is_qat else get_default_qconfig)(backend, version)
    weight = _fake.default_weight_fake_quant if is_qat else _observer.default_weight_observer
    turned = QConfig(qconfig.activation, weight)
    made = QConfigMapping().set_global(qconfig).set_object_type("reshape", default_reuse_input_qconfig)
    for kind in (nn.ConvTranspose1d, nn.ConvTranspose2d, nn.ConvTranspose3d, nn.functional.conv_transpose1d, nn.functional.conv_transpose2d,
                 nn.functional.conv_transpose3d):
        made.set_object_type(kind, turned)
    for kind in (nn.functional.layer_norm, nn.LayerNorm):
        made.set_object_type(kind, QConfig(qconfig.activation, _observer.default_placeholder_observer))
    made.set_object_type(nn.PReLU, default_quint8_weight_qconfig)
    fixed = (_fake.default_fixed_qparams_range_0to1_fake_quant, _fake.default_fixed_qparams_range_neg1to1_fake_quant) if is_qat else \
        (_observer.default_fixed_qparams_range_0to1_observer, _observer.default_fixed_qparams_range_neg1to1_observer)
    for kind, which in _FIXED.items():
        made.set_object_type(kind, QConfig(fixed[which], weight))
    return made


def get_default_qconfig_mapping(backend="x86", version=0):
    """The mapping for static quantization that suits an engine."""
    return _default(False, backend, version)


def get_default_qat_qconfig_mapping(backend="x86", version=1):
    """The mapping for training that suits an engine."""
    return _default(True, backend, version)


def _get_symmetric_qnnpack_qconfig_mapping():
    from .qconfig import default_symmetric_qnnpack_qconfig
    return get_default_qconfig_mapping("qnnpack").set_global(default_symmetric_qnnpack_qconfig)
