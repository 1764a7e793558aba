"""Names of torch._C that are plain Python: keys, guards and classes that packages look up, most while they are imported.

The extension's module finds them here when it has no such name of its own.
"""
import enum
import operator
import sys

from rushlight import _C

_KEYS = ("Undefined Dense CPU CUDA HIP XLA MPS IPU XPU HPU VE Lazy MTIA MAIA PrivateUse1 PrivateUse2 PrivateUse3 Meta Sparse "
         "SparseCPU SparseCUDA SparseCsr SparseCsrCPU SparseCsrCUDA Quantized QuantizedCPU QuantizedCUDA NestedTensor "
         "NestedTensorCPU NestedTensorCUDA BackendSelect Python Fake FuncTorchDynamicLayerBackMode Functionalize Named Conjugate "
         "Negative ZeroTensor ADInplaceOrView AutogradOther AutogradFunctionality AutogradNestedTensor AutogradCPU AutogradCUDA "
         "AutogradXLA AutogradMPS AutogradXPU AutogradHPU AutogradLazy AutogradMTIA AutogradMeta AutogradPrivateUse1 Tracer "
         "AutocastCPU AutocastCUDA AutocastXPU AutocastPrivateUse1 FuncTorchBatched BatchedNestedTensor FuncTorchVmapMode Batched "
         "VmapMode FuncTorchGradWrapper DeferredInit PythonTLSSnapshot FuncTorchDynamicLayerFrontMode PreDispatch PythonDispatcher "
         "Autograd CompositeImplicitAutograd CompositeImplicitAutogradNestedTensor CompositeExplicitAutograd "
         "CompositeExplicitAutogradNonFunctional").split()

DispatchKey = enum.Enum("DispatchKey", _KEYS, module="torch._C")

# What an operator says of itself to compilers.
Tag = enum.Enum("Tag", "core cudagraph_unsafe data_dependent_output dynamic_output_shape flexible_layout generated inplace inplace_view "
                "maybe_aliasing_or_mutating needs_contiguous_strides needs_exact_strides needs_fixed_stride_order nondeterministic_bitwise "
                "nondeterministic_seeded out out_variant pointwise pt2_compliant_tag reduction view_copy", module="torch", start=0)


# Graphs of traces, and the types in them.
_GRAPH = ("AnyType AwaitType Block BoolType ClassType ComplexType DeviceObjType DictType FloatType FutureType Graph IntType ListType Node "
          "NoneType NumberType OptionalType PyObjectType RRefType StreamObjType StringType SymBoolType SymIntType TensorType TupleType Type UnionType Use Value").split()


# What has a public name besides.
_PUBLIC = {
    "_cpu": "cpu", "_get_cpu_capability": "backends.cpu.get_cpu_capability", "set_flush_denormal": "set_flush_denormal",
    "_get_deterministic_algorithms": "are_deterministic_algorithms_enabled", "_set_deterministic_algorithms": "use_deterministic_algorithms",
    "_get_deterministic_algorithms_warn_only": "is_deterministic_algorithms_warn_only_enabled",
    "_get_warnAlways": "is_warn_always_enabled", "_set_warnAlways": "set_warn_always",
    "_get_float32_matmul_precision": "get_float32_matmul_precision", "_set_float32_matmul_precision": "set_float32_matmul_precision",
    "_get_flash_sdp_enabled": "backends.cuda.flash_sdp_enabled", "_set_sdp_use_flash": "backends.cuda.enable_flash_sdp",
    "_get_math_sdp_enabled": "backends.cuda.math_sdp_enabled", "_set_sdp_use_math": "backends.cuda.enable_math_sdp",
    "_get_mem_efficient_sdp_enabled": "backends.cuda.mem_efficient_sdp_enabled", "_set_sdp_use_mem_efficient": "backends.cuda.enable_mem_efficient_sdp",
    "_get_cudnn_sdp_enabled": "backends.cuda.cudnn_sdp_enabled", "_set_sdp_use_cudnn": "backends.cuda.enable_cudnn_sdp",
    "_cuda_getDeviceCount": "cuda.device_count", "_cuda_emptyCache": "cuda.empty_cache", "_SDPBackend": "nn.attention.SDPBackend",
    "_SDPAParams": "backends.cuda.SDPAParams", "Stream": "Stream", "Event": "Event", "_infer_size": "broadcast_shapes", "_data_address": "Tensor.data_ptr",
    "_group_tensors_by_device_and_dtype": "utils._foreach_utils._group_tensors_by_device_and_dtype",
    "_distributed_c10d": "distributed.distributed_c10d", "_distributed_rpc": "distributed.rpc", "_profiler": "profiler",
}


