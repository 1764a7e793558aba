"""DTensor: a tensor whose elements are spread over the processes of a mesh. To programs it is one tensor, of its whole size.

A wrapper subclass: _local_tensor is what this process has, _spec says where the rest is. Gradients are recorded for the whole tensor; what
runs on the pieces is below that (_dispatch.py). from_local, to_local and redistribute are autograd functions between the two.
"""
import warnings

import rushlight as torch

from . import _dispatch
from ._redistribute import redistributed
from ._utils import compute_global_tensor_info, compute_local_shape_and_global_offset
from .placement_types import DTensorSpec, Partial, Placement, Replicate, Shard, TensorMeta

__all__ = ["DTensor", "distribute_tensor", "distribute_module", "ones", "empty", "full", "rand", "randn", "zeros"]


def _mesh(mesh):
    if mesh is None:
        from ..device_mesh import _mesh_resources
        return _mesh_resources.get_current_mesh()
    return mesh


def _placed(mesh, placements, ndim=None, default=None):
    """A placement for each dimension of the mesh, dimensions of the tensor counted from 0."""
    placements = [default or Replicate()] * mesh.ndim if placements is None else list(placements)
    if len(placements) != mesh.ndim:
        raise ValueError(f"`placements` must have the same length as `device_mesh.ndim`! Found placements length: {len(placements)}, "
                         f"and device_mesh.ndim: {mesh.ndim}.")
    for i, p in enumerate(placements):
        if not isinstance(p, Placement):
            raise RuntimeError(f"placements must be Shard, Replicate or Partial, but found {p!r}")
        if p.is_shard() and ndim is not None:
            if not -ndim <= p.dim < ndim:
                raise IndexError(f"Shard(dim={p.dim}) of a tensor of {ndim} dimensions")
            placements[i] = Shard(p.dim % ndim)
    return tuple(placements)


def _settled(placements):
    """Placements that a gradient can be kept in: copies instead of parts of sums."""
    return tuple(Replicate() if p.is_partial() else p for p in placements)


class _ToLocal(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, grad_placements):
        ctx.spec, ctx.placements = x._spec, tuple(grad_placements) if grad_placements is not None else _settled(x._spec.placements)
        return x._local_tensor.view_as(x._local_tensor)

    @staticmethod
    def backward(ctx, grad):
        meta = ctx.spec.tensor_meta
        return DTensor(grad, ctx.spec.mesh, ctx.placements, meta.shape, meta.stride), None


class _FromLocal(torch.autograd.Function):
    @staticmethod
    def forward(ctx, local, mesh, placements, shape, stride, grad_placements):
        ctx.mesh, ctx.placements = mesh, tuple(grad_placements) if grad_placements is not None else _settled(placements)
        return DTensor(local.view_as(local), mesh, placements, shape, stride)

    @staticmethod
    def backward(ctx, grad):
        return grad.detach()._moved(ctx.placements)._local_tensor, None, None, None, None, None


class _Redistribute(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, placements):
        ctx.placements = _settled(x._spec.placements)
        return x.detach()._moved(placements)

    @staticmethod
    def backward(ctx, grad):
        return grad.detach()._moved(ctx.placements), None


