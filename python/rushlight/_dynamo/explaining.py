"""torch._dynamo.explain: the graphs that a function's call gives, and where they end because Python reads a value."""
from rushlight import _pending


class GraphCompileReason:
    """Why a graph ended: what was called, and where the program stood."""

    def __init__(self, reason, user_stack, graph_break=True):
        self.reason, self.user_stack, self.graph_break = reason, user_stack, graph_break

    def __repr__(self):
        return f"GraphCompileReason(reason={self.reason!r}, user_stack={self.user_stack}, graph_break={self.graph_break})"


class ExplainOutput:
    """What explain found: the graphs, numbers of them, of breaks between them and of calls, the calls of each graph, the reasons."""

    def __init__(self, graphs, break_reasons):
        self.graphs, self.break_reasons, self.out_guards, self.compile_times = graphs, break_reasons, [], None
        self.ops_per_graph = [[node.target for node in graph.graph.nodes if node.op.startswith("call")] for graph in graphs]
        self.graph_count, self.graph_break_count, self.op_count = len(graphs), len(graphs) - 1, sum(map(len, self.ops_per_graph))

    def __str__(self):
        lines = [f"Graph Count: {self.graph_count}", f"Graph Break Count: {self.graph_break_count}", f"Op Count: {self.op_count}", "Break Reasons:"]
        for number, why in enumerate(self.break_reasons, 1):
            lines += [f"  Break Reason {number}:", f"    Reason: {why.reason}", "    User Stack:", *(f"      {frame}" for frame in why.user_stack)]
        lines.append("Ops per Graph:")
        for number, calls in enumerate(self.ops_per_graph, 1):
            lines += [f"  Ops {number}:", *(f"    {function}" for function in calls)]
        return "\n".join(lines) + "\n"


def explain(f, *extra_args, **extra_kwargs):
    """A function of f's arguments that calls f and returns an ExplainOutput."""
    def inner(*args, **kwargs):
        from .capture import GraphCompiler
        from .eval_frame import innermost_fn
        graphs = []

        def keep(module, inputs):
            graphs.append(module)
            return module.forward
        compiler = GraphCompiler(keep)
        compiler(innermost_fn(getattr(f, "_orig_mod", f)), args, kwargs)
        return ExplainOutput(graphs, [GraphCompileReason(why, stack) for why, stack in compiler.breaks][:max(len(graphs) - 1, 0)])
    return inner(*extra_args, **extra_kwargs) if extra_args or extra_kwargs else inner


def graph_break(msg=""):
    """Ends the graph that is being written down; anywhere else nothing."""
    _pending.settle(f"Call to `torch._dynamo.graph_break()`{': ' + msg if msg else ''}")
