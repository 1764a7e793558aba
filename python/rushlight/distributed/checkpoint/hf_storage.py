"""Checkpoints as safetensors, as Hugging Face's libraries read them."""
import dataclasses
import json
import os

import rushlight as torch
from rushlight import io

from ._consolidate_hf_safetensors import NOTE, consolidate_safetensors_files, file_name, pieces_of, size_of, write_index
from .default_planner import narrowed
from .filesystem import FileSystemReader, FileSystemWriter, _done
from .metadata import ChunkStorageMetadata, Metadata, MetadataIndex, StorageMeta, TensorProperties, TensorStorageMetadata
from .planner import LoadItemType, WriteItemType
from .storage import WriteResult

__all__ = ["HuggingFaceStorageWriter", "HuggingFaceStorageReader"]


@dataclasses.dataclass
class _HFStorageInfo:
    """Where a piece lies, and what it is."""
    relative_path: str
    shape: torch.Size
    dtype: torch.dtype


class HuggingFaceStorageWriter(FileSystemWriter):
    """Writes tensors to safetensors files, by fqn_to_index_mapping into several.

    With save_distributed each process writes its own pieces, and enable_consolidation makes whole tensors of them afterwards.
    """

    def __init__(self, path, fqn_to_index_mapping=None, thread_count=1, save_distributed=False, enable_consolidation=False, thread_count_consolidation=1):
        self.mapping, self.save_distributed = fqn_to_index_mapping, save_distributed
        self.consolidated, self.thread_count_consolidation = (path if enable_consolidation and save_distributed else None), thread_count_consolidation
        super().__init__(path if self.consolidated is None else os.path.join(path, "sharded"), thread_count=thread_count)

    def prepare_global_plan(self, plans):
        return [dataclasses.replace(plan, storage_data={"fqn_to_index_mapping": self.mapping, "shard_index": rank if self.save_distributed else None})
                for rank, plan in enumerate(plans, 1)]

    def write_data(self, plan, planner):
        mapping, shard, files, results = plan.storage_data["fqn_to_index_mapping"], plan.storage_data["shard_index"], {}, []
        for item in plan.items:
            if item.type == WriteItemType.BYTE_IO:
                raise ValueError(f"{item.index.fqn} is no tensor: safetensors files hold nothing else")
            files.setdefault(mapping[item.index.fqn] if mapping else 1, []).append(item)
        for number, items in files.items():
            name = file_name(number, max(mapping.values()) if mapping else 1, shard)
            tensors = {item.index.fqn: planner.resolve_data(item).detach().cpu().contiguous() for item in items}
            offsets = {item.index.fqn: {"saved_offsets": list(item.tensor_data.chunk.offsets)} for item in items}
            io.save_safetensors(tensors, self.path / name, {"format": "pt", "DCP_VERSION": "1.0", NOTE: json.dumps(offsets)})
            results += [WriteResult(item.index, t.numel() * t.element_size(), name) for item, t in zip(items, tensors.values())]
        return _done(results)

    def finish(self, metadata, results):
        if self.consolidated is not None:
            mapping = self.mapping or dict.fromkeys(metadata.state_dict_metadata, 1)
            consolidate_safetensors_files(self.path, self.consolidated, mapping, self.thread_count_consolidation)
        elif not self.save_distributed:
            written = [one for of_rank in results for one in of_rank]
            write_index(self.path, {one.index.fqn: one.size_in_bytes for one in written}, {one.index.fqn: one.storage_data for one in written})


class HuggingFaceStorageReader(FileSystemReader):
    """Reads safetensors files, of whole tensors or of pieces."""

    def __init__(self, path, thread_count=1):
        super().__init__(path)

    def read_metadata(self, *args, **kwargs):
        found, places = {}, {}
        for fqn, at, piece, path in pieces_of(self.path):
            found.setdefault(fqn, []).append((at, piece))
            places[MetadataIndex(fqn, at)] = _HFStorageInfo(path, piece.shape, piece.dtype)
        entries = {fqn: TensorStorageMetadata(TensorProperties(dtype=pieces[0][1].dtype), size_of(pieces),
                                              [ChunkStorageMetadata(torch.Size(at), piece.shape) for at, piece in pieces]) for fqn, pieces in found.items()}
        return Metadata(entries, storage_data=places, storage_meta=StorageMeta(load_id=self.load_id))

    def read_data(self, plan, planner):
        files = {}
        for item in plan.items:
            if item.type == LoadItemType.BYTE_IO:
                raise ValueError(f"{item.storage_index.fqn} is no tensor: safetensors files hold nothing else")
            files.setdefault(self.storage_data[item.storage_index].relative_path, []).append(item)
        for path, items in files.items():
            tensors = io.load_safetensors(path)
            for item in items:
                target = planner.resolve_tensor(item).detach()
                target.copy_(narrowed(tensors[item.storage_index.fqn], item.storage_offsets, item.lengths))
                planner.commit_tensor(item, target)
        return _done(None)
