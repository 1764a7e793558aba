"""Tensors of a module that are computed from others.

A parametrised tensor lives in `module.parametrizations.<name>` as `original` (or original0, original1, ...
when the inverse gives several), and the module gets a class of its own in which `<name>` is a property
that computes the value.  Inside `cached()` the value is computed once.
"""
import collections
import copy
from contextlib import contextmanager

import rushlight as torch
from rushlight.nn.modules.container import ModuleDict, ModuleList
from rushlight.nn.parameter import Parameter

__all__ = ["cached", "ParametrizationList", "register_parametrization", "is_parametrized", "remove_parametrizations",
           "type_before_parametrizations", "transfer_parametrizations_and_params"]

_cache_enabled = 0
_cache = {}


@contextmanager
def cached():
    """Inside the block every parametrised tensor is computed once.

    No parameters.

    >>> from torch.nn.utils import parametrize
    >>> class Positive(nn.Module):
    ...     def forward(self, x):
    ...         return x.abs()
    >>> layer = nn.Linear(2, 2)
    >>> _ = parametrize.register_parametrization(layer, "weight", Positive())
    >>> with parametrize.cached():
    ...     print(layer.weight is layer.weight)
    True
    """
    global _cache, _cache_enabled
    _cache_enabled += 1
    try:
        yield
    finally:
        _cache_enabled -= 1
        if not _cache_enabled:
            _cache = {}


def _register_parameter_or_buffer(module, name, X):
    if isinstance(X, Parameter):
        module.register_parameter(name, X)
    else:
        module.register_buffer(name, X)


def _maybe_set(dest, src):
    """Give `dest` the storage of `src`; optimizers keep their tensor."""
    swap = torch.__future__.get_swap_module_params_on_conversion()
    if swap:
        if isinstance(dest, Parameter) and not isinstance(src, Parameter):
            src = Parameter(src, requires_grad=dest.requires_grad)
        torch.utils.swap_tensors(dest, src)
    else:
        dest.set_(src)


