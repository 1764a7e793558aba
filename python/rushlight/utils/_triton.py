"""Whether the Triton compiler can be used: rushlight does not call it."""


def has_triton_package():
    import importlib.util
    return importlib.util.find_spec("triton") is not None


def has_triton():
    return False


def has_triton_tma():
    return False


def has_triton_tma_device():
    return False


def triton_backend():
    raise NotImplementedError("Triton kernels are not supported")


def triton_hash_with_backend():
    raise NotImplementedError("Triton kernels are not supported")
