"""Reference models made quantized ones: convert_fx() makes quantized ones at once."""

__all__ = ["lower_to_fbgemm"]


def lower_to_fbgemm(model, qconfig_map, node_name_to_scope, keep_original_weights=False):
    raise NotImplementedError("torch.ao.quantization.fx.lower_to_fbgemm: there are no reference models to lower; convert_fx makes quantized layers at once")
