"""FullyShardedDataParallel: a wrapper whose module's parameters are one flat parameter, of which each process has a piece (FSDP1)."""
import contextlib
import math

import rushlight as torch
import rushlight.distributed as dist
from rushlight import nn

from ..device_mesh import DeviceMesh
from ..utils import _to_kwargs
from ..tensor import DTensor, Shard, distribute_tensor
from ._groups import Flat, Group, Places, cast
from ._traversal_utils import own_modules
from .api import *  # noqa: F401,F403
from .api import (FullOptimStateDictConfig, FullStateDictConfig, LocalOptimStateDictConfig, LocalStateDictConfig, ShardedOptimStateDictConfig,
                  ShardedStateDictConfig, ShardingStrategy, StateDictSettings, StateDictType)
from .wrap import wrap_children

__all__ = ["FullyShardedDataParallel", "FlatParameter"]
FSDP_WRAPPED_MODULE, FLAT_PARAM = "_fsdp_wrapped_module", "_flat_param"
_PREFIX = FSDP_WRAPPED_MODULE + "."
_CONFIGS = {StateDictType.FULL_STATE_DICT: (FullStateDictConfig, FullOptimStateDictConfig),
            StateDictType.LOCAL_STATE_DICT: (LocalStateDictConfig, LocalOptimStateDictConfig),
            StateDictType.SHARDED_STATE_DICT: (ShardedStateDictConfig, ShardedOptimStateDictConfig)}
FlatParameter = nn.Parameter


_whole_names = []  # not empty: inside of summon_full_params
_inside = []  # not empty: a wrapper around this one makes the state dict


@contextlib.contextmanager
def _wrappers_as_modules():
    _inside.append(True)
    try:
        yield
    finally:
        _inside.pop()


def _clean(name):
    return name.replace(_PREFIX, "")


def _named_states(model, optim, sharded, rank0_only):
    """An optimizer's state dict by the names of a model's parameters; all ranks call it."""
    state = {}
    for prefix, w in _wrappers(model):
        if w._handle is not None:
            for name, values in w._whole_states(optim).items():
                if sharded:
                    values = {k: distribute_tensor(v, w._mesh(), w._cut(), src_data_rank=None) if isinstance(v, torch.Tensor) and v.dim() else v
                              for k, v in values.items()}
                state[prefix + name] = values
    if rank0_only and dist.get_rank() != 0:
        return {}
    groups = [{**{k: v for k, v in g.items() if k != "params"}, "params": _names_of(model, g["params"])} for g in optim.param_groups]
    return {"state": state, "param_groups": groups}


