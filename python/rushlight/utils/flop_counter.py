"""FlopCounterMode: floating point operations of matrix products, convolutions and attention, by module.

Forward calls are seen by a torch function mode. What backward will cost is known from the forward call (each input
that needs a gradient costs as much again), and is added when the gradient of its result arrives.
"""
import math
from collections import defaultdict

import rushlight as torch

__all__ = ["FlopCounterMode", "register_flop_formula"]

flop_registry = {}


def get_shape(i):
    return i.shape if isinstance(i, torch.Tensor) else i


def mm_flop(a_shape, b_shape, *args, out_shape=None, **kwargs):
    m, k = a_shape
    return m * b_shape[1] * 2 * k


def addmm_flop(self_shape, a_shape, b_shape, out_shape=None, **kwargs):
    return mm_flop(a_shape, b_shape)


def bmm_flop(a_shape, b_shape, out_shape=None, **kwargs):
    b, m, k = a_shape
    return b * m * b_shape[-1] * 2 * k


def baddbmm_flop(self_shape, a_shape, b_shape, out_shape=None, **kwargs):
    return bmm_flop(a_shape, b_shape)


def conv_flop_count(x_shape, w_shape, out_shape, transposed=False):
    batch = x_shape[0]
    spatial = (x_shape if transposed else out_shape)[2:]
    c_out, c_in, *filter_size = w_shape
    return math.prod(spatial) * math.prod(filter_size) * batch * c_out * c_in * 2


def sdpa_flop_count(query_shape, key_shape, value_shape):
    b, h, s_q, d_q = query_shape
    s_k, d_v = key_shape[-2], value_shape[-1]
    return b * h * s_q * s_k * d_q * 2 + b * h * s_q * s_k * d_v * 2


def register_flop_formula(targets, get_raw=False):
    """Decorator: a formula for operators; it gets shapes (or values with get_raw) and out_shape."""
    def register(formula):
        for target in targets if isinstance(targets, (list, tuple)) else [targets]:
            flop_registry[target] = (formula, get_raw)
        return formula
    return register


def _matmul(a, b):
    """(operator, flops) of a @ b."""
    if a.dim() == 1 and b.dim() == 1:
        return "dot", 2 * a.shape[0]
    if b.dim() == 1:
        return "mv", 2 * a.numel()
    if a.dim() == 1:
        return "mm", 2 * b.numel()
    rows = a.numel() // a.shape[-1] if a.shape[-1] else 0
    if b.dim() == 2:
        return "mm", 2 * rows * a.shape[-1] * b.shape[-1]
    batch = math.prod(torch.broadcast_shapes(a.shape[:-2], b.shape[:-2]))
    return "bmm", 2 * batch * a.shape[-2] * a.shape[-1] * b.shape[-1]


def _cost(name, args, kwargs, out):
    """(operator's name, flops, tensors whose gradients cost as much again), or None."""
    values = list(args)

    def arg(i, key):
        return values[i] if i < len(values) else kwargs.get(key)
    if name in ("matmul", "__matmul__", "mm", "bmm", "mv"):
        a, b = arg(0, "input"), arg(1, "mat2" if name in ("mm", "bmm") else "other")
        op, flops = _matmul(a, b)
        return op, flops, (a, b)
    if name == "__rmatmul__":
        op, flops = _matmul(values[1], values[0])
        return op, flops, (values[1], values[0])
    if name in ("addmm", "addmv"):
        return "addmm", _matmul(arg(1, "mat1"), arg(2, "mat2"))[1], (arg(1, "mat1"), arg(2, "mat2"))
    if name in ("baddbmm", "addbmm"):
        return "baddbmm", _matmul(arg(1, "batch1"), arg(2, "batch2"))[1], (arg(1, "batch1"), arg(2, "batch2"))
    if name == "linear":
        x, w = arg(0, "input"), arg(1, "weight")
        bias = arg(2, "bias")
        return "addmm" if bias is not None else "mm", 2 * x.numel() * w.shape[0], (x, w)
    if name in ("conv1d", "conv2d", "conv3d", "conv_transpose1d", "conv_transpose2d", "conv_transpose3d"):
        x, w = arg(0, "input"), arg(1, "weight")
        spatial = w.dim() - 2
        x_shape = x.shape if x.dim() == w.dim() else (1,) + tuple(x.shape)
        out_shape = out.shape if out.dim() == spatial + 2 else (1,) + tuple(out.shape)
        return "convolution", conv_flop_count(x_shape, w.shape, out_shape, "transpose" in name), (x, w)
    if name == "scaled_dot_product_attention":
        q, k, v = arg(0, "query"), arg(1, "key"), arg(2, "value")
        shapes = [tuple(t.shape) for t in (q, k, v)]
        shapes = [s if len(s) == 4 else (1,) * (4 - len(s)) + s for s in shapes]
        return "_scaled_dot_product_flash_attention_for_cpu", sdpa_flop_count(*shapes), (q, k, v)
    if name == "einsum":
        equation, operands = args[0], args[1:]
        if len(operands) == 1 and isinstance(operands[0], (list, tuple)):
            operands = operands[0]
        if len(operands) != 2 or not isinstance(equation, str) or "." in equation:
            return None
        sizes = {}
        for letters, operand in zip(equation.replace(" ", "").split("->")[0].split(","), operands):
            sizes.update(zip(letters, operand.shape))
        return "bmm", 2 * math.prod(sizes.values()), tuple(operands)
    return None