def __getattr__(name):
    if name in _PUBLIC:
        import rushlight
        return operator.attrgetter(_PUBLIC[name])(rushlight)
    if name == "_has_cuda":
        return _C._cuda_why() is None
    if name in _GRAPH:
        from rushlight.jit import _graph
        return getattr(_graph, name)
    if name in ("ScriptObject", "ScriptMethod"):
        from rushlight.jit import _loaded
        return getattr(_loaded, name)
    if name == "TracingState":
        from rushlight.jit._nodes import Tracer
        return Tracer
    raise AttributeError(name)


class DispatchKeySet:
    """A set of dispatch keys. Calls here have no stack of keys; it is kept for code that computes with them."""

    def __init__(self, *keys):
        self._keys = frozenset(k for key in keys for k in (key._keys if isinstance(key, DispatchKeySet) else (key,)))

    def _with(self, keys):
        made = DispatchKeySet()
        made._keys = frozenset(keys)
        return made

    def __or__(self, other):
        return self._with(self._keys | other._keys)

    def __and__(self, other):
        return self._with(self._keys & other._keys)

    def __sub__(self, other):
        return self._with(self._keys - other._keys)

    def add(self, key):
        return self._with(self._keys | {key})

    def remove(self, key):
        return self._with(self._keys - {key})

    def has(self, key):
        return key in self._keys

    def __contains__(self, key):
        return key in self._keys

    def __eq__(self, other):
        return isinstance(other, DispatchKeySet) and self._keys == other._keys

    def __hash__(self):
        return hash(self._keys)

    def __repr__(self):
        return "DispatchKeySet(%s)" % ", ".join(sorted(key.name for key in self._keys))

    def highestPriorityTypeId(self):
        return max(self._keys, key=lambda key: key.value, default=DispatchKey.Undefined)

    @classmethod
    def from_raw_repr(cls, raw):
        return cls()


class _SafeKernelFunction:
    """The kernel that an operator had for a dispatch key when it was asked for."""
    __module__ = "torch._C"

    def __init__(self, name, key, call):
        self._name, self._key, self._call = name, key, call

    def call_boxed(self, keyset, /, *args, **kwargs):
        return self._call(*args, **kwargs)

    def __repr__(self):
        return "SafeKernelFunction(debug='%s for %s')" % (self._name, self._key)


def _dispatch_keys(tensor):
    """The keys a tensor would be called with."""
    key = {"cpu": "CPU", "cuda": "CUDA", "meta": "Meta"}.get(tensor.device.type, "PrivateUse1")
    return DispatchKeySet(DispatchKey[key], DispatchKey["Autograd" + ("PrivateUse1" if key == "PrivateUse1" else key)])


class _Guard:
    """A context that changes nothing."""

    def __init__(self, *args, **kwargs):
        pass

    def __enter__(self):
        return self

    def __exit__(self, *error):
        return None


class _ExcludeDispatchKeyGuard(_Guard):
    """Autocast is off inside for the devices whose key is among these; the other keys change nothing."""

    def __init__(self, keys):
        self._keys = DispatchKeySet(keys)._keys

    def __enter__(self):
        import rushlight as torch
        self._was = [(t, torch.is_autocast_enabled(t)) for t, key in (("cpu", "AutocastCPU"), ("cuda", "AutocastCUDA")) if DispatchKey[key] in self._keys]
        for t, on in self._was:
            torch.set_autocast_enabled(t, False)
        return self

    def __exit__(self, *error):
        import rushlight as torch
        for t, on in self._was:
            torch.set_autocast_enabled(t, on)


class _IncludeDispatchKeyGuard(_Guard):
    pass


class _AutoDispatchBelowAutograd(_Guard):
    """Nothing is recorded inside, and kernels of Autograd keys are left out."""

    def __enter__(self):
        self._grad = _C.no_grad()
        self._grad.__enter__()
        self._below = _C._below_autograd(True)
        return self

    def __exit__(self, *error):
        _C._below_autograd(self._below)
        self._grad.__exit__(*error)


