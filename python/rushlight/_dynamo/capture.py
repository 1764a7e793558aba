"""Graphs of compiled functions, for backends that are functions of (GraphModule, example inputs).

Python runs as always, in every call of the function. While it runs, calls on tensors are written down instead of done: a mode of __torch_function__
sees each of them, runs it on tensors without memory to learn what its results are like, and returns tensors that wait. When a value is asked for, or
something happens that no graph can hold, what was written down is a graph. It is looked up among those that were made before, or made and given to
the backend; what the backend returned is run, and the tensors that wait become its results. So branches, sizes, side effects and errors are those of
each call, nothing is guarded, and a graph is used again only where the same calls come again on tensors of the same kind.
"""
import contextlib
import dis
import enum
import functools
import operator
import re
import sys
import threading
import traceback
import types
import weakref

import rushlight as torch
from rushlight import _C, _functorch, _pending
from rushlight._subclasses.fake_tensor import DataDependentOutputException, DynamicOutputShapeException, FakeTensor, FakeTensorMode
from rushlight.overrides import TorchFunctionMode
from rushlight.utils._python_dispatch import is_traceable_wrapper_subclass_type

from . import config, exc
from .eval_frame import run_plainly

_Tensor = torch.Tensor


def _methods(names):
    return frozenset(getattr(_Tensor, name) for name in names.split() if hasattr(_Tensor, name))


READS = _methods("item tolist numpy __bool__ __int__ __float__ __complex__ __index__ __array__ __repr__ __str__ __format__ __contains__")
CHOOSES = _methods("__bool__ __repr__ __str__ __format__ __contains__")  # of those, what fullgraph does not allow: the others give numbers, on which more calls may stand
ASKS = _methods("""dim ndimension size numel nelement stride storage_offset element_size is_contiguous is_floating_point is_complex is_signed is_inference
    is_conj is_neg get_device __len__ __hash__ is_same_size""") | {torch.is_tensor, torch.is_floating_point, torch.is_complex, torch.numel}
ALONE = _methods("""backward register_hook register_post_accumulate_grad_hook retain_grad requires_grad_ set_ resize_ resize_as_ data_ptr untyped_storage storage
    _typed_storage share_memory_ is_shared pin_memory is_pinned __dlpack__ __dlpack_device__ __reduce_ex__ __setstate__ __deepcopy__ apply_ map_
    as_subclass _make_subclass detach_ record_stream map2_""") | {torch.autograd.backward, torch.autograd.grad}
FINE = _methods("register_hook register_post_accumulate_grad_hook as_subclass detach_ retain_grad")  # of those, what fullgraph allows
PROPERTIES = frozenset("""shape dtype device ndim requires_grad is_leaf layout is_sparse is_cuda is_cpu is_meta is_quantized is_mps is_xpu is_mkldnn is_nested
    itemsize nbytes names is_sparse_csr __class__""".split())
VIEWS = frozenset("T mT H mH real imag".split())  # properties that a graph can hold
PLAIN = (type(None), bool, int, str, bytes, torch.dtype, torch.device, torch.memory_format, torch.layout, type(...), enum.Enum, type, types.BuiltinFunctionType)
OPERATORS = {"__%s__" % name.strip("_"): getattr(operator, name) for name in
             """add sub mul truediv floordiv mod pow matmul and_ or_ xor lshift rshift eq ne lt le gt ge neg invert getitem setitem iadd isub imul itruediv ifloordiv
             imod ipow iand ior ixor ilshift irshift imatmul""".split()}
# Operators arrive by the names of methods: x + y as add.
OPERATORS.update(add=operator.add, sub=operator.sub, mul=operator.mul, div=operator.truediv, remainder=operator.mod, pow=operator.pow, matmul=operator.matmul, neg=operator.neg,
                 bitwise_and=operator.and_, bitwise_or=operator.or_, bitwise_xor=operator.xor, bitwise_left_shift=operator.lshift, bitwise_right_shift=operator.rshift)
REFLECTED = {"__r%s__" % name[2:-2]: function for name, function in OPERATORS.items() if hasattr(_Tensor, "__r%s__" % name[2:-2])}
REFLECTED["__rdiv__"] = operator.truediv


class NotInGraph(Exception):
    """A call that no graph can hold: it is done when it is made."""


