"""ExportedProgram: a graph without Python, with its tensors and what its inputs and outputs are."""
import copy
import dataclasses
from typing import Any, Optional

import rushlight as torch
from rushlight.utils import _pytree as pytree
from rushlight.utils._sympy.value_ranges import ValueRanges

from ._sizes import as_text, symbols_in
from .graph_signature import (ArgumentSpec, ConstantArgument, CustomObjArgument, ExportGraphSignature, InputKind, InputSpec, OutputKind, OutputSpec,
                              SymBoolArgument, SymFloatArgument, SymIntArgument, TensorArgument, TokenArgument)

__all__ = ["ExportedProgram", "ModuleCallEntry", "ModuleCallSignature", "default_decompositions", "CallSpec", "ValueRanges", "ArgumentSpec", "ConstantArgument",
           "CustomObjArgument", "ExportGraphSignature", "InputKind", "InputSpec", "OutputKind", "OutputSpec", "SymBoolArgument", "SymFloatArgument", "SymIntArgument",
           "TensorArgument", "TokenArgument"]


DTYPES = {torch.bfloat16: "bf16", torch.float64: "f64", torch.float32: "f32", torch.float16: "f16", torch.complex32: "c32", torch.complex64: "c64",
          torch.complex128: "c128", torch.int8: "i8", torch.int16: "i16", torch.int32: "i32", torch.int64: "i64", torch.bool: "b8", torch.uint8: "u8",
          torch.uint16: "u16", torch.uint32: "u32", torch.uint64: "u64", torch.float8_e4m3fn: "f8e4m3fn", torch.float8_e5m2: "f8e5m2",
          torch.float8_e4m3fnuz: "f8e4m3fnuz", torch.float8_e5m2fnuz: "f8e5m2fnuz", torch.float8_e8m0fnu: "f8e8m0fnu"}


@dataclasses.dataclass
class ModuleCallSignature:
    inputs: list
    outputs: list
    in_spec: Any
    out_spec: Any
    forward_arg_names: Optional[list] = None


@dataclasses.dataclass
class ModuleCallEntry:
    fqn: str
    signature: Optional[ModuleCallSignature] = None


@dataclasses.dataclass
class CallSpec:
    in_spec: Any
    out_spec: Any


class Symbol(str):
    """The name of a size that varies; a key of range_constraints."""

    def __repr__(self):
        return str(self)


def default_decompositions():
    """The table that run_decompositions() uses: composites are opened down to core operations."""
    from .decomp_utils import CustomDecompTable
    return CustomDecompTable()


def in_order(names, kwargs):
    """Keyword arguments in the order of the names."""
    if set(kwargs) != set(names):
        raise ValueError("Ran into a kwarg keyword mismatch: Got the following keywords %s but expected %s" % (list(kwargs), list(names)))
    return {name: kwargs[name] for name in names}


def type_text(node):
    """float32[s0, 4] as PyTorch writes it: f32[s0, 4]."""
    about = node.meta.get("tensor")
    if about is not None:
        return "%s[%s]" % (DTYPES[about["dtype"]], ", ".join(map(as_text, about["size"])))
    return "Sym(%s)" % as_text(node.meta["number"]) if "number" in node.meta else ""


