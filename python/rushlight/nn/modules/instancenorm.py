"""Instance normalisation: batch normalisation of every sample by itself."""
import warnings

from rushlight.nn import functional as F
from rushlight.nn.modules.batchnorm import _LazyNormBase, _NormBase

__all__ = ["InstanceNorm1d", "InstanceNorm2d", "InstanceNorm3d", "LazyInstanceNorm1d", "LazyInstanceNorm2d",
           "LazyInstanceNorm3d"]


class _InstanceNorm(_NormBase):
    def __init__(self, num_features, eps=1e-5, momentum=0.1, affine=False, track_running_stats=False, device=None,
                 dtype=None, *, bias=True):
        super().__init__(num_features, eps, momentum, affine, track_running_stats, device=device, dtype=dtype,
                         bias=bias)

    def _get_no_batch_dim(self):
        raise NotImplementedError

    def _apply_instance_norm(self, input):
        return F.instance_norm(input, self.running_mean, self.running_var, self.weight, self.bias,
                               self.training or not self.track_running_stats,
                               self.momentum if self.momentum is not None else 0.0, self.eps)

    def _handle_no_batch_input(self, input):
        return self._apply_instance_norm(input.unsqueeze(0)).squeeze(0)

    def _load_from_state_dict(self, state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys,
                              error_msgs):
        version = local_metadata.get("version", None)
        if version is None and not self.track_running_stats:
            # Before version 0.4 statistics were kept although they had no effect.
            leftover = [prefix + name for name in ("running_mean", "running_var") if prefix + name in state_dict]
            if leftover:
                name = type(self).__name__
                error_msgs.append(
                    "Unexpected running stats buffer(s) {} for {} with track_running_stats=False. If state_dict is a "
                    "checkpoint saved before 0.4.0, this may be expected because {} does not track running stats by "
                    "default since 0.4.0. Please remove these keys from state_dict. If the running stats are actually "
                    "needed, instead set track_running_stats=True in {} to enable them. See the documentation of {} "
                    "for details.".format(" and ".join(f'"{k}"' for k in leftover), name, name, name, name))
                for key in leftover:
                    state_dict.pop(key)
        super()._load_from_state_dict(state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys,
                                      error_msgs)

    def forward(self, input):
        self._check_input_dim(input)
        unbatched = self._get_no_batch_dim()
        channel_dim = input.dim() - unbatched
        if input.size(channel_dim) != self.num_features:
            if self.affine:
                raise ValueError(f"expected input's size at dim={channel_dim} to match num_features "
                                 f"({self.num_features}), but got: {input.size(channel_dim)}.")
            warnings.warn(f"input's size at dim={channel_dim} does not match num_features. You can silence this "
                          "warning by not passing in num_features, which is not used because affine=False",
                          stacklevel=2)
        if input.dim() == unbatched:
            return self._handle_no_batch_input(input)
        return self._apply_instance_norm(input)


class _Dims1:
    """(C, L) or (N, C, L)."""

    def _get_no_batch_dim(self):
        return 2

    def _check_input_dim(self, input):
        if input.dim() not in (2, 3):
            raise ValueError(f"expected 2D or 3D input (got {input.dim()}D input)")


class _Dims2:
    """(C, H, W) or (N, C, H, W)."""

    def _get_no_batch_dim(self):
        return 3

    def _check_input_dim(self, input):
        if input.dim() not in (3, 4):
            raise ValueError(f"expected 3D or 4D input (got {input.dim()}D input)")


class _Dims3:
    """(C, D, H, W) or (N, C, D, H, W)."""

    def _get_no_batch_dim(self):
        return 4

    def _check_input_dim(self, input):
        if input.dim() not in (4, 5):
            raise ValueError(f"expected 4D or 5D input (got {input.dim()}D input)")


class InstanceNorm1d(_Dims1, _InstanceNorm):
    """Instance normalisation over (N, C, L).

    num_features: C. eps: added to the variance; momentum: the share of a batch in the running statistics; affine: learn a weight and, with
    bias, a bias per channel; track_running_stats: keep running statistics for eval(), which otherwise looks at the sample, too.
    Shape: (N, C, L) or (C, L); the result has the same.

    >>> y = nn.InstanceNorm1d(4)(torch.rand(2, 4, 10))
    >>> y.shape, bool(y.mean().abs() < 1e-5)
    (torch.Size([2, 4, 10]), True)
    """


class InstanceNorm2d(_Dims2, _InstanceNorm):
    """Instance normalisation over (N, C, H, W).

    num_features: C. eps: added to the variance; momentum: the share of a batch in the running statistics; affine: learn a weight and, with
    bias, a bias per channel; track_running_stats: keep running statistics for eval(), which otherwise looks at the sample, too.
    Shape: (N, C, H, W) or (C, H, W); the result has the same.

    >>> y = nn.InstanceNorm2d(4)(torch.rand(2, 4, 10, 12))
    >>> y.shape, bool(y.mean().abs() < 1e-5)
    (torch.Size([2, 4, 10, 12]), True)
    """


class InstanceNorm3d(_Dims3, _InstanceNorm):
    """Instance normalisation over (N, C, D, H, W).

    num_features: C. eps: added to the variance; momentum: the share of a batch in the running statistics; affine: learn a weight and, with
    bias, a bias per channel; track_running_stats: keep running statistics for eval(), which otherwise looks at the sample, too.
    Shape: (N, C, D, H, W) or (C, D, H, W); the result has the same.

    >>> y = nn.InstanceNorm3d(4)(torch.rand(2, 4, 6, 8, 8))
    >>> y.shape, bool(y.mean().abs() < 1e-5)
    (torch.Size([2, 4, 6, 8, 8]), True)
    """


class LazyInstanceNorm1d(_Dims1, _LazyNormBase, _InstanceNorm):
    """An InstanceNorm1d that learns `num_features` from its first input.

    eps, momentum, affine, track_running_stats, bias: as of InstanceNorm1d.
    Shape: (N, C, L) or (C, L); the result has the same.

    >>> layer = nn.LazyInstanceNorm1d()
    >>> layer(torch.rand(2, 4, 10)).shape, layer.num_features
    (torch.Size([2, 4, 10]), 4)
    """
    cls_to_become = InstanceNorm1d


class LazyInstanceNorm2d(_Dims2, _LazyNormBase, _InstanceNorm):
    """An InstanceNorm2d that learns `num_features` from its first input.

    eps, momentum, affine, track_running_stats, bias: as of InstanceNorm2d.
    Shape: (N, C, H, W) or (C, H, W); the result has the same.

    >>> layer = nn.LazyInstanceNorm2d()
    >>> layer(torch.rand(2, 4, 10, 12)).shape, layer.num_features
    (torch.Size([2, 4, 10, 12]), 4)
    """
    cls_to_become = InstanceNorm2d


class LazyInstanceNorm3d(_Dims3, _LazyNormBase, _InstanceNorm):
    """An InstanceNorm3d that learns `num_features` from its first input.

    eps, momentum, affine, track_running_stats, bias: as of InstanceNorm3d.
    Shape: (N, C, D, H, W) or (C, D, H, W); the result has the same.

    >>> layer = nn.LazyInstanceNorm3d()
    >>> layer(torch.rand(2, 4, 6, 8, 8)).shape, layer.num_features
    (torch.Size([2, 4, 6, 8, 8]), 4)
    """
    cls_to_become = InstanceNorm3d
