"""__torch_function__: objects and modes that take over functions of this package.

The questions (has_torch_function*) and the call itself are the extension's; here are the modes, the protocol for
functions written in Python, and the lists of what can be overridden.
"""
import collections
import contextlib
import functools
import inspect
import types
import warnings

import rushlight as torch
from rushlight import _C
from rushlight._C import (_get_function_stack_at, _is_torch_function_enabled,  # noqa: F401
                          _len_torch_function_stack, _pop_torch_function_stack, _push_on_torch_function_stack)

__all__ = ["get_ignored_functions", "get_overridable_functions", "get_testing_overrides", "handle_torch_function",
           "has_torch_function", "resolve_name", "is_tensor_like", "is_tensor_method_or_property",
           "wrap_torch_function", "enable_reentrant_dispatch"]

has_torch_function = _C._has_torch_function
has_torch_function_unary = _C._has_torch_function_unary
has_torch_function_variadic = _C._has_torch_function_variadic
_disabled_torch_function_impl = _C._disabled_torch_function_impl


def is_tensor_like(inp):
    """A tensor, or something that takes part in __torch_function__."""
    return type(inp) is torch.Tensor or hasattr(inp, "__torch_function__")


def _get_overloaded_args(relevant_args, get_type_fn=None):
    """The arguments to ask, subclasses before their bases, otherwise from left to right, each class once."""
    get_type_fn = get_type_fn or type
    if not _C._is_torch_function_enabled():
        return []
    kinds, found = set(), []
    for arg in relevant_args:
        kind = get_type_fn(arg)
        if kind in kinds or not hasattr(kind, "__torch_function__") \
                or kind.__torch_function__ == _C._disabled_torch_function_impl:
            continue
        if kinds:
            kinds.add(kind)
            at = next((i for i, old in enumerate(found) if issubclass(kind, get_type_fn(old))), len(found))
            found.insert(at, arg)
        else:
            kinds, found = {kind}, [arg]
    return found


def handle_torch_function(public_api, relevant_args, *args, **kwargs):
    """Call the __torch_function__ of the innermost mode, then those of the arguments until one answers."""
    overloaded = _get_overloaded_args(relevant_args)
    kinds = tuple(map(type, overloaded))
    if _is_torch_function_mode_enabled():
        with _pop_mode_temporarily() as mode:
            result = mode.__torch_function__(public_api, kinds, args, kwargs)
        if result is not NotImplemented:
            return result
    for arg in overloaded:
        method = arg.__torch_function__
        if getattr(method, "__self__", None) is arg and method.__func__ is not _C._disabled_torch_function_impl:
            warnings.warn("Defining your `__torch_function__ as a plain method is deprecated and will be an error in future, "
                          "please define it as a classmethod.", DeprecationWarning, stacklevel=2)
        result = method(public_api, kinds, args, kwargs)
        if result is not NotImplemented:
            return result
    name = "%s.%s" % (public_api.__module__, public_api.__name__)
    message = "no implementation found for %r on types that implement __torch_function__: %s" % (
        name, [type(arg) for arg in overloaded])
    if _is_torch_function_mode_enabled():
        message += " nor in mode %s" % (_get_current_function_mode(),)
    raise TypeError(message)


def wrap_torch_function(dispatcher):
    """Decorator: a function of one's own that can be overridden; dispatcher(*args) returns the arguments to ask."""
    def wrap(func):
        @functools.wraps(func)
        def wrapped(*args, **kwargs):
            relevant = dispatcher(*args, **kwargs)
            if has_torch_function(relevant):
                return handle_torch_function(wrapped, relevant, *args, **kwargs)
            return func(*args, **kwargs)
        return wrapped
    return wrap


# --- modes ------------------------------------------------------------------------------------------------------------


class TorchFunctionMode:
    """Inside `with mode:` every function of this package goes to mode.__torch_function__(func, types, args, kwargs)."""

    inner: "TorchFunctionMode"

    def __init__(self):
        pass

    def __torch_function__(self, func, types, args=(), kwargs=None):
        raise NotImplementedError

    def __enter__(self):
        return _push_mode(self) or self

    def __exit__(self, *error):
        _pop_mode()

    @classmethod
    def push(cls, *args, **kwargs):
        warnings.warn("`Mode.push()` is no longer necessary and can be replaced with just `with Mode()`", stacklevel=2)
        return cls(*args, **kwargs)


