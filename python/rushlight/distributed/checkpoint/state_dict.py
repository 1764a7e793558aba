"""State dicts in which optimizers name parameters as the model does, so that they fit a model built anew.

In one process nothing is in pieces: options about that are accepted and change nothing.
"""
import contextlib
import dataclasses

import rushlight as torch

__all__ = ["StateDictOptions", "get_model_state_dict", "get_optimizer_state_dict", "get_state_dict", "set_model_state_dict",
           "set_optimizer_state_dict", "set_state_dict"]

_STATE, _GROUPS, _PARAMS = "state", "param_groups", "params"


@dataclasses.dataclass
class StateDictOptions:
    """What is asked of the dicts: frozen parameters left out, tensors on the CPU, optimizer states flat, keys exact."""
    full_state_dict: bool = False
    cpu_offload: bool = False
    ignore_frozen_params: bool = False
    keep_submodule_prefixes: bool = True
    strict: bool = True
    broadcast_from_rank0: bool = False
    flatten_optimizer_state_dict: bool = False
    dsd_fqn_modifiers: str = "_fqn_modifiers"


def _placed(value, options):
    """value, with its tensors on the CPU where that is asked for."""
    if not options.cpu_offload:
        return value
    return torch.utils._pytree.tree_map_only(torch.Tensor, lambda t: t.cpu(), value)


def _names(model):
    """Parameter -> its name in the model, of all that carries that parameter the first."""
    return {param: name for name, param in model.named_parameters()}


def _kept(model, submodules, options):
    """Which keys of the model's state dict stay, as a function of the key."""
    frozen = {name for name, param in model.named_parameters() if not param.requires_grad} if options.ignore_frozen_params else ()
    prefixes = None
    if submodules:
        prefixes = [name + "." for name, module in model.named_modules() if module in submodules]
    return lambda key: key not in frozen and (prefixes is None or any(key.startswith(p) for p in prefixes))


def _without_prefix(model, submodules, options, key):
    if submodules and not options.keep_submodule_prefixes:
        for name, module in model.named_modules():
            if module in submodules and key.startswith(name + "."):
                return key[len(name) + 1:]
    return key


def get_model_state_dict(model, *, submodules=None, options=None):
    """The model's state dict."""
    options = options or StateDictOptions()
    keep = _kept(model, submodules, options)
    return {_without_prefix(model, submodules, options, key): _placed(value, options)
            for key, value in model.state_dict().items() if keep(key)}


@contextlib.contextmanager
def _states_made(optimizer):
    """An optimizer that has not stepped yet makes its states in a step that changes nothing."""
    if optimizer.state or not any(param.requires_grad for group in optimizer.param_groups for param in group[_PARAMS]):
        yield
        return
    params = [param for group in optimizer.param_groups for param in group[_PARAMS] if param.requires_grad]
    grads, rates = [param.grad for param in params], [group.get("lr") for group in optimizer.param_groups]
    for param in params:
        param.grad = torch.zeros_like(param)
    for group in optimizer.param_groups:
        if "lr" in group:
            group["lr"] = torch.tensor(0.0) if isinstance(group["lr"], torch.Tensor) else 0.0
    try:
        optimizer.step()
    finally:
        for param, grad in zip(params, grads):
            param.grad = grad
        for group, rate in zip(optimizer.param_groups, rates):
            if "lr" in group:
                group["lr"] = rate
    yield


def _init_optim_state(optim):
    """Make the states of an optimizer that has not stepped yet."""
    with _states_made(optim):
        pass


def _one_optimizer(model, optimizer, keep, options):
    names = _names(model)
    with _states_made(optimizer):
        states = {names[param]: dict(state) for param, state in optimizer.state.items() if param in names and keep(names[param])}
        groups = [{**{key: value for key, value in group.items() if key != _PARAMS},
                   _PARAMS: [names[param] for param in group[_PARAMS] if keep(names[param])]} for group in optimizer.param_groups]
    return _placed(states, options), groups


