"""Node: one call in a graph. Nodes are linked in the order they run, and know who uses their values."""
import builtins
import functools
import inspect
import operator
import types
from typing import Any, Callable, Union

import rushlight as torch
from rushlight._alias import torch_name
from rushlight.fx.immutable_collections import immutable_dict, immutable_list

__all__ = ["Node", "map_arg", "map_aggregate", "has_side_effect"]

BaseArgumentTypes = Union[str, int, float, bool, complex, torch.dtype, torch.Tensor, torch.device, torch.memory_format,
                          torch.layout]
base_types = (str, int, float, bool, complex, torch.dtype, torch.Tensor, torch.device, torch.memory_format, torch.layout,
              torch.SymInt, torch.SymFloat, torch.SymBool)
Target = Union[Callable[..., Any], str]
Argument = Any
_legal_ops = dict.fromkeys(["placeholder", "call_method", "call_module", "call_function", "get_attr", "output", "root"])
_side_effectful_functions = set()


@functools.cache
def _draws():
    return {torch.rand, torch.randn, torch.randint, torch.randperm, torch.rand_like, torch.randn_like, torch.randint_like, torch.normal, torch.poisson,
            torch.bernoulli, torch.multinomial}


def has_side_effect(fn):
    """Mark a function whose calls may not be dropped although nothing uses the result."""
    _side_effectful_functions.add(fn)
    return fn


def _find_module_of_method(orig_method):
    """Where one finds a function of the library that does not say its module."""
    name = orig_method.__name__
    for guess in (torch, torch.nn.functional, torch._C._VariableFunctions, torch.special, torch.linalg, torch.fft):
        if getattr(guess, name, None) is orig_method:
            return torch_name(guess.__name__) if guess is not torch._C._VariableFunctions else "torch"
    raise RuntimeError("cannot find module for %s" % (orig_method,))


def _type_repr(obj):
    """A type as code."""
    if isinstance(obj, type) and not isinstance(obj, types.GenericAlias):
        module = torch_name(obj.__module__)
        return obj.__qualname__ if module == "builtins" else "%s.%s" % (module, obj.__qualname__)
    if obj is ...:
        return "..."
    if isinstance(obj, types.FunctionType):
        return obj.__name__
    return repr(obj).replace("rushlight.", "torch.")


def _get_qualified_name(func):
    """The name under which code can reach a function."""
    if getattr(builtins, getattr(func, "__name__", ""), None) is func:
        return func.__name__
    if getattr(operator, getattr(func, "__name__", ""), None) is func:
        return "operator." + func.__name__
    if isinstance(func, (types.MethodDescriptorType, types.WrapperDescriptorType)) and \
            getattr(torch.Tensor, func.__name__, None) is func:
        return "torch.Tensor." + func.__name__
    name = func.__name__
    if name == "<lambda>":
        try:
            name = inspect.getsource(func).split("=")[0].strip()
        except Exception as error:
            raise RuntimeError("Unable to represent lambda") from error
    if isinstance(func, getattr(torch._ops, "OperatorBase")):
        return str(func.__module__) + "." + name if not isinstance(func, torch._ops.OpOverload) else "torch.ops." + str(func)
    module = getattr(func, "__module__", None)
    if module in ("torch._C.ops", "rushlight._C.ops"):  # what an operator of torch.ops calls
        return "torch.ops.aten." + name
    if (module or "").startswith("rushlight"):
        for space, label in ((torch, "torch"), (torch.nn.functional, "torch.nn.functional")):
            if getattr(space, name, None) is func:
                return label + "." + name
    if module is None or module in ("rushlight._C", "torch._C", "rushlight._C._VariableFunctions") or (
            not hasattr(func, "__code__") and module in ("rushlight", "torch")):
        module = _find_module_of_method(func)
    module = torch_name(module)
    if module == "torch" and name == "segment_reduce":
        name = "_" + name
    return "%s.%s" % (module, name)


def _format_arg(arg, max_list_len=float("inf")):
    """An argument as text, nodes as %name."""
    if hasattr(arg, "_custom_fx_repr_fn"):
        return arg._custom_fx_repr_fn()
    if isinstance(arg, (list, tuple)):
        items = [_format_arg(a) for i, a in enumerate(arg) if i < max_list_len]
        more = ", ...]" if isinstance(arg, list) else ", ...)"
        text = ", ".join(items)
        if len(arg) > max_list_len:
            return ("[" if isinstance(arg, list) else "(") + text + more
        if isinstance(arg, list):
            return "[%s]" % text
        return "(%s,)" % text if len(arg) == 1 else "(%s)" % text
    if isinstance(arg, dict):
        return "{%s}" % ", ".join("%s: %s" % (k, _format_arg(v)) for k, v in arg.items())
    if isinstance(arg, Node):
        return "%" + str(arg)
    return str(arg)


