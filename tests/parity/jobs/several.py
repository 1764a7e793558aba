"""Runs a program for several accelerators on the CPU: several.py PROGRAM ARGS, the same for PyTorch and for rushlight.

Devices are taken for the CPU, the backend for gloo; seeds are set, and the weights' sums are printed when the group is destroyed.
"""
import contextlib
import os
import random
import runpy
import sys

import torch
import torch.distributed as dist


def taken_home(to):
    def moved(self, *args, **options):
        return to(self, *["cpu" if type(a) is int or str(a).startswith("cpu:") else a for a in args], **options)
    return moved


cpu, nothing = torch.device("cpu"), lambda *args: None
accelerator, ddp, optimizer = torch.accelerator, torch.nn.parallel.DistributedDataParallel, torch.optim.Optimizer
accelerator.is_available, accelerator.device_count, accelerator.current_accelerator = lambda: True, lambda: 4, lambda *args, **options: cpu
accelerator.set_device_index, accelerator.current_device_index = nothing, lambda: 0
accelerator.device_index = lambda index: contextlib.nullcontext()
torch.cuda.set_device, torch.cuda.device_count, torch.Tensor.pin_memory = nothing, lambda: 4, lambda self, *args: self
torch.nn.Module.to, torch.Tensor.to = taken_home(torch.nn.Module.to), taken_home(torch.Tensor.to)
sys.stdout = open(1, "w", buffering=1, closefd=False)  # lines whole, where processes write together
to_empty = torch.nn.Module.to_empty
ddp_init, optimizer_init, begin, end = ddp.__init__, optimizer.__init__, dist.init_process_group, dist.destroy_process_group
optimizers = []


def init_process_group(backend=None, device_id=None, **options):
    torch.manual_seed(1234)
    return begin("gloo", **options)


def remembered(self, *args, **options):
    optimizer_init(self, *args, **options)
    optimizers.append(self)


def destroy_process_group(*args):
    for o in optimizers:
        own = [p.to_local() if hasattr(p, "to_local") else p for group in o.param_groups for p in group["params"]]
        print("rank %d weights %.4f\n" % (dist.get_rank(), sum(p.detach().double().abs().sum().item() for p in own)), end="", flush=True)
    optimizers.clear()
    end(*args)


def to_zeros(self, *args, **options):
    """Not what happens to be in memory: some models initialise only a part of it."""
    to_empty(self, *args, **options)
    for p in self.parameters():
        (p.detach().to_local() if hasattr(p, "to_local") else p.detach()).zero_()
    return self


torch.nn.Module.to_empty = to_zeros
ddp.__init__ = lambda self, module, device_ids=None, **options: ddp_init(self, module, **options)
optimizer.__init__ = remembered
dist.init_process_group, dist.destroy_process_group = init_process_group, destroy_process_group
random.seed(1)
torch.manual_seed(1234)
sys.argv = sys.argv[1:]
sys.path[0] = os.path.dirname(os.path.abspath(sys.argv[0]))
runpy.run_path(sys.argv[0], run_name="__main__")