def _flattened(states, groups):
    """One level of keys: state.NAME.WHAT, param_groups.NAME.WHAT."""
    flat = {".".join((_STATE, name, what)): value for name, state in states.items() for what, value in state.items()}
    for group in groups:
        for name in group[_PARAMS]:
            flat.update({".".join((_GROUPS, name, what)): value for what, value in group.items() if what != _PARAMS})
    return flat


def _all_of(optimizers):
    return (optimizers,) if isinstance(optimizers, torch.optim.Optimizer) else tuple(optimizers)


def get_optimizer_state_dict(model, optimizers, *, submodules=None, options=None):
    """The optimizers' state dict, parameters by their names in the model."""
    options = options or StateDictOptions()
    keep = _kept(model, submodules, options)
    states, groups = {}, []
    for optimizer in _all_of(optimizers):
        more, more_groups = _one_optimizer(model, optimizer, keep, options)
        states.update(more)
        groups.extend(more_groups)
    return _flattened(states, groups) if options.flatten_optimizer_state_dict else {_STATE: states, _GROUPS: groups}


def get_state_dict(model, optimizers, *, submodules=None, options=None):
    """(the model's state dict, the optimizers')."""
    return (get_model_state_dict(model, submodules=submodules, options=options),
            get_optimizer_state_dict(model, optimizers, submodules=submodules, options=options))


def _with_prefixes(model, model_state_dict):
    """A dict of submodules and their state dicts as one, under the model's names."""
    if not model_state_dict or not isinstance(next(iter(model_state_dict)), torch.nn.Module):
        return model_state_dict
    names = {module: name for name, module in model.named_modules()}
    return {(names[module] + "." if names[module] else "") + key: value
            for module, state in model_state_dict.items() for key, value in state.items()}


def set_model_state_dict(model, model_state_dict, *, options=None):
    """Load the model; keys that are missing or unexpected."""
    options = options or StateDictOptions()
    return model.load_state_dict(_with_prefixes(model, model_state_dict), strict=options.strict)


def _nested(flat, optimizer, names):
    """The flat form as states and groups, the groups as the optimizer has them."""
    states, groups = {}, []
    for group in optimizer.param_groups:
        mine = [names[param] for param in group[_PARAMS]]
        options = {}
        for name in mine:
            for key, value in flat.items():
                if key.startswith(_STATE + "." + name + "."):
                    states.setdefault(name, {})[key[len(_STATE) + len(name) + 2:]] = value
                elif key.startswith(_GROUPS + "." + name + "."):
                    options[key[len(_GROUPS) + len(name) + 2:]] = value
        groups.append({**options, _PARAMS: mine})
    return states, groups


def _load_optimizer(model, optimizer, given):
    names = _names(model)
    states, groups = (given[_STATE], given[_GROUPS]) if _GROUPS in given else _nested(given, optimizer, names)
    own = optimizer.state_dict()
    saved = {_STATE: {}, _GROUPS: []}
    for group, numbers in zip(optimizer.param_groups, own[_GROUPS]):
        mine = [names[param] for param in group[_PARAMS]]
        found = next((other for other in groups if set(mine) & set(other[_PARAMS])), None)
        if mine and found is None:
            raise RuntimeError(f"the state dict has no parameter group with any of {mine}")
        saved[_GROUPS].append({**numbers, **{key: value for key, value in (found or {}).items() if key != _PARAMS}})
        saved[_STATE].update({number: states[name] for number, name in zip(numbers[_PARAMS], mine) if name in states})
    optimizer.load_state_dict(saved)


def set_optimizer_state_dict(model, optimizers, optim_state_dict, *, options=None):
    """Load the optimizers."""
    for optimizer in _all_of(optimizers):
        _load_optimizer(model, optimizer, optim_state_dict)


def set_state_dict(model, optimizers, *, model_state_dict, optim_state_dict, options=None):
    """Load the model and the optimizers; the model's keys that are missing or unexpected."""
    keys = set_model_state_dict(model, model_state_dict, options=options)
    set_optimizer_state_dict(model, optimizers, optim_state_dict, options=options)
    return keys
