"""ModuleTracker: which modules' forward (or backward) is running."""
import weakref

import rushlight as torch
from rushlight.nn.modules.module import register_module_forward_hook, register_module_forward_pre_hook

__all__ = ["ModuleTracker"]


class ModuleTracker:
    """Inside `with tracker:` tracker.parents holds the names of the modules that are running. Packages override the methods below, by PyTorch's names."""

    def __init__(self):
        self.parents = {"Global"}
        self._known_modules = weakref.WeakKeyDictionary()
        self._seen_modules = weakref.WeakSet()
        self._has_callback = False
        self._hooks = []

    @property
    def is_bw(self):
        return torch._C._current_graph_task_id() != -1

    def _maybe_set_engine_callback(self):
        """At the end of a backward nothing runs any more, though some modules' inputs may have had no gradient to leave by."""
        if self._has_callback:
            return

        def done():
            self.parents = {"Global"}
            self._has_callback = False
        torch.autograd.Variable._execution_engine.queue_callback(done)
        self._has_callback = True

    def _get_mod_name(self, module):
        if module not in self._known_modules:
            self._known_modules[module] = type(module).__name__
        if module not in self._seen_modules:
            self._seen_modules.add(module)
            for name, child in module.named_children():
                self._known_modules.setdefault(child, self._known_modules[module] + "." + name)
                self._get_mod_name(child)
        return self._known_modules[module]

    def _get_append_fn(self, module, name, is_bw):
        def enter(*args):
            if is_bw:
                self._maybe_set_engine_callback()
            self.parents.add(name)
        return enter

    def _get_pop_fn(self, module, name, is_bw):
        def leave(*args):
            self.parents.discard(name)
        return leave

    def _hook_gradients(self, values, hook, **mode):
        tensors = [a for a in torch.utils._pytree.tree_leaves(values) if isinstance(a, torch.Tensor) and a.requires_grad and a.grad_fn is not None]
        if tensors and torch.is_grad_enabled():
            self._hooks.append(torch.autograd.graph.register_multi_grad_hook(tensors, hook, **mode))

    def _fw_pre_hook(self, module, args):
        name = self._get_mod_name(module)
        self._get_append_fn(module, name, False)()
        self._hook_gradients(args, self._get_pop_fn(module, name, True))  # backward leaves the module when its inputs' gradients are there

    def _fw_post_hook(self, module, args, output):
        name = self._get_mod_name(module)
        self._get_pop_fn(module, name, False)()
        self._hook_gradients(output, self._get_append_fn(module, name, True), mode="any")

    def __enter__(self):
        self._fw_pre_handle = register_module_forward_pre_hook(self._fw_pre_hook)
        self._fw_post_handle = register_module_forward_hook(self._fw_post_hook, always_call=True)
        return self

    def __exit__(self, *error):
        self._fw_pre_handle.remove()
        self._fw_post_handle.remove()
        while self._hooks:
            self._hooks.pop().remove()
