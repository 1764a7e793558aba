"""What nested tensors of both layouts have in common: one dense tensor holds the elements, and everything runs on it.

The object itself has sizes and no memory. Its history is that of the dense tensor below: operations reach
__torch_dispatch__, where the rules of the layout run them on the dense tensor *recorded*, so there is no derivative
of a nested operation anywhere. requires_grad, grad, hooks and backward ask the dense tensor, too.
"""
import sys

import rushlight as torch

FIRST = 1 << 32  # what C sees as the size of a ragged dimension: FIRST and the number of its nested int


class NestedInt(torch.SymInt):
    """The size of a ragged dimension, j1: equal to itself only, not less than 2, and no number otherwise."""

    __slots__ = ("number", "coeff")

    def __init__(self, number, coeff=1):
        self.number, self.coeff = number, coeff

    node = property(lambda self: self)

    def __repr__(self):
        return "j%d" % self.number if self.coeff == 1 else "%d*j%d" % (self.coeff, self.number)

    def __hash__(self):
        return hash((self.number, self.coeff))

    def __eq__(self, other):
        return isinstance(other, NestedInt) and (self.number, self.coeff) == (other.number, other.coeff)

    def __mul__(self, other):
        return NestedInt(self.number, self.coeff * other) if isinstance(other, int) else self._no_number("mul")

    __rmul__ = __mul__

    def __ge__(self, other):
        if isinstance(other, NestedInt) and other.number == self.number:
            return self.coeff >= other.coeff
        if isinstance(other, int) and other <= 2:
            return True
        raise ValueError("ge: relation is indeterminate")

    def __gt__(self, other):
        if isinstance(other, NestedInt) and other.number == self.number:
            return self.coeff > other.coeff
        if isinstance(other, int) and other < 2:
            return True
        raise ValueError("ge: relation is indeterminate")

    def __le__(self, other):
        return not self > other

    def __lt__(self, other):
        return not self >= other

    def __bool__(self):
        return True

    def __index__(self):
        raise RuntimeError("%s is the size of a ragged dimension: a concrete integer was expected" % self)

    def _no_number(self, what):
        raise AttributeError("'NestedIntNode' object has no attribute '%s'" % what)


for _name in ("add", "sub", "mod", "neg", "floordiv", "truediv", "int", "float"):
    setattr(NestedInt, "__%s__" % _name, lambda self, *other, name=_name: self._no_number(name))


def code(size):
    """A size as C has it."""
    return FIRST + size.number if isinstance(size, NestedInt) else size


def is_ragged(size):
    return isinstance(size, NestedInt) or size >= FIRST


class _Hooked:
    """A tensor hook that sees gradients as nested tensors."""

    def __init__(self, nested, hook):
        self.nested, self.hook = nested, hook

    def __call__(self, grad):
        result = self.hook(self.nested._like(grad))
        return result._dense if isinstance(result, NestedBase) else result


