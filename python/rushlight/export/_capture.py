"""A module's calls as a graph: the module is run, and what it calls is written down.

_C._capture tells of each operation that the program calls, composites whole. To learn what depends on sizes that may vary, the
module is run several times, on inputs of other sizes within the ranges; the calls must be the same each time, and a number that
differs is an expression of the sizes (_sizes.py). Between the runs the module's tensors and the random state are put back.
"""
import contextlib
import itertools
import math
import operator
import sys
import types

import rushlight as torch
from rushlight import _C, _ops
from rushlight._alias import torch_name
from rushlight.fx.experimental.symbolic_shapes import GuardOnDataDependentSymNode
from rushlight._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from rushlight.fx.passes.shape_prop import _extract_tensor_metadata
from rushlight.utils import _pytree as pytree

from ._sizes import Sizes, as_text, symbols_in
from ._symbols import Known, Number, Relation, sizes_of_results

_FOLDER = __file__.rsplit("/", 2)[0]
_RANDOM = ("rand", "dropout", "bernoulli", "normal", "multinomial", "exponential", "uniform", "geometric", "cauchy", "poisson")
_running = []          # the runs that are being captured, the innermost last
_place = []            # where the outermost of them is


class Differs(Exception):
    """The program calls other operations when sizes are others."""


class Call:
    """One operation that was called, with everything that went in and came out."""
    __slots__ = ("func", "args", "kwargs", "results", "grad", "where", "modules", "function")

    def __init__(self, func, args, kwargs, results, grad, where):
        self.func, self.args, self.kwargs, self.results, self.grad, self.where = func, args, kwargs, results, grad, where
        self.modules, self.function = (dict(_place[-1].modules), _place[-1].function) if _place else ({}, None)


# What the kinds of our own functions are called in PyTorch.
_KINDS = {"function": "builtin_function_or_method", "method": "method_descriptor"}


_CONVERSIONS = {"to": None, "cpu": None, "type": None, "half": "float16", "float": "float32", "double": "float64", "bfloat16": "bfloat16", "long": "int64", "int": "int32", "short": "int16",
                "char": "int8", "byte": "uint8", "bool": "bool"}


def _conversion(name, args, kwargs):
    """(operation, args, kwargs) that a conversion is written as, whether it changes anything or not; None for rare forms."""
    t, rest, to = args[0], args[1:], torch.ops.aten.to
    if t.layout != torch.strided or t.is_quantized:
        return None
    laid = {"dtype": t.dtype, "layout": t.layout, "device": t.device}
    if _CONVERSIONS[name]:
        return (to.dtype, (t, getattr(torch, _CONVERSIONS[name])), {}) if not rest and not kwargs else None
    if name == "type":
        return (to.dtype, (t, rest[0]), {}) if len(rest) == 1 and isinstance(rest[0], torch.dtype) and not kwargs else None
    if name == "cpu":
        return (to.dtype_layout, (t,), dict(laid, device=torch.device("cpu"))) if not rest and not kwargs else None
    given = [kwargs.get("device"), kwargs.get("dtype")] if not rest else [*rest]
    if set(kwargs) - {"device", "dtype", "copy", "memory_format", "non_blocking"} or len(given) > 2 or (rest and {"device", "dtype"} & set(kwargs)):
        return None
    flags = [bool(kwargs.get("non_blocking", False)), bool(kwargs.get("copy", False))]
    flags = flags if flags[1] else flags[:1] if flags[0] else []
    named = {"memory_format": kwargs["memory_format"]} if kwargs.get("memory_format") is not None else {}
    device, dtype = (None, given[0]) if isinstance(given[0], torch.dtype) else (given[0], given[1] if len(given) > 1 else None)
    if isinstance(device, torch.Tensor) and len(given) == 1:
        device, dtype = device.device, device.dtype
    if not isinstance(device, (str, torch.device, type(None))) or not isinstance(dtype, (torch.dtype, type(None))):
        return None
    device = torch.device(device) if device is not None else None
    if device is not None and device.type != t.device.type:
        return None
    if dtype is not None:
        return (to.dtype, (t, dtype, *flags), named) if device is None else (to.device, (t, device, dtype, *flags), named)
    return (to.dtype_layout, (t,), {**laid, "device": device or t.device, **named}) if not flags else None


