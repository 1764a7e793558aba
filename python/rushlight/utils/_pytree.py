"""Nested containers as a flat list of leaves and a TreeSpec that says how to put them back.

A container type is a row of SUPPORTED_NODES: how to take it apart and how to build it. Everything else is a leaf.
The walk is one recursive function over local variables, since these functions sit on hot paths.
"""
import collections
import dataclasses
import enum
import functools
import importlib
import json
import threading
import types
import warnings
from collections import OrderedDict, defaultdict, deque, namedtuple
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Tuple, Type, TypeVar, Union

from rushlight._C import Size

__all__ = ["PyTree", "Context", "FlattenFn", "UnflattenFn", "DumpableContext", "ToDumpableContextFn",
           "FromDumpableContextFn", "PyTreeSpec", "TreeSpec", "LeafSpec", "keystr", "key_get",
           "register_pytree_node", "tree_is_leaf", "tree_flatten", "tree_flatten_with_path", "tree_unflatten",
           "tree_iter", "tree_leaves", "tree_leaves_with_path", "tree_structure", "tree_map", "tree_map_with_path",
           "tree_map_", "tree_map_only", "tree_map_only_", "tree_all", "tree_any", "tree_all_only", "tree_any_only",
           "treespec_dumps", "treespec_loads", "treespec_pprint", "is_namedtuple", "is_namedtuple_class",
           "is_namedtuple_instance", "is_structseq", "is_structseq_class", "is_structseq_instance"]

T = TypeVar("T")
S = TypeVar("S")
U = TypeVar("U")
R = TypeVar("R")
K = TypeVar("K")
DEFAULT_TREESPEC_SERIALIZATION_PROTOCOL = 1
NO_SERIALIZED_TYPE_NAME_FOUND = "NO_SERIALIZED_TYPE_NAME_FOUND"

Context = Any
PyTree = Any
DumpableContext = Any
FlattenFn = Callable[[PyTree], Tuple[List[Any], Context]]
UnflattenFn = Callable[[Any, Context], PyTree]
ToDumpableContextFn = Callable[[Context], DumpableContext]
FromDumpableContextFn = Callable[[DumpableContext], Context]
ToStrFn = Callable[["TreeSpec", List[str]], str]
MaybeFromStrFn = Callable[[str], Optional[Tuple[Any, Context, str]]]
FlattenFunc, UnflattenFunc = FlattenFn, UnflattenFn


class KeyEntry:
    """One step of a path: a subclass for each way of getting at a child."""

    def __str__(self):
        raise NotImplementedError

    def get(self, parent):
        raise NotImplementedError


@dataclasses.dataclass(frozen=True)
class SequenceKey(KeyEntry):
    idx: int

    def __str__(self):
        return "[%r]" % (self.idx,)

    def get(self, sequence):
        return sequence[self.idx]


@dataclasses.dataclass(frozen=True)
class MappingKey(KeyEntry):
    key: Any

    def __str__(self):
        return "[%r]" % (self.key,)

    def get(self, mapping):
        return mapping[self.key]


@dataclasses.dataclass(frozen=True)
class GetAttrKey(KeyEntry):
    name: str

    def __str__(self):
        return "." + self.name

    def get(self, obj):
        return getattr(obj, self.name)


KeyPath = Tuple[KeyEntry, ...]


class NodeDef(NamedTuple):
    """How a container is taken apart and put together."""

    type: Type[Any]
    flatten_fn: Any
    unflatten_fn: Any
    flatten_with_keys_fn: Any = None


class _SerializeNodeDef(NamedTuple):
    typ: Type[Any]
    serialized_type_name: str
    to_dumpable_context: Any
    from_dumpable_context: Any


_registry_lock = threading.RLock()
SUPPORTED_NODES: Dict[Type[Any], NodeDef] = {}
SUPPORTED_SERIALIZED_TYPES: Dict[Type[Any], _SerializeNodeDef] = {}
SERIALIZED_TYPE_TO_PYTHON_TYPE: Dict[str, Type[Any]] = {}
BUILTIN_TYPES: set = set()
CONSTANT_NODES: set = set()


