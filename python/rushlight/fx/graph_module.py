"""GraphModule: a module whose forward is the code of a graph."""
import contextlib
import copy
import itertools
import linecache
import os
import sys
import traceback

import rushlight as torch
from rushlight.fx.graph import Graph, _custom_builtins, _is_from_torch, _PyTreeCodeGen

__all__ = ["reduce_graph_module", "reduce_package_graph_module", "GraphModule"]

_USER_PRESERVED_ATTRIBUTES_KEY = "_user_preserved_attributes"
_eval_count = itertools.count()


class _EvalCacheLoader:
    """Gives tracebacks the source of generated code."""

    def __init__(self):
        self.eval_cache = {}

    def cache(self, src, globals, co_fields=None):
        key = "<eval_with_key>.%d" % next(_eval_count)
        if co_fields:
            key += " from %(co_filename)s:%(co_firstlineno)d in %(co_name)s" % co_fields
        globals_copy = dict(globals, __file__=key, __name__=key, __loader__=self)
        self.eval_cache[key] = src
        linecache.lazycache(key, globals_copy)
        return key

    def get_source(self, module_name):
        return self.eval_cache.get(module_name)


_loader = _EvalCacheLoader()


def _exec_with_source(src, globals, co_fields=None):
    key = _loader.cache(src, globals, co_fields)
    exec(compile(src, key, "exec"), globals)


def _forward_from_src(src, globals, co_fields=None):
    return _method_from_src("forward", src, globals, co_fields)


def _method_from_src(method_name, src, globals, co_fields=None):
    space = dict(globals)
    for name, entry in _custom_builtins.items():
        space.setdefault(name, entry.obj)
    space["fx_pytree"] = torch.fx._pytree
    _exec_with_source(src, space, co_fields)
    return space.pop(method_name)


def _format_import_statement(name, obj, importer=None):
    if name in _custom_builtins:
        return _custom_builtins[name].import_str
    if _is_from_torch(obj) and not hasattr(obj, "__name__"):
        return "import torch"
    from rushlight._alias import torch_name
    module = torch_name(obj.__module__)
    return "from %s import %s as %s" % (module, obj.__name__, name)


def _format_import_block(globals, importer=None):
    return "\n".join(sorted({_format_import_statement(name, obj, importer) for name, obj in globals.items()}))


class _CodeOnlyModule(torch.nn.Module):
    """Holds the attributes of a GraphModule that is being read."""

    def __init__(self, body):
        super().__init__()
        self.__dict__ = body


def reduce_graph_module(body, import_block):
    """Rebuild a GraphModule from its code."""
    code = body.get("_code") or body.get("code")
    forward = _method_from_src("forward", import_block.replace("import torch\n", "") + "\n" + code,
                               {"torch": torch})
    return _deserialize_graph_module(forward, body)


def reduce_package_graph_module(importer, body, generated_module_name):
    raise NotImplementedError("torch.package is not supported")


def _deserialize_graph_module(forward, body, graph_module_cls=None):
    """Trace the code again to have the graph back."""
    _CodeOnlyModule.forward = forward
    tracer_cls = body.get("_tracer_cls")
    if tracer_cls is None:
        from rushlight.fx._symbolic_trace import Tracer
        tracer_cls = Tracer
    name = body.get("_graphmodule_cls_name", "GraphModule")
    body.pop("_graphmodule_cls_name", None)
    graphmodule_cls = graph_module_cls or GraphModule

    class KeepModules(tracer_cls):
        def is_leaf_module(self, _, __):
            return True
    com = _CodeOnlyModule(body)
    graph = KeepModules().trace(com, **(body.get("_tracer_extras") or {}))
    graph._tracer_cls = tracer_cls
    made = graphmodule_cls(com, graph, class_name=name)
    for key, value in body.items():
        if not hasattr(made, key):
            setattr(made, key, value)
    return made


def _walk(owner, target):
    """(holder of the last part, its name), making modules on the way."""
    *path, last = target.split(".")
    for part in path:
        child = getattr(owner, part, None)
        if child is None:
            child = torch.nn.Module()
            setattr(owner, part, child)
        owner = child
    return owner, last


