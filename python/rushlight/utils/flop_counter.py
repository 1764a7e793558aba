"""FlopCounterMode: floating point operations of products, convolutions and attention, by module.

Calls of torch functions are counted as they are made, so the forward pass; what the engine does on the way back is not seen.
"""
import math
from collections import defaultdict

import rushlight as torch
from rushlight.overrides import TorchFunctionMode

__all__ = ["FlopCounterMode", "register_flop_formula", "flop_registry"]


def mm_flop(a_shape, b_shape, *args, **kwargs):
    """(m, k) times (k, n)."""
    return 2 * a_shape[0] * a_shape[1] * b_shape[1]


def matmul_flop(a_shape, b_shape, *args, **kwargs):
    """Any product of torch.matmul."""
    a, b = list(a_shape), list(b_shape)
    k = a[-1]
    rows = a[-2] if len(a) > 1 else 1
    columns = b[-1] if len(b) > 1 else 1
    batch = torch.functional.broadcast_shapes(a[:-2], b[:-2])
    return 2 * math.prod(batch) * rows * k * columns


def addmm_flop(self_shape, a_shape, b_shape, *args, **kwargs):
    return matmul_flop(a_shape, b_shape)


def linear_flop(x_shape, w_shape, *args, **kwargs):
    return 2 * math.prod(x_shape) * w_shape[0]


def conv_flop(x_shape, w_shape, *args, out_shape=None, transposed=False, **kwargs):
    """Each output element (of a transposed convolution, each input element) meets the whole kernel."""
    return 2 * math.prod(x_shape if transposed else out_shape) * math.prod(w_shape[1:])


def sdpa_flop(q_shape, k_shape, v_shape, *args, **kwargs):
    """Scores and weighted values."""
    return 2 * math.prod(q_shape) * k_shape[-2] + 2 * math.prod(q_shape[:-1]) * v_shape[-2] * v_shape[-1]


flop_registry = {"mm": mm_flop, "matmul": matmul_flop, "bmm": matmul_flop, "__matmul__": matmul_flop, "addmm": addmm_flop, "baddbmm": addmm_flop,
                 "linear": linear_flop, "conv1d": conv_flop, "conv2d": conv_flop, "conv3d": conv_flop, "scaled_dot_product_attention": sdpa_flop}
for _n in ("conv_transpose1d", "conv_transpose2d", "conv_transpose3d"):
    flop_registry[_n] = lambda *shapes, **more: conv_flop(*shapes, transposed=True, **more)


def register_flop_formula(targets, get_raw=False):
    """Decorator: a formula of shapes for functions of these names."""
    def register(formula):
        for target in targets if isinstance(targets, (list, tuple)) else [targets]:
            flop_registry[getattr(target, "__name__", str(target))] = formula
        return formula
    return register


class FlopCounterMode(TorchFunctionMode):
    """Counts while it is entered; `get_total_flops()`, `get_flop_counts()` by module, and a table on leaving."""

    def __init__(self, mods=None, depth=2, display=True, custom_mapping=None):
        super().__init__()
        self.depth, self.display = depth, display
        self.flop_counts = defaultdict(lambda: defaultdict(int))
        self._registry = dict(flop_registry)
        for target, formula in (custom_mapping or {}).items():
            self._registry[getattr(target, "__name__", str(target))] = formula
        self._parents, self._hooks, self._names = ["Global"], [], {}

    def get_total_flops(self):
        return sum(self.flop_counts["Global"].values())

    def get_flop_counts(self):
        return {k: dict(v) for k, v in self.flop_counts.items()}

    def get_table(self, depth=None):
        """Modules, their operations and their share."""
        depth = self.depth if depth is None else depth
        total = self.get_total_flops() or 1
        rows = []
        for module, counts in self.flop_counts.items():
            level = 0 if module == "Global" else module.count(".") + 1
            if level > depth:
                continue
            n = sum(counts.values())
            rows.append((" " * level + module, f"{n:,}", f"{100 * n / total:.2f}%"))
            rows += [(" " * level + " - " + op, f"{k:,}", f"{100 * k / total:.2f}%") for op, k in counts.items()]
        widths = [max([len(r[i]) for r in rows] + [len(h)]) for i, h in enumerate(("Module", "FLOP", "% Total"))]
        lines = ["  ".join(h.ljust(w) for h, w in zip(("Module", "FLOP", "% Total"), widths)), "  ".join("-" * w for w in widths)]
        return "\n".join(lines + [f"{a.ljust(widths[0])}  {b.rjust(widths[1])}  {c.rjust(widths[2])}" for a, b, c in rows])

    def _enter_module(self, module, args):
        parent = self._parents[-1]
        base = type(module).__name__ if parent == "Global" else None
        name = base or next((f"{parent}.{k}" for k, m in self._names.get(parent, ()) if m is module), f"{parent}.{type(module).__name__}")
        self._names[name] = list(module.named_children())
        self._parents.append(name)

    def _leave_module(self, module, args, output):
        if len(self._parents) > 1:
            self._parents.pop()

    def __enter__(self):
        self.flop_counts.clear()
        self._parents = ["Global"]
        from rushlight.nn.modules.module import register_module_forward_hook, register_module_forward_pre_hook
        self._hooks = [register_module_forward_pre_hook(self._enter_module), register_module_forward_hook(self._leave_module)]
        return super().__enter__()

    def __exit__(self, *what):
        result = super().__exit__(*what)
        for hook in self._hooks:
            hook.remove()
        if self.display:
            print(self.get_table())
        return result

    def __torch_function__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        out = func(*args, **kwargs)
        name = getattr(func, "__name__", "")
        formula = self._registry.get(name)
        if formula is not None and isinstance(out, torch.Tensor):
            shapes = [tuple(x.shape) for x in list(args) + [v for k, v in kwargs.items() if k in ("weight", "mat2", "other", "key", "value")]
                      if isinstance(x, torch.Tensor)]
            n = formula(*shapes, out_shape=tuple(out.shape)) if "conv" in name else formula(*shapes)
            for place in set(self._parents):
                self.flop_counts[place][name] += n
        return out
