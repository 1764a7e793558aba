"""Optimizer: parameters in groups with options, state per parameter, and one `step`.

A concrete optimizer validates its options, makes the state of a parameter when it first sees a gradient,
and hands lists over all parameters of a group to one function (see `_fused.py`).  The base class keeps
groups, state dicts that PyTorch can read, and hooks around the step.
"""
import contextlib
import functools
import warnings
from collections import OrderedDict, defaultdict
from collections.abc import Iterable
from copy import deepcopy

import rushlight as torch

__all__ = ["Optimizer", "swap_in_optimizer_params_and_state", "register_optimizer_step_pre_hook", "register_optimizer_step_post_hook"]


def __getattr__(name):
    if name != "ParamsT":
        raise AttributeError(f"module 'torch.optim.optimizer' has no attribute '{name}'")
    from typing import Any, Dict, Iterable as Many, Tuple, Union
    return Union[Many[torch.Tensor], Many[Dict[str, Any]], Many[Tuple[str, torch.Tensor]]]


# Hooks that see the steps of every optimizer.
_global_optimizer_pre_hooks = OrderedDict()
_global_optimizer_post_hooks = OrderedDict()


class _RequiredParameter:
    """The default of an option that has none."""

    def __repr__(self):
        return "<required parameter>"


required = _RequiredParameter()


def _get_value(x):
    """The number in a tensor; numbers as they are."""
    return x.item() if isinstance(x, torch.Tensor) else x


def _to_scalar(x):
    """A 0-dim view of a 1-element tensor; numbers as they are."""
    return x.squeeze() if isinstance(x, torch.Tensor) and x.dim() != 0 else x


def _stack_if_compiling(x):
    return x


def _get_scalar_dtype(is_fused=None):
    """The dtype of step counters."""
    if is_fused:
        return torch.float32
    return torch.float64 if torch.get_default_dtype() == torch.float64 else torch.float32


def _get_capturable_supported_devices(supports_xla=True):
    return ["cuda", "xpu", "hpu"] + (["xla"] if supports_xla else [])


def _default_to_fused_or_foreach(params, differentiable, use_fused=False):
    """(fused, foreach) when the user has said nothing: on the CPU neither flag is set."""
    if differentiable:
        return False, False
    on_gpu = all(p is None or (type(p) in (torch.Tensor, torch.nn.Parameter) and p.device.type == "cuda")
                 for p in params)
    fused = use_fused and on_gpu and all(p is None or torch.is_floating_point(p) for p in params)
    return fused, not fused and on_gpu and bool(params)


def _device_dtype_check_for_fused(p, cuda_unsupported=False):
    if not torch.is_floating_point(p):
        raise RuntimeError("`fused=True` requires all the params to be floating point Tensors of supported devices: "
                           "['mps', 'cuda', 'xpu', 'hpu', 'cpu', 'mtia'] but torch.float32 and "
                           f"{p.device.type}")


def _view_as_real(params, *state_and_grads):
    """Complex tensors of all lists as pairs of reals, in place."""
    for i, p in enumerate(params):
        if torch.is_complex(p):
            params[i] = torch.view_as_real(p)
            for values in state_and_grads:
                values[i] = torch.view_as_real(values[i])


def _disable_dynamo_if_unsupported(single_tensor_fn=None):
    """Decorator of optimizer functions; there is no tracer here that could fail on them."""
    return lambda func: func


def _use_grad_for_differentiable(func):
    """A step records itself only for `differentiable` optimizers."""
    @functools.wraps(func)
    def _use_grad(*args, **kwargs):
        self = args[0]
        before = torch.is_grad_enabled()
        torch.set_grad_enabled(self.defaults["differentiable"])
        try:
            return func(*args, **kwargs)
        finally:
            torch.set_grad_enabled(before)

    return _use_grad


def _handle(hooks, hook, prepend=False):
    from rushlight.utils.hooks import RemovableHandle
    handle = RemovableHandle(hooks)
    hooks[handle.id] = hook
    if prepend:
        hooks.move_to_end(handle.id, last=False)
    return handle


def register_optimizer_step_pre_hook(hook):
    """Call `hook(optimizer, args, kwargs)` before every step of any optimizer."""
    return _handle(_global_optimizer_pre_hooks, hook)


def register_optimizer_step_post_hook(hook):
    """Call `hook(optimizer, args, kwargs)` after every step of any optimizer."""
    return _handle(_global_optimizer_post_hooks, hook)


