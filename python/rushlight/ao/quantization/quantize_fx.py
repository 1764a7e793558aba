"""Graph mode: the model is traced, neighbours become one layer, observers are put where tensors flow, and convert_fx() quantizes what it can.

Each operation is of one kind. "layer": it has a weight, its input and its result are observed. "grid": its result is
observed. "same": its result is on the grid of its input, with which it shares the observer. Anything else runs on floats.
"""
import copy
import operator

import rushlight as torch
from rushlight import _absent as _not_here
from rushlight import nn
from rushlight.ao.nn import intrinsic
from rushlight.fx import GraphModule, Tracer
from rushlight.nn import functional as F
from rushlight.nn.quantized import FloatFunctional, FXFloatFunctional
from .fake_quantize import FakeQuantizeBase
from .observer import _is_activation_post_process
from .qconfig import _is_reuse_input_qconfig
from .qconfig_mapping import QConfigMapping
from .quantization_mappings import (get_default_dynamic_quant_module_mappings, get_default_qat_module_mappings, get_default_static_quant_module_mappings)
from .quantize import swap_module

__all__ = ["fuse_fx", "prepare_fx", "prepare_qat_fx", "convert_fx"]

_LAYERS = (nn.Conv1d, nn.Conv2d, nn.Conv3d, nn.ConvTranspose1d, nn.ConvTranspose2d, nn.ConvTranspose3d, nn.Linear, nn.BatchNorm2d, nn.BatchNorm3d, intrinsic._FusedModule)
_GRID_MODULES = (nn.Sigmoid, nn.Tanh, nn.Hardsigmoid, nn.LayerNorm, nn.InstanceNorm1d, nn.InstanceNorm2d, nn.InstanceNorm3d, nn.LeakyReLU, nn.ELU, nn.Hardswish, nn.PReLU)
_SAME_MODULES = (nn.MaxPool1d, nn.MaxPool2d, nn.MaxPool3d, nn.AvgPool1d, nn.AvgPool2d, nn.AvgPool3d, nn.AdaptiveAvgPool1d, nn.AdaptiveAvgPool2d,
                 nn.AdaptiveAvgPool3d, nn.ReLU, nn.ReLU6, nn.Hardtanh, nn.Identity, nn.Dropout, nn.Flatten)
_BINARY = {operator.add: "add", operator.iadd: "add", torch.add: "add", operator.mul: "mul", operator.imul: "mul", torch.mul: "mul", torch.matmul: "matmul"}
_GRID_FUNCTIONS = {torch.sigmoid, torch.tanh, F.hardsigmoid, F.hardswish, F.leaky_relu, F.elu, F.layer_norm, F.instance_norm}
_GRID_METHODS = {"sigmoid", "tanh", "hardsigmoid"}
_RELUS = (torch.relu, F.relu, torch.relu_)
_SAME_FUNCTIONS = {F.max_pool1d, F.max_pool2d, F.max_pool3d, F.avg_pool1d, F.avg_pool2d, F.avg_pool3d, F.adaptive_avg_pool1d, F.adaptive_avg_pool2d,
                   F.adaptive_avg_pool3d, F.relu, F.relu6, F.hardtanh, F.interpolate, F.dropout, torch.flatten, torch.mean, torch.relu, torch.max_pool2d,
                   torch.transpose, torch.permute, torch.squeeze, torch.unsqueeze, torch.clamp, torch.repeat_interleave, torch.narrow, torch.avg_pool1d, torch.reshape}
_SAME_METHODS = {"mean", "relu", "relu_", "clamp", "contiguous", "permute", "transpose", "squeeze", "unsqueeze", "reshape", "view", "repeat", "detach", "clone", "resize_", "t"}


class _Tracer(Tracer):
    """Traces through modules of the program's own; layers, fused ones and those that are named stay whole."""

    def __init__(self, names=(), classes=()):
        super().__init__()
        self._names, self._classes = set(names), tuple(classes)

    def is_leaf_module(self, m, module_qualified_name):
        own = m.__module__.startswith(("rushlight.nn", "rushlight.ao.nn", "torch.nn", "torch.ao.nn")) and not isinstance(m, nn.Sequential)
        return own or module_qualified_name in self._names or type(m) in self._classes or isinstance(m, intrinsic._FusedModule) or _is_activation_post_process(m)


def _option(config, name, default):
    if config is None:
        return default
    return config.get(name, default) if isinstance(config, dict) else getattr(config, name, default)


