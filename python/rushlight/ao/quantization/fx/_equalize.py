"""Equalization of neighbouring layers' weights in graph mode: there are no observers for it, so that no model has one."""

__all__ = ["convert_eq_obs", "update_obs_for_equalization"]


def __getattr__(name):
    if name in ("_InputEqualizationObserver", "_WeightEqualizationObserver", "EqualizationQConfig", "default_equalization_qconfig", "get_layer_sqnr_dict"):
        raise NotImplementedError("torch.ao.quantization.fx._equalize.%s: equalization is not supported" % name)
    raise AttributeError("module 'torch.ao.quantization.fx._equalize' has no attribute '%s'" % name)


def update_obs_for_equalization(model, modules):
    """{name of a layer: its weight's equalization observer}, of a model that has none."""
    return {}


def convert_eq_obs(model, modules, weight_eq_obs_dict):
    """Scales weights as their equalization observers say."""
    if weight_eq_obs_dict:
        raise NotImplementedError("torch.ao.quantization.fx._equalize.convert_eq_obs: equalization is not supported")
