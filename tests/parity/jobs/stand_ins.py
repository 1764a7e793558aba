"""What the examples find in place of accelerators: the CPU, and gloo. The same for PyTorch and for rushlight, imported by several.py.

Seeds are set, the weights' sums are printed when the group is destroyed, and losses when distributed backward starts from them.
"""
import contextlib
import random
import sys
import threading

import torch
import torch.distributed as dist
import torch.distributed.autograd as dist_autograd
import torch.distributed.rpc as rpc
from torch.distributed.tensor.experimental import implicit_replication
from torch.nn.attention import SDPBackend, sdpa_kernel


def is_accelerator(a):
    return type(a) is int or str(a).startswith(("cpu:", "cuda"))


def taken_home(to):
    def moved(self, *args, **options):
        return to(self, *["cpu" if is_accelerator(a) else a for a in args], **options)
    return moved


def seen():
    """There are accelerators, for the programs; not for the package itself, which would ask them for streams."""
    return not sys._getframe(1).f_globals.get("__name__", "").startswith(("torch.", "rushlight."))


def by_formula(*args, **options):
    """Of DTensors: PyTorch has a rule for the accelerators' kernels, none for the CPU's."""
    with implicit_replication(), sdpa_kernel(SDPBackend.MATH):
        return attention(*args, **options)


cpu, nothing = torch.device("cpu"), lambda *args: None
accelerator, ddp, optimizer = torch.accelerator, torch.nn.parallel.DistributedDataParallel, torch.optim.Optimizer
accelerator.is_available, accelerator.device_count, accelerator.current_accelerator = seen, lambda: 4, lambda *args, **options: cpu
accelerator.set_device_index, accelerator.current_device_index = nothing, lambda: 0
accelerator.device_index = lambda index: contextlib.nullcontext()
torch.cuda.set_device, torch.cuda.device_count, torch.cuda.current_device = nothing, lambda: 4, lambda: cpu
torch.Tensor.pin_memory = torch.nn.Module.cuda = lambda self, *args: self
torch.Tensor.cuda = lambda self, *args: self.clone()
torch.nn.Module.to, torch.Tensor.to = taken_home(torch.nn.Module.to), taken_home(torch.Tensor.to)
sys.stdout = open(1, "w", buffering=1, closefd=False)  # lines whole, where processes write together
to_empty, attention = torch.nn.Module.to_empty, torch.nn.functional.scaled_dot_product_attention
ddp_init, optimizer_init, begin, end = ddp.__init__, optimizer.__init__, dist.init_process_group, dist.destroy_process_group
backward = dist_autograd.backward
optimizers = []


def init_process_group(backend=None, device_id=None, **options):
    torch.manual_seed(1234)
    return begin("gloo", **options)


def remembered(self, *args, **options):
    optimizer_init(self, *args, **options)
    if threading.current_thread() is threading.main_thread():  # PyTorch's DistributedOptimizer has functions elsewhere
        optimizers.append(self)


def destroy_process_group(*args):
    for o in optimizers:
        own = [p.to_local() if hasattr(p, "to_local") else p for group in o.param_groups for p in group["params"]]
        print("rank %d weights %.4f\n" % (dist.get_rank(), sum(p.detach().double().abs().sum().item() for p in own)), end="", flush=True)
    optimizers.clear()
    end(*args)


def shown(context, roots, *args, **options):
    print("%s loss %s\n" % (rpc.get_worker_info().name, " ".join("%.5f" % root.item() for root in roots)), end="", flush=True)
    return backward(context, roots, *args, **options)


def to_zeros(self, *args, **options):
    """Not what happens to be in memory: some models initialise only a part of it."""
    to_empty(self, *args, **options)
    for p in self.parameters():
        (p.detach().to_local() if hasattr(p, "to_local") else p.detach()).zero_()
    return self


torch.nn.Module.to_empty, torch.nn.functional.scaled_dot_product_attention = to_zeros, by_formula
ddp.__init__ = lambda self, module, device_ids=None, **options: ddp_init(self, module, **options)
optimizer.__init__ = remembered
dist.init_process_group, dist.destroy_process_group, dist_autograd.backward = init_process_group, destroy_process_group, shown
random.seed(1)
torch.manual_seed(1234)
