"""One process, several GPUs: the batch is cut up, replicas compute, results are joined."""
import rushlight as torch
from rushlight.nn.modules.module import Module
from rushlight.nn.parallel.parallel_apply import parallel_apply
from rushlight.nn.parallel.replicate import replicate
from rushlight.nn.parallel.scatter_gather import gather, scatter_kwargs

__all__ = ["DataParallel", "data_parallel"]


class DataParallel(Module):
    """Runs `module` on several GPUs; without a GPU it only passes calls through.

    device_ids: the GPUs, numbers or devices; None: all. output_device: where the result comes together; None: the first of them.
    dim: the dimension of the batch, along which inputs are split and results joined.

    Shape: (N, *), split into pieces of (N / GPUs, *), to what the module makes of them, (N, *).

    >>> nn.DataParallel(nn.Linear(2, 3))(torch.ones(4, 2)).shape
    torch.Size([4, 3])
    """

    def __init__(self, module, device_ids=None, output_device=None, dim=0):
        super().__init__()
        self.module = module
        self.device_ids = []
        count = torch.cuda.device_count() if torch.cuda.is_available() else 0
        if count == 0:
            return
        self.device_ids = list(range(count)) if device_ids is None else [
            d if isinstance(d, int) else torch.device(d).index for d in device_ids]
        if not self.device_ids:
            raise RuntimeError("no available devices were found")
        self.dim = dim
        self.output_device = self.device_ids[0] if output_device is None else output_device
        self.src_device_obj = torch.device("cuda", self.device_ids[0])
        if len(self.device_ids) == 1:
            self.module.to(self.src_device_obj)

    def forward(self, *inputs, **kwargs):
        if not self.device_ids:
            return self.module(*inputs, **kwargs)
        for tensor in (*self.module.parameters(), *self.module.buffers()):
            if tensor.device != self.src_device_obj:
                raise RuntimeError("module must have its parameters and buffers on device "
                                   f"{self.src_device_obj} (device_ids[0]) but found one of them on device: "
                                   f"{tensor.device}")
        inputs, kwargs = self.scatter(inputs, kwargs, self.device_ids)
        if not inputs and not kwargs:
            inputs, kwargs = ((),), ({},)
        if len(self.device_ids) == 1:
            return self.module(*inputs[0], **kwargs[0])
        replicas = self.replicate(self.module, self.device_ids[:len(inputs)])
        return self.gather(self.parallel_apply(replicas, inputs, kwargs), self.output_device)

    def replicate(self, module, device_ids):
        """Copies of the module on the devices."""
        return replicate(module, device_ids, not torch.is_grad_enabled())

    def scatter(self, inputs, kwargs, device_ids):
        """The arguments, cut up."""
        return scatter_kwargs(inputs, kwargs, device_ids, dim=self.dim)

    def parallel_apply(self, replicas, inputs, kwargs):
        """All replicas' results."""
        return parallel_apply(replicas, inputs, kwargs, self.device_ids[:len(replicas)])

    def gather(self, outputs, output_device):
        """The results, joined."""
        return gather(outputs, output_device, dim=self.dim)


def data_parallel(module, inputs, device_ids=None, output_device=None, dim=0, module_kwargs=None):
    """Evaluate `module` once on several GPUs."""
    inputs = inputs if isinstance(inputs, tuple) else (inputs,) if inputs is not None else ()
    return DataParallel(module, device_ids, output_device, dim)(*inputs, **(module_kwargs or {}))
