"""Observers: modules that look at tensors on their way and say which scale and zero point would suit them."""
import functools
import warnings
from abc import ABCMeta, abstractmethod
from collections import OrderedDict

import rushlight as torch
from rushlight import nn
from .granularity import (Granularity, MappingType, PerAxis, PerBlock, PerGroup, PerRow, PerTensor, PerToken, TorchAODType,  # noqa: F401
                          ZeroPointDomain, get_block_size)

__all__ = ["default_affine_fixed_qparams_observer", "default_debug_observer", "default_dynamic_quant_observer", "default_fixed_qparams_range_0to1_observer",
           "default_fixed_qparams_range_neg1to1_observer", "default_float_qparams_observer", "default_float_qparams_observer_4bit", "default_histogram_observer",
           "default_observer", "default_per_channel_weight_observer", "default_placeholder_observer", "default_reuse_input_observer",
           "default_symmetric_fixed_qparams_observer", "default_weight_observer", "get_observer_state_dict", "load_observer_state_dict",
           "per_channel_weight_observer_range_neg_127_to_127", "weight_observer_range_neg_127_to_127", "FixedQParamsObserver", "HistogramObserver",
           "MinMaxObserver", "MovingAverageMinMaxObserver", "MovingAveragePerChannelMinMaxObserver", "NoopObserver", "ObserverBase",
           "PerChannelMinMaxObserver", "PlaceholderObserver", "RecordingObserver", "ReuseInputObserver", "UniformQuantizationObserverBase"]

_PER_CHANNEL = (torch.per_channel_affine, torch.per_channel_symmetric, torch.per_channel_affine_float_qparams)
_SYMMETRIC = (torch.per_tensor_symmetric, torch.per_channel_symmetric)
_BOUNDS = {torch.qint8: (-128, 127), torch.int8: (-128, 127), torch.quint8: (0, 255), torch.uint8: (0, 255), torch.qint32: (-2 ** 31, 2 ** 31 - 1),
           torch.int32: (-2 ** 31, 2 ** 31 - 1), torch.int16: (-2 ** 15, 2 ** 15 - 1), torch.uint16: (0, 2 ** 16 - 1), torch.quint4x2: (0, 15)}


class _PartialWrapper:
    """A class with some arguments given, to be called with more."""

    def __init__(self, p):
        self.p, self.callable_args = p, {}

    def __call__(self, *args, **keywords):
        for name, function in self.callable_args.items():
            if name not in keywords:
                keywords[name] = function()
        return self.p(*args, **keywords)

    def __repr__(self):
        return repr(self.p) + repr(self.callable_args)

    def with_args(self, **kwargs):
        """The same with more arguments given."""
        return _with_args(self, **kwargs)

    def with_callable_args(self, **kwargs):
        """The same with arguments that are made by calling functions, each time anew."""
        made = _PartialWrapper(functools.partial(self))
        made.callable_args = {**self.callable_args, **kwargs}
        return made


def _with_args(cls_or_self, **kwargs):
    return _PartialWrapper(functools.partial(cls_or_self, **kwargs))


def _with_callable_args(cls_or_self, **kwargs):
    return _PartialWrapper(functools.partial(cls_or_self)).with_callable_args(**kwargs)


class ObserverBase(nn.Module, metaclass=ABCMeta):
    """What all observers are: modules with a forward that looks, and calculate_qparams()."""

    with_args = classmethod(_with_args)
    with_callable_args = classmethod(_with_callable_args)

    def __init__(self, dtype, is_dynamic=False):
        super().__init__()
        self.dtype, self.is_dynamic = dtype, is_dynamic

    @abstractmethod
    def forward(self, x):
        """x, looked at."""

    @abstractmethod
    def calculate_qparams(self, **kwargs):
        """The scale and the zero point."""


