"""DistributedDataParallel: a module trained by several processes that average their gradients. The averaging is C (src/dist/reducer.c)."""
import contextlib
import dataclasses
import sys
import warnings

import rushlight as torch
from rushlight import _C
from rushlight.nn.modules.module import Module
from rushlight.nn.parallel.scatter_gather import _recursive_to

from . import _mixed

__all__ = ["DistributedDataParallel"]


def _tensors(x):
    """All tensors in what a forward returns."""
    if isinstance(x, torch.Tensor):
        return [x]
    if isinstance(x, dict):
        return [t for v in x.values() for t in _tensors(v)]
    if isinstance(x, (list, tuple)):
        return [t for v in x for t in _tensors(v)]
    if dataclasses.is_dataclass(x) and not isinstance(x, type):
        return [t for f in dataclasses.fields(x) for t in _tensors(getattr(x, f.name))]
    return []


class GradBucket:
    """Gradients of some parameters in one tensor: what a communication hook gets."""

    def __init__(self, index, buffer, parameters, last):
        self._index, self._buffer, self._parameters, self._last = index, buffer, parameters, last

    def index(self):
        return self._index

    def buffer(self):
        return self._buffer

    def set_buffer(self, tensor):
        self._buffer = tensor

    def parameters(self):
        return self._parameters

    def gradients(self):
        parts = self._buffer.split([p.numel() for p in self._parameters])
        return [g.view(p.shape) for g, p in zip(parts, self._parameters)]

    def is_last(self):
        return self._last


