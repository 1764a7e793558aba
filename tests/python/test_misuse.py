"""Every public function of C called wrongly: the prototypes of the headers are read, so that new functions are looked at, too.

One argument at a time is a NULL, a number out of every range, a name that is not there, a list that holds nothing; the others are
such as would do. A child makes the calls of one function, so that a crash is its own. NULL is an error that says so, except where
the header promises otherwise (FINE); with other values it is enough that nothing crashes.
"""
import ctypes
import faulthandler
import os
import pathlib
import re
import signal
import sys
import tempfile

import pytest
from places import BUILD, ROOT

LIBRARY = BUILD / "librushlight.so.0"
HEADERS = [ROOT / "include" / "rushlight.h", *sorted((ROOT / "include" / "rushlight").glob("*.h"))]

# name: the arguments (by number) for which NULL means something, or all of them
FINE = {
    "rush_keep": "all", "rush_drop": "all", "rush_park": "all", "rush_log_to": "all", "rush_module_keep": "all", "rush_module_drop": "all",
    "rush_optim_keep": "all", "rush_optim_drop": "all", "rush_dataset_keep": "all", "rush_dataset_drop": "all", "rush_loader_free": "all",
    "rush_tokenizer_free": "all", "rush_summary_close": "all", "rush_dtype_from_name": "all", "rush_device_from_name": "all", "rush_tensor_print": "all", "rush_op_find": "all", "rush_op_next": "all",
    "rush_from_blob": {4, 5, 6}, "rush_tensor_format": {0, 1}, "rush_grad_set": {1}, "rush_backward_full": {2}, "rush_grad_of": {2}, "rush_module_parameter": {2},
    "rush_module_buffer": {2}, "rush_summary_open": {1}, "rush_nn_call": {2}, "rush_graph_dot": {1}, "rush_tokenizer_decode": {2}, "rush_sound_load": {1}, "rush_sound_decode": {2},
    "rush_summary_pr_curve": {4}, "rush_summary_embedding": {3, 4}, "rush_tokenizer_load": {1}, "rush_forward_all": set(), "rush_dataset_new": {1},
    "rush_optim_step_closure": {2}, "rush_summary_hparams": {2, 4}, "rush_lr_multistep": "all", "rush_apply": {2}, "rush_fail": "all", "rush_log": "all",
    "rush_picture_decode": set(), "rush_rng_free": "all", "rush_store_keep": "all", "rush_store_drop": "all", "rush_bytes_free": "all", "rush_event_free": "all", "rush_group_keep": "all", "rush_group_drop": "all", "rush_reducer_drop": "all",
    "rush_work_keep": "all", "rush_work_drop": "all", "rush_store_add": {3}, "rush_thread_generator_set": "all",
    "rush_generator_keep": "all", "rush_generator_drop": "all", "rush_op_c_name": "all", "rush_hook_add": {2},
    "rush_function_begin": {1}, "rush_function_result": {0}, "rush_function_save": {0}, "rush_function_needs": "all", "rush_node_keep": "all", "rush_node_drop": "all",
    "rush_object_new": {1}, "rush_object_keep": "all", "rush_object_drop": "all", "rush_object_park": "all",
    "rush_library_impl": {3, 4}, "rush_parallel_for": {3}, "rush_gguf_save": {2, 3}, "rush_lm_piece": {2}, "rush_lm_draw": {2}, "rush_lm_speculate": {1, 5},
    "rush_lm_chat": {3}, "rush_texts": {2}, "rush_text_at": {2},
}
MODEL = pathlib.Path(__file__).resolve().parents[1] / "data" / "gguf" / "llama3.gguf"
SCRIPT = MODEL.parents[1] / "scripts" / "values.pt"
SKIPPED = re.compile("rush_fail$|rush_log$|rush_scope_|rush_error|rush_op_register|rush_device_register|rush_backend|rush_num_threads_set|rush_flush_denormals|rush_memory|rush_store_list_free$|rush_profile_to$|rush_generator_state$")  # the last but one: its n is what rush_store_list() said; the last: writes 5056 bytes


class Value(ctypes.Structure):
    _fields_ = [("kind", ctypes.c_uint8), ("n", ctypes.c_uint32), ("i", ctypes.c_int64), ("second", ctypes.c_int64)]