def _copy_attr(from_module, to_module, target):
    """Copy what target names from one module to another."""
    *path, last = target.split(".")
    source = from_module
    for part in path:
        source = getattr(source, part)
    target_owner = to_module
    for part in path:
        child = getattr(target_owner, part, None)
        if child is getattr(from_module, path[0]) and len(path) == 1:
            return      # the whole submodule is there already
        if child is None:
            child = torch.nn.Module()
            setattr(target_owner, part, child)
        target_owner = child
    value = getattr(source, last)
    if isinstance(value, torch.Tensor) and not isinstance(value, torch.nn.Parameter):
        target_owner.register_buffer(last, value)
    else:
        setattr(target_owner, last, value)


def _assign_attr(from_obj, to_module, target):
    owner, last = _walk(to_module, target)
    if isinstance(from_obj, torch.Tensor) and not isinstance(from_obj, torch.nn.Parameter):
        owner.register_buffer(last, from_obj)
    else:
        setattr(owner, last, from_obj)


def _get_attr(model, attr_name):
    for part in attr_name.split("."):
        model = getattr(model, part)
    return model


def _has_attr(model, attr_name):
    for part in attr_name.split("."):
        if not hasattr(model, part):
            return False
        model = getattr(model, part)
    return True


def _del_attr(model, attr_name):
    *path, last = attr_name.split(".")
    for part in path:
        model = getattr(model, part)
    delattr(model, last)


def _print_readable(module, module_name, print_output=True, include_stride=False, include_device=False, colored=False,
                    expanded_def=False, additional_meta=None):
    code = module._graph.python_code(root_module="self", verbose=True).src.lstrip("\n")
    text = "class %s(torch.nn.Module):\n%s" % (module_name, "\n".join("    " + line for line in code.split("\n")))
    for child in module.children():
        if hasattr(child, "_graph"):
            inner = _print_readable(child, child._get_name(), print_output=False)
            text += "\n" + "\n".join("    " + line for line in inner.split("\n"))
    if print_output:
        print(text)
    return text


class _WrappedCall:
    """Calls the module; an error in generated code shows the lines of that code."""

    def __init__(self, cls, cls_call):
        self.cls, self.cls_call = cls, cls_call

    @staticmethod
    def _message(error):
        last = error.__traceback__
        while last.tb_next is not None:
            last = last.tb_next
        frame = traceback.FrameSummary(last.tb_frame.f_code.co_filename, last.tb_lineno, last.tb_frame.f_code.co_name)
        lines = linecache.getlines(frame.filename)
        number = frame.lineno
        before = "".join(lines[max(0, number - 6):number])
        after = "".join(lines[number:number + 5])
        marker = "~" * 11 + " <--- HERE"
        return "Call using an FX-traced Module, line %d of the traced Module's generated forward function:\n%s%s\n%s" % (
            number, before, marker, after)

    def __call__(self, obj, *args, **kwargs):
        try:
            if self.cls_call is not None:
                return self.cls_call(obj, *args, **kwargs)
            return super(self.cls, obj).__call__(*args, **kwargs)
        except Exception as error:
            if not error.__traceback__:
                raise
            frames = traceback.extract_tb(error.__traceback__)
            if frames and "<eval_with_key>" in frames[-1].filename:
                print(_WrappedCall._message(error), file=sys.stderr)
                raise error.with_traceback(None) from None
            raise


