"""The graph of a trace: nodes, the values between them, and the types of these. _nodes.py makes one while the calls are recorded.

A graph is for reading: PyTorch's passes over graphs are not there, programs are run by src/script.
"""
import math
import typing

import rushlight as torch

_SCALARS = {torch.float32: "Float", torch.float64: "Double", torch.float16: "Half", torch.bfloat16: "BFloat16", torch.int64: "Long", torch.int32: "Int", torch.int16: "Short",
            torch.int8: "Char", torch.uint8: "Byte", torch.bool: "Bool", torch.complex64: "ComplexFloat", torch.complex128: "ComplexDouble"}


class Type:
    """Base of the types of TorchScript; `inner` are those that a type is made of."""
    form = annotation = None  # the text in graphs, and in programs; %s is where the inner ones stand

    def __init__(self, *inner):
        self.inner = inner

    @classmethod
    def get(cls):
        return cls()

    def kind(self):
        return type(self).__name__

    def containedTypes(self):
        return list(self.inner)

    def str(self):
        return self.form % ", ".join(t.str() for t in self.inner) if self.inner else self.form.replace("%s", "")

    @property
    def annotation_str(self):
        return self.annotation % ", ".join(t.annotation_str for t in self.inner) if self.inner else self.annotation.replace("%s", "")

    def isSubtypeOf(self, other):
        return self == other or other.kind() == "AnyType" or other.kind() == "OptionalType" and self.isSubtypeOf(other.getElementType())

    def __repr__(self):
        return self.annotation_str

    def __eq__(self, other):
        return type(self) is type(other) and self.inner == other.inner

    def __hash__(self):
        return hash((type(self), self.inner))


def _plain(name, form, annotation=None):
    return type(name, (Type,), {"__module__": "torch._C", "form": form, "annotation": annotation or form})


NumberType = _plain("NumberType", "Scalar", "number")
AnyType, IntType, FloatType, ComplexType, BoolType = map(_plain, ("AnyType", "IntType", "FloatType", "ComplexType", "BoolType"), ("Any", "int", "float", "complex", "bool"))
StringType, NoneType, DeviceObjType, StreamObjType = map(_plain, ("StringType", "NoneType", "DeviceObjType", "StreamObjType"), ("str", "NoneType", "Device", "Stream"))
PyObjectType, SymBoolType, GeneratorType = map(_plain, ("PyObjectType", "SymBoolType", "GeneratorType"), ("PyObject", "SymBool", "Generator"))
SymIntType = _plain("SymIntType", "SymInt", "int")
FunctionType = _plain("FunctionType", "Function")


class _Of(Type):
    """A type of one other."""

    def getElementType(self):
        return self.inner[0]


class ListType(_Of):
    form, annotation = "%s[]", "List[%s]"

    @classmethod
    def ofTensors(cls):
        return cls(TensorType.get())

    @classmethod
    def ofInts(cls):
        return cls(IntType())

    @classmethod
    def ofFloats(cls):
        return cls(FloatType())

    @classmethod
    def ofBools(cls):
        return cls(BoolType())


class OptionalType(_Of):
    form, annotation = "%s?", "Optional[%s]"

    @staticmethod
    def ofTensor():
        return OptionalType(TensorType.get())


class FutureType(_Of):
    form, annotation = "Future(%s)", "Future[%s]"


class AwaitType(_Of):
    form, annotation = "Await(%s)", "Await[%s]"


class RRefType(_Of):
    form, annotation = "RRef(%s)", "RRef[%s]"


class DictType(Type):
    form, annotation = "Dict(%s)", "Dict[%s]"

    def getKeyType(self):
        return self.inner[0]

    def getValueType(self):
        return self.inner[1]


class TupleType(Type):
    form, annotation = "(%s)", "Tuple[%s]"

    def __init__(self, elements):
        super().__init__(*elements)

    def elements(self):
        return list(self.inner)


class UnionType(TupleType):
    form, annotation = "Union(%s)", "Union[%s]"