class DTensor(torch.Tensor):
    """A tensor spread over a mesh; made by distribute_tensor() and DTensor.from_local()."""

    @staticmethod
    def __new__(cls, local, mesh, placements, shape, stride, requires_grad=False):
        x = torch.Tensor._make_wrapper_subclass(cls, tuple(shape), strides=tuple(stride), dtype=local.dtype, device=local.device, layout=local.layout,
                                                requires_grad=requires_grad)
        x._local_tensor = local.detach() if local.requires_grad else local
        x._spec = DTensorSpec(mesh, tuple(placements), TensorMeta(torch.Size(shape), tuple(stride), local.dtype))
        return x

    __module__ = "rushlight.distributed.tensor"
    __torch_function__ = torch._C._disabled_torch_function_impl

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        return _dispatch.run(DTensor, func, args, kwargs or {})

    device_mesh = property(lambda self: self._spec.mesh)
    placements = property(lambda self: self._spec.placements)

    @staticmethod
    def from_local(local_tensor, device_mesh=None, placements=None, *, run_check=False, shape=None, stride=None, grad_placements=None):
        """The tensor whose pieces (or copies, or parts of a sum) the processes have."""
        mesh = _mesh(device_mesh)
        placements = _placed(mesh, placements, local_tensor.dim())
        if (shape is None) != (stride is None):
            raise RuntimeError(f"Found shape:{shape}, stride:{stride}.Please pass both shape and stride at the same time.")
        if shape is None:
            shape, stride = compute_global_tensor_info(local_tensor, mesh, placements)
        if run_check:
            for d, p in enumerate(placements):
                if p.is_replicate():
                    torch.distributed.broadcast(local_tensor.detach(), group=mesh.get_group(d), group_src=0)
        return _FromLocal.apply(local_tensor, mesh, placements, tuple(shape), tuple(stride), grad_placements)

    def to_local(self, *, grad_placements=None):
        """What this process has."""
        if not torch.is_grad_enabled():
            return self._local_tensor
        return _ToLocal.apply(self, grad_placements)

    def _moved(self, placements):
        """Without a record."""
        meta = self._spec.tensor_meta
        local = redistributed(self._local_tensor, meta.shape, self._spec.mesh, self._spec.placements, placements)
        return DTensor(local, self._spec.mesh, placements, meta.shape, meta.stride)

    def redistribute(self, device_mesh=None, placements=None, *, async_op=False, forward_dtype=None, backward_dtype=None):
        """The same tensor spread otherwise."""
        if device_mesh is not None and device_mesh != self._spec.mesh:
            raise NotImplementedError("Cross device mesh comm not supported yet!")
        if placements is None:
            raise RuntimeError("placements is needed for redistribute!")
        placements = _placed(self._spec.mesh, placements, self.dim())
        for old, new in zip(self._spec.placements, placements):
            if new.is_partial() and old != new:
                raise RuntimeError(f"Can not redistribute from {old} to {new}, redistributing to Partial is for internal use only!")
        x = self if forward_dtype is None else self.to(forward_dtype)
        return _Redistribute.apply(x, placements)

    def full_tensor(self, *, grad_placements=None):
        """The whole tensor, on every process."""
        whole = self.redistribute(placements=[Replicate()] * self._spec.mesh.ndim)
        return whole.to_local(grad_placements=grad_placements)

    def __repr__(self, *, tensor_contents=None):
        return f"DTensor(local_tensor={self._local_tensor}, device_mesh={self._spec.mesh}, placements={self._spec.placements})"

    __str__ = __repr__

    def __deepcopy__(self, memo):
        if id(self) not in memo:
            meta = self._spec.tensor_meta
            made = DTensor(self._local_tensor.clone(), self._spec.mesh, self._spec.placements, meta.shape, meta.stride, self.requires_grad)
            memo[id(self)] = torch.nn.Parameter(made, self.requires_grad) if isinstance(self, torch.nn.Parameter) else made
        return memo[id(self)]

    def __reduce_ex__(self, protocol):
        meta = self._spec.tensor_meta
        return _rebuilt, (self._local_tensor, self._spec.mesh, self._spec.placements, tuple(meta.shape), tuple(meta.stride), self.requires_grad)

    def data_ptr(self):
        return self._local_tensor.data_ptr()

    def untyped_storage(self):
        return self._local_tensor.untyped_storage()

    def numpy(self):
        raise RuntimeError("a DTensor has no numpy array: use full_tensor() or to_local()")

    def tolist(self):
        return self.full_tensor().tolist()


def _rebuilt(local, mesh, placements, shape, stride, requires_grad):
    return DTensor(local, mesh, placements, shape, stride, requires_grad)


