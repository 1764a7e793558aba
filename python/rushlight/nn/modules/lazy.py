"""Layers that learn their shapes from the first input.

A lazy layer starts with uninitialized parameters and a forward pre-hook; the hook fills them in, changes
the layer's class to the ordinary one and goes away.
"""
import rushlight as torch
from rushlight.nn.parameter import is_lazy

__all__ = ["LazyModuleMixin"]


class LazyModuleMixin:
    """Mixin for lazy layers: say `cls_to_become`, write `initialize_parameters(*inputs)`."""

    cls_to_become = None

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self._load_hook = self._register_load_state_dict_pre_hook(self._lazy_load_hook)
        self._initialize_hook = self.register_forward_pre_hook(self._infer_parameters, with_kwargs=True)

    def _save_to_state_dict(self, destination, prefix, keep_vars):
        # An uninitialized tensor has nothing to detach; it is saved as what it is.
        for name, tensor in (*self._parameters.items(), *self._buffers.items()):
            if tensor is None or name in self._non_persistent_buffers_set:
                continue
            destination[prefix + name] = tensor if keep_vars or is_lazy(tensor) else tensor.detach()

    def _lazy_load_hook(self, state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs):
        """Give uninitialized tensors the shapes of what is about to be loaded."""
        for name, tensor in (*self._parameters.items(), *self._buffers.items()):
            key = prefix + name
            if tensor is None or not is_lazy(tensor) or key not in state_dict:
                continue
            given = state_dict[key]
            if not is_lazy(given):
                with torch.no_grad():
                    tensor.materialize(given.shape)

    def initialize_parameters(self, *args, **kwargs):
        """Materialize the parameters from a first batch; subclasses write it."""
        raise NotImplementedError(f"initialize_parameters is not implemented for {type(self).__name__}")

    def has_uninitialized_params(self):
        """True while a parameter or buffer has no shape."""
        return any(is_lazy(t) for t in (*self._parameters.values(), *self._buffers.values()))

    def _infer_parameters(self, module, args, kwargs=None):
        module.initialize_parameters(*args, **(kwargs or {}))
        if module.has_uninitialized_params():
            raise RuntimeError(f"module {self._get_name()} has not been fully initialized")
        module._initialize_hook.remove()
        module._load_hook.remove()
        del module._initialize_hook
        del module._load_hook
        if module.cls_to_become is not None:
            module.__class__ = module.cls_to_become

    def _replicate_for_data_parallel(self):
        raise RuntimeError("Modules with uninitialized parameters can't be used with `DataParallel`. Run a dummy "
                           "forward pass to correctly initialize the modules")