def map_aggregate(a, fn):
    """The same structure of tuples, lists, dicts and slices with fn applied to what is in them."""
    if isinstance(a, tuple):
        items = [map_aggregate(x, fn) for x in a]
        return type(a)(*items) if hasattr(a, "_fields") else tuple(items)
    if isinstance(a, list):
        return immutable_list([map_aggregate(x, fn) for x in a])
    if isinstance(a, dict):
        return immutable_dict({k: map_aggregate(v, fn) for k, v in a.items()})
    if isinstance(a, slice):
        return slice(map_aggregate(a.start, fn), map_aggregate(a.stop, fn), map_aggregate(a.step, fn))
    return fn(a)


def map_arg(a, fn):
    """map_aggregate for the nodes only."""
    if not callable(fn):
        raise AssertionError("torch.fx.map_arg(a, fn): fn must be a callable")
    return map_aggregate(a, lambda x: fn(x) if isinstance(x, Node) else x)


class Node:
    """One step: op says of what kind, target what is called, args and kwargs with what."""

    def __init__(self, graph, name, op, target, args, kwargs, return_type=None):
        if op not in _legal_ops:
            raise AssertionError("%s is not a legal op" % op)
        if op == "call_function":
            if not callable(target):
                raise ValueError("Node [graph = %s, name = '%s'] target %s has type %s but a Callable is expected"
                                 % (graph, name, target, torch.typename(target)))
        elif not isinstance(target, str):
            raise ValueError("Node [graph = %s, name = '%s'] target %s has type %s but a str is expected"
                             % (graph, name, target, torch.typename(target)))
        self.graph, self.name, self.op, self.target = graph, name, op, target
        self._args, self._kwargs = (), {}
        self._input_nodes, self.users = {}, {}
        self.type = return_type
        self._prev = self._next = self
        self._erased = False
        self._repr_fn = None
        self.meta = {}
        self._sort_key = ()
        self._set_inputs(args, kwargs)

    # --- place in the graph

    @property
    def next(self):
        return self._next

    @property
    def prev(self):
        return self._prev

    def _remove_from_list(self):
        self._prev._next, self._next._prev = self._next, self._prev
        self._prev = self._next = self

    def prepend(self, x):
        """Move x before this node."""
        if self.graph is not x.graph:
            raise AssertionError("Attempting to move a Node into a different Graph")
        if self is x:
            return
        x._remove_from_list()
        before = self._prev
        before._next, x._prev = x, before
        x._next, self._prev = self, x

    def append(self, x):
        """Move x after this node."""
        self._next.prepend(x)

    def _in_order(self):
        return {node: i for i, node in enumerate(self.graph.nodes)}

    def __lt__(self, other):
        order = self._in_order()
        return order[self] < order[other]

    def __gt__(self, other):
        return other < self

    def __le__(self, other):
        return self is other or self < other

    def __ge__(self, other):
        return self is other or other < self

    # --- inputs

    @property
    def args(self):
        return self._args

    @args.setter
    def args(self, a):
        self._set_inputs(a, self._kwargs)

    @property
    def kwargs(self):
        return self._kwargs

    @kwargs.setter
    def kwargs(self, k):
        self._set_inputs(self._args, k)

    def _set_inputs(self, args, kwargs):
        for old in self._input_nodes:
            old.users.pop(self, None)
        self._input_nodes = {}

        def use(node):
            if isinstance(node, Node):
                self._input_nodes.setdefault(node)
                node.users.setdefault(self)
            return node
        if not isinstance(args, (tuple, list)) or not isinstance(kwargs, dict):
            raise AssertionError("args must be a tuple or list and kwargs a dict")
        self._args = tuple(map_aggregate(tuple(args), use))
        self._kwargs = map_aggregate(dict(kwargs), use)

    _update_args_kwargs = _Node__update_args_kwargs = _set_inputs

    @property
    def all_input_nodes(self):
        return list(self._input_nodes)

    def update_arg(self, idx, arg):
        args = list(self._args)
        args[idx] = arg
        self.args = tuple(args)

    def insert_arg(self, idx, arg):
        if not 0 <= idx <= len(self._args):
            raise AssertionError("insert_args index must be between 0 and len(self.args)")
        self.args = self._args[:idx] + (arg,) + self._args[idx:]

    def update_kwarg(self, key, arg):
        self.kwargs = {**self._kwargs, key: arg}

    def replace_input_with(self, old_input, new_input):
        def swap(node):
            return new_input if node is old_input else node
        self._set_inputs(map_arg(self._args, swap), map_arg(self._kwargs, swap))

    def replace_all_uses_with(self, replace_with, delete_user_cb=None, *, propagate_meta=False):
        """Whoever used this node uses replace_with; the users come back."""
        if propagate_meta:
            if replace_with.meta:
                raise AssertionError("Called node.replace_all_uses_with(replace_with, propagate_meta=True), but replace_with "
                                     "already has .meta keys")
            replace_with.meta.update(self.meta)
        changed = [user for user in list(self.users) if delete_user_cb is None or delete_user_cb(user)]
        for user in changed:
            user.replace_input_with(self, replace_with)
        return changed

    # --- questions

    @property
    def stack_trace(self):
        """Where the call was made, when that was recorded."""
        return self.meta.get("stack_trace", None)

    @stack_trace.setter
    def stack_trace(self, trace):
        self.meta["stack_trace"] = trace

    def is_impure(self, impure_random=True):
        """Whether the node does something beside computing its value."""
        if self.op in ("placeholder", "output"):
            return True
        if self.op == "call_function":
            schema = getattr(self.target, "_schema", None)
            if schema is not None and getattr(schema, "is_mutable", False):
                return True
            if impure_random and (torch.Tag.nondeterministic_seeded in getattr(self.target, "tags", ()) or self.target in _draws()):
                return True
            return self.target in _side_effectful_functions
        if self.op == "call_method":
            return self.target.endswith("_") and not self.target.endswith("__")
        if self.op == "call_module":
            owner = self.graph.owning_module
            if owner is None:
                raise AssertionError("self.graph.owning_module not set for purity check")
            module = owner.get_submodule(self.target)
            return getattr(module, "_is_impure", False)
        return False

    def normalized_arguments(self, root, arg_types=None, kwarg_types=None, normalize_to_only_use_kwargs=False):
        """Args and kwargs by the signature of what is called, as a pair; None when it is not known."""
        from rushlight.fx.operator_schemas import normalize_function, normalize_module
        if self.op == "call_function":
            return normalize_function(self.target, self.args, self.kwargs, arg_types, kwarg_types,
                                      normalize_to_only_use_kwargs)
        if self.op == "call_module":
            return normalize_module(root, self.target, self.args, self.kwargs, normalize_to_only_use_kwargs)
        return None

    # --- text

    def __repr__(self):
        return self._repr_fn(self) if self._repr_fn else self.name

    def _pretty_print_target(self, target):
        if isinstance(target, str):
            return target
        if getattr(builtins, target.__name__, None) is target:
            return "builtins." + target.__name__
        return _get_qualified_name(target)

    def format_node(self, placeholder_names=None, maybe_return_typename=None, *, include_tensor_metadata=False):
        """The node as a line of text."""
        if self.op == "placeholder":
            if placeholder_names is not None:
                kind = ": " + _type_repr(self.type) if self.type else ""
                placeholder_names.append(str(self.target) + kind)
            kind = " :" if not self.type else " : " + _type_repr(self.type)
            default = "" if not self.args else "(default=%s)" % (self.args[0],)
            return "%%%s%s [num_users=%d] = %s[target=%s]%s" % (self.name, kind, len(self.users), self.op, self.target,
                                                                 default)
        if self.op == "get_attr":
            kind = " : " + _type_repr(self.type) if self.type is not None else " :"
            return "%%%s%s [num_users=%d] = %s[target=%s]" % (self.name, kind, len(self.users), self.op,
                                                               self._pretty_print_target(self.target))
        if self.op == "output":
            if self.type and maybe_return_typename:
                maybe_return_typename[0] = " -> " + _type_repr(self.type)
            return "return %s" % (self.args[0],)
        kind = " : " + _type_repr(self.type) if self.type is not None else " :"
        return "%%%s%s [num_users=%d] = %s[target=%s](args = %s, kwargs = %s)" % (
            self.name, kind, len(self.users), self.op, self._pretty_print_target(self.target), _format_arg(self.args),
            _format_arg(self.kwargs))

    def _rename(self, candidate):
        if candidate != self.name:
            self.name = self.graph._graph_namespace.create_name(candidate, None)
            self.graph._graph_namespace._rename_object(self, self.name)

    def __getstate__(self):
        state = dict(self.__dict__)
        return state


has_side_effect(torch._assert)
