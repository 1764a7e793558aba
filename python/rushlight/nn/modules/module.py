"""Module: the base of every layer - a tree of parameters, buffers and submodules that can be called.

Everything a module owns lies in three plain dictionaries (`_parameters`, `_buffers`, `_modules`)
that `__getattr__` and `__setattr__` look through; all tree walks (state dicts, casting, naming) go
over them.  The call path is at the top of the class: no hooks, no detour.  Backward hooks live in
`_functions.py`, saving and loading in `_state.py`.
"""
import warnings
from collections import OrderedDict

import rushlight as torch
from rushlight.nn.parameter import Buffer, Parameter
from rushlight.nn.modules import _functions, _state
from rushlight.nn.modules._state import _EXTRA_STATE_KEY_SUFFIX, _IncompatibleKeys, _WrappedHook
from rushlight.utils._python_dispatch import is_traceable_wrapper_subclass

__all__ = [
    "register_module_forward_pre_hook", "register_module_forward_hook", "register_module_full_backward_pre_hook",
    "register_module_backward_hook", "register_module_full_backward_hook", "register_module_buffer_registration_hook",
    "register_module_module_registration_hook", "register_module_parameter_registration_hook", "Module",
]

# Hooks that see every module of the process.
_global_buffer_registration_hooks = OrderedDict()
_global_module_registration_hooks = OrderedDict()
_global_parameter_registration_hooks = OrderedDict()
_global_backward_pre_hooks = OrderedDict()
_global_backward_hooks = OrderedDict()
_global_is_full_backward_hook = None
_global_forward_pre_hooks = OrderedDict()
_global_forward_hooks = OrderedDict()
_global_forward_hooks_always_called = OrderedDict()
_global_forward_hooks_with_kwargs = OrderedDict()


def _handle_for(hooks, hook, extra=(), prepend=False):
    """Enter `hook` in `hooks`; the handle that takes it out again also clears it from `extra`."""
    from rushlight.utils.hooks import RemovableHandle
    handle = RemovableHandle(hooks, extra_dict=list(extra) or None)
    hooks[handle.id] = hook
    if prepend:
        hooks.move_to_end(handle.id, last=False)
    return handle


def _has_any_global_hook():
    return bool(_global_backward_pre_hooks or _global_backward_hooks or _global_forward_pre_hooks
                or _global_forward_hooks or _global_forward_hooks_always_called or _global_forward_hooks_with_kwargs)


def register_module_buffer_registration_hook(hook):
    """Call `hook(module, name, buffer)` whenever any module gets a buffer; a result replaces the buffer."""
    return _handle_for(_global_buffer_registration_hooks, hook)


def register_module_module_registration_hook(hook):
    """Call `hook(module, name, submodule)` whenever any module gets a submodule."""
    return _handle_for(_global_module_registration_hooks, hook)


def register_module_parameter_registration_hook(hook):
    """Call `hook(module, name, param)` whenever any module gets a parameter."""
    return _handle_for(_global_parameter_registration_hooks, hook)


def register_module_forward_pre_hook(hook):
    """Call `hook(module, args)` before the forward of every module."""
    return _handle_for(_global_forward_pre_hooks, hook)


def register_module_forward_hook(hook, *, with_kwargs=False, always_call=False):
    """Call `hook(module, args, output)` after the forward of every module."""
    marks = (_global_forward_hooks_with_kwargs, _global_forward_hooks_always_called)
    handle = _handle_for(_global_forward_hooks, hook, marks)
    for wanted, mark in zip((with_kwargs, always_call), marks):
        if wanted:
            mark[handle.id] = True
    return handle


def _register_global_backward(hook, full):
    global _global_is_full_backward_hook
    if _global_is_full_backward_hook is (not full):
        raise RuntimeError("Cannot use both regular backward hooks and full backward hooks as a global Module "
                           "hook. Please use only one of them.")
    _global_is_full_backward_hook = full
    return _handle_for(_global_backward_hooks, hook)


def register_module_backward_hook(hook):
    """The old kind of backward hook, for every module; use `register_module_full_backward_hook`."""
    return _register_global_backward(hook, False)


