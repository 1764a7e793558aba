"""What torch.compile makes of functions and modules.

They run as they are, Python and all; but between entry and exit elementwise work on large tensors is put off, and whole chains
of it are done together over small blocks when a result is asked for (src/op/later.h). So nothing is traced or guarded, and
branches, side effects, errors and values are those of the plain call. Backends that are functions get graphs: capture.py.
"""
import functools

import rushlight as torch
from rushlight import _C, _pending


class Stance:
    """What torch.compiler.set_stance said last: whether compiled functions run as if they were not."""

    names = ("default", "eager_then_compile", "aot_eager_then_compile", "force_eager", "eager_on_recompile", "fail_on_recompile")
    now = "default"


# f, args, kwargs -> f(*args, **kwargs): with elementwise work put off while it runs; as it is
run_lazily, run_plainly = _C._run_lazily, _C._run_plainly


class RunWhole:
    """For fullgraph: the first call on arguments of each kind shows whether one graph could hold the function; the others are run by `run`."""

    def __init__(self, run):
        self.run, self.seen = run, set()

    def __call__(self, fn, args, kwargs):
        kinds = tuple((t.shape, t.dtype) if isinstance(t, torch.Tensor) else type(t) for t in torch.utils._pytree.tree_leaves((args, kwargs)))
        if kinds in self.seen:
            return self.run(fn, args, kwargs)
        from .capture import GraphCompiler
        result = self.run(GraphCompiler(lambda module, inputs: module.forward, fullgraph=True), (fn, args, kwargs), {})
        self.seen.add(kinds)
        return result


def compiled(fn, run=run_lazily):
    """The function that stands for fn: each call is run(fn, args, kwargs)."""
    @functools.wraps(fn, updated=())
    def stand_in(*args, **kwargs):
        return fn(*args, **kwargs) if Stance.now == "force_eager" else run(fn, args, kwargs)
    stand_in._torchdynamo_orig_callable = stand_in._torchdynamo_inline = fn
    return stand_in


def eagerly(fn, reason=None):
    """fn, with each operation done at its call, also inside functions that are compiled."""
    @functools.wraps(fn, updated=())
    def eager(*args, **kwargs):
        capture = _pending.capture()
        was, depth = _C._later_set(False), _C._set_compiling_depth(0)
        try:
            if capture is None:
                return fn(*args, **kwargs)
            capture.stop("%s is kept from the compiler%s" % (getattr(fn, "__qualname__", fn), ": " + reason if reason else ""))
            with capture.paused():
                return fn(*args, **kwargs)
        finally:
            _C._set_compiling_depth(depth)
            _C._later_set(was)
    eager._torchdynamo_orig_callable, eager._torchdynamo_disable = fn, True
    return eager


def aside(fn):
    """fn, whose calls are done when they are made, while those around it go on being written down."""
    @functools.wraps(fn, updated=())
    def call(*args, **kwargs):
        capture = _pending.capture()
        if capture is None:
            return fn(*args, **kwargs)
        with capture.paused():
            return fn(*args, **kwargs)
    return call


def whole(fn):
    """fn, of which a graph holds the call and not what it calls."""
    @functools.wraps(fn, updated=())
    def call(*args, **kwargs):
        capture = _pending.capture()
        return fn(*args, **kwargs) if capture is None or capture.busy else capture.write_down(fn, args, kwargs)
    return call


class OptimizedModule(torch.nn.Module):
    """A module that calls another and shows its attributes as its own."""

    def __init__(self, mod, dynamo_ctx=None):
        super().__init__()
        self._modules["_orig_mod"] = mod
        self.__dict__["dynamo_ctx"] = dynamo_ctx or run_lazily

    def forward(self, *args, **kwargs):
        return self._modules["_orig_mod"](*args, **kwargs) if Stance.now == "force_eager" else self.dynamo_ctx(self._modules["_orig_mod"], args, kwargs)

    @property
    def training(self):
        return self._modules["_orig_mod"].training

    @training.setter
    def training(self, mode):
        self._modules["_orig_mod"].training = mode

    def _within(self, name):
        """Whether an attribute is the other module's to hold."""
        own = self.__dict__
        return "_orig_mod" in own.get("_modules", ()) and name not in own and name != "_orig_mod" and not hasattr(type(self), name)

    def __getattr__(self, name):
        if self._within(name):
            return getattr(self._modules["_orig_mod"], name)
        return super().__getattr__(name)

    def __setattr__(self, name, value):
        if self._within(name):
            setattr(self._modules["_orig_mod"], name, value)
        else:
            super().__setattr__(name, value)

    def __delattr__(self, name):
        if self._within(name):
            delattr(self._modules["_orig_mod"], name)
        else:
            super().__delattr__(name)

    def __dir__(self):
        return sorted({*super().__dir__(), *dir(self._modules["_orig_mod"])})


def is_dynamo_supported():
    return False


def innermost_fn(fn):
    """The function that was compiled, through all wrappers."""
    while hasattr(fn, "_torchdynamo_orig_callable"):
        fn = fn._torchdynamo_orig_callable
    return fn