class _Watch(torch.overrides.TorchFunctionMode):
    def __init__(self, counter):
        super().__init__()
        self.counter = counter

    def __torch_function__(self, func, types, args=(), kwargs=None):
        out = func(*args, **(kwargs or {}))
        self.counter._count(func, args, kwargs or {}, out)
        return out


def get_suffix_str(number):
    index = max(0, min(4, (len(str(number)) - 2) // 3))
    return ["", "K", "M", "B", "T"][index]


def convert_num_with_suffix(number, suffix):
    return "%.3f%s" % (number / 1000 ** ["", "K", "M", "B", "T"].index(suffix), suffix)


def convert_to_percent_str(num, denom):
    return "0%" if denom == 0 else "%.2f%%" % (100 * num / denom)


class FlopCounterMode:
    """Context manager: get_total_flops() and get_flop_counts() say what was done inside."""

    def __init__(self, mods=None, depth=2, display=True, custom_mapping=None):
        self.flop_counts = defaultdict(lambda: defaultdict(int))
        self.depth, self.display = depth, display
        self.custom_mapping = custom_mapping or {}
        self.mod_tracker = torch.utils.module_tracker.ModuleTracker()
        self.mode = None

    def _add(self, op, flops, parents):
        for name in parents:
            self.flop_counts[name][op] += flops

    def _count(self, func, args, kwargs, out):
        custom = self.custom_mapping.get(func)
        if custom is not None:
            shapes = torch.utils._pytree.tree_map(get_shape, (args, kwargs, out))
            self._add(func, custom(*shapes[0], **shapes[1], out_shape=shapes[2]), self.mod_tracker.parents)
            return
        name = getattr(func, "__name__", "")
        cost = _cost(name, args, kwargs, out)
        if cost is None:
            return
        op, flops, tensors = cost
        packet = getattr(torch.ops.aten, op)
        parents = frozenset(self.mod_tracker.parents)
        self._add(packet, flops, parents)
        if isinstance(out, torch.Tensor) and out.requires_grad:
            need = sum(1 for t in tensors if isinstance(t, torch.Tensor) and t.requires_grad)
            if op == "convolution":
                packet = getattr(torch.ops.aten, "convolution_backward", packet)
            elif op == "addmm":
                packet = torch.ops.aten.mm
            if op.startswith("_scaled"):
                # The scores are computed again, and each of the two products has two gradients.
                extra = flops * 5 // 2
            else:
                extra = flops * need
            if extra:
                out.register_hook(lambda grad: self._add(packet, extra, parents))

    def get_total_flops(self):
        return sum(self.flop_counts["Global"].values())

    def get_flop_counts(self):
        """{module: {operator: flops}}"""
        return {name: dict(counts) for name, counts in self.flop_counts.items()}

    def get_table(self, depth=None):
        """The counts as text, modules down to a depth."""
        depth = self.depth if depth is None else depth
        depth = 999999 if depth is None else depth
        total = self.get_total_flops()
        suffix = get_suffix_str(total)
        rows = [("Module", "FLOP", "% Total")]
        seen = False
        for name in sorted(self.flop_counts):
            if name == "Global" or name.count(".") + 1 > depth:
                continue
            seen = True
            level = name.count(".") + 1
            rows.append((" " * level + name, convert_num_with_suffix(sum(self.flop_counts[name].values()), suffix),
                         convert_to_percent_str(sum(self.flop_counts[name].values()), total)))
            for op, count in self.flop_counts[name].items():
                rows.append((" " * (level + 1) + "- " + str(op), convert_num_with_suffix(count, suffix),
                             convert_to_percent_str(count, total)))
        if "Global" in self.flop_counts:
            head = [("Global", convert_num_with_suffix(total, suffix), convert_to_percent_str(total, total))]
            head += [(" - " + str(op), convert_num_with_suffix(count, suffix), convert_to_percent_str(count, total))
                     for op, count in self.flop_counts["Global"].items()]
            rows[1:1] = head
        elif not seen:
            rows.append(("Global", "0", "0%"))
        widths = [max(len(row[i]) for row in rows) for i in range(3)]
        lines = ["%-*s  %*s  %*s" % (widths[0], a, widths[1], b, widths[2], c) for a, b, c in rows]
        lines.insert(1, "  ".join("-" * width for width in widths))
        return "\n".join(lines)

    def __enter__(self):
        self.flop_counts.clear()
        self.mod_tracker.__enter__()
        self.mode = _Watch(self)
        self.mode.__enter__()
        return self

    def __exit__(self, *error):
        self.mode.__exit__(*error)
        self.mode = None
        self.mod_tracker.__exit__(*error)
        if self.display:
            print(self.get_table(self.depth))
