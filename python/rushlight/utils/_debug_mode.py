"""DebugMode: the calls of a program as lines, those that others make indented below them.

    with DebugMode() as mode:
        net(x).sum().backward()
    print(mode.debug_string())
"""
import contextlib
import os
import sys
import traceback

import rushlight as torch
from rushlight.autograd import profiler
from rushlight.distributed._dtensor import is_dtensor
from rushlight.overrides import TorchFunctionMode, resolve_name
from rushlight.utils._dtype_abbrs import dtype_abbrs
from rushlight.utils._python_dispatch import TorchDispatchMode
from rushlight.utils._pytree import keystr, tree_flatten_with_path, tree_leaves, tree_map
from rushlight.utils.module_tracker import ModuleTracker
from rushlight.utils.weak import WeakIdKeyDictionary

__all__ = ["DebugMode", "get_active_debug_mode", "norm_hash_fn", "hash_tensor_fn", "TensorIdTracker"]

_active = []
_hooks = {"record": [], "log": [], "pre_log": []}  # of dispatch_hooks(), for all modes
_OWN = os.path.dirname(torch.__file__) + os.sep


def get_active_debug_mode():
    """The innermost mode that is on, or None."""
    return _active[-1] if _active else None


def norm_hash_fn(t, use_scalar=False):
    """The sum of absolute values, in float64."""
    found = (t.detach().abs() if t.is_complex() else t.detach().to(torch.float64).abs()).to(torch.float64).sum()
    return found.item() if use_scalar else found


def hash_tensor_fn(t, use_scalar=False):
    """The exclusive or of all elements' bits."""
    found = torch.hash_tensor(t.detach())
    return found.item() if use_scalar else found


_HASHES = {"norm": norm_hash_fn, "hash_tensor": hash_tensor_fn}


class TensorIdTracker:
    """Numbers of tensors, in the order in which they are met."""

    def __init__(self):
        self._numbers, self._next = WeakIdKeyDictionary(), 0

    def _id(self, t):
        if t not in self._numbers:
            self._numbers[t] = self._next
            self._next += 1
        return self._numbers[t]


def _placed(placements):
    def letter(p):
        if p.is_shard():
            return f"S({p.dim})"
        return "R" if p.is_replicate() else f"P({p.reduce_op})"
    return "".join(map(letter, placements))


class _Call:
    """A line: a call at a depth, and what a hook said of it."""

    def __init__(self, call_depth):
        self.call_depth, self.record, self.log, self.stack, self.output_str = call_depth, None, None, None, ""

    def render(self):
        """The line without its indentation."""
        return self._text() + self.output_str + (f"  # {self.log}" if self.log else "")

    __repr__ = render


class _OpCall(_Call):
    def __init__(self, mode, op, args, kwargs, call_depth):
        super().__init__(call_depth)
        self.op = op
        self.args_str = ", ".join(mode._show(a) for a in args)
        self.kwargs_str = ", ".join(f"{k}={mode._show(v)}" for k, v in (kwargs or {}).items())
        self.args, self.kwargs = (args, kwargs) if mode.store_original_args else (None, None)

    @property
    def name(self):
        if not isinstance(self.op, torch._ops.OpOverload):
            return resolve_name(self.op) or repr(self.op)
        return str(self.op).replace(".", "::", 1).removesuffix(".default")

    def _text(self):
        return f"{self.name}({', '.join(part for part in (self.args_str, self.kwargs_str) if part)})"


class _NNModuleCall(_Call):
    def __init__(self, module_name, call_depth):
        super().__init__(call_depth)
        self.module_name = module_name

    def _text(self):
        return f"[nn.Mod] {self.module_name}"


class _RangeCall(_Call):
    def __init__(self, tag, call_depth):
        super().__init__(call_depth)
        self.tag = tag

    def _text(self):
        return f"[record function] {self.tag}"


class _RedistributeCall(_Call):
    def __init__(self, mode, local, old, new, call_depth):
        super().__init__(call_depth)
        self.arg, self.trace = mode._show(local), f"{_placed(old)}->{_placed(new)}"

    def _text(self):
        return f"redistribute_input({self.arg}, trace: {self.trace})"


class _Functions(TorchFunctionMode):
    def __init__(self, debug):
        super().__init__()
        self.debug = debug

    def __torch_function__(self, func, types, args=(), kwargs=None):
        call = self.debug._begin(func, args, kwargs, self.debug.call_depth)
        with self.debug._deeper():
            out = func(*args, **(kwargs or {}))
        return self.debug._end(call, out)


class _Modules(ModuleTracker):
    def __init__(self, debug):
        super().__init__()
        self.debug = debug

    def _fw_pre_hook(self, module, args):
        self.debug._add(_NNModuleCall(self._get_mod_name(module), self.debug.call_depth + 1))
        self.debug.call_depth += 1

    def _fw_post_hook(self, module, args, output):
        self.debug.call_depth -= 1


