"""Graph: nodes in the order they run, and the Python code that runs them.

The nodes are a ring through a root node. CodeGen writes the body of a function, one line per node; values are set to
None after their last use so that memory is freed as in hand-written code.
"""
import builtins
import contextlib
import copy
import dataclasses
import enum
import keyword
import math
import re
import types
import typing
import warnings
from collections import defaultdict

import rushlight as torch
from rushlight._alias import torch_name
from rushlight.fx.node import Argument, Node, Target, _get_qualified_name, _type_repr, map_arg  # noqa: F401
from rushlight.utils import _pytree as pytree

__all__ = ["PythonCode", "CodeGen", "Graph"]

magic_methods = {
    "eq": "{} == {}", "ne": "{} != {}", "lt": "{} < {}", "gt": "{} > {}", "le": "{} <= {}", "ge": "{} >= {}",
    "pos": "+{}", "neg": "-{}", "invert": "~{}", "add": "{} + {}", "sub": "{} - {}", "mul": "{} * {}",
    "floordiv": "{} // {}", "truediv": "{} / {}", "mod": "{} % {}", "pow": "{} ** {}", "lshift": "{} << {}",
    "rshift": "{} >> {}", "and_": "{} & {}", "or_": "{} | {}", "xor": "{} ^ {}", "getitem": "{}[{}]",
    "matmul": "{} @ {}",
}
inplace_methods = {
    "iadd": "{} += {}", "iand": "{} &= {}", "ifloordiv": "{} //= {}", "ilshift": "{} <<= {}", "imod": "{} %= {}",
    "imul": "{} *= {}", "imatmul": "{} @= {}", "ior": "{} |= {}", "ipow": "{} **= {}", "irshift": "{} >>= {}",
    "isub": "{} -= {}", "itruediv": "{} /= {}", "ixor": "{} ^= {}", "setitem": "{}[{}] = {}",
}
reflectable_magic_methods = {name: magic_methods[name] for name in (
    "add", "sub", "mul", "floordiv", "truediv", "mod", "pow", "lshift", "rshift", "and_", "or_", "xor", "getitem",
    "matmul")}


def _snake_case(s):
    """"NotSoFast" -> "not_so_fast", "conv2D" -> "conv2d" """
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", s).lower()


@dataclasses.dataclass
class _CustomBuiltin:
    """A name that generated code may use."""

    import_str: str
    obj: object


_custom_builtins = {}


def _register_custom_builtin(name, import_str, obj):
    _custom_builtins[name] = _CustomBuiltin(import_str, obj)


_register_custom_builtin("inf", "from math import inf", math.inf)
_register_custom_builtin("nan", "from math import nan", math.nan)
_register_custom_builtin("NoneType", "NoneType = type(None)", type(None))
_register_custom_builtin("torch", "import torch", torch)
_register_custom_builtin("device", "from torch import device", torch.device)
_register_custom_builtin("fx_pytree", "import torch.fx._pytree as fx_pytree", None)
_register_custom_builtin("pytree", "import torch.utils._pytree as pytree", pytree)


def _is_magic(x):
    return x.startswith("__") and x.endswith("__")


def _is_from_torch(obj):
    module = getattr(obj, "__module__", None)
    if module is not None:
        return torch_name(module).partition(".")[0] == "torch"
    name = getattr(obj, "__name__", None)
    return name is not None and name != "torch" and any(getattr(space, name, None) is obj for space in (
        torch, torch.nn.functional))


