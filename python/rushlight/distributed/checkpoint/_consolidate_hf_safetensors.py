"""Safetensors in pieces as whole tensors in one file or several."""
import json
import os
from concurrent.futures import ThreadPoolExecutor

import rushlight as torch
from rushlight import io

NOTE, INDEX, SUFFIX = "DCP_SHARDING_INFO", "model.safetensors.index.json", ".safetensors"


def file_name(number, count, shard=None):
    """The `number`th of `count` files, numbered from 1; shard: the rank whose pieces it holds, from 1."""
    return ("" if shard is None else "shard-%05d-" % shard) + "model-%05d-of-%05d%s" % (number, count, SUFFIX)


def pieces_of(folder):
    """For each piece of the files of a folder: name, offsets, tensor (mapped), path of the file."""
    for name in sorted(os.listdir(folder)):
        if name.endswith(SUFFIX):
            path = os.path.join(folder, name)
            offsets = json.loads(io.safetensors_metadata(path).get(NOTE, "{}"))
            for fqn, piece in io.load_safetensors(path).items():
                yield fqn, offsets.get(fqn, {}).get("saved_offsets", [0] * piece.dim()), piece, path


def size_of(pieces):
    """Of the tensor that pieces, (offsets, piece), are of."""
    return torch.Size(max(at[d] + piece.size(d) for at, piece in pieces) for d in range(pieces[0][1].dim()))


def write_index(folder, sizes, files):
    """What says in which file each tensor is: sizes in bytes and names of files, by tensor."""
    with open(os.path.join(folder, INDEX), "w") as file:
        json.dump({"metadata": {"total_size": sum(sizes.values())}, "weight_map": files}, file, indent=2)


def _consolidate(input_dir, output_dir, mapping, number_is_mine, num_threads):
    """Writes the files of some numbers; sizes of all tensors."""
    found, count = {}, max(mapping.values(), default=1)
    for fqn, at, piece, _ in pieces_of(input_dir):
        found.setdefault(fqn, []).append((at, piece))
    missing = [fqn for fqn in mapping if fqn not in found]
    if missing:
        raise ValueError(f"{input_dir} has no pieces of {missing}")

    def whole(fqn):
        tensor = found[fqn][0][1].new_empty(size_of(found[fqn]))
        for at, piece in found[fqn]:
            place = tensor
            for dim, start in enumerate(at):
                place = place.narrow(dim, start, piece.size(dim))
            place.copy_(piece)
        return tensor

    def write(number):
        io.save_safetensors({fqn: whole(fqn) for fqn, n in mapping.items() if n == number}, os.path.join(output_dir, file_name(number, count)))

    os.makedirs(output_dir, exist_ok=True)
    with ThreadPoolExecutor(max(1, num_threads)) as threads:
        list(threads.map(write, filter(number_is_mine, sorted(set(mapping.values())))))
    return {fqn: size_of(found[fqn]).numel() * found[fqn][0][1].element_size() for fqn in mapping}


def consolidate_safetensors_files(input_dir, output_dir, fqn_to_index_mapping, num_threads=1):
    """Of a folder of pieces, with notes of where they belong, the whole tensors, in files by their numbers, and an index."""
    sizes = _consolidate(input_dir, output_dir, fqn_to_index_mapping, lambda number: True, num_threads)
    _index(output_dir, sizes, fqn_to_index_mapping)


def consolidate_safetensors_files_on_every_rank(input_dir, output_dir, fqn_to_index_mapping, num_threads=1, process_group=None):
    """The same by all processes of a group, each some of the files."""
    dist = torch.distributed
    rank, size = (dist.get_rank(process_group), dist.get_world_size(process_group)) if dist.is_available() and dist.is_initialized() else (0, 1)
    sizes = _consolidate(input_dir, output_dir, fqn_to_index_mapping, lambda number: number % size == rank, num_threads)
    if rank == 0:
        _index(output_dir, sizes, fqn_to_index_mapping)
    if size > 1:
        dist.barrier(process_group)


def _index(folder, sizes, mapping):
    count = max(mapping.values(), default=1)
    write_index(folder, sizes, {fqn: file_name(number, count) for fqn, number in mapping.items()})