class DistributedDataParallel(Module):
    """Averages the gradients of `module` over all processes of a group during each backward pass."""

    def __init__(self, module, device_ids=None, output_device=None, dim=0, broadcast_buffers=None, init_sync=True,
                 process_group=None, bucket_cap_mb=None, find_unused_parameters=False, check_reduction=False,
                 gradient_as_bucket_view=False, static_graph=False, delay_all_reduce_named_params=None,
                 param_to_hook_all_reduce=None, mixed_precision=None, device_mesh=None, skip_all_reduce_unused_params=False,
                 bucket_cap_mb_list=None, batched_grad_copy=False, forward_sync_buffers=None):
        super().__init__()
        distributed = torch.distributed
        if process_group is not None and device_mesh is not None:
            raise RuntimeError("Cannot specify both process_group and device_mesh arguments.")
        self.device_mesh = device_mesh
        self.process_group = process_group or (device_mesh.get_group(mesh_dim=0) if device_mesh is not None else
                                               distributed.distributed_c10d._get_default_group())
        self.parameters_to_ignore = set(getattr(module, "_ddp_params_and_buffers_to_ignore", ()))
        every = [p for n, p in module.named_parameters() if n not in self.parameters_to_ignore]
        self._parameters_of_ddp = [p for p in every if p.requires_grad]
        if not self._parameters_of_ddp:
            raise RuntimeError("DistributedDataParallel is not needed when a module doesn't have any parameters that require a gradient.")
        self.module, self.dim = module, dim
        self._choose_devices({p.device for p in every}, device_ids, output_device)
        self.device = every[0].device
        at_init = self._choose_buffers(broadcast_buffers, forward_sync_buffers)
        if check_reduction:
            warnings.warn("The `check_reduction` argument in `DistributedDataParallel` module is deprecated. Please avoid using it.", FutureWarning,
                          stacklevel=2)
        self.static_graph, self.batched_grad_copy, self.skip_all_reduce_unused_params = static_graph, batched_grad_copy, skip_all_reduce_unused_params
        self.find_unused_parameters, self.gradient_as_bucket_view = find_unused_parameters, gradient_as_bucket_view
        self.bucket_bytes_cap = int((25 if bucket_cap_mb is None else bucket_cap_mb) * 1024 * 1024)
        self._mixed = _mixed.needed(self.process_group)  # some of the processes are PyTorch's
        self._limits = [1 << 20, self.bucket_bytes_cap] if bucket_cap_mb is None else [self.bucket_bytes_cap]  # of buckets, there
        self._rebuilds = self._mixed and (static_graph or not find_unused_parameters)
        self.require_backward_grad_sync = self.require_forward_param_sync = True
        self._hook, self._futures, self._joining = None, {}, None
        if init_sync:
            (_mixed.verify if self._mixed else distributed.distributed_c10d._verify_params_across_processes)(self.process_group, self._parameters_of_ddp)
            self._broadcast(_mixed.state(module, at_init))
        self._make_reducer(_mixed.first_buckets(self._parameters_of_ddp, [sys.maxsize] if self._rebuilds else self._limits) if self._mixed else None)

    def _choose_devices(self, devices, device_ids, output_device):
        """Where inputs are moved: to the one device of the parameters, if it is given."""
        if device_ids is not None and len(device_ids) > 1:
            raise ValueError("device_ids can only be None or contain a single element.")
        kinds = {d.type for d in devices}
        if len(kinds) != 1:
            raise ValueError("DistributedDataParallel's input module must be on the same type of devices, but input module parameters locate in "
                             f"{kinds}.")
        self.device_type, = kinds
        self.is_multi_device_module = len(devices) > 1
        self.device_ids = self.output_device = None
        if not device_ids or self.device_type == "cpu" or self.is_multi_device_module:
            if device_ids or output_device:
                raise ValueError("DistributedDataParallel device_ids and output_device arguments only work with single-device/multiple-device GPU modules "
                                 f"or CPU modules, but got device_ids {device_ids}, output_device {output_device}, and module parameters {devices}.")
            return
        index = torch._utils._get_device_index
        self.device_ids = [index(device_ids[0], True)]
        self.output_device = index(device_ids[0] if output_device is None else output_device, True)

    def _choose_buffers(self, broadcast_buffers, forward_sync_buffers):
        """Whether rank 0's buffers are everyone's in each forward pass; returns whether they are at the beginning."""
        if broadcast_buffers is not None and forward_sync_buffers is not None:
            warnings.warn("Both `broadcast_buffers` and `forward_sync_buffers` were specified. `broadcast_buffers` is deprecated and its value is ignored "
                          "when `forward_sync_buffers` is provided.", FutureWarning, stacklevel=3)
        elif broadcast_buffers is not None:
            warnings.warn("`broadcast_buffers` is deprecated. Use `forward_sync_buffers` instead. Unlike `broadcast_buffers=False`, "
                          "`forward_sync_buffers=False` still syncs buffers at init.", FutureWarning, stacklevel=3)
        if forward_sync_buffers is not None:
            self.forward_sync_buffers = forward_sync_buffers
            return True
        self.forward_sync_buffers = broadcast_buffers is None or broadcast_buffers
        return self.forward_sync_buffers

    @property
    def broadcast_buffers(self):
        """The older name of forward_sync_buffers."""
        return self.forward_sync_buffers

    @broadcast_buffers.setter
    def broadcast_buffers(self, value):
        self.forward_sync_buffers = value

    @property
    def reducer(self):
        """What averages: reducer.prepare_for_backward([]) lets a backward pass average what others before it accumulated."""
        return self._reducer

    def _make_reducer(self, buckets=None):
        first = min(1 << 20, self.bucket_bytes_cap) or 1
        self._reducer = _C._Reducer(self.process_group._group, tuple(self._parameters_of_ddp), float(first), float(self.bucket_bytes_cap or 1),
                                    self.find_unused_parameters or self.static_graph, buckets)

    def _rebuild(self):
        """After the first backward pass, with PyTorch's processes: the buckets that rank 0 makes of the order of its gradients."""
        self._rebuilds = False
        buckets = _mixed.later_buckets(self.process_group, self._parameters_of_ddp, self._limits, self._reducer.came())
        self._reducer = None  # its hooks end
        self._make_reducer(buckets)
        if self._hook is not None:
            self._average_by(*self._hook)

    def _broadcast(self, values, src=0):
        tensors = [t.detach() for t in values if isinstance(t, torch.Tensor) and (t.numel() or self._mixed)]
        if self._mixed:
            return _mixed.broadcast(self.process_group, tensors, src)
        torch.distributed.distributed_c10d._broadcast_coalesced(self.process_group, tensors, 0, src)

    def _buffers_to_share(self):
        return [b for n, b in self.module.named_buffers() if n not in self.parameters_to_ignore]

    @staticmethod
    def _set_params_and_buffers_to_ignore_for_model(module, params_and_buffers_to_ignore):
        """What a module that will be wrapped keeps as each process has it, by names."""
        module._ddp_params_and_buffers_to_ignore = params_and_buffers_to_ignore

    def forward(self, *inputs, **kwargs):
        synchronised = torch.is_grad_enabled() and self.require_backward_grad_sync
        context = getattr(sys.modules.get("rushlight.distributed.autograd"), "current", bool)()
        if synchronised and context:
            context.averages(self._parameters_of_ddp)
        if self._rebuilds and torch.is_grad_enabled() and len(self._reducer.came()) == len(self._parameters_of_ddp):
            self._rebuild()
        buffers = self.require_forward_param_sync and self.forward_sync_buffers and bool(self._buffers_to_share())
        if self._joining is not None:
            self._joining.notify((synchronised, buffers))
        if buffers:
            self._broadcast(self._buffers_to_share())
        if self.device_ids:
            inputs, kwargs = (_recursive_to(x, torch.device(self.device_type, self.device_ids[0]), False) for x in (inputs, kwargs))
            inputs, kwargs = inputs[0], kwargs[0]
        out = self.module(*inputs, **kwargs)
        self._reducer.sync(synchronised)
        if synchronised:
            self._reducer.prepare(tuple(_tensors(out)))
            self.require_forward_param_sync = True
        else:
            self.require_forward_param_sync = False
        return out

    def train(self, mode=True):
        super().train(mode)
        return self

    @contextlib.contextmanager
    def no_sync(self):
        """Accumulate gradients without averaging them."""
        before, self.require_backward_grad_sync = self.require_backward_grad_sync, False
        try:
            yield
        finally:
            self.require_backward_grad_sync = before

    def register_comm_hook(self, state, hook):
        """hook(state, bucket) begins to combine a bucket's gradients and returns a Future of what they become."""
        if not callable(hook):
            raise TypeError("Communication hook must be callable.")
        if self._hook is not None:
            raise RuntimeError("register_comm_hook or register_builtin_comm_hook can only be called once.")
        self._hook = state, hook
        self._average_by(state, hook)

    def _average_by(self, state, hook):
        """From now on a hook combines the gradients of each bucket."""
        buckets = self._reducer.buckets()

        def begin(i):
            flat, numbers = buckets[i]
            parameters = [self._parameters_of_ddp[k] for k in numbers]
            self._futures[i] = hook(state, GradBucket(i, flat, parameters, i == len(buckets) - 1))

        def finish(i):
            value = self._futures.pop(i).wait()
            value = value[0] if isinstance(value, (list, tuple)) else value
            with torch.no_grad():
                if value is not buckets[i][0]:
                    buckets[i][0].copy_(value.view(-1))

        self._reducer.hooks(begin, finish)

    def _average_over_running(self, context):
        """Gradients become means over those processes that still have batches."""
        def running(state, bucket):
            n = context.running if self._joining is context else self.process_group.size()
            return torch.distributed.all_reduce(bucket.buffer().div_(n), group=self.process_group, async_op=True).get_future()
        self._average_by(None, running)

    def _shadow_step(self, gradients, buffers):
        """The collectives of a step of the others, for a process that has no batch: zeros are its part of the gradients."""
        if buffers:
            self._broadcast(self._buffers_to_share())
        if not gradients:
            return
        distributed, pending = torch.distributed, []
        buckets = self._reducer.buckets()
        for i, (flat, numbers) in enumerate(buckets):
            flat.detach().zero_()
            parameters = [self._parameters_of_ddp[k] for k in numbers]
            pending.append(self._hook[1](self._hook[0], GradBucket(i, flat, parameters, i == len(buckets) - 1)) if self._hook is not None else
                           distributed.all_reduce(flat, group=self.process_group, async_op=True))
        if self.find_unused_parameters or self.static_graph:
            where = "cpu" if "cpu" in distributed.distributed_c10d._device_capability(self.process_group) else self.device
            distributed.all_reduce(torch.zeros(len(self._parameters_of_ddp), dtype=torch.int32, device=where), group=self.process_group)
        for work, (flat, numbers) in zip(pending, buckets):
            value = work.wait()
            flat = flat if self._hook is None else value[0] if isinstance(value, (list, tuple)) else value
            means = flat.view(-1).split([self._parameters_of_ddp[k].numel() for k in numbers])
            for k, mean in zip(numbers, means):
                p = self._parameters_of_ddp[k]
                p.grad = mean.view(p.shape).to(p.dtype).clone()

    def _get_ddp_logging_data(self):
        return {"world_size": self.process_group.size(), "rank": self.process_group.rank(), "module_name": type(self.module).__name__,
                "bucket_sizes": ", ".join(str(f.numel() * f.element_size()) for f, _ in self._reducer.buckets())}

    def __getstate__(self):
        state = dict(self.__dict__)
        for name in ("process_group", "_reducer", "_futures", "_hook"):  # of this process
            state.pop(name, None)
        return state

    def __setstate__(self, state):
        super().__setstate__(state)
        self.process_group = torch.distributed.distributed_c10d._get_default_group()
        self._hook, self._futures = None, {}
        self._make_reducer()

    @contextlib.contextmanager
    def join(self, divide_by_initial_world_size=True, enable=True, throw_on_early_termination=False):
        """Processes may have different numbers of batches: those that are done follow the others until all are."""
        from rushlight.distributed.algorithms.join import Join
        with Join([self], enable, throw_on_early_termination, divide_by_initial_world_size=divide_by_initial_world_size):
            yield

    def join_hook(self, **kwargs):
        from rushlight.distributed.algorithms.join import _DDPJoinHook
        return _DDPJoinHook(self, **kwargs)

    @property
    def join_device(self):
        return self.device

    @property
    def join_process_group(self):
        return self.process_group
