"""The tests of torch.library.opcheck, each of one operator (a PyOp) and the arguments of one call."""
import rushlight as torch
from rushlight._library import fake_impl
from rushlight.library import opcheck
from rushlight.testing._internal.optests.generate import OpCheckError, dontGenerateOpCheckTests, generate_opcheck_tests, is_inside_opcheck_mode
from rushlight.utils import _pytree as pytree

__all__ = ["opcheck", "generate_opcheck_tests", "dontGenerateOpCheckTests", "is_inside_opcheck_mode", "OpCheckError", "test_schema", "test_autograd_registration", "test_faketensor", "test_aot_dispatch_dynamic"]


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
    mine = {t.data_ptr(): argument for argument, value in zip(op.schema.arguments, values) for t in _tensors(value) if t.numel()}
    for t in _tensors(result):
        argument = mine.get(t.data_ptr()) if t.numel() else None
        if argument is not None and argument.alias_info is None:
            raise RuntimeError("Argument %s is not defined to alias output but was aliasing" % argument.name)


def test_autograd_registration(op, args, kwargs, **unused):
    """Derivatives stand above the kernels (register_autograd): what runs below them records nothing."""
    values = _copies(op.bind(args, kwargs))
    if op.schema.is_mutable or not any(t.requires_grad for t in _tensors(values)):
        return
    with torch.no_grad():
        below = op.compute(values)
    if any(t.requires_grad for t in _tensors(below)):
        raise AssertionError("%s: a kernel records gradients itself. Register the derivative with torch.library.register_autograd, or the "
                             "implementation for CompositeImplicitAutograd" % op.name)


def test_faketensor(op, args, kwargs, **unused):
    """The results' shapes, dtypes and strides are known without data, but for sizes that the fake function says to depend on it."""
    values = op.bind(args, kwargs)
    with torch.no_grad():
        real = op.compute(_copies(values))
        before, fake_impl.standing = fake_impl.standing, []
        try:
            fake = op.compute(pytree.tree_map_only(torch.Tensor, lambda t: t.detach().to("meta"), values))
        finally:
            unknown, fake_impl.standing = fake_impl.standing, before
    for a, b in zip(_tensors(real), _tensors(fake)):
        free = len(a.shape) == len(b.shape) and any(n in unknown for n in b.shape)
        same = all(m in unknown or n == m for n, m in zip(a.shape, b.shape)) if free else a.shape == b.shape and a.stride() == b.stride()
        if not same or a.dtype != b.dtype:
            raise AssertionError("%s: the fake result has %s %s %s, the real one %s %s %s"
                                 % (op.name, b.shape, b.dtype, b.stride(), a.shape, a.dtype, a.stride()))
    if len(_tensors(real)) != len(_tensors(fake)):
        raise AssertionError("%s: the fake function returns %d tensors, the real one %d" % (op.name, len(_tensors(fake)), len(_tensors(real))))


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
    expected = compute(*given)
    traced = make_fx(compute)(*given)(*given)
    tolerances = {} if atol is None and rtol is None else {"atol": atol or 0, "rtol": rtol or 0}
    for a, b in zip(traced, expected):
        torch.testing.assert_close(a, b, **tolerances)
