"""What tests ask about GPUs."""
import contextlib

import rushlight as torch
from rushlight.testing._internal.common_utils import TEST_CUDA, TEST_CUDNN, TEST_MULTIGPU  # noqa: F401

_CAPABILITY = torch.cuda.get_device_capability() if TEST_CUDA else (0, 0)
SM53OrLater, SM60OrLater, SM70OrLater, SM75OrLater, SM80OrLater, SM89OrLater, SM90OrLater, SM100OrLater = (
    _CAPABILITY >= least for least in ((5, 3), (6, 0), (7, 0), (7, 5), (8, 0), (8, 9), (9, 0), (10, 0)))
IS_SM89, IS_SM90 = _CAPABILITY == (8, 9), _CAPABILITY == (9, 0)
TEST_MAGMA = TEST_NUMBA_CUDA = TEST_BF16 = TEST_CUDA_GRAPH = False
TEST_CUDNN_VERSION = TEST_MIOPEN = CUDA_DEVICE = None
PLATFORM_SUPPORTS_FLASH_ATTENTION = PLATFORM_SUPPORTS_MEM_EFF_ATTENTION = PLATFORM_SUPPORTS_CUDNN_ATTENTION = False
PLATFORM_SUPPORTS_FUSED_ATTENTION = PLATFORM_SUPPORTS_FP8_SPARSE = PLATFORM_SUPPORTS_FP8 = PLATFORM_SUPPORTS_BF16 = False


@contextlib.contextmanager
def tf32_off():
    """Products of float32 in full precision."""
    before = torch.backends.cuda.matmul.allow_tf32
    torch.backends.cuda.matmul.allow_tf32 = False
    try:
        yield
    finally:
        torch.backends.cuda.matmul.allow_tf32 = before


def tf32_on_and_off(tf32_precision=1e-5, only_if=True):
    """Twice on GPUs with TF32, once elsewhere."""
    return lambda fn: fn


def with_tf32_off(fn):
    return fn


def tf32_is_not_fp32():
    return False


def initialize_cuda_context_rng():
    """Makes the generators of the GPUs."""