class BaseTorchFunctionMode(TorchFunctionMode):
    """A mode that changes nothing."""

    def __torch_function__(self, func, types, args=(), kwargs=None):
        return func(*args, **(kwargs or {}))


def _is_torch_function_mode_enabled():
    return _len_torch_function_stack() > 0


def _get_current_function_mode():
    depth = _len_torch_function_stack()
    return _get_function_stack_at(depth - 1) if depth else None


def _get_current_function_mode_stack():
    return [_get_function_stack_at(i) for i in range(_len_torch_function_stack())]


def _push_mode(mode):
    _push_on_torch_function_stack(mode)


def _pop_mode():
    return _pop_torch_function_stack()


@contextlib.contextmanager
def _pop_mode_temporarily():
    mode = _pop_mode()
    try:
        yield mode
    finally:
        _push_mode(mode)


@contextlib.contextmanager
def _enable_torch_function():
    with _C._EnableTorchFunction():
        yield


@contextlib.contextmanager
def enable_reentrant_dispatch():
    """In a __torch_dispatch__: autograd records inside, if it did where the operation was called."""
    with _C.set_grad_enabled(_C._grad_outside()):
        yield


def redispatch_function(func, types, args, kwargs):
    """Call `func` from inside a __torch_function__ without coming back to it; what `func` calls asks again."""
    return _C._redispatch(func, tuple(args), kwargs or None)


# --- what can be overridden -------------------------------------------------------------------------------------------


@functools.lru_cache(None)
def get_ignored_functions():
    """Functions of this package that no object can override: they take no tensors, or make them of something else."""
    names = ("typename is_tensor is_storage set_default_tensor_type set_default_device get_default_device set_rng_state "
             "get_rng_state manual_seed initial_seed seed save load set_printoptions fork get_default_dtype "
             "get_num_interop_threads get_num_threads init_num_threads import_ir_module is_anomaly_enabled "
             "is_grad_enabled merge_type_from_type_comment parse_ir parse_schema parse_type_comment set_anomaly_enabled "
             "set_flush_denormal set_num_interop_threads set_num_threads wait as_tensor from_numpy tensor "
             "default_generator device dtype finfo "
             "iinfo memory_format qscheme set_grad_enabled no_grad enable_grad inference_mode is_inference_mode_enabled "
             "layout arange as_strided bartlett_window blackman_window broadcast_shapes can_cast compile "
             "complex empty empty_permuted empty_strided eye from_file full fill hamming_window hann_window "
             "kaiser_window linspace logspace mkldnn_adaptive_avg_pool2d ones promote_types rand randn randint randperm "
             "range result_type scalar_tensor sparse_coo_tensor sparse_compressed_tensor sparse_csr_tensor "
             "sparse_csc_tensor sparse_bsr_tensor sparse_bsc_tensor tril_indices triu_indices vander zeros "
             "set_autocast_enabled is_autocast_enabled set_default_dtype is_deterministic_algorithms_warn_only_enabled "
             "set_deterministic_debug_mode get_device_module get_deterministic_debug_mode set_float32_matmul_precision "
             "get_float32_matmul_precision unify_type_list is_warn_always_enabled set_warn_always "
             "are_deterministic_algorithms_enabled use_deterministic_algorithms frombuffer asarray from_dlpack "
             "autocast_increment_nesting autocast_decrement_nesting clear_autocast_cache vmap is_autocast_available "
             "is_autocast_cache_enabled set_autocast_cache_enabled get_autocast_dtype set_autocast_dtype").split()
    found = {getattr(torch, name) for name in names if hasattr(torch, name) and callable(getattr(torch, name))}
    for name in ("__new__", "__class__", "__subclasshook__", "__hash__", "as_subclass", "reinforce_names", "new",
                 "new_tensor", "new_empty", "new_empty_strided", "new_zeros", "new_ones", "new_full", "_make_subclass",
                 "_make_wrapper_subclass", "solve", "symeig", "stride", "unflatten", "to_sparse_coo", "_make_dtensor",
                 "__getattr__", "__setattr__", "__delattr__", "__init_subclass__", "__reduce__", "__subclasshook__"):
        method = getattr(torch.Tensor, name, None)
        if method is not None and callable(method):
            found.add(method)
    return found


