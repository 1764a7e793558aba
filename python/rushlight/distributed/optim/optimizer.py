"""An optimizer over parameters that live at several workers of remote calls."""
import collections
import threading

import rushlight as torch

from .. import autograd, rpc

__all__ = ["DistributedOptimizer"]


class _Part:
    """The optimizer of one worker's parameters."""

    def __init__(self, cls, params, args, kwargs):
        self.params = [p.local_value() for p in params]
        self.optimizer, self.lock = cls(self.params, *args, **kwargs), threading.Lock()

    def step(self, context_id):
        found = autograd.get_gradients(context_id)
        gradients = {id(p): gradient for p, gradient in found.items()}
        with self.lock:  # several workers may train the same parameters
            before = [p.grad for p in self.params]
            for p in self.params:
                p.grad = gradients.get(id(p))
            try:
                self.optimizer.step()
            finally:
                for p, grad in zip(self.params, before):
                    p.grad = grad


class DistributedOptimizer:
    """optimizer_class(parameters, *args, **kwargs) at each worker that has some of the parameters, which are given by references (RRef).

    step(context_id) takes the gradients of a distributed autograd context.
    """

    def __init__(self, optimizer_class, params_rref, *args, **kwargs):
        of_worker = collections.OrderedDict()
        for p in params_rref:
            of_worker.setdefault(p.owner(), []).append(p)
        self.is_functional_optim = False
        self.remote_optimizers = [rpc.remote(worker, _Part, (optimizer_class, params, args, kwargs)) for worker, params in of_worker.items()]
        torch.futures.wait_all([rpc.rpc_async(part.owner(), _made, (part,)) for part in self.remote_optimizers])

    def step(self, context_id):
        """One step of all parts, each with its gradients of the context."""
        autograd._found(context_id)
        torch.futures.wait_all([part.rpc_async(0).step(context_id) for part in self.remote_optimizers])


def _made(part):
    """Raises why an optimizer could not be made."""
    part.local_value()
