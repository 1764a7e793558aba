"""Small conversions of arguments that layers share."""
from rushlight.nn._tuples import (
    _list_with_default, _ntuple, _pair, _quadruple, _reverse_repeat_tuple, _single, _triple)


def consume_prefix_in_state_dict_if_present(state_dict, prefix):
    """Strip `prefix` from the keys of a state dict and of its metadata, in place."""
    for key in list(state_dict.keys()):
        if key.startswith(prefix):
            state_dict[key[len(prefix):]] = state_dict.pop(key)
    metadata = getattr(state_dict, "_metadata", None)
    if metadata is None:
        return
    for key in list(metadata.keys()):
        # The module that the prefix names is in the metadata without its final dot.
        if key and (key == prefix.replace(".", "") or key.startswith(prefix)):
            metadata[key[len(prefix):]] = metadata.pop(key)