class ClassType(Type):
    """A class by its path."""

    def __init__(self, path):
        super().__init__()
        self.path = self.form = self.annotation = path

    def name(self):
        return self.path.rsplit(".", 1)[-1]

    qualified_name = Type.str

    def __eq__(self, other):
        return type(self) is type(other) and self.path == other.path

    __hash__ = Type.__hash__


class TensorType(Type):
    """A tensor, and as far as it is known what one: without, all is None."""
    annotation = "Tensor"
    _dtype = _sizes = _strides = _device = _grad = None

    def __init__(self):
        super().__init__()

    @classmethod
    def create_from_tensor(cls, t):
        made = cls()
        made._dtype, made._sizes, made._device, made._grad = t.dtype, tuple(t.shape), t.device, t.requires_grad
        made._strides = tuple(t.stride()) if t.layout is torch.strided else None
        return made

    def _known(self):
        return self._dtype, self._sizes, self._strides, self._device, self._grad

    @staticmethod
    def getInferred():
        return TensorType()

    def sizes(self):
        return None if self._sizes is None else list(self._sizes)

    symbolic_sizes = varyingSizes = sizes

    def strides(self):
        return None if self._strides is None else list(self._strides)

    def dim(self):
        return None if self._sizes is None else len(self._sizes)

    def dtype(self):
        return self._dtype

    def scalarType(self):
        return None if self._dtype is None else _SCALARS.get(self._dtype, str(self._dtype).rpartition(".")[2].capitalize())

    def device(self):
        return self._device

    def requires_grad(self):
        return bool(self._grad)

    def str(self):
        if self._dtype is None:
            return "Tensor"
        parts = [str(n) for n in self._sizes]
        if self._strides:
            parts.append(f"strides=[{', '.join(map(str, self._strides))}]")
        parts += ([] if self._grad is None else [f"requires_grad={int(self._grad)}"]) + [f"device={self._device}"]
        return f"{self.scalarType()}({', '.join(parts)})"

    def isSubtypeOf(self, other):
        return super().isSubtypeOf(other) or type(other) is TensorType and other._known() == TensorType()._known()

    def __eq__(self, other):
        return type(self) is type(other) and self._known() == other._known()

    def __hash__(self):
        return hash(self._known())


class Use(typing.NamedTuple):
    """Where a value is read."""
    user: object
    offset: int


class Value:
    """What a node gives or the graph is given."""

    def __init__(self, node, type_, name=None):
        self._node, self._type, self._name, self._uses, self._unique = node, type_, None, [], node._graph._count()
        self.constant = None  # of a constant what it is
        if name is not None:
            self.setDebugName(name)

    def node(self):
        return self._node

    def type(self):
        return self._type

    def setType(self, type_):
        self._type = type_
        return self

    def unique(self):
        return self._unique

    def offset(self):
        return self._node._outputs.index(self)

    def uses(self):
        return list(self._uses)

    def debugName(self):
        return self._name or str(self._unique)

    def setDebugName(self, name):
        """Gives it a name; who had that one before gets a number behind it."""
        if name.isdigit():
            raise RuntimeError(f"Cannot have integer as name: {name}")
        names = self._node._graph._names
        names.pop(self._name, None)
        if name in names:
            base, number = name.rpartition(".")[0] if name.rpartition(".")[2].isdigit() else name, 1
            while f"{base}.{number}" in names:
                number += 1
            names[name].setDebugName(f"{base}.{number}")
        names[name], self._name = self, name
        return self

    def isCompleteTensor(self):
        return isinstance(self._type, TensorType) and self._type._sizes is not None

    def requires_grad(self):
        return isinstance(self._type, TensorType) and self._type.requires_grad()

    requiresGrad = requires_grad

    def toIValue(self):
        """What a constant is, None of all else."""
        return self.constant

    def replaceAllUsesWith(self, other):
        for use in self.uses():
            use.user.replaceInput(use.offset, other)

    def __repr__(self):
        return f"{self.debugName()} defined in ({self._node})"