class Ref:
    """In a call that is written down: an input of the graph, or the result of a call before."""
    __slots__ = ("kind", "number")

    def __init__(self, kind, number):
        self.kind, self.number = kind, number


class Waiting(FakeTensor):
    """The result of a call that was put off: its sizes, dtype and history are known, its values are not. It becomes a Tensor."""

    __torch_function__ = _C._disabled_torch_function_impl  # functions are seen by the capture's mode

    def _real(self, why):
        self._piece.capture.stop(why)
        if isinstance(self, Waiting):
            raise RuntimeError("a tensor has no values: the graph that was to make it has failed")
        return self

    def __repr__(self, *, tensor_contents=None):
        return repr(self._real("Tensor.__repr__ reads values"))

    def tolist(self):
        return self._real("Tensor.tolist reads values").tolist()

    def __deepcopy__(self, memo):
        return self._real("Tensor.__deepcopy__ reads values").__deepcopy__(memo)

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        # Somebody came to it by another way than the functions that the capture sees.
        for t in torch.utils._pytree.tree_leaves((args, kwargs)):
            if isinstance(t, Waiting):
                t._real("a use that functions of torch do not see")
        return func(*args, **(kwargs or {}))


@functools.lru_cache(None)
def effects_of(func):
    """What an operation does beyond its results: 1 writes, 2 draws random numbers, 4 reads or writes files."""
    name = func._opname[:-1] if func._opname.endswith("_") else func._opname
    try:
        known = _C._op_effects(name if func._overloadname == "default" else name + "." + func._overloadname)
    except RuntimeError:  # an operation of a program's own
        known = 0
    return known & 6 | any(a.alias_info is not None and a.alias_info.is_write for a in func._schema.arguments) | known & 1


class _Shapes(FakeTensorMode):
    """Runs a call without memory, and takes note of what it does beyond its results."""

    def __init__(self):
        super().__init__(allow_non_fake_inputs=True)
        self.effects = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.effects |= effects_of(func)
        return super().__torch_dispatch__(func, types, args, kwargs)


class Call:
    """One call: what is called with what, whether gradients are recorded, where its results are in what it returns."""
    __slots__ = ("func", "args", "kwargs", "grad", "results")

    def __init__(self, func, args, kwargs, grad):
        self.func, self.args, self.kwargs, self.grad, self.results = func, args, kwargs, grad, []


def _modes():
    """What changes the meaning of a call, gradients apart, which a graph can hold."""
    return (torch.is_inference_mode_enabled(), torch.get_default_dtype(), torch.is_autocast_cache_enabled(),
            *((torch.is_autocast_enabled(kind), torch.get_autocast_dtype(kind)) for kind in ("cpu", "cuda")))


@contextlib.contextmanager
def _under(modes, grad):
    """The modes that were on when calls were written down."""
    now = _modes()
    with contextlib.ExitStack() as stack:
        if modes[0] != now[0]:
            stack.enter_context(torch.inference_mode(modes[0]))
        if modes[2:] != now[2:]:
            for kind, (on, dtype) in zip(("cpu", "cuda"), modes[3:]):
                stack.enter_context(torch.autocast(kind, dtype=dtype, enabled=on, cache_enabled=modes[2]))
        if modes[1] != now[1]:
            torch.set_default_dtype(modes[1])
            stack.callback(torch.set_default_dtype, now[1])
        stack.enter_context(torch.set_grad_enabled(grad))
        yield


def _kind(t):
    """All of an input that a graph may depend on."""
    return type(t), t.shape, t.stride(), t.storage_offset(), t.dtype, t.device, t.requires_grad, t.is_leaf, t.is_conj(), t.is_neg(), t.is_inference()