class _DisableTorchDispatch(_Guard):
    """Neither modes nor classes are asked about operations inside."""

    def __enter__(self):
        self._was = _C._watch_off(True)
        return self

    def __exit__(self, *error):
        _C._watch_off(self._was)


class _DisableFuncTorch(_Guard):
    pass


class _ForceDispatchKeyGuard(_Guard):
    pass


class _Opaque:
    """Part of TorchScript's or the dispatcher's insides, which this library does not have."""

    def __init__(self, *args, **kwargs):
        raise NotImplementedError("torch._C.%s is not there" % type(self).__name__)


def _opaque(names):
    for name in names.split():
        globals()[name] = type(name, (_Opaque,), {"__module__": "torch._C"})


_opaque("Argument FunctionSchema ScriptModule ScriptFunction ScriptList ScriptDict "
        "CompilationUnit Code CallStack Future Await GraphExecutorState Gradient DeepCopyMemoTable "
        "AliasDb ErrorReport LiteScriptModule PyTorchFileReader PyTorchFileWriter SymIntNode SymFloatNode LoggerBase NoopLogger "
        "LockingLogger StaticModule OperatorInfo EnumType InferredType InterfaceType _TensorBase")


def _get_tracing_state():
    """What records the calls while torch.jit.trace() runs a program, None otherwise: modules open scopes in it."""
    from rushlight.autograd.function import traces
    return traces[-1].tracer if traces else None


def _is_tracing():
    return _get_tracing_state() is not None


def _jit_pass_inline(graph):
    """Graphs hold no calls of other graphs: nothing to do."""


def _get_accelerator(check=None):
    return _C._device_accelerator() or _C.device("cpu")


def _current_autograd_node():
    """The node that backward is running: not told."""
    return None


def _storage_Use_Count(storage_ptr):
    raise NotImplementedError("_storage_Use_Count is not there")


def _cudnn_switch(name, kind):
    """The functions that read and write a switch of cuDNN's."""
    def read():
        return kind(_C._cuda_switch("cudnn_" + name))

    def write(value):
        if type(value) is not kind:
            raise RuntimeError("set_%s_cudnn expects %s, but got %s" % (name, "a bool" if kind is bool else "an int", type(value).__name__))
        _C._cuda_switch("cudnn_" + name, value)
    return read, write


_get_cudnn_enabled, _set_cudnn_enabled = _cudnn_switch("enabled", bool)
_get_cudnn_benchmark, _set_cudnn_benchmark = _cudnn_switch("benchmark", bool)
_get_cudnn_deterministic, _set_cudnn_deterministic = _cudnn_switch("deterministic", bool)
_cuda_get_cudnn_benchmark_limit, _cuda_set_cudnn_benchmark_limit = _cudnn_switch("benchmark_limit", int)


def _nothing(*args, **kwargs):
    """A setting of TorchScript's executor: there is none."""


def _false(*args, **kwargs):
    return False


_SETTINGS = ("_jit_set_texpr_fuser_enabled _jit_set_profiling_mode _jit_set_profiling_executor _jit_override_can_fuse_on_cpu "
             "_jit_override_can_fuse_on_gpu _jit_set_nvfuser_enabled _jit_set_bailout_depth _jit_set_num_profiled_runs "
             "_jit_set_fusion_strategy _jit_set_nvfuser_single_node_mode _debug_set_fusion_group_inlining _jit_set_emit_hooks "
             "_set_backcompat_broadcast_warn _set_backcompat_keepdim_warn "
             "_clear_caching_allocator _cuda_clearCublasWorkspaces "
             "_set_mkldnn_enabled _set_graph_executor_optimize "
             "_set_math_sdp_allow_fp16_bf16_reduction _jit_set_nvfuser_guard_mode _jit_set_autocast_mode _jit_set_inline_everything_mode "
             "_jit_set_llga_enabled _jit_set_nvfuser_horizontal_mode _jit_set_te_must_use_llvm_cpu _jit_set_texpr_dynamic_shape_enabled "
             "_jit_set_texpr_reductions_enabled _set_print_stack_traces_on_fatal_signal").split()
for _name in _SETTINGS:
    globals()[_name] = _nothing
for _name in ("_cuda_isInBadFork _cuda_init "
              "_jit_texpr_fuser_enabled _functorch_in_tree "
              "_jit_can_fuse_on_cpu _jit_can_fuse_on_gpu _is_key_in_tls _supported_qengines _mps_is_available _mps_is_on_macos_or_newer").split():
    globals()[_name] = _false