def _private_register_pytree_node(cls, flatten_fn, unflatten_fn, *, serialized_type_name=None,
                                  to_dumpable_context=None, from_dumpable_context=None, flatten_with_keys_fn=None):
    with _registry_lock:
        if cls in SUPPORTED_NODES:
            raise ValueError("%s is already registered as pytree node." % (cls,))
        SUPPORTED_NODES[cls] = NodeDef(cls, flatten_fn, unflatten_fn, flatten_with_keys_fn)
        if (to_dumpable_context is None) != (from_dumpable_context is None):
            raise ValueError("Both to_dumpable_context and from_dumpable_context for %s must be None or registered."
                             % (cls,))
        name = serialized_type_name if serialized_type_name is not None else NO_SERIALIZED_TYPE_NAME_FOUND
        SUPPORTED_SERIALIZED_TYPES[cls] = _SerializeNodeDef(cls, name, to_dumpable_context, from_dumpable_context)
        SERIALIZED_TYPE_TO_PYTHON_TYPE[name] = cls


def register_pytree_node(cls, flatten_fn, unflatten_fn, *, serialized_type_name=None, to_dumpable_context=None,
                         from_dumpable_context=None, flatten_with_keys_fn=None):
    """Make a class a container: flatten_fn(x) -> (children, context), unflatten_fn(children, context) -> x."""
    if cls in SUPPORTED_NODES:
        raise ValueError("%s is already registered as pytree node." % (cls,))
    _private_register_pytree_node(cls, flatten_fn, unflatten_fn, serialized_type_name=serialized_type_name,
                                  to_dumpable_context=to_dumpable_context,
                                  from_dumpable_context=from_dumpable_context,
                                  flatten_with_keys_fn=flatten_with_keys_fn)


def _register_pytree_node(cls, flatten_fn, unflatten_fn, to_str_fn=None, maybe_from_str_fn=None, *,
                          serialized_type_name=None, to_dumpable_context=None, from_dumpable_context=None,
                          flatten_with_keys_fn=None):
    """The older, private name."""
    warnings.warn("`torch.utils._pytree._register_pytree_node` is deprecated. Please use `torch.utils._pytree.register_pytree_node` instead.", FutureWarning, stacklevel=2)
    _private_register_pytree_node(cls, flatten_fn, unflatten_fn, serialized_type_name=serialized_type_name,
                                  to_dumpable_context=to_dumpable_context,
                                  from_dumpable_context=from_dumpable_context,
                                  flatten_with_keys_fn=flatten_with_keys_fn)


def _deregister_pytree_node(cls):
    with _registry_lock:
        del SUPPORTED_NODES[cls]
        entry = SUPPORTED_SERIALIZED_TYPES.pop(cls)
        SERIALIZED_TYPE_TO_PYTHON_TYPE.pop(entry.serialized_type_name, None)
        CONSTANT_NODES.discard(cls)


def register_dataclass(cls, *, field_names=None, drop_field_names=None, serialized_type_name=None):
    """Make a dataclass a container of its fields."""
    drop = set(drop_field_names or ())
    if field_names is None:
        if not dataclasses.is_dataclass(cls):
            raise ValueError("field_names must be specified for %s, which is not a dataclass" % (cls,))
        field_names = [f.name for f in dataclasses.fields(cls) if f.init and f.name not in drop]
    names = list(field_names)

    def flatten(obj):
        present = [n for n in names if getattr(obj, n) is not None]
        missing = [n for n in names if getattr(obj, n) is None]
        return [getattr(obj, n) for n in present], [present, missing]

    def unflatten(values, context):
        present, missing = context
        return cls(**dict(zip(present, values)), **dict.fromkeys(missing))

    def flatten_with_keys(obj):
        values, context = flatten(obj)
        return [(GetAttrKey(n), v) for n, v in zip(context[0], values)], context

    _private_register_pytree_node(cls, flatten, unflatten, serialized_type_name=serialized_type_name,
                                  flatten_with_keys_fn=flatten_with_keys)


class ConstantNode(NamedTuple):
    value: Any


def register_constant(cls):
    """Make instances of a class part of the structure instead of leaves; they are compared by == and hash."""
    if cls.__eq__ is object.__eq__:
        raise TypeError("register_constant(cls) expects `cls` to have a non-default `__eq__` implementation.")
    if cls.__hash__ is None:
        raise TypeError("register_constant(cls) expects `cls` to have a non-default `__hash__` implementation.")
    _private_register_pytree_node(cls, lambda x: ([], ConstantNode(x)), lambda _, context: context.value,
                                  flatten_with_keys_fn=lambda x: ([], ConstantNode(x)))
    CONSTANT_NODES.add(cls)


def is_constant_class(cls):
    return isinstance(cls, type) and cls in CONSTANT_NODES