class _Functions(torch.overrides.TorchFunctionMode):
    """Tells a place which function of the library the program calls. What that calls itself runs without the mode."""

    def __init__(self, place):
        self.place, self.counts = place, {}

    def __torch_function__(self, func, kinds, args=(), kwargs=None):
        name = getattr(func, "__name__", None)
        if name == "__get__" or name is None:
            return func(*args, **(kwargs or {}))
        self.counts[func] = self.counts.get(func, 0) + 1
        kind = type(func).__name__ if isinstance(func, types.FunctionType) else _KINDS.get(type(func).__name__, type(func).__name__)
        self.place.function = ("%s_%d" % (name, self.counts[func]), "%s.%s" % (kind, name))
        form = _conversion(name, args, kwargs or {}) if name in _CONVERSIONS and func is getattr(torch.Tensor, name, None) else None
        if form is not None and running() is not None:
            t = args[0]
            assertion, like = torch.ops.aten._assert_tensor_metadata.default, {"dtype": t.dtype, "device": t.device, "layout": t.layout}
            running().add(assertion, (t,), like, (), False)
            return whole(form[0], lambda: func(*args, **(kwargs or {})), form[1], form[2])
        return func(*args, **(kwargs or {}))


class Border:
    """Stands for an operation where a module whose signature is preserved is entered, with its arguments, or left, with what it returns."""

    def __init__(self, key, spec, leaving):
        self.key, self.spec, self.leaving = key, spec, leaving

    @staticmethod
    def watch(name, module):
        """The hooks that tell of calls of a module."""
        def tell(value, leaving):
            run = running()
            last = _place[-1].last if _place else None
            if run is not None and not run.within and last is not None and last[0] is module and last[1].partition("@")[0] == "L__self__" + name:
                mark = last[1].partition("@")[2]
                leaves, spec = pytree.tree_flatten(value)
                run.calls.append(Call(Border(name + "@" * bool(mark) + mark, spec, leaving), (leaves,), {}, (), True, None))

        def left(module, args, kwargs, result):
            tell(result, True)
        return module.register_forward_pre_hook(lambda module, args, kwargs: tell((args, kwargs), False), with_kwargs=True), module.register_forward_hook(left, with_kwargs=True)


class Place:
    """Where in the program a call is: the modules that it is inside of, and the function that makes it."""

    def __init__(self, root):
        self.names = {}
        for name, m in root.named_modules(remove_duplicate=False) if isinstance(root, torch.nn.Module) else ():
            self.names.setdefault(id(m), []).append(name)
        self.modules, self.function, self.counts, self.entered, self.last = {}, None, {}, [], None    # last: the one that was entered or left just now

    def enter(self, module, args):
        names = self.names.get(id(module))
        if names is None:
            return
        outer = next(reversed(self.modules.values()))[0] + "." if self.modules else ""     # of several names, one within the caller, by turns
        within = [n for n in names if outer == "." or n.startswith(outer)]
        name = min(within or names, key=lambda n: self.counts.get(n, -1))
        again = self.counts[name] = self.counts.get(name, -1) + 1
        key = "L__self__" + name + ("@%d" % again if again else "")
        self.modules[key] = (name, torch_name("%s.%s" % (type(module).__module__, type(module).__qualname__)))
        self.last = (module, key)
        self.entered.append(self.last)

    def leave(self, module, args, result):
        if self.entered and self.entered[-1][0] is module:
            self.last = self.entered.pop()
            del self.modules[self.last[1]]

    @contextlib.contextmanager
    def watch(self):
        from rushlight.nn.modules import module as modules
        hooks = modules.register_module_forward_pre_hook(self.enter), modules.register_module_forward_hook(self.leave, always_call=True)
        _place.append(self)
        try:
            with _Functions(self):
                yield
        finally:
            _place.pop()
            for hook in hooks:
                hook.remove()


