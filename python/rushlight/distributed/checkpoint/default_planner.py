"""The planners that are used unless another is given.

A tensor is a list of pieces, boxes in it: a plain one has one piece, of a DTensor each process has its own. What is loaded need not be cut
as what was saved: each piece at hand is filled from the boxes that it shares with saved pieces (resharding).
"""
import dataclasses
import io
import math

import rushlight as torch

from .._dtensor import is_dtensor
from . import _flat
from .metadata import (BytesStorageMetadata, ChunkStorageMetadata, Metadata, MetadataIndex, TensorProperties, TensorStorageMetadata)
from .planner import (BytesIOWriteData, LoadItemType, LoadPlan, LoadPlanner, ReadItem, SavePlan, SavePlanner, TensorWriteData, WriteItem, WriteItemType)

__all__ = ["DefaultSavePlanner", "DefaultLoadPlanner", "create_default_local_load_plan", "create_default_global_load_plan",
           "create_default_local_save_plan", "create_default_global_save_plan"]
_VERSION = "1.0.0"


def _pieces(name, obj):
    """[(where it begins, the tensor)] of what this process has of a tensor."""
    if not is_dtensor(obj):
        return [((0,) * obj.dim(), obj)]
    if obj.device_mesh.get_coordinate() is None:
        return []
    if any(p.is_partial() for p in obj.placements):
        raise ValueError(f"{name} is a DTensor with partial sums, which cannot be saved or loaded: redistribute it first")
    from ..tensor._utils import compute_local_shape_and_global_offset
    shape, offset = compute_local_shape_and_global_offset(obj.shape, obj.device_mesh, obj.placements)
    local = obj._local_tensor
    return [(tuple(offset), local)] if local.numel() or not obj.numel() else []


def _write_items(name, obj):
    if not isinstance(obj, torch.Tensor):
        return [WriteItem(MetadataIndex(name), WriteItemType.BYTE_IO, bytes_io_data=BytesIOWriteData(0))]
    kind = WriteItemType.SHARD if is_dtensor(obj) else WriteItemType.TENSOR
    return [WriteItem(MetadataIndex(name, at), kind, tensor_data=TensorWriteData(
        ChunkStorageMetadata(torch.Size(at), torch.Size(t.shape)), TensorProperties.create_from_tensor(obj), torch.Size(obj.shape)))
        for at, t in _pieces(name, obj)]


def create_default_local_save_plan(state_dict, is_coordinator):
    """All pieces of tensors; other objects are saved by one process."""
    return SavePlan([item for name, obj in state_dict.items() if isinstance(obj, torch.Tensor) or is_coordinator for item in _write_items(name, obj)])


def _deduplicated(plans, lowest_rank):
    """What several plans have stays in one: in the lowest, or in that with the least to write."""
    owners = {}
    for rank, plan in enumerate(plans):
        for item in plan.items:
            owners.setdefault(item.index, []).append((rank, item))
    written, kept = [0] * len(plans), [set() for _ in plans]
    for index, having in sorted(owners.items(), key=lambda pair: len(pair[1])):  # those with no choice first
        rank = having[0][0] if lowest_rank else min((r for r, _ in having), key=lambda r: written[r])
        kept[rank].add(index)
        written[rank] += next(i for r, i in having if r == rank).tensor_storage_size() or 1
    return [dataclasses.replace(plan, items=[item for item in plan.items if item.index in mine]) for plan, mine in zip(plans, kept)]


def create_default_global_save_plan(all_plans, rewrite_index_hints=True):
    """(plans whose items know their number in the list of pieces, the Metadata)"""
    entries, plans = {}, []
    for plan in all_plans:
        items = []
        for item in plan.items:
            name = item.index.fqn
            if item.type == WriteItemType.BYTE_IO:
                entries[name] = BytesStorageMetadata()
            else:
                data = item.tensor_data
                entry = entries.setdefault(name, TensorStorageMetadata(data.properties, data.size, []))
                item = dataclasses.replace(item, index=dataclasses.replace(item.index, index=len(entry.chunks))) if rewrite_index_hints else item
                entry.chunks.append(data.chunk)
            items.append(item)
        plans.append(dataclasses.replace(plan, items=items))
    return plans, Metadata(entries)


