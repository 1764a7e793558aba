"""A module that lives at another worker of remote calls; here is what stands for it: its forward is called there, and gradients go back there."""
import rushlight as torch
from rushlight.nn import Module
from rushlight.utils._pytree import tree_map_only

from ... import rpc
from ...remote_device import _remote_device
from ...rpc._agent import running

__all__ = ["RemoteModule"]


def _made(cls, args, kwargs, device):
    """At the owner: the module."""
    module = cls(*args, **kwargs)
    if not isinstance(module, Module):
        raise ValueError(f"Expect `module_cls(*args, **kwargs)` returns an instance of <class nn.Module>, but it returns an instance of {type(module)}.")
    return module.to(device)


def _called(rref, device, args, kwargs):
    """At the owner: what the module's forward returns. Calls carry tensors of the CPU."""
    module = rref.local_value()
    if device == "cpu":
        return module(*args, **kwargs)
    args, kwargs = tree_map_only(torch.Tensor, lambda t: t.to(device), (args, kwargs))
    return tree_map_only(torch.Tensor, torch.Tensor.cpu, module(*args, **kwargs))


def _parameters_of(rref, recurse):
    """At the owner: references to the parameters."""
    return [rpc.RRef(p) for p in rref.local_value().parameters(recurse)]


class RemoteModule(Module):
    """module_cls(*args, **kwargs), made at a worker: remote_device is "worker", "worker/device" or "rank:number/device".

    It may be sent to other workers, which then use the same module. Of a module's methods it has forward, forward_async, train and eval.
    """

    def __init__(self, remote_device, module_cls, args=None, kwargs=None):
        self._stand(remote_device)
        self.module_rref = rpc.remote(self.on, _made, (module_cls, tuple(args or ()), dict(kwargs or {}), self.device))

    def _stand(self, remote_device):
        super().__init__()
        if running() is None:
            raise AssertionError("RemoteModule only works in RPC.")
        at = _remote_device(remote_device)
        self.on = at.rank() if at.worker_name() is None else at.worker_name()
        self.device, self.is_device_map_set, self.is_scriptable = str(at.device()), False, False

    @staticmethod
    def init_from_module_rref(remote_device, module_rref, _module_interface_cls=None):
        """Stands for a module that is there already."""
        if _module_interface_cls is not None:
            raise NotImplementedError("RemoteModule.init_from_module_rref: interfaces of TorchScript (_module_interface_cls) are not supported")
        x = RemoteModule.__new__(RemoteModule)
        x._stand(remote_device)
        x.module_rref = module_rref
        return x

    def forward_async(self, *args, **kwargs):
        """A future of what forward returns."""
        return rpc.rpc_async(self.module_rref.owner(), _called, (self.module_rref, self.device, args, kwargs))

    def forward(self, *args, **kwargs):
        return self.forward_async(*args, **kwargs).wait()

    def remote_parameters(self, recurse=True):
        """References to the module's parameters, as DistributedOptimizer takes them."""
        return rpc.rpc_sync(self.on, _parameters_of, (self.module_rref, recurse))

    def get_module_rref(self):
        """The reference to the module itself."""
        return self.module_rref

    def train(self, mode=True):
        return self.module_rref.rpc_sync().train(mode)

    def eval(self):
        return self.module_rref.rpc_sync().eval()

    def parameters(self, recurse=True):
        raise ValueError("Method ``parameters`` not supported for RemoteModule. Please use ``remote_parameters`` instead.")

    def _reduce_for_workers(self):
        at = f"rank:{self.on}" if isinstance(self.on, int) else self.on
        return RemoteModule.init_from_module_rref, (f"{at}/{self.device}", self.module_rref)

    def __reduce_ex__(self, protocol):
        raise RuntimeError("Cannot pickle RemoteModule in python pickler. RemoteModule can only be pickled when using RPC")


def _elsewhere(name):
    def method(self, *args, **kwargs):
        raise ValueError(f"Method ``{name}`` not supported for RemoteModule")
    method.__name__, method.__qualname__ = name, "RemoteModule." + name
    return method


for _name in """register_buffer register_parameter add_module apply cuda ipu xpu cpu type float double half bfloat16 to register_backward_hook
                register_forward_pre_hook register_forward_hook state_dict load_state_dict named_parameters buffers named_buffers children named_children
                modules named_modules requires_grad_ zero_grad share_memory extra_repr""".split():
    setattr(RemoteModule, _name, _elsewhere(_name))
