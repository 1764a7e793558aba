"""BackendConfig: which patterns of calls a backend runs on quantized tensors, and with which dtypes."""
import dataclasses
from enum import Enum
from typing import Any, Optional

import rushlight as torch

__all__ = ["BackendConfig", "BackendPatternConfig", "DTypeConfig", "DTypeWithConstraints", "ObservationType"]


class ObservationType(Enum):
    """How a pattern's result is observed: on its own, on the grid of the input, or not at all."""
    OUTPUT_USE_DIFFERENT_OBSERVER_AS_INPUT = 0
    OUTPUT_SHARE_OBSERVER_WITH_INPUT = 1
    INPUT_OUTPUT_NOT_OBSERVED = 2


@dataclasses.dataclass
class DTypeWithConstraints:
    """A dtype, and what its values and its grid must keep to."""
    dtype: Optional[torch.dtype] = None
    quant_min_lower_bound: Any = None
    quant_max_upper_bound: Any = None
    scale_min_lower_bound: Any = None
    scale_max_upper_bound: Any = None
    scale_exact_match: Optional[float] = None
    zero_point_exact_match: Optional[int] = None


def _constrained(dtype):
    return dtype if isinstance(dtype, DTypeWithConstraints) else DTypeWithConstraints(dtype=dtype)


@dataclasses.dataclass
class DTypeConfig:
    """The dtypes of a pattern: input, output, weight, bias; `is_dynamic` where the input's grid is found at each call."""
    input_dtype_with_constraints: DTypeWithConstraints
    output_dtype_with_constraints: DTypeWithConstraints
    weight_dtype_with_constraints: DTypeWithConstraints
    bias_dtype: Optional[torch.dtype]
    is_dynamic: Optional[bool]

    def __init__(self, input_dtype=None, output_dtype=None, weight_dtype=None, bias_dtype=None, is_dynamic=None):
        self.input_dtype_with_constraints, self.output_dtype_with_constraints = _constrained(input_dtype), _constrained(output_dtype)
        self.weight_dtype_with_constraints, self.bias_dtype, self.is_dynamic = _constrained(weight_dtype), bias_dtype, is_dynamic

    @property
    def input_dtype(self):
        return self.input_dtype_with_constraints.dtype

    @property
    def output_dtype(self):
        return self.output_dtype_with_constraints.dtype

    @property
    def weight_dtype(self):
        return self.weight_dtype_with_constraints.dtype

    @classmethod
    def from_dict(cls, dtype_config_dict):
        for name in ("input_dtype", "output_dtype", "weight_dtype"):
            if not isinstance(dtype_config_dict.get(name), (torch.dtype, DTypeWithConstraints, type(None))):
                raise ValueError("Expected %s to be a torch.dtype or DTypeWithConstraints" % name)
        return cls(*(dtype_config_dict.get(name) for name in ("input_dtype", "output_dtype", "weight_dtype", "bias_dtype", "is_dynamic")))

    def to_dict(self):
        every = {"input_dtype": self.input_dtype_with_constraints, "output_dtype": self.output_dtype_with_constraints,
                 "weight_dtype": self.weight_dtype_with_constraints, "bias_dtype": self.bias_dtype, "is_dynamic": self.is_dynamic}
        return {k: v for k, v in every.items() if (v.dtype if isinstance(v, DTypeWithConstraints) else v) is not None}


class BackendConfig:
    """The patterns of one backend."""

    def __init__(self, name=""):
        self.name, self._pattern_complex_format_to_config = name, {}

    def __repr__(self):
        return "BackendConfig(%s)" % self.__dict__

    def set_name(self, name):
        self.name = name
        return self

    def set_backend_pattern_config(self, config):
        """Takes in a pattern; it replaces what was said of the same one."""
        from .utils import _get_pattern_in_reversed_nested_tuple_format
        self._pattern_complex_format_to_config[_get_pattern_in_reversed_nested_tuple_format(config)] = config
        return self

    def set_backend_pattern_configs(self, configs):
        for config in configs:
            self.set_backend_pattern_config(config)
        return self

    @property
    def configs(self):
        return list(self._pattern_complex_format_to_config.values())

    @classmethod
    def from_dict(cls, backend_config_dict):
        made = cls(backend_config_dict.get("name", ""))
        for config in backend_config_dict.get("configs", []):
            made.set_backend_pattern_config(config if isinstance(config, BackendPatternConfig) else BackendPatternConfig.from_dict(config))
        return made

    def to_dict(self):
        return {"name": self.name, "configs": [config.to_dict() for config in self.configs]}