def _shared_box(a_at, a_sizes, b_at, b_sizes):
    """[(first, last + 1)] per dimension of what two boxes have in common; None if that is nothing."""
    box = [(max(p, q), min(p + m, q + n)) for p, m, q, n in zip(a_at, a_sizes, b_at, b_sizes)]
    return None if any(first >= last for first, last in box) else box


def _check_pieces(metadata):
    """The pieces of each tensor lie in it, do not overlap, and are all of it."""
    for name, entry in metadata.state_dict_metadata.items():
        if not isinstance(entry, TensorStorageMetadata):
            continue
        boxes = [(c.offsets, c.sizes) for c in entry.chunks]
        for at, sizes in boxes:
            if len(at) != len(entry.size) or any(p < 0 or p + n > whole for p, n, whole in zip(at, sizes, entry.size)):
                raise ValueError(f"{name}: the piece of sizes {tuple(sizes)} at {tuple(at)} is not within {tuple(entry.size)}")
        boxes.sort(key=lambda box: tuple(box[0]))
        if len(boxes) <= 64 and any(_shared_box(*a, *b) for i, a in enumerate(boxes) for b in boxes[:i]):
            raise ValueError(f"{name}: pieces of processes overlap")
        if sum(math.prod(sizes) for _, sizes in boxes) != math.prod(entry.size):
            raise ValueError(f"{name}: the pieces of all processes are not the whole tensor of sizes {tuple(entry.size)}")


def as_file(obj):
    """An object as the bytes of torch.save()."""
    file = io.BytesIO()
    torch.save(obj, file)
    file.seek(0)
    return file


class DefaultSavePlanner(SavePlanner):
    """Saves nested dicts as one level; of what all processes have, each saves a part."""

    def __init__(self, flatten_state_dict=True, flatten_sharded_tensors=True, dedup_replicated_tensors=None, dedup_save_to_lowest_rank=False,
                 enable_plan_caching=False):
        self.flatten_state_dict, self.flatten_sharded_tensors = flatten_state_dict, flatten_sharded_tensors
        self.dedup_save_to_lowest_rank, self.mappings = dedup_save_to_lowest_rank, {}

    def set_up_planner(self, state_dict, storage_meta=None, is_coordinator=False):
        if self.flatten_state_dict:
            state_dict, self.mappings = _flat.flatten(state_dict)
        self.state_dict, self.is_coordinator = state_dict, is_coordinator

    def create_local_plan(self):
        plan = create_default_local_save_plan(self.state_dict, self.is_coordinator)
        return self._with_paths(plan)

    def _with_paths(self, plan):
        self.plan = dataclasses.replace(plan, planner_data=self.mappings) if self.flatten_state_dict else plan
        return self.plan

    def create_global_plan(self, all_plans):
        plans, metadata = create_default_global_save_plan(_deduplicated(all_plans, self.dedup_save_to_lowest_rank))
        if self.flatten_state_dict:
            metadata.planner_data = {name: path for plan in all_plans for name, path in plan.planner_data.items()}
        metadata.version = _VERSION
        _check_pieces(metadata)
        self.global_plan, self.metadata = plans, metadata
        return plans, metadata

    def finish_plan(self, new_plan):
        self.plan = new_plan
        return new_plan

    def lookup_object(self, index):
        """The piece that an index means."""
        obj = self.state_dict[index.fqn]
        if not isinstance(obj, torch.Tensor):
            return obj
        return next(t for at, t in _pieces(index.fqn, obj) if index.offset is None or at == tuple(index.offset))

    def transform_object(self, write_item, object):
        return as_file(object) if write_item.type == WriteItemType.BYTE_IO else object

    def resolve_data(self, write_item):
        return self.transform_object(write_item, self.lookup_object(write_item.index))


