"""Fake quantization: modules that round what passes to the grid their observer chooses, in floats and with gradients."""
from abc import ABC, abstractmethod

import rushlight as torch
from rushlight import nn
from .observer import (_PER_CHANNEL, _with_args, default_fixed_qparams_range_0to1_observer, default_fixed_qparams_range_neg1to1_observer,
                       FixedQParamsObserver, HistogramObserver, MovingAverageMinMaxObserver, MovingAveragePerChannelMinMaxObserver)

__all__ = ["FakeQuantizeBase", "FakeQuantize", "FixedQParamsFakeQuantize", "FusedMovingAvgObsFakeQuantize", "disable_fake_quant", "disable_observer",
           "enable_fake_quant", "enable_observer", "default_fake_quant", "default_weight_fake_quant", "default_dynamic_fake_quant",
           "default_fixed_qparams_range_neg1to1_fake_quant", "default_fixed_qparams_range_0to1_fake_quant", "default_symmetric_fixed_qparams_fake_quant",
           "default_affine_fixed_qparams_fake_quant", "default_per_channel_weight_fake_quant", "default_embedding_fake_quant",
           "default_embedding_fake_quant_4bit", "default_histogram_fake_quant", "default_fused_act_fake_quant", "default_fused_wt_fake_quant",
           "default_fused_per_channel_wt_fake_quant", "fused_wt_fake_quant_range_neg_127_to_127", "fused_per_channel_wt_fake_quant_range_neg_127_to_127"]

_SYMMETRIC = (torch.per_tensor_symmetric, torch.per_channel_symmetric)


class FakeQuantizeBase(ABC, nn.Module):
    """What all have: two switches, kept as buffers so that they are part of checkpoints."""

    with_args = classmethod(_with_args)

    def __init__(self):
        super().__init__()
        self.register_buffer("fake_quant_enabled", torch.tensor([1], dtype=torch.uint8))
        self.register_buffer("observer_enabled", torch.tensor([1], dtype=torch.uint8))

    @abstractmethod
    def forward(self, x):
        """x, looked at and rounded."""

    @abstractmethod
    def calculate_qparams(self, **kwargs):
        """The scale and the zero point."""

    def enable_fake_quant(self, enabled=True):
        """Round from now on, or no longer."""
        self.fake_quant_enabled[0] = 1 if enabled else 0

    def disable_fake_quant(self):
        """Round no longer."""
        self.enable_fake_quant(False)

    def enable_observer(self, enabled=True):
        """Look from now on, or no longer."""
        self.observer_enabled[0] = 1 if enabled else 0

    def disable_observer(self):
        """Look no longer."""
        self.enable_observer(False)


class FakeQuantize(FakeQuantizeBase):
    """Rounds to the grid that an observer of what passes chooses."""

    def __init__(self, observer=MovingAverageMinMaxObserver, quant_min=None, quant_max=None, is_dynamic=False, **observer_kwargs):
        super().__init__()
        if quant_min is not None and quant_max is not None:
            if quant_min > quant_max:
                raise AssertionError("quant_min must be less than or equal to quant_max")
            dtype = observer_kwargs.get("dtype", torch.quint8)
            if hasattr(observer, "p"):
                dtype = getattr(getattr(observer, "p", {}), "keywords", {}).get("dtype", dtype)
            bounds = torch.iinfo(dtype)
            if not (bounds.min <= quant_min and quant_max <= bounds.max):
                raise AssertionError("quant_min and quant_max out of bound")
            observer_kwargs.update(quant_min=quant_min, quant_max=quant_max)
        observer_kwargs["is_dynamic"] = is_dynamic
        self.activation_post_process = observer(**observer_kwargs)
        seen = self.activation_post_process
        self.quant_min, self.quant_max, self.is_dynamic = seen.quant_min, seen.quant_max, seen.is_dynamic
        floats = seen.qscheme == torch.per_channel_affine_float_qparams
        self.register_buffer("scale", torch.tensor([1.0], dtype=torch.float))
        self.register_buffer("zero_point", torch.tensor([0], dtype=torch.float if floats else torch.int))
        self.dtype, self.qscheme = seen.dtype, seen.qscheme
        self.ch_axis = getattr(seen, "ch_axis", -1)
        if self.qscheme not in _PER_CHANNEL + (torch.per_tensor_affine, torch.per_tensor_symmetric):
            raise AssertionError("Only per channel and per tensor quantization are supported in fake quantize got qscheme: %s" % (self.qscheme,))
        self.is_per_channel = self.qscheme in _PER_CHANNEL

    def calculate_qparams(self):
        """The observer's scale and zero point."""
        return self.activation_post_process.calculate_qparams()

    def forward(self, X):
        """X on the grid."""
        if self.observer_enabled[0] == 1:
            self.activation_post_process(X.detach())
            scale, zero_point = self.calculate_qparams()
            if self.scale.shape != scale.shape:
                self.scale.resize_(scale.shape)
                self.zero_point.resize_(zero_point.shape)
            self.scale.copy_(scale)
            self.zero_point.copy_(zero_point)
        if self.fake_quant_enabled[0] == 1:
            seen = self.activation_post_process
            if self.is_per_channel:
                return torch.fake_quantize_per_channel_affine(X, self.scale, self.zero_point, self.ch_axis, seen.quant_min, seen.quant_max)
            return torch.fake_quantize_per_tensor_affine(X, self.scale, self.zero_point, seen.quant_min, seen.quant_max)
        return X

    def extra_repr(self):
        seen = self.activation_post_process
        return ("fake_quant_enabled=%s, observer_enabled=%s, quant_min=%s, quant_max=%s, dtype=%s, qscheme=%s, ch_axis=%s, scale=%s, zero_point=%s"
                % (self.fake_quant_enabled, self.observer_enabled, seen.quant_min, seen.quant_max, self.dtype, self.qscheme, self.ch_axis, self.scale, self.zero_point))

    def _save_to_state_dict(self, destination, prefix, keep_vars):
        super()._save_to_state_dict(destination, prefix, keep_vars)
        destination[prefix + "scale"], destination[prefix + "zero_point"] = self.scale, self.zero_point

    def _load_from_state_dict(self, state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs):
        for name in ("scale", "zero_point"):
            if prefix + name in state_dict:
                getattr(self, name).resize_(state_dict[prefix + name].shape)
            elif strict:
                missing_keys.append(prefix + name)
        super()._load_from_state_dict(state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs)