class Piece:
    """The calls of a graph that is being written down, with the tensors that they read."""

    def __init__(self, capture):
        self.capture, self.calls, self.keys = capture, [], []
        self.inputs, self.number, self.twins, self.originals = [], {}, {}, {}
        self.waiting, self.shapes, self.writes = [], _Shapes(), False
        self.modes, self.grad = _modes(), torch.is_grad_enabled()

    # ---- what goes in ----

    def input(self, t):
        """The number of a tensor that no call of this piece made."""
        found = self.number.get(id(t))
        if found is None:
            if type(t) not in (_Tensor, torch.nn.Parameter) and not getattr(t, "_is_buffer", False) or t.layout is not torch.strided:
                raise NotInGraph("an argument of type %s, layout %s" % (type(t).__name__, t.layout))
            twin = self.twin(t)
            found = self.number[id(t)] = len(self.inputs)
            self.inputs.append(t)
            self.twins[id(t)], self.originals[id(twin)] = twin, t
        return found

    def twin(self, t):
        """A tensor without memory that is like t: also where t was computed, so that it may be changed in place."""
        fake = self.shapes.from_tensor(t.detach() if t.requires_grad and not t.is_leaf else t)
        if t.requires_grad and not t.is_leaf:
            with self.shapes, torch.enable_grad(), torch.inference_mode(False):
                fake.add_(torch.zeros((), dtype=t.dtype, device=t.device).requires_grad_())
        return fake

    def take(self, x):
        """(what stands in the key of the call, in the call itself, and in the run without memory) for an argument."""
        if isinstance(x, Waiting):
            if x._piece is not self:
                raise RuntimeError("a tensor has no values: the graph that was to make it has failed")
            ref = Ref("r", x._number)
            return ("r", x._number), ref, x
        if isinstance(x, _Tensor):
            number = self.input(x)
            return ("i", number), Ref("i", number), self.twins[id(x)]
        if isinstance(x, (tuple, list)):
            items = [self.take(item) for item in x]
            if hasattr(x, "_fields") or type(x) not in (tuple, list, torch.Size):
                raise NotInGraph("an argument of type %s" % type(x).__name__)
            kind = tuple if type(x) is torch.Size else type(x)
            return (kind, tuple(i[0] for i in items)), kind(i[1] for i in items), kind(i[2] for i in items)
        if type(x) is dict:
            items = {k: self.take(v) for k, v in x.items()}
            return (dict, tuple((k, v[0]) for k, v in items.items())), {k: v[1] for k, v in items.items()}, {k: v[2] for k, v in items.items()}
        if type(x) is slice:
            items = [self.take(item) for item in (x.start, x.stop, x.step)]
            return (slice, tuple(i[0] for i in items)), slice(*(i[1] for i in items)), slice(*(i[2] for i in items))
        if type(x) is float or type(x) is complex:
            return (type(x), repr(x)), x, x
        if isinstance(x, PLAIN):
            return (type(x), x), x, x
        raise NotInGraph("an argument of type %s" % type(x).__name__)

    # ---- what comes out ----

    def give(self, x, call, path):
        """What the program gets for a result of the run without memory."""
        if isinstance(x, FakeTensor):
            original = self.originals.get(id(x))
            if original is not None:
                return original
            if not isinstance(x, Waiting):
                x.__class__ = Waiting
                x._piece, x._number = self, len(self.waiting)
                call.results.append((path, x._number))
                self.waiting.append(weakref.ref(x))
            return x
        if isinstance(x, (tuple, list)) and type(x) is not torch.Size:
            items = [self.give(item, call, path + (i,)) for i, item in enumerate(x)]
            return type(x)(*items) if hasattr(x, "_fields") else type(x)(items)
        if type(x) is dict:
            return {k: self.give(v, call, path + (k,)) for k, v in x.items()}
        if isinstance(x, (*PLAIN, float, complex, torch.Size)):
            return x
        raise NotInGraph("a result of type %s" % type(x).__name__)

    def record(self, func, args, kwargs):
        """Writes a call down; what it returns, as far as that is known without values."""
        key, kept, fake = self.take((args, kwargs))
        if self.calls and _modes() != self.modes:
            raise NotInGraph("a change of a mode")
        shapes, grad = self.shapes, torch.is_grad_enabled()
        if not self.calls:
            self.modes = _modes()
        shapes.effects = 0
        with shapes:
            made = func(*fake[0], **fake[1])
        if shapes.effects & 1 and grad and any(t.requires_grad and t._is_view() for t in self.inputs):
            raise NotInGraph("a change in place, which views of tensors with gradients may refuse")
        call = Call(func, kept[0], kept[1], grad)
        made = self.give(made, call, ())
        if call.results or shapes.effects:
            self.calls.append(call)
            self.keys.append((func, key, grad))
            self.writes |= shapes.effects & 7 != 0
        return made


