"""Device numbers for torch.cuda."""
from rushlight._utils import _get_device_index as _index


def _get_device_index(device, optional=False, allow_cpu=False):
    return _index(device, optional, allow_cpu)