class Pair(ctypes.Structure):  # rush_tensors, rush_ints, rush_floats, rush_scalars
    _fields_ = [("data", ctypes.c_void_p), ("n", ctypes.c_size_t)]


class StoreOptions(ctypes.Structure):  # rush_store_tcp_options
    _fields_ = [("world_size", ctypes.c_int), ("server", ctypes.c_bool), ("wait", ctypes.c_bool), ("timeout", ctypes.c_double), ("listen_fd", ctypes.c_int)]


class State(ctypes.Structure):
    _fields_ = [("n", ctypes.c_int), ("name", ctypes.c_void_p), ("tensor", ctypes.c_void_p)]


class Device(ctypes.Structure):
    _fields_ = [("type", ctypes.c_uint8), ("index", ctypes.c_int8)]


class LoadOptions(ctypes.Structure):
    _fields_ = [("mmap", ctypes.c_bool), ("unchecked", ctypes.c_bool)]


class Kind(ctypes.Structure):  # rush_module_kind without a forward
    _fields_ = [("name", ctypes.c_char_p), ("size", ctypes.c_size_t), ("forward", ctypes.c_void_p), ("end", ctypes.c_void_p)]


def prototypes():
    """(result, name, types of the arguments) of each public function."""
    text = "\n".join(path.read_text() for path in HEADERS)
    text = re.sub(r"/\*.*?\*/", " ", text, flags=re.S)
    for result, name, args in re.findall(r"RUSH_API\s+([\w\s]+?[\s\*]+)(\w+)\(((?:[^()]|\([^()]*\))*)\)\s*(?:RUSH_PRINTF\([^)]*\))?;", text):
        parts, depth, at = [], 0, ""
        for c in args + ",":
            depth += (c == "(") - (c == ")")
            if c == "," and not depth:
                parts.append(at.strip())
                at = ""
            else:
                at += c
        yield result.strip(), name, [] if parts in (["void"], [""]) else parts


FUNCTIONS = {name: (result, args) for result, name, args in prototypes()}
NUMBERS = {"int": ctypes.c_int, "int64_t": ctypes.c_int64, "uint64_t": ctypes.c_uint64, "size_t": ctypes.c_size_t, "double": ctypes.c_double, "bool": ctypes.c_bool,
           "rush_dtype": ctypes.c_int, "rush_layout": ctypes.c_int, "rush_device_type": ctypes.c_int, "rush_error_kind": ctypes.c_int, "rush_picture_mode": ctypes.c_int,
           "uint32_t": ctypes.c_uint32, "unsigned": ctypes.c_uint, "int32_t": ctypes.c_int32, "float": ctypes.c_float}
STRUCTS = {"rush_value": Value, "rush_bytes": Pair, "rush_tensors": Pair, "rush_ints": Pair, "rush_floats": Pair, "rush_scalars": Pair, "rush_state": State, "rush_device": Device,
           "rush_load_options": LoadOptions}


def c_type(text):
    if text.startswith("..."):
        return None
    if "*" in text or "(" in text or "[" in text or re.match(r"rush_(log_fn|hook_fn|library_fn|rule|kernel|derivative)\b", text):
        return ctypes.c_void_p
    word = re.sub(r"\bconst\b", "", text).split()[0]
    return NUMBERS.get(word) or STRUCTS[word]