class FullyShardedDataParallel(nn.Module):
    """Keeps its module's parameters in pieces between uses; modules inside that an auto_wrap_policy names get wrappers of their own."""

    def __init__(self, module, process_group=None, sharding_strategy=None, cpu_offload=None, auto_wrap_policy=None, backward_prefetch=None,
                 mixed_precision=None, ignored_modules=None, param_init_fn=None, device_id=None, sync_module_states=False, forward_prefetch=False,
                 limit_all_gathers=True, use_orig_params=False, ignored_states=None, device_mesh=None):
        super().__init__()
        if process_group is not None and device_mesh is not None:
            raise ValueError("Cannot pass both process_group and device_mesh at the same time. Please just pass only one of them.")
        self.sharding_strategy = sharding_strategy or ShardingStrategy.FULL_SHARD
        self.mixed_precision, self._use_orig_params = mixed_precision or MixedPrecision(), use_orig_params  # noqa: F405
        self._device_mesh = device_mesh
        self.process_group, self._copy_group = self._groups_of(process_group, device_mesh)
        self._settings = StateDictSettings(StateDictType.FULL_STATE_DICT, FullStateDictConfig(), FullOptimStateDictConfig())
        ignored = {m for top in (*(ignored_modules or ()), *(s for s in ignored_states or () if isinstance(s, nn.Module))) for m in top.modules()}
        left_out = {p for p in ignored_states or () if isinstance(p, nn.Parameter)}
        if auto_wrap_policy is not None:
            given = dict(process_group=process_group, device_mesh=device_mesh, sharding_strategy=sharding_strategy, cpu_offload=cpu_offload,
                         mixed_precision=mixed_precision, ignored_modules=ignored_modules, param_init_fn=param_init_fn, device_id=device_id,
                         sync_module_states=sync_module_states, use_orig_params=use_orig_params, ignored_states=ignored_states)
            wrap_children(module, auto_wrap_policy, lambda child, **options: type(self)(child, **{**given, **options}), ignored)
        own = [m for m in own_modules(module, lambda m: isinstance(m, FullyShardedDataParallel)) if m not in ignored]
        device = self._device_of(device_id)
        self._materialize(own, param_init_fn, device or torch.accelerator.current_accelerator(check_available=True) or "cpu")
        if device is not None:
            for t in (t for m in own for t in (*m._parameters.values(), *m._buffers.values()) if t is not None and t not in left_out):
                t.data = t.data.to(device)
        if sync_module_states:
            self._synchronize(own)
        for m in own:
            for name, b in m._buffers.items():
                if b is not None and b.is_floating_point() and self.mixed_precision.buffer_dtype is not None:
                    m._buffers[name] = b.to(self.mixed_precision.buffer_dtype)
        self._fsdp_wrapped_module, self._handle = module, None
        places = Places(own, left_out)
        if places.params:
            self._make_handle(places)

    @staticmethod
    def _device_of(device_id):
        """The device that the argument means, with its index."""
        if device_id is None:
            return None
        device = torch.device(torch.accelerator.current_accelerator().type, device_id) if isinstance(device_id, int) else torch.device(device_id)
        return torch.device(device.type, torch.accelerator.current_device_index()) if device.type != "cpu" and device.index is None else device

    def _groups_of(self, group, mesh):
        """(the group over which parameters are cut, that over which they are copied)"""
        if mesh is not None:
            return (mesh.get_group(1), mesh.get_group(0)) if mesh.ndim == 2 else (mesh.get_group(0), None)
        if isinstance(group, tuple):
            return group
        world = group or dist.distributed_c10d._get_default_group()
        return world, None

    @staticmethod
    def _materialize(modules, param_init_fn, device):
        for m in modules:
            if any(p is not None and p.device.type == "meta" for p in (*m._parameters.values(), *m._buffers.values())):
                if param_init_fn is not None:
                    param_init_fn(m)
                else:
                    m.to_empty(device=device, recurse=False)
                    m.reset_parameters()

    def _synchronize(self, modules):
        group = self.process_group
        for m in modules:
            for t in (*m._parameters.values(), *m._buffers.values()):
                if t is not None:
                    dist.broadcast(t.detach(), group=group, group_src=0)
                    if self._copy_group is not None:
                        dist.broadcast(t.detach(), group=self._copy_group, group_src=0)

    def _make_handle(self, places):
        strategy, group, copies = self.sharding_strategy, self.process_group, self._copy_group
        if strategy == ShardingStrategy.NO_SHARD:
            group, copies = None, group
        layout = Flat(places, group.size() if group is not None else 1, group.rank() if group is not None else 0, self._use_orig_params)
        keeps = strategy in (ShardingStrategy.SHARD_GRAD_OP, ShardingStrategy._HYBRID_SHARD_ZERO2, ShardingStrategy.NO_SHARD)
        handle = Group(layout, places.params, layout.flat.device, group, copies, not keeps, self.mixed_precision.param_dtype, self.mixed_precision.reduce_dtype)
        layout.place(None)
        if not self._use_orig_params:
            self._fsdp_wrapped_module._parameters[FLAT_PARAM] = layout.flat
        self._handle, self._names = handle, self._named_places(places)

    def _named_places(self, places):
        """The parameters' names within this wrapper, without the wrappers' parts."""
        names = {id(m): _clean(name + ".") if name else "" for name, m in self._fsdp_wrapped_module.named_modules()}
        return [names[id(at[0][0])] + at[0][1] for at in places.at]

    @property
    def module(self):
        return self._fsdp_wrapped_module

    def __getattr__(self, name):
        try:
            return super().__getattr__(name)
        except AttributeError:
            return getattr(super().__getattr__(FSDP_WRAPPED_MODULE), name)

    def __getitem__(self, key):
        return self.module[key]

    def check_is_root(self):
        return True

    def forward(self, *args, **kwargs):
        if self._handle is not None:
            self._handle.before_forward()
            if self._handle.device.type != "cpu":
                (args,), (kwargs,) = _to_kwargs(args, kwargs, self._handle.device, False)
        if self.mixed_precision.param_dtype is not None:
            args, kwargs = cast(args, self.mixed_precision.param_dtype), cast(kwargs, self.mixed_precision.param_dtype)
        out = self._fsdp_wrapped_module(*args, **kwargs)
        if self._handle is not None:
            self._handle.after_forward(out)
        return out

    @staticmethod
    def fsdp_modules(module, root_only=False):
        found = [m for m in module.modules() if isinstance(m, FullyShardedDataParallel)]
        return found[:1] if root_only else found

    @contextlib.contextmanager
    def no_sync(self):
        """Accumulate whole gradients on each process; the next backward pass outside sums them."""
        handles = [m._handle for m in self.fsdp_modules(self) if m._handle is not None]
        before = [h.sync for h in handles]
        for h in handles:
            h.sync = False
        try:
            yield
        finally:
            for h, sync in zip(handles, before):
                h.sync = sync

    def register_comm_hook(self, state, hook):
        """hook(state, gradients, piece) sums over the processes and divides, instead of this class; without a piece where nothing is cut."""
        if not self.check_is_root():
            raise AssertionError("register_comm_hook can only be called on a root instance.")
        for handle in (m._handle for m in self.fsdp_modules(self)):
            if handle is None:
                continue
            if handle.copy_group is not None and handle.shard_group is not None:
                raise AssertionError(f"Communication hook is not supported for hybrid strategies: {self.sharding_strategy}")
            if handle.hook is not None:
                raise AssertionError("A communication hook is already registered")
            handle.hook = state, hook

    def apply(self, fn):
        with self.summon_full_params(self):
            return super().apply(fn)

    @staticmethod
    @contextlib.contextmanager
    def summon_full_params(module, recurse=True, writeback=True, rank0_only=False, offload_to_cpu=False, with_grads=False):
        """Inside, parameters are whole; what is changed in them is kept (writeback)."""
        if writeback and rank0_only:
            raise NotImplementedError("writeback=True and rank0_only=True is not supported, since changes of one process would be lost")
        wrappers = FullyShardedDataParallel.fsdp_modules(module) if recurse else [module]
        handles = [w._handle for w in wrappers if w._handle is not None]
        flats = [(w._fsdp_wrapped_module._parameters, w._fsdp_wrapped_module._parameters.pop(FLAT_PARAM)) for w in wrappers
                 if FLAT_PARAM in w._fsdp_wrapped_module._parameters]
        for h in handles:
            h.unshard()
        _whole_names.append(True)
        try:
            yield
        finally:
            _whole_names.pop()
            for h in handles:
                if writeback:
                    h.keep()
                h.reshard()
            for parameters, flat in flats:
                parameters[FLAT_PARAM] = flat

    @torch.no_grad()
    def clip_grad_norm_(self, max_norm, norm_type=2.0):
        """The norm of all gradients of all processes, which are scaled so that it is at most max_norm."""
        order, total, grads, seen = float(norm_type), torch.zeros((), device=self._own_device()), [], set()
        for w in self.fsdp_modules(self):
            if w._handle is not None and w._handle.layout.flat.grad is not None:
                grad = w._handle.layout.flat.grad
                part = torch.linalg.vector_norm(grad.float(), order)
                part = part if order == math.inf else part ** order
                if w._handle.shard_group is not None:
                    dist.all_reduce(part, dist.ReduceOp.MAX if order == math.inf else dist.ReduceOp.SUM, w._handle.shard_group)
                total = torch.maximum(total, part) if order == math.inf else total + part
                grads.append(grad)
                seen.update(map(id, (w._handle.layout.flat, *(w._handle.layout.pieces or ()))))
        for p in self.parameters():
            if id(p) not in seen and p.grad is not None:
                part = torch.linalg.vector_norm(p.grad.float(), order)
                total = torch.maximum(total, part) if order == math.inf else total + part ** order
                grads.append(p.grad)
        total = total if order == math.inf else total ** (1 / order)
        scale = torch.clamp(max_norm / (total + 1e-6), max=1.0)
        for grad in grads:
            grad.mul_(scale.to(grad.dtype))
        return total

    # ---- state dicts

    @staticmethod
    def set_state_dict_type(module, state_dict_type, state_dict_config=None, optim_state_dict_config=None):
        """Of what kind state dicts are from now on; returns how it was."""
        configs = _CONFIGS[state_dict_type]
        settings = StateDictSettings(state_dict_type, state_dict_config or configs[0](), optim_state_dict_config or configs[1]())
        for config, kind in zip((settings.state_dict_config, settings.optim_state_dict_config), configs):
            if not isinstance(config, kind):
                raise RuntimeError(f"Expected state_dict_config of type {kind} but got {type(config)}")
        before = None
        for w in FullyShardedDataParallel.fsdp_modules(module):
            before, w._settings = before or w._settings, settings
        return before

    @staticmethod
    def get_state_dict_type(module):
        return FullyShardedDataParallel.fsdp_modules(module)[0]._settings

    @staticmethod
    @contextlib.contextmanager
    def state_dict_type(module, state_dict_type, state_dict_config=None, optim_state_dict_config=None):
        before = FullyShardedDataParallel.set_state_dict_type(module, state_dict_type, state_dict_config, optim_state_dict_config)
        try:
            yield
        finally:
            if before is not None:
                FullyShardedDataParallel.set_state_dict_type(module, before.state_dict_type, before.state_dict_config, before.optim_state_dict_config)

    def named_parameters(self, *args, **kwargs):
        """Where parameters are whole, names are those of the module without wrappers."""
        for name, p in super().named_parameters(*args, **kwargs):
            yield (_clean(name) if _whole_names else name), p

    def _own_device(self):
        """Where its parameters, or those of a wrapper inside, are."""
        return next((w._handle.device for w in self.fsdp_modules(self) if w._handle is not None), torch.device("cpu"))

    def _mesh(self):
        if self._device_mesh is None:
            self._device_mesh = DeviceMesh.from_group(self.process_group, self._own_device().type)
        return self._device_mesh

    def state_dict(self, *args, destination=None, prefix="", keep_vars=False):
        kind, config = self._settings.state_dict_type, self._settings.state_dict_config
        if kind == StateDictType.LOCAL_STATE_DICT or _inside:
            return super().state_dict(*args, destination=destination, prefix=prefix, keep_vars=keep_vars)
        out = {} if destination is None else destination
        with self.summon_full_params(self, writeback=False), _wrappers_as_modules():
            whole = nn.Module.state_dict(self, prefix=prefix)
            params = {prefix + _clean(name) for name, p in self.named_parameters()}
            if kind == StateDictType.FULL_STATE_DICT and getattr(config, "rank0_only", False) and self.process_group.rank() != 0:
                return out
            for name, value in whole.items():
                name = _clean(name)
                if not isinstance(value, torch.Tensor):
                    out[name] = value
                elif kind == StateDictType.SHARDED_STATE_DICT and name in params and value.dim():
                    out[name] = distribute_tensor(value.detach(), self._mesh(), self._cut(), src_data_rank=None)
                else:
                    out[name] = value.detach().clone()
        return out

    def _cut(self):
        from ..tensor import Replicate
        return [Shard(0)] if self._mesh().ndim == 1 else [Replicate(), Shard(0)]

    def load_state_dict(self, state_dict, strict=True, assign=False):
        kind = self._settings.state_dict_type
        if kind == StateDictType.LOCAL_STATE_DICT:
            return super().load_state_dict(state_dict, strict, assign)
        state_dict = {name: value.full_tensor() if isinstance(value, DTensor) else value for name, value in state_dict.items()}
        with self.summon_full_params(self), _wrappers_as_modules():
            names = {_clean(name): name for name in nn.Module.state_dict(self)}
            result = nn.Module.load_state_dict(self, {names.get(name, name): value for name, value in state_dict.items()}, strict)
        result.missing_keys[:] = [_clean(name) for name in result.missing_keys]
        return result

    # ---- states of optimizers, by the parameters' names

    @staticmethod
    def optim_state_dict(model, optim, optim_state_dict=None, group=None):
        """The optimizer's state dict with whole tensors (or DTensors) under the parameters' names."""
        settings = FullyShardedDataParallel.get_state_dict_type(model)
        sharded = settings.state_dict_type == StateDictType.SHARDED_STATE_DICT
        return _named_states(model, optim, sharded, not sharded and getattr(settings.optim_state_dict_config, "rank0_only", False))

    @staticmethod
    def full_optim_state_dict(model, optim, optim_input=None, rank0_only=True, group=None):
        """optim_state_dict() with whole tensors whatever the state dict's type is; with rank0_only an empty one but on rank 0."""
        return _named_states(model, optim, False, rank0_only)

    @staticmethod
    def sharded_optim_state_dict(model, optim, group=None):
        """optim_state_dict() with DTensors whatever the state dict's type is."""
        return _named_states(model, optim, True, False)

    def _rows(self, optim, key, like):
        """This process's piece of a state of all parameters."""
        layout = self._handle.layout
        if not layout.original:
            return optim.state[layout.flat][key]
        return torch.cat([optim.state[p][key].reshape(-1) if key in optim.state.get(p, {}) else layout.flat.new_zeros(end - first)
                          for p, (first, end) in zip(layout.pieces, layout.spans())] + [layout.flat.new_zeros(layout.each - sum(b - a for a, b in layout.spans()))])

    def _whole_states(self, optim):
        layout, states = self._handle.layout, {name: {} for name in self._names}
        own = layout.pieces if layout.original else [layout.flat]
        found = next((optim.state[p] for p in own if optim.state.get(p)), {})
        keys = [None] * (self._handle.shard_group.size() if self._handle.shard_group is not None else 1)
        if len(keys) > 1:
            dist.all_gather_object(keys, {k: isinstance(v, torch.Tensor) and v.dim() > 0 for k, v in found.items()}, self._handle.shard_group)
        else:
            keys = [{k: isinstance(v, torch.Tensor) and v.dim() > 0 for k, v in found.items()}]
        for key, spread in max(keys, key=len).items():
            if not spread:
                for name in self._names:
                    states[name][key] = found.get(key)
                continue
            row = self._rows(optim, key, found).contiguous()
            buffer = row if layout.parts == 1 else row.new_empty(layout.parts * row.numel())
            if layout.parts > 1:
                dist.all_gather_into_tensor(buffer, row, self._handle.shard_group)
            for name, value in zip(self._names, layout.wholes(buffer.view(layout.parts, -1))):
                states[name][key] = value.clone()
        return states

    @staticmethod
    def optim_state_dict_to_load(model, optim, optim_state_dict, is_named_optimizer=False, load_directly=False, group=None):
        """A state dict of optim_state_dict() as this process's optimizer loads it."""
        own = optim.state_dict()
        numbers = {p: n for g, saved in zip(optim.param_groups, own["param_groups"]) for p, n in zip(g["params"], saved["params"])}
        state = {}
        for prefix, w in _wrappers(model):
            if w._handle is None:
                continue
            layout = w._handle.layout
            given = [optim_state_dict["state"].get(prefix + name, {}) for name in w._names]
            keys = {k: isinstance(v, torch.Tensor) and v.dim() > 0 for values in given for k, v in values.items()}
            for key, spread in keys.items():
                if not spread:
                    value = next(values[key] for values in given if key in values)
                    for p in layout.pieces or [layout.flat]:
                        state.setdefault(numbers[p], {})[key] = value.clone() if isinstance(value, torch.Tensor) else value
                    continue
                wholes = [values[key] if key in values else layout.flat.new_zeros(shape) for values, shape in zip(given, layout.shapes)]
                flat = torch.cat([(v.full_tensor() if isinstance(v, DTensor) else v).reshape(-1) for v in wholes])
                flat = torch.cat([flat, flat.new_zeros(layout.each * layout.parts - flat.numel())])
                row = flat[layout.rank * layout.each:(layout.rank + 1) * layout.each].clone()
                for p, (first, end) in zip(layout.pieces, layout.spans()) if layout.original else [(layout.flat, (0, layout.each))]:
                    state.setdefault(numbers[p], {})[key] = row[first:end].clone()
        groups = [{**{k: v for k, v in given.items() if k != "params"}, "params": saved["params"]}
                  for given, saved in zip(optim_state_dict["param_groups"], own["param_groups"])]
        made = {"state": state, "param_groups": groups}
        if load_directly:
            optim.load_state_dict(made)
        return made


def _wrappers(model):
    """(the clean name before that of its parameters, wrapper)"""
    for name, m in model.named_modules():
        if isinstance(m, FullyShardedDataParallel):
            yield _clean(name + "." if name else ""), m


def _names_of(model, params):
    """The names of the parameters of which an optimizer's are made."""
    names = {}
    for prefix, w in _wrappers(model):
        if w._handle is not None:
            layout = w._handle.layout
            if layout.original:
                names.update({id(p): [prefix + n] for p, n in zip(layout.pieces, w._names)})
            else:
                names[id(layout.flat)] = [prefix + n for n in w._names]
    plain = {id(p): [_clean(n)] for n, p in model.named_parameters()}
    return [n for p in params for n in names.get(id(p), plain.get(id(p), []))]