def _transformed():
    """Whether somebody else sees each call, and may make others of it."""
    return _functorch.levels or _functorch.depth[0] or _functorch.forward[0] or _C._len_torch_dispatch_stack()


class Capture(TorchFunctionMode):
    """One call of a compiled function."""

    def __init__(self, compiler, fn, args, kwargs):
        self.compiler, self.called, self.thread = compiler, (fn, args, kwargs), threading.get_ident()
        self.piece, self.busy = Piece(self), False

    def run(self):
        fn, args, kwargs = self.called
        _pending.open.append(self)
        try:
            with self:
                return fn(*args, **kwargs)
        finally:
            try:
                self.settle()
            finally:
                _pending.open.remove(self)
                self.called = None

    def __torch_function__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        if self.busy or func in ASKS or threading.get_ident() != self.thread:
            return func(*args, **kwargs)
        owner = getattr(func, "__self__", None) if getattr(func, "__name__", "") in ("__get__", "__set__", "__delete__") else None
        if owner is not None:
            return self.attribute(func, owner.__name__, args, kwargs)
        if func in READS:
            return self.at_once("Tensor.%s reads a value, which no graph has before it has run" % func.__name__, func, args, kwargs, func in CHOOSES and not _asserted())
        transformed = _transformed()
        kinds = [kind for kind in types if kind is not _Tensor]
        if kinds and func not in ALONE and not transformed and all(is_traceable_wrapper_subclass_type(kind) for kind in kinds):
            return self.by_classes(kinds, func, types, args, kwargs)
        if func in ALONE or kinds or transformed:
            return self.at_once("%s stands in no graph" % getattr(func, "__name__", func), func, args, kwargs, func in ALONE - FINE and not transformed)
        if func is _Tensor.__iter__:
            return iter(self.__torch_function__(_Tensor.unbind, types, args, kwargs))
        return self.write_down(func, args, kwargs)

    def by_classes(self, kinds, func, types, args, kwargs):
        """What classes of tensors that are made of others do for a call: the calls on those are seen."""
        with self:
            for kind in kinds:
                result = kind.__torch_function__(func, types, args, kwargs)
                if result is not NotImplemented:
                    return result
        raise TypeError("no implementation found for %s on types that implement __torch_function__: %s" % (getattr(func, "__name__", func), kinds))

    def attribute(self, func, name, args, kwargs):
        if func.__name__ == "__get__" and name in PROPERTIES:
            twin = self.piece.twins.get(id(args[0])) if self.piece.writes else None
            return func(twin if twin is not None else args[0], *args[1:], **kwargs)
        if func.__name__ == "__get__" and name in VIEWS:
            return self.write_down(getattr, (args[0], name), {})
        return self.at_once("Tensor.%s stands in no graph" % name, func, args, kwargs, name in ("grad_fn", "_grad_fn", "requires_grad") and not _transformed())

    def write_down(self, func, args, kwargs):
        try:
            self.busy = True
            return self.piece.record(func, args, kwargs)
        except (DataDependentOutputException, DynamicOutputShapeException):
            why, real = "%s depends on values, which no graph has before it has run" % getattr(func, "__name__", func), func is torch._assert
        except NotInGraph as limit:
            why, real = "%s: %s" % (getattr(func, "__name__", func), limit), False
        except Exception as error:  # whatever it is: the call itself is going to tell, or to succeed
            why, real = "%s: %s" % (getattr(func, "__name__", func), error), False
        finally:
            self.busy = False
        return self.at_once(why, func, args, kwargs, real)

    def at_once(self, why, func, args, kwargs, real=True):
        """Does a call when it is made, after those that wait."""
        self.stop(why, real)
        return func(*args, **kwargs)

    def stop(self, why, real=True):
        """A graph ends here. `real`: not for a limit of this capture."""
        if self.busy:
            return
        if real and self.compiler.fullgraph:
            self.piece = Piece(self)
            raise exc.Unsupported(why + _place())
        if self.piece.calls:
            self.compiler.breaks.append((why, _stack()))
        self.settle()

    @contextlib.contextmanager
    def paused(self):
        """Calls are done when they are made."""
        before, self.busy = self.busy, True
        try:
            yield
        finally:
            self.busy = before

    def settle(self):
        """Has what was written down done, and gives the results to the tensors that wait for them."""
        piece, self.piece = self.piece, Piece(self)
        if not piece.calls:
            return
        alive = [(t, n) for n, t in enumerate(ref() for ref in piece.waiting) if t is not None and not _C._is_let_go(t)]
        if not alive and not piece.writes:
            return
        with self.paused():
            run = self.compiler.compiled(piece, [n for _, n in alive], self.called)
            with _under(piece.modes, piece.grad):
                made = run(piece.inputs)
            _become([t for t, _ in alive], made, piece.inputs)


