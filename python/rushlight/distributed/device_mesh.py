"""Meshes: the processes in rows, columns, ..., with a group for each line of them."""
import os

import rushlight as torch
import rushlight.distributed as dist

from ._absent import absent

globals().update(absent("", "_get_device_handle", "device_mesh."))

__all__ = ["DeviceMesh", "init_device_mesh"]


class _Current:
    """The meshes of `with mesh:`, the innermost last."""

    def __init__(self):
        self.stack = []

    def get_current_mesh(self):
        if not self.stack:
            raise RuntimeError("No device mesh is currently active!")
        return self.stack[-1]


_mesh_resources = _Current()


class DeviceMesh:
    """Processes in an array of any number of dimensions, which may have names."""

    def __init__(self, device_type, mesh, *, mesh_dim_names=None, backend_override=None, _init_backend=True, _rank=None):
        self.device_type, self.mesh = device_type, torch.as_tensor(mesh, dtype=torch.int64).clone()
        self.mesh_dim_names = tuple(mesh_dim_names) if mesh_dim_names else None
        if not dist.is_initialized():
            dist.init_process_group()
        if _init_backend:
            self._choose_device()
        if self.mesh.numel() > dist.get_world_size():
            raise RuntimeError(f"Mesh should not be bigger than default world size {dist.get_world_size()}, but found {self.mesh.numel()} ranks!")
        here = (self.mesh == dist.get_rank()).nonzero()
        self._coordinate = here[0].tolist() if len(here) else None
        self._groups = [self._make_groups(d) for d in range(self.mesh.ndim)] if _init_backend else []

    def _choose_device(self):
        """This process's device, if none was chosen or used: by its number on its machine."""
        kind, count = self.device_type, 0 if self.device_type in ("cpu", "meta") else torch._C._device_count(self.device_type)
        used = getattr(getattr(torch, kind), "_initialized", True) or any(torch._C._device_memory_stats(torch.device(kind, i))["allocations"] for i in range(count)) \
            if count else True
        if not used:
            getattr(torch, kind).set_device(int(os.environ.get("LOCAL_RANK", dist.get_rank())) % count)

    def _make_groups(self, dim):
        """A group for each line along a dimension; all processes make all of them. That of this process."""
        lines = self.mesh.movedim(dim, -1).reshape(-1, self.mesh.size(dim)).tolist()
        if len(lines) == 1 and lines[0] == list(range(dist.get_world_size())):
            return dist.group.WORLD
        return dist.new_subgroups_by_enumeration(lines)[0]

    def _dim(self, name):
        if not isinstance(name, str):
            return name
        if not self.mesh_dim_names or name not in self.mesh_dim_names:
            raise KeyError(f"Invalid mesh_dim_name {name} specified. Valid mesh_dim_names are {self.mesh_dim_names}.")
        return self.mesh_dim_names.index(name)

    @property
    def ndim(self):
        return self.mesh.ndim

    @property
    def shape(self):
        return tuple(self.mesh.shape)

    def size(self, mesh_dim=None):
        return self.mesh.numel() if mesh_dim is None else self.mesh.size(mesh_dim)

    def get_group(self, mesh_dim=None):
        """The group of this process along a dimension."""
        if mesh_dim is None and self.ndim > 1:
            raise RuntimeError(f"Found the DeviceMesh have {self.ndim} dimensions. Optional kwarg `mesh_dim` needs to be specified when device_mesh.ndim > 1.")
        return self._groups[self._dim(mesh_dim or 0)]

    def __enter__(self):
        _mesh_resources.stack.append(self)
        return self

    def __exit__(self, *unused):
        _mesh_resources.stack.pop()

    @staticmethod
    def from_group(group, device_type, mesh=None, *, mesh_dim_names=None):
        """A mesh of groups that are there already."""
        groups = list(group) if isinstance(group, (list, tuple)) else [group]
        ranks = dist.get_process_group_ranks(groups[0]) if mesh is None else mesh
        made = DeviceMesh(device_type, ranks, mesh_dim_names=mesh_dim_names, _init_backend=False)
        made._groups = groups
        return made

    def get_all_groups(self):
        return list(self._groups)

    def get_rank(self):
        return dist.get_rank()

    def get_local_rank(self, mesh_dim=None):
        """The number of this process along a dimension."""
        if mesh_dim is None and self.ndim > 1:
            raise RuntimeError(f"Found the DeviceMesh have {self.ndim} dimensions. Optional kwarg `mesh_dim` needs to be specified when device_mesh.ndim > 1.")
        return self._coordinate[self._dim(mesh_dim or 0)]

    def get_coordinate(self):
        return self._coordinate

    def __getitem__(self, names):
        """The part of the mesh along some dimensions in which this process is."""
        dims = [self._dim(n) for n in ((names,) if isinstance(names, str) else names)]
        at = tuple(slice(None) if d in dims else self._coordinate[d] for d in range(self.ndim))
        part = DeviceMesh(self.device_type, self.mesh[at], mesh_dim_names=[self.mesh_dim_names[d] for d in dims], _init_backend=False)
        part._groups, part._whole, part._dims = [self._groups[d] for d in dims], self, dims
        return part

    _whole, _dims = None, ()

    def _beside(self, other):
        """The mesh of this one's dimensions followed by those of another part of the same mesh."""
        whole, dims = self._whole, [*self._dims, *other._dims]
        if whole is None or other._whole is not whole or set(self._dims) & set(other._dims):
            raise ValueError(f"{self} and {other} are not two parts of one mesh")
        at = tuple(slice(None) if d in dims else whole._coordinate[d] for d in range(whole.ndim))
        kept = sorted(dims)
        made = DeviceMesh(self.device_type, whole.mesh[at].permute([kept.index(d) for d in dims]), _init_backend=False,
                          mesh_dim_names=whole.mesh_dim_names and [whole.mesh_dim_names[d] for d in dims])
        made._groups = [whole._groups[d] for d in dims]
        return made

    def __eq__(self, other):
        return self is other or isinstance(other, DeviceMesh) and self.device_type == other.device_type and \
            self.mesh.tolist() == other.mesh.tolist() and self.mesh_dim_names == other.mesh_dim_names

    def __getstate__(self):
        return {**self.__dict__, "_groups": []}  # groups are of this job; in another one they are made anew

    def __setstate__(self, state):
        self.__dict__.update(state)
        if dist.is_initialized() and self.mesh.numel() <= dist.get_world_size():
            here = (self.mesh == dist.get_rank()).nonzero()
            self._coordinate = here[0].tolist() if len(here) else None

    def __hash__(self):
        return hash((self.device_type, str(self.mesh.tolist()), self.mesh_dim_names))

    def __repr__(self):
        shape = self.shape if not self.mesh_dim_names else "(" + ", ".join(f"{n}={s}" for n, s in zip(self.mesh_dim_names, self.shape)) + ")"
        return f"DeviceMesh({shape}, '{self.device_type}', stride={tuple(self.mesh.stride())})"


def init_device_mesh(device_type, mesh_shape, *, mesh_dim_names=None, backend_override=None):
    """All processes in an array of that shape."""
    if mesh_dim_names is not None:
        if len(set(mesh_dim_names)) != len(mesh_dim_names):
            raise RuntimeError("Each mesh_dim_name must be unique.")
        if len(mesh_shape) != len(mesh_dim_names):
            raise RuntimeError("mesh_shape and mesh_dim_names should have same length!")
    n = 1
    for size in mesh_shape:
        n *= size
    return DeviceMesh(device_type, torch.arange(n).view(tuple(mesh_shape)), mesh_dim_names=mesh_dim_names)
