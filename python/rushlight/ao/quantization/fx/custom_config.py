"""What prepare_fx, convert_fx and fuse_fx are to do otherwise than by default."""
import dataclasses
from typing import Any, Optional

from ..quant_type import QuantType

__all__ = ["ConvertCustomConfig", "FuseCustomConfig", "PrepareCustomConfig", "StandaloneModuleConfigEntry"]

_TYPES = {QuantType.STATIC: "static", QuantType.DYNAMIC: "dynamic", QuantType.WEIGHT_ONLY: "weight_only"}
_NAMED = {text: kind for kind, text in _TYPES.items()}


@dataclasses.dataclass
class StandaloneModuleConfigEntry:
    """How a submodule is prepared on its own."""
    qconfig_mapping: Optional[Any]
    example_inputs: tuple
    prepare_custom_config: Optional["PrepareCustomConfig"]
    backend_config: Optional[Any]


class _Config:
    """Settings with a name in the dicts of old; only those that were made are in a dict. `_KEYS`: attribute -> that name."""
    _KEYS = {}

    def set_preserved_attributes(self, attributes):
        """Attributes of the model that the result has, too."""
        self.preserved_attributes = attributes
        return self

    def _mapped(self, mapping, source, target, quant_type):
        mapping.setdefault(quant_type, {})[source] = target
        return self

    def to_dict(self):
        made = {}
        for name, key in self._KEYS.items():
            value = getattr(self, name)
            if name.endswith("_mapping"):
                value = {_TYPES[kind]: classes for kind, classes in value.items()}
            elif name.startswith("standalone"):
                value = [(k, e.qconfig_mapping.to_dict() if e.qconfig_mapping is not None else None, e.example_inputs,
                          e.prepare_custom_config.to_dict() if e.prepare_custom_config is not None else None, e.backend_config) for k, e in value.items()]
            if value:
                made[key] = value
        return made

    @classmethod
    def from_dict(cls, config_dict):
        made = cls()
        for name, key in cls._KEYS.items():
            if key not in config_dict:
                continue
            value = config_dict[key]
            if name.endswith("_mapping"):
                value = {_NAMED[kind] if isinstance(kind, str) else kind: dict(classes) for kind, classes in value.items()}
            elif name.startswith("standalone"):
                value = {k: _entry(*rest) for k, *rest in value}
            setattr(made, name, value)
        return made


def _entry(mapping, example_inputs, prepare, backend):
    from ..backend_config import BackendConfig
    from ..qconfig_mapping import QConfigMapping
    return StandaloneModuleConfigEntry(QConfigMapping.from_dict(mapping) if isinstance(mapping, dict) else mapping, example_inputs,
                                       PrepareCustomConfig.from_dict(prepare) if isinstance(prepare, dict) else prepare,
                                       BackendConfig.from_dict(backend) if isinstance(backend, dict) else backend)


class PrepareCustomConfig(_Config):
    """Of prepare_fx and prepare_qat_fx."""
    _KEYS = {"standalone_module_names": "standalone_module_name", "standalone_module_classes": "standalone_module_class",
             "float_to_observed_mapping": "float_to_observed_custom_module_class", "non_traceable_module_names": "non_traceable_module_name",
             "non_traceable_module_classes": "non_traceable_module_class", "input_quantized_indexes": "input_quantized_idxs",
             "output_quantized_indexes": "output_quantized_idxs", "preserved_attributes": "preserved_attributes"}

    def __init__(self):
        self.standalone_module_names, self.standalone_module_classes, self.float_to_observed_mapping = {}, {}, {}
        self.non_traceable_module_names, self.non_traceable_module_classes = [], []
        self.input_quantized_indexes, self.output_quantized_indexes, self.preserved_attributes = [], [], []

    def __repr__(self):
        return "PrepareCustomConfig(%s)" % {k: v for k, v in self.__dict__.items() if v}

    def set_standalone_module_name(self, module_name, qconfig_mapping, example_inputs, prepare_custom_config, backend_config):
        """A submodule that is prepared on its own."""
        self.standalone_module_names[module_name] = StandaloneModuleConfigEntry(qconfig_mapping, example_inputs, prepare_custom_config, backend_config)
        return self

    def set_standalone_module_class(self, module_class, qconfig_mapping, example_inputs, prepare_custom_config, backend_config):
        """A class whose modules are prepared on their own."""
        self.standalone_module_classes[module_class] = StandaloneModuleConfigEntry(qconfig_mapping, example_inputs, prepare_custom_config, backend_config)
        return self

    def set_float_to_observed_mapping(self, float_class, observed_class, quant_type=QuantType.STATIC):
        """The class that takes the place of another in preparation: it has from_float()."""
        if quant_type != QuantType.STATIC:
            raise ValueError("set_float_to_observed_mapping is currently only supported for static quantization")
        return self._mapped(self.float_to_observed_mapping, float_class, observed_class, quant_type)

    def set_non_traceable_module_names(self, module_names):
        """Submodules that stay whole."""
        self.non_traceable_module_names = module_names
        return self

    def set_non_traceable_module_classes(self, module_classes):
        """Classes whose modules stay whole."""
        self.non_traceable_module_classes = module_classes
        return self

    def set_input_quantized_indexes(self, indexes):
        """Arguments that come quantized."""
        self.input_quantized_indexes = indexes
        return self

    def set_output_quantized_indexes(self, indexes):
        """Results that go out quantized."""
        self.output_quantized_indexes = indexes
        return self


class ConvertCustomConfig(_Config):
    """Of convert_fx."""
    _KEYS = {"observed_to_quantized_mapping": "observed_to_quantized_custom_module_class", "preserved_attributes": "preserved_attributes"}

    def __init__(self):
        self.observed_to_quantized_mapping, self.preserved_attributes = {}, []

    def __repr__(self):
        return "ConvertCustomConfig(%s)" % {k: v for k, v in self.__dict__.items() if v}

    def set_observed_to_quantized_mapping(self, observed_class, quantized_class, quant_type=QuantType.STATIC):
        """The class that takes the place of an observed one: it has from_observed()."""
        return self._mapped(self.observed_to_quantized_mapping, observed_class, quantized_class, quant_type)


class FuseCustomConfig(_Config):
    """Of fuse_fx."""
    _KEYS = {"preserved_attributes": "preserved_attributes"}

    def __init__(self):
        self.preserved_attributes = []

    def __repr__(self):
        return "FuseCustomConfig(%s)" % {k: v for k, v in self.__dict__.items() if v}
