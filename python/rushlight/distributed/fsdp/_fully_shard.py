"""fully_shard(): a module's parameters in pieces, as DTensors (FSDP2)."""
import dataclasses

import rushlight as torch
from rushlight import nn

from ..device_mesh import init_device_mesh
from ..tensor import DTensor, Replicate, Shard
from ._groups import ByParameter, Group, Places, cast, forget_pass
from ._traversal_utils import own_modules

__all__ = ["fully_shard", "FSDPModule", "MixedPrecisionPolicy", "OffloadPolicy", "CPUOffloadPolicy", "UnshardHandle", "register_fsdp_forward_method",
           "DataParallelMeshDims", "share_comm_ctx"]


@dataclasses.dataclass(frozen=True)
class MixedPrecisionPolicy:
    """The dtypes in which parameters are gathered, gradients are summed, and outputs are given; None: as they are."""
    param_dtype: torch.dtype = None
    reduce_dtype: torch.dtype = None
    output_dtype: torch.dtype = None
    cast_forward_inputs: bool = True


@dataclasses.dataclass
class OffloadPolicy:
    """Pieces stay where they are."""


@dataclasses.dataclass
class CPUOffloadPolicy(OffloadPolicy):
    """Pieces are kept in the CPU's memory."""
    pin_memory: bool = True


@dataclasses.dataclass(frozen=True)
class DataParallelMeshDims:
    """Names of a mesh's dimensions along which parameters are cut and copied."""
    shard: str | tuple[str, ...] | None = None
    replicate: str | tuple[str, ...] | None = None

    def __post_init__(self):
        if self.shard is None and self.replicate is None:
            raise ValueError("At least one of shard or replicate must be set in DataParallelMeshDims")


class UnshardHandle:
    """Of unshard(async_op=True)."""

    def wait(self):
        return None


