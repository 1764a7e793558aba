"""Copies of a module on several devices that share their gradients with the original."""
import rushlight as torch

__all__ = ["replicate"]


def replicate(network, devices, detach=False):
    """A replica of `network` on each device; the replicas' parameters are computed from the original's."""
    devices = [torch.device(d) if not isinstance(d, int) else torch.device("cuda", d) for d in devices]
    modules = list(network.modules())
    place = {module: i for i, module in enumerate(modules)}
    replicas = []
    for device in devices:
        twins = [module._replicate_for_data_parallel() for module in modules]
        for module, twin in zip(modules, twins):
            for name, child in module._modules.items():
                twin._modules[name] = None if child is None else twins[place[child]]
            for name, param in module._parameters.items():
                if param is None:
                    twin._parameters[name] = None
                    continue
                moved = (param.detach() if detach else param).to(device)
                setattr(twin, name, moved if moved is not param else param.view_as(param))
            for name, buffer in module._buffers.items():
                twin._buffers[name] = None if buffer is None else buffer.to(device)
        replicas.append(twins[0])
    return replicas