def register_module_full_backward_hook(hook):
    """Call `hook(module, grad_input, grad_output)` when the gradient of any module's input is there."""
    return _register_global_backward(hook, True)


def register_module_full_backward_pre_hook(hook):
    """Call `hook(module, grad_output)` before the gradient of any module's input is computed."""
    return _handle_for(_global_backward_pre_hooks, hook)


def _addindent(s_, numSpaces):
    """Indent all lines but the first."""
    return s_.replace("\n", "\n" + " " * numSpaces)


def _forward_unimplemented(self, *input):
    """What the module computes; every subclass says it."""
    raise NotImplementedError(f'Module [{type(self).__name__}] is missing the required "forward" function')


_HOOK_DICTS = (
    "_backward_pre_hooks", "_backward_hooks", "_is_full_backward_hook", "_forward_hooks",
    "_forward_hooks_with_kwargs", "_forward_hooks_always_called", "_forward_pre_hooks",
    "_forward_pre_hooks_with_kwargs", "_state_dict_hooks", "_state_dict_pre_hooks",
    "_load_state_dict_pre_hooks", "_load_state_dict_post_hooks",
)


# The steps of Module that are not methods, so that subclasses are free to use any names.

def _call_with_hooks(module, called, args, kwargs):
    for key, hook in (*_global_forward_pre_hooks.items(), *module._forward_pre_hooks.items()):
        if key in module._forward_pre_hooks_with_kwargs:
            answer = hook(module, args, kwargs)
            if answer is None:
                continue
            if not (isinstance(answer, tuple) and len(answer) == 2):
                raise RuntimeError("forward pre-hook must return None or a tuple of (new_args, new_kwargs), "
                                   f"but got {answer}.")
            args, kwargs = answer
        else:
            answer = hook(module, args)
            if answer is not None:
                args = answer if isinstance(answer, tuple) else (answer,)

    backward = None
    full, plain = module._get_backward_hooks() if _global_backward_hooks or module._backward_hooks else ((), ())
    before = module._get_backward_pre_hooks() if _global_backward_pre_hooks or module._backward_pre_hooks else ()
    if full or before:
        backward = _functions.ModuleGradients(module, full, before)
        args = backward.watch_inputs(args)

    result = module.forward(*args, **kwargs)

    for key, hook in (*_global_forward_hooks.items(), *module._forward_hooks.items()):
        if key in module._forward_hooks_always_called or key in _global_forward_hooks_always_called:
            called.add(key)
        if key in module._forward_hooks_with_kwargs or key in _global_forward_hooks_with_kwargs:
            answer = hook(module, args, kwargs, result)
        else:
            answer = hook(module, args, result)
        if answer is not None:
            result = answer

    if backward is not None:
        if not isinstance(result, (torch.Tensor, tuple)):
            warnings.warn("For backward hooks to be called, module output should be a Tensor or a tuple of "
                          f"Tensors but received {type(result)}", stacklevel=4)
        result = backward.watch_outputs(result)
    if plain:
        node = _functions.node_of(result)
        if node is not None:
            for hook in plain:
                node.register_hook(_functions.bound_to_module(hook, module))
            module._maybe_warn_non_full_backward_hook(args, result, node)
    return result


def _run_always_called(module, called, args, kwargs):
    """After a failure: the hooks that asked to be called anyway, with no output to show them."""
    pending = [(key, hook, _global_forward_hooks_with_kwargs) for key, hook in _global_forward_hooks.items()
               if key in _global_forward_hooks_always_called]
    pending += [(key, hook, module._forward_hooks_with_kwargs) for key, hook in module._forward_hooks.items()
                if key in module._forward_hooks_always_called]
    for key, hook, with_kwargs in pending:
        if key in called:
            continue
        try:
            answer = hook(module, args, kwargs, None) if key in with_kwargs else hook(module, args, None)
        except Exception as problem:
            warnings.warn("module forward hook with ``always_call=True`` raised an exception that was silenced "
                          f"as another error was raised in forward: {problem}", stacklevel=4)
            continue
        if answer is not None:
            warnings.warn("forward hook with ``always_call=True`` returned a value after forward failed; "
                          "it is ignored", stacklevel=4)