class _Namespace:
    """Gives out names, each once."""

    def __init__(self):
        self._obj_to_name = {}
        self._used_names = set()
        self._base_count = defaultdict(int)
        self._illegal = re.compile("[^0-9a-zA-Z_]+")
        self._suffix = re.compile(r"(.*)_(\d+)$")

    def create_name(self, candidate, obj):
        """A name like candidate that is free; the same again for the same object."""
        if obj is not None and obj in self._obj_to_name:
            return self._obj_to_name[obj]
        candidate = self._illegal.sub("_", candidate) or "_unnamed"
        if candidate[0].isdigit():
            candidate = "_" + candidate
        match = self._suffix.match(candidate)
        # A free name stays as it is; another one gets the next free number after its own, or after the base's last.
        base, number = (candidate, self._base_count.get(candidate, 0)) if match is None else (match[1], int(match[2]))
        while candidate in self._used_names or self._is_illegal(candidate, obj):
            number += 1
            candidate = "%s_%d" % (base, number)
        self._used_names.add(candidate)
        self._base_count[base] = number
        if obj is not None:
            self._obj_to_name[obj] = candidate
        return candidate

    def associate_name_with_obj(self, name, obj):
        self._obj_to_name.setdefault(obj, name)

    def _is_illegal(self, name, obj):
        if keyword.iskeyword(name):
            return True
        if name in builtins.__dict__:
            return obj is not builtins.__dict__[name]
        if name in _custom_builtins:
            return obj is not _custom_builtins[name].obj
        return False

    def _rename_object(self, obj, name):
        self._obj_to_name[obj] = name
        self._used_names.add(name)


@dataclasses.dataclass
class PythonCode:
    """Source of a function and the globals it needs."""

    src: str
    globals: dict
    _lineno_map: object = None
    _prologue_start: int = 0
    fn_args: object = None


def _format_target(base, target):
    """base.a.b, with getattr for parts that are no names."""
    for part in target.split("."):
        base = "%s.%s" % (base, part) if part.isidentifier() else 'getattr(%s, "%s")' % (base, part)
    return base


class _InsertPoint:
    def __init__(self, graph, new_insert):
        self.graph = graph
        self.orig_insert, graph._insert = graph._insert, new_insert

    def __enter__(self):
        return None

    def __exit__(self, *error):
        self.graph._insert = self.orig_insert


class _node_list:
    """graph.nodes: may be changed while it is walked."""

    def __init__(self, graph, direction="_next"):
        if direction not in ("_next", "_prev"):
            raise AssertionError("invalid direction")
        self.graph, self.direction = graph, direction

    def __len__(self):
        return self.graph._len

    def __iter__(self):
        root = self.graph._root
        node = getattr(root, self.direction)
        while node is not root:
            following = getattr(node, self.direction)
            if not node._erased:
                yield node
                # The node may have been moved or erased meanwhile.
                if not node._erased:
                    following = getattr(node, self.direction)
            node = following

    def __reversed__(self):
        return _node_list(self.graph, "_prev" if self.direction == "_next" else "_next")


class _PyTreeInfo:
    """How containers at the edge of a graph are flattened."""

    def __init__(self, orig_args, in_spec, out_spec):
        self.orig_args, self.in_spec, self.out_spec = orig_args, in_spec, out_spec


