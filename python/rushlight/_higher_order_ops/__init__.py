"""Operations that take functions, run eagerly."""
import rushlight as torch

__all__ = ["cond", "while_loop", "map", "scan", "associative_scan"]


def cond(pred, true_fn, false_fn, operands=()):
    """true_fn or false_fn of the operands, by a boolean or a tensor of one."""
    if isinstance(pred, torch.Tensor):
        if pred.numel() != 1:
            raise RuntimeError("Expected pred to be bool or tensor, but got %s." % (pred,))
        pred = bool(pred)
    if not isinstance(pred, bool):
        raise RuntimeError("Expected pred to be bool or tensor, but got %s." % (pred,))
    return true_fn(*operands) if pred else false_fn(*operands)


def while_loop(cond_fn, body_fn, carried_inputs):
    """body_fn of the carried values as long as cond_fn of them holds."""
    carried = tuple(carried_inputs)
    while bool(cond_fn(*carried)):
        result = body_fn(*carried)
        carried = result if isinstance(result, tuple) else tuple(result) if isinstance(result, list) else (result,)
    return carried


def map(f, xs, *args):
    """f of every slice along the first dimension, stacked."""
    tree = torch.utils._pytree
    leaves, spec = tree.tree_flatten(xs)
    rows = [f(tree.tree_unflatten([leaf[i] for leaf in leaves], spec), *args) for i in range(leaves[0].shape[0])]
    return tree.tree_map(lambda *parts: torch.stack(parts), *rows)


def scan(combine_fn, init, xs, *, dim=0, reverse=False):
    """(last carry, stacked outputs) of carry, y = combine_fn(carry, x) along a dimension."""
    tree = torch.utils._pytree
    leaves, spec = tree.tree_flatten(xs)
    leaves = [leaf.movedim(dim, 0) for leaf in leaves]
    steps = range(leaves[0].shape[0])
    carry, outputs = init, []
    for i in reversed(steps) if reverse else steps:
        carry, y = combine_fn(carry, tree.tree_unflatten([leaf[i] for leaf in leaves], spec))
        outputs.append(y)
    if reverse:
        outputs.reverse()
    return carry, tree.tree_map(lambda *parts: torch.stack(parts), *outputs)


def associative_scan(combine_fn, xs, dim, reverse=False, combine_mode="pointwise"):
    """All prefixes combined by an associative function."""
    tree = torch.utils._pytree
    leaves, spec = tree.tree_flatten(xs)
    leaves = [leaf.movedim(dim, 0) for leaf in leaves]
    steps = list(range(leaves[0].shape[0]))
    if reverse:
        steps.reverse()
    outputs = []
    for i in steps:
        x = tree.tree_unflatten([leaf[i] for leaf in leaves], spec)
        outputs.append(x if not outputs else combine_fn(outputs[-1], x))
    if reverse:
        outputs.reverse()
    return tree.tree_map(lambda *parts: torch.stack(parts).movedim(0, dim), *outputs)
