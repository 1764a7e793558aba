"""torch._dynamo.explain: which calls a function makes, and where a compiler would have to stop because Python reads a value.

The function runs once as it is; each call on tensors is seen by a mode and belongs to the piece between two such places.
The pieces are lists of the functions called: no graphs are made of them, nor guards.
"""
import traceback

import rushlight as torch
from rushlight.overrides import TorchFunctionMode

from . import config

READS = frozenset(getattr(torch.Tensor, name) for name in "item tolist numpy __bool__ __int__ __float__ __complex__ __index__ __array__ __repr__ __format__".split())
SCALARS = frozenset(getattr(torch.Tensor, name) for name in "item __int__ __float__".split())  # which config.capture_scalar_outputs allows
NO_CALLS = frozenset(getattr(torch.Tensor, name) for name in """dim ndimension size numel nelement stride storage_offset element_size is_contiguous is_floating_point
    is_complex is_signed is_inference is_conj is_neg get_device data_ptr untyped_storage type __len__ __hash__""".split())  # what tensors are, not what they hold
_open = []  # the explanations that are being made, the innermost last


class GraphCompileReason:
    """Why a piece ended: what was called, and where the program stood."""

    def __init__(self, reason, user_stack, graph_break=True):
        self.reason, self.user_stack, self.graph_break = reason, user_stack, graph_break

    def __repr__(self):
        return f"GraphCompileReason(reason={self.reason!r}, user_stack={self.user_stack}, graph_break={self.graph_break})"


class ExplainOutput:
    """What explain found: numbers of pieces, breaks between them and calls, the calls of each piece, the reasons."""

    def __init__(self, pieces, break_reasons):
        self.ops_per_graph, self.break_reasons = pieces, break_reasons
        self.graph_count, self.graph_break_count, self.op_count = len(pieces), len(pieces) - 1, sum(map(len, pieces))

    def __getattr__(self, name):
        if name in ("graphs", "out_guards", "compile_times"):
            raise AttributeError(f"ExplainOutput.{name}: rushlight runs functions as they are, so nothing was compiled; ops_per_graph lists the calls")
        raise AttributeError(f"'ExplainOutput' object has no attribute '{name}'")

    def __str__(self):
        lines = [f"Graph Count: {self.graph_count}", f"Graph Break Count: {self.graph_break_count}", f"Op Count: {self.op_count}", "Break Reasons:"]
        for number, why in enumerate(self.break_reasons, 1):
            lines += [f"  Break Reason {number}:", f"    Reason: {why.reason}", "    User Stack:", *(f"      {frame}" for frame in why.user_stack)]
        lines.append("Ops per Graph:")
        for number, piece in enumerate(self.ops_per_graph, 1):
            lines += [f"  Ops {number}:", *(f"    {function}" for function in piece)]
        return "\n".join(lines) + "\n"


class _Explaining(TorchFunctionMode):
    def __init__(self):
        super().__init__()
        self.pieces, self.reasons = [[]], []

    def stop(self, reason):
        if self.pieces[-1]:
            inside = torch.__path__[0]
            stack = [frame for frame in traceback.extract_stack() if not frame.filename.startswith(inside)][-1:]
            self.reasons.append(GraphCompileReason(reason, stack))
            self.pieces.append([])

    def __torch_function__(self, func, types, args=(), kwargs=None):
        if func in READS and not (config.capture_scalar_outputs and func in SCALARS):
            self.stop(f"Tensor.{func.__name__} reads a value, which no graph has before it has run")
        elif func not in NO_CALLS and getattr(func, "__name__", None) != "__get__":
            self.pieces[-1].append(func)
        return func(*args, **(kwargs or {}))

    def __enter__(self):
        _open.append(self)
        return super().__enter__()

    def __exit__(self, *what):
        _open.pop()
        return super().__exit__(*what)


def explain(f, *extra_args, **extra_kwargs):
    """A function of f's arguments that calls f and returns an ExplainOutput."""
    def inner(*args, **kwargs):
        with _Explaining() as seen:
            f(*args, **kwargs)
        pieces = seen.pieces if seen.pieces[-1] else seen.pieces[:-1]
        return ExplainOutput(pieces, seen.reasons[:max(len(pieces) - 1, 0)])
    return inner(*extra_args, **extra_kwargs) if extra_args or extra_kwargs else inner


def graph_break(msg=""):
    """Where a piece ends that explain tells of; anywhere else nothing."""
    if _open:
        _open[-1].stop(f"Call to `torch._dynamo.graph_break()`{': ' + msg if msg else ''}")
