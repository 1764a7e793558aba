"""torch.library.opcheck: tests of one operator, each with the arguments of one call."""
import rushlight as torch
from rushlight._library import fake_impl
from rushlight._library.custom_ops import CustomOpDef, PyOp
from rushlight.utils import _pytree as pytree


class OpCheckError(Exception):
    """A call did not pass a check, or passed it against what a dictionary of failures says."""


class _Operator:
    """An overload of the library's or of a program, called with all its arguments in the schema's order."""

    def __init__(self, overload):
        self.overload, self.schema, self.name = overload, overload._schema, overload.name()
        self.python = overload._op if isinstance(overload._op, PyOp) else None
        self._form = self.python or PyOp(overload.namespace, overload._schema)

    def bind(self, args, kwargs):
        return self._form.bind(args, kwargs)

    def run(self, values):
        args, kwargs = self._form.spread(values)
        return self.overload(*args, **kwargs)


def _tensors(tree):
    return [x for x in pytree.tree_leaves(tree) if isinstance(x, torch.Tensor)]


def _copies(values):
    return pytree.tree_map_only(torch.Tensor, lambda t: t.detach().clone().requires_grad_(t.requires_grad), values)


def test_schema(op, args, kwargs, **unused):
    """Only arguments that the schema marks as written change, and no result is an argument unless it says so."""
    values = _copies(op.bind(args, kwargs))
    before = _copies(values)
    with torch.no_grad():
        result = op.run(values)
    for argument, old, new in zip(op.schema.arguments, before, values):
        same = all(torch.equal(a, b) or a.isnan().any() for a, b in zip(_tensors(old), _tensors(new)))
        if not same and not argument.is_write:
            raise RuntimeError("Argument %s is not defined as mutable but was mutated" % argument.name)
    mine = {t.untyped_storage().data_ptr(): argument for argument, value in zip(op.schema.arguments, values) for t in _tensors(value) if t.numel()}
    for t in _tensors(result):
        argument = mine.get(t.untyped_storage().data_ptr()) if t.numel() else None
        if argument is not None and argument.alias_info is None:
            raise RuntimeError("Argument %s is not defined to alias output but was aliasing" % argument.name)


def test_autograd_registration(op, args, kwargs, **unused):
    """Derivatives stand above the kernels (register_autograd): what runs below them records nothing."""
    values = _copies(op.bind(args, kwargs))
    own = op.python
    if own is None or own.custom or own.backward is not None or op.schema.is_mutable or not any(t.requires_grad for t in _tensors(values)):
        return
    if any(key.startswith("Autograd") or key == "CompositeImplicitAutograd" for key in own.kernels):
        return
    given = {id(t) for t in _tensors(values)}
    if any(t.requires_grad and id(t) not in given for t in _tensors(own.compute(values))):
        raise AssertionError("%s: at least one output of this operator has requires_grad=True but the operator does not have an autograd kernel defined at an autograd "
                             "key (e.g. DispatchKey::Autograd). This could mean that you have incorrectly registered an autograd kernel to a non-Autograd DispatchKey, "
                             "which may lead to silently incorrect results. If your operator consists of regular PyTorch operations, consider not using an operator at "
                             "all or registering your operator as CompositeImplicitAutograd. If you have an autograd.Function registered to a backend (CPU/CUDA/XPU) "
                             "key, the correct location for it is the Autograd key." % op.name)


def test_faketensor(op, args, kwargs, **unused):
    """The results' shapes, dtypes and strides are known without data, but for sizes that the fake function says to depend on it."""
    values = op.bind(args, kwargs)
    with torch.no_grad():
        real = op.run(_copies(values))
        before, fake_impl.standing = fake_impl.standing, []
        try:
            fake = op.run(pytree.tree_map_only(torch.Tensor, lambda t: t.detach().to("meta"), values))
        finally:
            unknown, fake_impl.standing = fake_impl.standing, before
    compared = "When comparing the output of %s on FakeTensor and concrete Tensors, found mismatch" % op.overload
    real, fake = _tensors(real), _tensors(fake)
    if len(real) != len(fake):
        raise AssertionError("%s in number of returns %d != %d" % (compared, len(fake), len(real)))
    for a, b in zip(real, fake):
        free = any(n in unknown for n in b.shape)
        if len(a.shape) != len(b.shape) or any(n != m and m not in unknown for n, m in zip(a.shape, b.shape)):
            raise AssertionError("%sed tensor metadata: Shapes %s and %s are not equal!" % (compared, a.shape, b.shape))
        if a.dtype != b.dtype:
            raise AssertionError("%sed tensor metadata: Dtypes %s and %s are not equal!" % (compared, a.dtype, b.dtype))
        other = next((i for i, n in enumerate(a.shape) if n > 1 and a.stride(i) != b.stride(i)), None) if not free and a.numel() else None
        if other is not None:
            raise AssertionError("%sed tensor metadata: Stride mismatch! Strides are %s and %s (mismatched at %d)!" % (compared, a.stride(), b.stride(), other))