def _is_constant_holder(spec):
    return isinstance(spec._context, ConstantNode)


def _retrieve_constant(spec):
    if not _is_constant_holder(spec):
        raise AssertionError("spec does not correspond to a registered constant pytree node")
    return tree_unflatten([], spec)


# --- namedtuples and structseqs ---------------------------------------------------------------------------------------


def is_namedtuple_class(cls):
    return (isinstance(cls, type) and issubclass(cls, tuple) and isinstance(getattr(cls, "_fields", None), tuple)
            and all(type(field) is str for field in cls._fields))


def is_namedtuple_instance(obj):
    return is_namedtuple_class(type(obj))


def is_namedtuple(obj):
    return is_namedtuple_class(obj if isinstance(obj, type) else type(obj))


def is_structseq_class(cls):
    return (isinstance(cls, type) and cls.__bases__ == (tuple,)
            and isinstance(getattr(cls, "n_sequence_fields", None), int)
            and isinstance(getattr(cls, "n_fields", None), int)
            and isinstance(getattr(cls, "n_unnamed_fields", None), int))


def is_structseq_instance(obj):
    return is_structseq_class(type(obj))


def is_structseq(obj):
    return is_structseq_class(obj if isinstance(obj, type) else type(obj))


class structseq(tuple):
    """What the results of C code such as time.localtime() are; only a name to annotate with."""

    __slots__ = ()
    n_fields = n_sequence_fields = n_unnamed_fields = 0

    def __init_subclass__(cls):
        raise TypeError("type 'structseq' is not an acceptable base type")


_is_namedtuple_instance = is_namedtuple_instance


# --- the containers of the standard library ------------------------------------------------------------------------------


def _tuple_flatten(d):
    return list(d), None


def _tuple_flatten_with_keys(d):
    return [(SequenceKey(i), v) for i, v in enumerate(d)], None


def _tuple_unflatten(values, context):
    return tuple(values)


def _list_flatten(d):
    return d, None


def _list_flatten_with_keys(d):
    return [(SequenceKey(i), v) for i, v in enumerate(d)], None


def _list_unflatten(values, context):
    return list(values)


def _dict_flatten(d):
    return list(d.values()), list(d)


def _dict_flatten_with_keys(d):
    return [(MappingKey(k), v) for k, v in d.items()], list(d)


def _dict_unflatten(values, context):
    return dict(zip(context, values))


def _namedtuple_flatten(d):
    return list(d), type(d)


def _namedtuple_flatten_with_keys(d):
    return [(GetAttrKey(name), v) for name, v in zip(d._fields, d)], type(d)


def _namedtuple_unflatten(values, context):
    return context(*values)


def _namedtuple_serialize(context):
    if context not in SUPPORTED_SERIALIZED_TYPES:
        raise NotImplementedError("Can't serialize TreeSpec of namedtuple class %s because we didn't register a "
                                  "serializated_type_name. Please register using `_register_namedtuple`." % (context,))
    name = SUPPORTED_SERIALIZED_TYPES[context].serialized_type_name
    if name == NO_SERIALIZED_TYPE_NAME_FOUND:
        raise NotImplementedError("No registered serialization name for %s found." % (context,))
    return name


def _namedtuple_deserialize(dumpable_context):
    if dumpable_context not in SERIALIZED_TYPE_TO_PYTHON_TYPE:
        raise NotImplementedError("Can't deserialize TreeSpec of namedtuple class %s because we couldn't find a "
                                  "serializated name." % (dumpable_context,))
    return SERIALIZED_TYPE_TO_PYTHON_TYPE[dumpable_context]


def _register_namedtuple(cls, *, serialized_type_name):
    _private_register_pytree_node(cls, _namedtuple_flatten, _namedtuple_unflatten,
                                  serialized_type_name=serialized_type_name,
                                  to_dumpable_context=_namedtuple_serialize,
                                  from_dumpable_context=_namedtuple_deserialize,
                                  flatten_with_keys_fn=_namedtuple_flatten_with_keys)


def _ordereddict_flatten(d):
    return list(d.values()), list(d)


_ordereddict_flatten_with_keys = _dict_flatten_with_keys


def _ordereddict_unflatten(values, context):
    return OrderedDict(zip(context, values))


_odict_flatten, _odict_unflatten = _ordereddict_flatten, _ordereddict_unflatten


def _defaultdict_flatten(d):
    return list(d.values()), [d.default_factory, list(d)]


