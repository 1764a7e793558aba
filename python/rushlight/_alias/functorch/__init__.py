"""functorch, the package that torch.func grew out of: its names, for programs that still import it.

The transforms are torch.func's; what is only here turns a module into a function of its parameters.
"""
import copy
import functools
import warnings

import torch
from torch import nn
from torch.fx.experimental.proxy_tensor import make_fx  # noqa: F401

__version__ = torch.__version__


def _outdated(name, instead):
    warnings.warn(f"`functorch.{name}` is deprecated: functorch is part of PyTorch. Please use `{instead}` instead.", FutureWarning, stacklevel=3)


def _transform(name, instead):
    inner = getattr(torch.func, name)

    @functools.wraps(inner)
    def outer(*args, **kwargs):
        _outdated(name, instead)
        return inner(*args, **kwargs)
    return outer


vmap = _transform("vmap", "torch.vmap")
grad, grad_and_value, vjp, jvp, jacrev, jacfwd, hessian, functionalize = (
    _transform(name, "torch.func." + name)
    for name in ("grad", "grad_and_value", "vjp", "jvp", "jacrev", "jacfwd", "hessian", "functionalize"))


def _state(named):
    """({first name: tensor}, {first name: every name}) of tensors that may have several names."""
    first, tensors, names = {}, {}, {}
    for name, tensor in named:
        key = first.setdefault(id(tensor), name)
        tensors.setdefault(key, tensor)
        names.setdefault(key, []).append(name)
    return tensors, names


class FunctionalModuleWithBuffers(nn.Module):
    """A module without tensors of its own: call it with parameters, buffers and the arguments."""

    def __init__(self, stateless_model, param_names, buffer_names, param_names_map, buffer_names_map):
        super().__init__()
        self.stateless_model = stateless_model
        self.param_names, self.buffer_names = param_names, buffer_names
        self.all_names_map = {**param_names_map, **buffer_names_map}

    def forward(self, params, buffers, *args, **kwargs):
        state = {}
        for name, tensor in zip((*self.param_names, *self.buffer_names), (*params, *buffers)):
            state.update(dict.fromkeys(self.all_names_map[name], tensor))
        return torch.func.functional_call(self.stateless_model, state, args, kwargs, tie_weights=False)


class FunctionalModule(nn.Module):
    """A module without tensors of its own: call it with parameters and the arguments."""

    def __init__(self, stateless_model, param_names, names_map):
        super().__init__()
        self.stateless_model = stateless_model
        self.param_names, self.names_map = param_names, names_map

    def forward(self, params, *args, **kwargs):
        state = {}
        for name, tensor in zip(self.param_names, params):
            state.update(dict.fromkeys(self.names_map[name], tensor))
        return torch.func.functional_call(self.stateless_model, state, args, kwargs, tie_weights=False)


def _taken_apart(model, disable_autograd_tracking):
    """(a copy without memory, parameters, their names, buffers, their names)"""
    own = copy.deepcopy(model)
    params, param_names = _state(own.named_parameters(remove_duplicate=False))
    buffers, buffer_names = _state(own.named_buffers(remove_duplicate=False))
    stateless = copy.deepcopy(own).to("meta")
    if disable_autograd_tracking:
        for p in params.values():
            p.requires_grad_(False)
    return stateless, tuple(params.values()), param_names, tuple(buffers.values()), buffer_names


def make_functional(model, disable_autograd_tracking=False):
    """(function of (params, *args), params)"""
    _outdated("make_functional", "torch.func.functional_call")
    if next(iter(model.buffers()), None) is not None:
        raise RuntimeError("make_functional(model): `model` has buffers. Please use make_functional_with_buffers(model) instead.")
    stateless, params, names, _, _ = _taken_apart(model, disable_autograd_tracking)
    return FunctionalModule(stateless, tuple(names), names), params


def make_functional_with_buffers(model, disable_autograd_tracking=False):
    """(function of (params, buffers, *args), params, buffers)"""
    _outdated("make_functional_with_buffers", "torch.func.functional_call")
    stateless, params, names, buffers, buffer_names = _taken_apart(model, disable_autograd_tracking)
    return FunctionalModuleWithBuffers(stateless, tuple(names), tuple(buffer_names), names, buffer_names), params, buffers


def combine_state_for_ensemble(models):
    """(function, params, buffers) of models of one class; params and buffers are stacked along a new first dimension."""
    _outdated("combine_state_for_ensemble", "torch.func.stack_module_state")
    who = "combine_state_for_ensemble"
    if len(models) == 0:
        raise RuntimeError(f"{who}: Expected at least one model, got 0.")
    if any(type(m) is not type(models[0]) for m in models):
        raise RuntimeError(f"{who}: Expected all models to be of the same class.")
    if any(m.training != models[0].training for m in models):
        raise RuntimeError(f"{who}: Expected all models to have the same training/eval mode.")
    parts = [_taken_apart(m, True) for m in models]
    stateless, _, names, _, buffer_names = parts[0]
    made = FunctionalModuleWithBuffers(stateless, tuple(names), tuple(buffer_names), names, buffer_names)
    params, buffers = (tuple(torch.stack(every) for every in zip(*(part[k] for part in parts))) for k in (1, 3))
    return made, params, buffers
