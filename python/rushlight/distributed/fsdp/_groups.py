"""Parameters in pieces: what fully_shard() and FullyShardedDataParallel share.

A Group has the parameters of a module (without those of modules that have groups of their own). Between uses each process keeps a piece of
each; before the module's forward and backward the pieces are gathered into whole parameters, whose memory is given up afterwards. Gradients
of the whole ones are summed over the processes when the last has come, each process keeping its piece. Whole parameters are the same objects
for ever, so that what the graph saved of them finds its memory filled again.
"""
import math

import rushlight as torch
import rushlight.distributed as dist
from rushlight import nn

from ..tensor import DTensor
from ..tensor._utils import piece


class _Pass:
    """The backward pass that goes on: the groups that have part in it, which are finished at its end."""

    def __init__(self):
        self.groups, self.queued = {}, False

    def add(self, group):
        self.groups[id(group)] = group
        if not self.queued:
            self.queued = True
            torch.autograd.Variable._execution_engine.queue_callback(self.finish)

    def finish(self):
        groups, self.groups, self.queued = list(self.groups.values()), {}, False
        for group in groups:
            group.finish()


_pass = _Pass()


def in_backward():
    return torch._C._current_graph_task_id() != -1


class Group:
    """`layout` says how whole tensors are cut: see ByParameter and Flat. `modules`: of so many modules, each of which is called once."""

    def __init__(self, layout, params, device, shard_group, copy_group, reshard, param_dtype=None, reduce_dtype=None, modules=1):
        self.layout, self.shard_group, self.copy_group, self.reshard_after_forward = layout, shard_group, copy_group, reshard
        self.param_dtype, self.reduce_dtype, self.params = param_dtype, reduce_dtype, params
        self.reshard_after_backward, self.sync, self.is_whole, self.arrived = True, True, False, set()
        self.modules, self.called = modules, set()
        self.unshard_in_backward, self.fill_unused = True, False
        self.divide_by, self.all_reduce, self.kept, self.all_reduce_hook = None, True, None, None  # kept: sums that are to be all-reduced later
        self.all_gather_by = self.reduce_scatter_by = None  # of the user's: see FSDPModule
        self.hook = None  # does all that _reduced() does
        self.fulls, self.device = [], device  # of whole parameters; pieces may be kept elsewhere
        for p in params:
            local = layout.local_of(p)
            dtype = param_dtype if param_dtype is not None and local.is_floating_point() else local.dtype
            memory = torch.empty(local.shape, dtype=dtype, device=device)
            memory.untyped_storage().resize_(0)
            full = DTensor(memory, p.device_mesh, p.placements, p.shape, p.stride()) if isinstance(p, DTensor) else memory
            full = nn.Parameter(full, p.requires_grad)
            if p.requires_grad:
                full.register_post_accumulate_grad_hook(self._arrived)
            self.fulls.append(full)
        self.memories = [layout.local_of(full) for full in self.fulls]

    # ---- whole and in pieces

    def unshard(self):
        if self.is_whole:
            return
        with torch.no_grad():
            row = self.layout.row(self.param_dtype).to(self.device)
            n = self.layout.parts
            buffer = row
            if n > 1:
                buffer = self._gathered(row, n)
            for full, memory, value in zip(self.fulls, self.memories, self.layout.wholes(buffer.view(n, -1))):
                memory.untyped_storage().resize_(memory.numel() * memory.element_size())
                with torch.autograd._unsafe_preserve_version_counter(memory):
                    memory.copy_(value)
        self.is_whole = True
        self.layout.place(self.fulls)

    def _gathered(self, row, n):
        by = self.all_gather_by
        if by is None:
            buffer = row.new_empty(n * row.numel())
            dist.all_gather_into_tensor(buffer, row, self.shard_group)
            return buffer
        buffer = by.allocate((n * row.numel(),), dtype=row.dtype, device=row.device)
        _wait(by(buffer, row, self.shard_group))
        return buffer

    def reshard(self):
        if not self.is_whole:
            return
        self.is_whole = False
        for memory in self.memories:
            memory.untyped_storage().resize_(0)
        self.layout.place(None)

    def keep(self):
        """The pieces become those of the whole parameters, which were changed."""
        with torch.no_grad():
            self.layout.keep(self.memories)

    # ---- the module's calls

    def before_forward(self):
        self.unshard()

    def after_forward(self, outputs, module=None):
        self.called.add(module)
        last = len(self.called) == self.modules
        if last:
            self.called.clear()
        if last and not in_backward() and (self.reshard_after_forward or not torch.is_grad_enabled()):
            self.reshard()
        if torch.is_grad_enabled():
            for t in _tensors(outputs):
                if t.requires_grad:
                    t.register_hook(self._before_backward)

    def _before_backward(self, grad):
        _pass.add(self)
        if self.unshard_in_backward:
            self.unshard()

    def _arrived(self, full):
        _pass.add(self)
        self.arrived.add(id(full))
        if len(self.arrived) == sum(p.requires_grad for p in self.fulls):
            self.reduce()

    def finish(self):
        """The backward pass is over."""
        if self.arrived or self.fill_unused:
            self.reduce()
        elif self.reshard_after_backward:
            self.reshard()

    def reduce(self):
        self.arrived = set()
        if self.sync:
            fills = self.fill_unused or not self.all_reduce or self.kept is not None
            grads = [self.layout.grad_of(full) if full.grad is not None else torch.zeros_like(memory) if fills and full.requires_grad else None
                     for full, memory in zip(self.fulls, self.memories)]
            for full in self.fulls:
                full.grad = None
            if any(g is not None for g in grads):
                with torch.no_grad():
                    self._reduced(grads)
        if self.reshard_after_backward:
            self.reshard()

    def _reduced(self, grads):
        rows = self.layout.rows(grads, self.reduce_dtype)
        if self.hook is not None:
            self.layout.add_grads(self._hooked(rows), grads)
            return
        out = self._scattered(rows)
        if self.copy_group is not None:
            if self.kept is not None:
                out, self.kept = out.add_(self.kept), None
            if not self.all_reduce:
                self.kept = out
                return
            dist.all_reduce(out, group=self.copy_group)
        n = self.layout.parts * (self.copy_group.size() if self.copy_group is not None else 1)
        out.div_(n if self.divide_by is None else self.divide_by)
        if self.all_reduce_hook is not None:
            self.all_reduce_hook(out)
        self.layout.add_grads(out, grads)

    def _scattered(self, rows):
        if self.layout.parts == 1:
            return rows.view(-1)
        by = self.reduce_scatter_by
        if by is None:
            out = rows.new_empty(rows.size(1))
            dist.reduce_scatter_tensor(out, rows.view(-1), group=self.shard_group)
            return out
        given = by.allocate((rows.numel(),), dtype=rows.dtype, device=rows.device).copy_(rows.view(-1))
        out = by.allocate((rows.size(1),), dtype=rows.dtype, device=rows.device)
        _wait(by(out, given, self.shard_group, dist.ReduceOp.SUM))
        return out

    def _hooked(self, rows):
        state, hook = self.hook
        if self.layout.parts == 1:
            hook(state, rows.view(-1))
            return rows.view(-1)
        out = rows.new_empty(rows.size(1))
        hook(state, rows.view(-1), out)
        return out

    def forget(self):
        """After an error in the middle of a step: in pieces, without the gradients that were on their way."""
        self.called.clear()
        self.arrived, self.kept = set(), None
        for full in self.fulls:
            full.grad = None
        self.reshard()