def _defaultdict_flatten_with_keys(d):
    return [(MappingKey(k), v) for k, v in d.items()], [d.default_factory, list(d)]


def _defaultdict_unflatten(values, context):
    factory, keys = context
    return defaultdict(factory, zip(keys, values))


def _defaultdict_serialize(context):
    factory, keys = context
    return {"default_factory_module": factory.__module__, "default_factory_name": factory.__qualname__,
            "dict_context": keys}


def _defaultdict_deserialize(dumpable_context):
    module = importlib.import_module(dumpable_context["default_factory_module"])
    return [getattr(module, dumpable_context["default_factory_name"]), dumpable_context["dict_context"]]


def _deque_flatten(d):
    return list(d), d.maxlen


def _deque_flatten_with_keys(d):
    return [(SequenceKey(i), v) for i, v in enumerate(d)], d.maxlen


def _deque_unflatten(values, context):
    return deque(values, maxlen=context)


for _cls, _flatten, _unflatten, _keys, _name, _more in (
        (tuple, _tuple_flatten, _tuple_unflatten, _tuple_flatten_with_keys, "builtins.tuple", {}),
        (Size, _tuple_flatten, _tuple_unflatten, _tuple_flatten_with_keys, "torch.Size", {}),  # sizes that were mapped are a tuple
        (list, _list_flatten, _list_unflatten, _list_flatten_with_keys, "builtins.list", {}),
        (dict, _dict_flatten, _dict_unflatten, _dict_flatten_with_keys, "builtins.dict", {}),
        (namedtuple, _namedtuple_flatten, _namedtuple_unflatten, _namedtuple_flatten_with_keys,
         "collections.namedtuple", {"to_dumpable_context": _namedtuple_serialize,
                                    "from_dumpable_context": _namedtuple_deserialize}),
        (OrderedDict, _ordereddict_flatten, _ordereddict_unflatten, _ordereddict_flatten_with_keys,
         "collections.OrderedDict", {}),
        (defaultdict, _defaultdict_flatten, _defaultdict_unflatten, _defaultdict_flatten_with_keys,
         "collections.defaultdict", {"to_dumpable_context": _defaultdict_serialize,
                                     "from_dumpable_context": _defaultdict_deserialize}),
        (deque, _deque_flatten, _deque_unflatten, _deque_flatten_with_keys, "collections.deque", {})):
    _private_register_pytree_node(_cls, _flatten, _unflatten, serialized_type_name=_name, flatten_with_keys_fn=_keys,
                                  **_more)

STANDARD_DICT_TYPES = frozenset({dict, OrderedDict, defaultdict})
BUILTIN_TYPES.update((tuple, list, dict, namedtuple, OrderedDict, defaultdict, deque))


def _get_node_type(tree):
    """The key of SUPPORTED_NODES for an object: its class, or namedtuple for all of those."""
    kind = type(tree)
    return kind if kind in SUPPORTED_NODES else _tuple_kind(kind) or kind


def _tuple_kind(kind):
    """The key for a class that is not registered: namedtuple, or itself for what operations return, which now is."""
    if not issubclass(kind, tuple):
        return None
    if is_namedtuple_class(kind):
        return namedtuple
    if kind.__module__ != "torch.return_types":
        return None
    importlib.import_module("rushlight.return_types").pytree_register_structseq(kind)
    return kind


def tree_is_leaf(tree, is_leaf=None):
    if is_leaf is not None and is_leaf(tree):
        return True
    return _get_node_type(tree) not in SUPPORTED_NODES


_is_leaf = tree_is_leaf


# --- specs --------------------------------------------------------------------------------------------------------------


