"""The named tuples that operations return: torch.return_types.max and so on."""
import rushlight as torch

__all__ = ["pytree_register_structseq", "all_return_types"]


def pytree_register_structseq(cls):
    """Make such a class a container for torch.utils._pytree."""
    from rushlight.utils import _pytree

    def flatten(value):
        return list(value), None

    def flatten_with_keys(value):
        return [(_pytree.GetAttrKey(name), v) for name, v in zip(cls.__match_args__ if hasattr(
            cls, "__match_args__") else range(len(value)), value)], None

    _pytree._private_register_pytree_node(cls, flatten, lambda values, context: cls(values),
                                          flatten_with_keys_fn=flatten_with_keys)


def __getattr__(name):
    if name.startswith("__"):
        raise AttributeError(name)
    if name == "all_return_types":
        cls = [getattr(torch._C._return_types, known) for known in dir(torch._C._return_types)]
    else:
        cls = getattr(torch._C._return_types, name, None)
    if cls is None:
        raise AttributeError("module 'torch.return_types' has no attribute '%s'" % name)
    globals()[name] = cls
    return cls


def __dir__():
    return sorted({*globals(), *dir(torch._C._return_types), "all_return_types"})
