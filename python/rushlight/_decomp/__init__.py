"""torch._decomp: rules that say an operation in others, for compilers.

A rule is a function of the operation's arguments, written with operations of torch (elementwise.py, shapes.py, reductions.py, products.py, windows.py,
recurrent.py, spectra.py). The tables are {OpOverload: rule}; they are made when one is first asked for.
"""
import functools
import importlib

import rushlight as torch
from rushlight import _C, _ops

__all__ = ["decomposition_table", "pre_autograd_decomposition_table", "meta_table", "register_decomposition", "get_decompositions", "core_aten_decompositions",
           "_should_decompose_because_unsafe_op"]

_FILES = ("elementwise", "shapes", "reductions", "products", "windows", "recurrent", "spectra")
_written = []       # (names, rule, table): the rules of _FILES in their order

# Composites here that are operations of the core set there.
_CORE = {"upsample_nearest2d.vec", "upsample_bilinear2d.vec"}


def rule(*names, table="core"):
    """A decorator: the function is the rule of these operations. "core": of those outside of the core set; "asked": for who asks for them;
    "always": of what is opened whatever the table says, since it changes or draws something unseen."""
    def written(fn):
        _written.append((names, fn, table))
        return fn
    return written


def _found(name):
    """The OpOverload of "add.Tensor" or "silu"."""
    packet, _, overload = name.partition(".")
    return getattr(getattr(torch.ops.aten, packet), overload or "default")


def computes_inside(op, rule):
    """Is it a composite that the library takes apart itself, in plain numbers?"""
    name = _record(op) if rule is None or getattr(rule, "opens", False) else None
    return name is not None and _C._is_composite(name) and not any(a.alias_info is not None and a.alias_info.is_write for a in op._schema.arguments)


def is_composite(op):
    name = _record(op)
    return name is not None and _C._is_composite(name)


def stays_whole(op):
    """Is it a composite that is one call where the table has no rule? Those that may be views are not."""
    return is_composite(op) and not any(x.alias_info for x in (*op._schema.arguments, *op._schema.returns))


@functools.cache
def _records():
    return frozenset(_C._op_names())


def _record(op):
    """What the library calls an operator of its own, or None."""
    if op.namespace != "aten":
        return None
    name = op._opname if op._overloadname == "default" else "%s.%s" % (op._opname, op._overloadname)
    return name if name in _records() else None


def _opened(op):
    """The rule of a composite: what it is made of. One that comes back whole is."""
    inside = []

    def opened(*args, **kwargs):
        if inside:
            return NotImplemented
        inside.append(op)
        try:
            return op(*args, **kwargs)
        finally:
            inside.pop()
    opened.__name__, opened.opens = op._opname, True
    return opened


@functools.cache
def _tables():
    """({op: rule} of all rules, {table: its ops})"""
    for name in _FILES:
        importlib.import_module("%s.%s" % (__name__, name))
    rules, ops = {}, {"core": [], "asked": [], "always": []}
    for names, fn, table in _written:
        for name in names:
            op = _found(name)
            rules[op] = fn
            ops[table].append(op)
    return rules, ops


@functools.cache
def _composites():
    """{op: rule} of composites: each is opened."""
    found = {}
    for name in sorted(_records()):
        if "::" not in name and name not in _CORE and _C._is_composite(name):
            op = _found(name)
            if stays_whole(op):
                found[op] = _opened(op)
    return found


def core_aten_decompositions():
    """A new table of what is outside of the core operations."""
    from rushlight.export.decomp_utils import CustomDecompTable
    return CustomDecompTable()


def _core_table():
    rules, ops = _tables()
    return {**{op: fn for op, fn in _composites().items() if op not in ops["always"]}, **{op: rules[op] for op in ops["core"]}}


def always_opened():
    rules, ops = _tables()
    return {op: rules[op] for op in ops["always"]}


def _overloads(op):
    if isinstance(op, _ops.OpOverloadPacket):
        return [getattr(op, name) for name in op.overloads()]
    if isinstance(op, _ops.OperatorBase):
        return [op]
    return []


def _table_of(type):
    tables = {"post_autograd": "decomposition_table", "pre_autograd": "pre_autograd_decomposition_table", "meta": "meta_table"}
    if type not in tables:
        raise AssertionError("type must be one of post_autograd, pre_autograd, or meta, got %s" % type)
    return __getattr__(tables[type])


def get_decompositions(aten_ops, type="post_autograd"):
    """{overload: rule} of those of the operators that have rules. A packet stands for all of its overloads."""
    table = _table_of(type)
    return {op: table[op] for given in aten_ops for op in _overloads(given) if op in table}


def register_decomposition(aten_op, registry=None, *, type="post_autograd", unsafe=False):
    """A decorator: the function is the rule of an operator, or of several, from now on."""
    def register(fn):
        table = _table_of(type) if registry is None else registry
        for given in aten_op if isinstance(aten_op, (list, tuple)) else [aten_op]:
            for op in _overloads(given):
                if op in table:
                    raise RuntimeError("duplicate registrations for %s" % op)
                table[op] = fn
        return fn
    return register


def remove_decompositions(decompositions, aten_ops):
    """Takes operators out of a table."""
    for given in aten_ops:
        for op in _overloads(given):
            decompositions.pop(op, None)


def _should_decompose_because_unsafe_op(op):
    return False


def __getattr__(name):
    if name == "decomposition_table":
        value = _tables()[0]
    elif name in ("pre_autograd_decomposition_table", "meta_table"):
        value = {}
    elif name == "global_decomposition_table":
        return {kind: _table_of(kind) for kind in ("post_autograd", "pre_autograd", "meta")}
    else:
        raise AttributeError("module 'torch._decomp' has no attribute '%s'" % name)
    globals()[name] = value
    return value