class ParametrizationList(ModuleList):
    """The original tensor and the parametrisations that make the value of it, in order.

    modules: the parametrisations; original: the tensor; unsafe: do not check shapes and dtypes.

    >>> from torch.nn.utils import parametrize
    >>> class Positive(nn.Module):
    ...     def forward(self, x):
    ...         return x.abs()
    >>> layer = nn.Linear(2, 2)
    >>> _ = parametrize.register_parametrization(layer, "weight", Positive())
    >>> type(layer.parametrizations.weight).__name__, layer.parametrizations.weight.original.shape
    ('ParametrizationList', torch.Size([2, 2]))
    """

    def __init__(self, modules, original, unsafe=False):
        if len(modules) == 0:
            raise ValueError("ParametrizationList requires one or more modules.")
        super().__init__(modules)
        self.unsafe = unsafe
        shape, dtype = original.shape, original.dtype
        with torch.no_grad():
            new = original
            for module in reversed(self):
                if not hasattr(module, "right_inverse"):
                    continue
                try:
                    new = module.right_inverse(new)
                except NotImplementedError:
                    break       # this one has no inverse: the original stays as it is
        if not isinstance(new, torch.Tensor) and not isinstance(new, collections.abc.Sequence):
            raise ValueError("'right_inverse' must return a Tensor or a Sequence of tensors (list, tuple...). Got "
                             f"{type(new).__name__}")
        self.is_tensor = isinstance(new, torch.Tensor)
        self.ntensors = 1 if self.is_tensor else len(new)
        if self.is_tensor:
            if original.dtype != new.dtype:
                raise ValueError("When `right_inverse` outputs one tensor, it may not change the dtype.\n"
                                 f"original.dtype: {original.dtype}\nright_inverse(original).dtype: {new.dtype}")
            if original.device != new.device:
                raise ValueError("When `right_inverse` outputs one tensor, it may not change the device.\n"
                                 f"original.device: {original.device}\nright_inverse(original).device: {new.device}")
            with torch.no_grad():
                _maybe_set(original, new)
            _register_parameter_or_buffer(self, "original", original)
        else:
            for i, part in enumerate(new):
                if not isinstance(part, torch.Tensor):
                    raise ValueError("'right_inverse' must return a Tensor or a Sequence of tensors (list, tuple...). "
                                     f"Got element {i} of the sequence with type {type(part).__name__}.")
                if isinstance(original, Parameter):
                    part = Parameter(part, original.requires_grad)
                part.requires_grad_(original.requires_grad)
                _register_parameter_or_buffer(self, f"original{i}", part)
        if not unsafe:
            value = self()
            if not isinstance(value, torch.Tensor):
                raise ValueError(f"A parametrization must return a tensor. Got {type(value).__name__}.")
            if value.dtype != dtype:
                raise ValueError("Registering a parametrization may not change the dtype of the tensor, unless "
                                 f"`unsafe` flag is enabled.\nunparametrized dtype: {dtype}\nparametrized dtype: "
                                 f"{value.dtype}")
            if value.shape != shape:
                raise ValueError("Registering a parametrization may not change the shape of the tensor, unless "
                                 f"`unsafe` flag is enabled.\nunparametrized shape: {shape}\nparametrized shape: "
                                 f"{value.shape}")

    def right_inverse(self, value):
        """Set the original so that the value becomes `value`."""
        with torch.no_grad():
            for module in reversed(self):
                if not hasattr(module, "right_inverse"):
                    raise RuntimeError(f"parametrization {type(module).__name__} does not implement right_inverse.")
                value = module.right_inverse(value)
            if self.is_tensor:
                if not isinstance(value, torch.Tensor):
                    raise ValueError(f"`right_inverse` should return a tensor. Got {type(value).__name__}")
                if value.dtype != self.original.dtype:
                    raise ValueError("The tensor returned by `right_inverse` has dtype "
                                     f"{value.dtype} while `original` has dtype {self.original.dtype}")
                _maybe_set(self.original, value)
                return
            if not isinstance(value, collections.abc.Sequence):
                raise ValueError("'right_inverse' must return a sequence of tensors. Got " f"{type(value).__name__}.")
            if len(value) != self.ntensors:
                raise ValueError("'right_inverse' must return a sequence of tensors of length "
                                 f"{self.ntensors}. Got a sequence of length {len(value)}.")
            for i, part in enumerate(value):
                own = getattr(self, f"original{i}")
                if not isinstance(part, torch.Tensor):
                    raise ValueError(f"`right_inverse` must return a sequence of tensors. Got element {i} of type "
                                     f"{type(part).__name__}")
                if own.dtype != part.dtype:
                    raise ValueError(f"Tensor {i} returned by `right_inverse` has dtype {part.dtype} while "
                                     f"`original{i}` has dtype {own.dtype}")
                _maybe_set(own, part)

    def forward(self):
        if self.is_tensor:
            value = self[0](self.original)
        else:
            value = self[0](*(getattr(self, f"original{i}") for i in range(self.ntensors)))
        for place in range(1, len(self)):
            value = self[place](value)
        return value


def _inject_new_class(module):
    """Give the module a class of its own, derived from its class, to hold properties."""
    base = type(module)

    def default_deepcopy(self, memo):
        found = memo.get(id(self))
        if found is not None:
            return found
        replica = self.__new__(type(self))
        memo[id(self)] = replica
        replica.__dict__ = copy.deepcopy(self.__dict__, memo)
        return replica

    def getstate(self):
        raise RuntimeError("Serialization of parametrized modules is only supported through state_dict(). See:\n"
                           "https://pytorch.org/tutorials/beginner/saving_loading_models.html"
                           "#saving-loading-a-general-checkpoint-for-inference-and-or-resuming-training")

    members = {"__getstate__": getstate}
    if not hasattr(base, "__deepcopy__"):
        members["__deepcopy__"] = default_deepcopy
    module.__class__ = type(f"Parametrized{base.__name__}", (base,), members)


def _inject_property(module, tensor_name):
    """Make `tensor_name` a property of the module's class that computes the value."""
    if hasattr(module, tensor_name) and tensor_name not in ("original",):
        raise AssertionError(f"Module already has an attribute named '{tensor_name}'")

    def get(self):
        parametrization = self.parametrizations[tensor_name]
        if not _cache_enabled:
            return parametrization()
        key = (id(self), tensor_name)
        value = _cache.get(key)
        if value is None:
            value = _cache[key] = parametrization()
        return value

    def put(self, value):
        self.parametrizations[tensor_name].right_inverse(value)

    setattr(type(module), tensor_name, property(get, put))


