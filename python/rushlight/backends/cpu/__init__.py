"""torch.backends.cpu"""
import rushlight as torch

__all__ = ["get_cpu_capability"]


def get_cpu_capability():
    """The instruction set the kernels are compiled for: DEFAULT, AVX2, AVX512, ..."""
    return "AVX512" if torch.cpu._is_avx512_supported() else "AVX2" if torch.cpu._is_avx2_supported() else "DEFAULT"