class _Writer:
    """The lines of a function's body, node by node, and the globals that they name."""

    def __init__(self, codegen, root_module, namespace):
        self.codegen, self.root_module, self.namespace = codegen, root_module, namespace
        self.free_vars, self.body, self.globals, self.wrapped, self.returned = [], [], {}, {}, ""

    def add_global(self, hint, obj):
        """The text that stands for obj, which becomes a global of the code unless it can be named in full."""
        if isinstance(obj, (torch._ops.OpOverload, torch._ops.OpOverloadPacket)):
            return "torch.ops.%s" % obj
        if isinstance(obj, torch._ops.HigherOrderOperator) and getattr(torch.ops.higher_order, obj.__name__, None) is obj:
            return "torch.ops.higher_order." + obj.__name__
        if _is_from_torch(obj) and obj is not torch.device and not isinstance(obj, torch._ops.OperatorBase):
            # Code names functions of the library in full, so that it reads well and can be saved.
            return _get_qualified_name(obj) if callable(obj) else str(obj)
        name = self.namespace.create_name(hint, obj)
        self.globals.setdefault(name, obj)
        return name

    def type_repr(self, obj):
        if obj == ():
            return "()"
        if isinstance(obj, list):
            return "[%s]" % ",".join(map(self.type_repr, obj))
        origin, arguments = typing.get_origin(obj), typing.get_args(obj)
        if not arguments:
            return self.add_global(_type_repr(origin if origin is not None else obj), origin if origin is not None else obj)
        if isinstance(obj, types.UnionType):
            return "|".join(map(self.type_repr, arguments))
        if getattr(origin, "__module__", "") == "builtins" and not isinstance(obj, types.GenericAlias):
            origin = getattr(typing, obj._name)         # List[int], not list[int]
        return "%s[%s]" % (self.add_global(repr(origin) if not isinstance(origin, type) else _type_repr(origin), origin), ",".join(map(self.type_repr, arguments)))

    def argument(self, a):
        if isinstance(a, tuple) and hasattr(a, "_fields"):
            return "%s(%s)" % (self.add_global(_type_repr(type(a)).rsplit(".", 1)[-1], type(a)), ", ".join(self.argument(x) for x in a))
        if isinstance(a, (torch._ops.OpOverload, torch._ops.HigherOrderOperator)):
            return self.add_global(_get_qualified_name(a).replace(".", "_"), a)
        if isinstance(a, torch.device):
            return "device(type='%s'%s)" % (a.type, "" if a.index is None else ", index=%d" % a.index)
        if isinstance(a, (torch.dtype, torch.memory_format, torch.layout)):
            return str(a)
        if isinstance(a, type):
            return self.add_global(_type_repr(a).rsplit(".", 1)[-1], a)
        if isinstance(a, enum.Enum):
            return "%s.%s" % (self.add_global(type(a).__name__, type(a)), a.name)
        if isinstance(a, list):
            return "[%s]" % ", ".join(map(self.argument, a))
        if isinstance(a, tuple):
            return ("(%s,)" if len(a) == 1 else "(%s)") % ", ".join(map(self.argument, a))
        if isinstance(a, dict):
            return "{%s}" % ", ".join("%s: %s" % (self.argument(k), self.argument(v)) for k, v in a.items())
        if isinstance(a, slice):
            return "slice(%s, %s, %s)" % (self.argument(a.start), self.argument(a.stop), self.argument(a.step))
        if callable(a) and not isinstance(a, Node):
            return self.add_global(getattr(a, "__name__", type(a).__name__), a)
        return repr(a)

    def arguments(self, args, kwargs):
        return ", ".join([self.argument(a) for a in args] + ["%s = %s" % (k, self.argument(v)) for k, v in kwargs.items()])

    def emit(self, node):
        write = getattr(self, "_" + node.op, None)
        if write is None:
            raise NotImplementedError("node: %s %s" % (node.op, node.target))
        write(node, "" if node.type is None else " : " + self.type_repr(node.type))

    def free(self, node, dead):
        """The end of a node's line: values that it used last are let go, its own if nobody uses it."""
        if node.op == "placeholder":
            return
        if not node.users and node not in dead:
            dead = dead + [node]
        freeing = dead and node.op != "output"
        self.body.append(";  %s = None\n" % " = ".join(map(repr, dead)) if freeing else "\n")

    def _placeholder(self, node, kind):
        if not isinstance(node.target, str):
            raise AssertionError("placeholder target must be a str")
        self.free_vars.append(node.target + kind + ("" if not node.args else " = " + repr(node.args[0])))
        raw = node.target.replace("*", "")
        if raw != repr(node):
            self.body.append("%s = %s\n" % (repr(node), raw))

    def _call_method(self, node, kind):
        self.body.append("%s%s = %s.%s(%s)" % (repr(node), kind, _group(repr(node.args[0]), node.args[0]), node.target, self.arguments(node.args[1:], node.kwargs)))

    def _call_function(self, node, kind):
        target, known = node.target, getattr(node.target, "__module__", "") == "_operator"
        if known and target.__name__ in magic_methods and not node.kwargs:
            self.body.append("%s%s = %s" % (repr(node), kind, magic_methods[target.__name__].format(*map(self.argument, node.args))))
            return
        if known and target.__name__ in inplace_methods:
            line = inplace_methods[target.__name__].format(*map(self.argument, node.args))
            self.body.append("%s;  %s%s = %s" % (line, repr(node), kind, self.argument(node.args[0])))
            return
        name = _get_qualified_name(target)
        if name in ("getattr", "builtins.getattr") and isinstance(node.args, tuple) and len(node.args) == 2 and isinstance(node.args[1], str) and \
                node.args[1].isidentifier():
            self.body.append("%s%s = %s" % (repr(node), kind, _format_target(repr(node.args[0]), node.args[1])))
            return
        name = self.add_global(name, target)
        self.body.append("%s%s = %s(%s)" % (repr(node), kind, name, self.arguments(node.args, node.kwargs)))
        if node.meta.get("is_wrapped"):
            self.wrapped.setdefault(name)

    def _call_module(self, node, kind):
        self.body.append("%s%s = %s(%s)" % (repr(node), kind, _format_target(self.root_module, node.target), self.arguments(node.args, node.kwargs)))

    def _get_attr(self, node, kind):
        self.body.append("%s%s = %s" % (repr(node), kind, _format_target(self.root_module, node.target)))

    def _output(self, node, kind):
        if node.type is not None:
            self.returned = " -> " + self.type_repr(node.type)
        self.body.append(self.codegen.generate_output_with(node.args[0], self.argument))