class FixedQParamsFakeQuantize(FakeQuantize):
    """Rounds to a grid that is known beforehand."""

    def __init__(self, observer):
        super().__init__(observer=observer)
        if type(self.activation_post_process) is not FixedQParamsObserver:
            raise AssertionError("%s's observer must be a %s" % (type(self).__name__, FixedQParamsObserver.__name__))
        self._observer_ctr = observer
        self.scale, self.zero_point = self.activation_post_process.scale, self.activation_post_process.zero_point
        if self.qscheme not in (torch.per_tensor_affine, torch.per_tensor_symmetric):
            raise AssertionError("Only per tensor quantization is supported FixedQParamsFakeQuantize module, got qscheme:%s" % (self.qscheme,))

    def calculate_qparams(self):
        """The scale and the zero point that were given."""
        return self.scale, self.zero_point

    def extra_repr(self):
        return ("fake_quant_enabled=%s, observer_enabled=%s, scale=%s, zero_point=%s, dtype=%s, quant_min=%s, quant_max=%s, qscheme=%s"
                % (self.fake_quant_enabled, self.observer_enabled, self.scale, self.zero_point, self.dtype, self.activation_post_process.quant_min,
                   self.activation_post_process.quant_max, self.qscheme))


class FusedMovingAvgObsFakeQuantize(FakeQuantize):
    """FakeQuantize with a moving average, in one pass."""

    def __init__(self, observer=MovingAverageMinMaxObserver, quant_min=0, quant_max=255, is_dynamic=False, **observer_kwargs):
        super().__init__(observer, quant_min, quant_max, is_dynamic, **observer_kwargs)
        if not isinstance(self.activation_post_process, (MovingAverageMinMaxObserver, MovingAveragePerChannelMinMaxObserver)):
            raise AssertionError("Fused observer+fake_quant module only works with MovingAverageMinMaxObserver")
        self.register_buffer("fake_quant_enabled", torch.tensor([1], dtype=torch.long))
        self.register_buffer("observer_enabled", torch.tensor([1], dtype=torch.long))
        self.is_symmetric_quant = self.activation_post_process.qscheme in _SYMMETRIC

    def forward(self, X):
        """X on the grid."""
        seen = self.activation_post_process
        return torch.fused_moving_avg_obs_fake_quant(
            X, self.observer_enabled, self.fake_quant_enabled, seen.min_val, seen.max_val, self.scale, self.zero_point, seen.averaging_constant,
            seen.quant_min, seen.quant_max, self.ch_axis, self.is_per_channel, self.is_symmetric_quant)

    def extra_repr(self):
        seen = self.activation_post_process
        return ("fake_quant_enabled=%s, observer_enabled=%s, scale=%s, zero_point=%s, dtype=%s, quant_min=%s, quant_max=%s, qscheme=%s, reduce_range=%s"
                % (self.fake_quant_enabled, self.observer_enabled, self.scale, self.zero_point, self.dtype, seen.quant_min, seen.quant_max, self.qscheme, seen.reduce_range))