class TreeSpec:
    """The structure of a tree: type and context of the container, and the specs of its children."""

    __slots__ = ("type", "_context", "_children", "num_nodes", "num_leaves", "num_children", "__weakref__")

    def __init__(self, type, context, children_specs):
        self.type = type
        self._context = context
        self._children = children_specs
        self.num_children = len(children_specs)
        if type is None:
            self.num_nodes = self.num_leaves = 1
        else:
            nodes, leaves = 1, 0
            for spec in children_specs:
                nodes += spec.num_nodes
                leaves += spec.num_leaves
            self.num_nodes, self.num_leaves = nodes, leaves

    @property
    def context(self):
        return self._context

    @property
    def children_specs(self):
        return self._children

    def children(self):
        return list(self._children)

    def child(self, index):
        return self._children[index]

    def is_leaf(self):
        return self.type is None

    def __repr__(self, indent=0):
        if self.type is None:
            return "*"
        inner = ""
        if self._children:
            indent += 2
            parts = [spec.__repr__(indent) for spec in self._children]
            inner = parts[0] + "".join(",\n" + " " * indent + part for part in parts[1:])
        name = getattr(self.type, "__name__", str(self.type))
        return "TreeSpec(%s, %r, [%s])" % (name, self._context, inner)

    def __eq__(self, other):
        if self is other:
            return True
        if not isinstance(other, TreeSpec):
            return NotImplemented
        if self.type is not other.type or self.num_children != other.num_children:
            return False
        return self.type is None or (self._context == other._context and self._children == other._children)

    def __hash__(self):
        if self.type is None:
            return hash(None)
        context = self._context
        if self.type in (dict, OrderedDict):
            context = tuple(context)
        elif self.type is defaultdict:
            context = (context[0], tuple(context[1]))
        return hash((self.type, context, tuple(self._children)))

    def __reduce__(self):
        return (TreeSpec, (self.type, self._context, self._children)) if self.type is not None else (treespec_leaf, ())

    def flatten_up_to(self, tree):
        """The subtrees of a tree that stand where this structure has leaves."""
        found = []
        _up_to(self, tree, found)
        return found

    def unflatten(self, leaves):
        """The tree of this structure with the given leaves."""
        if not isinstance(leaves, (list, tuple)):
            leaves = list(leaves)
        if len(leaves) != self.num_leaves:
            raise ValueError("treespec.unflatten(leaves): `leaves` has length %d but the spec refers to a pytree that "
                             "holds %d items (%s)." % (len(leaves), self.num_leaves, self))
        return _build(self, iter(leaves))


PyTreeSpec = TreeSpec


class _LeafMeta(type):
    def __instancecheck__(cls, instance):
        return isinstance(instance, TreeSpec) and instance.type is None


class LeafSpec(TreeSpec, metaclass=_LeafMeta):
    """The spec of a leaf."""

    __slots__ = ()

    def __new__(cls, *args, **kwargs):
        return object.__new__(cls)

    def __init__(self):
        TreeSpec.__init__(self, None, None, [])

    def __reduce__(self):
        return treespec_leaf, ()


_LEAF_SPEC = LeafSpec()


def treespec_leaf():
    return _LEAF_SPEC


def treespec_tuple(iterable=(), /):
    return TreeSpec(tuple, None, list(iterable))


def treespec_dict(mapping=(), /, **kwargs):
    specs = dict(mapping, **kwargs)
    return TreeSpec(dict, list(specs), list(specs.values()))


def _is_pytreespec_instance(obj):
    return isinstance(obj, TreeSpec)


def _ensure_python_treespec_instance(treespec):
    return treespec


def _build(spec, leaves):
    kind = spec.type
    if kind is None:
        return next(leaves)
    children = [next(leaves) if child.type is None else _build(child, leaves) for child in spec._children]
    if kind is list:
        return children
    if kind is tuple:
        return tuple(children)
    if kind is dict:
        return dict(zip(spec._context, children))
    return SUPPORTED_NODES[kind].unflatten_fn(children, spec._context)


def _up_to(spec, tree, found):
    if spec.type is None:
        found.append(tree)
        return
    kind = _get_node_type(tree)
    if spec.type not in BUILTIN_TYPES:
        if kind != spec.type:
            raise ValueError("Type mismatch; expected %r, but got %r." % (spec.type, kind))
        children, context = SUPPORTED_NODES[kind].flatten_fn(tree)
        if len(children) != spec.num_children:
            raise ValueError("Node arity mismatch; expected %d, but got %d." % (spec.num_children, len(children)))
        if context != spec._context:
            raise ValueError("Node context mismatch for custom node type %r." % (spec.type,))
    else:
        both_dicts = spec.type in STANDARD_DICT_TYPES and kind in STANDARD_DICT_TYPES
        if not both_dicts and kind != spec.type:
            raise ValueError("Node type mismatch; expected %r, but got %r." % (spec.type, kind))
        if len(tree) != spec.num_children:
            raise ValueError("Node arity mismatch; expected %d, but got %d." % (spec.num_children, len(tree)))
        if both_dicts:
            # Any dict with the same keys will do, in the order of the spec's.
            keys = spec._context[1] if spec.type is defaultdict else spec._context
            if set(keys) != set(tree):
                missing, extra = set(keys) - set(tree), set(tree) - set(keys)
                message = "; missing key(s): %s" % missing if missing else ""
                message += "; extra key(s): %s" % extra if extra else ""
                raise ValueError("Node keys mismatch%s." % message)
            children = [tree[key] for key in keys]
        else:
            children, context = SUPPORTED_NODES[kind].flatten_fn(tree)
            if kind is not deque and context != spec._context:
                raise ValueError("Node context mismatch for node type %r; expected %r, but got %r."
                                 % (spec.type, spec._context, context))
    for child, part in zip(spec._children, children):
        _up_to(child, part, found)