def _from_data(run, func, args, results):
    """Expressions of the sizes of what func gives, where its numbers decide on them, else None: the symbols are new."""
    def fresh(n, most=math.inf, what=None):
        return run.known.once(what or func, t, lambda: run.known.fresh(int(n), 0, most)).expr
    name = func._schema.name.split("::")[-1] + "." + (func._schema.overload_name or "default")
    t = args[0] if args and isinstance(args[0], torch.Tensor) else None
    made = [r for r in pytree.tree_leaves(results) if isinstance(r, torch.Tensor)]
    if name in ("nonzero.default", "argwhere.default"):
        return [[fresh(made[0].shape[0], run.most(t), "nonzero"), t.dim()]]
    if name in ("where.default", "nonzero_numpy.default"):
        n = fresh(made[0].shape[0], run.most(t), "nonzero")
        return [[n]] * len(made)
    if name in ("masked_select.default", "repeat_interleave.Tensor", "bincount.default"):
        return [[fresh(made[0].shape[0], math.prod(max(run.known.range_of(n)[1] for n in pair) for pair in itertools.zip_longest(run.size_of(t)[::-1], run.size_of(args[1])[::-1], fillvalue=1)) if name.startswith("masked") else math.inf)]]
    if name == "nms.default":  # by the boxes and their scores
        return [[run.known.fresh(made[0].shape[0], 0, run.known.range_of(run.size_of(t)[0])[1]).expr]]
    if name in ("_unique2.default", "unique_consecutive.default", "unique_dim.default", "unique_dim_consecutive.default", "_unique.default"):
        dim = args[1] if "dim" in name else next(iter(args[3:4]), None) if "consecutive" in name else None
        n = fresh(made[0].shape[0 if dim is None else dim], run.most(t) if dim is None else run.size_of(t)[dim])
        first = [n] if dim is None else [n if d == dim % t.dim() else e for d, e in enumerate(run.size_of(t))]
        return [first, *([n] if m.dim() == 1 and i == 1 else list(m.shape) for i, m in enumerate(made[1:]))] if dim is not None else \
            [first, *([n] if i == 1 and m.numel() else list(m.shape) if not m.numel() else run.size_of(t) for i, m in enumerate(made[1:]))]
    if name == "repeat_interleave.self_Tensor":
        dim = args[2] if len(args) > 2 else None
        return [[fresh(made[0].shape[0])]] if dim is None else [[fresh(made[0].shape[dim]) if d == dim % t.dim() else e for d, e in enumerate(run.size_of(t))]]
    return None


