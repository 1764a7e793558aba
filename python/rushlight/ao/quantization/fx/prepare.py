"""Observers put into graphs."""
from .graph_module import _OBSERVED
from .utils import ObservedGraphModuleAttrs, assert_and_get_unique_device, get_new_attr_name_with_prefix

__all__ = []


def _insert_obs_or_fq(node, obs_or_fq, model, named_modules, graph, model_device=None):
    """Lets an observer or a fake quantization see a value; its node comes back."""
    device = model_device if model_device is not None else assert_and_get_unique_device(model)
    if device is not None:
        obs_or_fq.to(device)
    name = get_new_attr_name_with_prefix("activation_post_process_")(model)
    setattr(model, name, obs_or_fq)
    named_modules[name] = obs_or_fq
    with graph.inserting_after(node):
        return graph.create_node("call_module", name, (node,), {})


def _save_state(observed, node_name_to_qconfig, node_name_to_scope, prepare_custom_config, equalization_node_name_to_qconfig, qconfig_mapping, is_qat,
                observed_node_names):
    """Notes in a model how it was prepared."""
    observed.meta[_OBSERVED] = ObservedGraphModuleAttrs(node_name_to_qconfig, node_name_to_scope, prepare_custom_config, equalization_node_name_to_qconfig,
                                                        qconfig_mapping, is_qat, observed_node_names)


def prepare(model, *args, **kwargs):
    """prepare_fx does this: it traces the model, too."""
    raise NotImplementedError("torch.ao.quantization.fx.prepare.prepare: call torch.ao.quantization.quantize_fx.prepare_fx")
