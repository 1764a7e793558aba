"""Operations that take functions: run as they are called, and captured as graphs in graphs (export/_blocks.py)."""
import rushlight as torch
from rushlight import _pending
from rushlight._functions_first import functions_first
from rushlight._ops import HigherOrderOperator
from rushlight.utils import _pytree as pytree

__all__ = ["cond", "while_loop", "map", "scan", "associative_scan"]

_operators = {}


def operator_named(name):
    """torch.ops.higher_order.NAME as graphs call it, or None."""
    return _operators.get(name)


def _operator(fn):
    """Functions of flat operands and of graphs, which nodes of graphs call; they return tuples."""
    made = type(fn.__name__, (HigherOrderOperator,), {"__call__": lambda self, *args: fn(*args), "__doc__": fn.__doc__})(fn.__name__[1:])
    made.__module__ = "torch.ops.higher_order"
    _operators[made._name] = made
    setattr(torch.ops.higher_order, made._name, made)
    return fn


def _capturing():
    import sys
    capture = sys.modules.get("rushlight.export._capture")
    return capture is not None and capture.running() is not None


@_operator
def _cond(pred, true_graph, false_graph, operands):
    """true_graph or false_graph of the operands."""
    return tuple((true_graph if bool(pred) else false_graph)(*operands))


@_operator
def _while_loop(cond_graph, body_graph, carried, additional=()):
    """body_graph of what is carried as long as cond_graph of it holds."""
    carried = tuple(carried)

    def holds():
        found = cond_graph(*carried, *additional)
        return bool(found[0] if isinstance(found, (tuple, list)) else found)
    while holds():
        carried = tuple(body_graph(*carried, *additional))
    return carried


@_operator
def _scan(combine_graph, init, xs, additional=()):
    """The last carry and the stacked outputs of combine_graph along the first dimension of xs."""
    carry, rows = list(init), []
    for i in range(xs[0].shape[0]):
        found = combine_graph(*carry, *(x[i] for x in xs), *additional)
        carry, row = list(found[:len(carry)]), found[len(carry):]
        rows.append(row)
    return (*carry, *(torch.stack(parts) for parts in zip(*rows)))


@_operator
def _map_impl(graph, xs, additional=()):
    """graph of every slice along the first dimension of xs, stacked."""
    rows = [graph(*(x[i] for x in xs), *additional) for i in range(xs[0].shape[0])]
    return tuple(torch.stack(parts) for parts in zip(*rows))


@_operator
def _wrap_with_set_grad_enabled(enabled, graph, *operands):
    """graph of the operands, with gradients recorded or not."""
    with torch.set_grad_enabled(enabled):
        return tuple(graph(*operands))


def cond(pred, true_fn, false_fn, operands=()):
    """true_fn or false_fn of the operands, by a boolean or a tensor of one."""
    if isinstance(pred, torch.Tensor):
        if pred.numel() != 1:
            raise RuntimeError("Expected pred to be bool or tensor, but got %s." % (pred,))
        if _capturing():
            return _captured_cond(pred, true_fn, false_fn, operands)
        pred = _pending.truth(pred)
    if not isinstance(pred, bool):
        raise RuntimeError("Expected pred to be bool or tensor, but got %s." % (pred,))
    return true_fn(*operands) if pred else false_fn(*operands)


def _captured_cond(pred, true_fn, false_fn, operands):
    from rushlight.export._blocks import capture_functions
    leaves, spec = pytree.tree_flatten(tuple(operands))
    specs = []

    def flat(fn):
        def call(*x):
            found, out = pytree.tree_flatten(fn(*pytree.tree_unflatten(list(x), spec)))
            specs.append(out)
            return found
        return call
    true, false = flat(true_fn), flat(false_fn)
    results = capture_functions("cond", [(true, leaves), (false, leaves)], lambda: (true if bool(pred) else false)(*leaves), (pred, leaves))
    if specs[0] != specs[1]:
        raise RuntimeError("Unmatched output spec from torch.cond branches: true branch tree_spec %s vs false branch tree_spec %s." % (specs[0], specs[1]))
    return pytree.tree_unflatten(results, specs[0])