class Run:
    """The calls of one run; `fresh` has the first values of tensors that no call made."""
    within = False      # the function of an operator that takes some
    as_traced = False   # numbers that the program reads out of tensors are those of this run

    def __init__(self, given):
        self.calls, self.seen, self.fresh, self.result = [], {id(t): t for t in given}, {}, None
        self.inside = False     # a call that is told as one
        self.tainted = set(self.seen)                     # what depends on inputs
        self.known, self.sizes = Known(self.say), {}      # numbers that follow from data; id of a tensor -> the expressions of its sizes, where these do

    # ---- what depends on the numbers in tensors ----

    def say(self, relation):
        self.calls.append(Call(torch.ops.aten._assert_scalar.default, (relation,), {}, (), False, _where()))

    def size_of(self, t):
        """The expressions of a tensor's sizes."""
        sizes = self.sizes.get(id(t), t.shape)
        if sizes is None:
            raise GuardOnDataDependentSymNode("Could not guard on data-dependent expression: the size of a tensor that follows from data, in a way that is not understood\n" + (_where() or ""))
        return list(sizes)

    def most(self, t):
        sizes = self.size_of(t)
        return math.prod(self.known.range_of(n)[1] for n in sizes)

    def size(self, t, dim):
        """What the program sees as a size, or with -1 as the number of elements."""
        if id(t) not in self.sizes:
            return t.numel() if dim < 0 else t.shape[dim]
        sizes = [self.known.make(e, n) if isinstance(e, (str, tuple)) else e for e, n in zip(self.size_of(t), t.shape)]
        return math.prod(sizes) if dim < 0 else sizes[dim]

    def number(self, x):
        """What stands for a number that a call was given: one that follows from data, or the value of a tensor."""
        return self.item(x, x.item()) if isinstance(x, torch.Tensor) else x

    def item(self, t, value):
        """What the program reads of a tensor. value is None for all of it as lists, ... for its memory."""
        told = id(t) in self.tainted and not self.as_traced
        if value is None:
            return _C._capture_paused(t.tolist) if not told else t.item() if t.dim() == 0 else [x.tolist() for x in t.unbind()]
        if value is ...:
            if told:
                raise RuntimeError(".numpy() is not supported for tensors of a program that is exported: their numbers are not known")
            return None
        if not told:
            return value
        if type(value) not in (int, float) or self.within:
            self.add(torch.ops.aten._local_scalar_dense.default, (t,), {}, (value,), False)
            return value
        return self.known.once("item", t, lambda: self.first_item(t, value))

    def first_item(self, t, value):
        made = self.known.fresh(value)
        self.add(torch.ops.aten.item.default, (t,), {}, (made,), torch.is_grad_enabled())
        return made

    def follow(self, func, args, kwargs, results):
        """Learns the sizes of results where they follow from data."""
        leaves = pytree.tree_leaves((args, kwargs))
        tensors = [t for t in pytree.tree_leaves(results) if isinstance(t, torch.Tensor)]
        if not tensors or self.within:
            return
        masks = [] if func is not torch.ops.aten.index.Tensor else [m for m in args[1] if m is not None and m.dtype in (torch.bool, torch.uint8) and id(m) in self.tainted]
        sizes = None if not any(id(t) in self.tainted for t in leaves if isinstance(t, torch.Tensor)) else _from_data(self, func, args, results)
        if sizes is None:
            if not masks and not any(isinstance(x, Number) or id(x) in self.sizes for x in leaves):
                return
            exprs = {id(t): self.size_of(t) for t in leaves if isinstance(t, torch.Tensor) and id(t) not in map(id, masks)}
            if masks:
                args = (args[0], self.without_masks(args, masks, exprs))
            sizes = sizes_of_results(self.known, func, args, kwargs, lambda t: exprs[id(t)])
        for t, found in zip(tensors, sizes or [None] * len(tensors)):
            if sizes is not None and len(found) != t.dim():
                found = None
            self.sizes[id(t)] = found
            for e in found or ():
                self.known.size(self.known.make(e, 0) if isinstance(e, str) else None)
        if sizes is not None and len(sizes) != len(tensors):
            raise GuardOnDataDependentSymNode("Could not guard on data-dependent expression: how many tensors there are follows from data\n" + (_where() or ""))

    def without_masks(self, args, masks, exprs):
        """The indices of a call with places instead of masks."""
        places = []
        for m in args[1]:
            if not any(m is x for x in masks):
                places.append(m)
                continue
            n = self.known.once("nonzero", m, lambda m=m: self.known.fresh(int(m.count_nonzero()), 0, self.most(m)))
            for _ in range(m.dim()):
                places.append(torch.empty(0, dtype=torch.int64))
                exprs[id(places[-1])] = [n.expr]
        return places

    # ---- calls ----

    def tell(self, name, form, args, kwargs, results, grad):
        if name == "_local_scalar_dense":
            return              # item() says more
        if form == 2:
            for written in _ops._overload_of(name, 2)._out_names:
                kwargs.pop(written)
        func = _ops._overload_of(name, 0 if form == 2 else form)
        if name == "_to_dtype":     # a name of ours: autocast's conversions
            func, args, kwargs = torch.ops.aten._to_copy.default, args[:1], {"dtype": args[1]}
        self.add(func, args, kwargs, results, grad)
        if form == 2:
            with torch.no_grad():
                self.calls[-1].results = tuple(out.detach() for out in results)
            for made, out in zip(self.calls[-1].results, results):
                self.calls.append(Call(torch.ops.aten.copy_.default, (out, made), {}, (out,), grad, None))

    def add(self, func, args, kwargs, results, grad):
        for t in pytree.tree_leaves((args, kwargs)):
            if isinstance(t, torch.Tensor) and id(t) not in self.seen:
                with torch.no_grad():
                    self.seen[id(t)], self.fresh[id(t)] = t, t.detach().clone()
        tainted = any(id(t) in self.tainted for t in pytree.tree_leaves((args, kwargs)) if isinstance(t, torch.Tensor))
        for t in pytree.tree_leaves(results):
            if isinstance(t, torch.Tensor):
                self.seen[id(t)] = t
                if tainted or isinstance(func, str):
                    self.tainted.add(id(t))
        self.calls.append(Call(func, args, kwargs, results, bool(grad), _where()))
        if not isinstance(func, str):
            self.follow(func, args, kwargs, results)

    def capture(self, function, args, kwargs):
        _running.append(self)
        try:
            with contextlib.nullcontext() if _place else Place(function).watch():
                self.result = _C._capture(self.tell, function, args, kwargs, self.size, self.number, self.item, Number)
        finally:
            _running.pop()
        return self


def running():
    """The run that is being captured, or None."""
    return _running[-1] if _running else None


def whole(func, run, args, kwargs):
    """run(), as one call of `func`: what happens inside is not told."""
    outer = running()
    if outer is None or outer.inside:
        return run()
    outer.inside = True
    try:
        result = _C._capture_paused(run)
    finally:
        outer.inside = False
    outer.add(func, tuple(args), dict(kwargs), () if result is None else result if isinstance(result, tuple) else (result,), torch.is_grad_enabled())
    return result


def _where():
    """The line of the program that called, as tracebacks write it."""
    frame = sys._getframe(2)
    while frame is not None and frame.f_code.co_filename.startswith(_FOLDER):
        frame = frame.f_back
    return None if frame is None else '  File "%s", line %d, in %s\n' % (frame.f_code.co_filename, frame.f_lineno, frame.f_code.co_name)