def _trace(model, config):
    tracer = _Tracer(_option(config, "non_traceable_module_names", None) or _option(config, "non_traceable_module_name", ()),
                     _option(config, "non_traceable_module_classes", None) or _option(config, "non_traceable_module_class", ()))
    graph = tracer.trace(model)
    made = GraphModule(model, graph)
    for name in _option(config, "preserved_attributes", ()) or ():
        setattr(made, name, getattr(model, name))
    return made


# ---- neighbours that become one layer

def _module_of(model, node, kinds=None):
    if not isinstance(node, torch.fx.Node) or node.op != "call_module":
        return None
    module = model.get_submodule(node.target)
    return module if kinds is None or type(module) in kinds else None


def _is_relu(model, node):
    return (node.op == "call_function" and node.target in _RELUS) or (node.op == "call_method" and node.target in ("relu", "relu_")) or \
        _module_of(model, node, (nn.ReLU,)) is not None


def _only_user(node):
    return next(iter(node.users)) if len(node.users) == 1 else None


_NORMS = {nn.Conv1d: nn.BatchNorm1d, nn.Conv2d: nn.BatchNorm2d, nn.Conv3d: nn.BatchNorm3d, nn.Linear: nn.BatchNorm1d, nn.ConvTranspose1d: nn.BatchNorm1d,
          nn.ConvTranspose2d: nn.BatchNorm2d, nn.ConvTranspose3d: nn.BatchNorm3d}


def _fuse(model, is_qat):
    from .fuse_modules import fuse_known_modules
    for node in list(model.graph.nodes):
        first = None if node._erased else _module_of(model, node)
        norm = _NORMS.get(type(first))
        if norm is None and not isinstance(first, (nn.BatchNorm2d, nn.BatchNorm3d)):
            continue
        chain, parts, last = [], [first], node
        after = _only_user(last)
        if norm is not None and after is not None and _module_of(model, after, (norm,)) is not None:
            parts.append(_module_of(model, after))
            chain.append(after)
            last, after = after, _only_user(after)
        relus = not isinstance(first, (nn.ConvTranspose1d, nn.ConvTranspose2d, nn.ConvTranspose3d)) and not (isinstance(first, nn.Linear) and len(parts) > 1)
        if relus and after is not None and _is_relu(model, after):
            parts.append(_module_of(model, after) or nn.ReLU())
            chain.append(after)
        if not chain:
            continue
        for part in parts:
            part.training = parts[0].training
        fused = fuse_known_modules(parts, is_qat)[0]
        parent, _, child = node.target.rpartition(".")
        setattr(model.get_submodule(parent), child, fused)
        chain[-1].replace_all_uses_with(node)
        for gone in reversed(chain):
            model.graph.erase_node(gone)
            if gone.op == "call_module" and not any(n.op == "call_module" and n.target == gone.target for n in model.graph.nodes):
                model.delete_submodule(gone.target)
    model.graph.lint()
    model.recompile()
    return model


def fuse_fx(model, fuse_custom_config=None, backend_config=None):
    """The model in evaluation with convolutions, normalizations and relus made one layer."""
    return _fuse(_trace(model, fuse_custom_config), False)


# ---- observers

def _kind(model, node):
    """layer, grid, same, or None."""
    if node.op == "call_module":
        module = model.get_submodule(node.target)
        if isinstance(module, _LAYERS) or type(module) in get_default_qat_module_mappings().values() or hasattr(module, "weight_fake_quant"):
            return "layer"
        return "grid" if isinstance(module, _GRID_MODULES) else "same" if type(module) in _SAME_MODULES else None
    if node.op == "call_function":
        if node.target in _BINARY:
            tensors = [a for a in node.args[:2] if isinstance(a, torch.fx.Node)]
            return "grid" if len(tensors) == 2 else "same" if tensors else None
        if node.target is torch.cat:
            return "cat"
        return "grid" if node.target in _GRID_FUNCTIONS else "same" if node.target in _SAME_FUNCTIONS else None
    if node.op == "call_method":
        return "grid" if node.target in _GRID_METHODS else "same" if node.target in _SAME_METHODS else None
    return None


def _inputs(node):
    """The tensors that an operation works on."""
    if node.op == "call_function" and node.target is torch.cat:
        return list(node.args[0])
    if node.op == "call_function" and node.target in _BINARY:
        return [a for a in node.args[:2] if isinstance(a, torch.fx.Node)]
    return [a for a in node.args[:1] if isinstance(a, torch.fx.Node)]


