"""torch.backends.cuda"""
import contextlib
import warnings

import rushlight as torch
from rushlight._basics import _settings
from rushlight.backends import _state

__all__ = ["is_built", "cuFFTPlanCacheAttrContextProp", "cuFFTPlanCache", "cuFFTPlanCacheManager", "cuBLASModule",
           "preferred_linalg_library", "preferred_blas_library", "preferred_rocm_fa_library", "cufft_plan_cache",
           "matmul", "SDPAParams", "enable_cudnn_sdp", "cudnn_sdp_enabled", "enable_flash_sdp", "flash_sdp_enabled",
           "enable_mem_efficient_sdp", "mem_efficient_sdp_enabled", "math_sdp_enabled", "enable_math_sdp",
           "allow_fp16_bf16_reduction_math_sdp", "fp16_bf16_reduction_math_sdp_allowed", "is_flash_attention_available",
           "can_use_flash_attention", "can_use_efficient_attention", "can_use_cudnn_attention", "sdp_kernel"]

for _name in ("flash", "mem_efficient", "math", "cudnn"):
    _state.setdefault(_name + "_sdp", True)
_state.setdefault("reduction_math_sdp", False)


def is_built():
    """Whether the library has a CUDA backend."""
    return torch.cuda._is_compiled()


class cuFFTPlanCacheAttrContextProp:
    def __init__(self, getter, setter):
        self.getter, self.setter = getter, setter

    def __get__(self, obj, objtype):
        return self.getter(obj.device_index)

    def __set__(self, obj, val):
        self.setter(obj.device_index, val)


class cuFFTPlanCache:
    def __init__(self, device_index):
        self.device_index, self.size, self.max_size = device_index, 0, 0

    def clear(self):
        return None


class cuFFTPlanCacheManager:
    def __getitem__(self, device):
        raise RuntimeError("cufft_plan_cache: there are no CUDA devices")

    def __getattr__(self, name):
        raise RuntimeError("cufft_plan_cache: there are no CUDA devices")


class cuBLASModule:
    """torch.backends.cuda.matmul: switches of matrix products."""

    def __init__(self):
        self.__dict__.update(allow_fp16_reduced_precision_reduction=True,
                             allow_bf16_reduced_precision_reduction=True, allow_fp16_accumulation=False)

    def __setattr__(self, name, value):
        if name == "allow_tf32":
            torch.set_float32_matmul_precision("high" if value else "highest")
        elif name == "fp32_precision":
            _settings["matmul_on_cuda"] = value
            torch._C._cuda_switch("product_tf32", value == "tf32")
        elif name in self.__dict__:
            self.__dict__[name] = value
        else:
            raise AttributeError("Unknown attribute " + name)

    def __getattr__(self, name):
        if name == "allow_tf32":
            return torch.get_float32_matmul_precision() != "highest"
        if name == "fp32_precision":
            return _settings["matmul_on_cuda"]
        raise AttributeError("Unknown attribute " + name)


def preferred_linalg_library(backend=None):
    return "default"


def preferred_blas_library(backend=None):
    return "default"


def preferred_rocm_fa_library(backend=None):
    return "default"


class SDPAParams:
    """The arguments of scaled_dot_product_attention."""

    def __init__(self, query, key, value, attn_mask, dropout, is_causal, enable_gqa):
        self.query, self.key, self.value, self.attn_mask = query, key, value, attn_mask
        self.dropout, self.is_causal, self.enable_gqa = dropout, is_causal, enable_gqa


def flash_sdp_enabled():
    return _state["flash_sdp"]


def enable_flash_sdp(enabled):
    _state["flash_sdp"] = enabled


def mem_efficient_sdp_enabled():
    return _state["mem_efficient_sdp"]


def enable_mem_efficient_sdp(enabled):
    _state["mem_efficient_sdp"] = enabled


def math_sdp_enabled():
    return _state["math_sdp"]


def enable_math_sdp(enabled):
    _state["math_sdp"] = enabled


def cudnn_sdp_enabled():
    return _state["cudnn_sdp"]


def enable_cudnn_sdp(enabled):
    _state["cudnn_sdp"] = enabled


def allow_fp16_bf16_reduction_math_sdp(enabled):
    _state["reduction_math_sdp"] = enabled


def fp16_bf16_reduction_math_sdp_allowed():
    return _state["reduction_math_sdp"]


def is_flash_attention_available():
    return False


def can_use_flash_attention(params, debug=False):
    return False


can_use_efficient_attention = can_use_cudnn_attention = can_use_flash_attention


def sdp_kernel(enable_flash=True, enable_math=True, enable_mem_efficient=True, enable_cudnn=True):
    """Which ways of computing attention may be used inside."""
    warnings.warn("`torch.backends.cuda.sdp_kernel()` is deprecated. In the future, this context manager will be removed. Please see "
                  "`torch.nn.attention.sdpa_kernel()` for the new context manager, with updated signature.", FutureWarning, stacklevel=2)
    return _sdp_kernel(enable_flash, enable_math, enable_mem_efficient, enable_cudnn)


@contextlib.contextmanager
def _sdp_kernel(enable_flash, enable_math, enable_mem_efficient, enable_cudnn):
    names = ("flash_sdp", "math_sdp", "mem_efficient_sdp", "cudnn_sdp")
    before = [_state[name] for name in names]
    _state.update(zip(names, (enable_flash, enable_math, enable_mem_efficient, enable_cudnn)))
    try:
        yield {}
    finally:
        _state.update(zip(names, before))


cufft_plan_cache = cuFFTPlanCacheManager()
matmul = cuBLASModule()