def _switch(name, enabled):
    def function(mod):
        if isinstance(mod, FakeQuantizeBase):
            getattr(mod, name)(enabled)
    return function


def disable_fake_quant(mod):
    """For model.apply(): round no longer."""
    _switch("enable_fake_quant", False)(mod)


def enable_fake_quant(mod):
    """For model.apply(): round from now on."""
    _switch("enable_fake_quant", True)(mod)


def disable_observer(mod):
    """For model.apply(): look no longer."""
    _switch("enable_observer", False)(mod)


def enable_observer(mod):
    """For model.apply(): look from now on."""
    _switch("enable_observer", True)(mod)


_WEIGHT = {"quant_min": -128, "quant_max": 127, "dtype": torch.qint8}

default_fake_quant = FakeQuantize.with_args(observer=MovingAverageMinMaxObserver, quant_min=0, quant_max=255, dtype=torch.quint8, qscheme=torch.per_tensor_affine, reduce_range=True)
default_weight_fake_quant = FakeQuantize.with_args(observer=MovingAverageMinMaxObserver, **_WEIGHT, qscheme=torch.per_tensor_symmetric, reduce_range=False)
default_dynamic_fake_quant = FakeQuantize.with_args(observer=MovingAverageMinMaxObserver, quant_min=0, quant_max=255, is_dynamic=True, dtype=torch.quint8, averaging_constant=1)
default_fixed_qparams_range_neg1to1_fake_quant = FixedQParamsFakeQuantize.with_args(observer=default_fixed_qparams_range_neg1to1_observer)
default_fixed_qparams_range_0to1_fake_quant = FixedQParamsFakeQuantize.with_args(observer=default_fixed_qparams_range_0to1_observer)
default_symmetric_fixed_qparams_fake_quant = default_fixed_qparams_range_neg1to1_fake_quant
default_affine_fixed_qparams_fake_quant = default_fixed_qparams_range_0to1_fake_quant
default_per_channel_weight_fake_quant = FakeQuantize.with_args(observer=MovingAveragePerChannelMinMaxObserver, **_WEIGHT, qscheme=torch.per_channel_symmetric, reduce_range=False, ch_axis=0)
default_embedding_fake_quant = FakeQuantize.with_args(observer=MovingAveragePerChannelMinMaxObserver, qscheme=torch.per_channel_affine_float_qparams, dtype=torch.quint8,
                                                      quant_min=0, quant_max=255, ch_axis=0, averaging_constant=1)
default_embedding_fake_quant_4bit = FakeQuantize.with_args(observer=MovingAveragePerChannelMinMaxObserver, qscheme=torch.per_channel_affine_float_qparams, ch_axis=0,
                                                           dtype=torch.quint4x2, averaging_constant=1)
default_histogram_fake_quant = FakeQuantize.with_args(observer=HistogramObserver, quant_min=0, quant_max=255, dtype=torch.quint8, qscheme=torch.per_tensor_affine, reduce_range=True)
default_fused_act_fake_quant = FusedMovingAvgObsFakeQuantize.with_args(observer=MovingAverageMinMaxObserver, quant_min=0, quant_max=255, dtype=torch.quint8)
default_fused_wt_fake_quant = FusedMovingAvgObsFakeQuantize.with_args(observer=MovingAverageMinMaxObserver, **_WEIGHT, qscheme=torch.per_tensor_symmetric)
default_fused_per_channel_wt_fake_quant = FusedMovingAvgObsFakeQuantize.with_args(observer=MovingAveragePerChannelMinMaxObserver, **_WEIGHT, qscheme=torch.per_channel_symmetric)
fused_wt_fake_quant_range_neg_127_to_127 = FusedMovingAvgObsFakeQuantize.with_args(
    observer=MovingAverageMinMaxObserver, quant_min=-127, quant_max=127, dtype=torch.qint8, qscheme=torch.per_tensor_symmetric, eps=2 ** -12)
fused_per_channel_wt_fake_quant_range_neg_127_to_127 = FusedMovingAvgObsFakeQuantize.with_args(
    observer=MovingAveragePerChannelMinMaxObserver, quant_min=-127, quant_max=127, dtype=torch.qint8, qscheme=torch.per_channel_symmetric, eps=2 ** -12)