def _forget(module, name, *places):
    """`name` moves to another kind: take it out of the places where it may be now."""
    for place in places:
        if place and name in place:
            del place[name]
    module._non_persistent_buffers_set.discard(name)


def _announce(module, hooks, name, value):
    for hook in hooks.values():
        answer = hook(module, name, value)
        if answer is not None:
            value = answer
    return value


def _place_buffer(module, name, tensor, persistent):
    module._buffers[name] = _announce(module, _global_buffer_registration_hooks, name, tensor)
    if persistent:
        module._non_persistent_buffers_set.discard(name)
    else:
        module._non_persistent_buffers_set.add(name)


def _check_new_name(module, kind, name, known):
    if not isinstance(name, str):
        raise TypeError(f"{kind} name should be a string. Got {torch.typename(name)}")
    if "." in name:
        got = f", got: {name}" if kind == "module" else ""
        raise KeyError(f'{kind} name can\'t contain "."{got}')
    if name == "":
        raise KeyError(f'{kind} name can\'t be empty string ""')
    if hasattr(module, name) and name not in known:
        raise KeyError(f"attribute '{name}' already exists")


def _get_leaf(module, target, what):
    path, _, name = target.rpartition(".")
    owner = module.get_submodule(path)
    if not hasattr(owner, name):
        raise AttributeError(f"{owner._get_name()} has no attribute `{name}`")
    value = getattr(owner, name)
    right = isinstance(value, Parameter) if what == "an nn.Parameter" else name in owner._buffers
    if not right:
        raise AttributeError(f"`{name}` is not {what}")
    return value


def _cast_floating(module, dtype):
    return module._apply(lambda t: t.to(dtype) if t.is_floating_point() else t)


def _choose_backward_kind(module, full):
    if module._is_full_backward_hook is (not full):
        raise RuntimeError("Cannot use both regular backward hooks and full backward hooks on a single Module. "
                           "Please use only one of them.")
    module._is_full_backward_hook = full