def _pair_with_relu(model, node):
    """The relu behind an addition or a product of two tensors, which is done with it."""
    after = _only_user(node)
    pairs = node.op == "call_function" and _BINARY.get(node.target) in ("add", "mul") and after is not None
    return after if pairs and _is_relu(model, after) else None


def _qconfigs(model, mapping):
    """QConfig by node; layers get it as an attribute, too."""
    found, counts = {}, {}
    for node in model.graph.nodes:
        if node.op == "call_module":
            module = model.get_submodule(node.target)
            kind = type(module[0]) if isinstance(module, intrinsic._FusedModule) and type(module) not in mapping.object_type_qconfigs else type(module)
            found[node] = mapping._of(node.target, kind)
            module.qconfig = found[node]
            if isinstance(module, intrinsic._FusedModule):
                for part in module:
                    part.qconfig = found[node]
        elif node.op in ("call_function", "call_method"):
            at = counts.setdefault(node.target, 0) if isinstance(node.target, str) or callable(node.target) else 0
            counts[node.target] = at + 1
            found[node] = mapping._of("", node.target, "", at)
    return found


def _observes(qconfig):
    """Are results observed, or are inputs left to be quantized by their own range?"""
    if qconfig.activation is nn.Identity or _is_reuse_input_qconfig(qconfig):
        return qconfig.activation is not nn.Identity
    observer = qconfig.activation()
    return getattr(observer, "dtype", None) in (torch.quint8, torch.qint8) and not getattr(observer, "is_dynamic", False)


class _Placing:
    """Puts observers into a graph."""

    def __init__(self, model, qconfigs):
        self.model, self.qconfigs, self.seen, self.made = model, qconfigs, {}, 0

    def _put(self, node, observer):
        """An observer of what a node gives, for all who use it."""
        name = "activation_post_process_%d" % self.made
        self.made += 1
        self.model.add_submodule(name, observer)
        users = list(node.users)
        with self.model.graph.inserting_after(node):
            seen = self.model.graph.create_node("call_module", name, (node,), {}, name)
        for user in users:
            user.replace_input_with(node, seen)
        self.seen[node] = self.seen[seen] = seen
        return seen

    def observer_of(self, seen):
        return self.model.get_submodule(seen.target)

    def _observe_inputs(self, node, qconfig):
        for given in _inputs(node):
            if given not in self.seen:
                self._put(given, qconfig.activation())

    def run(self):
        inside = set()
        for node in list(self.model.graph.nodes):
            kind, qconfig = _kind(self.model, node), self.qconfigs.get(node)
            if kind is None or qconfig is None or node in inside:
                continue
            if not _observes(qconfig):
                continue
            relu = _pair_with_relu(self.model, node) if kind == "grid" else None
            if not _is_reuse_input_qconfig(qconfig):
                self._observe_inputs(node, qconfig)
            given = [self.seen[g] for g in _inputs(node) if g in self.seen]
            if not given:
                continue
            last = relu if relu is not None else node
            if relu is not None:
                inside.add(relu)
            if kind in ("same", "cat"):
                self._share(node, given, kind)
            else:
                self._put(last, qconfig.activation())

    def _share(self, node, given, kind):
        observer = self.observer_of(given[-1] if kind == "cat" else given[0])
        for other in given:
            setattr(self.model, other.target, observer)
        self._put(node, observer)


def _open_arithmetic(model):
    """Additions of FloatFunctional modules become operations that the tracer sees."""
    for name, child in model.named_children():
        if isinstance(child, FloatFunctional):
            setattr(model, name, FXFloatFunctional())
        else:
            _open_arithmetic(child)


def _prepare(model, mapping, is_qat, config):
    _open_arithmetic(model)
    model = _fuse(_trace(model, config), is_qat)
    qconfigs = _qconfigs(model, mapping)
    if is_qat:
        qat = get_default_qat_module_mappings()
        for node in model.graph.nodes:
            module = _module_of(model, node)
            if module is not None and type(module) in qat and module.qconfig is not None:
                parent, _, child = node.target.rpartition(".")
                setattr(model.get_submodule(parent), child, swap_module(module, qat, {}))
    _Placing(model, qconfigs).run()
    model.graph.lint()
    model.recompile()
    model.meta["is_qat"] = is_qat
    return model


def _as_mapping(qconfig_mapping):
    return QConfigMapping.from_dict(qconfig_mapping) if isinstance(qconfig_mapping, dict) else qconfig_mapping


