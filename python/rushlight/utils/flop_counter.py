"""FlopCounterMode: floating point operations of matrix products, convolutions and attention, by module.

A dispatch mode sees the operations of forward and backward; those with a formula in flop_registry are counted for the
modules that are running.
"""
import math
import warnings
from collections import defaultdict

import rushlight as torch
from rushlight.utils._python_dispatch import TorchDispatchMode
from rushlight.utils._pytree import tree_map

__all__ = ["FlopCounterMode", "register_flop_formula"]

aten = torch.ops.aten
flop_registry = {}


def get_shape(i):
    return i.shape if isinstance(i, torch.Tensor) else i


def _of_shapes(formula):
    """The formula called with the shapes of tensors."""
    def call(*args, out_val=None, **kwargs):
        args, kwargs, out_shape = tree_map(get_shape, (args, kwargs, out_val))
        return formula(*args, out_shape=out_shape, **kwargs)
    call._get_raw = False
    return call


def register_flop_formula(targets, get_raw=False):
    """Decorator: a formula for operators; it gets shapes and out_shape, with get_raw values and out_val."""
    def register(formula):
        for target in targets if isinstance(targets, (list, tuple)) else [targets]:
            if not isinstance(target, (torch._ops.OpOverloadPacket, torch._ops.HigherOrderOperator)):
                raise ValueError("register_flop_formula(targets): expected each target to be OpOverloadPacket (i.e. torch.ops.mylib.foo), JitFunction, or "
                                 "HigherOrderOperator, got %s which is of type %s" % (target, type(target)))
            if target in flop_registry:
                raise RuntimeError("duplicate registrations for %s" % target)
            flop_registry[target] = formula if get_raw else _of_shapes(formula)
        return formula
    return register


@register_flop_formula(aten.mm)
def mm_flop(a_shape, b_shape, *args, out_shape=None, **kwargs):
    rows, inner = a_shape
    return rows * b_shape[1] * 2 * inner


@register_flop_formula(aten.addmm)
def addmm_flop(self_shape, a_shape, b_shape, out_shape=None, **kwargs):
    return mm_flop(a_shape, b_shape)


@register_flop_formula(aten.bmm)
def bmm_flop(a_shape, b_shape, out_shape=None, **kwargs):
    batch, rows, inner = a_shape
    return batch * rows * b_shape[-1] * 2 * inner


@register_flop_formula(aten.baddbmm)
def baddbmm_flop(self_shape, a_shape, b_shape, out_shape=None, **kwargs):
    return bmm_flop(a_shape, b_shape)


def conv_flop_count(x_shape, w_shape, out_shape, transposed=False):
    """Each element of the output (of the input, if transposed) meets each of the filter."""
    places = math.prod((x_shape if transposed else out_shape)[2:])
    return places * math.prod(w_shape) * x_shape[0] * 2


@register_flop_formula([aten.convolution, aten._convolution])
def conv_flop(x_shape, w_shape, bias, stride, padding, dilation, transposed, *args, out_shape=None, **kwargs):
    return conv_flop_count(x_shape, w_shape, out_shape, transposed=transposed)


def _swapped(shape):
    return (shape[1], shape[0], *shape[2:])


@register_flop_formula(aten.convolution_backward)
def conv_backward_flop(grad_out_shape, x_shape, w_shape, bias, stride, padding, dilation, transposed, output_padding, groups,
                       output_mask, out_shape):
    """The gradient of the input is the other kind of convolution with the same filter; that of the filter is a convolution
    of input and output gradient, in which batch and channels have changed places."""
    flops = 0
    if output_mask[0]:
        flops += conv_flop_count(grad_out_shape, w_shape, out_shape[0], not transposed)
    if output_mask[1]:
        image, filters = (grad_out_shape, x_shape) if transposed else (x_shape, grad_out_shape)
        flops += conv_flop_count(_swapped(image), _swapped(filters), _swapped(out_shape[1]))
    return flops


def sdpa_flop_count(query_shape, key_shape, value_shape):
    """The scores, and the values that they weigh."""
    batch, heads, queries, width = query_shape
    keys, out_width = key_shape[-2], value_shape[-1]
    return batch * heads * queries * keys * 2 * (width + out_width)


def sdpa_backward_flop_count(grad_out_shape, query_shape, key_shape, value_shape):
    """The scores again, and two gradients for each of the two products."""
    batch, heads, queries, width = query_shape
    keys, out_width = key_shape[-2], value_shape[-1]
    return batch * heads * queries * keys * 2 * (3 * width + 2 * out_width)


def get_suffix_str(number):
    index = max(0, min(4, (len(str(number)) - 2) // 3))
    return ["", "K", "M", "B", "T"][index]


def convert_num_with_suffix(number, suffix):
    return "%.3f%s" % (number / 1000 ** ["", "K", "M", "B", "T"].index(suffix), suffix)


def convert_to_percent_str(num, denom):
    return "0%" if denom == 0 else "%.2f%%" % (100 * num / denom)


class _Counting(TorchDispatchMode):
    def __init__(self, counter):
        super().__init__()
        self.counter = counter

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        out = func(*args, **kwargs)
        self.counter._count_flops(func.overloadpacket, out, args, kwargs)
        return out


class FlopCounterMode:
    """Context manager: get_total_flops() and get_flop_counts() say what was done inside."""

    def __init__(self, mods=None, depth=2, display=True, custom_mapping=None):
        if mods is not None:
            warnings.warn("mods argument is not needed anymore, you can stop passing it", stacklevel=2)
        self.flop_counts = defaultdict(lambda: defaultdict(int))
        self.depth, self.display = depth, display
        own = {target: formula if getattr(formula, "_get_raw", False) else _of_shapes(formula)
               for target, formula in (custom_mapping or {}).items()}
        self.flop_registry = {**flop_registry, **own}
        self.mod_tracker = torch.utils.module_tracker.ModuleTracker()
        self.mode = None

    def _count_flops(self, packet, out, args, kwargs):
        formula = self.flop_registry.get(packet)
        if formula is None:
            return
        flops = formula(*args, **kwargs, out_val=out)
        for name in set(self.mod_tracker.parents):
            self.flop_counts[name][packet] += flops

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
        self.mode = _Counting(self)
        self.mode.__enter__()
        return self

    def __exit__(self, *error):
        self.mode.__exit__(*error)
        self.mode = None
        self.mod_tracker.__exit__(*error)
        if self.display:
            print(self.get_table(self.depth))