def _read_items(name, entry, obj):
    if isinstance(entry, BytesStorageMetadata):
        nothing, index = torch.Size((0,)), MetadataIndex(name)
        return [ReadItem(LoadItemType.BYTE_IO, index, nothing, index, nothing, nothing)]
    if not isinstance(obj, torch.Tensor):
        raise ValueError(f"Invalid checkpoint metadata for {name}, expected BytesStorageMetadata but found {type(entry)}")
    if torch.Size(entry.size) != obj.shape:
        raise ValueError(f"Size mismatch between saved {torch.Size(entry.size)} and current: {obj.shape} for {name}")
    items = []
    for number, (at, t) in enumerate(_pieces(name, obj)):
        found = 0
        for k, chunk in enumerate(entry.chunks):
            box = _shared_box(at, t.shape, chunk.offsets, chunk.sizes)
            if box is None:
                continue
            first, lengths = [b[0] for b in box], torch.Size(b[1] - b[0] for b in box)
            found += math.prod(lengths)
            items.append(ReadItem(LoadItemType.TENSOR, MetadataIndex(name, at, number), torch.Size(f - a for f, a in zip(first, at)),
                                  MetadataIndex(name, chunk.offsets, k), torch.Size(f - a for f, a in zip(first, chunk.offsets)), lengths))
        if found != t.numel():
            raise ValueError(f"the checkpoint has only {found} of the {t.numel()} elements of {name} that this process needs")
    return items


def create_default_local_load_plan(state_dict, metadata, strict=True):
    """What fills the pieces that this process has."""
    items = []
    for name, obj in state_dict.items():
        if name in metadata.state_dict_metadata:
            items += _read_items(name, metadata.state_dict_metadata[name], obj)
        elif strict:
            raise RuntimeError(f"Missing key in checkpoint state_dict: {name}.")
    return LoadPlan(items)


def create_default_global_load_plan(all_plans):
    return all_plans


class DefaultLoadPlanner(LoadPlanner):
    """Loads in place; tensors may be cut otherwise than they were saved."""

    def __init__(self, flatten_state_dict=True, flatten_sharded_tensors=True, allow_partial_load=False):
        self.flatten_state_dict, self.flatten_sharded_tensors, self.allow_partial_load = flatten_state_dict, flatten_sharded_tensors, allow_partial_load
        self.original_state_dict, self.mappings = {}, {}

    def set_up_planner(self, state_dict, metadata=None, is_coordinator=False):
        self.original_state_dict = state_dict
        if self.flatten_state_dict:
            state_dict, self.mappings = _flat.flatten(state_dict)
        self.state_dict, self.metadata, self.is_coordinator = state_dict, metadata, is_coordinator

    def create_local_plan(self):
        return create_default_local_load_plan(self.state_dict, self.metadata, not self.allow_partial_load)

    def create_global_plan(self, global_plan):
        return create_default_global_load_plan(global_plan)

    def finish_plan(self, central_plan):
        return central_plan

    def load_bytes(self, read_item, value):
        name, obj = read_item.dest_index.fqn, torch.load(value, weights_only=False)
        self.state_dict[name] = obj
        if self.flatten_state_dict:
            _flat.put(self.original_state_dict, self.mappings[name], obj)
        else:
            self.original_state_dict[name] = obj

    def lookup_tensor(self, index):
        return next(t for at, t in _pieces(index.fqn, self.state_dict[index.fqn]) if index.offset is None or at == tuple(index.offset))

    def transform_tensor(self, read_item, tensor):
        return narrowed(tensor, read_item.dest_offsets, read_item.lengths)

    def resolve_tensor(self, read_item):
        return self.transform_tensor(read_item, self.lookup_tensor(read_item.dest_index))

    def commit_tensor(self, read_item, tensor):
        pass  # it was filled in place


def narrowed(tensor, offsets, lengths):
    """A box of a tensor."""
    for dim, (at, n) in enumerate(zip(offsets, lengths)):
        if n != tensor.size(dim):
            tensor = tensor.narrow(dim, at, n)
    return tensor


class _EmptyStateDictLoadPlanner(DefaultLoadPlanner):
    """Loads all that a checkpoint has, or the entries of some keys, into an empty dict."""

    def __init__(self, keys=None, *args, **kwargs):
        self.keys = keys
        super().__init__(*args, **kwargs)

    def _wanted(self, name, path):
        return self.keys is None or name in self.keys or any(".".join(map(str, path[:n])) in self.keys for n in range(1, len(path)))

    def set_up_planner(self, state_dict, metadata=None, is_coordinator=False):
        if state_dict:
            raise ValueError("the dict to load everything into must be empty")
        paths = metadata.planner_data or {}
        for name, entry in metadata.state_dict_metadata.items():
            path = paths.get(name, (name,))
            if self._wanted(name, path):
                tensor = isinstance(entry, TensorStorageMetadata)
                _flat.put(state_dict, path, torch.empty(entry.size, dtype=entry.properties.dtype) if tensor else None)
        super().set_up_planner(state_dict, metadata, is_coordinator)