@functools.lru_cache(None)
def get_default_nowrap_functions():
    """Attributes of a subclass that come back as plain values, not as the subclass."""
    return {torch.Tensor._base.__get__, torch.Tensor.grad.__get__, torch.Tensor._grad.__get__}


@functools.lru_cache(None)
def _get_overridable_functions():
    functions, index = collections.defaultdict(list), {}
    ignored = get_ignored_functions()
    spaces = [("torch", torch, [n for n in dir(torch) if not n.startswith("_")]),
              ("torch.functional", torch.functional, torch.functional.__all__),
              ("torch.nn.functional", torch.nn.functional, dir(torch.nn.functional)),
              ("torch.nn.init", torch.nn.init, dir(torch.nn.init)), ("torch.Tensor", torch.Tensor, dir(torch.Tensor)),
              ("torch.linalg", torch.linalg, dir(torch.linalg)), ("torch.fft", torch.fft, dir(torch.fft)),
              ("torch.special", torch.special, dir(torch.special))]
    for label, space, names in spaces:
        for name in names:
            if space is not torch.Tensor:
                if name.startswith("__") or name[0].isupper() or (name.startswith("_") and label != "torch"):
                    continue
            try:
                func = getattr(space, name)
            except (AttributeError, ImportError, NotImplementedError):
                continue
            if space is torch.Tensor and getattr(object, name, None) == func:
                continue
            if isinstance(func, (types.ModuleType, type)) or (getattr(func, "__module__", "") or "").startswith(
                    ("typing", "_collections", "collections", "functools", "contextlib")):
                continue
            if space is torch.Tensor and not callable(func) and hasattr(func, "__get__"):
                getter = func.__get__
                index[getter] = "%s.%s.__get__" % (label, name)
                index[func.__set__ if hasattr(func, "__set__") else getter] = "%s.%s.__set__" % (label, name)
                index[getter] = "%s.%s.__get__" % (label, name)
                if getter not in ignored:
                    functions[space].append(getter)
                continue
            if not callable(func):
                continue
            index[func] = "%s.%s" % (label, name)
            if func not in ignored:
                functions[space].append(func)
    return dict(functions), index


def get_overridable_functions():
    """{namespace: [functions]}"""
    return _get_overridable_functions()[0]


@functools.lru_cache(None)
def get_testing_overrides():
    """{function: a function of the same arguments that returns -1}"""
    def stand_in(func):
        def answer(*args, **kwargs):
            return -1
        try:
            answer.__signature__ = inspect.signature(func)
        except (ValueError, TypeError):
            return answer
        return answer
    return {func: stand_in(func) for funcs in get_overridable_functions().values() for func in funcs}


@contextlib.contextmanager
def _quiet():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def _disable_user_warnings(func, regex=".*is deprecated, please use.*", module="torch"):
    """Decorator: such warnings are not shown while func runs."""
    @functools.wraps(func)
    def wrapper(*args, **kwargs):
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", category=UserWarning, message=regex, module=module)
            return func(*args, **kwargs)
    return wrapper


def resolve_name(f):
    """The name of a function that __torch_function__ was given, such as "torch.Tensor.add"."""
    overload = getattr(torch._ops, "OpOverload", ())
    if isinstance(f, (overload, getattr(torch._ops, "OpOverloadPacket", ()))):
        return str(f)
    return _get_overridable_functions()[1].get(f)


@functools.lru_cache(None)
def _get_tensor_methods():
    return set(get_overridable_functions().get(torch.Tensor, ()))


def is_tensor_method_or_property(func):
    """Whether a function is a method of tensors or an attribute's getter or setter."""
    return func in _get_tensor_methods() or func.__name__ in ("__get__", "__set__")
