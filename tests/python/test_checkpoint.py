"""Checkpoints in pieces (torch.distributed.checkpoint)."""
import os

import pytest
import rushlight as torch
import rushlight.distributed as dist
import rushlight.distributed.checkpoint as dcp
from rushlight.distributed.checkpoint.format_utils import dcp_to_torch_save, torch_save_to_dcp
from test_dist import HERE, Ranks

pytestmark = pytest.mark.filterwarnings("ignore:torch.distributed is disabled")
SAVED = os.path.join(os.path.dirname(HERE), "data", "checkpoint")  # by two ranks of PyTorch: w and c are in pieces
SAVED_HF = SAVED + "_hf"  # by PyTorch too: whole tensors as safetensors, and in sharded/ the pieces of two ranks


def empty():
    return {"w": torch.zeros(5, 2), "c": torch.zeros(2, 5), "r": torch.zeros(5, 2), "plain": torch.zeros(3, dtype=torch.int64),
            "opt": {"lr": 0, "groups": [{"a": 0}]}}


def test_pieces_that_pytorch_saved():
    state = empty()
    dcp.load(state, checkpoint_id=SAVED)
    w = torch.arange(10.0).view(5, 2)
    assert torch.equal(state["w"], w) and torch.equal(state["c"], w.t()) and torch.equal(state["r"], w + 1)
    assert state["plain"].tolist() == [0, 1, 2] and state["opt"] == {"lr": 0.5, "groups": [{"a": 1}]}


def test_what_is_saved_is_loaded(tmp_path):
    a, b = (torch.nn.Linear(3, 2) for _ in range(2))
    state = {"model": a, "list": [1, torch.ones(2, dtype=torch.bfloat16)], "tuple": (1, "x"), "numbers": {0: 5}, "view": torch.arange(10)[2:4]}
    metadata = dcp.save(state, checkpoint_id=tmp_path)
    assert set(metadata.planner_data) == {"model.weight", "model.bias", "list.0", "list.1", "tuple", "numbers.0", "view"}
    into = {"model": b, "list": [0, torch.zeros(2)], "tuple": None, "numbers": {0: 0}, "view": torch.zeros(2)}
    dcp.load(into, checkpoint_id=tmp_path)
    assert torch.equal(a.weight, b.weight) and into["list"][0] == 1 and into["list"][1].tolist() == [1, 1]
    assert into["tuple"] == (1, "x") and into["numbers"] == {0: 5} and into["view"].tolist() == [2, 3]
    assert sorted(os.listdir(tmp_path)) == [".metadata", "__0_0.distcp"]
    names = (tmp_path / ".metadata").read_bytes()
    assert b"torch.distributed.checkpoint.metadata" in names and b"rushlight" not in names


def test_as_one_file(tmp_path):
    dcp_to_torch_save(SAVED, tmp_path / "one.pt")
    state = torch.load(tmp_path / "one.pt")
    assert state["opt"] == {"lr": 0.5, "groups": [{"a": 1}]} and state["w"].sum() == 45
    torch_save_to_dcp(tmp_path / "one.pt", tmp_path / "pieces")
    again = empty()
    dcp.load(again, checkpoint_id=tmp_path / "pieces")
    assert torch.equal(again["c"], state["c"])


@pytest.mark.parametrize("state, says", [
    ({"nope": torch.zeros(1)}, "Missing key in checkpoint state_dict: nope."),
    ({"w": torch.zeros(2, 5)}, "Size mismatch between saved torch.Size([5, 2]) and current: torch.Size([2, 5]) for w")])
def test_what_does_not_fit_is_told(state, says):
    with pytest.raises(dcp.CheckpointException) as error:
        dcp.load(state, checkpoint_id=SAVED)
    assert says in str(error.value) and list(error.value.failures) == [0]
    dcp.load({"nope": torch.zeros(1), "w": torch.zeros(5, 2)}, checkpoint_id=SAVED, planner=dcp.DefaultLoadPlanner(allow_partial_load=True))


class Fails:
    """Cannot be pickled."""

    def __reduce__(self):
        raise RuntimeError("the disk is full")


