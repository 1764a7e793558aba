"""A backward pass in two: gradients of inputs first, those of parameters later.

What leads to the inputs is one part of the graph, what leads to parameters only hangs on it at some nodes. The first half walks to the inputs and keeps what
arrives at those nodes; the second starts from them.
"""
import rushlight as torch
from rushlight.autograd.graph import GradientEdge


class _Reach:
    """Of a graph: which nodes lead to some of the inputs, and the parameters that each node leads to without going through such nodes."""

    def __init__(self, roots, inputs):
        self.ends, self.leads, self.leaves = {id(t) for t in inputs}, {}, {}
        stack = [(node, False) for node in roots]
        while stack:
            node, below_done = stack.pop()
            if below_done:
                self._join(node)
            elif node not in self.leads:
                self.leads[node] = False    # in work
                stack.append((node, True))
                stack += [(next_node, False) for next_node, _ in node.next_functions if next_node is not None]

    def _join(self, node):
        leaf = getattr(node, "variable", None)
        below = [n for n, _ in node.next_functions if n is not None]
        self.leads[node] = id(leaf) in self.ends if leaf is not None else any(self.leads[n] for n in below)
        own = {} if leaf is None or self.leads[node] else {id(leaf): leaf}
        for n in below:
            if not self.leads[n]:
                own.update(self.leaves[n])
        self.leaves[node] = own


class SplitBackward:
    """input_grads now, parameters' by accumulate()."""

    def __init__(self, roots, grads, inputs):
        self.input_grads = [None] * len(inputs)
        wanted = [(k, t) for k, t in enumerate(inputs) if t.requires_grad]
        self._roots, self._grads, self._arrived, self._own = roots, grads, {}, {}
        reach = _Reach([t.grad_fn for t in roots if t.grad_fn is not None], [t for _, t in wanted])
        self._shared = list({key: p for own in reach.leaves.values() for key, p in own.items()}.values())
        if not wanted or not roots:
            return
        self._deal_out(reach)
        hooks = [node.register_prehook(self._keeper(node)) for node in self._own]
        try:
            found = torch.autograd.grad(roots, [t for _, t in wanted], grads, retain_graph=True, allow_unused=True)
        finally:
            for hook in hooks:
                hook.remove()
        for (k, _), g in zip(wanted, found):
            self.input_grads[k] = g

    def _keeper(self, node):
        def keep(grads):
            self._arrived[node] = grads
        return keep

    def _deal_out(self, reach):
        """Each parameter to the one node that it hangs on. A walk from one of several would meet the others: such parameters wait for one over everything."""
        hung = {}
        for node, leads in reach.leads.items():
            for key in reach.leaves[node] if leads else ():
                hung.setdefault(key, []).append(node)
        self._shared = [p for p in self._shared if len(hung.get(id(p), ())) != 1]
        for key, nodes in hung.items():
            if len(nodes) == 1:
                self._own.setdefault(nodes[0], []).append(reach.leaves[nodes[0]][key])

    def accumulate(self):
        for node, grads in self._arrived.items():
            there = [(GradientEdge(node, k), g) for k, g in enumerate(grads) if g is not None]
            torch.autograd.backward([edge for edge, _ in there], [g for _, g in there], inputs=self._own[node], retain_graph=True)
        if self._shared:
            torch.autograd.backward(self._roots, self._grads, inputs=self._shared)
