"""Operations on functions while a program is captured: each function becomes a graph of its own.

A function is run once on the values that it would get, and its calls are written down; the tensors that it takes from around it are
handed to it as operands more.
"""
import rushlight as torch
from rushlight import _C
from rushlight.utils import _pytree as pytree

from ._capture import Builder, Differs, Run, running, without_dead


def _alone(leaves):
    """Tensors that are nobody else's: results, and what a function is given."""
    return [leaf.clone() if isinstance(leaf, torch.Tensor) else leaf for leaf in leaves]


def capture_functions(name, functions, run, leads=()):
    """Tells the run that is captured of a call `name` of [(function, flat operands, how to call it)].

    All functions have the same flat operands. `run()` computes the results, flat; `leads` are values in front of the operands.
    """
    outer = running()

    def work():
        blocks = []
        for function, operands in functions:
            block = Run(operands)
            block.within = True
            block.sizes = {i: None for i, e in outer.sizes.items() if e is None or any(isinstance(n, (str, tuple)) for n in e)}
            block.operands = operands
            block.capture(lambda *x, f=function: pytree.tree_leaves(f(*x)), tuple(operands), {})
            blocks.append(block)
        return blocks, _alone(run())
    blocks, results = _C._capture_paused(work)
    free = {}
    for block in blocks:
        made = set()
        for call in block.calls:
            for t in pytree.tree_leaves((call.args, call.kwargs)):
                if isinstance(t, torch.Tensor) and id(t) in block.fresh and id(t) in outer.seen:
                    free[id(t)] = t
            made.update(id(t) for t in pytree.tree_leaves(call.results))
        for t in block.result:
            if isinstance(t, torch.Tensor) and id(t) not in made and id(t) in outer.seen:
                free[id(t)] = t
    outer.add(name, (list(leads), list(free.values())), {"blocks": blocks}, tuple(results), torch.is_grad_enabled())
    return results


def build(builder, calls):
    """The node of such a call."""
    first = calls[0]
    name, (leads, free) = first.func, first.args
    frees = [c.args[1] for c in calls]
    if any(len(f) != len(free) for f in frees):
        raise Differs("what a function takes from around it")
    graphs = []
    for i in range(len(first.kwargs["blocks"])):
        graphs.append(_block(builder, [c.kwargs["blocks"][i] for c in calls], frees, name, i))
    values = builder.argument([c.args[0] for c in calls], first.grad)
    extra = tuple(builder.argument(frees, first.grad))
    if name == "cond":
        args = (values[0], *graphs, (*values[1], *extra))
    elif name == "while_loop":
        args = (*graphs, tuple(values[0]), extra)
    else:
        args = (*graphs, list(values[0]), list(values[1]), extra) if name == "scan" else (*graphs, list(values[0]), [*values[1], *extra])
    from rushlight._higher_order_ops import operator_named
    return builder.graph.call_function(operator_named(name), args, name=name)


_NAMES = {"cond": ("true_graph", "false_graph"), "while_loop": ("while_loop_cond_graph", "while_loop_body_graph"), "scan": ("scan_combine_graph",), "map_impl": ("body_graph",)}


def _block(builder, runs, frees, name, i):
    b = Builder(runs, builder.sizes, builder)
    operands = [run.operands + list(free) for run, free in zip(runs, frees)]
    for k in range(len(operands[0])):
        b.placeholder("arg%d_1" % k, [o[k] for o in operands])
    b.build()
    results = [b.argument([run.result[k] for run in runs]) for k in range(len(runs[0].result))]
    results = [b.graph.call_function(torch.ops.aten.clone.default, (r,), name="clone") if isinstance(r, torch.fx.Node) and r.op == "placeholder" else r for r in results]
    for r in results:
        if r.op == "call_function" and not r.meta.get("tensor"):
            r.meta.update({k: v for k, v in r.args[0].meta.items() if k in ("tensor", "val")})
    b.graph.output(tuple(results))
    without_dead(b.graph)
    for node in list(b.graph.nodes):
        if node.op == "get_attr" and node.meta.get("constant"):
            raise Differs("a function that makes a tensor of numbers: make it outside of the function")
    root = torch.nn.Module()
    for inner, block in b.blocks.items():
        root.add_module(inner, block)
    count = sum(n.rsplit("_", 1)[0] == _NAMES[name][i] for n in builder.blocks)
    label = "%s_%d" % (_NAMES[name][i], count)
    builder.blocks[label] = torch.fx.GraphModule(root, b.graph)
    return builder.graph.get_attr(label)