def _become(waiting, made, inputs):
    made = [made] if isinstance(made, _Tensor) else list(made)
    if len(made) != len(waiting):
        raise RuntimeError("the compiled graph returned %d results, not %d" % (len(made), len(waiting)))
    taken = {id(t) for t in inputs}
    for i, t in enumerate(waiting):
        real, made[i] = made[i], None
        if id(real) in taken or any(real is other for other in made):  # somebody else's, too
            real = real.view_as(real)
        taken.add(id(t))
        _C._swap_tensor_impl(t, real)
        for name in ("fake_mode", "constant", "_piece", "_number"):  # what the program has set itself stays
            t.__dict__.pop(name, None)
        t.__dict__.update(real.__dict__)
        t.__class__ = type(real)


def _place():
    stack = _stack()
    return "\n\nfrom user code:\n%s" % "".join(traceback.format_list(stack)) if stack else ""


def _asserted():
    """Whether the program asks for a truth in an `assert`."""
    frame = sys._getframe(2)
    while frame and frame.f_code.co_filename.startswith(torch.__path__[0]):
        frame = frame.f_back
    after = [i for i in dis.get_instructions(frame.f_code) if i.offset > frame.f_lasti and not i.opname.startswith(("POP_JUMP", "NOT_TAKEN"))] if frame else []
    return bool(after) and (after[0].opname == "LOAD_ASSERTION_ERROR" or after[0].opname == "LOAD_COMMON_CONSTANT" and "AssertionError" in after[0].argrepr)


def _stack():
    """The line of the program that is being run."""
    inside = torch.__path__[0]
    return [frame for frame in traceback.extract_stack() if not frame.filename.startswith((inside, "<frozen"))][-1:]


# ---- graphs ----

def _sources(fn, args, kwargs):
    """id of a tensor -> the name that its place in the program gives its input."""
    names = {}

    def note(x, name):
        if isinstance(x, _Tensor):
            names.setdefault(id(x), re.sub(r"\W", "_", name) + "_")
        elif isinstance(x, (list, tuple)):
            for i, item in enumerate(x):
                note(item, "%s_%d" % (name, i))
        elif isinstance(x, dict):
            for key, item in x.items():
                note(item, "%s_%s" % (name, key))
        elif isinstance(x, torch.nn.Module):
            for path, part in x.named_modules():
                inner = name + "".join("_modules_" + step for step in path.split(".") if step)
                for key, t in part._parameters.items():
                    note(t, "%s_parameters_%s" % (inner, key))
                for key, t in part._buffers.items():
                    note(t, "%s_buffers_%s" % (inner, key))
    run = fn.forward if isinstance(fn, torch.nn.Module) else fn
    code = getattr(run, "__code__", None)
    named = list(code.co_varnames[:code.co_argcount]) if code is not None else []
    if hasattr(run, "__self__"):
        note(run.__self__, "L_self")
        named = named[1:]
    for i, x in enumerate(args):
        note(x, "L_%s" % (named[i] if i < len(named) else "args_%d" % (i - len(named))))
    for key, x in kwargs.items():
        note(x, "L_" + key)
    for key, cell in zip(code.co_freevars if code else (), getattr(run, "__closure__", None) or ()):
        with contextlib.suppress(ValueError):  # an empty cell
            note(cell.cell_contents, "L_" + key)
    for key in code.co_names if code else ():
        note(getattr(run, "__globals__", {}).get(key), "G_" + key)
    return names