def _freed_by(nodes):
    """node -> the values whose last user it is."""
    freed, seen = {}, set()
    for node in reversed(nodes):
        def mark(value, node=node):
            if value not in seen:
                seen.add(value)
                freed.setdefault(node, []).append(value)
            return value
        map_arg(node.args, mark)
        map_arg(node.kwargs, mark)
    return freed


class CodeGen:
    """Writes the code of a graph."""

    def __init__(self):
        self._body_transformer = None
        self._func_name = "forward"

    def gen_fn_def(self, free_vars, maybe_return_annotation):
        """The line with def."""
        if not free_vars or free_vars[0] != "self":
            free_vars.insert(0, "self")
        return "def %s(%s)%s:" % (self._func_name, ", ".join(free_vars), maybe_return_annotation)

    def generate_output(self, output_args, *, descs=None):
        return "return %s" % repr(output_args)

    def process_inputs(self, *args):
        return args

    def process_outputs(self, outputs):
        return outputs

    def additional_globals(self):
        return []

    def _gen_python_code(self, nodes, root_module, namespace, *, verbose=False, include_stride=False,
                         include_device=False, colored=False, expanded_def=False, record_func=False,
                         additional_meta=None):
        nodes, writer = list(nodes), _Writer(self, root_module, namespace)
        for name, obj in self.additional_globals():
            writer.add_global(name, obj)
        freed = _freed_by(nodes)
        for node in nodes:
            writer.emit(node)
            writer.free(node, freed.get(node, []))
        body = writer.body or ["pass\n"]
        prologue = self.gen_fn_def(writer.free_vars, writer.returned)
        if self._body_transformer is not None:
            body = self._body_transformer(body)
        code = "".join(body).lstrip("\n")
        code = "\n".join("    " + line for line in code.split("\n"))
        # Code that is traced again keeps these functions whole.
        again = "\n".join("torch.fx._symbolic_trace.wrap(\"%s\")" % name for name in writer.wrapped)
        return PythonCode("\n%s\n\n%s\n%s" % (again, prologue, code), writer.globals, fn_args=writer.free_vars)

    def generate_output_with(self, output, argument):
        """generate_output, with containers of nodes written out; subclasses that override generate_output are asked."""
        if type(self).generate_output is not CodeGen.generate_output:
            return self.generate_output(output)
        return "return %s" % argument(output)