class Making:
    """Arguments that would do, and such that would not."""
    def __init__(self, lib):
        self.lib, self.held = lib, []
        self.file = os.path.join(tempfile.gettempdir(), "rushlight-misuse-%d" % os.getpid())

    def call(self, name, *args):
        f = getattr(self.lib, name)
        result, types = FUNCTIONS[name]
        f.argtypes = [c_type(t) for t in types]
        f.restype = None if result == "void" else c_type(result)
        return f(*args)

    def hold(self, x):
        self.held.append(x)
        return ctypes.cast(x, ctypes.c_void_p).value if not isinstance(x, ctypes.Structure) else ctypes.addressof(x)

    def tensor(self):
        return self.call("rush_from_data", self.hold((ctypes.c_float * 6)(1, 2, 3, 4, 5, 6)), 11, 2, self.hold((ctypes.c_int64 * 2)(2, 3)))

    def tensors(self, entry):
        return Pair(self.hold((ctypes.c_void_p * 1)(entry)), 1)

    def thing(self, word):
        if word == "rush_tensor":
            return self.tensor()
        if word == "rush_module":
            return self.call("rush_nn_linear_with", 3, 2, self.hold(ctypes.create_string_buffer(64)))
        if word == "rush_object":
            return self.call("rush_program_object", self.call("rush_program_load", self.hold(ctypes.create_string_buffer(str(SCRIPT).encode()))))
        if word == "rush_optim":
            x = self.call("rush_requires_grad_set", self.tensor(), True)
            return self.call("rush_sgd_with", self.tensors(x), self.hold(ctypes.create_string_buffer(256)))
        if word == "rush_content":
            return self.call("rush_content_dict")
        if word in ("rush_dataset", "rush_loader"):
            data = self.call("rush_dataset_tensors", 1, self.tensors(self.tensor()).data)
            return data if word == "rush_dataset" else self.call("rush_loader_new_with", data, self.hold(ctypes.create_string_buffer(256)))
        if word == "rush_tokenizer":
            return self.call("rush_tokenizer_characters", self.hold(ctypes.create_string_buffer(b"abc")), 3)
        if word == "rush_store":
            store = self.call("rush_store_hash")
            self.call("rush_store_timeout_set", store, 0.05)
            return store
        if word in ("rush_group", "rush_work", "rush_reducer"):
            return None  # tests/c has groups of several processes
        if word == "rush_store_tcp_options":
            return self.hold(StoreOptions(timeout=0.05))
        if word == "rush_summary":
            return self.call("rush_summary_open", self.hold(ctypes.create_string_buffer(self.file.encode() + b".summary")), None)
        if word == "rush_lm":
            return self.call("rush_lm_load", self.hold(ctypes.create_string_buffer(str(MODEL).encode())), 16)
        if word == "rush_generator":
            return self.call("rush_default_generator")
        if word == "rush_op":
            return self.call("rush_op_find", self.hold(ctypes.create_string_buffer(b"add.Tensor")))
        if word == "rush_value":
            one = Value(1, 0, self.tensor(), 0)
            return self.hold((Value * 8)(one, one, Value(2, 0, 1, 0)))
        if word == "rush_module_kind":
            return self.hold(Kind(b"Own", 8, None, None))
        return self.hold(ctypes.create_string_buffer(512))  # options, room for results

    def ended(self, text):
        """Such a thing after its end: its scope is closed, or it was freed. None where there is no end."""
        kind = c_type(text)
        words = {"rush_dataset": "rush_dataset_drop", "rush_loader": "rush_loader_free", "rush_tokenizer": "rush_tokenizer_free", "rush_summary": "rush_summary_close", "rush_store": "rush_store_drop"}
        word = {Value: "rush_tensor", State: "rush_tensor"}.get(kind) or (re.search(r"rush_\w+", text) or [""])[0]
        if word == "rush_tensors":
            word = "rush_tensor"
        if word == "rush_value" and "const" in text:
            word = "rush_tensor"
        if word not in ("rush_tensor", "rush_module", "rush_object", "rush_optim", "rush_content", "rush_lm", *words) or re.search(r"\*\*(out|sample|batch)$|\(", text):
            return None  # or a place that is written to
        mark = self.lib.rush_scope_open()
        thing = self.thing(word)
        if word in words:
            self.call(words[word], thing)
        self.lib.rush_scope_close(mark)
        if kind is Value:
            return Value(1, 0, thing, 0)
        if kind is State:
            return State(1, self.hold((ctypes.c_char_p * 1)(b"weight")), self.hold((ctypes.c_void_p * 1)(thing)))
        if kind is Pair:
            return self.tensors(thing)
        if "rush_value" in text:
            return self.hold((Value * 8)(Value(1, 0, thing, 0), Value(1, 0, thing, 0), Value(2, 0, 1, 0)))
        return self.hold((ctypes.c_void_p * 8)(*[thing] * 2)) if re.search(r"rush_\w+ \*(const )?\*", text) else thing

    def good(self, text):
        kind = c_type(text)
        if kind is ctypes.c_void_p:
            if "char" in text and text.count("*") > 1:
                return self.hold((ctypes.c_char_p * 8)(*[self.file.encode()] * 2))
            if "char" in text:
                return self.hold(ctypes.create_string_buffer(self.file.encode() + b".png"))
            if "(" in text:
                return None
            if re.search(r"rush_\w+ \*(const )?\*", text):
                return self.hold((ctypes.c_void_p * 8)(*[self.thing(re.search(r"rush_\w+", text).group())] * 2))
            word = re.search(r"rush_\w+", text)
            if not word and "int64" in text:
                return self.hold((ctypes.c_int64 * 8)(*[1] * 8))
            return self.thing(word.group() if word else "")
        if kind is Value:
            return Value(1, 0, self.tensor(), 0)
        if kind is Pair:
            word = text.split()[0]
            return self.tensors(self.tensor()) if word == "rush_tensors" else Pair(self.hold((ctypes.c_int64 * 2)(1, 1)), 2)
        if kind is State:
            return State(1, self.hold((ctypes.c_char_p * 1)(b"weight")), self.hold((ctypes.c_void_p * 1)(self.tensor())))
        if kind is Device:
            return Device(0, 255)
        if kind is LoadOptions:
            return LoadOptions(False, False)
        return {"double": 0.5, "bool": True, "rush_dtype": 11}.get(text.split()[0], 1)

    def bad(self, text):
        kind = c_type(text)
        if kind is ctypes.c_void_p:
            yield None
            if "char" in text and text.count("*") > 1:
                yield self.hold((ctypes.c_char_p * 8)())
            elif "char" in text and "const" in text:
                yield self.hold(ctypes.create_string_buffer(b""))
                yield self.hold(ctypes.create_string_buffer(b"no such thing/%s%n"))
            if re.search(r"rush_\w+ \*(const )?\*", text):
                yield self.hold((ctypes.c_void_p * 8)())
        elif kind is Value:
            for x in (Value(0, 0, 0, 0), Value(1, 0, 0, 0), Value(8, 3, 0, 0), Value(10, 0, 0, 0), Value(99, 0, 0, 0), Value(11, 0, 777, 0), Value(12, 0, 255, 0)):
                yield x
        elif kind is Pair:
            yield Pair(None, 2)
            yield Pair(None, 0)
            if text.startswith("rush_tensors"):
                yield self.tensors(None)
            else:
                yield Pair(self.hold((ctypes.c_int64 * 2)(-1, -2**63)), 2)
        elif kind is State:
            yield State(-1, None, None)
            yield State(2, None, None)
            yield State(1, self.hold((ctypes.c_char_p * 1)(b"nothing")), self.hold((ctypes.c_void_p * 1)(None)))
            yield State(1, self.hold((ctypes.c_char_p * 1)(None)), self.hold((ctypes.c_void_p * 1)(self.tensor())))
        elif kind is ctypes.c_double:
            yield from (float("nan"), -1.0, *(() if "seconds" in text else (float("inf"), 1e308)))  # who says so waits
        elif kind is ctypes.c_bool:
            yield False
        elif text.startswith(("rush_dtype", "rush_picture")):
            yield from (777, -1, 24, 2**31 - 1)
        elif kind in (ctypes.c_int, ctypes.c_int32, ctypes.c_int64):
            yield from (-1, 0, -2**31, *((2**63 - 1, -2**63, 2**60) if kind is ctypes.c_int64 else (2**31 - 1,)))  # no sizes that would be slow
        elif kind is Device:
            yield Device(9, 0)
        elif kind is ctypes.c_size_t and "size" not in text:
            yield 0