class _Builder:
    """A piece as an fx graph."""

    def __init__(self, piece, alive, called):
        self.graph, self.values, self.piece = torch.fx.Graph(), {}, piece
        names = _sources(*called)
        for number, t in enumerate(piece.inputs):
            name = names.get(id(t), "arg%d_" % number)
            node = self.graph.create_node("placeholder", name, name=name.lower())
            node.meta["example_value"] = piece.twins[id(t)]
            self.values["i", number] = node
        grad = piece.grad
        for call in piece.calls:
            if call.grad != grad:
                grad = call.grad
                self.graph.call_function(_C._set_grad_enabled, (grad,))
            self.add(call)
        if grad != piece.grad:
            self.graph.call_function(_C._set_grad_enabled, (piece.grad,))
        self.graph.output(tuple(self.values["r", n] for n in alive))

    def argument(self, x):
        if isinstance(x, Ref):
            return self.values[x.kind, x.number]
        if isinstance(x, (tuple, list)):
            return type(x)(self.argument(item) for item in x)
        if isinstance(x, dict):
            return {k: self.argument(v) for k, v in x.items()}
        if isinstance(x, slice):
            return slice(self.argument(x.start), self.argument(x.stop), self.argument(x.step))
        return x

    def add(self, call):
        args, kwargs, func = self.argument(call.args), self.argument(call.kwargs), call.func
        name = getattr(func, "__name__", "")
        method = getattr(func, "__objclass__", None) is not None or getattr(_Tensor, name, None) is func
        if method and name in REFLECTED:
            node = self.graph.call_function(REFLECTED[name], tuple(reversed(args)))
        elif method and name in OPERATORS and not kwargs and len(args) <= 2 + (name == "__setitem__"):
            node = self.graph.call_function(OPERATORS[name], args)
        elif method:
            node = self.graph.call_method(name, args, kwargs)
        else:
            node = self.graph.call_function(func, args, kwargs)
        for path, number in call.results:
            at = node
            for step in path:
                at = self.graph.call_function(operator.getitem, (at, step))
            self.values["r", number] = at
            example = self.piece.waiting[number]()
            if example is not None:
                at.meta["example_value"] = _like(self.piece, example)

    def module(self):
        return torch.fx.GraphModule(torch.nn.Module(), self.graph)


def _like(piece, waiting):
    """A fake tensor like one that waits, which will be something else soon."""
    with torch.no_grad(), piece.shapes:
        made = torch.empty_strided(waiting.size(), waiting.stride(), dtype=waiting.dtype, device=waiting.device)
    return made.requires_grad_(waiting.requires_grad)


_compilers = weakref.WeakSet()


def forget_all():
    """Drops the graphs of all compiled functions."""
    for compiler in list(_compilers):
        compiler.forget()


class GraphCompiler:
    """A backend, and the graphs of one function that it has compiled. Calls of the function are run by it."""

    def __init__(self, backend, fullgraph=False, options=None):
        self.backend, self.fullgraph, self.options = backend, fullgraph, options or {}
        self.forget()
        _compilers.add(self)

    def forget(self):
        self.known, self.alike, self.breaks = {}, {}, []

    def __call__(self, fn, args, kwargs):
        if _pending.capture() is not None or _C._len_torch_dispatch_stack() or _functorch.levels or _functorch.depth[0]:
            return fn(*args, **kwargs)
        return run_plainly(Capture(self, fn, args, kwargs).run, (), {})

    def compiled(self, piece, alive, called):
        """A function of the list of inputs, for the piece's calls."""
        key = (tuple(piece.keys), tuple(map(_kind, piece.inputs)), tuple(alive), piece.modes, piece.grad)
        found = self.known.get(key)
        if found is None:
            alike = tuple(call.func for call in piece.calls)
            count = self.alike[alike] = self.alike.get(alike, 0) + 1
            module = _Builder(piece, alive, called).module()
            found = self.known[key] = _caller(module.forward if count > config.recompile_limit else self.compile(module, piece.inputs))
        return found

    def compile(self, module, inputs):
        try:
            made = self.backend(module, list(inputs), **self.options)
        except Exception as error:
            if config.suppress_errors:
                return module.forward
            raise exc.BackendCompilerFailed(self.backend, error) from error
        if not callable(made):
            raise exc.BackendCompilerFailed(self.backend, AssertionError("compiler_fn did not return callable"))
        return made


def _caller(made):
    if getattr(made, "_boxed_call", False):
        return lambda inputs: made(list(inputs))
    return lambda inputs: made(*inputs)
