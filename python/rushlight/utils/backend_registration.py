"""Renaming the device type reserved for out-of-tree backends."""
import rushlight as torch

__all__ = ["generate_methods_for_privateuse1_backend", "rename_privateuse1_backend"]


def rename_privateuse1_backend(backend_name):
    """Give the device type privateuseone another name."""
    torch._C._rename_privateuse1_backend(backend_name)


def generate_methods_for_privateuse1_backend(for_tensor=True, for_module=True, for_packed_sequence=True,
                                             for_storage=False, unsupported_dtype=None):
    """Add is_NAME and NAME() to tensors and modules."""
    name = torch._C._get_privateuse1_backend_name()

    def is_backend(self):
        return self.device.type == name

    def to_backend(self, device=None, non_blocking=False, **kwargs):
        target = torch.device(name, 0 if device is None else torch._utils._get_device_index(device))
        return self.to(device=target, non_blocking=non_blocking, **kwargs)

    def module_to_backend(self, device=None):
        target = torch.device(name, 0 if device is None else torch._utils._get_device_index(device))
        return self._apply(lambda t: t.to(target))

    if for_tensor:
        setattr(torch.Tensor, "is_" + name, property(is_backend))
        setattr(torch.Tensor, name, to_backend)
    if for_module:
        setattr(torch.nn.Module, name, module_to_backend)
