"""Which modules get wrappers of their own."""
import contextlib
import functools

__all__ = ["always_wrap_policy", "lambda_auto_wrap_policy", "transformer_auto_wrap_policy", "size_based_auto_wrap_policy", "enable_wrap", "wrap", "CustomPolicy",
           "ModuleWrapPolicy"]


def always_wrap_policy(*args, **kwargs):
    return True


def lambda_auto_wrap_policy(module, recurse, nonwrapped_numel, lambda_fn):
    return recurse or lambda_fn(module)


def transformer_auto_wrap_policy(module, recurse, nonwrapped_numel, transformer_layer_cls):
    return _module_wrap_policy(module, recurse, nonwrapped_numel, transformer_layer_cls)


def _module_wrap_policy(module, recurse, nonwrapped_numel, module_classes):
    return recurse or isinstance(module, tuple(module_classes))


def _or_policy(module, recurse, nonwrapped_numel, policies):
    return any(policy(module=module, recurse=recurse, nonwrapped_numel=nonwrapped_numel) for policy in policies)


def size_based_auto_wrap_policy(module, recurse, nonwrapped_numel, min_num_params=int(1e8), force_leaf_modules=None, exclude_wrap_modules=None):
    """Modules with that many parameters, not counting those below that are wrapped already."""
    leaves = size_based_auto_wrap_policy.FORCE_LEAF_MODULES if force_leaf_modules is None else force_leaf_modules
    excluded = size_based_auto_wrap_policy.EXCLUDE_WRAP_MODULES if exclude_wrap_modules is None else exclude_wrap_modules
    large = nonwrapped_numel >= min_num_params
    return large and not isinstance(module, tuple(leaves if recurse else excluded))


def _defaults():
    from rushlight import nn
    size_based_auto_wrap_policy.EXCLUDE_WRAP_MODULES = {nn.ModuleList, nn.ModuleDict}
    size_based_auto_wrap_policy.FORCE_LEAF_MODULES = {nn.MultiheadAttention}


_defaults()


class ModuleWrapPolicy:
    """Modules of some classes."""

    def __init__(self, module_classes):
        self._module_classes = set(module_classes)

    def __call__(self, module, recurse, *args, **kwargs):
        return recurse or isinstance(module, tuple(self._module_classes))

    def __repr__(self):
        return f"ModuleWrapPolicy({self._module_classes})"


class CustomPolicy:
    """Modules for which a function says True, or the options of their wrapper."""

    def __init__(self, lambda_fn):
        self._lambda_fn = lambda_fn


def wrap_children(module, policy, make, excluded=()):
    """make(child, **options) in the place of each module below for which the policy says so, the innermost first. How many parameters are not in one."""
    if isinstance(policy, CustomPolicy):
        for name, child in list(module.named_children()):
            wrap_children(child, policy, make, excluded)
            answer = policy._lambda_fn(child)
            if answer and child not in excluded:
                setattr(module, name, make(child, **(answer if isinstance(answer, dict) else {})))
        return 0
    wrapped = 0
    for name, child in list(module.named_children()):
        if child in excluded:
            continue
        n = sum(p.numel() for p in child.parameters())
        if policy(module=child, recurse=True, nonwrapped_numel=n):
            below = wrap_children(child, policy, make, excluded)
            if policy(module=child, recurse=False, nonwrapped_numel=n - below):
                setattr(module, name, make(child))
                below = n
            wrapped += below
    return wrapped


_enabled = []


@contextlib.contextmanager
def enable_wrap(*, wrapper_cls, **wrapper_kwargs):
    """Inside, wrap() wraps."""
    _enabled.append((wrapper_cls, wrapper_kwargs))
    try:
        yield
    finally:
        _enabled.pop()


def wrap(module, **wrap_overrides):
    if not _enabled:
        return module
    cls, options = _enabled[-1]
    return cls(module, **{**options, **wrap_overrides})


always_wrap = functools.partial(lambda_auto_wrap_policy, lambda_fn=lambda module: True)