class FSDPModule:
    """What a module can do after fully_shard()."""

    @property
    def _groups_below(self):
        groups = dict.fromkeys(getattr(m, "_fsdp_group", None) for m in self.modules())     # several modules may have one
        return [group for group in groups if group is not None]

    def reshard(self):
        if self._fsdp_group is not None:
            self._fsdp_group.reshard()

    def unshard(self, async_op=False):
        if self._fsdp_group is not None:
            self._fsdp_group.unshard()
        return UnshardHandle() if async_op else None

    def _set(self, recurse, **values):
        for group in self._groups_below if recurse else [self._fsdp_group]:
            for name, value in values.items():
                setattr(group, name, value)

    def set_requires_gradient_sync(self, requires_gradient_sync, *, recurse=True):
        self._set(recurse, sync=requires_gradient_sync)

    def set_is_last_backward(self, is_last_backward):
        """Gradients are summed in every backward pass that is to; there is nothing to wait for."""

    def set_requires_all_reduce(self, requires_all_reduce, *, recurse=True):
        """False: with copies of pieces (a mesh of two dimensions) sums over the pieces' group are kept, for the backward pass that has it True again."""
        self._set(recurse, all_reduce=requires_all_reduce)

    def set_gradient_divide_factor(self, factor):
        """What sums of gradients are divided by, instead of the number of processes."""
        self._set(False, divide_by=factor)

    def set_reduce_scatter_divide_factor(self, factor):
        """The older name of set_gradient_divide_factor."""
        self.set_gradient_divide_factor(factor)

    def set_all_reduce_hook(self, hook, *, stream=None):
        """hook(gradients) changes what was summed over the processes and divided, this process's pieces one behind the other."""
        self._set(False, all_reduce_hook=hook)

    def set_custom_all_gather(self, comm):
        """comm.allocate(size, dtype=, device=) and comm(output, input, group), which may return a Work, gather parameters."""
        self._set(False, all_gather_by=comm)

    def set_custom_reduce_scatter(self, comm):
        """comm.allocate(size, dtype=, device=) and comm(output, input, group, op), which may return a Work, sum gradients."""
        self._set(False, reduce_scatter_by=comm)

    def set_reduce_scatter_unused_params(self, reduce_scatter_unused_params, *, recurse=True):
        """Parameters without a gradient take part with zeros: other processes may have one."""
        self._set(recurse, fill_unused=reduce_scatter_unused_params)

    def set_unshard_in_backward(self, unshard_in_backward):
        """False: the backward pass reads none of these parameters, as that of an embedding."""
        self._set(False, unshard_in_backward=unshard_in_backward)

    def set_force_sum_reduction_for_comms(self, enable):
        """Gradients are always summed and then divided."""

    def set_post_optim_event(self, event):
        """What gathers parameters comes after the event."""
        event.wait()

    def set_reduce_scatter_max_input_buffers(self, max_input_buffers, *, recurse=True):
        """A group's gradients are summed in its turn: there is one such buffer."""
        if not isinstance(max_input_buffers, int) or max_input_buffers < 1:
            raise ValueError(f"max_input_buffers must be a positive int, got {max_input_buffers}")

    def set_separate_reduce_scatter_group(self, enable=True, *, recurse=True):
        """The calls of a group are done in order, on one communicator as on two."""

    def set_allocate_memory_from_process_group_for_comm(self, enable):
        """Groups have no memory of their own here."""

    def set_symm_mem_for_comm(self, backend="NCCL"):
        raise NotImplementedError("set_symm_mem_for_comm: symmetric memory is not supported")

    def reset_iter_state(self):
        """After an exception in the forward or backward pass: everything in pieces, and the gradients of that step forgotten."""
        if not self._fsdp_is_root:
            raise RuntimeError("reset_iter_state must be called on the root FSDP module")
        for group in self._groups_below:
            group.forget()
        forget_pass()

    def set_reshard_after_forward(self, reshard_after_forward, recurse=True):
        self._set(recurse, reshard_after_forward=reshard_after_forward)

    def set_reshard_after_backward(self, reshard_after_backward, *, recurse=True):
        self._set(recurse, reshard_after_backward=reshard_after_backward)

    def set_modules_to_forward_prefetch(self, modules):
        """Nothing is prefetched: the calls of a group are done in order."""

    def set_modules_to_backward_prefetch(self, modules):
        """Nothing is prefetched: the calls of a group are done in order."""


def share_comm_ctx(modules):
    """Modules of several roots may have their calls in one order: here all have."""
    for module in modules:
        if not isinstance(module, FSDPModule):
            raise ValueError(f"Expects list of FSDPModules but got {module}")


def _shard_dims(mesh):
    """(the mesh's dimension along which parameters are cut, that along which they are copied)"""
    if mesh.ndim == 1:
        return 0, None
    if mesh.ndim == 2:
        return 1, 0
    raise ValueError(f"fully_shard expects a 1D or 2D DeviceMesh but got {mesh}")


def _move(modules, ignored, mesh):
    """Parameters and buffers to this process's device of the mesh, which is returned; those of DTensors are there."""
    device = torch.device(mesh.device_type) if mesh.device_type == "cpu" else torch.device(mesh.device_type, torch.accelerator.current_device_index())
    for m in modules:
        for t in (*m._parameters.values(), *m._buffers.values()):
            if t is not None and t not in ignored and not isinstance(t, DTensor) and t.device != device and t.device.type != "meta":
                t.data = t.data.to(device)
    return device


def _as_shard(layout, number, p, mesh, placements, offload):
    """The DTensor that a process keeps of a parameter."""
    d = layout.dims[number]
    local = layout.cut(number, layout.local_of(p))
    if isinstance(offload, CPUOffloadPolicy) and local.device.type != "cpu":
        local = local.cpu().pin_memory() if offload.pin_memory else local.cpu()
    placements = [Shard(d) if place == "cut" else Replicate() for place in placements]
    if isinstance(p, DTensor):  # spread already: that comes first, these pieces are pieces of its pieces
        mesh, placements = p.device_mesh._beside(mesh), [*p.placements, *placements]
    return nn.Parameter(DTensor(local, mesh, placements, p.shape, p.stride()), p.requires_grad)


