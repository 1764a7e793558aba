"""Which piece of a tensor lies where."""

__all__ = ["compute_local_shape_and_global_offset", "compute_local_shape", "compute_global_tensor_info"]


def piece(size, parts, number):
    """(first, length) of a piece of `size` elements in `parts`, as torch.chunk() cuts."""
    each = -(-size // parts)
    first = min(number * each, size)
    return first, min(each, size - first)


def compute_local_shape_and_global_offset(global_shape, mesh, placements, at=None):
    """(sizes, offsets) of the piece of this process, or of that at some coordinates of the mesh."""
    at = mesh.get_coordinate() if at is None else at
    shape, offset = list(global_shape), [0] * len(global_shape)
    if at is None:
        return (0,), (0,)
    for dim, placement in enumerate(placements):
        if placement.is_shard():
            first, shape[placement.dim] = piece(shape[placement.dim], mesh.size(dim), at[dim])
            offset[placement.dim] += first
    return tuple(shape), tuple(offset)


def compute_local_shape(global_shape, mesh, placements):
    return compute_local_shape_and_global_offset(global_shape, mesh, placements)[0]


def compute_global_tensor_info(tensor, mesh, placements):
    """(sizes, strides) of the whole whose piece `tensor` is, all pieces being of one size."""
    shape, stride = list(tensor.size()), list(tensor.stride())
    for dim, placement in enumerate(placements):
        if placement.is_shard():
            cut = placement.dim
            shape[cut] *= mesh.size(dim)
            stride = [s * mesh.size(dim) if i != cut and s >= stride[cut] else s for i, s in enumerate(stride)]
    return shape, stride