class Optimizer:
    """Base class of optimizers.

    params: tensors, or dictionaries with "params" and settings of a group of their own; defaults: settings of groups that do not say otherwise.
    Subclasses write step(); param_groups and state are saved by state_dict().

    >>> optimizer = torch.optim.SGD([torch.zeros(2, requires_grad=True)], lr=0.1)
    >>> optimizer.param_groups[0]["lr"], isinstance(optimizer, torch.optim.Optimizer)
    (0.1, True)
    """

    OptimizerPreHook = OptimizerPostHook = object       # names for annotations

    def __init__(self, params, defaults):
        self.defaults = defaults
        self._make_hook_dicts()
        self._patch_step_function()
        if isinstance(params, torch.Tensor):
            raise TypeError("params argument given to the optimizer should be an iterable of Tensors or dicts, but "
                            f"got {torch.typename(params)}")
        self.state = defaultdict(dict)
        self.param_groups = []
        groups = list(params)
        if not groups:
            raise ValueError("optimizer got an empty parameter list")
        if not isinstance(groups[0], dict):
            groups = [{"params": groups}]
        for group in groups:
            self.add_param_group(group)
        self._warned_capturable_if_run_uncaptured = True

    def _make_hook_dicts(self):
        for name in ("step_pre", "step_post", "state_dict_pre", "state_dict_post", "load_state_dict_pre",
                     "load_state_dict_post"):
            key = f"_optimizer_{name}_hooks"
            if key not in self.__dict__:
                self.__dict__[key] = OrderedDict()

    def __getstate__(self):
        return {"defaults": self.defaults, "state": self.state, "param_groups": self.param_groups}

    def __setstate__(self, state):
        self.__dict__.update(state)
        self._make_hook_dicts()
        self._patch_step_function()
        self.defaults.setdefault("differentiable", False)

    def __repr__(self):
        text = type(self).__name__ + " ("
        for place, group in enumerate(self.param_groups):
            text += f"\nParameter Group {place}\n"
            for key in sorted(group):
                if key != "params":
                    text += f"    {key}: {group[key]}\n"
        return text + ")"

    # ---- the step ----

    def step(self, closure=None):
        """Change the parameters once; `closure` evaluates the model again and returns the loss."""
        raise NotImplementedError

    @staticmethod
    def profile_hook_step(func):
        """A step with the hooks around it."""
        @functools.wraps(func)
        def wrapper(*args, **kwargs):
            self = args[0]
            profiler_on = getattr(torch.autograd, "_profiler_enabled", None)
            if profiler_on is not None and profiler_on():
                with torch.autograd.profiler.record_function(f"Optimizer.step#{type(self).__name__}.step"):
                    return with_hooks(self, args, kwargs)
            return with_hooks(self, args, kwargs)

        def with_hooks(self, args, kwargs):
            if not (_global_optimizer_pre_hooks or _global_optimizer_post_hooks
                    or self._optimizer_step_pre_hooks or self._optimizer_step_post_hooks):
                return func(*args, **kwargs)
            for hook in (*_global_optimizer_pre_hooks.values(), *self._optimizer_step_pre_hooks.values()):
                changed = hook(self, args, kwargs)
                if changed is not None:
                    if not (isinstance(changed, tuple) and len(changed) == 2):
                        raise RuntimeError(f"{func} must return None or a tuple of (new_args, new_kwargs), but got "
                                           f"{changed}.")
                    args, kwargs = changed
            out = func(*args, **kwargs)
            for hook in (*self._optimizer_step_post_hooks.values(), *_global_optimizer_post_hooks.values()):
                hook(self, args, kwargs)
            return out

        wrapper.hooked = True
        return wrapper

    def _patch_step_function(self):
        self._zero_grad_profile_name = f"Optimizer.zero_grad#{type(self).__name__}.zero_grad"
        step = type(self).step
        if not getattr(step, "hooked", None):
            type(self).step = self.profile_hook_step(step)

    def _accelerator_graph_capture_health_check(self):
        """A graph repeats what the device does: numbers that the host counts would stay as they are."""
        if not torch._C._cuda_opened():
            return
        capturable = all(group["capturable"] for group in self.param_groups)
        capturing = torch._C._cuda_isCurrentStreamCapturing()
        if capturing and not capturable:
            raise RuntimeError(f"Attempting CUDA graph capture of step() for an instance of {type(self).__name__} but param_groups' "
                               "capturable is False.")
        if capturable and not capturing and not getattr(self, "_warned_capturable_if_run_uncaptured", False):
            self._warned_capturable_if_run_uncaptured = True
            warnings.warn("This instance was constructed with capturable=True or some of all the param_groups came with capturable=True, "
                          "but step() is running without CUDA graph capture. If you never intend to graph-capture this instance, "
                          "capturable=True can impair performance, and you should set capturable=False.", stacklevel=2)

    _cuda_graph_capture_health_check = _accelerator_graph_capture_health_check

    def _optimizer_step_code(self):
        """A place for debuggers and profilers to stop at."""

    @staticmethod
    def _group_tensors_by_device_and_dtype(tensorlistlist, with_indices=False):
        groups = {}
        for place, row in enumerate(zip(*tensorlistlist)):
            lists, places = groups.setdefault((row[0].device, row[0].dtype), ([[] for _ in row], []))
            for values, value in zip(lists, row):
                values.append(value)
            places.append(place)
        return groups

    def zero_grad(self, set_to_none=True):
        """Clear the gradients of all parameters."""
        for group in self.param_groups:
            for p in group["params"]:
                grad = p.grad
                if grad is None:
                    continue
                if set_to_none:
                    p.grad = None
                    continue
                if grad.grad_fn is not None:
                    grad.detach_()
                else:
                    grad.requires_grad_(False)
                grad.zero_()

    # ---- hooks ----

    def register_step_pre_hook(self, hook):
        """Call `hook(optimizer, args, kwargs)` before every step."""
        return _handle(self._optimizer_step_pre_hooks, hook)

    def register_step_post_hook(self, hook):
        """Call `hook(optimizer, args, kwargs)` after every step."""
        return _handle(self._optimizer_step_post_hooks, hook)

    def register_state_dict_pre_hook(self, hook, prepend=False):
        """Call `hook(optimizer)` before `state_dict`."""
        return _handle(self._optimizer_state_dict_pre_hooks, hook, prepend)

    def register_state_dict_post_hook(self, hook, prepend=False):
        """Call `hook(optimizer, state_dict)` after `state_dict`; a result replaces it."""
        return _handle(self._optimizer_state_dict_post_hooks, hook, prepend)

    def register_load_state_dict_pre_hook(self, hook, prepend=False):
        """Call `hook(optimizer, state_dict)` before loading; a result replaces the state dict."""
        return _handle(self._optimizer_load_state_dict_pre_hooks, hook, prepend)

    def register_load_state_dict_post_hook(self, hook, prepend=False):
        """Call `hook(optimizer)` after loading."""
        return _handle(self._optimizer_load_state_dict_post_hooks, hook, prepend)

    # ---- saving and loading ----

    def state_dict(self):
        """State and options, with numbers in place of the parameters."""
        for hook in self._optimizer_state_dict_pre_hooks.values():
            hook(self)
        number = {}
        groups = []
        for group in self.param_groups:
            for p in group["params"]:
                number.setdefault(id(p), len(number))
            packed = {key: value for key, value in group.items() if key != "params"}
            packed["params"] = [number[id(p)] for p in group["params"]]
            groups.append(packed)
        state = {(number[id(key)] if isinstance(key, torch.Tensor) else key): value
                 for key, value in self.state.items()}
        found = {"state": state, "param_groups": groups}
        for hook in self._optimizer_state_dict_post_hooks.values():
            changed = hook(self, found)
            if changed is not None:
                found = changed
        return found

    @staticmethod
    def _process_value_according_to_param_policy(param, value, param_id, param_groups, key=None):
        """A loaded tensor as the parameter needs it; step counters keep their type and mostly their place."""
        options = next((g for g in param_groups or () if param_id in g["params"]), {})
        if key == "step":
            if options.get("capturable", False) or options.get("fused", False):
                return value.to(dtype=torch.float32, device=param.device)
            return value
        if param.is_floating_point():
            return value.to(dtype=param.dtype, device=param.device)
        return value.to(device=param.device)

    def load_state_dict(self, state_dict):
        """Take over a state dict; parameters are matched by their order."""
        state_dict = state_dict.copy()
        for hook in self._optimizer_load_state_dict_pre_hooks.values():
            changed = hook(self, state_dict)
            if changed is not None:
                state_dict = changed
        groups = self.param_groups
        saved_groups = deepcopy(state_dict["param_groups"])
        if len(groups) != len(saved_groups):
            raise ValueError("loaded state dict has a different number of parameter groups")
        if any(len(group["params"]) != len(saved["params"]) for group, saved in zip(groups, saved_groups)):
            raise ValueError("loaded state dict contains a parameter group that doesn't match the size of optimizer's "
                             "group")
        owner = {number: p for group, saved in zip(groups, saved_groups)
                 for number, p in zip(saved["params"], group["params"])}

        def convert(param, value, number, key=None):
            if isinstance(value, torch.Tensor):
                return Optimizer._process_value_according_to_param_policy(param, value, number,
                                                                          state_dict["param_groups"], key)
            if isinstance(value, dict):
                return {k: convert(param, v, number, k) for k, v in value.items()}
            if isinstance(value, Iterable) and not isinstance(value, (str, bytes)):
                return type(value)(convert(param, v, number) for v in value)
            return value

        state = defaultdict(dict)
        for key, value in state_dict["state"].items():
            if key in owner:
                state[owner[key]] = convert(owner[key], value, key)
            else:
                state[key] = value
        merged = []
        for group, saved in zip(groups, saved_groups):
            saved["params"] = group["params"]
            if "param_names" in group and "param_names" not in saved:
                saved["param_names"] = group["param_names"]
            merged.append(saved)
        self.__setstate__({"state": state, "param_groups": merged})
        for hook in self._optimizer_load_state_dict_post_hooks.values():
            hook(self)

    # ---- groups ----

    def add_param_group(self, param_group):
        """Add a group of parameters; options it lacks are the defaults."""
        if not isinstance(param_group, dict):
            raise TypeError(f"param_group must be a dict, but got {type(param_group)}")
        params = param_group["params"]
        if isinstance(params, torch.Tensor):
            params = [params]
        elif isinstance(params, set):
            raise TypeError("optimizer parameters need to be organized in ordered collections, but the ordering of "
                            "tensors in sets will change between runs. Please use a list instead.")
        else:
            params = list(params)
        names = [p[0] for p in params if isinstance(p, tuple)]
        if names:
            if len(names) != len(params):
                raise ValueError("all optimizer params should be with/without names. Some param names are missing")
            params = [p[1] for p in params]
            param_group["param_names"] = names
        param_group["params"] = params
        for p in params:
            if not isinstance(p, torch.Tensor):
                raise TypeError(f"optimizer can only optimize Tensors, but one of the params is {torch.typename(p)}")
            if not self.defaults.get("differentiable", None) and not (p.is_leaf or p.retains_grad):
                raise ValueError("can't optimize a non-leaf Tensor")
        for name, default in self.defaults.items():
            if default is required and name not in param_group:
                raise ValueError("parameter group didn't specify a value of required optimization parameter " + name)
            param_group.setdefault(name, default)
        if len(params) != len(set(params)):
            warnings.warn("optimizer contains a parameter group with duplicate parameters; in future, this will cause "
                          "an error; see github.com/pytorch/pytorch/issues/40967 for more information", stacklevel=3)
        known = set()
        for group in self.param_groups:
            known.update(group["params"])
            if ("param_names" in param_group) != ("param_names" in group):
                has = "with" if "param_names" in param_group else "without"
                raise ValueError("all optimizer param groups should be with/without names. cannot add param group "
                                 f"{has} names to the optimizer")
        if not known.isdisjoint(params):
            raise ValueError("some parameters appear in more than one parameter group")
        self.param_groups.append(param_group)


