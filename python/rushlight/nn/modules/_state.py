"""Saving a module's tensors by dotted name, and loading them back.

One function per step of `Module.state_dict` and `Module.load_state_dict`; the methods of Module of
the same purpose call these, so that subclasses can still override one step.
"""
import warnings
from collections import OrderedDict, namedtuple
from collections.abc import Mapping

import rushlight as torch
from rushlight.nn.parameter import Parameter, is_lazy

_EXTRA_STATE_KEY_SUFFIX = "_extra_state"


class _IncompatibleKeys(namedtuple("IncompatibleKeys", ["missing_keys", "unexpected_keys"])):
    __slots__ = ()

    def __repr__(self):
        if self.missing_keys or self.unexpected_keys:
            return super().__repr__()
        return "<All keys matched successfully>"

    __str__ = __repr__


class _WrappedHook:
    """A hook that is given its module first, without keeping the module alive."""

    def __init__(self, hook, module=None):
        import functools
        import weakref
        self.hook = hook
        functools.update_wrapper(self, hook)
        self.with_module = module is not None
        if self.with_module:
            self.module = weakref.ref(module)

    def __call__(self, *args, **kwargs):
        if not self.with_module:
            return self.hook(*args, **kwargs)
        module = self.module()
        if module is None:
            raise RuntimeError("You are trying to call the hook of a dead Module!")
        return self.hook(module, *args, **kwargs)

    def __getstate__(self):
        state = {"hook": self.hook, "with_module": self.with_module}
        if self.with_module:
            state["module"] = self.module()
        return state

    def __setstate__(self, state):
        import weakref
        self.hook = state["hook"]
        self.with_module = state["with_module"]
        if self.with_module:
            if state["module"] is None:
                raise RuntimeError("You are trying to revive the hook of a dead Module!")
            self.module = weakref.ref(state["module"])


plain_module = None         # the class Module, which sets this when it is made


def _has_extra_state(module, method):
    return getattr(type(module), method) is not getattr(plain_module, method)


def _persistent(module):
    left_out = module._non_persistent_buffers_set
    return {k: v for k, v in module._buffers.items() if k not in left_out} if left_out else module._buffers


def save_own(module, destination, prefix, keep_vars):
    """Enter what this one module owns."""
    for held in (module._parameters, _persistent(module)):
        for name, tensor in held.items():
            if tensor is not None:
                destination[prefix + name] = tensor if keep_vars else tensor.detach()
    if _has_extra_state(module, "get_extra_state"):
        destination[prefix + _EXTRA_STATE_KEY_SUFFIX] = module.get_extra_state()


def collect(module, destination, prefix, keep_vars):
    """The state dict of a module and all below it, versions in `_metadata`."""
    if destination is None:
        destination = OrderedDict()
        destination._metadata = OrderedDict()
    metadata = {"version": module._version}
    if hasattr(destination, "_metadata"):
        destination._metadata[prefix[:-1]] = metadata
    for hook in module._state_dict_pre_hooks.values():
        hook(module, prefix, keep_vars)
    module._save_to_state_dict(destination, prefix, keep_vars)
    for name, child in module._modules.items():
        if child is not None:
            child.state_dict(destination=destination, prefix=prefix + name + ".", keep_vars=keep_vars)
    for hook in module._state_dict_hooks.values():
        answer = hook(module, destination, prefix, metadata)
        if getattr(hook, "_from_public_api", False):
            if answer is not None:
                raise RuntimeError("state_dict post-hook must return None")
        elif answer is not None:
            destination = answer
    return destination


def same_kind(tensor, other):
    """Whether the data of one may become the data of the other: devices may differ, layouts not."""
    return tensor.layout == other.layout and tensor.is_meta == other.is_meta


def replaced_parameter(module, key, param, changed, swap):
    """The parameter that takes `param`'s place when it cannot be changed where it lies."""
    if swap:
        grad = param.grad
        if grad is not None:
            param.grad = None
        try:
            torch.utils.swap_tensors(param, Parameter(changed, requires_grad=param.requires_grad))
        except Exception as problem:
            param.grad = grad
            raise RuntimeError(f"_apply(): Couldn't swap {module._get_name()}.{key}") from problem
        return param
    if not isinstance(changed, torch.Tensor) or not changed.is_leaf:
        changed = changed.detach()
    return Parameter(changed, requires_grad=param.requires_grad)