def forget_pass():
    """A backward pass that an error ended calls nothing back."""
    _pass.groups, _pass.queued = {}, False


def _wait(work):
    if work is not None:
        work.wait()


def _tensors(x):
    if isinstance(x, torch.Tensor):
        return [x]
    if isinstance(x, dict):
        x = list(x.values())
    elif hasattr(x, "__dataclass_fields__"):
        x = [getattr(x, name) for name in x.__dataclass_fields__]
    return [t for v in x for t in _tensors(v)] if isinstance(x, (list, tuple)) else []


def cast(x, dtype):
    """Floating tensors of arguments in another dtype."""
    if isinstance(x, torch.Tensor):
        return x.to(dtype) if x.is_floating_point() else x
    if isinstance(x, dict):
        return {k: cast(v, dtype) for k, v in x.items()}
    return type(x)(cast(v, dtype) for v in x) if type(x) in (list, tuple) else x


class Places:
    """Where parameters are in modules: a list per parameter, for shared ones, of (module, name)."""

    def __init__(self, modules, ignored=()):
        found = {}
        for module in modules:
            for name, p in module._parameters.items():
                if p is not None and p not in ignored:
                    found.setdefault(p, []).append((module, name))
        self.params, self.at = list(found), list(found.values())

    def put(self, number, value):
        for module, name in self.at[number]:
            module._parameters[name] = value


