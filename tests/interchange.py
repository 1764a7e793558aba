#!/usr/bin/env python3
"""Files between rushlight and the libraries it shares formats with, in both directions: PyTorch, safetensors, NumPy.

    PYTHONPATH=python tests/interchange.py [--large]

Needs PyTorch in the same Python (no test that the project needs: those read committed files instead) and says so when it
is not there; safetensors where it is. --large goes beyond 4 GiB and takes that much memory and disk for a minute.
"""
import argparse
import collections
import io
import os
import struct
import sys
import tarfile
import tempfile

import numpy as np

try:
    import torch
except ImportError:
    sys.exit("interchange: skipped, PyTorch is not installed")
import rushlight
import rushlight.io

DTYPES = ("bool uint8 int8 int16 int32 int64 uint16 uint32 uint64 float16 bfloat16 float32 float64 complex64 complex128 "
          "float8_e4m3fn float8_e5m2 float8_e4m3fnuz float8_e5m2fnuz float8_e8m0fnu").split()
done = 0


def raw(t):
    """A tensor of either library as (dtype, sizes, bytes)."""
    t = t.detach()
    if t.layout not in (torch.strided, rushlight.strided):
        return str(t.layout), tuple(t.shape), raw(t.to_dense())
    kind = torch if isinstance(t, torch.Tensor) else rushlight
    flat = t.resolve_conj().resolve_neg().contiguous().reshape(-1)
    flat = flat.as_strided((flat.numel(),), (1,))
    return str(t.dtype), tuple(t.shape), bytes(flat.view(kind.uint8).numpy()) if flat.numel() else b""


def same(a, b, where="value"):
    """Raise unless a and b, of either library, are the same."""
    tensors = torch.Tensor, rushlight.Tensor
    if isinstance(a, tensors) or isinstance(b, tensors):
        assert isinstance(a, tensors) and isinstance(b, tensors), where
        assert raw(a) == raw(b), "%s: %s and %s" % (where, a, b)
        assert a.requires_grad == b.requires_grad and type(a).__name__ == type(b).__name__, where
        if str(a.layout) == "torch.strided":
            assert a.stride() == b.stride() or a.numel() == 0, "%s: %s and %s" % (where, a.stride(), b.stride())
    elif isinstance(a, dict):
        assert type(a).__name__ == type(b).__name__ and list(a) == list(b), "%s: %s and %s" % (where, list(a), list(b))
        for key in a:
            same(a[key], b[key], "%s[%r]" % (where, key))
        if hasattr(a, "_metadata"):
            same(a._metadata, b._metadata, where + "._metadata")
    elif isinstance(a, (list, tuple)):
        assert type(a).__name__ == type(b).__name__ and len(a) == len(b), where
        for i, (x, y) in enumerate(zip(a, b)):
            same(x, y, "%s[%d]" % (where, i))
    else:
        assert str(a) == str(b) and type(a).__name__ == type(b).__name__, "%s: %r and %r" % (where, a, b)