class Module(torch._C._ModuleBase):
    """Base class of layers and models: assign submodules and parameters in `__init__`, write `forward`.

    Called, it runs hooks and forward(). What is assigned to it is found by parameters(), buffers(), modules(), state_dict() and to().

    >>> class Twice(nn.Module):
    ...     def forward(self, x):
    ...         return 2 * x
    >>> Twice()(torch.ones(2))
    tensor([2., 2.])
    """

    dump_patches = False
    _version = 1
    training: bool
    call_super_init = False
    _compiled_call_impl = None

    def __init__(self, *args, **kwargs):
        if not self.call_super_init:
            if kwargs:
                raise TypeError(f"{type(self).__name__}.__init__() got an unexpected keyword argument "
                                f"'{next(iter(kwargs))}'")
            if args:
                raise TypeError(f"{type(self).__name__}.__init__() takes 1 positional argument but "
                                f"{len(args) + 1} were given")
        # Straight into the dictionary: __setattr__ needs what is being made here.
        own = self.__dict__
        own["training"] = True
        own["_parameters"] = {}
        own["_buffers"] = {}
        own["_non_persistent_buffers_set"] = set()
        for name in _HOOK_DICTS:
            own[name] = OrderedDict()
        own["_is_full_backward_hook"] = None
        own["_modules"] = {}
        if self.call_super_init:
            super().__init__(*args, **kwargs)

    forward = _forward_unimplemented

    # ---- the call ----

    def _wrapped_call_impl(self, *args, **kwargs):
        # Straight to forward when nobody listens: this is on the way of every layer's every call.
        if not (self._forward_hooks or self._forward_pre_hooks or self._backward_hooks or self._backward_pre_hooks
                or _global_forward_hooks or _global_forward_pre_hooks or _global_backward_hooks
                or _global_backward_pre_hooks or self._compiled_call_impl):
            return self.forward(*args, **kwargs)
        if self._compiled_call_impl is not None:
            return self._compiled_call_impl(*args, **kwargs)
        return self._call_impl(*args, **kwargs)

    def _call_impl(self, *args, **kwargs):
        called = set()
        try:
            return _call_with_hooks(self, called, args, kwargs)
        except Exception:
            _run_always_called(self, called, args, kwargs)
            raise

    def _slow_forward(self, *input, **kwargs):
        return self.forward(*input, **kwargs)

    def compile(self, *args, **kwargs):
        """Compile the call of this module with `torch.compile`."""
        self._compiled_call_impl = torch.compile(self._call_impl, *args, **kwargs)

    # ---- attributes ----

    def __setattr__(self, name, value):
        own = self.__dict__
        params, modules, buffers = own.get("_parameters"), own.get("_modules"), own.get("_buffers")
        if isinstance(value, Parameter):
            if params is None:
                raise AttributeError("cannot assign parameters before Module.__init__() call")
            _forget(self, name, own, buffers, modules)
            self.register_parameter(name, value)
        elif params and name in params:
            if value is not None:
                raise TypeError(f"cannot assign '{torch.typename(value)}' as parameter '{name}' "
                                "(torch.nn.Parameter or None expected)")
            self.register_parameter(name, value)
        elif isinstance(value, Module):
            if modules is None:
                raise AttributeError("cannot assign module before Module.__init__() call")
            _forget(self, name, own, params, buffers)
            modules[name] = _announce(self, _global_module_registration_hooks, name, value)
        elif modules and name in modules:
            if value is not None:
                raise TypeError(f"cannot assign '{torch.typename(value)}' as child module '{name}' "
                                "(torch.nn.Module or None expected)")
            modules[name] = _announce(self, _global_module_registration_hooks, name, value)
        elif buffers and name in buffers:
            if value is not None and not isinstance(value, torch.Tensor):
                raise TypeError(f"cannot assign '{torch.typename(value)}' as buffer '{name}' "
                                "(torch.nn.Buffer, torch.Tensor or None expected)")
            if isinstance(value, Buffer):
                _place_buffer(self, name, value, value.persistent)
            else:
                buffers[name] = _announce(self, _global_buffer_registration_hooks, name, value)
        elif isinstance(value, torch.Tensor) and isinstance(value, Buffer):
            if buffers is None:
                raise AttributeError("cannot assign buffer before Module.__init__() call")
            _forget(self, name, params, modules)
            _check_new_name(self, "buffer", name, buffers)
            _place_buffer(self, name, value, value.persistent)
        else:
            object.__setattr__(self, name, value)

    def __delattr__(self, name):
        registered = next((kind for kind in (self._parameters, self._buffers, self._modules) if name in kind), None)
        if registered is None:
            return object.__delattr__(self, name)
        del registered[name]
        if registered is self._buffers:
            self._non_persistent_buffers_set.discard(name)

    def __dir__(self):
        names = set(dir(type(self))) | set(self.__dict__)
        names.update(self._parameters, self._modules, self._buffers)
        # A name that is no identifier ("0") cannot be written after a dot.
        return sorted(name for name in names if not name[:1].isdigit())

    def register_buffer(self, name, tensor, persistent=True):
        """Add a tensor that is state but no parameter; kept out of state dicts if not `persistent`."""
        if "_buffers" not in self.__dict__:
            raise AttributeError("cannot assign buffer before Module.__init__() call")
        _check_new_name(self, "buffer", name, self._buffers)
        if tensor is not None and not (isinstance(tensor, torch.Tensor) or hasattr(tensor, "__torch_function__")):
            raise TypeError(f"cannot assign '{torch.typename(tensor)}' object to buffer '{name}' "
                            "(torch Tensor or None required)")
        _place_buffer(self, name, tensor, persistent)

    def register_parameter(self, name, param):
        """Add a parameter under `name`; None reserves the name."""
        if "_parameters" not in self.__dict__:
            raise AttributeError("cannot assign parameter before Module.__init__() call")
        _check_new_name(self, "parameter", name, self._parameters)
        if param is not None:
            if not isinstance(param, Parameter):
                raise TypeError(f"cannot assign '{torch.typename(param)}' object to parameter '{name}' "
                                "(torch.nn.Parameter or None required)")
            if param.grad_fn is not None:
                raise ValueError(f"Cannot assign non-leaf Tensor to parameter '{name}'. Model parameters must be "
                                 f"created explicitly. To express '{name}' as a function of another Tensor, "
                                 "compute the value in the forward() method.")
        self._parameters[name] = _announce(self, _global_parameter_registration_hooks, name, param)

    def add_module(self, name, module):
        """Add a submodule under `name`."""
        if module is not None and not isinstance(module, Module):
            raise TypeError(f"{torch.typename(module)} is not a Module subclass")
        _check_new_name(self, "module", name, self._modules)
        self._modules[name] = _announce(self, _global_module_registration_hooks, name, module)

    def register_module(self, name, module):
        """The same as `add_module`."""
        self.add_module(name, module)

    # ---- finding things by dotted name ----

    def get_submodule(self, target):
        """The submodule that a dotted path names; the empty path is the module itself."""
        found = self
        for part in target.split(".") if target else ():
            if not hasattr(found, part):
                raise AttributeError(f"{found._get_name()} has no attribute `{part}`")
            found = getattr(found, part)
            if not isinstance(found, Module):
                raise AttributeError(f"`{part}` is not an nn.Module")
        return found

    def set_submodule(self, target, module, strict=False):
        """Put `module` at a dotted path; with `strict` something must be there already."""
        if target == "":
            raise ValueError("Cannot set the submodule without a target name!")
        if not isinstance(module, Module):
            raise ValueError(f"`module` is not an nn.Module, found {type(module)}")
        path, _, name = target.rpartition(".")
        parent = self.get_submodule(path)
        if strict and not hasattr(parent, name):
            raise AttributeError(f"{parent._get_name()} has no attribute `{name}`")
        if hasattr(parent, name) and not isinstance(getattr(parent, name), Module):
            raise AttributeError(f"`{name}` is not an nn.Module")
        setattr(parent, name, module)

    def get_parameter(self, target):
        """The parameter that a dotted path names."""
        return _get_leaf(self, target, "an nn.Parameter")

    def get_buffer(self, target):
        """The buffer that a dotted path names."""
        return _get_leaf(self, target, "a buffer")

    def get_extra_state(self):
        """State beyond tensors, saved with the module; override together with `set_extra_state`."""
        raise RuntimeError("Reached a code path in Module.get_extra_state() that should never be called. Please "
                           "file an issue at https://github.com/pytorch/pytorch/issues/new?template=bug-report.yml "
                           "to report this bug.")

    def set_extra_state(self, state):
        """Take back what `get_extra_state` gave."""
        raise RuntimeError("Reached a code path in Module.set_extra_state() that should never be called. Please "
                           "file an issue at https://github.com/pytorch/pytorch/issues/new?template=bug-report.yml "
                           "to report this bug.")

    # ---- casting and moving ----

    def _apply(self, fn, recurse=True):
        if recurse:
            for child in self.children():
                child._apply(fn)
        overwrite = torch.__future__.get_overwrite_module_params_on_conversion()
        swapping = torch.__future__.get_swap_module_params_on_conversion()
        for key, param in self._parameters.items():
            if param is None:
                continue
            grad = getattr(param, "grad", None)
            with torch.no_grad():
                changed = fn(param)
            swap = swapping or type(changed) is not torch.Tensor and is_traceable_wrapper_subclass(changed)  # made of tensors: it has no data of its own
            if not overwrite and not swap and _state.same_kind(param, changed):
                param.data = changed
                kept = param
            else:
                kept = self._parameters[key] = _state.replaced_parameter(self, key, param, changed, swap)
            if grad is not None:
                with torch.no_grad():
                    changed = fn(grad)
                if swap:
                    torch.utils.swap_tensors(grad, changed.requires_grad_(grad.requires_grad))
                    kept.grad = grad
                elif kept is param and _state.same_kind(grad, changed):
                    kept.grad.data = changed
                else:
                    kept.grad = changed.requires_grad_(grad.requires_grad)
        for key, buffer in self._buffers.items():
            if buffer is not None:
                self._buffers[key] = fn(buffer)
        return self

    def apply(self, fn):
        """Call `fn` on every submodule, children first, and on the module itself."""
        for child in self.children():
            child.apply(fn)
        fn(self)
        return self

    def to(self, *args, **kwargs):
        """Move and cast all parameters and buffers, as `Tensor.to`; integer ones keep their type."""
        device, dtype, non_blocking, memory_format = torch._C._nn._parse_to(*args, **kwargs)
        if dtype is not None:
            if not (dtype.is_floating_point or dtype.is_complex):
                raise TypeError("nn.Module.to only accepts floating point or complex dtypes, but got desired "
                                f"dtype={dtype}")
            if dtype.is_complex:
                warnings.warn(
                    "Complex modules are a new feature under active development whose design may change, and some "
                    "modules might not work as expected when using complex tensors as parameters or buffers. Please "
                    "file an issue at https://github.com/pytorch/pytorch/issues/new?template=bug-report.yml if a "
                    "complex module does not work as expected.", stacklevel=2)

        def convert(t):
            wanted = dtype if t.is_floating_point() or t.is_complex() else None
            if memory_format is not None and t.dim() in (4, 5):
                return t.to(device, wanted, non_blocking, memory_format=memory_format)
            return t.to(device, wanted, non_blocking)

        return self._apply(convert)

    def to_empty(self, *, device, recurse=True):
        """Move to `device` without copying: the contents are not initialised."""
        return self._apply(lambda t: torch.empty_like(t, device=device), recurse=recurse)

    def type(self, dst_type):
        """Cast all parameters and buffers."""
        return self._apply(lambda t: t.type(dst_type))

    def float(self):
        """Cast floating point parameters and buffers to float32."""
        return _cast_floating(self, torch.float32)

    def double(self):
        """Cast floating point parameters and buffers to float64."""
        return _cast_floating(self, torch.float64)

    def half(self):
        """Cast floating point parameters and buffers to float16."""
        return _cast_floating(self, torch.float16)

    def bfloat16(self):
        """Cast floating point parameters and buffers to bfloat16."""
        return _cast_floating(self, torch.bfloat16)

    def cpu(self):
        """Move all parameters and buffers to the CPU."""
        return self._apply(lambda t: t.cpu())

    def cuda(self, device=None):
        """Move all parameters and buffers to a GPU."""
        return self._apply(lambda t: t.cuda(device))

    def ipu(self, device=None):
        """Move all parameters and buffers to an IPU."""
        return self._apply(lambda t: t.ipu(device))

    def xpu(self, device=None):
        """Move all parameters and buffers to an XPU."""
        return self._apply(lambda t: t.xpu(device))

    def mtia(self, device=None):
        """Move all parameters and buffers to an MTIA device."""
        return self._apply(lambda t: t.mtia(device))

    def share_memory(self):
        """Move all parameters and buffers to memory that child processes share."""
        return self._apply(lambda t: t.share_memory_())

    def requires_grad_(self, requires_grad=True):
        """Switch the recording of gradients for all parameters."""
        for param in self.parameters():
            param.requires_grad_(requires_grad)
        return self

    def zero_grad(self, set_to_none=True):
        """Clear the gradients of all parameters."""
        if getattr(self, "_is_replica", False):
            warnings.warn(
                "Calling .zero_grad() from a module created with nn.DataParallel() has no effect. The parameters "
                "are copied (in a differentiable manner) from the original module. This means they are not leaf "
                "nodes in autograd and so don't accumulate gradients. If you need gradients in your forward method, "
                "consider using autograd.grad instead.", stacklevel=2)
        for param in self.parameters():
            if param.grad is None:
                continue
            if set_to_none:
                param.grad = None
            else:
                if param.grad.grad_fn is not None:
                    param.grad.detach_()
                else:
                    param.grad.requires_grad_(False)
                param.grad.zero_()

    def train(self, mode=True):
        """Switch this module and everything below it to training mode."""
        if not isinstance(mode, bool):
            raise ValueError("training mode is expected to be boolean")
        self.training = mode
        for child in self.children():
            child.train(mode)
        return self

    def eval(self):
        """Switch to evaluation mode: `train(False)`."""
        return self.train(False)

    # ---- hooks ----

    def register_forward_pre_hook(self, hook, *, prepend=False, with_kwargs=False):
        """Call `hook(module, args)` before forward; a result replaces the arguments."""
        handle = _handle_for(self._forward_pre_hooks, hook, (self._forward_pre_hooks_with_kwargs,), prepend)
        if with_kwargs:
            self._forward_pre_hooks_with_kwargs[handle.id] = True
        return handle

    def register_forward_hook(self, hook, *, prepend=False, with_kwargs=False, always_call=False):
        """Call `hook(module, args, output)` after forward; a result replaces the output."""
        marks = (self._forward_hooks_with_kwargs, self._forward_hooks_always_called)
        handle = _handle_for(self._forward_hooks, hook, marks, prepend)
        for wanted, mark in zip((with_kwargs, always_call), marks):
            if wanted:
                mark[handle.id] = True
        return handle

    def register_full_backward_pre_hook(self, hook, prepend=False):
        """Call `hook(module, grad_output)` before the gradients of the inputs are computed."""
        return _handle_for(self._backward_pre_hooks, hook, (), prepend)

    def register_backward_hook(self, hook):
        """The old kind of backward hook; use `register_full_backward_hook`."""
        _choose_backward_kind(self, False)
        return _handle_for(self._backward_hooks, hook)

    def register_full_backward_hook(self, hook, prepend=False):
        """Call `hook(module, grad_input, grad_output)` when the inputs' gradients are computed."""
        _choose_backward_kind(self, True)
        return _handle_for(self._backward_hooks, hook, (), prepend)

    def _get_backward_hooks(self):
        """(full hooks, old hooks) that apply to this module."""
        full, plain = [], []
        if _global_is_full_backward_hook is not None:
            (full if _global_is_full_backward_hook else plain).extend(_global_backward_hooks.values())
        if self._is_full_backward_hook is not None:
            (full if self._is_full_backward_hook else plain).extend(self._backward_hooks.values())
        return full, plain

    def _get_backward_pre_hooks(self):
        return [*_global_backward_pre_hooks.values(), *self._backward_pre_hooks.values()]

    def _maybe_warn_non_full_backward_hook(self, inputs, result, grad_fn):
        problem = _functions.what_an_old_hook_misses(inputs, result, grad_fn)
        if problem:
            warnings.warn(problem, FutureWarning, stacklevel=2)

    # ---- saving and loading: see _state.py ----

    T_destination = "T_destination"     # the name of a type variable in annotations

    def __getstate__(self):
        state = self.__dict__.copy()
        state.pop("_compiled_call_impl", None)
        return state

    def __setstate__(self, state):
        self.__dict__.update(state)
        # Modules pickled by older versions lack the newer dictionaries.
        for name in _HOOK_DICTS:
            if name not in self.__dict__:
                self.__dict__[name] = None if name == "_is_full_backward_hook" else OrderedDict()
        self.__dict__.setdefault("_non_persistent_buffers_set", set())

    def register_state_dict_pre_hook(self, hook):
        """Call `hook(module, prefix, keep_vars)` before `state_dict` collects."""
        return _handle_for(self._state_dict_pre_hooks, hook)

    def register_state_dict_post_hook(self, hook):
        """Call `hook(module, state_dict, prefix, local_metadata)` after `state_dict`; it edits in place."""
        hook._from_public_api = True
        return _handle_for(self._state_dict_hooks, hook)

    def _register_state_dict_hook(self, hook):
        if getattr(hook, "_from_public_api", False):
            raise RuntimeError("Cannot register the same function as the state dict post hook that was previously "
                               "registered via register_state_dict_post_hook")
        return _handle_for(self._state_dict_hooks, hook)

    def _register_load_state_dict_pre_hook(self, hook, with_module=False):
        return _handle_for(self._load_state_dict_pre_hooks, _WrappedHook(hook, self if with_module else None))

    def register_load_state_dict_pre_hook(self, hook):
        """Call `hook(module, state_dict, prefix, ...)` before anything is loaded into this module."""
        return self._register_load_state_dict_pre_hook(hook, with_module=True)

    def register_load_state_dict_post_hook(self, hook):
        """Call `hook(module, incompatible_keys)` after loading."""
        return _handle_for(self._load_state_dict_post_hooks, hook)

    def _save_to_state_dict(self, destination, prefix, keep_vars):
        _state.save_own(self, destination, prefix, keep_vars)

    def state_dict(self, *args, destination=None, prefix="", keep_vars=False):
        """All parameters and persistent buffers by dotted name."""
        if args:
            warnings.warn("Positional args are being deprecated, use kwargs instead. Refer to "
                          "https://pytorch.org/docs/main/generated/torch.nn.Module.html#torch.nn.Module.state_dict "
                          "for details.", FutureWarning, stacklevel=2)
            destination = args[0] if destination is None else destination
            prefix = args[1] if len(args) > 1 and prefix == "" else prefix
            keep_vars = args[2] if len(args) > 2 and keep_vars is False else keep_vars
        return _state.collect(self, destination, prefix, keep_vars)

    def _load_from_state_dict(self, state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys,
                              error_msgs):
        _state.load_own(self, state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs)

    def load_state_dict(self, state_dict, strict=True, assign=False):
        """Copy (or with `assign` put) the tensors of `state_dict` into this module."""
        return _state.load(self, state_dict, strict, assign)

    # ---- walking the tree ----

    def _named_members(self, get_members_fn, prefix="", recurse=True, remove_duplicate=True):
        seen = set()
        owners = self.named_modules(prefix=prefix, remove_duplicate=remove_duplicate) if recurse else [(prefix, self)]
        for path, owner in owners:
            for name, value in get_members_fn(owner):
                if value is None or value in seen:
                    continue
                if remove_duplicate:
                    seen.add(value)
                yield (path + "." if path else "") + name, value

    def parameters(self, recurse=True):
        """All parameters, each once."""
        for _, param in self.named_parameters(recurse=recurse):
            yield param

    def named_parameters(self, prefix="", recurse=True, remove_duplicate=True):
        """All parameters with their dotted names."""
        yield from self._named_members(lambda m: m._parameters.items(), prefix, recurse, remove_duplicate)

    def buffers(self, recurse=True):
        """All buffers, each once."""
        for _, buffer in self.named_buffers(recurse=recurse):
            yield buffer

    def named_buffers(self, prefix="", recurse=True, remove_duplicate=True):
        """All buffers with their dotted names."""
        yield from self._named_members(lambda m: m._buffers.items(), prefix, recurse, remove_duplicate)

    def children(self):
        """The modules directly below this one, each once."""
        for _, module in self.named_children():
            yield module

    def named_children(self):
        """The modules directly below this one with their names."""
        seen = set()
        for name, module in self._modules.items():
            if module is not None and module not in seen:
                seen.add(module)
                yield name, module

    def modules(self, remove_duplicate=True):
        """This module and everything below it."""
        for _, module in self.named_modules(remove_duplicate=remove_duplicate):
            yield module

    def named_modules(self, memo=None, prefix="", remove_duplicate=True):
        """This module and everything below it, with dotted names."""
        memo = set() if memo is None else memo
        if self in memo:
            return
        if remove_duplicate:
            memo.add(self)
        yield prefix, self
        for name, module in self._modules.items():
            if module is not None:
                yield from module.named_modules(memo, (prefix + "." if prefix else "") + name, remove_duplicate)

    # ---- printing ----

    def _get_name(self):
        return type(self).__name__

    def extra_repr(self):
        """What stands between the brackets of `repr`; override to show the layer's arguments."""
        return ""

    def __repr__(self):
        extra = self.extra_repr()
        extra_lines = extra.split("\n") if extra else []
        child_lines = [f"({name}): " + _addindent(repr(child), 2) for name, child in self._modules.items()]
        lines = extra_lines + child_lines
        if len(extra_lines) == 1 and not child_lines:
            body = extra_lines[0]
        elif lines:
            body = "\n  " + "\n  ".join(lines) + "\n"
        else:
            body = ""
        return f"{self._get_name()}({body})"

    def _repr_html_(self):
        from rushlight import _html
        return _html.module_html(self)

    def _replicate_for_data_parallel(self):
        twin = self.__new__(type(self))
        twin.__dict__ = self.__dict__.copy()
        # A replica holds tensors that are computed, so they are plain attributes of it.
        twin._parameters = {}
        twin._buffers = twin._buffers.copy()
        twin._modules = twin._modules.copy()
        twin._is_replica = True
        return twin


_state.plain_module = Module
torch._C._set_module_class(Module, (_global_forward_hooks, _global_forward_pre_hooks, _global_backward_hooks,
                                    _global_backward_pre_hooks))