@contextlib.contextmanager
def swap_in_optimizer_params_and_state(optimizer, swapin_parameters, swapin_optim_state):
    """While the context lasts, the optimizer's parameters, state and options are others; what a step does to their tensors stays in them.

    swapin_parameters: {name: tensor}, in the order of the optimizer's parameters. swapin_optim_state: as the optimizer's state_dict().

    >>> import copy
    >>> net, tried = torch.nn.Linear(1, 1), torch.nn.Linear(1, 1)
    >>> optimizer = torch.optim.Adam(net.parameters())
    >>> net(torch.ones(1)).backward()
    >>> optimizer.step()
    >>> tried(torch.ones(1)).backward()
    >>> with torch.optim.swap_in_optimizer_params_and_state(optimizer, dict(tried.named_parameters()), copy.deepcopy(optimizer.state_dict())):
    ...     optimizer.step()
    >>> optimizer.state[net.weight]["step"].item()
    1.0
    """
    if not optimizer.state:
        raise RuntimeError("swap_in_optimizer_params_and_state requires initialized optimizer state.")
    groups = swapin_optim_state.get("param_groups")
    if not isinstance(groups, list):
        raise RuntimeError("swap_in_optimizer_params_and_state requires swapin_optim_state['param_groups'] to be a list of param-group dicts, "
                           f"got {type(groups).__name__}.")
    if len(groups) != len(optimizer.param_groups):
        raise RuntimeError("swapin_optim_state has a different number of parameter groups than the live optimizer.")
    params = list(swapin_parameters.values())
    if len(params) != sum(len(group["params"]) for group in optimizer.param_groups) or \
            any(len(new["params"]) != len(group["params"]) for new, group in zip(groups, optimizer.param_groups)):
        raise RuntimeError("swap_in_optimizer_params_and_state requires the explicit parameter state to match optimizer.param_groups ordering.")
    numbers = [number for group in groups for number in group["params"]]
    owner, rest = dict(zip(numbers, params)), iter(params)
    before = optimizer.param_groups, optimizer.state
    try:
        optimizer.param_groups = [{**new, "params": [next(rest) for _ in new["params"]]} for new in groups]
        optimizer.state = defaultdict(dict, {owner.get(number, number): dict(values) if isinstance(values, dict) else values
                                             for number, values in swapin_optim_state["state"].items()})
        yield
    finally:
        optimizer.param_groups, optimizer.state = before
