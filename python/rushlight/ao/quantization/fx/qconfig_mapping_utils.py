"""QConfigMappings fitted to a model that was changed meanwhile, and compared."""
import rushlight as torch
from rushlight.ao.nn import intrinsic

from ..backend_config.utils import get_module_to_qat_module
from ..qconfig import qconfig_equals
from ..qconfig_mapping import _KEYS
from ..utils import _parent_name

__all__ = []


def _update_qconfig_for_fusion(model, qconfig_mapping):
    """A fused layer has the QConfig of its parts, which must have the same."""
    modules, table = dict(model.named_modules()), qconfig_mapping.object_type_qconfigs
    for node in model.graph.nodes:
        module = modules.get(node.target) if node.op == "call_module" else None
        if not isinstance(module, intrinsic._FusedModule):
            continue
        parts = list(module) if isinstance(module, torch.nn.Sequential) else []
        if not parts or type(parts[0]) not in table:
            continue
        qconfig = table[type(parts[0])]
        for part in parts[1:]:
            if not qconfig_equals(qconfig, table.get(type(part))):
                raise LookupError("During fusion, we need to specify the same qconfigs for all module types in %s " % type(module))
        if qconfig is not None:
            table[type(module)] = qconfig


def _update_qconfig_for_qat(qconfig_mapping, backend_config):
    """Classes that are trained have the QConfig of those that they stand for."""
    replaced = get_module_to_qat_module(backend_config)
    for kind, qconfig in list(qconfig_mapping.object_type_qconfigs.items()):
        if kind in replaced:
            qconfig_mapping.object_type_qconfigs[replaced[kind]] = qconfig


def _generate_node_name_to_qconfig(root, modules, input_graph, qconfig_mapping, node_name_to_scope):
    """{node's name: its QConfig}."""
    found, uses = {}, {}
    for node in input_graph.nodes:
        if node.op == "get_attr":
            found[node.name] = qconfig_mapping._of(_parent_name(node.target)[0], None)
        elif node.op == "call_module":
            found[node.name] = qconfig_mapping._of(node.target, type(modules[node.target]), _parent_name(node.target)[0]) if node.target in modules else None
        elif node.op in ("call_function", "call_method"):
            scope = node_name_to_scope[node.name][0]
            index = uses[(scope, node.target)] = uses.get((scope, node.target), -1) + 1
            found[node.name] = qconfig_mapping._of(scope, node.target, scope, index)
        else:
            found[node.name] = None
    return found


def _compare_prepare_convert_qconfig_mappings(prepare_qconfig_mapping, convert_qconfig_mapping):
    """The mapping given to convert may leave out, with None, but not change, what the one for prepare says."""
    if not qconfig_equals(prepare_qconfig_mapping.global_qconfig, convert_qconfig_mapping.global_qconfig):
        raise AssertionError("Expected global qconfigs to be the same in the prepare and convert quantization configs")
    for key in _KEYS[1:]:
        before, now = getattr(prepare_qconfig_mapping, key), getattr(convert_qconfig_mapping, key)
        for name, qconfig in before.items():
            if name not in now:
                raise AssertionError("Missing key %s %s in convert QConfigMapping when it was present in prepare" % (key, name))
            if now[name] is not None and not qconfig_equals(qconfig, now[name]):
                raise AssertionError("Expected convert QConfigMapping to have the same qconfig as prepare for key %s %s" % (key, name))


def _is_qconfig_supported_by_dtype_configs(qconfig, dtype_configs):
    """Whether one of the dtypes' combinations is what the QConfig asks for."""
    from ..utils import activation_dtype, weight_dtype
    if qconfig is None:
        return False
    asked = (activation_dtype(qconfig), weight_dtype(qconfig))
    return any((c.input_dtype or torch.float32, c.weight_dtype or torch.float32) == asked or (c.weight_dtype is None and (c.input_dtype or torch.float32) == asked[0])
               for c in dtype_configs)


def _check_is_valid_config_dict(config_dict, allowed_keys, dict_name):
    for key in config_dict:
        if key not in allowed_keys:
            raise ValueError("Expected " + dict_name + " to have the following keys: " + str(allowed_keys) + ". But found '" + key + "' instead.")
