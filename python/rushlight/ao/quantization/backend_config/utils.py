"""What a backend's patterns say, by pattern."""
__all__ = ["get_pattern_to_dtype_configs", "get_qat_module_classes", "get_fused_module_classes", "get_pattern_to_input_type_to_index",
           "get_root_module_to_quantized_reference_module", "get_fuser_method_mapping", "get_module_to_qat_module", "get_fusion_pattern_to_root_node_getter",
           "get_fusion_pattern_to_extra_inputs_getter", "remove_boolean_dispatch_from_name", "pattern_to_human_readable", "entry_to_pretty_str"]


def _get_pattern_in_reversed_nested_tuple_format(config):
    """(conv, bn, relu) as (relu, (bn, conv)), which is how nodes are walked."""
    if config._pattern_complex_format is not None:
        return config._pattern_complex_format
    if config.pattern is None:
        raise ValueError("Either 'pattern' or 'pattern_complex_format' must be specified")
    if not isinstance(config.pattern, tuple):
        return config.pattern
    if len(config.pattern) == 2:
        return config.pattern[1], config.pattern[0]
    if len(config.pattern) == 3:
        return config.pattern[2], (config.pattern[1], config.pattern[0])
    raise ValueError("Expected a tuple with 2 or 3 elements, got: %s" % (config.pattern,))


def _by_pattern(backend_config, name):
    found = {pattern: getattr(config, name) for pattern, config in backend_config._pattern_complex_format_to_config.items()}
    return {pattern: value for pattern, value in found.items() if value not in (None, {})}


def get_pattern_to_dtype_configs(backend_config):
    return {pattern: config.dtype_configs for pattern, config in backend_config._pattern_complex_format_to_config.items()}


def get_qat_module_classes(backend_config):
    return tuple({c.qat_module for c in backend_config.configs if c.qat_module is not None})


def get_fused_module_classes(backend_config):
    return tuple({c.fused_module for c in backend_config.configs if c.fused_module is not None})


def get_pattern_to_input_type_to_index(backend_config):
    return {pattern: config._input_type_to_index for pattern, config in backend_config._pattern_complex_format_to_config.items()}


def get_root_module_to_quantized_reference_module(backend_config):
    return {c.root_module: c.reference_quantized_module for c in backend_config.configs if c.root_module is not None and c.reference_quantized_module is not None}


def get_fuser_method_mapping(backend_config):
    return _by_pattern(backend_config, "fuser_method")


def get_module_to_qat_module(backend_config):
    return _by_pattern(backend_config, "qat_module")


def get_fusion_pattern_to_root_node_getter(backend_config):
    return _by_pattern(backend_config, "_root_node_getter")


def get_fusion_pattern_to_extra_inputs_getter(backend_config):
    return _by_pattern(backend_config, "_extra_inputs_getter")


def remove_boolean_dispatch_from_name(p):
    """The name of a pooling function that has two forms."""
    return p


def pattern_to_human_readable(p):
    """A pattern with names for functions."""
    if isinstance(p, tuple):
        return tuple(pattern_to_human_readable(part) for part in p)
    return p.__name__ if callable(p) and not isinstance(p, type) else p


def entry_to_pretty_str(entry):
    """An entry of a table of old as text."""
    return "{\n" + "".join("  %r: %s,\n" % (key, pattern_to_human_readable(value) if key == "pattern" else value) for key, value in entry.items()) + "}"