def values(t):
    """What is saved, made with either library."""
    six, a = t.arange(6), t.arange(12.0).reshape(3, 4)
    yield "dtypes", {name: six.to(getattr(t, name)) for name in DTYPES}
    yield "empty", {name: t.empty(0, 3, dtype=getattr(t, name)) for name in DTYPES}
    yield "views", [a, a[1], a.t(), a[:, ::2], a[0, 0].expand(3, 2), a[1:2, 1], t.tensor(5), a.narrow(1, 1, 2)]
    yield "only views", [a[1], a[1, 2:]]
    yield "lazy bits", [t.tensor([1 + 2j, 3 - 4j]).conj(), t.tensor([1 + 2j]).conj().imag]
    yield "grad", [a.clone().requires_grad_(), t.nn.Parameter(a.clone()), t.nn.Parameter(six, requires_grad=False)]
    yield "containers", {"a": [1, -2.5, None, True, "h\xe9", b"\x00\xff", 10 ** 30, -2 ** 40, 1e300, 1 + 2j], "b": (1, (2, [3, {4: 5}]), ()),
                         "c": {7, 8}, "d": collections.OrderedDict(x=1), "e": t.Size([1, 2]), "f": t.bfloat16, "g": t.device("cpu"), "h": bytearray(b"ab"),
                         "i": collections.Counter("aab")}
    shared = [1, 2]
    yield "shared values", [shared, shared, {"again": shared}]
    yield "sparse", [t.sparse_coo_tensor([[0, 1], [1, 2]], [3.0, 4.0], (2, 3)).coalesce(), t.eye(3).to_sparse_csr()]
    yield "meta", t.empty(3, 4, device="meta").size()
    t.manual_seed(0)
    net = t.nn.Sequential(t.nn.Linear(4, 8), t.nn.BatchNorm1d(8), t.nn.Embedding(3, 4), t.nn.LSTM(4, 4))
    yield "module", net.state_dict()
    for kind in ("SGD", "Adam", "AdamW", "RMSprop", "Adagrad", "Adadelta", "NAdam", "RAdam", "Adamax", "Rprop", "ASGD"):
        weight = t.nn.Parameter(t.ones(2, 3))
        optimizer = getattr(t.optim, kind)([weight], **({"lr": 0.1, "momentum": 0.9} if kind == "SGD" else {"lr": 0.1}))
        (weight * weight).sum().backward()
        optimizer.step()
        yield "optimizer " + kind, optimizer.state_dict()
    yield "random state", {"cpu": t.get_rng_state()}


def both_ways(path):
    """Each value: saved by one, loaded by the other, in each way that either has."""
    global done
    makers = {"PyTorch": torch, "rushlight": rushlight}
    for writer, reader in (("PyTorch", "rushlight"), ("rushlight", "PyTorch"), ("rushlight", "rushlight")):
        w, r = makers[writer], makers[reader]
        for name, value in values(w):
            for options in ({}, {"_use_new_zipfile_serialization": False}):
                if options and name in ("dtypes", "empty", "lazy bits"):
                    continue  # the old format has no storages for the newer types
                w.save(value, path, **options)
                ways = [{}, {"weights_only": False}] + ([] if options else [{"mmap": True}])
                for way in ways:
                    try:
                        same(value, r.load(path, **way))
                    except Exception as error:
                        raise AssertionError("%s, %s to %s, saved %s, loaded %s: %s" % (name, writer, reader, options, way, error)) from error
                    done += 1
        a = w.arange(10.0)
        w.save([a, a[3:5]], path)
        got = r.load(path)
        got[0][3] = 77
        assert got[1][0] == 77, "sharing is lost from %s to %s" % (writer, reader)


def before_zip(path):
    """The tar of PyTorch before 0.1.10, which nothing writes any more: made by hand, read by both."""
    global done
    import pickle

    class Named(pickle._Pickler):
        """Writes pairs of (module, name) as the global of that name."""
        def save_tuple(self, obj):
            if len(obj) == 3 and obj[0] == "global":
                self.write(b"c" + obj[1].encode() + b"\n" + obj[2].encode() + b"\n")
            else:
                super().save_tuple(obj)
        dispatch = dict(pickle._Pickler.dispatch)
        dispatch[tuple] = save_tuple

    def pickled(value):
        f = io.BytesIO()
        Named(f, 2).dump(value)
        return f.getvalue()

    class Root(pickle._Pickler):
        def persistent_id(self, value):
            return value.key if isinstance(value, Key) else None

    class Key:
        def __init__(self, key):
            self.key = key
    numbers = struct.pack("<q6f", 6, *range(6))
    storages = pickled(1) + pickled((1, "cpu", ("global", "torch", "FloatStorage"))) + numbers + pickled([])
    tensors = pickled(1) + pickled((2, 1, ("global", "torch", "FloatTensor"))) + struct.pack("<i4x2q2qq", 2, 2, 3, 3, 1, 0)
    root = io.BytesIO()
    Root(root, 2).dump({"t": Key(2)})
    with tarfile.open(path, "w", format=tarfile.USTAR_FORMAT) as tar:
        for name, data in (("storages", storages), ("tensors", tensors), ("pickle", root.getvalue())):
            info = tarfile.TarInfo(name)
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))
    same(torch.load(path, weights_only=False), rushlight.load(path, weights_only=False))
    same(torch.load(path, weights_only=False), rushlight.load(path))
    done += 2


