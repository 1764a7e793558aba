"""QConfig: which observers a layer's activations and weights get."""
import warnings
from collections import namedtuple

import rushlight as torch
from rushlight import nn
from . import fake_quantize as _fake
from . import observer as _observer
from .fake_quantize import FakeQuantize, FusedMovingAvgObsFakeQuantize
from .observer import (HistogramObserver, MovingAverageMinMaxObserver, NoopObserver, PlaceholderObserver, ReuseInputObserver,  # noqa: F401
                       per_channel_weight_observer_range_neg_127_to_127, weight_observer_range_neg_127_to_127)

__all__ = ["QConfig", "QConfigDynamic", "default_qconfig", "default_debug_qconfig", "default_per_channel_qconfig", "default_dynamic_qconfig",
           "float16_dynamic_qconfig", "float16_static_qconfig", "per_channel_dynamic_qconfig", "float_qparams_weight_only_qconfig",
           "float_qparams_weight_only_qconfig_4bit", "default_quint8_weight_qconfig", "default_qat_qconfig", "default_dynamic_qat_qconfig",
           "default_weight_only_qconfig", "default_activation_only_qconfig", "default_qat_qconfig_v2", "default_reuse_input_qconfig",
           "default_symmetric_qnnpack_qconfig", "default_per_channel_symmetric_qnnpack_qconfig", "default_symmetric_qnnpack_qat_qconfig",
           "default_per_channel_symmetric_qnnpack_qat_qconfig", "default_embedding_qat_qconfig", "default_embedding_qat_qconfig_4bit",
           "get_default_qconfig", "get_default_qat_qconfig", "get_default_qconfig_dict", "get_default_qat_qconfig_dict", "QConfigAny", "qconfig_equals"]


class QConfig(namedtuple("QConfig", ["activation", "weight"])):
    """Two functions that make observers (or fake quantization): of activations and of weights."""

    __slots__ = ()

    def __new__(cls, activation, weight):
        if isinstance(activation, nn.Module) or isinstance(weight, nn.Module):
            raise ValueError("QConfig received observer instance, please pass observer class instead. Use MyObserver.with_args(x=1) to override arguments to "
                             "constructor if needed")
        return super().__new__(cls, activation, weight)


class QConfigDynamic(namedtuple("QConfigDynamic", ["activation", "weight"])):
    """QConfig of old for layers that quantize when they run."""

    __slots__ = ()

    def __new__(cls, activation=nn.Identity, weight=nn.Identity):
        if isinstance(weight, nn.Module):
            raise ValueError("QConfigDynamic received observer instance, please pass observer class instead. Use MyObserver.with_args(x=1) to override "
                             "arguments to constructor if needed")
        warnings.warn("QConfigDynamic is going to be deprecated in PyTorch 1.12, please use QConfig instead", stacklevel=2)
        return super().__new__(cls, activation, weight)


QConfigAny = QConfig | None

default_qconfig = QConfig(_observer.default_observer, _observer.default_weight_observer)
default_debug_qconfig = QConfig(weight=_observer.default_weight_observer, activation=_observer.default_debug_observer)
default_per_channel_qconfig = QConfig(_observer.default_observer, _observer.default_per_channel_weight_observer)
default_dynamic_qconfig = QConfig(_observer.default_dynamic_quant_observer, _observer.default_weight_observer)
float16_dynamic_qconfig = QConfig(PlaceholderObserver.with_args(dtype=torch.float16, is_dynamic=True), PlaceholderObserver.with_args(dtype=torch.float16))
float16_static_qconfig = QConfig(PlaceholderObserver.with_args(dtype=torch.float16), PlaceholderObserver.with_args(dtype=torch.float16))
per_channel_dynamic_qconfig = QConfig(_observer.default_dynamic_quant_observer, _observer.default_per_channel_weight_observer)
float_qparams_weight_only_qconfig = QConfig(_observer.default_placeholder_observer, _observer.default_float_qparams_observer)
float_qparams_weight_only_qconfig_4bit = QConfig(_observer.default_placeholder_observer, _observer.default_float_qparams_observer_4bit)
default_quint8_weight_qconfig = QConfig(HistogramObserver, _observer.MinMaxObserver)
default_qat_qconfig = QConfig(_fake.default_fake_quant, _fake.default_weight_fake_quant)
default_dynamic_qat_qconfig = QConfig(_fake.default_dynamic_fake_quant, _fake.default_weight_fake_quant)
default_weight_only_qconfig = QConfig(nn.Identity, _fake.default_weight_fake_quant)
default_activation_only_qconfig = QConfig(_fake.default_fake_quant, nn.Identity)
default_qat_qconfig_v2 = QConfig(_fake.default_fused_act_fake_quant, _fake.default_fused_wt_fake_quant)
default_reuse_input_qconfig = QConfig(_observer.default_reuse_input_observer, NoopObserver)
default_embedding_qat_qconfig = QConfig(NoopObserver.with_args(dtype=torch.float32), _fake.default_embedding_fake_quant)
default_embedding_qat_qconfig_4bit = QConfig(NoopObserver.with_args(dtype=torch.float32), _fake.default_embedding_fake_quant_4bit)

