"""Mixed precision: autocast and gradient scaling."""
from rushlight.amp.autocast_mode import (_enter_autocast, _exit_autocast, autocast, custom_bwd, custom_fwd,
                                         is_autocast_available)
from rushlight.amp.grad_scaler import GradScaler

__all__ = ["autocast", "custom_bwd", "custom_fwd", "GradScaler", "is_autocast_available"]