class DebugMode(TorchDispatchMode):
    """Inside, operations are noted: those that reach the dispatcher, functions of this package (record_torchfunction), modules (record_nn_module), ranges of record_function().
    What torch.compile runs is noted operation by operation, as it is elsewhere."""

    def __init__(self, *, record_torchfunction=False, record_faketensor=False, record_realtensor=True, record_tensor_attributes=None, record_nn_module=False,
                 store_original_args=False, record_stack_trace=False, record_output=True, record_ids=False, record_profiler_context=True, record_localtensor=True,
                 run_compile_with_interpreter=False):
        super().__init__()
        self.record_torchfunction, self.record_faketensor, self.record_realtensor = record_torchfunction, record_faketensor, record_realtensor
        self.record_tensor_attributes, self.record_nn_module, self.store_original_args = record_tensor_attributes or [], record_nn_module, store_original_args
        self.record_stack_trace, self.record_output, self.record_ids, self.record_localtensor = record_stack_trace, record_output, record_ids, record_localtensor
        self.record_profiler_context = record_profiler_context
        self._functions, self._modules = _Functions(self), None
        self.reset()

    def reset(self):
        """Forget what was noted."""
        self.operators, self.call_depth, self._ids = [], 0, TensorIdTracker()

    @property
    def logs(self):
        return self.operators

    def __enter__(self):
        from rushlight.distributed.tensor import _redistribute
        self.reset()
        if self.record_torchfunction:
            self._functions.__enter__()
        super().__enter__()
        if self.record_nn_module:
            self._modules = _Modules(self)
            self._modules.__enter__()
        if self.record_profiler_context:
            profiler.watchers.append(self._range)
        _redistribute.watchers.append(self._moved)
        _active.append(self)
        return self

    def __exit__(self, *error):
        from rushlight.distributed.tensor import _redistribute
        _active.remove(self)
        _redistribute.watchers.remove(self._moved)
        if self.record_profiler_context:
            profiler.watchers.remove(self._range)
        if self.record_nn_module:
            self._modules.__exit__(*error)
        super().__exit__(*error)
        if self.record_torchfunction:
            self._functions.__exit__(*error)

    # ---- what happens inside

    @contextlib.contextmanager
    def _deeper(self):
        self.call_depth += 1
        try:
            yield
        finally:
            self.call_depth -= 1

    def _add(self, call):
        if self.record_stack_trace:
            call.stack = next((f"File: {f.filename}:{f.lineno} in {f.name}, code: {f.line}" for f in reversed(traceback.extract_stack(sys._getframe(1)))
                               if not f.filename.startswith((_OWN, "<frozen "))), None)
        self.operators.append(call)
        return call

    def _begin(self, func, args, kwargs, depth):
        return self._add(_OpCall(self, func, args, kwargs, depth))

    def _end(self, call, out):
        if self.record_output and out is not None:
            call.output_str = f"  ->  {self._show(out)}"
        return out

    def _wanted(self, args, kwargs, out):
        """Is an operation to be noted whose tensors are of this kind?"""
        fake = any(isinstance(t, torch._subclasses.FakeTensor) for t in tree_leaves((args, kwargs, out)))
        return self.record_faketensor if fake else self.record_realtensor

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        if any(is_dtensor(t) for t in tree_leaves((args, kwargs))):
            if self.record_realtensor:
                self._begin(func, args, kwargs, self.call_depth)
            return NotImplemented
        call, place = _OpCall(self, func, args, kwargs, self.call_depth + 1), len(self.operators)
        said = {}
        for hook in _hooks["pre_log"]:
            said.update(hook(func, types, args, kwargs, call) or {})
        out = func(*args, **kwargs)
        if not self._wanted(args, kwargs, out) or not self.record_localtensor and self._below_dtensor():
            return out
        self._add(call)
        self.operators.insert(place, self.operators.pop())
        for hook in _hooks["log"]:
            said.update(hook(func, types, args, kwargs, out) or {})
        call.log = said or None
        for hook in _hooks["record"]:
            call.record = {**(call.record or {}), **(hook(func, types, args, kwargs, out) or {})}
        return self._end(call, out)

    def _below_dtensor(self):
        last = next((c for c in reversed(self.operators) if isinstance(c, _OpCall)), None)
        return last is not None and last.call_depth == self.call_depth and "dt: " in last.args_str

    def _range(self, name, begins):
        if begins:
            self._add(_RangeCall(name, self.call_depth))
        self.call_depth += 1 if begins else -1

    def _moved(self, local, old, new):
        if self.record_realtensor:
            self._add(_RedistributeCall(self, local, old, new, self.call_depth + 1))

    # ---- values as text

    def _tensor(self, t):
        kind = "dt" if is_dtensor(t) else "ft" if isinstance(t, torch._subclasses.FakeTensor) else "t"
        number = f"${self._ids._id(t)}" if self.record_ids else ""
        text = f"{kind}{number}: {dtype_abbrs[t.dtype]}{list(t.shape)}"
        if self.record_tensor_attributes:
            text += "{%s}" % ", ".join(f"{name}={getattr(t, name)}" for name in self.record_tensor_attributes if hasattr(t, name))
        return text + (f"| {_placed(t.placements)}" if is_dtensor(t) else "")

    def _show(self, value):
        if isinstance(value, torch.Tensor):
            return self._tensor(value)
        if isinstance(value, tuple):
            value = tuple(value)  # torch.return_types
        return str(tree_map(lambda v: self._tensor(v) if isinstance(v, torch.Tensor) else v, value))

    def debug_string(self, show_stack_trace=None):
        """All lines. show_stack_trace: above those of one line of the program a comment that says which; needs record_stack_trace."""
        traces = self.record_stack_trace if show_stack_trace is None else show_stack_trace
        out, last = [], None
        for call in self.operators:
            pad = "  " * (call.call_depth + 1)
            if traces and call.stack is not None and call.stack != last:
                out += [""] * bool(out) + [f"{pad}# {call.stack}"]
                last = call.stack
            out.append(pad + call.render())
        return "\n".join(out)

    # ---- hooks and hashes

    @staticmethod
    @contextlib.contextmanager
    def dispatch_hooks(record_hook=None, log_hook=None, pre_log_hook=None):
        """Inside, hooks of (func, types, args, kwargs, result) return dicts, that of pre_log_hook of (func, types, args, kwargs, call) before the operation:
        record_hook's are kept in call.record, the others in call.log and in the lines."""
        given = [(kind, hook) for kind, hook in (("record", record_hook), ("log", log_hook), ("pre_log", pre_log_hook)) if hook is not None]
        for kind, hook in given:
            _hooks[kind].append(hook)
        try:
            yield
        finally:
            for kind, hook in given:
                _hooks[kind].remove(hook)

    @staticmethod
    def record_outputs():
        """Keeps copies of the results, as call.record["output"]."""
        return DebugMode.dispatch_hooks(record_hook=lambda func, types, args, kwargs, out: {
            "output": tree_map(lambda v: v.detach().clone() if isinstance(v, torch.Tensor) else v, out)})

    @staticmethod
    def log_tensor_hashes(hash_fn="norm", hash_inputs=False):
        """A number for each tensor of results, and of arguments before the operation: "norm", "hash_tensor", a list of these, or a function of a tensor."""
        def hashed(value):
            if not isinstance(value, torch.Tensor):
                return None
            if callable(hash_fn):
                return hash_fn(value)
            if isinstance(hash_fn, str):
                return _HASHES[hash_fn](value, use_scalar=True)
            return tuple(_HASHES[name](value, use_scalar=True) for name in hash_fn)

        def results(func, types, args, kwargs, out):
            found = tree_map(hashed, out)
            return {"hash": found} if any(h is not None for h in tree_leaves(found)) else None

        def inputs(func, types, args, kwargs, call):
            found = tree_map(hashed, (args, kwargs))
            return {"input_hash": found} if any(h is not None for h in tree_leaves(found)) else None
        return DebugMode.dispatch_hooks(log_hook=results, pre_log_hook=inputs if hash_inputs else None)

    @staticmethod
    def check_hash_mismatches(logs1, logs2, compare_inputs=False):
        """Where the hashes of two runs of the same operations differ: a list of dicts."""
        if len(logs1) != len(logs2):
            raise ValueError(f"Log lengths don't match: {len(logs1)} vs {len(logs2)}")
        found = []
        for i, (a, b) in enumerate(zip(logs1, logs2)):
            if type(a) is not type(b):
                raise ValueError(f"Log types don't match at index {i}: {type(a).__name__} vs {type(b).__name__}")
            if a.call_depth != b.call_depth or a._text() != b._text():
                raise ValueError(f"Calls don't match at index {i}: {a} vs {b}")
            for key in ("hash", "input_hash") if compare_inputs else ("hash",):
                one, two = (call.log or {} for call in (a, b))
                if (key in one) != (key in two):
                    raise ValueError(f"{key} is there in one log only at index {i}: {a} vs {b}")
                if key in one:
                    found += _differences(a, key, one[key], two[key])
        return found


def _differences(call, key, one, two):
    for (path, h1), (_, h2) in zip(*(tree_flatten_with_path(h)[0] for h in (one, two))):
        if h1 != h2:
            yield {"call_type": "torch op", "call": call.name, "arg_name": None, "pytree_path": keystr(path), "hash1": h1, "hash2": h2,
                   "rel_diff": abs(h1 - h2) / max(abs(h1), abs(h2), 1e-10), "is_input_hash": key == "input_hash"}