_SYMMETRIC_ACT = {"dtype": torch.qint8, "reduce_range": False, "eps": 2 ** -12}
default_symmetric_qnnpack_qconfig = QConfig(HistogramObserver.with_args(**_SYMMETRIC_ACT), _observer.weight_observer_range_neg_127_to_127)
default_per_channel_symmetric_qnnpack_qconfig = QConfig(HistogramObserver.with_args(**_SYMMETRIC_ACT), _observer.per_channel_weight_observer_range_neg_127_to_127)
_SYMMETRIC_QAT = FusedMovingAvgObsFakeQuantize.with_args(observer=MovingAverageMinMaxObserver, quant_min=-128, quant_max=127, **_SYMMETRIC_ACT)
default_symmetric_qnnpack_qat_qconfig = QConfig(_SYMMETRIC_QAT, _fake.fused_wt_fake_quant_range_neg_127_to_127)
default_per_channel_symmetric_qnnpack_qat_qconfig = QConfig(_SYMMETRIC_QAT, _fake.fused_per_channel_wt_fake_quant_range_neg_127_to_127)

_BACKENDS = ("fbgemm", "x86", "qnnpack", "onednn")


def _check_backend(backend):
    if backend not in _BACKENDS:
        raise AssertionError("backend: " + str(backend) + " not supported. backend must be one of %s" % list(_BACKENDS))


def get_default_qconfig(backend="x86", version=0):
    """The QConfig for static quantization that suits an engine."""
    _check_backend(backend)
    if version != 0:
        raise AssertionError("Version number: %s in get_default_qconfig is not supported. Version number must be 0" % version)
    weight = _observer.default_weight_observer if backend == "qnnpack" else _observer.default_per_channel_weight_observer
    return QConfig(HistogramObserver.with_args(reduce_range=backend in ("fbgemm", "x86")), weight)


def get_default_qat_qconfig(backend="x86", version=1):
    """The QConfig for training that suits an engine; version 1 looks and rounds in one pass."""
    _check_backend(backend)
    if version not in (0, 1):
        raise AssertionError("Version number: %s in get_default_qat_qconfig is not supported. Version number must be 0 or 1" % version)
    halved = {"reduce_range": backend in ("fbgemm", "x86")} if backend != "onednn" else {}
    kind = FakeQuantize if version == 0 else FusedMovingAvgObsFakeQuantize
    activation = kind.with_args(observer=MovingAverageMinMaxObserver, quant_min=0, quant_max=255, **halved)
    if backend == "qnnpack":
        return QConfig(activation, _fake.default_weight_fake_quant if version == 0 else _fake.default_fused_wt_fake_quant)
    return QConfig(activation, _fake.default_per_channel_weight_fake_quant if version == 0 else _fake.default_fused_per_channel_wt_fake_quant)


def get_default_qconfig_dict(backend="x86", version=0):
    """get_default_qconfig_mapping() as a dict."""
    from .qconfig_mapping import get_default_qconfig_mapping
    return get_default_qconfig_mapping(backend, version).to_dict()


def get_default_qat_qconfig_dict(backend="x86", version=1):
    """get_default_qat_qconfig_mapping() as a dict."""
    from .qconfig_mapping import get_default_qat_qconfig_mapping
    return get_default_qat_qconfig_mapping(backend, version).to_dict()


def _assert_valid_qconfig(qconfig, mod):
    if qconfig is None or not isinstance(mod, (nn.ConvTranspose1d, nn.ConvTranspose2d, nn.ConvTranspose3d)) or qconfig.weight is None:
        return
    if isinstance(qconfig.weight(), (_observer.PerChannelMinMaxObserver, _observer.MovingAveragePerChannelMinMaxObserver)):
        raise AssertionError("Per channel weight observer is not supported yet for ConvTranspose{n}d.")


def _add_module_to_qconfig_obs_ctr(qconfig, module):
    """The same, whose observers are made on the device of the module."""
    if module is None or qconfig is None or not hasattr(module, "named_parameters"):
        return qconfig
    devices = {p.device for p in module.parameters()} | {b.device for b in module.buffers()}
    if not devices or {device.type for device in devices} == {"cpu"}:
        return qconfig

    def on_device(maker):
        if hasattr(maker, "with_callable_args"):
            return maker.with_callable_args(factory_kwargs=lambda: {"device": next(iter(devices))})
        return maker
    return QConfig(on_device(qconfig.activation), on_device(qconfig.weight))


def _obs_or_fq_ctr_equals(a, b):
    if hasattr(a, "p") and hasattr(b, "p"):
        first, second = dict(a.p.keywords), dict(b.p.keywords)
        inner = (first.pop("observer", None), second.pop("observer", None))
        same = inner[0] is inner[1] or (None not in inner and _obs_or_fq_ctr_equals(*inner))
        return same and a.p.func == b.p.func and first == second
    return a == b


def qconfig_equals(q1, q2):
    """Do two QConfigs make the same observers?"""
    if q1 is None or q2 is None:
        return q1 == q2
    return _obs_or_fq_ctr_equals(q1.activation, q2.activation) and _obs_or_fq_ctr_equals(q1.weight, q2.weight)


def _activation_is_memoryless(qconfig):
    seen = qconfig.activation()
    seen = seen.activation_post_process if isinstance(seen, _fake.FakeQuantizeBase) and hasattr(seen, "activation_post_process") else seen
    return hasattr(seen, "averaging_constant") and seen.averaging_constant == 1


def _is_reuse_input_qconfig(qconfig):
    return qconfig is not None and isinstance(qconfig.activation(), ReuseInputObserver) and isinstance(qconfig.weight(), NoopObserver)


