"""Checkpoints in a folder: files of pieces, __RANK_N.distcp, and .metadata, which says where each piece lies.

The folder is a checkpoint only through its .metadata, which is written last, under another name, and then renamed. Where there is one
already, pieces go to files of new names, and the old ones are removed after the new .metadata is in place: whenever the job ends, the folder
holds the old checkpoint whole, or the new one, or none.
"""
import dataclasses
import io
import os
import pathlib
import pickle
import re
import uuid
from concurrent.futures import ThreadPoolExecutor
from enum import Enum
from typing import Optional, Sequence

import rushlight as torch
from rushlight.futures import Future

from .default_planner import narrowed
from .metadata import Metadata, StorageMeta
from .planner import LoadItemType, WriteItemType
from .storage import StorageReader, StorageWriter, WriteResult

__all__ = ["FileSystemWriter", "FileSystemReader", "FileSystem", "FileSystemBase", "SerializationFormat"]
_METADATA, _SUFFIX = ".metadata", ".distcp"


class SerializationFormat(Enum):
    TORCH_SAVE = "torch_save"
    SAFETENSORS = "safetensors"


@dataclasses.dataclass
class _StorageInfo:
    """Where a piece lies."""
    relative_path: str
    offset: int
    length: int
    transform_descriptors: Optional[Sequence[str]] = None


@dataclasses.dataclass
class _StoragePrefix:
    """How the names of a process's files begin."""
    prefix: str


class FileSystem:
    """Paths of this machine."""

    @staticmethod
    def validate_checkpoint_id(checkpoint_id):
        return isinstance(checkpoint_id, pathlib.Path) or "://" not in os.fspath(checkpoint_id)


FileSystemBase = FileSystem


def _pickled(obj, file):
    torch.serialization._saving._Pickler(file, 4, lambda obj: None).dump(obj)


def _sync_folder(path):
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _done(value):
    future = Future()
    future.set_result(value)
    return future


class _Folder:
    """What writers and readers of a checkpoint in a folder have in common: its path, and an id for each use."""

    def __init__(self, path):
        self.path, self._use = pathlib.Path(path), str(uuid.uuid4())

    @property
    def checkpoint_id(self):
        return self.path

    @classmethod
    def validate_checkpoint_id(cls, checkpoint_id):
        return FileSystem.validate_checkpoint_id(checkpoint_id)

    def reset(self, checkpoint_id=None):
        _Folder.__init__(self, self.path if checkpoint_id is None else checkpoint_id)


class FileSystemWriter(_Folder, StorageWriter):
    """Writes a checkpoint to a folder; see this file's head for what holds when the job ends meanwhile."""

    def __init__(self, path, single_file_per_rank=True, sync_files=True, thread_count=1, per_thread_copy_ahead=10_000_000,
                 cache_staged_state_dict=False, overwrite=True, _extensions=None, serialization_format=SerializationFormat.TORCH_SAVE):
        if serialization_format != SerializationFormat.TORCH_SAVE or _extensions:
            raise NotImplementedError("FileSystemWriter: pieces are written by torch.save() only")
        self.single_file_per_rank, self.sync_files, self.thread_count, self.overwrite = single_file_per_rank, sync_files, max(1, thread_count), overwrite
        self.per_thread_copy_ahead, self.cache_staged_state_dict = per_thread_copy_ahead, cache_staged_state_dict
        super().__init__(path)

    @property
    def save_id(self):
        return self._use

    def storage_meta(self):
        return StorageMeta(checkpoint_id=self.path, save_id=self.save_id)

    def set_up_storage_writer(self, is_coordinator, *args, **kwargs):
        self.is_coordinator = is_coordinator

    def prepare_local_plan(self, plan):
        self.path.mkdir(parents=True, exist_ok=True)
        if self._there() and not self.overwrite:
            raise RuntimeError(f"Checkpoint already exists and self.overwrite={self.overwrite}.")
        return plan

    def _there(self):
        return (self.path / _METADATA).exists()

    def prepare_global_plan(self, plans):
        run = self.save_id[:8] + "_" if self._there() else ""
        return [dataclasses.replace(plan, storage_data=_StoragePrefix(f"__{run}{rank}_")) for rank, plan in enumerate(plans)]

    def _split(self, items):
        """The items of each file."""
        if not self.single_file_per_rank:
            return [[item] for item in items]
        if self.thread_count == 1:
            return [items] if items else []
        files, sizes = [[] for _ in range(self.thread_count)], [0] * self.thread_count
        for item in sorted(items, key=lambda item: -(item.tensor_storage_size() or 0)):
            least = sizes.index(min(sizes))
            files[least].append(item)
            sizes[least] += item.tensor_storage_size() or 1
        return [file for file in files if file]

    def _write_file(self, name, items, planner):
        results, path = [], self.path / name
        ordered = [i for i in items if i.type == WriteItemType.BYTE_IO] + [i for i in items if i.type != WriteItemType.BYTE_IO]
        with open(path, "wb") as file:
            for item in ordered:
                at, data = file.tell(), planner.resolve_data(item)
                if item.type == WriteItemType.BYTE_IO:
                    file.write(data.getbuffer())
                else:
                    data = data.detach().cpu()
                    whole = data.untyped_storage().nbytes() == data.numel() * data.element_size()
                    torch.save(data if whole else data.clone(), file)
                length = file.tell() - at
                results.append(WriteResult(item.index, length, _StorageInfo(name, at, length)))
            if self.sync_files:
                file.flush()
                os.fsync(file.fileno())
        return results

    def write_data(self, plan, planner):
        files = [(f"{plan.storage_data.prefix}{n}{_SUFFIX}", items) for n, items in enumerate(self._split(plan.items))]
        if self.thread_count == 1 or len(files) < 2:
            return _done([result for name, items in files for result in self._write_file(name, items, planner)])
        with ThreadPoolExecutor(self.thread_count) as threads:
            return _done([r for results in threads.map(lambda one: self._write_file(*one, planner), files) for r in results])

    def finish(self, metadata, results):
        metadata.storage_data = {one.index: one.storage_data for of_rank in results for one in of_rank}
        metadata.storage_meta = self.storage_meta()
        new = self.path / (_METADATA + ".tmp")
        with open(new, "wb") as file:
            _pickled(metadata, file)
            file.flush()
            os.fsync(file.fileno())
        _sync_folder(self.path)  # the pieces' names are there before that of .metadata
        os.replace(new, self.path / _METADATA)
        _sync_folder(self.path)
        kept = {info.relative_path for info in metadata.storage_data.values()}
        for name in os.listdir(self.path):
            if re.fullmatch(r"__([0-9a-f]{8}_)?\d+_\d+\.distcp", name) and name not in kept:
                os.remove(self.path / name)


