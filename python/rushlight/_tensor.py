"""The class Tensor: what of it is written in Python. All else is the extension's (python/_C)."""
import copy

from rushlight import _C

__all__ = ["Tensor"]


def _torch():
    import rushlight
    return rushlight


def _handled(func):
    """The method asks __torch_function__ of a subclass first."""
    def method(self, *args, **kwargs):
        if type(self) is not Tensor and _C._has_torch_function_unary(self):
            return _C._handle_torch_function(outer, (self,), self, *args, **kwargs)
        return func(self, *args, **kwargs)
    method.__name__, method.__qualname__, method.__doc__ = func.__name__, func.__qualname__, func.__doc__
    method.__wrapped__ = func
    outer = method
    return method


class Tensor(_C.TensorBase):
    """A multi-dimensional array of elements of one dtype, which can record how it was computed."""

    __array_priority__ = 1000  # NumPy leaves mixed operations to the tensor

    # ---- copies and pickles

    def __deepcopy__(self, memo):
        if type(self) is not Tensor and _C._has_torch_function_unary(self):
            return _C._handle_torch_function(Tensor.__deepcopy__, (self,), self, memo)
        if id(self) in memo:
            return memo[id(self)]
        if not self.is_leaf:
            raise RuntimeError("Only Tensors created explicitly by the user (graph leaves) support the deepcopy protocol "
                               "at the moment.  If you were attempting to deepcopy a module, this may be because of a "
                               "torch.nn.utils.weight_norm usage, see https://github.com/pytorch/pytorch/pull/103001")
        with _C.no_grad():
            if self.is_sparse or self.layout is not _C.strided or self.is_quantized or self.device.type == "meta" or \
                    (type(self) is not Tensor and self.numel() and self.data_ptr() == 0):  # a subclass that has its elements elsewhere
                new = self.clone()
                if type(new) is not type(self):
                    raise RuntimeError("The default implementation of __deepcopy__() for non-wrapper subclasses only works for subclass types that properly "
                                       "implement clone(): here it returned a %s instead of a %s" % (type(new).__name__, type(self).__name__))
            else:
                new = self.new_empty([])
                new.set_(copy.deepcopy(self.untyped_storage(), memo), self.storage_offset(), self.size(), self.stride())
                if self.is_conj():
                    new = new.conj()
                if self.is_neg():
                    new = new._neg_view()
            if type(self) is not Tensor:
                new = new.as_subclass(type(self)) if not isinstance(new, type(self)) else new
            if self.requires_grad:
                new.requires_grad_()
            if self.grad is not None:
                new.grad = copy.deepcopy(self.grad, memo)
            for key, value in self.__dict__.items():
                new.__dict__[key] = copy.deepcopy(value, memo)
        memo[id(self)] = new
        return new

    def __reduce_ex__(self, proto):
        if type(self) is not Tensor and _C._has_torch_function_unary(self):
            return _C._handle_torch_function(Tensor.__reduce_ex__, (self,), self, proto)
        utils = _torch()._utils
        func, args = self._reduce_ex_internal(proto)
        if getattr(_torch().serialization._state, "materialize_fake_tensors", False) and isinstance(self, _torch()._subclasses.fake_tensor.FakeTensor):
            getattr(args[0], "_untyped_storage", args[0])._fake_device = self.device
            return func, args
        state = utils._get_obj_state(self) if hasattr(utils, "_get_obj_state") else self.__dict__
        if type(self) is Tensor and not state:
            return func, args
        return _rebuild_from_type_v2, (func, type(self), args, state)

    def _reduce_ex_internal(self, proto):
        from collections import OrderedDict
        torch = _torch()
        torch.utils.hooks.warn_if_has_hooks(self)
        hooks = OrderedDict()
        utils = torch._utils
        if self.device.type == "meta":
            if getattr(torch.serialization._state, "skip_data", False):
                import warnings
                warnings.warn("Serializing tensors on the meta device under skip_data context manager is a no-op", stacklevel=2)
            return utils._rebuild_meta_tensor_no_storage, (self.dtype, tuple(self.size()), self.stride(), self.requires_grad)
        if self.is_sparse:
            return utils._rebuild_sparse_tensor, (self.layout, (self._indices(), self._values(), self.size(),
                                                                self.is_coalesced()))
        if self.layout in (_C.sparse_csr, _C.sparse_bsr):
            return utils._rebuild_sparse_tensor, (self.layout, (self.crow_indices(), self.col_indices(), self.values(),
                                                                self.size()))
        if self.layout in (_C.sparse_csc, _C.sparse_bsc):
            return utils._rebuild_sparse_tensor, (self.layout, (self.ccol_indices(), self.row_indices(), self.values(),
                                                                self.size()))
        if not _C._has_storage(self):  # a wrapper: what it holds is among its attributes
            return utils._rebuild_wrapper_subclass, (type(self), self.dtype, tuple(self.size()), self.stride(), self.storage_offset(),
                                                     self.layout, self.device, self.requires_grad)
        storage = self._typed_storage()
        if self.is_quantized:
            scheme = self.qscheme()
            params = (scheme, self.q_scale(), self.q_zero_point()) if scheme is torch.per_tensor_affine else \
                (scheme, self.q_per_channel_scales(), self.q_per_channel_zero_points(), self.q_per_channel_axis())
            return utils._rebuild_qtensor, (storage, self.storage_offset(), tuple(self.size()), self.stride(), params, self.requires_grad, hooks)
        if self.dtype in torch.storage._new_dtypes():
            return utils._rebuild_tensor_v3, (storage._untyped_storage, self.storage_offset(), tuple(self.size()),
                                              self.stride(), self.requires_grad, hooks, self.dtype)
        args = (storage, self.storage_offset(), tuple(self.size()), self.stride(), self.requires_grad, hooks)
        metadata = utils.get_tensor_metadata(self)
        return utils._rebuild_tensor_v2, args + (metadata,) if metadata else args

    def __setstate__(self, state):
        if len(state) == 4:  # of PyTorch's first pickles
            self.set_(*state)
            return
        self.requires_grad, _, self._backward_hooks = state[0], state[1], state[2]

    def __copy__(self):
        func, args = self._reduce_ex_internal(2)[:2]
        new = func(*args)
        if type(self) is not type(new):
            new = new.detach().as_subclass(type(self)).requires_grad_(new.requires_grad)
        new.__dict__.update(self.__dict__)
        return new

    # ---- storages

    def storage(self):
        """The elements' storage, with a dtype. Of old: use untyped_storage()."""
        storage = _torch().storage
        storage._warn_typed_storage_removal(stacklevel=2)
        return self._typed_storage()

    def _typed_storage(self):
        storage = _torch().storage
        return storage.TypedStorage(wrap_storage=self.untyped_storage(), dtype=self.dtype, _internal=True)

    def storage_type(self):
        """The class of old that names its dtype's storages: torch.FloatStorage."""
        return self._typed_storage()._get_legacy_storage_class()

    def is_shared(self):
        """Is its memory shared between processes?"""
        return self.device.type == "cuda" or self.untyped_storage().is_shared()

    def share_memory_(self):
        """Move its memory to where processes can share it."""
        self.untyped_storage().share_memory_()
        return self

    # ---- text

    def _repr_html_(self):
        from rushlight import _html
        return _html.tensor_html(self)

    @_handled
    def __repr__(self, *, tensor_contents=None):
        try:
            from rushlight import _tensor_str
        except ImportError:
            return self._format()
        return _tensor_str._str(self, tensor_contents=tensor_contents)

    @_handled
    def __format__(self, spec):
        if self.dim() == 0 and not self.is_meta and type(self) is Tensor:
            return format(self.item(), spec)
        return object.__format__(self, spec)

    def __dir__(self):
        own = set(dir(type(self))) | set(self.__dict__)
        own.discard("volatile")
        if not self.is_cuda or self.is_sparse:
            own.discard("__cuda_array_interface__")
        return sorted(name for name in own if not name[0].isdigit())

    # ---- NumPy, DLPack

    def __array__(self, dtype=None, copy=None):
        array = self.numpy() if dtype is None else self.numpy().astype(dtype, copy=False)
        return array.copy() if copy else array

    def __array_wrap__(self, array, context=None, return_scalar=False):
        if array.dtype == bool:
            array = array.astype("uint8")
        return _torch().from_numpy(array)

    @property
    def __cuda_array_interface__(self):
        if not self.is_cuda:
            raise AttributeError("Can't get __cuda_array_interface__ on non-CUDA tensor type: %r If CUDA data is required "
                                 "use tensor.cuda() to copy tensor to device memory." % self.type())
        raise RuntimeError("__cuda_array_interface__ is not there yet")

    def __dlpack__(self, *, stream=None, max_version=None, dl_device=None, copy=None):
        if stream is not None and not isinstance(stream, int):
            raise TypeError("stream must be an int or None, not %s" % type(stream).__name__)
        if self.is_cpu and stream not in (None, -1):
            raise AssertionError("stream should be None on cpu.")
        if self.requires_grad:
            raise BufferError("Can't export tensors that require gradient, use tensor.detach()")
        if self.is_conj():
            raise BufferError("Can't export tensors with the conjugate bit set")
        if self.layout is not _C.strided:
            raise BufferError("Can't export tensors with layout other than torch.strided")
        if dl_device is not None and tuple(dl_device) != self.__dlpack_device__():
            raise BufferError("Cannot pack tensors for another device: %s is asked for, the tensor is on %s" % (tuple(dl_device), self.device))
        source = self.clone() if copy else self
        return _C._to_dlpack(source, max_version is not None and max_version[0] >= 1)

    def __dlpack_device__(self):
        kinds = _torch().utils.dlpack.DLDeviceType
        if self.is_cpu:
            return kinds.kDLCPU, 0
        if self.is_cuda:
            return kinds.kDLCUDA, self.device.index
        raise ValueError("Unknown device type %s for Dlpack" % self.device.type)

    # ---- operators that have no slot of their own

    def __reversed__(self):
        return self if self.dim() == 0 else self.flip(0)

    @_handled
    def __contains__(self, element):
        if isinstance(element, (Tensor, int, float, complex, bool)) or hasattr(element, "__torch_function__"):
            return bool((element == self).any().item())
        raise RuntimeError("Tensor.__contains__ only supports Tensor or scalar, but you passed in a %s." % type(element))

    def __complex__(self):
        if self.numel() != 1:
            raise ValueError("only one element tensors can be converted to Python scalars")
        return complex(self.item())

    @_handled
    def __rdiv__(self, other):
        return self.reciprocal() * other

    # ---- functions with more to them than an operation

    @_handled
    def register_hook(self, hook):
        """hook(grad) is called with the gradient and may give another; returns a handle with remove()."""
        return _C.TensorBase.register_hook(self, hook)

    @_handled
    def norm(self, p="fro", dim=None, keepdim=False, dtype=None):
        """torch.norm of this tensor."""
        return _torch().norm(self, p, dim, keepdim, dtype=dtype)

    @_handled
    def split(self, split_size, dim=0):
        """torch.split of this tensor."""
        if isinstance(split_size, (list, tuple)):
            return _C._VariableFunctions.split_with_sizes(self, split_size, dim)
        return _C._VariableFunctions.split(self, split_size, dim)

    @_handled
    def unique(self, sorted=True, return_inverse=False, return_counts=False, dim=None):
        """torch.unique of this tensor."""
        return _torch().unique(self, sorted=sorted, return_inverse=return_inverse, return_counts=return_counts, dim=dim)

    @_handled
    def unique_consecutive(self, return_inverse=False, return_counts=False, dim=None):
        """torch.unique_consecutive of this tensor."""
        return _torch().unique_consecutive(self, return_inverse=return_inverse, return_counts=return_counts, dim=dim)

    @_handled
    def stft(self, n_fft, hop_length=None, win_length=None, window=None, center=True, pad_mode="reflect",
             normalized=False, onesided=None, return_complex=None, align_to_window=None):
        """torch.stft of this tensor."""
        return _torch().stft(self, n_fft, hop_length, win_length, window, center, pad_mode, normalized, onesided,
                             return_complex=return_complex, align_to_window=align_to_window)

    @_handled
    def istft(self, n_fft, hop_length=None, win_length=None, window=None, center=True, normalized=False, onesided=None,
              length=None, return_complex=False):
        """torch.istft of this tensor."""
        return _torch().istft(self, n_fft, hop_length, win_length, window, center, normalized, onesided, length,
                              return_complex=return_complex)

    @_handled
    def lu(self, pivot=True, get_infos=False):
        """torch.lu of this tensor."""
        return _torch().functional.lu(self, pivot, get_infos)

    @_handled
    def where(self, condition, other):
        """The elements where condition holds, those of other elsewhere."""
        return _C._VariableFunctions.where(condition, self, other)

    @_handled
    def polygamma(self, n):
        """The n-th derivative of digamma."""
        return _C._VariableFunctions.polygamma(n, self)

    @_handled
    def polygamma_(self, n):
        """polygamma() in place."""
        return self.copy_(_C._VariableFunctions.polygamma(n, self.clone()))  # whose elements stay, for the derivative

    @_handled
    def unflatten(self, dim, sizes):
        """Dimension dim spread over several."""
        if not sizes:
            raise RuntimeError("unflatten: sizes must be non-empty")
        return _C._VariableFunctions.unflatten(self, dim, sizes)

    @_handled
    def resize(self, *sizes):
        """Of old: a tensor of another size over the same elements."""
        import warnings
        warnings.warn("non-inplace resize is deprecated", stacklevel=2)
        return self.reshape(sizes[0] if len(sizes) == 1 and not isinstance(sizes[0], int) else sizes)

    @_handled
    def resize_as(self, tensor):
        """Of old: a tensor of another's size over the same elements."""
        import warnings
        warnings.warn("non-inplace resize_as is deprecated", stacklevel=2)
        return self.reshape(tensor.shape)

    def dim_order(self, *, ambiguity_check=False):
        """The dimensions from the outermost in memory to the innermost.

        With ambiguity_check=True an error if the strides leave more than one order; with a list of memory formats, if
        the tensor fits none or several of them.
        """
        if isinstance(ambiguity_check, (list, tuple)) and all(isinstance(f, _C.memory_format) for f in ambiguity_check):
            formats = ambiguity_check
        elif isinstance(ambiguity_check, bool):
            formats = ()
        else:
            raise TypeError("The ambiguity_check argument must be a bool or a list of memory formats.")
        strides = self.stride()
        if ambiguity_check and 0 in strides:
            raise RuntimeError("The tensor does not have unique dim order.")
        open_order = 1 in self.shape or len(set(strides)) < self.dim()
        if ambiguity_check and open_order and sum(self.is_contiguous(memory_format=f) for f in formats) != 1:
            raise RuntimeError("The tensor does not have unique dim order, or cannot map to exact one of the given memory formats.")
        last = {4: _C.channels_last, 5: _C.channels_last_3d}.get(self.dim())
        if ambiguity_check and last is not None and self.is_contiguous() and self.is_contiguous(memory_format=last):
            raise RuntimeError("The tensor does not have unique dim order.")
        return tuple(sorted(range(self.dim()), key=lambda d: -self.stride(d)))

    def module_load(self, other, assign=False):
        """How load_state_dict puts `other` in the place of this parameter."""
        if _C._has_torch_function((self, other)):
            return _C._handle_torch_function(Tensor.module_load, (self, other), self, other, assign=assign)
        return (other if assign else self.copy_(other)).detach()

    @_handled
    def to_mkldnn(self, dtype=None):
        """A copy for what would take oneDNN's layouts. Operations choose these inside of a call here, and the copy is an ordinary tensor."""
        torch = _torch()
        if self.dtype not in (torch.float32, torch.bfloat16, torch.float16, torch.uint8, torch.int8):
            raise RuntimeError("dense_to_mkldnn expects float, bfloat16, half, uint8, int8 tensor input")
        if self.device.type != "cpu":
            raise RuntimeError("to_mkldnn expects a tensor on the CPU, not on %s" % self.device)
        return self.to(dtype or self.dtype, copy=True, memory_format=torch.contiguous_format)

    def to_sparse_coo(self):
        return self.to_sparse()

    def to_padded_tensor(self, padding, output_size=None):
        return _torch().nested.to_padded_tensor(self, padding, output_size)

    def _clear_non_serializable_cached_data(self):
        """A place for subclasses: called before a tensor is pickled."""

    def reinforce(self, reward):
        raise RuntimeError("'reinforce' is gone: use torch.distributions instead")

    def is_sparse_coo(self):
        return self.is_sparse

    __torch_dispatch__ = _C._disabled_torch_dispatch_impl

    __module__ = "rushlight"  # the alias changes it: _C._set_public_name


def _rebuild_from_type_v2(func, new_type, args, state):
    """What pickle calls to make a tensor of a subclass, or one with attributes."""
    made = func(*args)
    if type(made) is not new_type and new_type is not Tensor:
        made = made.as_subclass(new_type)
    if getattr(made.__class__, "__setstate__", Tensor.__setstate__) is not Tensor.__setstate__:
        made.__setstate__(state)
    else:
        made = _torch()._utils._set_obj_state(made, state)
    return made


_C._set_tensor_class(Tensor)

# What a subclass's default __torch_function__ gives back as it is: these are not made by the tensor.
_C._set_nowrap_functions({Tensor._base.__get__, Tensor.grad.__get__, Tensor._grad.__get__})
