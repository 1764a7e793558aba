"""State dicts in which optimizers name parameters as the model does, so that they fit a model built anew.

Entries of models in pieces are DTensors, or whole tensors with full_state_dict; either fits a model in pieces of any number.
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


def _is_dtensor(x):
    return hasattr(x, "_spec")


def _placed(value, options):
    """value, with its tensors whole or on the CPU where that is asked for."""
    if options.full_state_dict:
        value = torch.utils._pytree.tree_map_only(torch.Tensor, lambda t: t.detach().full_tensor() if _is_dtensor(t) else t, value)
    if not options.cpu_offload:
        return value
    return torch.utils._pytree.tree_map_only(torch.Tensor, lambda t: t.cpu(), value)


def _here(state, options):
    """With whole tensors on the CPU, only one process keeps them."""
    alone = not torch.distributed.is_initialized() or torch.distributed.get_rank() == 0
    return state if alone or not (options.full_state_dict and options.cpu_offload) else {}


def _from_first(state, options):
    """The state dict of the first process, everywhere."""
    if not options.broadcast_from_rank0 or not torch.distributed.is_initialized():
        return state
    if not options.full_state_dict:
        raise ValueError("full_state_dict must be True when broadcast_from_rank0 is True.")
    box = [state]
    torch.distributed.broadcast_object_list(box, src=0)
    return box[0]


def _as_own(own, given):
    """A tensor as the model has it: a piece of a whole one, or pieces cut otherwise."""
    if not _is_dtensor(own) or not isinstance(given, torch.Tensor) or not given.dim():
        return given
    if _is_dtensor(given):
        return given if given.placements == own.placements and given.device_mesh == own.device_mesh else _as_own(own, given.detach().full_tensor())
    from ..tensor import distribute_tensor
    return distribute_tensor(given.detach(), own.device_mesh, own.placements, src_data_rank=None)


def _fsdp(model):
    """FullyShardedDataParallel, if it wraps something of the model."""
    from ..fsdp import FullyShardedDataParallel
    return FullyShardedDataParallel if FullyShardedDataParallel.fsdp_modules(model) else None


def _fsdp_type(model, options):
    from ..fsdp import StateDictType
    return _fsdp(model).state_dict_type(model, StateDictType.FULL_STATE_DICT if options.full_state_dict else StateDictType.SHARDED_STATE_DICT)


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
    with _fsdp_type(model, options) if _fsdp(model) else contextlib.nullcontext():
        whole = model.state_dict()
    return _here({_without_prefix(model, submodules, options, key): _placed(value, options)
                  for key, value in whole.items() if keep(key)}, options)


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
    if _fsdp(model):
        for optimizer in _all_of(optimizers):
            with _states_made(optimizer), _fsdp_type(model, options):
                made = _fsdp(model).optim_state_dict(model, optimizer)
            states.update(_placed(made[_STATE], options))
            groups.extend(made[_GROUPS])
        return _here({_STATE: states, _GROUPS: groups}, options)
    for optimizer in _all_of(optimizers):
        more, more_groups = _one_optimizer(model, optimizer, keep, options)
        states.update(more)
        groups.extend(more_groups)
    return _here(_flattened(states, groups) if options.flatten_optimizer_state_dict else {_STATE: states, _GROUPS: groups}, options)


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
    state = _from_first(_with_prefixes(model, model_state_dict), options)
    if not _fsdp(model):
        own = model.state_dict()
        state = {key: _as_own(own.get(key), value) for key, value in state.items()}
        if options.full_state_dict and any(isinstance(value, torch.Tensor) and value.is_meta for value in own.values()):
            return model.load_state_dict(state, strict=options.strict, assign=True)  # there is no memory to copy into
    return model.load_state_dict(state, strict=options.strict)


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
        saved[_STATE].update({number: {key: _as_own(param, value) for key, value in states[name].items()}
                              for number, name, param in zip(numbers[_PARAMS], mine, group[_PARAMS]) if name in states})
    optimizer.load_state_dict(saved)


def set_optimizer_state_dict(model, optimizers, optim_state_dict, *, options=None):
    """Load the optimizers."""
    optim_state_dict = _from_first(optim_state_dict, options or StateDictOptions())
    for optimizer in _all_of(optimizers):
        if _fsdp(model):
            optimizer.load_state_dict(_fsdp(model).optim_state_dict_to_load(model, optimizer, optim_state_dict))
            continue
        _load_optimizer(model, optimizer, optim_state_dict)


def set_state_dict(model, optimizers, *, model_state_dict, optim_state_dict, options=None):
    """Load the model and the optimizers; the model's keys that are missing or unexpected."""
    keys = set_model_state_dict(model, model_state_dict, options=options)
    set_optimizer_state_dict(model, optimizers, optim_state_dict, options=options)
    return keys