# --- the functions everybody uses ------------------------------------------------------------------------------------------


def _flatten(tree, leaves, is_leaf):
    kind = type(tree)
    node = SUPPORTED_NODES.get(kind)
    if node is None:
        named = _tuple_kind(kind)
        if named is None or (is_leaf is not None and is_leaf(tree)):
            leaves.append(tree)
            return _LEAF_SPEC
        kind, node = named, SUPPORTED_NODES[named]
    elif is_leaf is not None and is_leaf(tree):
        leaves.append(tree)
        return _LEAF_SPEC
    children, context = node.flatten_fn(tree)
    return TreeSpec(kind, context, [_flatten(child, leaves, is_leaf) for child in children])


def tree_flatten(tree, is_leaf=None):
    """(leaves, spec)"""
    leaves = []
    spec = _flatten(tree, leaves, is_leaf)
    return leaves, spec


def tree_unflatten(leaves, treespec):
    """The inverse of tree_flatten."""
    if not isinstance(treespec, TreeSpec):
        raise TypeError("Expected `treespec` to be an instance of PyTreeSpec but got item of type %s." % type(treespec))
    return treespec.unflatten(leaves)


def tree_iter(tree, is_leaf=None):
    """The leaves, one by one."""
    kind = _get_node_type(tree)
    if kind not in SUPPORTED_NODES or (is_leaf is not None and is_leaf(tree)):
        yield tree
        return
    children, _ = SUPPORTED_NODES[kind].flatten_fn(tree)
    for child in children:
        yield from tree_iter(child, is_leaf)


def _leaves(tree, found, is_leaf):
    kind = type(tree)
    if kind not in SUPPORTED_NODES:
        kind = _tuple_kind(kind)
    if kind is None or (is_leaf is not None and is_leaf(tree)):
        found.append(tree)
        return
    for child in SUPPORTED_NODES[kind].flatten_fn(tree)[0]:
        _leaves(child, found, is_leaf)


def tree_leaves(tree, is_leaf=None):
    found = []
    _leaves(tree, found, is_leaf)
    return found


def tree_structure(tree, is_leaf=None):
    return tree_flatten(tree, is_leaf)[1]


def arg_tree_leaves(*args, **kwargs):
    """The leaves of all arguments."""
    found = []
    for tree in args:
        _leaves(tree, found, None)
    for tree in kwargs.values():
        _leaves(tree, found, None)
    return found


def _map(func, tree, is_leaf):
    kind = type(tree)
    node = SUPPORTED_NODES.get(kind)
    if node is None:
        named = _tuple_kind(kind)
        if named is None:
            return func(tree)
        node = SUPPORTED_NODES[named]
    if is_leaf is not None and is_leaf(tree):
        return func(tree)
    if kind is list:
        return [_map(func, child, is_leaf) for child in tree]
    if kind is tuple:
        return tuple([_map(func, child, is_leaf) for child in tree])
    if kind is dict:
        return {key: _map(func, child, is_leaf) for key, child in tree.items()}
    children, context = node.flatten_fn(tree)
    return node.unflatten_fn([_map(func, child, is_leaf) for child in children], context)


def tree_map(func, tree, *rests, is_leaf=None):
    """The same structure with func applied to the leaves (and to what stands there in the other trees)."""
    if not rests:
        return _map(func, tree, is_leaf)    # no spec needs to be made
    leaves, spec = tree_flatten(tree, is_leaf)
    return _build(spec, map(func, leaves, *[spec.flatten_up_to(rest) for rest in rests]))


def tree_map_(func, tree, *rests, is_leaf=None):
    """func applied to the leaves for its effects; the tree itself comes back."""
    leaves, spec = tree_flatten(tree, is_leaf)
    columns = [leaves] + [spec.flatten_up_to(rest) for rest in rests]
    deque(map(func, *columns), maxlen=0)
    return tree