# attribute -> its key in a dict of old
_KEYS = {"pattern": "pattern", "dtype_configs": "dtype_configs", "observation_type": "observation_type", "root_module": "root_module", "qat_module": "qat_module",
         "reference_quantized_module": "reference_quantized_module_for_root", "fused_module": "fused_module", "fuser_method": "fuser_method",
         "_root_node_getter": "root_node_getter", "_extra_inputs_getter": "extra_inputs_getter",
         "_num_tensor_args_to_observation_type": "num_tensor_args_to_observation_type", "_input_type_to_index": "input_type_to_index",
         "_pattern_complex_format": "pattern_complex_format"}


class BackendPatternConfig:
    """One pattern: a function, a method's name, a class of modules, or a tuple of them in the order of the calls."""

    def __init__(self, pattern=None):
        self.pattern, self.observation_type = pattern, ObservationType.OUTPUT_USE_DIFFERENT_OBSERVER_AS_INPUT
        self.dtype_configs, self.root_module, self.qat_module, self.reference_quantized_module = [], None, None, None
        self.fused_module = self.fuser_method = self._root_node_getter = self._extra_inputs_getter = None
        self._num_tensor_args_to_observation_type, self._input_type_to_index, self._pattern_complex_format = {}, {}, None

    def __repr__(self):
        return "BackendPatternConfig(%s)" % {k: v for k, v in self.__dict__.items() if v is not None and not (isinstance(v, (list, dict)) and not v)}

    def _set(self, name, value):
        setattr(self, name, value)
        return self

    def set_pattern(self, pattern):
        if self._pattern_complex_format is not None:
            raise ValueError("Only one of 'pattern' or 'pattern_complex_format' can be set")
        return self._set("pattern", pattern)

    def set_observation_type(self, observation_type):
        return self._set("observation_type", observation_type)

    def add_dtype_config(self, dtype_config):
        self.dtype_configs.append(dtype_config)
        return self

    def set_dtype_configs(self, dtype_configs):
        return self._set("dtype_configs", dtype_configs)

    def set_root_module(self, root_module):
        """The class of the layer that has the weight."""
        return self._set("root_module", root_module)

    def set_qat_module(self, qat_module):
        """The class that is trained in its place."""
        return self._set("qat_module", qat_module)

    def set_reference_quantized_module(self, reference_quantized_module):
        return self._set("reference_quantized_module", reference_quantized_module)

    def set_fused_module(self, fused_module):
        """The class that the pattern's layers become."""
        return self._set("fused_module", fused_module)

    def set_fuser_method(self, fuser_method):
        """The function that makes one layer of the pattern's: (is_qat, *layers)."""
        return self._set("fuser_method", fuser_method)

    def _set_root_node_getter(self, root_node_getter):
        return self._set("_root_node_getter", root_node_getter)

    def _set_extra_inputs_getter(self, extra_inputs_getter):
        return self._set("_extra_inputs_getter", extra_inputs_getter)

    def _set_num_tensor_args_to_observation_type(self, num_tensor_args_to_observation_type):
        return self._set("_num_tensor_args_to_observation_type", num_tensor_args_to_observation_type)

    def _set_input_type_to_index(self, input_type_to_index):
        return self._set("_input_type_to_index", input_type_to_index)

    def _set_pattern_complex_format(self, pattern):
        if self.pattern is not None:
            raise ValueError("Only one of 'pattern' or 'pattern_complex_format' can be set")
        return self._set("_pattern_complex_format", pattern)

    @classmethod
    def from_dict(cls, backend_pattern_config_dict):
        made = cls()
        for name, key in _KEYS.items():
            if key in backend_pattern_config_dict:
                value = backend_pattern_config_dict[key]
                if name == "dtype_configs":
                    value = [x if isinstance(x, DTypeConfig) else DTypeConfig.from_dict(x) for x in value]
                setattr(made, name, value)
        return made

    def to_dict(self):
        made = {"observation_type": self.observation_type, "dtype_configs": [c.to_dict() for c in self.dtype_configs]}
        for name, key in _KEYS.items():
            if key not in made and getattr(self, name) not in (None, {}):
                made[key] = getattr(self, name)
        return made