# What the library is not built with: values, which programs ask without calling
_has_cudnn = _has_cusparselt = _has_eigen_sparse = _has_kleidiai = _has_magma = _has_mkldnn = _has_mkldnn_acl = _has_mps = _has_xpu = False


def _is_alias_of(a, b):
    """Do two tensors show the same memory?"""
    return _C._has_storage(a) and _C._has_storage(b) and a.untyped_storage()._cdata == b.untyped_storage()._cdata


def _is_any_autocast_enabled():
    import rushlight as torch
    return any(torch.is_autocast_enabled(kind) for kind in ("cpu", "cuda"))


def _set_deterministic_fill_uninitialized_memory(mode):
    from rushlight import _basics
    _basics._fill_uninitialized_memory(mode)


def _get_deterministic_fill_uninitialized_memory():
    from rushlight import _basics
    return _basics._deterministic["fill"]


class _TorchDispatchModeKey(enum.Enum):
    """Modes of the machinery: where they lie below those of programs."""

    FAKE = 0
    PROXY = 1
    FUNCTIONAL = 2


_GLIBCXX_USE_CXX11_ABI = True


def _is_torch_function_mode_enabled():
    """Whether a mode would be asked."""
    return _C._len_torch_function_stack() > 0


_executor_optimizes = [True]


def _get_graph_executor_optimize(new_setting=None):
    """The setting of TorchScript's executor, which is not there; given a value, sets it and returns the one before."""
    before = _executor_optimizes[0]
    if new_setting is not None:
        _executor_optimizes[0] = bool(new_setting)
    return before


class _Functorch:
    """torch._C._functorch: transforms are Python here (rushlight._functorch)."""

    @staticmethod
    def is_batchedtensor(tensor):
        from ._functorch.batched import BatchedTensor
        return isinstance(tensor, BatchedTensor)

    @staticmethod
    def _add_batch_dim(tensor, batch_dim, level):
        from ._functorch.vmap import _add_batch_dim
        return _add_batch_dim(tensor, batch_dim, level)

    @staticmethod
    def _remove_batch_dim(tensor, level, batch_size, out_dim):
        from ._functorch.vmap import _remove_batch_dim
        return _remove_batch_dim(tensor, level, batch_size, out_dim)

    @staticmethod
    def is_gradtrackingtensor(tensor):
        return False

    @staticmethod
    def is_functorch_wrapped_tensor(tensor):
        return False

    @staticmethod
    def is_functionaltensor(tensor):
        return False

    @staticmethod
    def peek_interpreter_stack():
        return None

    @staticmethod
    def maybe_get_level(tensor):
        return -1

    @staticmethod
    def maybe_get_bdim(tensor):
        return -1

    @staticmethod
    def get_unwrapped(tensor):
        return tensor.value if _Functorch.is_batchedtensor(tensor) else tensor

    @staticmethod
    def unwrap_if_dead(tensor):
        return tensor


_functorch = _Functorch


def _dispatch_get_all_op_names():
    return [name if "::" in name else "aten::" + name for name in _C._op_names()]


class _ReturnTypes:
    """torch._C._return_types: the classes of results with names."""

    def __getattr__(self, name):
        cls = None if name.startswith("__") else _C._return_type(name)
        if cls is None:
            raise AttributeError("no operation '%s' returns a named tuple" % name)
        return cls

    def __dir__(self):
        bases = {name.partition(".")[0] for name in _C._op_names()}
        named = [name for name in bases if _C._return_type(name)]
        return sorted(named + [name + "_out" for name in named])


_return_types = _ReturnTypes()


def _get_schema(name, overload):
    """The schema of one overload of an operation, as an object."""
    from rushlight import _ops
    schema, _ = _ops._form(name, overload)
    if schema is None:
        raise RuntimeError("Found no matching schema of %s.%s" % (name, overload))
    return schema


def parse_schema(text):
    """A schema string, as an object."""
    from rushlight._library import schema
    return schema.parse_schema(text)


def _cuda_getCurrentRawStream(device):
    """The number by which kernels of programs know a device's current stream."""
    from rushlight import cuda
    return cuda.current_stream(device).cuda_stream


def _parallel_info():
    """How work is spread over threads."""
    from rushlight import __config__
    return __config__.parallel_info()
