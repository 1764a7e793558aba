"""What the inputs and outputs of an exported graph are."""
import dataclasses
import enum
from typing import Any, Optional, Union

__all__ = ["ConstantArgument", "CustomObjArgument", "ExportBackwardSignature", "ExportGraphSignature", "InputKind", "InputSpec", "OutputKind",
           "OutputSpec", "SymIntArgument", "SymFloatArgument", "SymBoolArgument", "TensorArgument", "TokenArgument"]


@dataclasses.dataclass
class TensorArgument:
    name: str


@dataclasses.dataclass
class TokenArgument:
    name: str


@dataclasses.dataclass
class SymIntArgument:
    name: str


@dataclasses.dataclass
class SymFloatArgument:
    name: str


@dataclasses.dataclass
class SymBoolArgument:
    name: str


@dataclasses.dataclass
class CustomObjArgument:
    name: str
    class_fqn: str
    fake_val: Any = None


@dataclasses.dataclass
class ConstantArgument:
    name: str
    value: Any


ArgumentSpec = Union[TensorArgument, SymIntArgument, SymFloatArgument, SymBoolArgument, ConstantArgument, CustomObjArgument, TokenArgument]


class InputKind(enum.Enum):
    USER_INPUT, PARAMETER, BUFFER, CONSTANT_TENSOR, CUSTOM_OBJ, TOKEN = range(1, 7)


class OutputKind(enum.Enum):
    (USER_OUTPUT, LOSS_OUTPUT, BUFFER_MUTATION, PARAMETER_MUTATION, GRADIENT_TO_PARAMETER, GRADIENT_TO_USER_INPUT, USER_INPUT_MUTATION,
     TOKEN) = range(1, 9)


@dataclasses.dataclass
class InputSpec:
    kind: InputKind
    arg: Any
    target: Optional[str]
    persistent: Optional[bool] = None

    def __str__(self):
        text = "%s: %s" % (self.arg.name, self.kind.name)
        text += " target='%s'" % self.target if self.target is not None else ""
        return text + (" persistent=%s" % self.persistent if self.persistent is not None else "")


@dataclasses.dataclass
class OutputSpec:
    kind: OutputKind
    arg: Any
    target: Optional[str]

    def __str__(self):
        return "%s: %s" % (self.arg.name, self.kind.name) + (" target='%s'" % self.target if self.target is not None else "")


@dataclasses.dataclass
class ExportBackwardSignature:
    gradients_to_parameters: dict
    gradients_to_user_inputs: dict
    loss_output: str


def _name_or_value(arg):
    return arg.value if isinstance(arg, ConstantArgument) else arg.name


@dataclasses.dataclass
class ExportGraphSignature:
    input_specs: list
    output_specs: list

    def _inputs(self, *kinds):
        return [s for s in self.input_specs if s.kind in kinds]

    def _outputs(self, *kinds):
        return [s for s in self.output_specs if s.kind in kinds]

    @property
    def parameters(self):
        return tuple(s.target for s in self._inputs(InputKind.PARAMETER))

    @property
    def buffers(self):
        return tuple(s.target for s in self._inputs(InputKind.BUFFER))

    @property
    def non_persistent_buffers(self):
        return tuple(s.target for s in self._inputs(InputKind.BUFFER) if s.persistent is False)

    @property
    def lifted_tensor_constants(self):
        return tuple(s.target for s in self._inputs(InputKind.CONSTANT_TENSOR))

    @property
    def lifted_custom_objs(self):
        return tuple(s.target for s in self._inputs(InputKind.CUSTOM_OBJ))

    @property
    def user_inputs(self):
        return tuple(_name_or_value(s.arg) for s in self._inputs(InputKind.USER_INPUT))

    @property
    def user_outputs(self):
        return tuple(_name_or_value(s.arg) for s in self._outputs(OutputKind.USER_OUTPUT, OutputKind.LOSS_OUTPUT))

    @property
    def inputs_to_parameters(self):
        return {s.arg.name: s.target for s in self._inputs(InputKind.PARAMETER)}

    @property
    def inputs_to_buffers(self):
        return {s.arg.name: s.target for s in self._inputs(InputKind.BUFFER)}

    @property
    def inputs_to_lifted_tensor_constants(self):
        return {s.arg.name: s.target for s in self._inputs(InputKind.CONSTANT_TENSOR)}

    @property
    def inputs_to_lifted_custom_objs(self):
        return {s.arg.name: s.target for s in self._inputs(InputKind.CUSTOM_OBJ)}

    @property
    def buffers_to_mutate(self):
        return {s.arg.name: s.target for s in self._outputs(OutputKind.BUFFER_MUTATION)}

    @property
    def parameters_to_mutate(self):
        return {s.arg.name: s.target for s in self._outputs(OutputKind.PARAMETER_MUTATION)}

    @property
    def user_inputs_to_mutate(self):
        return {s.arg.name: s.target for s in self._outputs(OutputKind.USER_INPUT_MUTATION)}

    @property
    def backward_signature(self):
        return None

    @property
    def assertion_dep_token(self):
        return None

    @property
    def input_tokens(self):
        return tuple(s.arg.name for s in self._inputs(InputKind.TOKEN))

    @property
    def output_tokens(self):
        return tuple(s.arg.name for s in self._outputs(OutputKind.TOKEN))

    def replace_all_uses(self, old, new):
        for spec in (*self.input_specs, *self.output_specs):
            if not isinstance(spec.arg, ConstantArgument) and spec.arg.name == old:
                spec.arg.name = new

    def __str__(self):
        return "\n# inputs\n%s\n\n# outputs\n%s\n" % ("\n".join(map(str, self.input_specs)), "\n".join(map(str, self.output_specs)))