def map_only(type_or_types_or_pred, /):
    """Decorator: a function that acts on leaves of these types only and lets the others through."""
    what = type_or_types_or_pred
    if isinstance(what, (type, tuple, types.UnionType)):
        def chosen(x):
            return isinstance(x, what)
    elif callable(what):
        chosen = what
    else:
        raise TypeError("Argument must be a type, a tuple of types, or a callable.")

    def wrap(func):
        @functools.wraps(func)
        def act(x):
            return func(x) if chosen(x) else x
        return act
    return wrap


def tree_map_only(type_or_types_or_pred, /, func, tree, is_leaf=None):
    return tree_map(map_only(type_or_types_or_pred)(func), tree, is_leaf=is_leaf)


def tree_map_only_(type_or_types_or_pred, /, func, tree, is_leaf=None):
    return tree_map_(map_only(type_or_types_or_pred)(func), tree, is_leaf=is_leaf)


def tree_all(pred, tree, is_leaf=None):
    return all(map(pred, tree_iter(tree, is_leaf=is_leaf)))


def tree_any(pred, tree, is_leaf=None):
    return any(map(pred, tree_iter(tree, is_leaf=is_leaf)))


def tree_all_only(type_or_types, /, pred, tree, is_leaf=None):
    return all(pred(x) for x in tree_iter(tree, is_leaf=is_leaf) if isinstance(x, type_or_types))


def tree_any_only(type_or_types, /, pred, tree, is_leaf=None):
    return any(pred(x) for x in tree_iter(tree, is_leaf=is_leaf) if isinstance(x, type_or_types))


def _broadcast_to_and_flatten(tree, treespec, is_leaf=None):
    """The leaves of a prefix of treespec, each repeated for what hangs below it there; None where it does not fit."""
    if tree_is_leaf(tree, is_leaf):
        return [tree] * treespec.num_leaves
    if treespec.type is None:
        return None
    kind = _get_node_type(tree)
    if kind != treespec.type:
        return None
    children, context = SUPPORTED_NODES[kind].flatten_fn(tree)
    if len(children) != treespec.num_children or context != treespec._context:
        return None
    result = []
    for child, spec in zip(children, treespec._children):
        part = _broadcast_to_and_flatten(child, spec, is_leaf)
        if part is None:
            return None
        result += part
    return result


# --- paths ----------------------------------------------------------------------------------------------------------------


def _generate_key_paths(key_path, tree, is_leaf=None):
    kind = _get_node_type(tree)
    if kind not in SUPPORTED_NODES or (is_leaf is not None and is_leaf(tree)):
        yield key_path, tree
        return
    with_keys = SUPPORTED_NODES[kind].flatten_with_keys_fn
    if with_keys is None:
        raise ValueError("Did not find a flatten_with_keys_fn for type: %s. Please pass a flatten_with_keys_fn argument "
                         "to register_pytree_node." % (kind,))
    for key, child in with_keys(tree)[0]:
        yield from _generate_key_paths(key_path + (key,), child, is_leaf)


def tree_flatten_with_path(tree, is_leaf=None):
    return list(_generate_key_paths((), tree, is_leaf)), tree_structure(tree, is_leaf)


def tree_leaves_with_path(tree, is_leaf=None):
    return list(_generate_key_paths((), tree, is_leaf))


def tree_map_with_path(func, tree, *rests, is_leaf=None):
    """tree_map whose function gets the path of the leaf first."""
    pairs, spec = tree_flatten_with_path(tree, is_leaf)
    columns = [[path for path, _ in pairs], [leaf for _, leaf in pairs]]
    columns += [spec.flatten_up_to(rest) for rest in rests]
    return spec.unflatten(list(map(func, *columns)))


def keystr(kp):
    return "".join(str(key) for key in kp)


def key_get(obj, kp):
    """What a path leads to."""
    for key in kp:
        obj = key.get(obj)
    return obj


# --- specs as text ----------------------------------------------------------------------------------------------------------


class EnumEncoder(json.JSONEncoder):
    def default(self, o):
        if isinstance(o, enum.Enum):
            return {"__enum__": True, "fqn": "%s:%s" % (type(o).__module__, type(o).__qualname__), "name": o.name}
        return super().default(o)


