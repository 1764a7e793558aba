"""Writes archives that torch.jit.load reads, here and in PyTorch: code, constants, and the tree of objects as pickles."""
import ctypes
import io
import struct
import zipfile

import rushlight as torch
from rushlight import _C

_STORAGES = {torch.float32: "Float", torch.float64: "Double", torch.float16: "Half", torch.bfloat16: "BFloat16", torch.int64: "Long", torch.int32: "Int", torch.int16: "Short",
             torch.int8: "Char", torch.uint8: "Byte", torch.bool: "Bool", torch.complex64: "ComplexFloat", torch.complex128: "ComplexDouble"}


class Pickle:
    """One pickle of protocol 2, with the names that TorchScript's reader knows; tensors go to entries beside it."""

    def __init__(self, folder):
        self.out, self.folder, self.storages, self.entries, self.kept = io.BytesIO(), folder, {}, [], []
        self.memo = {}
        self.out.write(b"\x80\x02")

    def bytes(self):
        return self.out.getvalue() + b"."

    def name(self, module, name):
        self.out.write(b"c" + module.encode() + b"\n" + name.encode() + b"\n")

    def text(self, s):
        raw = s.encode()
        self.out.write(b"X" + struct.pack("<I", len(raw)) + raw)

    def number(self, n):
        if -2**31 <= n < 2**31:
            self.out.write(b"J" + struct.pack("<i", n))
        else:
            self.out.write(b"\x8a\x08" + struct.pack("<q", n))

    def tuple(self, items):
        self.out.write(b"(")
        for x in items:
            self.value(x)
        self.out.write(b"t")

    def storage(self, t):
        whole = t.untyped_storage()
        key = (whole.data_ptr(), t.dtype) if whole.nbytes() else id(whole)
        if key not in self.storages:
            self.storages[key] = str(len(self.storages))
            numel = whole.nbytes() // t.element_size()
            flat = torch.empty(0, dtype=t.dtype).set_(whole, 0, (numel,), (1,))
            self.kept.append((whole, flat))
            self.entries.append((f"{self.folder}/{self.storages[key]}", ctypes.string_at(whole.data_ptr(), numel * t.element_size()) if numel else b""))
        self.out.write(b"(")
        self.text("storage")
        self.name("torch", _STORAGES[t.dtype] + "Storage")
        self.text(self.storages[key])
        self.text("cpu")
        self.number(whole.nbytes() // t.element_size())
        self.out.write(b"tQ")

    def tensor(self, t):
        if t.dtype not in _STORAGES or t.layout != torch.strided:
            raise NotImplementedError(f"torch.jit.save: a tensor of {t.dtype}, {t.layout} in a program")
        plain = t.detach().cpu().resolve_conj().resolve_neg()
        self.name("torch._utils", "_rebuild_tensor_v2")
        self.out.write(b"(")
        self.storage(plain)
        self.number(plain.storage_offset())
        self.tuple(plain.size())
        self.tuple(plain.stride())
        self.out.write(b"\x88" if t.requires_grad else b"\x89")
        self.name("collections", "OrderedDict")
        self.out.write(b")RtR")

    def list(self, x):
        kinds = {type(v) for v in x}
        build = {(int,): "build_intlist", (float,): "build_doublelist", (bool,): "build_boollist"}.get(tuple(kinds)) or ("build_tensorlist" if x and all(isinstance(v, torch.Tensor) for v in x) else None)
        if build:
            self.name("torch.jit._pickle", build)
            self.out.write(b"(")
        self.out.write(b"](")
        for v in x:
            self.value(v)
        self.out.write(b"e")
        if build:
            self.out.write(b"tR")

    def object(self, x):
        if x.id in self.memo:
            self.out.write(b"j" + struct.pack("<I", self.memo[x.id]))
            return
        module, _, name = x.type.rpartition(".")
        self.name(module, name)
        self.out.write(b")\x81")
        self.memo[x.id] = len(self.memo)
        self.out.write(b"r" + struct.pack("<I", self.memo[x.id]))
        self.out.write(b"}(")
        for field, what in x.fields():
            if what != "constant":
                self.text(field)
                self.value(x.get(field))
        self.out.write(b"ub")

    def value(self, x):
        if x is None:
            self.out.write(b"N")
        elif isinstance(x, bool):
            self.out.write(b"\x88" if x else b"\x89")
        elif isinstance(x, int):
            self.number(x)
        elif isinstance(x, float):
            self.out.write(b"G" + struct.pack(">d", x))
        elif isinstance(x, str):
            self.text(x)
        elif isinstance(x, torch.Tensor):
            self.tensor(x)
        elif isinstance(x, tuple):
            self.tuple(x)
        elif isinstance(x, list):
            self.list(x)
        elif isinstance(x, dict):
            self.out.write(b"}(")
            for k, v in x.items():
                self.value(k)
                self.value(v)
            self.out.write(b"u")
        elif isinstance(x, _C._ScriptObject):
            self.object(x)
        elif isinstance(x, torch.device):
            self.name("torch", "device")
            self.tuple((str(x),))
            self.out.write(b"R")
        else:
            raise NotImplementedError(f"torch.jit.save: a value of {type(x)} in a program")


def write(f, root, sources, constants, extra_files):
    """sources: [(path, text, file)], as units are made of them."""
    data, other = Pickle("data"), Pickle("constants")
    data.value(root)
    other.value(tuple(constants))
    entries = data.entries + other.entries + [("data.pkl", data.bytes()), ("constants.pkl", other.bytes())]
    entries += [("code/" + path.replace(".", "/") + ".py", text.encode()) for path, text, _ in sources]
    entries += [("version", b"10\n"), ("byteorder", b"little")]
    entries += [("extra/" + name, content if isinstance(content, bytes) else content.encode()) for name, content in (extra_files or {}).items()]
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        for name, content in entries:
            archive.writestr(zipfile.ZipInfo("archive/" + name), content, zipfile.ZIP_DEFLATED if name.endswith(".py") else zipfile.ZIP_STORED)
    if hasattr(f, "write"):
        f.write(out.getvalue())
    else:
        with open(f, "wb") as to:
            to.write(out.getvalue())