class _PyTreeCodeGen(CodeGen):
    """Code that flattens its inputs and builds its output by given specs."""

    def __init__(self, pytree_info):
        super().__init__()
        self.pytree_info = pytree_info

    def process_inputs(self, *inputs):
        return pytree.arg_tree_leaves(*inputs)

    def process_outputs(self, out):
        if not isinstance(out, (list, tuple)) or self.pytree_info.out_spec is None:
            return pytree.tree_unflatten(out if isinstance(out, (list, tuple)) else [out], self.pytree_info.out_spec) \
                if self.pytree_info.out_spec is not None else out
        return pytree.tree_unflatten(out, self.pytree_info.out_spec)

    def gen_fn_def(self, free_vars, maybe_return_annotation):
        info = self.pytree_info
        if info is None:
            return super().gen_fn_def(free_vars, maybe_return_annotation)
        names = list(info.orig_args)
        if names and names[0] == "self":
            names = names[1:]
        line = "def %s(self, %s)%s:" % (self._func_name, ", ".join(names), maybe_return_annotation)
        if free_vars:
            plain = [v.partition(":")[0].partition("=")[0].strip() for v in free_vars if v != "self"]
            # A specification may be of (args, kwargs): what it has of the second are the last of the names.
            in_spec, given = info.in_spec, "[%s]" % ", ".join(names)
            if len(names) < len(info.orig_args) == len(in_spec.children_specs):     # of a module's forward, with the module
                plain, given = ["self", *plain], "[%s]" % ", ".join(info.orig_args)
            if in_spec.type is tuple and [child.type for child in in_spec.children_specs] == [tuple, dict]:
                by_name = list(in_spec.children_specs[1].context)
                positional = names[:len(names) - len(by_name)]
                given = "([%s], {%s})" % (", ".join(positional), ", ".join("'%s':%s" % (k, k) for k in by_name))
            line += "\n    %s, = fx_pytree.tree_flatten_spec(%s, self._in_spec)" % (", ".join(plain), given)
        return line

    def generate_output(self, output_args, *, descs=None):
        if self.pytree_info is not None and self.pytree_info.out_spec is not None:
            return "return pytree.tree_unflatten(%s, self._out_spec)" % repr(output_args)
        return super().generate_output(output_args)


def _group(text, value):
    return text if isinstance(value, Node) or isinstance(value, str) else "(%s)" % text


