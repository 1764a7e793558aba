"""ModuleTracker: which modules' forward (or backward) is running."""
import weakref

import rushlight as torch
from rushlight.nn.modules.module import register_module_forward_hook, register_module_forward_pre_hook

__all__ = ["ModuleTracker"]


class ModuleTracker:
    """Inside `with tracker:` tracker.parents holds the names of the modules that are running."""

    def __init__(self):
        self.parents = {"Global"}
        self._names = weakref.WeakKeyDictionary()
        self._named_roots = weakref.WeakSet()
        self._has_callback = False

    @property
    def is_bw(self):
        return torch._C._current_graph_task_id() != -1

    def _name_of(self, module):
        if module not in self._names:
            self._names[module] = type(module).__name__
        if module not in self._named_roots:
            self._named_roots.add(module)
            for name, child in module.named_children():
                self._names.setdefault(child, self._names[module] + "." + name)
                self._name_of(child)
        return self._names[module]

    def _enter_hook(self, name):
        def enter(*args):
            self.parents.add(name)
        return enter

    def _leave_hook(self, name):
        def leave(*args):
            self.parents.discard(name)
        return leave

    def _before(self, module, args):
        name = self._name_of(module)
        self.parents.add(name)
        tensors = [a for a in torch.utils._pytree.tree_leaves(args)
                   if isinstance(a, torch.Tensor) and a.requires_grad and a.grad_fn is not None]
        if tensors and torch.is_grad_enabled():
            # Backward leaves the module when the gradients of its inputs are there.
            torch.autograd.graph.register_multi_grad_hook(tensors, self._leave_hook(name))

    def _after(self, module, args, output):
        name = self._name_of(module)
        self.parents.discard(name)
        tensors = [a for a in torch.utils._pytree.tree_leaves(output)
                   if isinstance(a, torch.Tensor) and a.requires_grad and a.grad_fn is not None]
        if tensors and torch.is_grad_enabled():
            torch.autograd.graph.register_multi_grad_hook(tensors, self._enter_hook(name), mode="any")

    def __enter__(self):
        self._pre = register_module_forward_pre_hook(self._before)
        self._post = register_module_forward_hook(self._after, always_call=True)
        return self

    def __exit__(self, *error):
        self._pre.remove()
        self._post.remove()