def register_parametrization(module, tensor_name, parametrization, *, unsafe=False):
    """From now on `module.tensor_name` is `parametrization(original)`.

    module: is changed and returned; tensor_name: of a parameter or buffer; parametrization: a module; unsafe: do not check shapes and dtypes.

    >>> from torch.nn.utils import parametrize
    >>> class Positive(nn.Module):
    ...     def forward(self, x):
    ...         return x.abs()
    >>> layer = nn.Linear(2, 2)
    >>> _ = parametrize.register_parametrization(layer, "weight", Positive())
    >>> bool((layer.weight >= 0).all())
    True
    """
    parametrization.train(module.training)
    if is_parametrized(module, tensor_name):
        # One more on top of those that are there.
        if not unsafe:
            value = getattr(module, tensor_name)
            new = parametrization(value)
            if not isinstance(new, torch.Tensor):
                raise ValueError(f"A parametrization must return a tensor. Got {type(new).__name__}.")
            if new.dtype != value.dtype:
                raise ValueError("Registering a parametrization may not change the dtype of the tensor, unless the "
                                 "`unsafe` flag is enabled.\n"
                                 f"module.{tensor_name}.dtype: {value.dtype}\nparametrization(module.{tensor_name})"
                                 f".dtype: {new.dtype}")
            if new.shape != value.shape:
                raise ValueError("Registering a parametrization may not change the shape of the tensor, unless the "
                                 "`unsafe` flag is enabled.\n"
                                 f"module.{tensor_name}.shape: {value.shape}\nparametrization(module.{tensor_name})"
                                 f".shape: {new.shape}")
            if hasattr(parametrization, "right_inverse"):
                try:
                    back = parametrization.right_inverse(new)
                except NotImplementedError:
                    back = None
                if back is not None:
                    if not isinstance(back, torch.Tensor):
                        raise ValueError("parametrization.right_inverse must return a tensor. Got: "
                                         f"{type(back).__name__}")
                    if back.dtype != value.dtype:
                        raise ValueError("The tensor returned by parametrization.right_inverse must have the same "
                                         f"dtype as module.{tensor_name}, unless the `unsafe` flag is enabled.\n"
                                         f"module.{tensor_name}.dtype: {value.dtype}\nreturned dtype: {back.dtype}")
                    if back.shape != value.shape:
                        raise ValueError("The tensor returned by parametrization.right_inverse must have the same "
                                         f"shape as module.{tensor_name}, unless the `unsafe` flag is enabled.\n"
                                         f"module.{tensor_name}.shape: {value.shape}\nreturned shape: {back.shape}")
        module.parametrizations[tensor_name].append(parametrization)
        module.parametrizations[tensor_name].unsafe |= unsafe
    elif tensor_name in module._buffers or tensor_name in module._parameters:
        original = getattr(module, tensor_name)
        chain = ParametrizationList([parametrization], original, unsafe=unsafe)
        delattr(module, tensor_name)
        if not is_parametrized(module):
            _inject_new_class(module)
            module.parametrizations = ModuleDict()
        _inject_property(module, tensor_name)
        module.parametrizations[tensor_name] = chain
    else:
        raise ValueError(f"Module '{module}' does not have a parameter, a buffer, or a parametrized element with name "
                         f"'{tensor_name}'")
    return module


def is_parametrized(module, tensor_name=None):
    """Whether the module (or one tensor of it) is parametrised.

    tensor_name: None for any.

    >>> from torch.nn.utils import parametrize
    >>> class Positive(nn.Module):
    ...     def forward(self, x):
    ...         return x.abs()
    >>> layer = nn.Linear(2, 2)
    >>> _ = parametrize.register_parametrization(layer, "weight", Positive())
    >>> parametrize.is_parametrized(layer), parametrize.is_parametrized(layer, "bias")
    (True, False)
    """
    chains = getattr(module, "parametrizations", None)
    if chains is None or not isinstance(chains, ModuleDict):
        return False
    return len(chains) > 0 if tensor_name is None else tensor_name in chains