class ExportedProgram:
    """What torch.export.export returns."""

    def __init__(self, root, graph, graph_signature, state_dict, range_constraints, module_call_graph, example_inputs=None, constants=None, *, verifiers=None):
        self._graph_module = root if isinstance(root, torch.fx.GraphModule) else torch.fx.GraphModule(root, graph)
        self._graph_signature, self._state_dict, self._range_constraints = graph_signature, state_dict, range_constraints
        self._module_call_graph, self._example_inputs, self._constants = module_call_graph, example_inputs, constants or {}
        self._dialect = (verifiers or ["TRAINING"])[0]
        self._training = {}

    # ---- parts ----

    @property
    def graph_module(self):
        return self._graph_module

    @property
    def graph(self):
        return self._graph_module.graph

    @property
    def graph_signature(self):
        return self._graph_signature

    @property
    def state_dict(self):
        return self._state_dict

    @property
    def constants(self):
        return self._constants

    @property
    def tensor_constants(self):
        return self._constants

    @property
    def range_constraints(self):
        return self._range_constraints

    @property
    def module_call_graph(self):
        return self._module_call_graph

    @property
    def example_inputs(self):
        return self._example_inputs

    @example_inputs.setter
    def example_inputs(self, value):
        if value is not None:
            if not (isinstance(value, tuple) and len(value) == 2 and isinstance(value[0], tuple) and isinstance(value[1], dict)):
                raise ValueError("Example inputs should be a tuple containing example arguments (as a tuple), and example kwargs (as a dictionary).")
            spec = self.call_spec.in_spec
            args, kwargs = value[0], in_order(spec.child(1).context, value[1])
            found = pytree.tree_structure((args, kwargs))
            if found != spec:
                raise ValueError("Trying to flatten user inputs with exported input tree spec: \n%s\nbut actually got inputs with tree spec of: \n%s" % (spec, found))
            value = (args, kwargs)
        self._example_inputs = value

    @property
    def call_spec(self):
        signature = self._module_call_graph[0].signature
        return CallSpec(signature.in_spec, signature.out_spec)

    @property
    def dialect(self):
        return self._dialect

    @property
    def verifiers(self):
        return [self._dialect]

    @property
    def verifier(self):
        return self._dialect

    def parameters(self):
        for _, parameter in self.named_parameters():
            yield parameter

    def named_parameters(self):
        for name in self._graph_signature.parameters:
            yield name, self._state_dict[name]

    def buffers(self):
        for _, buffer in self.named_buffers():
            yield buffer

    def named_buffers(self):
        absent = set(self._graph_signature.non_persistent_buffers)
        for name in self._graph_signature.buffers:
            yield name, (self._constants if name in absent else self._state_dict)[name]

    def __call__(self, *args, **kwargs):
        raise RuntimeError("Unable to call ExportedProgram directly. You should use `exported_program.module()` instead.")

    def validate(self):
        self._graph_module.graph.lint()
        return self

    def __str__(self):
        lines = ["ExportedProgram:", "    class GraphModule(torch.nn.Module):"]
        typed = ", ".join('%s: "%s"' % (n.name, type_text(n)) if type_text(n) else n.name for n in self.graph.nodes if n.op == "placeholder")
        lines.append("        def forward(self, %s):" % typed)
        for line in self._graph_module.code.split("\n"):
            if line.startswith("    "):
                name = line.strip().split(" ", 1)[0]
                about = {n.name: type_text(n) for n in self.graph.nodes}.get(name)
                lines.append("        " + (line.replace(name, '%s: "%s"' % (name, about), 1) if about and " = " in line else line))
        return "%s\n\nGraph signature: %s\nRange constraints: %s\n" % ("\n".join(lines), self._graph_signature, self._range_constraints)

    __repr__ = __str__

    # ---- as a module ----

    def _tensor_of(self, spec):
        if spec.kind is InputKind.PARAMETER or (spec.kind is InputKind.BUFFER and spec.persistent is not False):
            return self._state_dict[spec.target]
        return self._constants[spec.target]

    def module(self, check_guards=True):
        """A module with the program's parameters, called as the original was. It shares nothing with this program but its tensors."""
        from ._unlift import unlift
        return unlift(self, check_guards)

    def run_decompositions(self, decomp_table=None, decompose_custom_triton_ops=False):
        """The same program of core operations: composites opened, changes of buffers as results."""
        from ._decompose import decompose
        return decompose(self, default_decompositions() if decomp_table is None else decomp_table)

    def _update(self, graph_module, graph_signature, **changes):
        made = copy.copy(self)
        made._graph_module, made._graph_signature = graph_module, graph_signature
        for name, value in changes.items():
            setattr(made, "_" + name, value)
        return made

    def __deepcopy__(self, memo):
        made = copy.copy(self)
        made._graph_module = copy.deepcopy(self._graph_module, memo)
        made._state_dict = {k: copy.deepcopy(v, memo) for k, v in self._state_dict.items()}
        return made


def free_symbols(program):
    return sorted(set().union(*(symbols_in(s) for n in program.graph.nodes for s in (n.meta.get("tensor") or {"size": []})["size"])))