def fully_shard(module, *, mesh=None, reshard_after_forward=None, shard_placement_fn=None, mp_policy=MixedPrecisionPolicy(),
                offload_policy=OffloadPolicy(), ignored_params=None, dp_mesh_dims=None):
    """Spread a module's parameters over a mesh, those of modules that are spread already excepted. In place; the module itself is returned.
    Of a list of modules the parameters are gathered when the first is called, and again in pieces when each was."""
    roots = list(module) if isinstance(module, (list, tuple)) else [module]
    if isinstance(module, (nn.ModuleList, nn.ModuleDict)):
        raise ValueError(f"fully_shard does not support containers that do not implement forward: {module}")
    for root in roots:
        if isinstance(root, FSDPModule):
            raise AssertionError("Each distinct composable distributed API can only be applied to a module once. fully_shard has already been applied to the following module:\n%s" % root)
    if dp_mesh_dims is not None:
        raise NotImplementedError("fully_shard(dp_mesh_dims=...): pass the part of the mesh along which parameters are cut and copied, mesh[\"dp\"]")
    if mesh is None:
        kind = torch.accelerator.current_accelerator(check_available=True)
        mesh = init_device_mesh("cpu" if kind is None else kind.type, (torch.distributed.get_world_size(),))
    cut, copied = _shard_dims(mesh)
    modules = list(dict.fromkeys(m for root in roots for m in own_modules(root, lambda m: isinstance(m, FSDPModule))))
    device = _move(modules, set(ignored_params or ()), mesh)
    places = Places(modules, ignored_params or ())
    dims = [placement.dim if placement is not None else 0
            for placement in (shard_placement_fn(p) if shard_placement_fn is not None else None for p in places.params)]
    group = None
    if places.params:
        layout = ByParameter(places, mesh, cut, dims)
        group = Group(layout, places.params, device, mesh.get_group(cut), mesh.get_group(copied) if copied is not None else None,
                      reshard_after_forward is not False, mp_policy.param_dtype, mp_policy.reduce_dtype, len(roots))
        kinds = ["cut" if d == cut else "copied" for d in range(mesh.ndim)]
        for number, p in enumerate(places.params):
            places.put(number, _as_shard(layout, number, p, mesh, kinds, offload_policy))
    for root in roots:
        root._fsdp_group, root._fsdp_policy, root._fsdp_is_root = group, mp_policy, True
        for inner in root.modules():
            if inner is not root and isinstance(inner, FSDPModule):
                inner._fsdp_is_root = False
        root.__class__ = type("FSDP" + type(root).__name__, (FSDPModule, type(root)), {"__module__": type(root).__module__})
        root.register_forward_pre_hook(_before, prepend=True, with_kwargs=True)
        root.register_forward_hook(_after, prepend=False)
    return module


def _before(module, args, kwargs):
    if module._fsdp_group is not None:
        module._fsdp_group.before_forward()
    policy = module._fsdp_policy
    if policy.param_dtype is not None and policy.cast_forward_inputs:
        return cast(args, policy.param_dtype), cast(kwargs, policy.param_dtype)
    return args, kwargs


def _after(module, args, outputs):
    if module._fsdp_policy.output_dtype is not None:
        outputs = cast(outputs, module._fsdp_policy.output_dtype)
    if module._fsdp_group is not None:
        module._fsdp_group.after_forward(outputs, module)
    return outputs


def register_fsdp_forward_method(module, method_name):
    """Let another method of the module see its whole parameters, too."""
    if not isinstance(module, FSDPModule):
        return
    method = getattr(module, method_name)

    def whole(*args, **kwargs):
        args, kwargs = _before(module, args, kwargs)
        return _after(module, args, method(*args, **kwargs))
    setattr(module, method_name, whole)