class Graph:
    """Nodes, from placeholders to the output."""

    def __init__(self, owning_module=None, tracer_cls=None, tracer_extras=None):
        self._root = Node(self, "", "root", "", (), {})
        self._used_names = {}
        self._insert = self._root.prepend
        self._len = 0
        self._graph_namespace = _Namespace()
        self._owning_module, self._owners = owning_module, 0
        self._tracer_cls, self._tracer_extras = tracer_cls, tracer_extras
        self._codegen = CodeGen()
        self._co_fields = {}

    @property
    def owning_module(self):
        return self._owning_module

    @owning_module.setter
    def owning_module(self, mod):
        self._owning_module = mod

    @property
    def nodes(self):
        return _node_list(self)

    @property
    def output_node_or_none(self):
        return next((n for n in reversed(self.nodes) if n.op == "output"), None)

    def output_node(self):
        found = self.output_node_or_none
        if found is None:
            raise AssertionError("the graph has no output")
        return found

    def find_nodes(self, *, op, target=None, sort=True):
        """The nodes of one kind (and target)."""
        if target is None and op == "call_function":
            raise AssertionError("target must be specified for call_function")
        return [n for n in self.nodes if n.op == op and (target is None or n.target == target)]

    def graph_copy(self, g, val_map, return_output_node=False):
        """Append the nodes of g; val_map maps its nodes to those here. The value of its output comes back."""
        for node in g.nodes:
            if node in val_map:
                continue
            if node.op == "output":
                result = map_arg(node.args[0], lambda n: val_map[n])
                return (result, node) if return_output_node else result
            val_map[node] = self.node_copy(node, lambda n: val_map[n])
        return None

    def __deepcopy__(self, memo=None):
        memo = memo if memo else {}
        new = Graph(tracer_cls=self._tracer_cls)
        # Whoever refers to the graph or its nodes refers to the copies.
        val_map = {}
        copied = new.graph_copy(self, val_map=val_map, return_output_node=True)
        new._codegen = copy.deepcopy(self._codegen)
        if copied is not None:
            value, old = copied
            made = new.output(value, type_expr=getattr(old, "type", None))
            made.meta = copy.copy(old.meta)
        return new

    def create_node(self, op, target, args=None, kwargs=None, name=None, type_expr=None):
        """Add a node at the insertion point."""
        args, kwargs = () if args is None else args, {} if kwargs is None else kwargs
        if not isinstance(args, tuple):
            raise AssertionError("args must be a tuple")
        if not isinstance(kwargs, dict):
            raise AssertionError("kwargs must be a dict")
        candidate = name if name is not None else self._target_to_str(target)
        node = Node(self, self._graph_namespace.create_name(candidate, None), op, target, args, kwargs, type_expr)
        if self.owning_module is not None and getattr(self.owning_module, "_create_node_hooks", None):
            for hook in self.owning_module._create_node_hooks:
                hook(node)
        self._graph_namespace.associate_name_with_obj(node.name, node)
        self._insert(node)
        self._len += 1
        return node

    def process_inputs(self, *args):
        return self._codegen.process_inputs(*args)

    def process_outputs(self, out):
        return self._codegen.process_outputs(out)

    def erase_node(self, to_erase):
        """Remove a node that nothing uses."""
        if to_erase.users:
            raise RuntimeError("Tried to erase Node %s but it still had %d users in the graph: %s!"
                               % (to_erase, len(to_erase.users), to_erase.users))
        if to_erase.graph != self:
            raise RuntimeError("Attempting to remove %s from wrong graph!" % to_erase)
        if to_erase._erased:
            warnings.warn("erase_node(%s) on an already erased node" % to_erase, stacklevel=2)
            return
        following = to_erase._next
        to_erase._prev._next, following._prev = following, to_erase._prev
        # Whoever is walking over the node goes on from it.
        to_erase._erased = True
        self._len -= 1
        # Of its arguments only what is no node stays.
        to_erase._set_inputs(map_arg(to_erase._args, lambda n: None), map_arg(to_erase._kwargs, lambda n: None))

    def inserting_before(self, n=None):
        """Context manager (or call): nodes are added before n (None: at the beginning)."""
        if n is None:
            return self.inserting_after(self._root)
        if n.graph != self:
            raise AssertionError("Node to insert before is not in graph.")
        return _InsertPoint(self, n.prepend)

    def inserting_after(self, n=None):
        """Context manager (or call): nodes are added after n (None: at the end)."""
        if n is None:
            return self.inserting_before(self._root)
        if n.graph != self:
            raise AssertionError("Node to insert after is not in graph.")
        return _InsertPoint(self, n.append)

    def placeholder(self, name, type_expr=None, default_value=Node):
        args = () if default_value is Node else (default_value,)
        return self.create_node("placeholder", name, args=args, type_expr=type_expr)

    def get_attr(self, qualified_name, type_expr=None):
        owner = self.owning_module
        if owner is not None:
            path, _, name = qualified_name.rpartition(".")
            holder = None
            try:
                holder = owner.get_submodule(path)
            except AttributeError:
                warnings.warn("Failed to fetch module %s!" % path, stacklevel=2)
            if holder is not None and not hasattr(holder, name):
                warnings.warn("Attempted to insert a get_attr Node with no underlying reference in the owning GraphModule! Call "
                              "GraphModule.add_submodule to add the necessary submodule, GraphModule.add_parameter to add the "
                              "necessary Parameter, or nn.Module.register_buffer to add the necessary buffer", stacklevel=2)
        return self.create_node("get_attr", qualified_name, type_expr=type_expr)

    def call_module(self, module_name, args=None, kwargs=None, type_expr=None):
        owner = self.owning_module
        if owner is not None:
            try:
                owner.get_submodule(module_name)
            except AttributeError:
                warnings.warn("Attempted to insert a call_module Node with no underlying reference in the owning GraphModule! "
                              "Call GraphModule.add_submodule to add the necessary submodule", stacklevel=2)
        return self.create_node("call_module", module_name, args, kwargs, type_expr=type_expr)

    def call_method(self, method_name, args=None, kwargs=None, type_expr=None):
        return self.create_node("call_method", method_name, args, kwargs, type_expr=type_expr)

    def call_function(self, the_function, args=None, kwargs=None, type_expr=None, name=None):
        return self.create_node("call_function", the_function, args, kwargs, name=name, type_expr=type_expr)

    def node_copy(self, node, arg_transform=lambda x: x):
        """A copy of a node of another graph; arg_transform maps the nodes in its arguments."""
        made = self.create_node(node.op, node.target, map_arg(node.args, arg_transform),
                                dict(map_arg(node.kwargs, arg_transform)), node.name, node.type)
        made.meta = copy.copy(node.meta)
        return made

    def output(self, result, type_expr=None):
        return self.create_node(op="output", target="output", args=(result,), type_expr=type_expr)

    def _target_to_str(self, target):
        if callable(target):
            text = target.__name__
        else:
            text = target
            if _is_magic(text):
                text = text[2:-2]
        return _snake_case(text)

    def python_code(self, root_module, *, verbose=False, include_stride=False, include_device=False, colored=False,
                    expanded_def=False, record_func=False, additional_meta=None):
        """The source of a function that runs the graph."""
        namespace = _Namespace()

        def local_name(node):
            return namespace.create_name(node.name, node)
        before = {node: node._repr_fn for node in self.nodes}
        for node in self.nodes:
            node._repr_fn = local_name
        try:
            return self._codegen._gen_python_code(self.nodes, root_module, namespace, verbose=verbose)
        finally:
            for node, fn in before.items():
                node._repr_fn = fn

    def __str__(self):
        names, returned = [], [""]
        lines = [node.format_node(names, returned) for node in self.nodes]
        return "graph():" + "".join("\n    " + line for line in lines if line)

    def print_tabular(self):
        try:
            from tabulate import tabulate
        except ImportError:
            print("`print_tabular` relies on the library `tabulate`, which could not be found on this machine. Run `pip "
                  "install tabulate` to install the library.")
            raise
        print(tabulate([[n.op, n.name, n.target, n.args, n.kwargs] for n in self.nodes],
                       headers=["opcode", "name", "target", "args", "kwargs"]))

    def lint(self):
        """Check that the graph is well formed."""
        seen, names = set(), set()

        def check(arg, user=None):
            if arg.graph is not self:
                raise RuntimeError("Argument '%s' of Node '%s' does not belong to this Graph, but was used as an argument! If you "
                                   "are copying nodes from another graph, make sure to use ``arg_transform`` on node_copy() to "
                                   "remap values\n%s" % (arg, user, self))
            if arg not in seen:
                raise RuntimeError("Argument '%s' of Node '%s' was used before it has been defined! Please check that Nodes in the "
                                   "graph are topologically ordered\n%s" % (arg, user, self))
        for node in self.nodes:
            if node.graph is not self:
                raise RuntimeError("Node '%s' does not belong to this Graph!" % node)
            if node.name in names:
                raise RuntimeError("Node redefined name %s!" % node.name)
            map_arg(node.args, lambda a: check(a, node))
            map_arg(node.kwargs, lambda a: check(a, node))
            seen.add(node)
            names.add(node.name)
            if self.owning_module is not None and node.op in ("get_attr", "call_module"):
                value = self.owning_module
                for part in node.target.split("."):
                    if not hasattr(value, part):
                        raise RuntimeError("Node %s target %s references nonexistent attribute %s of %s"
                                           % (node, node.target, part, type(value)))
                    value = getattr(value, part)
                if node.op == "call_module" and not isinstance(value, torch.nn.Module):
                    raise RuntimeError("Node %s target %s does not reference an nn.Module" % (node, node.target))

    def eliminate_dead_code(self, is_impure_node=None):
        """Remove nodes whose values nothing uses; whether there were any comes back."""
        self.lint()
        changed = False
        for node in reversed(self.nodes):
            impure = is_impure_node(node) if is_impure_node is not None else node.is_impure()
            if not impure and not node.users:
                self.erase_node(node)
                changed = True
        return changed

    def set_codegen(self, codegen):
        self._codegen = codegen

    def on_generate_code(self, make_transformer):
        """Change the lines of generated code: make_transformer(current) -> function of a list of lines."""
        before = self._codegen._body_transformer
        self._codegen._body_transformer = make_transformer(before)

        @contextlib.contextmanager
        def restore():
            try:
                yield
            finally:
                self._codegen._body_transformer = before
        return restore()

    def __getstate__(self):
        return dict(self.__dict__)

