"""A model as a graph for TensorBoard: its modules as boxes, what flows between the innermost ones as edges.

The model is run once. Hooks see which tensors go in and out of modules; where something else happens in between
(additions, reshapes), the edge is found by walking back over the recorded operations.
"""
import rushlight as torch
from ._events import data, integer


def _tensors(x):
    if isinstance(x, torch.Tensor):
        yield x
    elif isinstance(x, dict):
        x = x.values()
    elif not isinstance(x, (list, tuple)):
        x = ()
    for item in () if isinstance(x, torch.Tensor) else x:
        yield from _tensors(item)


def _shape(tensor):
    dims = b"".join(data(2, integer(1, n)) for n in tensor.shape)
    return data(5, data(1, "_output_shapes") + data(2, data(1, data(7, dims))))


class _Flow:
    """Which node each tensor came from: by the tensor itself, or by the operation that made it."""

    def __init__(self):
        self.of_tensor, self.of_operation, self.kept = {}, {}, []

    def made(self, tensor, node):
        self.kept.append(tensor)    # ids are only told apart while their owners live
        self.of_tensor[id(tensor)] = node
        if tensor.grad_fn is not None:
            self.of_operation[tensor.grad_fn] = node

    def sources(self, tensor):
        """The nodes that a tensor is made from, nearest first."""
        if id(tensor) in self.of_tensor:
            return [self.of_tensor[id(tensor)]]
        found, seen, todo = [], set(), [tensor.grad_fn]
        while todo:
            operation = todo.pop()
            if operation is None or operation in seen:
                continue
            seen.add(operation)
            if operation in self.of_operation:
                if self.of_operation[operation] not in found:
                    found.append(self.of_operation[operation])
                continue
            variable = getattr(operation, "variable", None)
            if variable is not None and id(variable) in self.of_tensor:
                found.append(self.of_tensor[id(variable)])
            todo += [parent for parent, _ in operation.next_functions]
        return found


def module_graph(model, inputs=None):
    """A serialised GraphDef; without inputs the modules stand side by side, unconnected."""
    nodes, flow, calls = [], _Flow(), {}
    root = type(model).__name__

    def path(name):
        return "/".join([root] + (name.split(".") if name else []))

    def parameters(module, name):
        names = []
        for key, p in module.named_parameters(recurse=False):
            names.append(path(name) + "/" + key)
            nodes.append(data(1, names[-1]) + data(2, "Parameter") + _shape(p))
        return names

    def add(module, name, sources, output):
        kind = type(module).__name__
        calls[name] = calls.get(name, 0) + 1
        own = parameters(module, name) if calls[name] == 1 else []
        node = path(name) + "/" + kind + ("" if calls[name] == 1 else "_%d" % calls[name])
        body = data(1, node) + data(2, kind) + b"".join(data(3, s) for s in sources + own)
        first = next(_tensors(output), None)
        nodes.append(body + (_shape(first) if first is not None else b""))
        for tensor in _tensors(output):
            flow.made(tensor, node)

    if inputs is None:
        for name, module in model.named_modules():
            add(module, name, [], ())
    else:
        args = inputs if isinstance(inputs, (list, tuple)) else (inputs,)
        args = [a.detach().clone().requires_grad_() if isinstance(a, torch.Tensor) and a.dtype.is_floating_point else a for a in args]
        for k, tensor in enumerate(_tensors(args)):
            nodes.append(data(1, "input/%d" % k) + data(2, "Input") + _shape(tensor))
            flow.made(tensor, "input/%d" % k)
        handles = []
        for name, module in model.named_modules():
            if next(module.children(), None) is None:
                handles.append(module.register_forward_hook(
                    lambda m, given, output, name=name: add(m, name, [s for t in _tensors(given) for s in flow.sources(t)], output)))
        try:
            with torch.enable_grad():
                output = model(*args)
        finally:
            for handle in handles:
                handle.remove()
        for k, tensor in enumerate(_tensors(output)):
            nodes.append(data(1, "output/%d" % k) + data(2, "Output") + b"".join(data(3, s) for s in flow.sources(tensor)) + _shape(tensor))
        for name, module in model.named_modules():      # modules with parameters of their own beside those inside
            if next(module.children(), None) is not None:
                parameters(module, name)
    return b"".join(data(1, n) for n in nodes) + data(4, integer(1, 22))
