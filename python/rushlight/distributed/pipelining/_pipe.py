"""pipeline(): a whole model, traced and cut into stages.

The model runs once under the tracer of rushlight.fx; marks in the record say where it is cut. A stage gets all values that it or a later stage needs of
earlier ones, as its arguments, and returns those that later ones need. What is no tensor (a size) is the number that it was for the example.
"""
import dataclasses
import enum
import threading

import rushlight as torch
from rushlight import fx

from .stage import PipelineStage

__all__ = ["SplitPoint", "Pipe", "PipeInfo", "pipe_split", "pipeline", "build_stage"]

_now = threading.local()


class SplitPoint(enum.Enum):
    """Where a model is cut: before a module, or after it."""
    BEGINNING = 1
    END = 2


def pipe_split():
    """In a model's forward: here one stage ends and the next begins. No effect where the model just runs."""
    tracer = getattr(_now, "tracer", None)
    if tracer is not None:
        tracer.create_node("call_function", pipe_split, (), {})


class _Tracer(fx.Tracer):
    def __init__(self, split_spec):
        super().__init__()
        self.spec, self.met = split_spec, set()

    def call_module(self, m, forward, args, kwargs):
        path = self.path_of_module(m)
        where = self.spec.get(path)
        self.met.add(path)
        if where == SplitPoint.BEGINNING:
            pipe_split()
        out = super().call_module(m, forward, args, kwargs)
        if where == SplitPoint.END:
            pipe_split()
        return out


def _traced(module, split_spec):
    tracer = _Tracer(split_spec)
    _now.tracer = tracer
    try:
        graph = tracer.trace(module)
    finally:
        _now.tracer = None
    unknown = set(split_spec) - tracer.met
    if unknown:
        raise ValueError(f"pipeline: the model calls no module {sorted(unknown)[0]!r}")
    return graph


class _Values(fx.Interpreter):
    """Runs the graph and keeps what is no tensor."""

    def __init__(self, module):
        super().__init__(module)
        self.constants = {}

    def run_node(self, n):
        value = super().run_node(n)
        if not isinstance(value, torch.Tensor):
            self.constants[n] = value
        return value


def _stage_of(graph):
    """{node: number of its stage}, and how many there are."""
    stage, at = {}, 0
    for node in graph.nodes:
        if node.op == "call_function" and node.target is pipe_split:
            at += 1
        else:
            stage[node] = 0 if node.op == "placeholder" else at
    return stage, at + 1


def _is_constant(value):
    return isinstance(value, (int, float, bool, str, type(None), torch.Size, torch.dtype, torch.device)) or \
        isinstance(value, (tuple, list)) and all(map(_is_constant, value))


class _Cut:
    """Graphs of stages out of a graph of the whole."""

    def __init__(self, module, graph, constants):
        self.module, self.graph, self.constants = module, graph, constants
        self.stage, self.count = _stage_of(graph)
        self.needed = {}  # node -> the last stage that uses it
        for node in self.stage:
            for user in node.users:
                self.needed[node] = max(self.needed.get(node, 0), self.stage[user])

    def _carried(self, k):
        """Values of stages before k that k or a later one needs."""
        out = []
        for node, s in self.stage.items():
            if s < k <= self.needed.get(node, -1) and node.op != "get_attr" and node not in self.constants:
                out.append(node)
        return out

    def _resolve(self, made, env, node):
        """A node of the whole in a stage: here already, an attribute, or a constant."""
        if node in env:
            return env[node]
        if node.op == "get_attr":
            env[node] = made.node_copy(node)
            return env[node]
        value = self.constants.get(node)
        if node in self.constants and _is_constant(value):
            return value
        raise ValueError(f"pipeline: {node} is no tensor ({type(value).__name__}) and is used in another stage than the one that makes it")

    def graph_of(self, k):
        made, env = fx.Graph(), {}
        placeholders = [n for n in self.stage if n.op == "placeholder"] if k == 0 else self._carried(k)
        for node in placeholders:
            env[node] = made.node_copy(node) if k == 0 else made.placeholder(node.name)
        for node, s in self.stage.items():
            if s != k or node.op in ("placeholder", "get_attr", "output"):
                continue
            env[node] = made.node_copy(node, lambda n: self._resolve(made, env, n))
        if k + 1 == self.count:
            end = next(n for n in self.stage if n.op == "output")
            made.output(fx.node.map_arg(end.args[0], lambda n: self._resolve(made, env, n)))
        else:
            given = [self._resolve(made, env, n) for n in self._carried(k + 1)]
            made.output(given[0] if len(given) == 1 else tuple(given))
        return made


@dataclasses.dataclass
class PipeInfo:
    """About a whole model that was cut."""
    graph: object
    num_stages: int
    has_loss_and_backward: bool = False


class Pipe(torch.nn.Module):
    """A model cut into stages; called it runs all of them."""

    def __init__(self, module, graph, constants):
        super().__init__()
        cut = _Cut(module, graph, constants)
        self.num_stages, self.has_loss_and_backward = cut.count, False
        self._stage_modules = [fx.GraphModule(module, cut.graph_of(k)) for k in range(cut.count)]
        for k, stage in enumerate(self._stage_modules):
            stage.train(module.training)
            self.add_module(f"submod_{k}", stage)
        self._info = PipeInfo(graph, cut.count)

    def forward(self, *args, **kwargs):
        out = self._stage_modules[0](*args, **kwargs)
        for stage in self._stage_modules[1:]:
            out = stage(*out) if isinstance(out, tuple) else stage(out)
        return out

    def get_stage_module(self, stage_idx):
        if not 0 <= stage_idx < self.num_stages:
            raise ValueError(f"Invalid stage index {stage_idx}!")
        return self._stage_modules[stage_idx]

    def info(self):
        return self._info

    def build_stage(self, stage_index, device, group=None):
        """A PipelineStage of one of the stages, for this process."""
        return build_stage(self.get_stage_module(stage_index), stage_index, self._info, device, group)

    def print_readable(self):
        for stage in self._stage_modules:
            print(stage.code)


def pipeline(module, mb_args, mb_kwargs=None, split_spec=None, split_policy=None):
    """A model cut at the modules of split_spec ({path: SplitPoint}), or at calls of pipe_split(); mb_args are those of one microbatch."""
    if split_spec is not None and split_policy is not None:
        raise ValueError("Cannot specify both `split_spec` and `split_policy`. Please use only one of them.")
    if split_policy is not None:
        raise NotImplementedError("pipeline(split_policy=...): say where to cut by split_spec or pipe_split()")
    graph = _traced(module, split_spec or {})
    values = _Values(fx.GraphModule(module, graph))
    with torch.no_grad():
        values.run(*_bound(module, mb_args, mb_kwargs or {}))
    return Pipe(module, graph, values.constants)


def _bound(module, args, kwargs):
    """Arguments in the order of forward's parameters."""
    import inspect
    bound = inspect.signature(module.forward).bind(*args, **kwargs)
    bound.apply_defaults()
    return [*bound.args, *bound.kwargs.values()]


def build_stage(stage_module, stage_index, pipe_info, device, group=None):
    """A PipelineStage of a stage of a Pipe."""
    return PipelineStage(stage_module, stage_index, pipe_info.num_stages, device, group=group)