def _put(module, name, key, target, given, assign, is_param, error_msgs):
    """Copy or assign one tensor; a failure becomes a line of the final message."""
    if not isinstance(given, torch.Tensor) and not hasattr(given, "__torch_function__"):
        error_msgs.append(f'While copying the parameter named "{key}", expected torch.Tensor or Tensor-like object '
                          f"from checkpoint but received {type(given)}")
        return
    lazy = is_lazy(target)
    # Files of version 0.3 and before hold 1-element vectors where scalars are now.
    if not lazy and target.dim() == 0 and given.dim() == 1:
        given = given[0]
    if not lazy and given.shape != target.shape:
        error_msgs.append(f"size mismatch for {key}: copying a param with shape {given.shape} from checkpoint, the "
                          f"shape in current model is {target.shape}.")
        return
    if target.is_meta and not given.is_meta and not assign:
        warnings.warn(
            f"for {key}: copying from a non-meta parameter in the checkpoint to a meta parameter in the current "
            "model, which is a no-op. (Did you mean to pass `assign=True` to assign items in the state dictionary to "
            "their corresponding key in the module instead of copying them in place?)", stacklevel=4)
    try:
        with torch.no_grad():
            if torch.__future__.get_swap_module_params_on_conversion():
                new = target.module_load(given, assign=assign)
                if new is given or new is target:
                    raise RuntimeError("module_load returned one of self or other, please .detach() the result if returning one of the inputs in module_load")
                if is_param and not isinstance(new, Parameter):
                    new = Parameter(new, requires_grad=target.requires_grad)
                torch.utils.swap_tensors(target, new)
            elif assign:
                if is_param:
                    if isinstance(given, Parameter):
                        given.requires_grad_(target.requires_grad)
                    else:
                        given = Parameter(given, requires_grad=target.requires_grad)
                setattr(module, name, given)
            else:
                target.copy_(given)
    except Exception as problem:
        action = "swapping" if torch.__future__.get_swap_module_params_on_conversion() else "copying"
        error_msgs.append(f'While {action} the parameter named "{key}", whose dimensions in the model are '
                          f"{target.size()} and whose dimensions in the checkpoint are {given.size()}, an exception "
                          f"occurred : {problem.args}.")


def load_own(module, state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs):
    """Load what this one module owns, and note what is missing or too much."""
    for hook in module._load_state_dict_pre_hooks.values():
        hook(state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs)
    assign = local_metadata.get("assign_to_params_buffers", False)
    owned = {k: v for k, v in (*module._parameters.items(), *_persistent(module).items()) if v is not None}
    for name, target in owned.items():
        key = prefix + name
        if key in state_dict:
            _put(module, name, key, target, state_dict[key], assign, name in module._parameters, error_msgs)
        elif strict:
            missing_keys.append(key)
    extra = prefix + _EXTRA_STATE_KEY_SUFFIX
    takes_extra = _has_extra_state(module, "set_extra_state")
    if takes_extra:
        if extra in state_dict:
            module.set_extra_state(state_dict[extra])
        elif strict:
            missing_keys.append(extra)
    elif strict and extra in state_dict:
        unexpected_keys.append(extra)
    if strict:
        for key in state_dict:
            if key.startswith(prefix) and key != extra:
                head, dot, _ = key[len(prefix):].partition(".")
                if head not in (module._modules if dot else owned):
                    unexpected_keys.append(key)


def _load_tree(module, state_dict, prefix, metadata, strict, assign, missing, unexpected, errors):
    local = {} if metadata is None else metadata.get(prefix[:-1], {})
    if assign:
        local["assign_to_params_buffers"] = True
    # Strict here collects all names; whether they are an error is decided at the end.
    module._load_from_state_dict(state_dict, prefix, local, True, missing, unexpected, errors)
    for name, child in module._modules.items():
        if child is not None:
            below = prefix + name + "."
            part = {k: v for k, v in state_dict.items() if k.startswith(below)}
            _load_tree(child, part, below, metadata, strict, assign, missing, unexpected, errors)
    keys = _IncompatibleKeys(missing, unexpected)
    for hook in module._load_state_dict_post_hooks.values():
        if hook(module, keys) is not None:
            raise AssertionError("Hooks registered with ``register_load_state_dict_post_hook`` are not expected to "
                                 "return new values, if incompatible_keys need to be modified, it should be done "
                                 "inplace.")


def _quoted(keys):
    return ", ".join(f'"{k}"' for k in keys)


def _near_names(missing, unexpected):
    """Pairs that look like one name spelt in two ways, at most five of them."""
    import difflib
    pairs = []
    for key in missing[:50]:
        near = difflib.get_close_matches(key, unexpected[:200], n=1, cutoff=0.75)
        if not near:
            tail = [u for u in unexpected if u.endswith("." + key) or key.endswith("." + u)]
            near = tail[:1]
        if near:
            pairs.append(f'"{key}" may be "{near[0]}"')
    return pairs[:5]


def load(module, state_dict, strict, assign):
    """Load a whole tree; the result names what was missing and what was too much."""
    if not isinstance(state_dict, Mapping):
        raise TypeError(f"Expected state_dict to be dict-like, got {type(state_dict)}.")
    missing, unexpected, errors = [], [], []
    metadata = getattr(state_dict, "_metadata", None)
    state_dict = OrderedDict(state_dict)
    if metadata is not None:
        state_dict._metadata = metadata
    _load_tree(module, state_dict, "", metadata, strict, assign, missing, unexpected, errors)
    if strict:
        problems = []
        if missing:
            problems.append(f"Missing key(s) in state_dict: {_quoted(missing)}. ")
        if unexpected:
            problems.append(f"Unexpected key(s) in state_dict: {_quoted(unexpected)}. ")
        hints = _near_names(missing, unexpected)
        errors = problems + errors + (["Similar names: " + "; ".join(hints) + "."] if hints else [])
    if errors:
        raise RuntimeError(f"Error(s) in loading state_dict for {type(module).__name__}:\n\t" + "\n\t".join(errors))
    return _IncompatibleKeys(missing, unexpected)
