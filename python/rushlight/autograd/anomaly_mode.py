"""Anomaly detection: backward errors show the forward call, and NaN gradients are errors."""
import warnings

import rushlight as torch

__all__ = ["detect_anomaly", "set_detect_anomaly"]


class set_detect_anomaly:
    """Switch it on or off; as a context manager, for a while."""

    def __init__(self, mode, check_nan=True):
        self.prev, self.prev_check_nan = torch.is_anomaly_enabled(), torch.is_anomaly_check_nan_enabled()
        torch.set_anomaly_enabled(mode, check_nan)

    def __enter__(self):
        return None

    def __exit__(self, *error):
        torch.set_anomaly_enabled(self.prev, self.prev_check_nan)


class detect_anomaly(set_detect_anomaly):
    """Context manager that switches it on."""

    def __init__(self, check_nan=True):
        super().__init__(True, check_nan)
        warnings.warn("Anomaly Detection has been enabled. This mode will increase the runtime and should only be enabled "
                      "for debugging.", stacklevel=2)