def while_loop(cond_fn, body_fn, carried_inputs):
    """body_fn of the carried values as long as cond_fn of them holds."""
    carried = tuple(carried_inputs)

    def body(*values):
        result = body_fn(*values)
        return result if isinstance(result, tuple) else tuple(result) if isinstance(result, list) else (result,)
    if _capturing():
        from rushlight.export._blocks import capture_functions
        leaves, spec = pytree.tree_flatten(carried)
        unflat = lambda f: lambda *x: pytree.tree_leaves(f(*pytree.tree_unflatten(list(x), spec)))
        held, turn = unflat(cond_fn), unflat(body)
        results = capture_functions("while_loop", [(held, leaves), (turn, leaves)], lambda: _while_loop(held, turn, leaves), (leaves,))
        return pytree.tree_unflatten(results, spec)
    while _pending.truth(cond_fn(*carried)):
        carried = body(*carried)
    return carried


def map(f, xs, *args):
    """f of every slice along the first dimension, stacked."""
    leaves, spec = pytree.tree_flatten(xs)
    if _capturing():
        from rushlight.export._blocks import capture_functions
        more, more_spec = pytree.tree_flatten(args)
        specs, n = [], len(leaves)

        def call(*x):
            found, out = pytree.tree_flatten(f(pytree.tree_unflatten(list(x[:n]), spec), *pytree.tree_unflatten(list(x[n:]), more_spec)))
            specs.append(out)
            return found
        results = capture_functions("map_impl", [(call, [leaf[0] for leaf in leaves] + more)], lambda: _map_impl(call, leaves, more), (leaves, more))
        return pytree.tree_unflatten(results, specs[0])
    rows = [f(pytree.tree_unflatten([leaf[i] for leaf in leaves], spec), *args) for i in range(leaves[0].shape[0])]
    return pytree.tree_map(lambda *parts: torch.stack(parts), *rows)


def scan(combine_fn, init, xs, *, dim=0, reverse=False):
    """(last carry, stacked outputs) of carry, y = combine_fn(carry, x) along a dimension."""
    leaves, spec = pytree.tree_flatten(xs)
    leaves = [leaf.movedim(dim, 0) for leaf in leaves]
    if _capturing():
        return _captured_scan(combine_fn, init, leaves, spec, reverse)
    steps = range(leaves[0].shape[0])
    carry, outputs = init, []
    for i in reversed(steps) if reverse else steps:
        carry, y = combine_fn(carry, pytree.tree_unflatten([leaf[i] for leaf in leaves], spec))
        outputs.append(y)
    if reverse:
        outputs.reverse()
    return carry, pytree.tree_map(lambda *parts: torch.stack(parts), *outputs)


def _captured_scan(combine_fn, init, leaves, spec, reverse):
    from rushlight.export._blocks import capture_functions
    carried, carry_spec = pytree.tree_flatten(init)
    n, specs = len(carried), []
    leaves = [leaf.flip(0) for leaf in leaves] if reverse else leaves

    def call(*x):
        carry, y = combine_fn(pytree.tree_unflatten(list(x[:n]), carry_spec), pytree.tree_unflatten(list(x[n:]), spec))
        found, out = pytree.tree_flatten(y)
        specs.append(out)
        return pytree.tree_leaves(carry) + found
    results = capture_functions("scan", [(call, carried + [leaf[0] for leaf in leaves])], lambda: _scan(call, carried, leaves), (carried, leaves))
    rows = [y.flip(0) for y in results[n:]] if reverse else results[n:]
    return pytree.tree_unflatten(results[:n], carry_spec), pytree.tree_unflatten(rows, specs[0])


def associative_scan(combine_fn, xs, dim, reverse=False, combine_mode="pointwise"):
    """All prefixes combined by an associative function."""
    leaves, spec = pytree.tree_flatten(xs)
    leaves = [leaf.movedim(dim, 0) for leaf in leaves]
    steps = list(range(leaves[0].shape[0]))
    if reverse:
        steps.reverse()
    outputs = []
    for i in steps:
        x = pytree.tree_unflatten([leaf[i] for leaf in leaves], spec)
        outputs.append(x if not outputs else combine_fn(outputs[-1], x))
    if reverse:
        outputs.reverse()
    return pytree.tree_map(lambda *parts: torch.stack(parts).movedim(0, dim), *outputs)


functions_first(__name__, "associative_scan", "cond", "foreach_map", "map", "scan", "while_loop")