def remove_parametrizations(module, tensor_name, leave_parametrized=True):
    """Make the tensor an ordinary one again: with its present value, or with the original one.

    module: is changed and returned; tensor_name: of the tensor; leave_parametrized: with its present value.

    >>> from torch.nn.utils import parametrize
    >>> class Positive(nn.Module):
    ...     def forward(self, x):
    ...         return x.abs()
    >>> layer = nn.Linear(2, 2)
    >>> _ = parametrize.register_parametrization(layer, "weight", Positive())
    >>> type(parametrize.remove_parametrizations(layer, "weight")).__name__
    'Linear'
    """
    if not is_parametrized(module, tensor_name):
        raise ValueError(f"Module {module} does not have a parametrization on {tensor_name}")
    chain = module.parametrizations[tensor_name]
    if chain.is_tensor:
        original = chain.original
        if leave_parametrized:
            with torch.no_grad():
                value = getattr(module, tensor_name)
            with torch.no_grad():
                if type(original) is torch.Tensor:
                    _maybe_set(original, value)
                else:
                    try:
                        _maybe_set(original, value)
                    except RuntimeError as problem:
                        raise RuntimeError("Calling remove_parametrizations() with leave_parametrized=True for a "
                                           "parameter that is an instance of a tensor subclass requires set_() to be "
                                           "implemented correctly for the tensor subclass. Alternatively, one can opt "
                                           "into the swap_tensors path. Either set leave_parametrized=False or provide "
                                           "a working implementation for set_() in the tensor subclass or set "
                                           "torch.__future__.set_swap_module_params_on_conversion(True).") from problem
    else:
        if not leave_parametrized:
            raise ValueError("Cannot leave unparametrized (`leave_parametrized=False`) a tensor that is parametrized "
                             "in terms of a sequence of tensors.")
        value = getattr(module, tensor_name)
        original = Parameter(value.detach()) if value.requires_grad else value
    delattr(type(module), tensor_name)
    del module.parametrizations[tensor_name]
    _register_parameter_or_buffer(module, tensor_name, original)
    if not is_parametrized(module):
        delattr(module, "parametrizations")
        module.__class__ = type(module).__bases__[0]
    return module


def type_before_parametrizations(module):
    """The class that the module had before it was parametrised.

    module: any.

    >>> from torch.nn.utils import parametrize
    >>> class Positive(nn.Module):
    ...     def forward(self, x):
    ...         return x.abs()
    >>> layer = nn.Linear(2, 2)
    >>> _ = parametrize.register_parametrization(layer, "weight", Positive())
    >>> type(layer).__name__, parametrize.type_before_parametrizations(layer).__name__
    ('ParametrizedLinear', 'Linear')
    """
    return type(module).__bases__[0] if is_parametrized(module) else type(module)


def transfer_parametrizations_and_params(from_module, to_module, tensor_name=None):
    """Give `to_module` the parametrisations of `from_module`, and the tensors they work on.

    from_module, to_module: the second is changed and returned; tensor_name: one tensor, or None for all.

    >>> from torch.nn.utils import parametrize
    >>> class Positive(nn.Module):
    ...     def forward(self, x):
    ...         return x.abs()
    >>> layer = nn.Linear(2, 2)
    >>> _ = parametrize.register_parametrization(layer, "weight", Positive())
    >>> parametrize.is_parametrized(parametrize.transfer_parametrizations_and_params(layer, nn.Linear(2, 2)))
    True
    """
    if not is_parametrized(from_module):
        return to_module
    if not isinstance(from_module.parametrizations, ModuleDict):
        raise AssertionError("from_module.parametrizations must be a ModuleDict")
    names = from_module.parametrizations if tensor_name is None else [tensor_name]
    if not hasattr(names, "__iter__"):
        raise AssertionError("parameters_to_transfer must be iterable")
    for name in list(names):
        if not hasattr(to_module, name):
            setattr(to_module, name, Parameter(getattr(from_module, name)))
        for parametrization in from_module.parametrizations[name]:
            register_parametrization(to_module, name, parametrization)
        chain, target = from_module.parametrizations[name], to_module.parametrizations[name]
        if chain.is_tensor:
            target.original = chain.original
        else:
            for i in range(chain.ntensors):
                setattr(target, f"original{i}", getattr(chain, f"original{i}"))
    return to_module