def test_aot_dispatch_dynamic(op, args, kwargs, *, atol=None, rtol=None):
    """Traced into a graph together with its gradients, it computes what it computes outside of one."""
    from rushlight.fx.experimental.proxy_tensor import make_fx
    values = op.bind(args, kwargs)
    leaves, spec = pytree.tree_flatten(values)
    places = [i for i, x in enumerate(leaves) if isinstance(x, torch.Tensor)]
    if not places:
        return

    def compute(*given):
        mine = [t.detach().clone().requires_grad_(t.requires_grad) for t in given]
        full = list(leaves)
        for i, t in zip(places, mine):
            full[i] = t.detach() if op.schema.is_mutable else t
        arguments = pytree.tree_unflatten(full, spec)
        results = _tensors(op.run(arguments)) + _tensors([t for t, a in zip(arguments, op.schema.arguments) if a.is_write])
        roots = [t for t in results if t.requires_grad and t.grad_fn is not None]
        wanted = [t for t in mine if t.requires_grad]
        grads = torch.autograd.grad([t.sum() for t in roots], wanted, allow_unused=True) if roots and wanted else ()
        return [t.detach() for t in results] + [g for g in grads if g is not None]

    given = [leaves[i] for i in places]
    graph = make_fx(compute)(*given)
    drawn = torch.get_rng_state()
    expected = compute(*given)
    torch.set_rng_state(drawn)
    traced = graph(*given)
    tolerances = {} if atol is None and rtol is None else {"atol": atol or 0, "rtol": rtol or 0}
    for a, b in zip(traced, expected):
        torch.testing.assert_close(a, b, **tolerances)


TESTS = {"test_schema": test_schema, "test_autograd_registration": test_autograd_registration, "test_faketensor": test_faketensor,
         "test_aot_dispatch_static": test_aot_dispatch_dynamic, "test_aot_dispatch_dynamic": test_aot_dispatch_dynamic}   # sizes are numbers in either


def opcheck(op, args, kwargs=None, *, test_utils=("test_schema", "test_autograd_registration", "test_faketensor", "test_aot_dispatch_dynamic"),
            raise_exception=True, atol=None, rtol=None):
    """Check an operator: schema honoured, gradients recorded above the kernels, fake results like real ones, traced as it runs.

    The names of the tests come back, each with "SUCCESS" or, if not raise_exception, the error."""
    if (atol is None) != (rtol is None):
        raise ValueError("opcheck(op, ...): if you specify one of atol/rtol, you must specify both")
    if isinstance(op, CustomOpDef):
        op = op._opoverload
    elif isinstance(op, torch._ops.OpOverloadPacket):
        if len(op.overloads()) > 1:
            raise RuntimeError("opcheck can only test operators without overloads. Got the following overloads for %s: %s" % (op._qualified_op_name, op._overload_names))
        op = getattr(op, op.overloads()[0])
    if not isinstance(op, torch._ops.OpOverload):
        raise ValueError("opcheck(op, ...): op must be instance of torch._ops.OpOverload, e.g. torch.ops.aten.sin.default, got %s" % type(op))
    chosen = (test_utils,) if isinstance(test_utils, str) else tuple(test_utils)
    if not isinstance(test_utils, (tuple, list, set, str)) or not set(chosen) <= set(TESTS):
        raise ValueError("opcheck(op, ..., test_utils=%s), expected test_utils to be subset of %s but it was not" % (test_utils, tuple(TESTS)))
    operator, results = _Operator(op), {}
    for name in chosen:
        try:
            TESTS[name](operator, args, kwargs or {}, atol=atol, rtol=rtol)
            results[name] = "SUCCESS"
        except Exception as error:
            if raise_exception:
                raise OpCheckError("opcheck(op, ...): %s failed with %s (scroll up for stack trace)" % (name, error)) from error
            results[name] = error
    return results