class ByParameter:
    """Each parameter is cut by itself, along one dimension; pieces are DTensors."""

    def __init__(self, places, mesh, shard_dim, dims):
        self.places, self.dims = places, dims
        self.parts = mesh.size(shard_dim) if shard_dim is not None else 1
        self.rank = mesh.get_local_rank(shard_dim) if shard_dim is not None else 0
        self.shapes = [self.local_of(p).shape for p in places.params]
        self.each = [self._padded(shape, d) for shape, d in zip(self.shapes, dims)]
        self.sizes = [math.prod(shape) for shape in self.each]

    @staticmethod
    def local_of(p):
        return p._local_tensor if isinstance(p, DTensor) else p.detach()

    def _padded(self, shape, d):
        return (*shape[:d], -(-shape[d] // self.parts), *shape[d + 1:]) if shape else shape

    def cut(self, number, whole):
        """This process's piece."""
        d = self.dims[number]
        return whole if not whole.dim() else whole.narrow(d, *piece(whole.size(d), self.parts, self.rank)).clone(memory_format=torch.contiguous_format)

    @property
    def shards(self):
        return [module[0][0]._parameters[module[0][1]] for module in self.places.at] if self._resting else self._shards

    _resting, _shards = True, None

    def place(self, fulls):
        if fulls is not None:
            self._shards, self._resting = self.shards, False
        for number in range(len(self.places.at)):
            self.places.put(number, (fulls or self._shards)[number])
        self._resting = fulls is None

    def row(self, dtype):
        out = []
        for shard, each, size in zip(self.shards, self.each, self.sizes):
            local = shard._local_tensor
            flat = local.reshape(-1) if local.numel() == size else self._filled(local, each)
            out.append(flat if dtype is None or not flat.is_floating_point() else flat.to(dtype))
        return torch.cat(out)

    @staticmethod
    def _filled(local, each):
        padded = local.new_zeros(each)
        padded[tuple(slice(0, n) for n in local.shape)] = local
        return padded.view(-1)

    def wholes(self, buffer):
        """Of the rows of all processes."""
        for shape, each, d, part in zip(self.shapes, self.each, self.dims, buffer.split(self.sizes, 1)):
            if not shape:
                yield part[0].reshape(())
                continue
            pieces = [p.view(each).narrow(d, 0, piece(shape[d], self.parts, r)[1]) for r, p in enumerate(part.unbind(0))]
            yield torch.cat(pieces, d)

    def grad_of(self, full):
        grad = full.grad
        return grad._moved(full.placements)._local_tensor if isinstance(grad, DTensor) else grad

    def rows(self, grads, dtype):
        """The gradients as rows, one for each process."""
        rows = [[] for _ in range(self.parts)]
        for number, g in enumerate(grads):
            if g is None:
                continue
            d, each = self.dims[number], self.each[number]
            for r in range(self.parts):
                part = g.narrow(d, *piece(g.size(d), self.parts, r)) if g.dim() else g
                rows[r].append(part.reshape(-1) if part.numel() == self.sizes[number] else self._filled(part, each))
        made = torch.stack([torch.cat(r) for r in rows])
        return made if dtype is None else made.to(dtype)

    def add_grads(self, row, grads):
        sizes = [size if g is not None else 0 for size, g in zip(self.sizes, grads)]
        shards = self._shards if not self._resting else self.shards
        for number, (part, g) in enumerate(zip(row.split(sizes), grads)):
            if g is None:
                continue
            shard = shards[number]
            local = shard._local_tensor
            made = part.view(self.each[number])[tuple(slice(0, n) for n in local.shape)].to(local.device, local.dtype, copy=True)
            if shard.grad is not None:
                shard.grad._local_tensor.add_(made)
            else:
                shard.grad = DTensor(made, shard.device_mesh, shard.placements, shard.shape, shard.stride())

    def keep(self, wholes):
        for number, whole in enumerate(wholes):
            self._shards[number]._local_tensor.copy_(self.cut(number, whole))


class Flat:
    """All parameters behind each other in one, of which each process has a piece of one size."""

    def __init__(self, places, parts, rank, original):
        self.places, self.parts, self.rank, self.original = places, parts, rank, original
        self.shapes = [p.shape for p in places.params]
        self.sizes = [p.numel() for p in places.params]
        whole = torch.cat([p.detach().reshape(-1) for p in places.params])
        self.each = -(-whole.numel() // parts)
        padded = torch.cat([whole, whole.new_zeros(self.each * parts - whole.numel())])
        trains = any(p.requires_grad for p in places.params)
        self.flat = nn.Parameter(padded[rank * self.each:(rank + 1) * self.each].clone(), trains)
        self.pieces = [self._own(p.requires_grad, *span) for p, span in zip(places.params, self.spans())] if original else None

    def spans(self):
        """(first, last + 1), within this process's piece, of each parameter."""
        at, low = 0, self.rank * self.each
        for size in self.sizes:
            yield min(max(at - low, 0), self.each), min(max(at + size - low, 0), self.each)
            at += size

    def _own(self, trains, first, end):
        return nn.Parameter(self.flat.detach()[first:end], trains)

    @staticmethod
    def local_of(p):
        return p.detach()

    def place(self, fulls):
        for number in range(len(self.places.at)):
            value = fulls[number] if fulls is not None else self.pieces[number] if self.original else None
            for module, name in self.places.at[number]:
                if value is not None:
                    module._parameters[name] = value
                else:
                    module._parameters.pop(name, None)

    def row(self, dtype):
        flat = self.flat.detach()
        return flat if dtype is None else flat.to(dtype)

    def wholes(self, buffer):
        at = 0
        flat = buffer.reshape(-1)
        for shape, size in zip(self.shapes, self.sizes):
            yield flat[at:at + size].view(shape)
            at += size

    def grad_of(self, full):
        return full.grad

    def rows(self, grads, dtype):
        flat = torch.cat([self.flat.new_zeros(size) if g is None else g.reshape(-1) for g, size in zip(grads, self.sizes)])
        flat = flat if dtype is None else flat.to(dtype)
        return torch.cat([flat, flat.new_zeros(self.each * self.parts - flat.numel())]).view(self.parts, self.each)

    def add_grads(self, row, grads):
        row = row.to(self.flat.dtype)
        if self.original and all(p.grad is None for p in self.pieces):
            self.flat.grad = None
        if self.flat.grad is None:
            self.flat.grad = row.clone()
        else:
            self.flat.grad.add_(row)
        for p, (first, end), g in zip(self.pieces or (), self.spans(), grads):
            p.grad = self.flat.grad[first:end] if g is not None else None

    def keep(self, wholes):
        flat = torch.cat([w.reshape(-1).to(self.flat.dtype) for w in wholes])
        flat = torch.cat([flat, flat.new_zeros(self.each * self.parts - flat.numel())])
        self.flat.detach().copy_(flat[self.rank * self.each:(self.rank + 1) * self.each])