def test_a_save_that_ends_early_leaves_the_old_one(tmp_path):
    dcp.save({"a": torch.ones(3), "b": 1}, checkpoint_id=tmp_path)
    with pytest.raises(dcp.CheckpointException, match="the disk is full"):
        dcp.save({"a": torch.zeros(3), "b": Fails()}, checkpoint_id=tmp_path)
    state = {"a": torch.zeros(3), "b": 0}
    dcp.load(state, checkpoint_id=tmp_path)
    assert state["a"].tolist() == [1, 1, 1] and state["b"] == 1
    dcp.save({"a": torch.full((3,), 2.0), "b": 3}, checkpoint_id=tmp_path)
    dcp.load(state, checkpoint_id=tmp_path)
    assert state["a"].tolist() == [2, 2, 2] and state["b"] == 3
    assert len(os.listdir(tmp_path)) == 2  # nothing is left of the others


def test_half_a_checkpoint_is_none(tmp_path):
    with pytest.raises(dcp.CheckpointException):
        dcp.save({"a": torch.zeros(3), "b": Fails()}, checkpoint_id=tmp_path)
    with pytest.raises(dcp.CheckpointException, match="not saved to its end"):
        dcp.load({"a": torch.zeros(3)}, checkpoint_id=tmp_path)
    dcp.save({"a": torch.ones(300)}, checkpoint_id=tmp_path)
    piece, = tmp_path.glob("*.distcp")
    whole = piece.read_bytes()
    piece.write_bytes(whole[:len(whole) // 2])
    with pytest.raises(dcp.CheckpointException, match="the file is not whole"):
        dcp.load({"a": torch.zeros(300)}, checkpoint_id=tmp_path)
    piece.write_bytes(whole)
    said = (tmp_path / ".metadata").read_bytes()
    for n in range(0, len(said), 40):
        (tmp_path / ".metadata").write_bytes(said[:n])
        with pytest.raises(dcp.CheckpointException):
            dcp.load({"a": torch.zeros(300)}, checkpoint_id=tmp_path)


def test_in_the_background(tmp_path):
    x = torch.ones(3)
    future = dcp.async_save({"x": x, "n": [1]}, checkpoint_id=tmp_path)
    x.zero_()
    future.result()
    dcp.load({"x": x}, checkpoint_id=tmp_path)
    assert x.tolist() == [1, 1, 1]
    with pytest.raises(dcp.CheckpointException, match="the disk is full"):
        dcp.async_save({"b": Fails()}, checkpoint_id=tmp_path).result()


def test_stagers_take_the_copies(tmp_path):
    from concurrent.futures import Future
    from rushlight.distributed.checkpoint.staging import AsyncStager, BlockingAsyncStager, DefaultStager, StagingOptions
    with pytest.raises(AssertionError, match="Non-blocking copy requires that the current accelerator is available."):
        DefaultStager()
    state = {"a": torch.ones(3), "n": {"b": [torch.zeros(2), 5]}, "t": (torch.ones(1),), "s": "x"}
    stager = DefaultStager(StagingOptions(False, False, False, False))
    copy = stager.stage(state)
    state["a"].add_(1)
    assert str(copy) == "{'a': tensor([1., 1., 1.]), 'n': {'b': [tensor([0., 0.]), 5]}, 't': (tensor([1.]),), 's': 'x'}"
    assert stager.stage(state)["a"] is copy["a"] and copy["a"].tolist() == [2, 2, 2]  # the memory is used again
    assert DefaultStager(StagingOptions(False, True, False, False)).stage(state)["a"].is_shared()
    first, second = BlockingAsyncStager().stage(state), BlockingAsyncStager(cache_staged_state_dict=True).stage(state)
    assert first["a"] is not state["a"] and torch.equal(first["a"], second["a"])
    stager = DefaultStager(StagingOptions(False, False, True, False))
    response = dcp.async_save(state, checkpoint_id=tmp_path, async_stager=stager)
    assert response.staging_completion.result() is None
    state["a"].zero_()
    response.upload_completion.result()
    stager.close()
    dcp.load(state, checkpoint_id=tmp_path)
    assert state["a"].tolist() == [2, 2, 2]
    calls = []

    class Own(AsyncStager):
        def stage(self, state_dict):
            calls.append("stage")
            return {k: v.clone() for k, v in state_dict.items()}

        def synchronize_staging(self):
            calls.append("synchronize")
    assert isinstance(dcp.async_save({"a": torch.ones(1)}, checkpoint_id=tmp_path, async_stager=Own()), Future) and calls == ["stage", "synchronize"]

    class Fails:
        def stage(self, state_dict):
            failed = Future()
            failed.set_exception(ValueError("no room"))
            return failed
    response = dcp.async_save({"a": torch.ones(1)}, checkpoint_id=tmp_path, async_stager=Fails())
    for future in (response.staging_completion, response.upload_completion):
        with pytest.raises(ValueError, match="no room"):
            future.result()


def test_ranks_save_together(tmp_path):
    """What both have is written once; an error of one is both's, and the checkpoint before stays."""
    program = """
init()
import rushlight.distributed.checkpoint as dcp
path = %r
state = {"a": torch.arange(4.), "b": torch.arange(4.) + 1, "only%%d" %% rank: torch.ones(2), "n": 7}
metadata = dcp.save(state, checkpoint_id=path)
owners = {index.fqn: info.relative_path for index, info in metadata.storage_data.items()}
print(len(metadata.storage_data), len(set(owners.values())), sorted(os.listdir(path)))
work = dcp.async_save(state, checkpoint_id=path)
dist.all_reduce(state["a"])
work.result()
class Fails:
    def __reduce__(self):
        raise RuntimeError("the disk is full")
try:
    dcp.save({"a": torch.zeros(4), "n": Fails() if rank == 0 else 1}, checkpoint_id=path)
except dcp.CheckpointException as error:
    print(list(error.failures), "the disk is full" in str(error))
dcp.load(state, checkpoint_id=path)
print(state["a"].tolist(), state["n"])
""" % str(tmp_path)
    with Ranks(2, program) as job:
        outs = job.outputs()
    assert outs == ["5 2 ['.metadata', '__0_0.distcp', '__1_0.distcp']\n[0] True\n[0.0, 1.0, 2.0, 3.0] 7\n"] * 2


def test_a_whole_state_dict_gives_a_model_its_memory():
    """A model on the meta device is filled from what the first rank has."""
    program = """
init()
from rushlight.distributed.checkpoint.state_dict import StateDictOptions, set_model_state_dict
from rushlight.distributed.fsdp import fully_shard
whole = {"weight": torch.arange(6.).reshape(2, 3), "bias": torch.ones(2)} if rank == 0 else {}
for cut in (True, False):
    with torch.device("meta"):
        model = torch.nn.Linear(3, 2)
    if cut:
        fully_shard(model, mesh=dist.init_device_mesh("cpu", (2,)))
    set_model_state_dict(model, whole, options=StateDictOptions(full_state_dict=True, broadcast_from_rank0=True))
    print(model(torch.ones(1, 3)).tolist(), model.weight.device)
"""
    with Ranks(2, program) as job:
        outs = job.outputs()
    assert outs == ["[[4.0, 13.0]] cpu\n" * 2] * 2


def test_safetensors_that_pytorch_saved(tmp_path):
    """Whole tensors, and the pieces that they were made of; ours are made anew from the pieces."""
    from rushlight.distributed.checkpoint._consolidate_hf_safetensors import consolidate_safetensors_files_on_every_rank as consolidate
    made = tmp_path / "made"
    consolidate(os.path.join(SAVED_HF, "sharded"), made, {"w": 1, "v": 2, "r": 2})
    for folder in (SAVED_HF, os.path.join(SAVED_HF, "sharded"), made):
        state = {"w": torch.zeros(5, 2), "v": torch.zeros(3, 4, dtype=torch.bfloat16), "r": torch.zeros(3)}
        dcp.load(state, storage_reader=dcp.HuggingFaceStorageReader(folder))
        assert torch.equal(state["w"], torch.arange(10.0).view(5, 2)) and torch.equal(state["v"].float(), torch.arange(12.0).view(3, 4))
        assert state["r"].tolist() == [1, 1, 1]
    assert (made / "model.safetensors.index.json").read_text() == open(os.path.join(SAVED_HF, "model.safetensors.index.json")).read()
    with pytest.raises(ValueError, match="no pieces of .'x'."):
        consolidate(SAVED_HF, made, {"x": 1})


def test_safetensors_of_one_process(tmp_path):
    state = {"a.weight": torch.arange(6.0).view(2, 3), "b": torch.ones(2, dtype=torch.bfloat16), "c": torch.tensor(3)}
    for mapping, names in ((None, ["model-00001-of-00001"]), ({"a.weight": 1, "b": 2, "c": 2}, ["model-00001-of-00002", "model-00002-of-00002"])):
        for more in ({}, {"save_distributed": True}, {"save_distributed": True, "enable_consolidation": True}):
            path = tmp_path / (names[-1] + str(len(more)))
            dcp.save(state, storage_writer=dcp.HuggingFaceStorageWriter(path, mapping, **more))
            assert sorted(p.name for p in path.glob("*.safetensors")) == [("shard-00001-" if len(more) == 1 else "") + n + ".safetensors" for n in names]
            assert (path / "model.safetensors.index.json").exists() == (len(more) != 1) and (path / "sharded").exists() == (len(more) == 2)
            loaded = {k: torch.zeros_like(v) for k, v in state.items()}
            dcp.load(loaded, storage_reader=dcp.HuggingFaceStorageReader(path))
            assert all(torch.equal(loaded[k], state[k]) for k in state)
    with pytest.raises(dcp.CheckpointException, match="n is no tensor"):
        dcp.save({"n": 1}, storage_writer=dcp.HuggingFaceStorageWriter(tmp_path))


def test_texts_about_safetensors(tmp_path):
    from rushlight import io
    path = tmp_path / "x.safetensors"
    for tensors in ({}, {"a": torch.ones(2)}):
        for notes in ({}, {"x": 'a "b"\n', "y": ""}):
            io.save_safetensors(tensors, path, notes)
            assert io.safetensors_metadata(path) == notes and list(io.load_safetensors(path)) == list(tensors)
    with pytest.raises(TypeError):
        io.save_safetensors({}, path, {"x": 1})
    path.write_bytes(b"\xff" * 8)
    with pytest.raises(ValueError, match="header"):
        io.safetensors_metadata(path)


def test_pieces_of_ranks_become_whole_tensors(tmp_path):
    program = """
init()
import rushlight.distributed.checkpoint as dcp
from rushlight import io
from rushlight.distributed.tensor import Shard, distribute_tensor
mesh = dist.init_device_mesh("cpu", (2,))
cut = lambda t, dim: distribute_tensor(t, mesh, [Shard(dim)])
writer = dcp.HuggingFaceStorageWriter(%r, {"w": 1, "v": 2}, save_distributed=True, enable_consolidation=True)
dcp.save({"w": cut(torch.arange(10.).view(5, 2), 0), "v": cut(torch.arange(6.).view(2, 3), 1)}, storage_writer=writer)
again = {"w": cut(torch.zeros(5, 2), 1), "v": cut(torch.zeros(2, 3), 0)}
dcp.load(again, storage_reader=dcp.HuggingFaceStorageReader(%r))
print(again["w"].to_local().flatten().tolist(), io.load_safetensors(%r)["v"].tolist())
""" % (str(tmp_path), str(tmp_path / "sharded"), str(tmp_path / "model-00002-of-00002.safetensors"))
    with Ranks(2, program) as job:
        outs = job.outputs()
    v = "[[0.0, 1.0, 2.0], [3.0, 4.0, 5.0]]\n"
    assert outs == ["[0.0, 2.0, 4.0, 6.0, 8.0] " + v, "[1.0, 3.0, 5.0, 7.0, 9.0] " + v]