class Builder:
    """Parallel runs of one program as one fx.Graph. `names` are the inputs', `given` their values in each run."""

    def __init__(self, runs, sizes, outer=None):
        self.runs, self.sizes, self.graph = runs, sizes, torch.fx.Graph()
        self.key = [{} for _ in runs]     # per run: id of a tensor -> key
        self.node, self.numbers, self.tainted, self.detached = {}, {}, set(), {}
        self.constants, self.constant_names, self.blocks = {}, {}, {}    # constant_names: what tensors are called that modules have, by id
        self.borders = {}                 # key of a call whose signature is preserved -> [(spec, nodes) of what it takes, of what it gives]
        self.fake_mode = outer.fake_mode if outer else FakeTensorMode()
        self.dimension = {}               # numbers that a tensor's dimension had -> (its node, which)
        self.roots = {}                   # symbol of a number that follows from data -> its node
        self.unknown = outer.unknown if outer else {}
        self.graded = torch.is_grad_enabled()

    # ---- values ----

    def placeholder(self, name, values, tainted=True):
        node = self.graph.placeholder(name)
        node.name = name
        self.define(node, values, tainted)
        return node

    def input(self, name, values):
        """The placeholder of an input; calls use the first of the names of one tensor."""
        known = [key.get(id(v)) for key, v in zip(self.key, values)] if isinstance(values[0], torch.Tensor) else [None]
        node = self.placeholder(name, values)
        if None not in known:
            for key, v, first in zip(self.key, values, known):
                key[id(v)] = first
        return node

    def define(self, node, values, tainted, key=None):
        """From now on `node` stands for these tensors (of each run)."""
        first = values[0]
        if isinstance(first, (list, tuple)):
            parts = [self.graph.call_function(operator.getitem, (node, i)) for i in range(len(first))]
            for i, part in enumerate(parts):
                part.meta.update(node.meta)
                self.define(part, [v[i] for v in values], tainted)
            node.meta["val"] = type(first)([part.meta.get("val") for part in parts])
            return
        key = key or node
        for known, value in zip(self.key, values):
            known[id(value)] = key
        self.node[key] = node
        if tainted:
            self.tainted.add(key)
        if isinstance(first, torch.Tensor):
            self.describe(node, values)
        elif isinstance(first, Number):
            node.meta["val"], node.meta["number"] = first._value, first.expr
            self.roots[first.expr] = node
        elif first is not None:
            node.meta["val"] = first

    def followed(self, values):
        """The expressions of the sizes of a tensor, where they follow from data."""
        found = [run.sizes.get(id(t)) for run, t in zip(self.runs, values)]
        return None if None in found else [self.merged([f[d] for f in found]) for d in range(len(found[0]))]

    def merged(self, exprs):
        """One expression for what has these in the runs."""
        first = exprs[0]
        if all(e == first for e in exprs):
            return first
        if all(isinstance(e, tuple) and e[0] == first[0] for e in exprs):
            return (first[0], *(self.merged(parts) for parts in zip(*(e[1:] for e in exprs))))
        found = self.sizes.fit(tuple(exprs)) if not any(isinstance(e, (str, tuple)) for e in exprs) else None
        if found is None:
            raise Differs("a number that follows from data and from sizes")
        return found

    def name_sizes(self, node, sizes, t):
        """Symbols that a size has for the first time have a node from here on: what is known of them is asserted there."""
        for d, expr in enumerate(sizes):
            if isinstance(expr, str) and expr not in self.roots and expr in self.runs[0].known.values:
                made = self.roots[expr] = self.graph.call_function(torch.ops.aten.sym_size.int, (node, d), name="sym_size_int")
                made.meta["val"], made.meta["number"] = t.shape[d], expr

    def is_of_range(self, calls):
        """What was said compares one such number with a constant: the range that it was found to have says all of it."""
        relations = [c.args[0] for c in calls]
        other = relations[0].b if isinstance(relations[0].a, Number) else relations[0].a
        number = relations[0].a if other is relations[0].b else relations[0].b
        constant = not isinstance(other, Number) and all(r.expr == relations[0].expr for r in relations)
        return constant and isinstance(number.expr, str) and relations[0].name != "ne" and not isinstance(number._value, float)

    def assert_relation(self, relations):
        expr = self.merged([r.expr for r in relations])
        node = self.emit_symbolic(expr, relations[0])
        self.graph.call_function(torch.ops.aten._assert_scalar.default, (node, "Runtime assertion failed for expression %s %s %s on node '%s'" % (
            as_text(expr[1]), Relation.SIGNS[expr[0]], as_text(expr[2]), node.name)))

    def assert_ranges(self):
        """What was found out or said about numbers that follow from data is asserted where they are made."""
        for name, node in self.roots.items():
            bounds = [run.known.ranges[name] for run in self.runs]
            after = node
            for i, (op, sign) in enumerate(((operator.ge, ">="), (operator.le, "<="))):
                if math.isinf(bounds[0][i]) or any(b[i] != bounds[0][i] for b in bounds):
                    continue        # where it follows from a size a call says so
                bound = int(bounds[0][i])
                with self.graph.inserting_after(after):
                    made = self.graph.call_function(op, (node, bound))
                    made.meta["val"] = True
                with self.graph.inserting_after(made):
                    after = self.graph.call_function(torch.ops.aten._assert_scalar.default, (made, "Runtime assertion failed for expression %s %s %d on node '%s'" % (name, sign, bound, made.name)))

    def describe(self, node, values):
        t = values[0]
        if any(x.dim() != t.dim() or x.dtype != t.dtype for x in values):
            raise Differs("the rank or dtype of %s" % node.name)
        size = [tuple(x.shape[d] for x in values) for d in range(t.dim())]
        sizes = self.followed(values)
        for d, numbers in enumerate(size):
            if any(n != numbers[0] for n in numbers):
                self.dimension.setdefault(numbers, (node, d))
        stride = [tuple(x.stride(d) for x in values) for d in range(t.dim())] if t.layout == torch.strided else []
        offset = tuple(x.storage_offset() for x in values) if t.layout == torch.strided else (0,)
        node.meta["val"] = self.fake(t, node.op == "placeholder") if t.layout == torch.strided else t
        if t.layout == torch.strided and not t.is_quantized:
            node.meta["tensor_meta"] = _extract_tensor_metadata(t)
        node.meta["tensor"] = {"dtype": t.dtype, "size": sizes or [self.size(n) for n in size],
                               "stride": _contiguous(sizes) if sizes and t.is_contiguous() else [self.stride(n, values) for n in stride], "offset": self.size(offset),
                               "requires_grad": t.requires_grad, "device": t.device, "hint": (list(t.shape), list(t.stride()), offset[0])}
        if sizes and node.op != "placeholder":
            self.name_sizes(node, sizes, t)

    def fake(self, t, is_input):
        """A tensor like t without memory: what nodes say that their value is."""
        with torch.no_grad():
            made = FakeTensor(self.fake_mode, torch.empty_strided(t.shape, t.stride(), dtype=t.dtype, device="meta"), t.device)
        return made.requires_grad_() if is_input and t.requires_grad else made

    def size(self, numbers):
        """The expression of a tensor's size, for its description; a new symbol where none is found."""
        found = self.sizes.fit(numbers)
        return self.unknown.setdefault(numbers, "u%d" % len(self.unknown)) if found is None else found

    def stride(self, numbers, values):
        """As size. An empty tensor's strides are those of sizes of 1: they say nothing where others are known."""
        gone = frozenset(i for i, x in enumerate(values) if not x.numel())
        found = self.sizes.without(gone).fit(tuple(n for i, n in enumerate(numbers) if i not in gone)) if gone and len(values) - len(gone) > 1 else None
        return self.size(numbers) if found is None else found

    def constant(self, values):
        """A tensor that no call made: its value is part of the program."""
        fresh = [run.fresh.get(id(t), t) for run, t in zip(self.runs, values)]
        first = fresh[0]
        if any(x.shape != first.shape or x.dtype != first.dtype or not torch.equal(x, first) for x in fresh[1:]):
            numbers = tuple(x.item() for x in fresh) if all(x.numel() == 1 for x in fresh) else None
            expr = self.number(numbers) if numbers else None
            if expr is None:
                raise Differs("a tensor that is made of sizes, by other means than operations")
            node = self.graph.call_function(torch.ops.aten.full.default, (list(first.shape), expr), {"dtype": first.dtype}, name="full")
        else:
            name = self.constant_names.get(id(values[0])) or "lifted_tensor_%d" % sum(n.startswith("lifted_tensor_") for n in self.constants)
            self.constants[name] = first
            node = self.graph.get_attr(name)
            node.meta["constant"] = True
        self.define(node, values, False)
        return self.key[0][id(values[0])]

    # ---- numbers ----

    def number(self, numbers):
        """A constant, or the node that computes it from sizes."""
        expr = self.sizes.fit(numbers)
        if expr is None and numbers in self.dimension:
            return self.of_dimension(*self.dimension[numbers])
        if expr is None:
            for known, (node, d) in self.dimension.items():
                part = Sizes({"it": known}).fit(numbers) if all(isinstance(n, int) for n in numbers) else None
                if part is not None:
                    return self.emit(part, {"it": self.of_dimension(node, d)})
            raise Differs("a number (%s) that follows from sizes in a way that is not understood" % ", ".join(map(str, numbers)))
        return self.emit(expr, {})

    def of_dimension(self, node, d):
        expr = ("size", node, d)
        if expr not in self.numbers:
            made = self.numbers[expr] = self.graph.call_function(torch.ops.aten.sym_size.int, (node, d), name="sym_size_int")
            numbers = next(k for k, v in self.dimension.items() if v == (node, d))
            made.meta["val"], made.meta["number"] = numbers[0], self.size(numbers)
        return self.numbers[expr]

    def emit(self, expr, local):
        if isinstance(expr, str) and expr in self.roots:
            return self.roots[expr]
        if isinstance(expr, str):
            return local[expr] if expr in local else self.of_dimension(*self.dimension[self.sizes.symbols[expr]]) \
                if self.sizes.symbols[expr] in self.dimension else self.emit(self.root_of(expr), {})
        if not isinstance(expr, tuple):
            return expr
        if expr not in self.numbers or local:
            args = tuple(self.emit(x, local) for x in expr[1:])
            node = self.graph.call_function(getattr(operator, expr[0]), args)
            node.meta["val"] = getattr(operator, expr[0])(*(a.meta["val"] if isinstance(a, torch.fx.Node) else a for a in args))
            node.meta["number"] = (expr[0], *(a.meta["number"] if isinstance(a, torch.fx.Node) else a for a in args))
            if local:
                return node
            self.numbers[expr] = node
        return self.numbers[expr]

    def root_of(self, symbol):
        """A symbol that is no input's size itself: from one that is a multiple of it and more."""
        for numbers in self.dimension:
            expr = self.sizes.fit(numbers)
            a, c = 1, 0
            if isinstance(expr, tuple) and expr[0] == "add" and isinstance(expr[2], int):
                expr, c = expr[1], expr[2]
            if isinstance(expr, tuple) and expr[0] == "mul" and isinstance(expr[2], int):
                expr, a = expr[1], expr[2]
            if expr == symbol:
                self.sizes.symbols["of " + symbol] = numbers
                less = ("add", "of " + symbol, -c) if c else "of " + symbol
                return ("floordiv", less, a) if a != 1 else less
        raise Differs("the size %s, which no tensor has" % symbol)

    # ---- calls ----

    def argument(self, values, grad=True):
        first = values[0]
        if isinstance(first, torch.Tensor):
            keys = {known.get(id(v)) for known, v in zip(self.key, values)}
            key = keys.pop()
            if keys:
                raise Differs("which tensors are used")
            key = key if key is not None else self.constant(values)
            node = self.node[key]
            return node if grad or not self.graded or key not in self.tainted else self.without_history(node)
        if isinstance(first, (Number, Relation)):
            if any(type(v) is not type(first) for v in values):
                raise Differs("which numbers follow from data")
            return self.emit_symbolic(self.merged([v.expr for v in values]), first)
        if isinstance(first, (list, tuple)):
            if any(len(v) != len(first) for v in values):
                raise Differs("the length of a list")
            return type(first)([self.argument([v[i] for v in values], grad) for i in range(len(first))]) if type(first) in (list, tuple) else \
                [self.argument([v[i] for v in values], grad) for i in range(len(first))]
        if isinstance(first, torch._classes.ScriptObject):
            raise NotImplementedError("an exported program has no objects of registered classes: %s" % first._path)
        if type(first) in (int, float) and any(type(v) is type(first) and v != first and v == v for v in values):
            return self.number(tuple(values))
        if any(v is not first and v != first and v == v for v in values):
            raise Differs("the argument %r" % (first,))
        return first

    def emit_symbolic(self, expr, first):
        if isinstance(first, Number):
            return self.emit(expr, {})
        node = self.graph.call_function(getattr(operator, expr[0]), tuple(self.emit(e, {}) for e in expr[1:]))
        node.meta["val"] = first._value
        return node

    def without_history(self, node):
        """What a call gets of values with a history where gradients are switched off."""
        if not node.meta.get("tensor") or not node.meta["tensor"]["requires_grad"]:
            return node
        if node not in self.detached:
            made = self.detached[node] = self.graph.call_function(torch.ops.aten.detach.default, (node,), name="detach")
            made.meta.update(val=node.meta["val"], tensor=dict(node.meta["tensor"], requires_grad=False))
        return self.detached[node]

    def call(self, calls):
        first = calls[0]
        if isinstance(first.func, Border):
            return self.border(calls)
        if any(c.func is not first.func for c in calls):
            raise Differs("which operations are called")
        leaves = [t for t in pytree.tree_leaves((first.args, first.kwargs)) if isinstance(t, torch.Tensor)]
        tainted = any(self.key[0].get(id(t)) in self.tainted for t in leaves)
        if first.func is torch.ops.aten._local_scalar_dense.default and not isinstance(first.results[0], Number):
            if tainted:
                raise GuardOnDataDependentSymNode("Could not guard on data-dependent expression: the program takes a number out of a tensor that depends "
                                                  "on its inputs, and goes on as it says. Use torch.cond or torch.where.\n" + (first.where or ""))
            return
        if isinstance(first.func, str):
            return self.blocks_call(calls, tainted)
        if first.args and isinstance(first.args[0], Relation):
            if not self.is_of_range(calls):
                self.assert_relation([c.args[0] for c in calls])
            return
        if tainted and any(isinstance(r, (bool, int, float)) for r in first.results) and not first.func._opname.startswith("_"):
            if self.runs[0].as_traced:
                return
            raise GuardOnDataDependentSymNode("Could not guard on data-dependent expression: %s of tensors that depend on inputs, and the program goes on as it says.\n%s"
                                              % (first.func, first.where or ""))
        func, args = first.func, self.argument([c.args for c in calls], first.grad)
        kwargs = {k: self.argument([c.kwargs[k] for c in calls], first.grad) for k in first.kwargs}
        if func is torch.ops.aten.lift_fresh.default:
            func = torch.ops.aten.lift_fresh_copy.default
        node = self.graph.call_function(func, tuple(args), kwargs, name=func._schema.name.split("::")[-1])
        self.say_where(node, first)
        results = [c.results for c in calls]
        schema = first.func._schema
        written = schema.returns and schema.returns[0].alias_info is not None and schema.returns[0].alias_info.is_write    # gives what it was given
        if not written or not len(first.results):
            self.define(node, [r[0] if len(r) == 1 else r for r in results], tainted)
            return
        self.describe(node, [r[0] for r in results])
        if first.grad or not self.graded:   # the tensor has a new history; where there are none it is the same storage still
            self.define(node, [r[0] for r in results], True)
        elif tainted:
            self.tainted.add(self.key[0].get(id(first.results[0])))

    def border(self, calls):
        borders = [c.func for c in calls]
        if any(not isinstance(x, Border) or (x.key, x.spec, x.leaving) != (borders[0].key, borders[0].spec, borders[0].leaving) for x in borders):
            raise Differs("how the module %s is called" % borders[0].key)
        self.borders.setdefault(borders[0].key, []).append((borders[0].spec, self.argument([c.args[0] for c in calls])))

    @staticmethod
    def say_where(node, call):
        if call.where:
            node.meta["stack_trace"] = call.where
        if call.modules:
            node.meta["nn_module_stack"] = call.modules
        if call.function:
            node.meta["torch_fn"] = call.function

    def blocks_call(self, calls, tainted):
        from ._blocks import build
        node = build(self, calls)
        self.say_where(node, calls[0])
        self.define(node, [c.results for c in calls], True)

    def build(self):
        count = {len(run.calls) for run in self.runs}
        for calls in zip(*(run.calls for run in self.runs)):
            self.call(calls)
        if len(count) != 1:
            raise Differs("how many operations are called")
        self.assert_ranges()
        return self


def _contiguous(sizes):
    strides = [1]
    for n in reversed(sizes[1:]):
        last = strides[-1]
        strides.append(n if last == 1 else last * n if isinstance(n, int) and isinstance(last, int) else ("mul", last, n))
    return strides[::-1] if sizes else []


def is_pure(node):
    if node.op != "call_function":
        return node.op == "get_attr"
    if not isinstance(node.target, _ops.OpOverload):
        return True
    schema = node.target._schema
    if any(a.alias_info is not None and a.alias_info.is_write for a in schema.arguments) or not schema.returns:
        return False
    return not any(word in schema.name for word in _RANDOM)


def without_dead(graph, wanted=()):
    """Takes out what nothing needs."""
    wanted = {n for n in wanted if isinstance(n, torch.fx.Node)}
    for node in reversed(list(graph.nodes)):
        if not node.users and node not in wanted and is_pure(node):
            graph.erase_node(node)


__all__ = ["Run", "Builder", "Differs", "Sizes", "running", "symbols_in", "without_dead", "is_pure"]