class Node:
    """A call of an operation, or of what the language itself has (prim::)."""

    def __init__(self, graph, kind, inputs=(), attributes=None, scope="", where=(), schema=None):
        self._graph, self._kind, self._attributes, self._scope, self._where, self._schema = graph, kind, attributes or {}, scope, where, schema
        self._inputs, self._outputs, self._python = [], [], None
        for v in inputs:
            self.addInput(v)

    def kind(self):
        return self._kind

    def inputs(self):
        return iter(self._inputs)

    def inputsAt(self, i):
        return self._inputs[i]

    def inputsSize(self):
        return len(self._inputs)

    def input(self):
        return self._only(self._inputs, "input")

    def namedInput(self, name):
        if self._schema is None:
            raise RuntimeError(f"{self._kind} has no schema")
        return self._inputs[[a.name for a in self._schema.arguments].index(name)]

    def outputs(self):
        return iter(self._outputs)

    def outputsAt(self, i):
        return self._outputs[i]

    def outputsSize(self):
        return len(self._outputs)

    def output(self):
        return self._only(self._outputs, "output")

    def _only(self, values, what):
        if len(values) != 1:
            raise RuntimeError(f"{self._kind} has {len(values)} {what}s, not one")
        return values[0]

    def hasMultipleOutputs(self):
        return len(self._outputs) > 1

    def hasUses(self):
        return any(v._uses for v in self._outputs)

    def addInput(self, value):
        value._uses.append(Use(self, len(self._inputs)))
        self._inputs.append(value)
        return value

    def addOutput(self, type_=None, name=None):
        self._outputs.append(Value(self, type_ or TensorType(), name))
        return self._outputs[-1]

    def replaceInput(self, i, value):
        old, self._inputs[i] = self._inputs[i], value
        old._uses.remove((self, i))
        value._uses.append(Use(self, i))
        return old

    def destroy(self):
        """Takes it out of its graph; nobody may read it."""
        if self.hasUses():
            raise RuntimeError(f"cannot destroy a node whose outputs are used: {self}")
        self._leave()
        self._graph._nodes.remove(self)

    def _leave(self):
        for i, v in enumerate(self._inputs):
            v._uses.remove((self, i))
        for v in self._outputs:
            self._graph._names.pop(v._name, None)

    def scopeName(self):
        return self._scope

    def schema(self):
        return str(self._schema) if self._schema is not None else "(no schema)"

    def pyname(self):
        return self.pyobj().__name__

    def pyobj(self):
        """The function of autograd that it calls."""
        return self._of_python()[0]

    def scalar_args(self):
        """Its arguments that are no tensors."""
        return list(self._of_python()[1])

    def _of_python(self):
        if self._python is None:
            raise RuntimeError(f"{self._kind} calls no function of Python")
        return self._python

    def sourceRange(self):
        """The lines that were running, the innermost first."""
        return "".join(f"{file}({line}): {name}\n" for file, line, name in self._where)

    def blocks(self):
        """None: a trace has no branches."""
        return iter(())

    def mustBeNone(self):
        return self._kind == "prim::Constant" and isinstance(self._outputs[0]._type, NoneType)

    def attributeNames(self):
        return list(self._attributes)

    def hasAttributes(self):
        return bool(self._attributes)

    def hasAttribute(self, name):
        return name in self._attributes

    def kindOf(self, name):
        value = self._attribute(name)
        return {bool: "i", int: "i", float: "f", complex: "c", str: "s"}.get(type(value)) or ("t" if isinstance(value, torch.Tensor) else "ival")

    def _attribute(self, name, kind=None):
        if name not in self._attributes:
            raise IndexError(f"required keyword attribute '{name}' is undefined")
        if kind is not None and kind != self.kindOf(name):
            raise RuntimeError(f"required keyword attribute '{name}' has the wrong type: it is of kind {self.kindOf(name)}, not {kind}")
        return self._attributes[name]

    def i(self, name):
        return int(self._attribute(name, "i"))

    def f(self, name):
        return self._attribute(name, "f")

    def s(self, name):
        return self._attribute(name, "s")

    def c(self, name):
        return self._attribute(name, "c")

    def t(self, name):
        return self._attribute(name, "t")

    def ival(self, name):
        return self._attribute(name, "ival")

    def __str__(self):
        outs, attributes = ", ".join(map(_typed, self._outputs)), ", ".join(f"{k}={_literal(x)}" for k, x in self._attributes.items())
        kind, scalars = (self._kind, "") if self._python is None else (f"^{self.pyname()}", f"({', '.join(map(str, self.scalar_args()))})")
        text = f"{outs} = {kind}" + (f"[{attributes}]" if attributes else "") + f"{scalars}({', '.join('%' + v.debugName() for v in self._inputs)})"
        return text + (f", scope: {self._scope}" if self._scope else "") + (" # %s:%d:0" % self._where[0][:2] if self._where else "") + "\n"

    __repr__ = __str__