class UniformQuantizationObserverBase(ObserverBase):
    """Scale and zero point of a range of numbers: the arithmetic that most observers share."""

    _version = 3

    def __init__(self, dtype=torch.quint8, qscheme=torch.per_tensor_affine, reduce_range=False, quant_min=None, quant_max=None, factory_kwargs=None,
                 eps=torch.finfo(torch.float32).eps, is_dynamic=False, **kwargs):
        factory = {name: value for name, value in (factory_kwargs or {}).items() if name in ("device", "dtype")}
        super().__init__(dtype=dtype, is_dynamic=is_dynamic, **kwargs)
        if qscheme not in _PER_CHANNEL + (torch.per_tensor_affine, torch.per_tensor_symmetric):
            raise AssertionError("Default Observer only works for per_tensor_affine, per_tensor_symmetric, per_channel_affine, "
                                 "per_channel_symmetric and per_channel_float_qparams quantization scheme")
        if dtype not in _BOUNDS and dtype not in (torch.float8_e5m2, torch.float8_e4m3fn):
            raise AssertionError("Default Observer only works for qint8, quint8 and quint4x2 data type, got %s" % dtype)
        if reduce_range:
            warnings.warn("Please use quant_min and quant_max to specify the range for observers.                     reduce_range will be "
                          "deprecated in a future release of PyTorch.", stacklevel=2)
        self.qscheme, self.reduce_range = qscheme, reduce_range
        self.register_buffer("eps", torch.tensor([eps], **factory))
        self.has_customized_qrange = quant_min is not None and quant_max is not None
        if self.has_customized_qrange:
            if not quant_min <= 0 <= quant_max:
                raise AssertionError("Used-specified quantization range must include 0.")
            if quant_min >= quant_max:
                raise AssertionError("qmin must be less than qmax for user-specified quantization range.")
            self.quant_min, self.quant_max = quant_min, quant_max
            if reduce_range and dtype in (torch.qint8, torch.quint8, torch.int8, torch.uint8):
                self.quant_min, self.quant_max = quant_min // 2, quant_max // 2
        else:
            low, high = _BOUNDS.get(dtype, (None, None))
            halved = reduce_range and dtype in (torch.qint8, torch.quint8, torch.int8, torch.uint8)
            self.quant_min, self.quant_max = (low // 2, high // 2) if halved else (low, high)

    def _load_from_state_dict(self, state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs):
        if local_metadata.get("version") in (None, 1):  # before eps was part of it
            state_dict[prefix + "eps"] = self.eps
        super()._load_from_state_dict(state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs)

    def _calculate_qparams(self, min_val, max_val):
        """Scale and zero point that suit numbers between min_val and max_val, which may be of channels."""
        if not _ends_known(min_val, max_val):
            return torch.tensor([1.0], device=min_val.device.type), torch.tensor([0], device=min_val.device.type)
        low, high = torch.clamp(min_val, max=0), torch.clamp(max_val, min=0)
        steps = float(self.quant_max - self.quant_min)
        zero_point = torch.zeros(low.size(), dtype=torch.int64, device=low.device)
        if self.qscheme in _SYMMETRIC:
            scale = torch.max(torch.max(-low, high) / (steps / 2), self.eps)
            if self.dtype in (torch.quint8, torch.uint8):
                zero_point = torch.full_like(zero_point, (self.quant_min + self.quant_max) // 2 if self.has_customized_qrange else 128)
            elif self.dtype == torch.uint16:
                zero_point = torch.full_like(zero_point, (self.quant_min + self.quant_max) // 2 if self.has_customized_qrange else 2 ** 15)
        elif self.qscheme == torch.per_channel_affine_float_qparams:
            scale = (max_val - min_val) / steps
            scale = torch.where(scale > self.eps, scale, torch.ones_like(scale))
            zero_point = -1 * min_val / scale
        else:
            scale = torch.max((high - low) / steps, self.eps)
            zero_point = torch.clamp(self.quant_min - torch.round(low / scale).to(torch.int), self.quant_min, self.quant_max)
        if scale.ndim == 0:
            scale = scale.reshape(1).detach()
        if zero_point.ndim == 0:
            zero_point = zero_point.reshape(1).detach()
        return scale, zero_point

    def reset_min_max_vals(self):
        raise NotImplementedError("Cannot reset min/max values in the given observer.")


def _ends_known(min_val, max_val):
    """Has anything been seen? Says so if not."""
    if min_val.numel() == 0 or max_val.numel() == 0 or (min_val.numel() == 1 and min_val == float("inf") and max_val == float("-inf")):
        warnings.warn("must run observer before calling calculate_qparams. Returning default values.", stacklevel=3)
        return False
    if (min_val > max_val).any():
        raise AssertionError("min %s should be less than max %s" % (min_val, max_val))
    return True


class MinMaxObserver(UniformQuantizationObserverBase):
    """Keeps the least and the greatest element it has seen."""

    def __init__(self, dtype=torch.quint8, qscheme=torch.per_tensor_affine, reduce_range=False, quant_min=None, quant_max=None, factory_kwargs=None,
                 eps=torch.finfo(torch.float32).eps, is_dynamic=False, **kwargs):
        if qscheme not in (torch.per_tensor_affine, torch.per_tensor_symmetric):
            raise NotImplementedError("MinMaxObserver's qscheme only support torch.per_tensor_symmetric                     and torch.per_tensor_affine.")
        super().__init__(dtype=dtype, qscheme=qscheme, reduce_range=reduce_range, quant_min=quant_min, quant_max=quant_max, factory_kwargs=factory_kwargs,
                         eps=eps, is_dynamic=is_dynamic, **kwargs)
        factory = {name: value for name, value in (factory_kwargs or {}).items() if name in ("device", "dtype")}
        self.register_buffer("min_val", torch.tensor(float("inf"), **factory))
        self.register_buffer("max_val", torch.tensor(float("-inf"), **factory))
        if self.qscheme == torch.per_tensor_symmetric and self.reduce_range and self.dtype == torch.quint8:
            raise NotImplementedError("Cannot reduce range for symmetric                                        quantization for quint8")

    def forward(self, x_orig):
        """x_orig, whose ends are taken in."""
        if x_orig.numel() == 0:
            return x_orig
        low, high = torch.aminmax(x_orig.detach().to(self.min_val.dtype))
        self.min_val.copy_(torch.min(low, self.min_val))
        self.max_val.copy_(torch.max(high, self.max_val))
        return x_orig

    def calculate_qparams(self):
        """The scale and the zero point of what was seen."""
        return self._calculate_qparams(self.min_val, self.max_val)

    def extra_repr(self):
        return f"min_val={self.min_val}, max_val={self.max_val}"

    def reset_min_max_vals(self):
        """Forgets what was seen."""
        self.min_val.copy_(torch.tensor(float("inf")))
        self.max_val.copy_(torch.tensor(float("-inf")))


class MovingAverageMinMaxObserver(MinMaxObserver):
    """The least and greatest elements follow those of each tensor by averaging_constant."""

    def __init__(self, averaging_constant=0.01, dtype=torch.quint8, qscheme=torch.per_tensor_affine, reduce_range=False, quant_min=None, quant_max=None,
                 eps=torch.finfo(torch.float32).eps, is_dynamic=False, **kwargs):
        if qscheme not in (torch.per_tensor_affine, torch.per_tensor_symmetric):
            raise NotImplementedError("MovingAverageMinMaxObserver's qscheme only support                     torch.per_tensor_symmetric and torch.per_tensor_affine."
                                      "                     but got: %s" % (qscheme,))
        self.averaging_constant = averaging_constant
        if is_dynamic and averaging_constant != 1:
            raise NotImplementedError("MovingAverageMinMaxObserver doesn't support dynamic quantization for averaging constant of %s" % averaging_constant)
        super().__init__(dtype=dtype, qscheme=qscheme, reduce_range=reduce_range, quant_min=quant_min, quant_max=quant_max, eps=eps, is_dynamic=is_dynamic, **kwargs)

    def forward(self, x_orig):
        """x_orig, whose ends are followed."""
        if x_orig.numel() == 0:
            return x_orig
        low, high = torch.aminmax(x_orig.detach().to(self.min_val.dtype))
        if not (self.min_val == float("inf") and self.max_val == float("-inf")):
            low = self.min_val + self.averaging_constant * (low - self.min_val)
            high = self.max_val + self.averaging_constant * (high - self.max_val)
        self.min_val.copy_(low)
        self.max_val.copy_(high)
        return x_orig


class PerChannelMinMaxObserver(UniformQuantizationObserverBase):
    """Keeps the least and the greatest element of each channel."""

    def __init__(self, ch_axis=0, dtype=torch.quint8, qscheme=torch.per_channel_affine, reduce_range=False, quant_min=None, quant_max=None, factory_kwargs=None,
                 eps=torch.finfo(torch.float32).eps, is_dynamic=False, **kwargs):
        if qscheme not in _PER_CHANNEL:
            raise NotImplementedError("PerChannelMinMaxObserver's qscheme only support                     torch.per_channel_symmetric, torch.per_channel_affine and "
                                      "torch.per_channel_affine_float_qparams.")
        if is_dynamic:
            raise NotImplementedError("PerChannelMinMaxObserver doesn't support dynamic quantization")
        super().__init__(dtype=dtype, qscheme=qscheme, reduce_range=reduce_range, quant_min=quant_min, quant_max=quant_max, factory_kwargs=factory_kwargs,
                         eps=eps, is_dynamic=is_dynamic, **kwargs)
        factory = {name: value for name, value in (factory_kwargs or {}).items() if name in ("device", "dtype")}
        self.ch_axis = ch_axis
        self.register_buffer("min_val", torch.tensor([], **factory))
        self.register_buffer("max_val", torch.tensor([], **factory))
        if self.qscheme == torch.per_channel_symmetric and self.reduce_range and self.dtype == torch.quint8:
            raise NotImplementedError("Cannot reduce range for symmetric quantization for quint8")

    def forward(self, x_orig):
        return self._forward(x_orig)

    def _ends(self, x):
        rows = x.detach().transpose(0, self.ch_axis).to(self.min_val.dtype)
        return torch.aminmax(torch.flatten(rows, start_dim=1), dim=1)

    def _join(self, low, high):
        return torch.min(low, self.min_val), torch.max(high, self.max_val)

    def _forward(self, x_orig):
        if x_orig.numel() == 0:
            return x_orig
        low, high = self._ends(x_orig)
        if self.min_val.numel() and self.max_val.numel():
            low, high = self._join(low, high)
        self.min_val.resize_(low.shape)
        self.max_val.resize_(high.shape)
        self.min_val.copy_(low)
        self.max_val.copy_(high)
        return x_orig

    def calculate_qparams(self):
        """The scales and the zero points of what was seen."""
        return self._calculate_qparams(self.min_val, self.max_val)

    def extra_repr(self):
        return f"min_val={self.min_val}, max_val={self.max_val}"

    def _load_from_state_dict(self, state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs):
        version = local_metadata.get("version")
        old = version is not None and version < 3
        for name, key in (("min_val", "min_vals" if old else "min_val"), ("max_val", "max_vals" if old else "max_val")):
            if prefix + key in state_dict:
                getattr(self, name).resize_(state_dict[prefix + key].shape)
                if old:
                    state_dict[prefix + name] = state_dict.pop(prefix + key)
        super()._load_from_state_dict(state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs)

    def reset_min_max_vals(self):
        """Forgets what was seen."""
        self.min_val, self.max_val = torch.rand(0), torch.rand(0)


class MovingAveragePerChannelMinMaxObserver(PerChannelMinMaxObserver):
    """The ends of each channel follow those of each tensor by averaging_constant."""

    def __init__(self, averaging_constant=0.01, ch_axis=0, dtype=torch.quint8, qscheme=torch.per_channel_affine, reduce_range=False, quant_min=None, quant_max=None,
                 eps=torch.finfo(torch.float32).eps, is_dynamic=False, **kwargs):
        if is_dynamic:
            raise NotImplementedError("MovingAveragePerChannelMinMaxObserver doesn't support dynamic quantization")
        super().__init__(ch_axis=ch_axis, dtype=dtype, qscheme=qscheme, reduce_range=reduce_range, quant_min=quant_min, quant_max=quant_max, eps=eps,
                         is_dynamic=is_dynamic, **kwargs)
        self.averaging_constant = averaging_constant

    def _join(self, low, high):
        return self.min_val + self.averaging_constant * (low - self.min_val), self.max_val + self.averaging_constant * (high - self.max_val)


class HistogramObserver(UniformQuantizationObserverBase):
    """Keeps a histogram, and cuts off its ends where that makes the error smaller."""

    def __init__(self, bins=2048, dtype=torch.quint8, qscheme=torch.per_tensor_affine, reduce_range=False, quant_min=None, quant_max=None, factory_kwargs=None,
                 eps=torch.finfo(torch.float32).eps, is_dynamic=False, **kwargs):
        if qscheme not in (torch.per_tensor_affine, torch.per_tensor_symmetric):
            raise NotImplementedError("HistogramObserver's qscheme only support torch.per_tensor_symmetric                     and torch.per_tensor_affine.")
        if is_dynamic:
            raise NotImplementedError("HistogramObserver doesn't support dynamic quantization")
        super().__init__(dtype=dtype, qscheme=qscheme, reduce_range=reduce_range, quant_min=quant_min, quant_max=quant_max, factory_kwargs=factory_kwargs,
                         eps=eps, is_dynamic=is_dynamic, **kwargs)
        factory = {name: value for name, value in (factory_kwargs or {}).items() if name in ("device", "dtype")}
        self.bins = bins
        self.register_buffer("histogram", torch.zeros(bins, **factory))
        self.register_buffer("min_val", torch.tensor(float("inf"), **factory))
        self.register_buffer("max_val", torch.tensor(float("-inf"), **factory))
        self.dst_nbins = 2 ** torch.iinfo(self.dtype).bits
        self.upsample_rate = 16

    def _spread(self, low, high):
        """The histogram so far in bins between low and high, by the middles of finer bins."""
        if self.min_val == self.max_val:
            return torch.histc(self.min_val, self.bins, min=low.item(), max=high.item()) * torch.sum(self.histogram)
        finer = self.bins * self.upsample_rate
        counts = self.histogram.repeat_interleave(self.upsample_rate) / self.upsample_rate
        middles = torch.linspace(self.min_val, self.max_val, finer + 1)[:-1] + 0.5 * ((self.max_val - self.min_val) / finer)
        edges = torch.linspace(low, high, self.bins + 1)
        places = torch.bucketize(middles, edges, right=True) - 1
        places = torch.clamp(places, 0, self.bins - 1)
        return torch.bincount(places, weights=counts, minlength=self.bins)

    def forward(self, x_orig):
        """x_orig, counted."""
        if x_orig.numel() == 0:
            return x_orig
        x = x_orig.detach()
        low, high = torch.aminmax(x)
        if torch.isinf(low) or torch.isinf(high):
            warnings.warn("torch.inf detected in input tensor, ignoring input", stacklevel=2)
            x = x[x.abs() != float("inf")]
            if x.numel() == 0:
                return x_orig
            low, high = torch.aminmax(x)
        known = not (self.min_val == float("inf") or self.max_val == float("-inf"))
        if known:
            low, high = torch.min(self.min_val, low), torch.max(self.max_val, high)
        counts = torch.histc(x.to(torch.float32), self.bins, min=low.item(), max=high.item())
        if known:
            same = low == self.min_val and high == self.max_val
            counts = counts + (self.histogram if same else self._spread(low, high).to(counts.dtype))
        self.histogram.detach_().resize_(counts.shape).copy_(counts)
        self.min_val.detach_().resize_(low.shape).copy_(low)
        self.max_val.detach_().resize_(high.shape).copy_(high)
        return x_orig

    def calculate_qparams(self):
        """The scale and the zero point of the part of the histogram that costs the least error."""
        if self.min_val == float("inf") and self.max_val == float("-inf"):
            warnings.warn("must run observer before calling calculate_qparams.                                    Returning default scale and zero point ", stacklevel=2)
            return torch.tensor([1.0], device=self.min_val.device.type), torch.tensor([0], device=self.min_val.device.type)
        if self.bins != len(self.histogram):
            raise AssertionError("The number of bins in histogram should be equal to the number of bins supplied while making this observer")
        return self._calculate_qparams(*self._non_linear_param_search())

    def _non_linear_param_search(self):
        return torch._histogram_range(self.histogram.float(), self.min_val, self.max_val, self.dst_nbins)

    def _load_from_state_dict(self, state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs):
        for name in ("min_val", "max_val"):  # files of old have vectors of one
            value = state_dict.get(prefix + name)
            if value is not None and value.shape != getattr(self, name).shape:
                state_dict[prefix + name] = value.reshape(getattr(self, name).shape)
        super()._load_from_state_dict(state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs)

    def extra_repr(self):
        return f"min_val={self.min_val}, max_val={self.max_val}"


class FixedQParamsObserver(ObserverBase):
    """A scale and a zero point that are known beforehand."""

    def __init__(self, scale, zero_point, dtype=torch.quint8, qscheme=torch.per_tensor_affine, quant_min=0, quant_max=255, is_dynamic=False, **kwargs):
        if is_dynamic:
            raise NotImplementedError("FixedQParamsObserver doesn't support dynamic quantization")
        super().__init__(dtype=dtype, is_dynamic=is_dynamic, **kwargs)
        self.quant_min, self.quant_max = quant_min, quant_max
        self.register_buffer("scale", torch.tensor([scale], dtype=torch.float))
        self.register_buffer("zero_point", torch.tensor([zero_point], dtype=torch.int))
        self.dtype, self.qscheme = dtype, qscheme

    def forward(self, X):
        return X

    def calculate_qparams(self):
        """The scale and the zero point that were given."""
        return self.scale, self.zero_point


class PlaceholderObserver(ObserverBase):
    """Looks at nothing, and says with which dtype something is to be quantized."""

    def __init__(self, dtype=torch.float32, custom_op_name="", compute_dtype=None, quant_min=None, quant_max=None, qscheme=None, eps=None, is_dynamic=False):
        super().__init__(dtype=dtype, is_dynamic=is_dynamic)
        self.qscheme = torch.per_tensor_affine if qscheme is None else qscheme
        self.quant_min, self.quant_max = quant_min, quant_max
        self.eps = torch.finfo(torch.float32).eps if eps is None else eps
        self.custom_op = custom_op_name
        if compute_dtype:
            is_dynamic = True
            warnings.warn("Please use `is_dynamic` instead of `compute_dtype`. `compute_dtype` will be deprecated in a future release                 of PyTorch.", stacklevel=2)
        self.is_dynamic = is_dynamic

    def forward(self, x):
        return x

    def extra_repr(self):
        return "dtype=%s, is_dynamic=%s" % (self.dtype, self.is_dynamic)

    def calculate_qparams(self):
        raise Exception("calculate_qparams should not be called for PlaceholderObserver")


class RecordingObserver(ObserverBase):
    """Keeps copies of all that it sees."""

    def __init__(self, dtype=torch.quint8):
        super().__init__(dtype=dtype, is_dynamic=False)
        self.tensor_val = []

    def forward(self, x):
        self.tensor_val.append(x.clone())
        return x

    def calculate_qparams(self):
        raise Exception("calculate_qparams should not be called for RecordingObserver")

    def get_tensor_value(self):
        """All that was seen."""
        return self.tensor_val


class NoopObserver(ObserverBase):
    """Looks at nothing: of layers that go to float16."""

    def __init__(self, dtype=torch.float16, custom_op_name=""):
        super().__init__(dtype=dtype, is_dynamic=False)
        self.dtype, self.custom_op = dtype, custom_op_name

    def forward(self, x):
        return x

    def calculate_qparams(self):
        raise Exception("calculate_qparams should not be called for NoopObserver")


class ReuseInputObserver(ObserverBase):
    """Says that a result keeps the scale and the zero point of what it was made of."""

    def __init__(self):
        super().__init__(torch.quint8, is_dynamic=False)

    def forward(self, x):
        return x

    def calculate_qparams(self):
        raise Exception("calculate_qparams should not be called for ReuseInputObserver")


def _is_observer(module):
    return isinstance(module, ObserverBase)



def _is_activation_post_process(module):
    from .fake_quantize import FakeQuantizeBase
    return isinstance(module, (ObserverBase, FakeQuantizeBase))


def _is_per_channel_script_obs_instance(module):
    return False


def get_observer_state_dict(mod):
    """The part of a model's state_dict that its observers have."""
    return OrderedDict((name, value) for name, value in mod.state_dict().items() if "activation_post_process" in name)


def load_observer_state_dict(mod, obs_dict):
    """Gives a model the state of its observers."""
    missing, unexpected = [], []
    for name, module in mod.named_modules():
        if _is_activation_post_process(module):
            module._load_from_state_dict(obs_dict, name + ".", {"version": 3}, False, missing, unexpected, [])
    for key in missing:
        if "observer" in key or "activation_post_process" in key:
            raise Exception("Missing keys for observer %s in state_dict" % key)
    for key in unexpected:
        if "observer" in key or "activation_post_process" in key:
            raise Exception("Unexpected keys for observer %s in state_dict" % key)


default_observer = MinMaxObserver.with_args(quant_min=0, quant_max=127)
default_placeholder_observer = PlaceholderObserver
default_debug_observer = RecordingObserver
default_weight_observer = MinMaxObserver.with_args(dtype=torch.qint8, qscheme=torch.per_tensor_symmetric)
weight_observer_range_neg_127_to_127 = MinMaxObserver.with_args(dtype=torch.qint8, qscheme=torch.per_tensor_symmetric, quant_min=-127, quant_max=127, eps=2 ** -12)
default_histogram_observer = HistogramObserver.with_args(quant_min=0, quant_max=127)
default_per_channel_weight_observer = PerChannelMinMaxObserver.with_args(dtype=torch.qint8, qscheme=torch.per_channel_symmetric)
per_channel_weight_observer_range_neg_127_to_127 = PerChannelMinMaxObserver.with_args(
    dtype=torch.qint8, qscheme=torch.per_channel_symmetric, quant_min=-127, quant_max=127, eps=2 ** -12)
default_dynamic_quant_observer = PlaceholderObserver.with_args(dtype=torch.quint8, quant_min=0, quant_max=255, is_dynamic=True)
default_float_qparams_observer = PerChannelMinMaxObserver.with_args(dtype=torch.quint8, qscheme=torch.per_channel_affine_float_qparams, ch_axis=0)
default_float_qparams_observer_4bit = PerChannelMinMaxObserver.with_args(dtype=torch.quint4x2, qscheme=torch.per_channel_affine_float_qparams, ch_axis=0)
default_fixed_qparams_range_neg1to1_observer = FixedQParamsObserver.with_args(scale=2.0 / 256.0, zero_point=128, dtype=torch.quint8, quant_min=0, quant_max=255)
default_fixed_qparams_range_0to1_observer = FixedQParamsObserver.with_args(scale=1.0 / 256.0, zero_point=0, dtype=torch.quint8, quant_min=0, quant_max=255)
default_symmetric_fixed_qparams_observer = default_fixed_qparams_range_neg1to1_observer
default_affine_fixed_qparams_observer = default_fixed_qparams_range_0to1_observer
default_reuse_input_observer = ReuseInputObserver