class NestedBase(torch.Tensor):
    """_dense holds the elements; _like(dense) is a nested tensor of the same structure over other elements."""

    @staticmethod
    def _make(cls, dense, sizes):
        x = torch.Tensor._make_wrapper_subclass(cls, [code(s) for s in sizes], dtype=dense.dtype, device=dense.device, layout=cls._layout)
        x._dense, x._sizes = dense, tuple(sizes)
        return x

    # ---- what it tells

    _history_below = True  # operations are recorded where they run
    is_nested = True
    layout = property(lambda self: self._layout)
    requires_grad = property(lambda self: self._dense.requires_grad, lambda self, on: setattr(self._dense, "requires_grad", on))
    is_leaf = property(lambda self: self._dense.is_leaf)
    grad_fn = property(lambda self: self._dense.grad_fn)
    nbytes = property(lambda self: self._dense.nbytes)
    data = property(lambda self: self.detach())

    @property
    def grad(self):
        g = self._dense.grad
        return g if g is None else self._like(g)

    @grad.setter
    def grad(self, value):
        self._dense.grad = value._dense if isinstance(value, NestedBase) else value

    def numel(self):
        return self._dense.numel()

    nelement = numel

    def item(self):
        raise RuntimeError("a Tensor with %d elements cannot be converted to Scalar" % self.numel())

    def apply_(self, callable):
        self._dense.apply_(callable)
        return self

    def untyped_storage(self):
        return self._dense.untyped_storage()

    # ---- history

    def requires_grad_(self, requires_grad=True):
        self._dense.requires_grad_(requires_grad)
        return self

    def detach(self):
        return self._like(self._dense.detach())

    def detach_(self):
        self._dense.detach_()
        return self

    def retain_grad(self):
        self._dense.retain_grad()

    def register_hook(self, hook):
        return self._dense.register_hook(_Hooked(self, hook))

    def backward(self, gradient=None, retain_graph=None, create_graph=False, inputs=None):
        torch.autograd.backward(self, gradient, retain_graph, create_graph, inputs=inputs)

    def __deepcopy__(self, memo):
        if not self.is_leaf:
            raise RuntimeError("Only Tensors created explicitly by the user (graph leaves) support the deepcopy protocol at the moment.")
        if id(self) not in memo:
            dense = self._dense.detach().clone().requires_grad_(self.requires_grad)
            memo[id(self)] = self._like(dense)
        return memo[id(self)]

    def __hash__(self):
        return id(self)

    # ---- operations

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        if func is torch.autograd.grad:
            return _grad(*args, **kwargs)
        rule = cls._above.get(getattr(func, "__name__", None))
        with torch._C.DisableTorchFunctionSubclass():
            return rule(func, *args, **kwargs or {}) if rule else func(*args, **kwargs or {})

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        with torch._C.DisableTorchFunctionSubclass():
            return cls._run(func, args, kwargs or {})


def apply_function(cls, args):
    """A custom Function of nested tensors: recorded for the dense ones; the class's own methods see nested tensors and gradients."""
    shells = {}  # of the arguments (by place) and results (by place, "out"): structure without elements

    def up(things, key):
        return tuple(shells[key(i)]._like(t) if key(i) in shells and t is not None else t for i, t in enumerate(things))

    def down(things, key=None):
        single = not isinstance(things, tuple)
        things = (things,) if single else things
        for i, t in enumerate(things):
            if isinstance(t, NestedBase) and key:
                shells[key(i)] = t._like(t._dense.new_empty((0,) * t._dense.dim()))
        return dense(things)[0] if single else dense(things)
    inside, outside = lambda i: i, lambda i: (i, "out")
    below = down(tuple(args), inside)

    def forward(ctx, *given):
        return down(cls.forward(ctx, *up(given, inside)), outside)

    def forward_alone(*given):
        return down(cls.forward(*up(given, inside)), outside)

    def setup_context(ctx, inputs, output):
        result = up(output if isinstance(output, tuple) else (output,), outside)
        cls.setup_context(ctx, up(inputs, inside), result if isinstance(output, tuple) else result[0])

    def backward(ctx, *grads):
        return down(cls.backward(ctx, *up(grads, outside)))
    methods = {"forward": staticmethod(forward), "backward": staticmethod(backward)}
    if torch.autograd.function._is_setup_context_defined(cls.setup_context):
        methods.update(forward=staticmethod(forward_alone), setup_context=staticmethod(setup_context))
    result = type(cls.__name__, (cls,), methods).apply(*below)
    raised = up(result if isinstance(result, tuple) else (result,), outside)
    return raised if isinstance(result, tuple) else raised[0]


def dense(things):
    """The tensors, with dense ones in place of nested ones."""
    return tuple(t._dense if isinstance(t, NestedBase) else t for t in things)


def _grad(outputs, inputs, grad_outputs=None, **options):
    """autograd.grad of the dense tensors; gradients of nested inputs are nested."""
    given = grad_outputs if isinstance(grad_outputs, (list, tuple)) or grad_outputs is None else (grad_outputs,)
    result = torch.autograd.grad(dense(outputs), dense(inputs), given and dense(given), **options)
    return tuple(x._like(g) if isinstance(x, NestedBase) and g is not None else g for x, g in zip(inputs, result))


torch.autograd.function._below = sys.modules[__name__]
