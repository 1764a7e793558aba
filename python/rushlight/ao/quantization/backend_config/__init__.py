"""Which patterns backends quantize."""
from .backend_config import BackendConfig, BackendPatternConfig, DTypeConfig, DTypeWithConstraints, ObservationType
from .native import get_native_backend_config, get_native_backend_config_dict

__all__ = ["get_fbgemm_backend_config", "get_native_backend_config", "get_native_backend_config_dict", "get_qnnpack_backend_config",
           "get_tensorrt_backend_config", "get_tensorrt_backend_config_dict", "get_executorch_backend_config", "BackendConfig", "BackendPatternConfig",
           "DTypeConfig", "DTypeWithConstraints", "ObservationType", "get_onednn_backend_config"]


def _other(name):
    def get():
        raise NotImplementedError("torch.ao.quantization.backend_config: the patterns of %s are not listed; rushlight's own are get_native_backend_config()" % name)
    get.__name__ = get.__qualname__ = "get_%s_backend_config" % name
    return get


get_fbgemm_backend_config, get_qnnpack_backend_config, get_onednn_backend_config = _other("fbgemm"), _other("qnnpack"), _other("onednn")
get_tensorrt_backend_config, get_executorch_backend_config = _other("tensorrt"), _other("executorch")
get_tensorrt_backend_config_dict = _other("tensorrt")