class FileSystemReader(_Folder, StorageReader):
    """Reads a checkpoint of a folder."""

    def __init__(self, path, _extension_registry=None):
        super().__init__(path)
        self.storage_data = {}

    @property
    def load_id(self):
        return self._use

    def reset(self, checkpoint_id=None):
        super().reset(checkpoint_id)
        self.storage_data = {}

    def read_metadata(self, *args, **kwargs):
        path = self.path / _METADATA
        if not path.exists() and any(self.path.glob("*" + _SUFFIX)):
            raise FileNotFoundError(f"{path} is not there: the checkpoint was not saved to its end")
        with open(path, "rb") as file:
            try:
                metadata = torch.serialization._loading._NamingUnpickler(file).load()
            except (EOFError, pickle.UnpicklingError, ValueError, IndexError, KeyError, TypeError, UnicodeDecodeError) as error:
                raise ValueError(f"{path} is not a checkpoint's metadata: {error}") from error
        if not isinstance(metadata, Metadata):
            raise ValueError(f"{path} is not a checkpoint's metadata: it holds a {type(metadata).__name__}")
        if metadata.storage_meta is None:
            metadata.storage_meta = StorageMeta()
        metadata.storage_meta.load_id = self.load_id
        return metadata

    def set_up_storage_reader(self, metadata, is_coordinator, *args, **kwargs):
        self.storage_data = metadata.storage_data

    def prepare_local_plan(self, plan):
        return plan

    def prepare_global_plan(self, plans):
        return plans

    def _piece(self, file, info, name):
        file.seek(info.offset)
        data = file.read(info.length)
        if len(data) != info.length:
            raise ValueError(f"{self.path / info.relative_path} ends before the piece of {name}: the file is not whole")
        return io.BytesIO(data)

    def _read_file(self, name, items, planner):
        with open(self.path / name, "rb") as file:
            for info, item in sorted(items, key=lambda pair: pair[0].offset):
                data = self._piece(file, info, item.storage_index.fqn)
                if item.type == LoadItemType.BYTE_IO:
                    planner.load_bytes(item, data)
                    continue
                saved = narrowed(torch.load(data, map_location="cpu", weights_only=True), item.storage_offsets, item.lengths)
                target = planner.resolve_tensor(item).detach()
                if target.size() != saved.size():
                    raise ValueError(f"req {item.storage_index} mismatch sizes {target.size()} vs {saved.size()}")
                target.copy_(saved)
                planner.commit_tensor(item, target)

    def read_data(self, plan, planner):
        files = {}
        for item in plan.items:
            info = self.storage_data.get(item.storage_index)
            if info is None:
                raise ValueError(f"the checkpoint's metadata does not say where {item.storage_index.fqn} lies")
            if getattr(info, "transform_descriptors", None):
                raise NotImplementedError(f"{item.storage_index.fqn} was saved with transforms {info.transform_descriptors}, which are not supported")
            if os.path.basename(info.relative_path) != info.relative_path:
                raise ValueError(f"{item.storage_index.fqn} lies outside of the checkpoint, at {info.relative_path}")
            files.setdefault(info.relative_path, []).append((info, item))
        for name, items in files.items():
            self._read_file(name, items, planner)
        return _done(None)