class GraphModule(torch.nn.Module):
    """root gives the modules and parameters that the graph names; graph gives forward."""

    def __new__(cls, *args, **kwargs):
        # Each instance has a class of its own, whose forward is its code.
        for base in cls.__mro__:
            known = base.__qualname__.split(".")[-1]
            if known == "GraphModuleImpl":
                cls = base.__bases__[0]
                break

        class GraphModuleImpl(cls):
            pass
        return super().__new__(GraphModuleImpl)

    def __init__(self, root, graph, class_name="GraphModule"):
        super().__init__()
        self.__class__.__name__ = class_name
        if isinstance(root, torch.nn.Module):
            if hasattr(root, "training"):
                self.training = root.training
            if isinstance(root, _CodeOnlyModule):
                for name, _ in root.named_children():
                    setattr(self, name, getattr(root, name))
            for node in graph.nodes:
                if node.op in ("get_attr", "call_module"):
                    if not isinstance(node.target, str):
                        raise AssertionError("target must be a str")
                    _copy_attr(root, self, node.target)
        elif isinstance(root, dict):
            targets = []
            for node in graph.nodes:
                if node.op in ("get_attr", "call_module"):
                    if node.target not in root:
                        raise RuntimeError("Node %s referenced target %s but that target was not provided in ``root``!"
                                           % (node, node.target))
                    targets.append(node.target)
            # Outer modules first, so that they do not overwrite what was put into them.
            for target in sorted(targets, key=lambda t: t.count(".")):
                _assign_attr(root[target], self, target)
        else:
            raise RuntimeError("Unsupported type %s passed for root!" % root)
        self.graph = graph
        self._tracer_cls = None
        if self.graph._tracer_cls and "<locals>" not in self.graph._tracer_cls.__qualname__:
            self._tracer_cls = self.graph._tracer_cls
        self._tracer_extras = dict(self.graph._tracer_extras) if self.graph._tracer_extras else {}
        self.meta = {}
        self._replace_hooks, self._create_node_hooks, self._erase_node_hooks = [], [], []

    __jit_unused_properties__ = ["graph", "_boxed_call"]

    @property
    def graph(self):
        return self._graph

    @graph.setter
    def graph(self, g):
        if not isinstance(g, Graph):
            raise AssertionError("Expected a Graph instance, but got %s" % type(g))
        self._graph = g
        g.owning_module = self
        self.recompile()

    def to_folder(self, folder, module_name="FxModule"):
        """Write the module as a Python package."""
        os.makedirs(folder, exist_ok=True)
        torch.save(self.state_dict(), os.path.join(folder, "state_dict.pt"))
        lines = ["import torch", "", "from torch.nn import *", "", "", "class %s(torch.nn.Module):" % module_name,
                 "    def __init__(self):", "        super().__init__()"]
        for name, child in self.named_children():
            path = os.path.join(folder, name + ".pt")
            torch.save(child, path)
            lines.append("        self.%s = torch.load(r'%s', weights_only=False) # %s" % (name, path, type(child).__name__))
        for name, buffer in self._buffers.items():
            if buffer is not None:
                lines.append("        self.register_buffer('%s', torch.empty(%s, dtype=%s))" % (name, list(buffer.shape),
                                                                                               buffer.dtype))
        for name, param in self._parameters.items():
            if param is not None:
                lines.append("        self.%s = torch.nn.Parameter(torch.empty(%s, dtype=%s))" % (name, list(param.shape),
                                                                                                 param.dtype))
        lines.append("        self.load_state_dict(torch.load(r'%s/state_dict.pt'))" % folder)
        lines += ["    " + line for line in self.code.strip("\n").split("\n")]
        with open(os.path.join(folder, "module.py"), "w") as f:
            f.write("\n".join(lines) + "\n")
        with open(os.path.join(folder, "__init__.py"), "w") as f:
            f.write("from .module import *\n")

    def add_submodule(self, target, m):
        """Put a module at a dotted path; False when something else is in the way."""
        *path, field = target.split(".")
        owner = self
        for part in path:
            if not hasattr(owner, part):
                setattr(owner, part, torch.nn.Module())
            owner = getattr(owner, part)
            if not isinstance(owner, torch.nn.Module):
                return False
        owner.add_module(field, m)
        return True

    def delete_submodule(self, target):
        """Remove the module at a dotted path; False when there is none."""
        *path, last = target.split(".")
        owner = self
        for part in path:
            if not hasattr(owner, part):
                return False
            owner = getattr(owner, part)
        if not isinstance(getattr(owner, last, None), torch.nn.Module):
            return False
        delattr(owner, last)
        return True

    def delete_all_unused_submodules(self):
        """Remove the modules that no node names."""
        used = []
        for node in self.graph.nodes:
            if node.op in ("call_module", "get_attr"):
                path = node.target.split(".")
                used += [".".join(path[:i + 1]) for i in range(len(path))]
                if node.op == "call_module":
                    try:
                        module = self.get_submodule(node.target)
                        used += [node.target + "." + name for name, _ in module.named_modules() if name]
                    except AttributeError:
                        continue
        for name in [name for name, _ in self.named_modules() if name and name not in used]:
            self.delete_submodule(name)

    @property
    def code(self):
        """The source of forward."""
        if not hasattr(self, "_code"):
            raise RuntimeError("Code has not been generated! Please report a bug to PyTorch")
        return self._code

    def recompile(self):
        """Make forward anew after the graph was changed."""
        if isinstance(self._graph._codegen, _PyTreeCodeGen):
            self._in_spec = self._graph._codegen.pytree_info.in_spec
            self._out_spec = self._graph._codegen.pytree_info.out_spec
        python_code = self._graph.python_code(root_module="self")
        self._code = python_code.src
        self._lineno_map = python_code._lineno_map
        cls = type(self)
        cls.forward = _forward_from_src(self._code, python_code.globals, self._graph._co_fields)
        cls_call = cls.__call__ if "__call__" in vars(cls) else None
        if "_wrapped_call" not in vars(cls):
            cls._wrapped_call = _WrappedCall(cls, cls_call)

        def call_wrapped(self, *args, **kwargs):
            return self._wrapped_call(self, *args, **kwargs)
        cls.__call__ = call_wrapped
        return python_code

    def __reduce__(self):
        dict_without_graph = self.__dict__.copy()
        dict_without_graph["_graphmodule_cls_name"] = type(self).__name__
        del dict_without_graph["_graph"]
        python_code = self.recompile()
        return reduce_graph_module, (dict_without_graph, _format_import_block(python_code.globals))

    def _deepcopy_init(self):
        return GraphModule.__init__

    def __deepcopy__(self, memo):
        copied = type(self).__new__(type(self))
        memo[id(self)] = copied
        body = copy.deepcopy({k: v for k, v in self.__dict__.items() if k != "_graph"}, memo)
        self._deepcopy_init()(copied, _CodeOnlyModule(body), self.graph.__deepcopy__(memo), type(self).__name__)
        for name in ("_state_dict_hooks", "_load_state_dict_pre_hooks", "_load_state_dict_post_hooks",
                     "_replace_hooks", "_create_node_hooks", "_erase_node_hooks"):
            if name in self.__dict__:
                setattr(copied, name, copy.copy(self.__dict__[name]))
        copied.meta = {name: memo.get(id(value), value) for name, value in getattr(self, "meta", {}).items()}
        for name in self.meta.get(_USER_PRESERVED_ATTRIBUTES_KEY, {}):
            setattr(copied, name, self.meta[_USER_PRESERVED_ATTRIBUTES_KEY][name])
        return copied

    def __copy__(self):
        from rushlight.fx._lazy_graph_module import _make_graph_module
        new = _make_graph_module(self, self.graph)
        new.meta = getattr(self, "meta", {})
        return new

    def print_readable(self, print_output=True, include_stride=False, include_device=False, colored=False, **kwargs):
        """The code as a class; printed too."""
        return _print_readable(self, self._get_name(), print_output)

    def __str__(self):
        text = super().__str__()
        return "\n".join([text, self._code, "# To see more debug info, please use `graph_module.print_readable()`"])

    def _replicate_for_data_parallel(self):
        new = self.__copy__()
        new._is_replica = True
        return new

    @contextlib.contextmanager
    def _set_replace_hook(self, f):
        self._replace_hooks.append(f)
        try:
            yield
        finally:
            self._replace_hooks.remove(f)

    @contextlib.contextmanager
    def _set_create_node_hook(self, f):
        self._create_node_hooks.append(f)
        try:
            yield
        finally:
            self._create_node_hooks.remove(f)

