"""What DistributedDataParallel tells the other processes where some of them are PyTorch's: the collectives that PyTorch's own calls, in their order.

First the number of parameters and their shapes, then values of rank 0 as long flat tensors. Gradients of the first backward pass go in one bucket
per dtype; for all others the buckets are those that rank 0 makes of the order in which its gradients came.
"""
import itertools

import rushlight as torch

_COALESCED = 250 << 20


def needed(group):
    return group._group.foreign()


def state(module, buffers=True):
    """Parameters, then buffers, but for those that are to be ignored."""
    ignored = getattr(module, "_ddp_params_and_buffers_to_ignore", ())
    return [t for n, t in itertools.chain(module.named_parameters(), module.named_buffers() if buffers else ()) if n not in ignored]


def verify(group, parameters):
    """An error where the processes' parameters differ."""
    dist, rank = torch.distributed, group.rank()
    where = dist.distributed_c10d._object_device(group)
    counts = [torch.zeros(1, dtype=torch.int64, device=where) for _ in range(group.size())]
    dist.all_gather(counts, torch.tensor([len(parameters)], device=where), group)
    for other, count in enumerate(counts):
        if count.item() != len(parameters):
            raise RuntimeError(f"DDP expects same model across all ranks, but Rank {rank} has {len(parameters)} params, while rank {other} has inconsistent "
                               f"{count.item()} params.")
    mine = torch.tensor([x for p in parameters for x in (*p.shape, *p.stride())], dtype=torch.int64, device=where)
    first = mine.clone()
    dist.broadcast(first, group=group, group_src=0)
    if not torch.equal(mine, first):
        raise RuntimeError(f"DDP expects same model across all ranks: the sizes or strides of parameters of rank {rank} are not those of rank 0")


def deal(tensors, limits, order=None):
    """Lists of the numbers of tensors, each of one dtype; the k-th list of a dtype ends with the tensor that fills limits[k], or the last limit."""
    full, open_, ended = [], {}, {}
    for i in range(len(tensors)) if order is None else order:
        dtype = tensors[i].dtype
        some = open_.setdefault(dtype, [])
        some.append(i)
        limit = limits[min(ended.get(dtype, 0), len(limits) - 1)]
        if sum(tensors[k].numel() * tensors[k].element_size() for k in some) >= limit:
            full.append(open_.pop(dtype))
            ended[dtype] = ended.get(dtype, 0) + 1
    full += open_.values()
    return full if order is not None else sorted(full, key=min)


def broadcast(group, tensors, src):
    """src's values for all."""
    for numbers in deal(tensors, [_COALESCED]):
        some = [tensors[i] for i in numbers]
        flat = torch.cat([t.reshape(-1) for t in some])
        torch.distributed.broadcast(flat, group=group, group_src=src)
        for t, part in zip(some, flat.split([t.numel() for t in some])):
            t.copy_(part.view(t.shape))


def first_buckets(parameters, limits):
    return deal(parameters, limits)[::-1]


def later_buckets(group, parameters, limits, came):
    """What rank 0 makes of the order in which its gradients came."""
    buckets = deal(parameters, limits, came)
    told = torch.tensor([*itertools.chain(*buckets), len(buckets)], dtype=torch.int32)
    torch.distributed.broadcast(told, group=group, group_src=0)
    *order, n = told.tolist()
    counts = torch.tensor([*map(len, buckets[:n]), *[0] * (n - len(buckets))], dtype=torch.int32)
    torch.distributed.broadcast(counts, group=group, group_src=0)
    numbers = iter(order)
    return [list(itertools.islice(numbers, count)) for count in counts.tolist()]
