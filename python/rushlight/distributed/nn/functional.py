"""Collectives with gradients: what each passes back is the collective that goes the other way."""
import rushlight as torch
import rushlight.distributed as dist
from rushlight.autograd import Function

__all__ = ["all_gather", "all_reduce", "all_to_all", "all_to_all_single", "broadcast", "gather", "reduce", "reduce_scatter", "scatter"]


def _dense(tensors):
    return tuple(t.contiguous() for t in tensors)


def _changed(tensor, collective, *args):
    """A copy of the tensor that a collective has changed."""
    out = tensor.clone(memory_format=torch.contiguous_format)
    collective(out, *args)
    return out


def _of(group):
    return dist.group.WORLD if group is None else group


class _AllReduce(Function):
    @staticmethod
    def forward(ctx, op, group, tensor):
        ctx.op, ctx.group = op, group
        return _changed(tensor, dist.all_reduce, op, group)

    @staticmethod
    def backward(ctx, grad):
        return None, None, _AllReduce.apply(ctx.op, ctx.group, grad)


class _Broadcast(Function):
    @staticmethod
    def forward(ctx, src, group, tensor):
        ctx.src, ctx.group = src, group
        return _changed(tensor, dist.broadcast, src, group)

    @staticmethod
    def backward(ctx, grad):
        out = _Reduce.apply(ctx.src, dist.ReduceOp.SUM, ctx.group, grad)
        return None, None, out if dist.get_rank() == ctx.src else torch.zeros_like(out)


class _Reduce(Function):
    @staticmethod
    def forward(ctx, dst, op, group, tensor):
        ctx.dst, ctx.group = dst, group
        return _changed(tensor, dist.reduce, dst, op, group)

    @staticmethod
    def backward(ctx, grad):
        return None, None, None, _Broadcast.apply(ctx.dst, ctx.group, grad)


class _AllGather(Function):
    @staticmethod
    def forward(ctx, group, tensor):
        ctx.group = group
        parts = [torch.empty_like(tensor, memory_format=torch.contiguous_format) for _ in range(dist.get_world_size(group))]
        dist.all_gather(parts, tensor.contiguous(), group)
        return tuple(parts)

    @staticmethod
    def backward(ctx, *grads):
        own = torch.empty_like(grads[0], memory_format=torch.contiguous_format)
        dist.reduce_scatter(own, list(_dense(grads)), group=ctx.group)
        return None, own


class _ReduceScatter(Function):
    @staticmethod
    def forward(ctx, op, group, tensor, *parts):
        ctx.group = group
        out = tensor.clone()
        dist.reduce_scatter(out, list(_dense(parts)), op, group)
        return out

    @staticmethod
    def backward(ctx, grad):
        return (None, None, None) + _AllGather.apply(ctx.group, grad)


class _Gather(Function):
    @staticmethod
    def forward(ctx, dst, group, tensor):
        ctx.dst, ctx.group = dst, group
        parts = [torch.zeros_like(tensor, memory_format=torch.contiguous_format) for _ in range(dist.get_world_size(group))]
        dist.gather(tensor.contiguous(), parts if dist.get_rank() == dst else None, dst, group)
        return tuple(parts)

    @staticmethod
    def backward(ctx, *grads):
        return None, None, _Scatter.apply(ctx.dst, ctx.group, *grads)


class _Scatter(Function):
    @staticmethod
    def forward(ctx, src, group, *parts):
        ctx.src, ctx.group = src, group
        out = torch.zeros_like(parts[0], memory_format=torch.contiguous_format)
        dist.scatter(out, list(_dense(parts)) if dist.get_rank() == src else None, src, group)
        return out

    @staticmethod
    def backward(ctx, grad):
        return (None, None) + _Gather.apply(ctx.src, ctx.group, grad)


class _AllToAll(Function):
    @staticmethod
    def forward(ctx, group, shapes, *parts):
        ctx.group, ctx.shapes = group, [p.shape for p in parts]
        out = tuple(torch.empty(s, dtype=parts[0].dtype, device=parts[0].device) for s in shapes)
        dist.all_to_all(list(out), list(_dense(parts)), group)
        return out

    @staticmethod
    def backward(ctx, *grads):
        return (None, None) + _AllToAll.apply(ctx.group, ctx.shapes, *grads)


class _AllToAllSingle(Function):
    @staticmethod
    def forward(ctx, group, out, out_splits, in_splits, tensor):
        ctx.group, ctx.shape, ctx.splits = group, tensor.shape, (out_splits, in_splits)
        result = torch.empty_like(out)
        dist.all_to_all_single(result, tensor.contiguous(), out_splits, in_splits, group)
        return result

    @staticmethod
    def backward(ctx, grad):
        out_splits, in_splits = ctx.splits
        return None, None, None, None, _AllToAllSingle.apply(ctx.group, grad.new_empty(ctx.shape), in_splits, out_splits, grad)


def all_reduce(tensor, op=dist.ReduceOp.SUM, group=None):
    return _AllReduce.apply(op, _of(group), tensor)


def broadcast(tensor, src, group=None):
    return _Broadcast.apply(src, _of(group), tensor)


def reduce(tensor, dst, op=dist.ReduceOp.SUM, group=None):
    return _Reduce.apply(dst, op, _of(group), tensor)


def all_gather(tensor, group=None):
    return _AllGather.apply(_of(group), tensor)


def reduce_scatter(output, input_list, op=dist.ReduceOp.SUM, group=None):
    return _ReduceScatter.apply(op, _of(group), output, *input_list)


def gather(tensor, dst=0, group=None):
    return _Gather.apply(dst, _of(group), tensor)


def scatter(tensors, src=0, group=None):
    return _Scatter.apply(src, _of(group), *tensors)


def all_to_all(output_tensor_list, input_tensor_list, group=None):
    return _AllToAll.apply(_of(group), [t.shape for t in output_tensor_list], *input_tensor_list)


def all_to_all_single(output, input, output_split_sizes=None, input_split_sizes=None, group=None):
    return _AllToAllSingle.apply(_of(group), output, output_split_sizes, input_split_sizes, input)