def misuse(name, tell):
    """All wrong calls of one function; what is no error though an argument was missing."""
    lib = ctypes.CDLL(str(LIBRARY))
    make = Making(lib)
    lib.rush_error.restype = ctypes.c_char_p
    lib.rush_scope_open.restype = ctypes.c_size_t
    lib.rush_scope_close.argtypes = [ctypes.c_size_t]
    result, types = FUNCTIONS[name]
    silent = []
    for i, text in enumerate(types):
        if c_type(text) is None:
            continue
        for k, x in enumerate(list(make.bad(text))):
            mark = lib.rush_scope_open()
            args = [x if j == i else make.good(t) for j, t in enumerate(types) if c_type(t) is not None]
            lib.rush_error_clear()
            tell(f"{name}: argument {i} ({text}), value {k}")
            make.call(name, *args)
            said = lib.rush_error()
            if said is not None and not said:
                silent.append(f"{name}: argument {i} ({text}), value {k}: an error without words")
            missing = c_type(text) is ctypes.c_void_p and x is None and "(" not in text and not text.endswith("_options *")  # defaults
            if missing and not said and FINE.get(name) != "all" and i not in FINE.get(name, ()):
                silent.append(f"{name}: argument {i} ({text}) is NULL, and nobody says so")
            lib.rush_error_clear()
            lib.rush_scope_close(mark)
        for _ in range(2):  # again: what the first call allocated may lie where the thing was
            mark = lib.rush_scope_open()
            args = [None if j == i else make.good(t) for j, t in enumerate(types) if c_type(t) is not None]
            lib.rush_error_clear()
            args[i] = make.ended(text)
            tell(f"{name}: argument {i} ({text}), after its end")
            if args[i] is not None:
                assert lib.rush_error() is None, lib.rush_error()
                make.call(name, *args)
                if not lib.rush_error():
                    silent.append(f"{name}: argument {i} ({text}) is used after its end, and nobody says so")
            lib.rush_error_clear()
            lib.rush_scope_close(mark)
    return silent