def prepare_fx(model, qconfig_mapping, example_inputs, prepare_custom_config=None, _equalization_config=None, backend_config=None):
    """The model in evaluation with observers; run it on samples, then convert_fx()."""
    return _prepare(model, _as_mapping(qconfig_mapping), False, prepare_custom_config)


def prepare_qat_fx(model, qconfig_mapping, example_inputs, prepare_custom_config=None, backend_config=None):
    """The model in training, with layers that round on the way; train it, then convert_fx()."""
    return _prepare(model, _as_mapping(qconfig_mapping), True, prepare_custom_config)


# ---- quantized

class _Converting:
    """Rewrites an observed graph: values are floats or on a grid, and go from one to the other where they have to."""

    def __init__(self, model):
        self.model, self.graph = model, model.graph
        self.on_grid, self.floats, self.count = set(), {}, {}

    def _seen_by(self, node):
        """The observer of a node's result, or None."""
        for user in node.users:
            if user.op == "call_module" and _is_activation_post_process(self.model.get_submodule(user.target)):
                return user
        return None

    def _buffers(self, seen, after):
        """The scale and the zero point of an observer as buffers, and nodes that read them."""
        observed = seen.args[0]
        scale, zero_point = self.model.get_submodule(seen.target).calculate_qparams()
        prefix = ""
        of_user = observed.op == "placeholder" or observed.op == "call_module" and self.model.get_submodule(observed.target).qconfig is None
        if observed.op == "call_module" and not of_user:
            prefix = observed.target.replace(".", "_")
        elif of_user:
            user = next(iter(seen.users), None)
            prefix = (user.target.replace(".", "_") if user is not None and user.op == "call_module" else "") + "_input"
        number = self.count.setdefault(prefix, 0)
        self.count[prefix] = number + 1
        names = []
        for word, value in (("scale", scale.float().reshape(-1)[0]), ("zero_point", zero_point.reshape(-1)[0].to(torch.int))):
            name = "%s_%s_%d" % (prefix, word, number)
            self.model.register_buffer(name, value.detach().clone())
            names.append(name)
        with self.graph.inserting_before(after):
            return [self.graph.create_node("get_attr", name) for name in names]

    def _as_float(self, node, user):
        """What a node on a grid gives, as floats."""
        if node not in self.on_grid:
            return node
        if node not in self.floats:
            with self.graph.inserting_after(node):
                self.floats[node] = self.graph.create_node("call_method", "dequantize", (node,))
        return self.floats[node]

    def _float_inputs(self, node):
        for given in list(node.all_input_nodes):
            if given in self.on_grid:
                node.replace_input_with(given, self._as_float(given, node))

    def _quantize(self, node, seen):
        """Floats that are observed are put on the grid."""
        observer = self.model.get_submodule(seen.target)
        scale, zero_point = self._buffers(seen, seen)
        with self.graph.inserting_before(seen):
            made = self.graph.create_node("call_function", torch.quantize_per_tensor, (node, scale, zero_point, observer.dtype), {})
        self._replace(seen, made)

    def _replace(self, seen, made):
        seen.replace_all_uses_with(made)
        self.graph.erase_node(seen)
        self.on_grid.add(made)

    def _layer(self, node, seen):
        module = self.model.get_submodule(node.target)
        observer = self.model.get_submodule(seen.target)
        module.activation_post_process = observer
        made = swap_module(module, get_default_static_quant_module_mappings(), {})
        if made is module:
            return False
        parent, _, child = node.target.rpartition(".")
        setattr(self.model.get_submodule(parent), child, made)
        self._replace(seen, node)
        return True

    def _binary(self, node, seen, relu):
        name = _BINARY[node.target] + ("_relu" if relu is not None else "")
        pair = [a for a in node.args[:2] if isinstance(a, torch.fx.Node)]
        last = relu or node
        if len(pair) == 2:
            arguments = (*node.args[:2], *self._buffers(seen, last))
        else:
            self.count[""] = self.count.get("", 0) + 1
            arguments = tuple(sorted(node.args[:2], key=lambda a: not isinstance(a, torch.fx.Node)))
        with self.graph.inserting_before(last):
            made = self.graph.create_node("call_function", getattr(torch.ops.quantized, name), arguments, {}, name)
        self._replace(seen, made)
        for gone in (relu, node):
            if gone is not None:
                self.graph.erase_node(gone)

    def _function(self, node, seen):
        """A function with a grid of its own."""
        operators = {F.hardswish: "hardswish", F.leaky_relu: "leaky_relu", F.elu: "elu", F.layer_norm: "layer_norm", F.instance_norm: "instance_norm"}
        name = operators.get(node.target)
        if name is None:  # sigmoid and tanh know theirs
            self.count[""] = self.count.get("", 0) + 1
            self._replace(seen, node)
            return True
        if name not in ("hardswish",):
            return False
        grid = self._buffers(seen, node)
        with self.graph.inserting_before(node):
            made = self.graph.create_node("call_function", getattr(torch.ops.quantized, name), (node.args[0], *grid), {})
        self._replace(seen, made)
        self.graph.erase_node(node)
        return True

    def _on_grid(self, node, seen):
        """Is the operation done on grids? Then it is rewritten."""
        kind = _kind(self.model, node)
        if kind is None or not all(g in self.on_grid for g in _inputs(node)) or not _inputs(node):
            return False
        if kind == "layer":
            return self._layer(node, seen)
        if node.op == "call_function" and node.target in _BINARY:
            self._binary(node, seen, None)
            return True
        if kind == "grid":
            if node.op == "call_module":
                return self._layer(node, seen) or isinstance(self.model.get_submodule(node.target), (nn.Sigmoid, nn.Tanh, nn.Hardsigmoid)) and not self._replace(seen, node)
            return self._function(node, seen)
        if node.op != "call_module":
            self.count[""] = self.count.get("", 0) + 1
        else:
            module = self.model.get_submodule(node.target)
            swapped = swap_module(module, {nn.Dropout: get_default_static_quant_module_mappings()[nn.Dropout]}, {}) if getattr(module, "qconfig", None) else module
            if swapped is not module:
                parent, _, child = node.target.rpartition(".")
                setattr(self.model.get_submodule(parent), child, swapped)
        self._replace(seen, node)
        return True

    def run(self):
        for node in list(self.graph.nodes):
            if node._erased or (node.op == "call_module" and _is_activation_post_process(self.model.get_submodule(node.target))):
                continue
            if node.op in ("placeholder", "get_attr"):
                seen = self._seen_by(node)
                if seen is not None:
                    self._quantize(node, seen)
                continue
            relu = _pair_with_relu(self.model, node)
            if relu is not None and all(g in self.on_grid for g in _inputs(node)) and self._seen_by(relu) is not None:
                self._binary(node, self._seen_by(relu), relu)
                continue
            seen = self._seen_by(node)
            if seen is not None and self._on_grid(node, seen):
                continue
            self._float_inputs(node)
            if seen is not None:
                self._quantize(node, seen)
        self._dynamic()
        self._clean()

    def _dynamic(self):
        """Layers whose weights alone are quantized, where nothing observed their input."""
        for node in self.graph.nodes:
            module = _module_of(self.model, node)
            config = getattr(module, "qconfig", None)
            if config is None or config.weight is None or type(module) not in get_default_dynamic_quant_module_mappings():
                continue
            rows = isinstance(module, (nn.Embedding, nn.EmbeddingBag))
            if config.weight().dtype != torch.quint8 if rows else not getattr(config.activation(), "is_dynamic", False):
                continue
            parent, _, child = node.target.rpartition(".")
            setattr(self.model.get_submodule(parent), child, swap_module(module, get_default_dynamic_quant_module_mappings(), {}))

    def _clean(self):
        from .quantize import _remove_qconfig
        self.graph.eliminate_dead_code()
        for name, child in list(self.model._modules.items()):  # named_children() tells of a shared one once
            if _is_activation_post_process(child):
                delattr(self.model, name)
        _remove_qconfig(self.model)
        for module in self.model.modules():
            for name, child in list(module._modules.items()):
                if isinstance(child, FakeQuantizeBase):
                    del module._modules[name]
        self.graph.lint()
        self.model.recompile()


def convert_fx(graph_module, convert_custom_config=None, _remove_qconfig=True, qconfig_mapping=None, backend_config=None, keep_original_weights=False):
    """The quantized model of an observed one."""
    model = copy.deepcopy(graph_module)
    _Converting(model).run()
    for name in _option(convert_custom_config, "preserved_attributes", ()) or ():
        setattr(model, name, getattr(graph_module, name))
    return model


def __getattr__(name):
    return _not_here.of_module("ao.quantization.quantize_fx", name)