def enum_object_hook(obj):
    if "__enum__" not in obj:
        return obj
    module, _, name = obj["fqn"].partition(":")
    value = importlib.import_module(module)
    for part in name.split("."):
        value = getattr(value, part)
    return value[obj["name"]]


@dataclasses.dataclass
class _TreeSpecSchema:
    type: Optional[str]
    context: DumpableContext
    children_spec: list


class _ProtocolFn(NamedTuple):
    treespec_to_json: Any
    json_to_treespec: Any


def _treespec_to_json(treespec):
    if treespec.type is None:
        return _TreeSpecSchema(None, None, [])
    entry = SUPPORTED_SERIALIZED_TYPES.get(treespec.type)
    if entry is None:
        raise NotImplementedError("Serializing %s in pytree is not registered." % (treespec.type,))
    if entry.serialized_type_name == NO_SERIALIZED_TYPE_NAME_FOUND:
        raise NotImplementedError("No registered serialization name for %s found. Please update your "
                                  "_register_pytree_node call with a `serialized_type_name` kwarg." % (treespec.type,))
    if entry.to_dumpable_context is None:
        try:
            context = json.dumps(treespec._context, cls=EnumEncoder)
        except TypeError as error:
            raise TypeError("Unable to serialize context. Please make the context json dump-able, or register a custom "
                            "serializer using _register_pytree_node.") from error
    else:
        context = entry.to_dumpable_context(treespec._context)
    return _TreeSpecSchema(entry.serialized_type_name, context,
                           [_treespec_to_json(child) for child in treespec._children])


def _json_to_treespec(json_schema):
    if json_schema["type"] is None and json_schema["context"] in (None, "null") and not json_schema["children_spec"]:
        return _LEAF_SPEC
    if json_schema["type"] not in SERIALIZED_TYPE_TO_PYTHON_TYPE:
        raise NotImplementedError("Deserializing %s in pytree is not registered." % (json_schema["type"],))
    kind = SERIALIZED_TYPE_TO_PYTHON_TYPE[json_schema["type"]]
    entry = SUPPORTED_SERIALIZED_TYPES[kind]
    if entry.from_dumpable_context is None:
        try:
            context = json.loads(json_schema["context"], object_hook=enum_object_hook)
        except TypeError as error:
            raise TypeError("Unable to deserialize context. Please make the context json load-able, or register a custom "
                            "serializer using _register_pytree_node.") from error
    else:
        context = entry.from_dumpable_context(json_schema["context"])
    return TreeSpec(kind, context, [_json_to_treespec(child) for child in json_schema["children_spec"]])


_SUPPORTED_PROTOCOLS = {1: _ProtocolFn(_treespec_to_json, _json_to_treespec)}


def _schema_dict(schema):
    return {"type": schema.type, "context": schema.context,
            "children_spec": [_schema_dict(child) for child in schema.children_spec]}


def treespec_dumps(treespec, protocol=None):
    """A spec as JSON."""
    if not isinstance(treespec, TreeSpec):
        raise TypeError("Expected `treespec` to be an instance of PyTreeSpec but got item of type %s." % type(treespec))
    protocol = DEFAULT_TREESPEC_SERIALIZATION_PROTOCOL if protocol is None else protocol
    if protocol not in _SUPPORTED_PROTOCOLS:
        raise ValueError("Unknown protocol %s. Available protocols: %s" % (protocol, list(_SUPPORTED_PROTOCOLS)))
    return json.dumps((protocol, _schema_dict(_SUPPORTED_PROTOCOLS[protocol].treespec_to_json(treespec))),
                      cls=EnumEncoder)


@functools.lru_cache(None)
def treespec_loads(serialized):
    protocol, schema = json.loads(serialized, object_hook=enum_object_hook)
    if protocol not in _SUPPORTED_PROTOCOLS:
        raise ValueError("Unknown protocol %s. Available protocols: %s" % (protocol, list(_SUPPORTED_PROTOCOLS)))
    return _SUPPORTED_PROTOCOLS[protocol].json_to_treespec(schema)


class _Asterisk(str):
    __slots__ = ()

    def __new__(cls):
        return super().__new__(cls, "*")

    def __repr__(self):
        return "*"


_asterisk = _Asterisk()


def treespec_pprint(treespec):
    """The structure with stars for leaves."""
    return repr(tree_unflatten([_asterisk] * treespec.num_leaves, treespec))


def pytree_to_str(treespec):
    return treespec_dumps(treespec)


def str_to_pytree(json):
    return treespec_loads(json)