@pytest.mark.skipif(not LIBRARY.exists(), reason="the shared library is not in the build folder")
@pytest.mark.parametrize("name", [n for n in sorted(FUNCTIONS) if not SKIPPED.match(n)])
def test_misuse(name, tmp_path):
    log = tmp_path / "log"
    sys.stdout.flush()
    pid = os.fork()
    if not pid:
        code = 3
        try:
            os.chdir(tmp_path)
            out = open(log, "w")
            os.dup2(out.fileno(), 1)
            os.dup2(out.fileno(), 2)
            faulthandler.disable()
            signal.alarm(60)
            last = [""]

            def tell(text):
                last[0] = text
                os.pwrite(note, text.encode().ljust(300), 0)
            note = os.open(tmp_path / "note", os.O_RDWR | os.O_CREAT)
            silent = misuse(name, tell)
            (tmp_path / "silent").write_text("\n".join(silent))
            code = 0
        finally:
            os._exit(code)
    status = os.waitpid(pid, 0)[1]
    note = (tmp_path / "note").read_text().strip() if (tmp_path / "note").exists() else "before the first call"
    assert status == 0, f"status {status} at {note}\n{log.read_text(errors='replace')[-3000:]}"
    silent = (tmp_path / "silent").read_text()
    assert not silent, silent


def test_the_headers_are_read():
    assert len(FUNCTIONS) > 200 and all(name in FUNCTIONS for name in ("rush_call", "rush_forward", "rush_optim_step", "rush_summary_scalar", "rush_loader_next"))


@pytest.mark.parametrize("call", [
    lambda torch: torch.ops.aten._pad_circular(torch.ones(2, 3, 3, 3, 3), [1] * 8),
    lambda torch: torch.frombuffer(bytearray(40), dtype=torch.float64, count=2**62, offset=4),
    lambda torch: torch.nn.functional.one_hot(torch.tensor([2**63 - 1])),
    lambda torch: torch.istft(torch.ones(3, 3, 5, dtype=torch.complex64), 4, 1, 4, None, True, length=2**63 - 1),
    lambda torch: torch._C._get_operation_overload("aten::onnx::DepthToSpace", "")[0](torch.ones(1, 4, 2, 2), blocksize=2**62),
    lambda torch: torch._C._get_operation_overload("aten::onnx::DepthToSpace", "")[0](torch.tensor(1.), blocksize=1),
    lambda torch: torch._C._get_operation_overload("aten::onnx::DepthToSpace", "")[0](torch.ones(4, 0, 5, 5), blocksize=2**62),
    lambda torch: torch._C._get_operation_overload("aten::onnx::SpaceToDepth", "")[0](torch.ones(1, 3, 0, 0), blocksize=2**62),
    lambda torch: torch._C._get_operation_overload("aten::onnx::Pad", "")[0](torch.tensor(1.), axes=torch.tensor(0), pads=[-2, 3]),
], ids=["pad", "frombuffer", "one_hot", "istft", "blocks", "no blocks", "blocks of nothing", "blocks to nothing", "borders of a number"])
def test_numbers_that_overflow_are_refused(call):
    import rushlight as torch
    with pytest.raises((RuntimeError, ValueError)):
        call(torch)
