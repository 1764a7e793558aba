"""Gradients over several workers of remote calls.

A tensor that needs a gradient and is sent within a context arrives as a new leaf. Each side remembers it, so that a gradient that comes to the
leaf goes back to where the tensor came from, and on from there. Gradients add up in the context, not in .grad. A worker handles the
gradients that come to it one message at a time: several ways through the same tensors are several passes, whose sums are right.
"""
import itertools
import threading

import rushlight as torch

__all__ = ["backward", "context", "get_gradients", "is_available"]

_contexts, _lock, _numbers, _thread = {}, threading.Lock(), itertools.count(), threading.local()
_filling = threading.Lock()  # while gradients of a context are in .grad


def is_available():
    from ..rpc import is_available
    return is_available()


class DistAutogradContext:
    """What one worker knows of a context."""

    def __init__(self, id):
        self.id, self.lock = id, threading.Lock()
        self.messages = {}   # number of a message from here -> its tensors
        self.leaves = {}     # id of a leaf that came -> (it, worker, message, index)
        self.grads = {}      # id of a parameter -> (it, its gradient)
        self.averaged = {}   # id of a parameter -> it, whose gradient DistributedDataParallel averages when it comes to .grad
        self.workers = set()  # that know of this context through this worker

    def _context_id(self):
        return self.id

    def averages(self, parameters):
        with self.lock:
            self.averaged.update((id(p), p) for p in parameters)

    def sent(self, to, number, tensors):
        with self.lock:
            self.workers.add(to)
            if tensors:
                self.messages[number] = tensors


def _found(id, make=False):
    with _lock:
        if id not in _contexts and make:
            _contexts[id] = DistAutogradContext(id)
        if id not in _contexts:
            raise RuntimeError(f"Could not find autograd context with id: {id}")
        return _contexts[id]


def current():
    """The context of this thread, or None."""
    return getattr(_thread, "context", None)


class entered:
    """A context that came with a call (None: there is none), as that of this thread."""

    def __init__(self, id):
        self.context = None if id is None else _found(id, make=True)

    def __enter__(self):
        self.before, _thread.context = current(), self.context

    def __exit__(self, *error):
        _thread.context = self.before


class context:
    """with context() as id: calls and their gradients belong together."""

    def __enter__(self):
        from ..rpc._agent import agent
        self.id = agent().rank << 48 | next(_numbers)
        self.mine = entered(self.id)
        self.mine.__enter__()
        return self.id

    def __exit__(self, *error):
        self.mine.__exit__()
        release(self.id)


def release(id):
    """Forgets a context, here and at the workers that this one has told of it."""
    from ..rpc._agent import running
    with _lock:
        gone = _contexts.pop(id, None)
    me = running()
    if gone is not None and me is not None:
        for worker in gone.workers - {me.rank}:
            me.note(worker, release, id)


def arrived(context_id, value, index):
    """A tensor that came in a message: what follows from it leads back to a leaf, which stands for the sender's tensor."""
    from ..rpc._agent import local
    here, (source, number) = _found(context_id, make=True), local.opening
    leaf = value.requires_grad_()
    with here.lock:
        here.leaves[id(leaf)] = leaf, source, number, index
    return leaf.clone()


def _leaves(roots):
    """The leaves below tensors."""
    found, seen, ahead = {}, set(), []
    for root in roots:
        if root.grad_fn is None:
            found[id(root)] = root
        else:
            ahead.append(root.grad_fn)
    while ahead:
        node = ahead.pop()
        if node in seen:
            continue
        seen.add(node)
        if hasattr(node, "variable"):
            found[id(node.variable)] = node.variable
        ahead += [next_node for next_node, _ in node.next_functions if next_node is not None]
    return list(found.values())


def _gradients(here, roots, leaves, gradients):
    """(leaves, their gradients, None where there is none), without a change of .grad."""
    if not any(id(leaf) in here.averaged for leaf in leaves):
        return leaves, torch.autograd.grad(roots, leaves, gradients, retain_graph=True, allow_unused=True)
    reached = {id(leaf) for leaf in leaves}
    filled = leaves + [p for key, p in here.averaged.items() if key not in reached]  # these have a gradient if they have one at another rank
    with _filling:
        before = [leaf.grad for leaf in filled]
        for leaf in filled:
            leaf.grad = None
        try:
            torch.autograd.backward(roots, gradients, retain_graph=True, inputs=leaves)
            return filled, [leaf.grad for leaf in filled]
        finally:
            for leaf, gradient in zip(filled, before):
                leaf.grad = gradient


def _pass(here, roots, gradients):
    """From roots to all leaves, and on where a leaf came from elsewhere; returns when all is done."""
    from ..rpc._agent import agent
    on = {}
    leaves, found = _gradients(here, roots, _leaves(roots), gradients)
    with here.lock:
        for leaf, gradient in zip(leaves, found):
            if gradient is None:
                continue
            came = here.leaves.get(id(leaf))
            if came is not None:
                on.setdefault(came[1:3], []).append((came[3], gradient))
            else:
                before = here.grads.get(id(leaf))
                here.grads[id(leaf)] = leaf, gradient if before is None else before[1] + gradient
    futures = [agent().call(worker, _come_back, (here.id, number, gradients), timeout=0) for (worker, number), gradients in on.items()]
    for future in futures:
        future.wait()


def _come_back(id, number, gradients):
    """Gradients of tensors that were sent from here in a message."""
    here = _found(id)
    with here.lock:
        tensors = here.messages[number]
    _pass(here, [tensors[i] for i, _ in gradients], [g for _, g in gradients])


def backward(context_id, roots, retain_graph=False):
    """Adds the gradients of the roots' sum to the context, at all workers. Graphs last as long as the context, whatever retain_graph says."""
    here = _found(context_id)
    if not isinstance(roots, (list, tuple)):
        raise TypeError(f"backward(): roots must be a list of tensors, not {type(roots).__name__}")
    if not roots:
        raise RuntimeError("No tensors provided for gradient computation.")
    for root in roots:
        if not root.requires_grad:
            raise RuntimeError("requires_grad not set on root")
        if root.numel() != 1:
            raise RuntimeError(f"{root.grad_fn.name() if root.grad_fn is not None else ''} is not a scalar, all roots need to be scalar")
    _thread.context, before = None, current()
    try:
        _pass(here, list(roots), [torch.ones_like(root) for root in roots])
    finally:
        _thread.context = before


def get_gradients(context_id):
    """{parameter of this worker: its gradient so far}."""
    here = _found(context_id)
    with here.lock:
        return dict(here.grads.values())
