"""Interpreter: runs a graph node by node; Transformer: runs it to make another graph."""
import inspect

import rushlight as torch
from rushlight.fx.graph import Graph
from rushlight.fx.graph_module import GraphModule
from rushlight.fx.node import Node, map_aggregate, map_arg
from rushlight.fx.proxy import Proxy
from rushlight.fx._symbolic_trace import Tracer

__all__ = ["Interpreter", "Transformer"]


class Interpreter:
    """run(*args): executes the graph; override call_function and the like to change what nodes do."""

    def __init__(self, module, garbage_collect_values=True, graph=None):
        self.module = module
        self.submodules = dict(self.module.named_modules())
        self.graph = self.module.graph if graph is None else graph
        self.env = {}
        self.name = "Interpreter"
        self.garbage_collect_values = garbage_collect_values
        self.extra_traceback = True
        if garbage_collect_values:
            last_use = {}
            self.user_to_last_uses = {}

            def mark(value, user):
                if value not in last_use:
                    last_use[value] = user
                    self.user_to_last_uses.setdefault(user, []).append(value)
            for node in reversed(self.graph.nodes):
                for value in node._input_nodes:
                    mark(value, node)

    def run(self, *args, initial_env=None, enable_io_processing=True):
        """The graph's output for these inputs; initial_env gives values of nodes that need not be computed."""
        self.env = initial_env if initial_env is not None else {}
        if enable_io_processing:
            args = self.graph.process_inputs(*args)
        self.args_iter = iter(args)
        for node in self.graph.nodes:
            if node in self.env:
                continue
            try:
                self.env[node] = self.run_node(node)
            except Exception as error:
                if self.extra_traceback:
                    message = "While executing %s" % node.format_node()
                    if error.args and isinstance(error.args[0], str):
                        message = "%s\n\n%s" % (error.args[0], message)
                    if node.stack_trace:
                        message += "\nOriginal traceback:\n" + node.stack_trace
                    error.args = (message,) + error.args[1:]
                raise
            if self.garbage_collect_values:
                for dead in self.user_to_last_uses.get(node, []):
                    self.env.pop(dead, None)
            if node.op == "output":
                result = self.env[node]
                return self.graph.process_outputs(result) if enable_io_processing else result
        return None

    def boxed_run(self, args_list):
        """run, taking the inputs out of a list so that they can be freed early."""
        args = list(args_list)
        args_list.clear()
        return self.run(*args, enable_io_processing=False)

    def run_node(self, n):
        """The value of a node."""
        with torch.fx.traceback.set_current_meta(n, "Interpreter_" + type(self).__name__):
            args, kwargs = self.fetch_args_kwargs_from_env(n)
            return getattr(self, n.op)(n.target, args, kwargs)

    def placeholder(self, target, args, kwargs):
        if target.startswith("*"):
            return list(self.args_iter)
        try:
            return next(self.args_iter)
        except StopIteration:
            if args:
                return args[0]
            raise RuntimeError("Expected positional argument for parameter %s, but one was not passed in!" % target) from None

    def get_attr(self, target, args, kwargs):
        return self.fetch_attr(target)

    def call_function(self, target, args, kwargs):
        return target(*args, **kwargs)

    def call_method(self, target, args, kwargs):
        owner, *rest = args
        return getattr(owner, target)(*rest, **kwargs)

    def call_module(self, target, args, kwargs):
        return self.fetch_attr(target)(*args, **kwargs)

    def output(self, target, args, kwargs):
        return args[0]

    def fetch_attr(self, target):
        """What a dotted name of the module leads to."""
        value = self.module
        for i, part in enumerate(target.split(".")):
            if not hasattr(value, part):
                raise RuntimeError("Node referenced nonexistent target %s" % ".".join(target.split(".")[:i + 1]))
            value = getattr(value, part)
        return value

    def fetch_args_kwargs_from_env(self, n):
        args = self.map_nodes_to_values(n.args, n)
        kwargs = self.map_nodes_to_values(n.kwargs, n)
        return args, kwargs

    def map_nodes_to_values(self, args, n):
        def load(arg):
            if arg not in self.env:
                raise RuntimeError("Node %s referenced nonexistent value %s! Run Graph.lint() to diagnose such issues" % (n, arg))
            return self.env[arg]
        return map_arg(args, load)


class Transformer(Interpreter):
    """transform(): the same graph again, with the changes that overridden methods make."""

    def __init__(self, module):
        super().__init__(module)
        self.new_graph = Graph()
        self.new_graph.set_codegen(module.graph._codegen)

        class TransformerTracer(Tracer):
            def __init__(self, graph):
                super().__init__()
                self.graph = graph
                self.tensor_attrs = {}

            def is_leaf_module(self, _, __):
                return True
        self.tracer = TransformerTracer(self.new_graph)
        self.tracer.root = module

    def placeholder(self, target, args, kwargs):
        default = next(iter(args)) if args else inspect.Signature.empty
        return Proxy(self.new_graph.placeholder(target, default_value=Node if default is inspect.Signature.empty
                                                else default), self.tracer)

    def get_attr(self, target, args, kwargs):
        return self.tracer.create_proxy("get_attr", target, args, kwargs)

    def call_module(self, target, args, kwargs):
        return self.tracer.call_module(self.fetch_attr(target), self.fetch_attr(target).forward, args, kwargs)

    def call_function(self, target, args, kwargs):
        return self.tracer.create_proxy("call_function", target, args, kwargs)

    def transform(self):
        with torch.fx.traceback.preserve_node_meta():
            result = super().run(enable_io_processing=False)
        if result is not None:
            def strip(a):
                return a.node if isinstance(a, Proxy) else a
            self.new_graph.output(map_aggregate(result, strip)).meta.update(self.graph.output_node().meta)
        return GraphModule(self.module, self.new_graph)