def _typed(value):
    return f"%{value.debugName()} : {value._type.str()}"


def _literal(x):
    """An attribute as graphs have it."""
    if isinstance(x, str):
        return '"' + x.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") + '"'
    if isinstance(x, (bool, int)):
        return str(int(x))
    if isinstance(x, float):
        return ("%.17g" % x) + ("." if math.isfinite(x) and x == int(x) and abs(x) < 1e17 else "")
    if isinstance(x, torch.Tensor):
        if x.numel() == 1:
            return "{" + ("%g" % x.item() if x.is_floating_point() else str(int(x)) if not x.is_complex() else str(x.item())) + "}"
        return "<Tensor>" if x.numel() > 10 else f"[{', '.join(map(str, x.flatten().tolist()))}]"
    return str(x)


class Block:
    """All nodes of a graph."""

    def __init__(self, graph):
        self._graph = graph

    def nodes(self):
        return self._graph.nodes()

    def inputs(self):
        return self._graph.inputs()

    def outputs(self):
        return self._graph.outputs()

    def paramNode(self):
        return self._graph.param_node()

    def returnNode(self):
        return self._graph.return_node()


class Graph:
    """Nodes in the order they run."""

    def __init__(self):
        self._values, self._names, self._nodes = 0, {}, []
        self._param, self._return = Node(self, "prim::Param"), Node(self, "prim::Return")

    def _count(self):
        self._values += 1
        return self._values - 1

    def inputs(self):
        return self._param.outputs()

    def outputs(self):
        return self._return.inputs()

    def nodes(self):
        return iter(list(self._nodes))

    def param_node(self):
        return self._param

    def return_node(self):
        return self._return

    def block(self):
        return Block(self)

    def addInput(self, name=None):
        return self._param.addOutput(name=name)

    def registerOutput(self, value):
        self._return.addInput(value)
        return self._return.inputsSize() - 1

    def findAllNodes(self, kind, recurse=True):
        return [n for n in self._nodes if n._kind == kind]

    def findNode(self, kind, recurse=True):
        return next(iter(self.findAllNodes(kind)), None)

    def copy(self):
        """A graph with nodes of its own."""
        made, values = Graph(), {}

        def outputs(old, new):
            for v in old._outputs:
                values[id(v)] = x = new.addOutput(v._type, v._name)
                x.constant = v.constant
        outputs(self._param, made._param)
        for n in self._nodes:
            new = Node(made, n._kind, [values[id(v)] for v in n._inputs], dict(n._attributes), n._scope, n._where, n._schema)
            new._python = n._python
            outputs(n, new)
            made._nodes.append(new)
        for v in self.outputs():
            made.registerOutput(values[id(v)])
        return made

    def str(self, print_source_locations=True):
        nodes = "".join("  %s" % (n if print_source_locations else str(n).partition(" # ")[0].rstrip("\n") + "\n") for n in self._nodes)
        return f"graph({(',' + chr(10) + ' ' * 6).join(map(_typed, self._param._outputs))}):\n{nodes}  return ({', '.join('%' + v.debugName() for v in self.outputs())})\n"

    toString = str

    def __str__(self):
        return self.str()

    __repr__ = __str__


for _cls in (Type, ListType, OptionalType, FutureType, AwaitType, RRefType, DictType, TupleType, UnionType, ClassType, TensorType, Use, Value, Node, Block, Graph):
    _cls.__module__ = "torch._C"
