"""rushlight.summary(model, inputs): what a network is made of, with shapes, parameters, multiply-adds and memory."""
import math

import rushlight as torch

__all__ = ["summary", "ModelSummary"]


class Row:
    """One call of a module."""

    __slots__ = ("name", "kind", "depth", "shape", "own", "total", "trainable", "macs", "bytes", "leaf", "seen")

    def __init__(self, name, kind, depth):
        self.name, self.kind, self.depth = name, kind, depth
        self.shape, self.own, self.total, self.trainable, self.macs, self.bytes = "", 0, 0, 0, 0, 0
        self.leaf = self.seen = False


def _shapes(x):
    """The shapes of a result as text."""
    if isinstance(x, torch.Tensor):
        return str(list(x.shape))
    if isinstance(x, dict):
        return ", ".join(f"{k}: {_shapes(v)}" for k, v in x.items())
    if isinstance(x, (list, tuple)):
        return ", ".join(t for t in map(_shapes, x) if t)
    return ""


def _tensors(x):
    if isinstance(x, torch.Tensor):
        yield x
    elif isinstance(x, dict):
        for v in x.values():
            yield from _tensors(v)
    elif isinstance(x, (list, tuple)):
        for v in x:
            yield from _tensors(v)


def _macs(module, inputs, output):
    """Multiply-adds of a module's own weights: how often each meets the input. As torchinfo counts, but linear layers
    count every position, not only every sample."""
    out = next(_tensors(output), None)
    if out is None:
        return 0
    total = 0
    attention = isinstance(module, torch.nn.MultiheadAttention)     # it uses the weights of a part that is not called
    for p in module.parameters(recurse=attention):
        if isinstance(module, torch.nn.modules.conv._ConvNd):
            # every place of the result meets each weight once
            total += p.numel() * out.size(0) * math.prod(out.shape[2:])
        elif isinstance(module, (torch.nn.RNNBase,)):
            first = next(_tensors(inputs))
            steps = first.size(0) * first.size(1) if first.dim() == 3 else first.size(0)
            total += p.numel() * steps
        elif attention or isinstance(module, torch.nn.Linear):
            total += p.numel() * (out.numel() // max(out.size(-1), 1))
        else:
            total += p.numel() * (out.size(0) if out.dim() else 1)
    return total


def _unit(n, units, step):
    for unit in units:
        if n < step or unit == units[-1]:
            return f"{n:.2f}{unit}" if unit else str(int(n))
        n /= step
    return ""


class ModelSummary:
    """What summary() found; print it, or read total_params, trainable_params, total_mult_adds, and the sizes in bytes."""

    def __init__(self, model, rows, input_bytes):
        self.model_name = type(model).__name__
        self.rows = rows
        parameters = {id(p): p for p in model.parameters()}
        self.total_params = sum(p.numel() for p in parameters.values())
        self.trainable_params = sum(p.numel() for p in parameters.values() if p.requires_grad)
        self.total_mult_adds = sum(row.macs for row in rows if row.leaf or row.own)
        self.param_bytes = sum(p.numel() * p.element_size() for p in parameters.values())
        self.buffer_bytes = sum(b.numel() * b.element_size() for b in model.buffers())
        self.output_bytes = sum(row.bytes for row in rows if row.leaf)
        self.input_bytes = input_bytes

    def __str__(self):
        table = [("Layer", "Output shape", "Params", "Mult-adds")]
        for row in self.rows:
            name = "  " * row.depth + row.kind + (f" ({row.name.rsplit('.', 1)[-1]})" if row.name else "")
            own = row.total if row.depth == 0 or row.leaf else row.own
            table.append((name, row.shape, ("(again)" if row.seen else f"{own:,}") if own else "-", f"{row.macs:,}" if row.macs else "-"))
        widths = [max(len(line[k]) for line in table) for k in range(4)]
        line = "=" * (sum(widths) + 6)
        text = [line]
        for k, (a, b, c, d) in enumerate(table):
            text.append(f"{a:<{widths[0]}}  {b:<{widths[1]}}  {c:>{widths[2]}}  {d:>{widths[3]}}".rstrip())
            if k == 0:
                text.append(line)
        size = [(self.input_bytes, "input"), (self.output_bytes, "forward and backward"), (self.param_bytes + self.buffer_bytes, "parameters and buffers")]
        size[1] = (2 * self.output_bytes, size[1][1])
        text += [line, f"Parameters: {self.total_params:,} ({self.trainable_params:,} trainable)",
                 f"Multiply-adds: {_unit(self.total_mult_adds, ['', 'K', 'M', 'G', 'T'], 1000)}",
                 "Memory: " + " + ".join(f"{_unit(n, [' B', ' KiB', ' MiB', ' GiB'], 1024)} {what}" for n, what in size)
                 + f" = {_unit(sum(n for n, _ in size), [' B', ' KiB', ' MiB', ' GiB'], 1024)}", line]
        return "\n".join(text)

    __repr__ = __str__

    def _repr_html_(self):
        from html import escape
        return "<pre>%s</pre>" % escape(str(self))


def _as_inputs(inputs, input_size, dtype):
    if inputs is not None:
        return inputs if isinstance(inputs, (tuple, list)) else (inputs,)
    sizes = [input_size] if isinstance(input_size[0], int) else list(input_size)
    return tuple(torch.rand(*size) if dtype.is_floating_point else torch.zeros(*size, dtype=dtype)
                 for dtype, size in ((dtype or torch.float32, size) for size in sizes))


def summary(model, inputs=None, *, input_size=None, dtype=None, mode="eval", depth=None, **kwargs):
    """Run the model once and list its modules: shapes of results, parameters, multiply-adds, memory.

    inputs: a tensor or a tuple of the model's arguments; or input_size: a shape, or several, batch included.
    depth: how many levels of modules are listed. The model's mode and its generators are left as they were.
    """
    if inputs is None and input_size is None:
        raise ValueError("summary: give inputs (a tensor or a tuple of them) or input_size")
    rows, hooks, seen, stack = [], [], set(), []
    names = {id(m): name for name, m in model.named_modules()}

    def before(module, args, kw):
        name = names[id(module)]
        row = Row(name, type(module).__name__, len(stack))
        stack.append(row)
        rows.append(row)

    def after(module, args, kw, output):
        row = stack.pop()
        row.shape = _shapes(output)
        row.leaf = not any(True for _ in module.children())
        own = list(module.parameters(recurse=False))
        row.own = sum(p.numel() for p in own)
        row.total = sum(p.numel() for p in module.parameters())
        row.seen = id(module) in seen and row.total > 0
        seen.add(id(module))
        row.bytes = sum(t.numel() * t.element_size() for t in _tensors(output))
        row.macs = _macs(module, args, output) if own else 0

    was = {m: m.training for m in model.modules()}
    for module in model.modules():
        hooks.append(module.register_forward_pre_hook(before, with_kwargs=True))
        hooks.append(module.register_forward_hook(after, with_kwargs=True))
    try:
        model.train(mode == "train")
        with torch.random.fork_rng(devices=[]), torch.no_grad():
            args = _as_inputs(inputs, input_size, dtype)
            model(*args, **kwargs)
    finally:
        for hook in hooks:
            hook.remove()
        for module, training in was.items():
            module.training = training
    input_bytes = sum(t.numel() * t.element_size() for t in _tensors([list(args), kwargs]))
    result = ModelSummary(model, rows, input_bytes)
    if depth is not None:
        result.rows = [row for row in rows if row.depth <= depth]
    return result