def distribute_tensor(tensor, device_mesh=None, placements=None, *, src_data_rank=0):
    """Spread a tensor, that of the mesh's process src_data_rank (None: each process cuts its own)."""
    mesh = _mesh(device_mesh)
    if not tensor.is_leaf:
        raise RuntimeError("`distribute_tensor` should be used to distribute leaf tensors! but found non-leaf tensor!")
    placements = _placed(mesh, placements, tensor.dim())
    if isinstance(tensor, DTensor):
        if tensor.device_mesh != mesh:
            raise ValueError(f"Cannot distribute a DTensor with device mesh {tensor.device_mesh} to a different device mesh {mesh}.")
        if tensor.placements != placements:
            raise ValueError(f"Cannot distribute a DTensor with placements {tensor.placements} to a different placements {placements}. do you want to call "
                             "`redistribute` instead?")
        return tensor
    if any(p.is_partial() for p in placements):
        raise ValueError("a tensor cannot be distributed as parts of a sum: use DTensor.from_local")
    if mesh.get_coordinate() is None:
        local = tensor.detach().new_empty((0,))
        return DTensor(local, mesh, placements, tensor.shape, tensor.stride(), tensor.requires_grad)
    local = tensor.detach()
    if src_data_rank is not None:
        local = local.clone(memory_format=torch.contiguous_format)
        for d in range(mesh.ndim):
            if mesh.size(d) > 1:
                torch.distributed.broadcast(local, group=mesh.get_group(d), group_src=src_data_rank)
    cut = redistributed(local, tensor.shape, mesh, (Replicate(),) * mesh.ndim, placements)
    made = DTensor(cut, mesh, placements, tensor.shape, tensor.stride(), tensor.requires_grad)
    return torch.nn.Parameter(made, tensor.requires_grad) if isinstance(tensor, torch.nn.Parameter) else made


def distribute_module(module, device_mesh=None, partition_fn=None, input_fn=None, output_fn=None):
    """Make a module's parameters DTensors: as partition_fn(name, module, mesh) does, the rest copies."""
    mesh = _mesh(device_mesh)
    for name, part in module.named_modules():
        if partition_fn is not None:
            partition_fn(name, part, mesh)
        for things, make in ((part._parameters, lambda p, new: torch.nn.Parameter(new, p.requires_grad)), (part._buffers, lambda b, new: new)):
            for key, value in things.items():
                if value is not None and not isinstance(value, DTensor):
                    things[key] = make(value, distribute_tensor(value.detach(), mesh))
    if input_fn is not None:
        if _takes(input_fn) == 2:
            warnings.warn("Deprecating input_fn that takes two arguments (inputs, device_mesh), please use input_fn that takes in (module, inputs, device_mesh) instead!",
                          FutureWarning, stacklevel=2)
            module.register_forward_pre_hook(lambda _, inputs: input_fn(inputs, mesh))
        else:
            module.register_forward_pre_hook(lambda mod, inputs: input_fn(mod, inputs, mesh))
    if output_fn is not None:
        if _takes(output_fn) == 2:
            module.register_forward_hook(lambda mod, inputs, outputs: output_fn(outputs, mesh))
        else:
            module.register_forward_hook(lambda mod, inputs, outputs: output_fn(mod, outputs, mesh))
    return module


def _takes(function):
    import inspect
    return len(inspect.signature(function).parameters)


def _factory(make, replicated_draw=False):
    def factory(*size, dtype=None, layout=torch.strided, requires_grad=False, device_mesh=None, placements=None, **more):
        mesh = _mesh(device_mesh)
        size = tuple(size[0]) if len(size) == 1 and not isinstance(size[0], int) else size
        placements = _placed(mesh, placements, len(size))
        local = compute_local_shape_and_global_offset(size, mesh, placements)[0]
        whole = torch.empty(size, device="meta")
        return DTensor(make(local, dtype=dtype, layout=layout, **more), mesh, placements, whole.shape, whole.stride(), requires_grad)
    return factory


zeros, ones, empty, rand, randn = (_factory(f) for f in (torch.zeros, torch.ones, torch.empty, torch.rand, torch.randn))


def full(size, fill_value, *, dtype=None, layout=torch.strided, requires_grad=False, device_mesh=None, placements=None):
    return _factory(torch.full)(size, dtype=dtype, layout=layout, requires_grad=requires_grad, device_mesh=device_mesh, placements=placements,
                                fill_value=fill_value)


for _name, _f in (("zeros", zeros), ("ones", ones), ("empty", empty), ("rand", rand), ("randn", randn), ("full", full)):
    _f.__name__ = _f.__qualname__ = _name
    _f.__doc__ = f"torch.{_name}() spread over a mesh."
__all__ += ["Partial", "Placement", "Replicate", "Shard"]