def scripts(path):
    global done
    net = torch.nn.Sequential(torch.nn.Conv2d(1, 2, 3), torch.nn.BatchNorm2d(2)).eval()
    for archive in (torch.jit.script(net), torch.jit.trace(net, torch.ones(1, 1, 5, 5))):
        archive.save(path)
        got = rushlight.serialization.script_state(path)
        for name, t in net.state_dict().items():
            assert raw(t) == raw(got[name]), name
        done += 1


def arrays(path):
    """NumPy's files, by the C functions."""
    global done
    for kind in ("?", "u1", "i1", "i2", "i4", "i8", "u2", "u4", "u8", "f2", "f4", "f8", "c8", "c16"):
        for order in "<>":
            for layout in "CF":
                for shape in ((2, 3), (0, 4), (), (5,)):
                    want = np.arange(int(np.prod(shape)) or 0).reshape(shape).astype(order + kind, order=layout)
                    np.save(path + ".npy", want)
                    got = rushlight.io.load_npy(path + ".npy")
                    assert got.numpy().tobytes() == want.astype("=" + kind).tobytes() and tuple(got.shape) == shape, (kind, order, layout, shape)
                    for save in (np.savez, np.savez_compressed):
                        save(path + ".npz", a=want, b=want)
                        both = rushlight.io.load_npz(path + ".npz")
                        assert list(both) == ["a", "b"] and both["b"].numpy().tobytes() == want.astype("=" + kind).tobytes()
                    rushlight.io.save_npy(got, path + ".npy")
                    back = np.load(path + ".npy", allow_pickle=False)
                    assert back.dtype == want.dtype.newbyteorder("=") and np.array_equal(back, want)
                    rushlight.io.save_npz({"x": got, "y": got}, path + ".npz")
                    back = np.load(path + ".npz", allow_pickle=False)
                    assert np.array_equal(back["y"], want)
                    done += 6


def safetensors_files(path):
    """The package's own files, and the package unchanged with rushlight as its torch: see test_clients."""
    global done
    try:
        from safetensors.torch import load_file, save_file
    except ImportError:
        print("interchange: safetensors is not installed, its files are left out")
        return
    state = {name: torch.arange(6).to(getattr(torch, name)).reshape(2, 3) for name in DTYPES if name != "complex128"}
    save_file(state, path, {"by": "safetensors"})
    got = rushlight.io.load_safetensors(path)
    assert {k: raw(v) for k, v in got.items()} == {k: raw(v) for k, v in state.items()}
    rushlight.io.save_safetensors(got, path)
    assert {k: raw(v) for k, v in load_file(path).items()} == {k: raw(v) for k, v in state.items()}
    done += 2


def large(path):
    """An entry beyond 4 GiB, and one that begins beyond: bools that are almost all false."""
    global done
    n = (1 << 32) + 4097
    for writer, reader in ((rushlight, torch), (torch, rushlight)):
        big = writer.zeros(n, dtype=writer.bool)
        big[n - 1] = True
        big[1 << 32] = True
        writer.save({"big": big, "after": writer.arange(5)}, path)
        del big
        got = reader.load(path, mmap=True)
        assert got["after"].tolist() == [0, 1, 2, 3, 4] and got["big"].shape == (n,)
        assert got["big"][n - 1].item() and got["big"][1 << 32].item() and not got["big"][7].item()
        if reader is rushlight:
            del got
            got = reader.load(path)     # with the checksum
            assert got["big"][n - 1].item() and got["after"][4].item() == 4
        del got
        os.unlink(path)
        done += 1


def main():
    cli = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    cli.add_argument("--large", action="store_true")
    args = cli.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "file.pt")
        both_ways(path)
        before_zip(path)
        scripts(path)
        arrays(path)
        safetensors_files(path)
        if args.large:
            large(path)
    print("interchange: %d files agree" % done)


if __name__ == "__main__":
    main()
