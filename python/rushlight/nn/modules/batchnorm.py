"""Batch normalisation; instance normalisation shares the base."""
import rushlight as torch
from rushlight.nn import functional as F, init
from rushlight.nn.modules.lazy import LazyModuleMixin
from rushlight.nn.modules.module import Module
from rushlight.nn.parameter import Parameter, UninitializedBuffer, UninitializedParameter, maybe_parameter

__all__ = ["BatchNorm1d", "LazyBatchNorm1d", "BatchNorm2d", "LazyBatchNorm2d", "BatchNorm3d", "LazyBatchNorm3d",
           "SyncBatchNorm"]


class _NormBase(Module):
    """Weight, bias and running statistics of a normalisation by channel."""

    _version = 2        # 2: counts the batches it has seen
    __constants__ = ["track_running_stats", "momentum", "eps", "num_features", "affine"]

    def __init__(self, num_features, eps=1e-5, momentum=0.1, affine=True, track_running_stats=True, device=None,
                 dtype=None, *, bias=True):
        super().__init__()
        made = {"device": device, "dtype": dtype}
        self.num_features = num_features
        self.eps = eps
        self.momentum = momentum
        self.affine = affine
        self.track_running_stats = track_running_stats
        maybe_parameter(self, "weight", affine, num_features, **made)
        maybe_parameter(self, "bias", affine and bias, num_features, **made)
        if track_running_stats:
            self.register_buffer("running_mean", torch.zeros(num_features, **made))
            self.register_buffer("running_var", torch.ones(num_features, **made))
            self.register_buffer("num_batches_tracked", torch.tensor(0, dtype=torch.long, device=device))
        else:
            for name in ("running_mean", "running_var", "num_batches_tracked"):
                self.register_buffer(name, None)
        self.reset_parameters()

    def reset_running_stats(self):
        """Forget the statistics: mean 0, variance 1, no batches."""
        if self.track_running_stats:
            for statistic, value in ((self.running_mean, 0), (self.running_var, 1), (self.num_batches_tracked, 0)):
                statistic.fill_(value)

    def reset_parameters(self):
        """Weight 1, bias 0, statistics forgotten."""
        self.reset_running_stats()
        for parameter, fill in ((self.weight, init.ones_), (self.bias, init.zeros_)):
            if self.affine and parameter is not None:
                fill(parameter)

    def _check_input_dim(self, input):
        raise NotImplementedError

    def extra_repr(self):
        return (f"{self.num_features}, eps={self.eps}, momentum={self.momentum}, affine={self.affine}, "
                f"bias={self.bias is not None}, track_running_stats={self.track_running_stats}")

    def _load_from_state_dict(self, state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys,
                              error_msgs):
        version = local_metadata.get("version", None)
        if (version is None or version < 2) and self.track_running_stats:
            # Old files have no count; a model's own count stands then, unless it is on meta.
            key = prefix + "num_batches_tracked"
            if key not in state_dict:
                own = self.num_batches_tracked
                usable = own is not None and own.device != torch.device("meta")
                state_dict[key] = own if usable else torch.tensor(0, dtype=torch.long)
        super()._load_from_state_dict(state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys,
                                      error_msgs)


class _BatchNorm(_NormBase):
    def __init__(self, num_features, eps=1e-5, momentum=0.1, affine=True, track_running_stats=True, device=None,
                 dtype=None, *, bias=True):
        super().__init__(num_features, eps, momentum, affine, track_running_stats, device=device, dtype=dtype,
                         bias=bias)

    def _average_factor(self):
        """The weight of this batch in the running statistics; counts the batch. No momentum: a plain mean."""
        factor = 0.0 if self.momentum is None else self.momentum
        if self.training and self.track_running_stats and self.num_batches_tracked is not None:
            self.num_batches_tracked.add_(1)
            if self.momentum is None:
                factor = 1.0 / float(self.num_batches_tracked)
        return factor

    def forward(self, input):
        self._check_input_dim(input)
        factor = self._average_factor()
        use_batch = self.training or (self.running_mean is None and self.running_var is None)
        keep = not self.training or self.track_running_stats
        return F.batch_norm(input, self.running_mean if keep else None, self.running_var if keep else None,
                            self.weight, self.bias, use_batch, factor, self.eps)


class _LazyNormBase(LazyModuleMixin, _NormBase):
    """Takes `num_features` from the first input."""

    def __init__(self, eps=1e-5, momentum=0.1, affine=True, track_running_stats=True, device=None, dtype=None, *,
                 bias=True):
        made = {"device": device, "dtype": dtype}
        super().__init__(0, eps, momentum, False, False, **made)
        self.affine = affine
        self.track_running_stats = track_running_stats
        if affine:
            self.weight = UninitializedParameter(**made)
            if bias:
                self.bias = UninitializedParameter(**made)
        if track_running_stats:
            self.running_mean = UninitializedBuffer(**made)
            self.running_var = UninitializedBuffer(**made)
            self.num_batches_tracked = torch.tensor(0, dtype=torch.long, device=device)

    def reset_parameters(self):
        if not self.has_uninitialized_params() and self.num_features != 0:
            super().reset_parameters()

    def initialize_parameters(self, input):
        """Take the number of channels from `input`."""
        if not self.has_uninitialized_params():
            return
        self.num_features = input.shape[1]
        if self.affine:
            self.weight.materialize((self.num_features,))
            if self.bias is not None:
                self.bias.materialize((self.num_features,))
        if self.track_running_stats:
            self.running_mean.materialize((self.num_features,))
            self.running_var.materialize((self.num_features,))
        self.reset_parameters()


def _expect_dims(input, *allowed):
    if input.dim() not in allowed:
        text = " or ".join(f"{d}D" for d in allowed)
        raise ValueError(f"expected {text} input (got {input.dim()}D input)")


class BatchNorm1d(_BatchNorm):
    """Batch normalisation over (N, C) or (N, C, L).

    num_features: C. eps: added to the variance; momentum: the share of a batch in the running statistics, None for a plain mean over all
    batches; affine: learn a weight and, with bias, a bias per channel; track_running_stats: keep running_mean and running_var (C), which eval()
    normalises with.
    Shape: (N, C) or (N, C, L); the result has the same.

    >>> y = nn.BatchNorm1d(4)(torch.rand(8, 4))
    >>> y.shape, bool(y.mean().abs() < 1e-5)
    (torch.Size([8, 4]), True)
    """

    def _check_input_dim(self, input):
        _expect_dims(input, 2, 3)


class BatchNorm2d(_BatchNorm):
    """Batch normalisation over (N, C, H, W).

    num_features: C. eps: added to the variance; momentum: the share of a batch in the running statistics, None for a plain mean over all
    batches; affine: learn a weight and, with bias, a bias per channel; track_running_stats: keep running_mean and running_var (C), which eval()
    normalises with.
    Shape: (N, C, H, W); the result has the same.

    >>> y = nn.BatchNorm2d(4)(torch.rand(8, 4, 10, 12))
    >>> y.shape, bool(y.mean().abs() < 1e-5)
    (torch.Size([8, 4, 10, 12]), True)
    """

    def _check_input_dim(self, input):
        _expect_dims(input, 4)


class BatchNorm3d(_BatchNorm):
    """Batch normalisation over (N, C, D, H, W).

    num_features: C. eps: added to the variance; momentum: the share of a batch in the running statistics, None for a plain mean over all
    batches; affine: learn a weight and, with bias, a bias per channel; track_running_stats: keep running_mean and running_var (C), which eval()
    normalises with.
    Shape: (N, C, D, H, W); the result has the same.

    >>> y = nn.BatchNorm3d(4)(torch.rand(8, 4, 6, 8, 8))
    >>> y.shape, bool(y.mean().abs() < 1e-5)
    (torch.Size([8, 4, 6, 8, 8]), True)
    """

    def _check_input_dim(self, input):
        _expect_dims(input, 5)


class LazyBatchNorm1d(_LazyNormBase, _BatchNorm):
    """A BatchNorm1d that learns `num_features` from its first input.

    eps, momentum, affine, track_running_stats, bias: as of BatchNorm1d.
    Shape: (N, C) or (N, C, L); the result has the same.

    >>> layer = nn.LazyBatchNorm1d()
    >>> layer(torch.rand(8, 4)).shape, layer.num_features
    (torch.Size([8, 4]), 4)
    """
    cls_to_become = BatchNorm1d
    _check_input_dim = BatchNorm1d._check_input_dim


class LazyBatchNorm2d(_LazyNormBase, _BatchNorm):
    """A BatchNorm2d that learns `num_features` from its first input.

    eps, momentum, affine, track_running_stats, bias: as of BatchNorm2d.
    Shape: (N, C, H, W); the result has the same.

    >>> layer = nn.LazyBatchNorm2d()
    >>> layer(torch.rand(8, 4, 10, 12)).shape, layer.num_features
    (torch.Size([8, 4, 10, 12]), 4)
    """
    cls_to_become = BatchNorm2d
    _check_input_dim = BatchNorm2d._check_input_dim


class LazyBatchNorm3d(_LazyNormBase, _BatchNorm):
    """A BatchNorm3d that learns `num_features` from its first input.

    eps, momentum, affine, track_running_stats, bias: as of BatchNorm3d.
    Shape: (N, C, D, H, W); the result has the same.

    >>> layer = nn.LazyBatchNorm3d()
    >>> layer(torch.rand(8, 4, 6, 8, 8)).shape, layer.num_features
    (torch.Size([8, 4, 6, 8, 8]), 4)
    """
    cls_to_become = BatchNorm3d
    _check_input_dim = BatchNorm3d._check_input_dim


class SyncBatchNorm(_BatchNorm):
    """Batch normalisation with statistics over all processes; on one process an ordinary one.

    num_features: C; eps, momentum, affine, track_running_stats, bias: as of BatchNorm1d; process_group: the processes whose batches count as
    one, all by default.
    Shape: (N, C, *); the result has the same.

    >>> nn.SyncBatchNorm.convert_sync_batchnorm(nn.Sequential(nn.BatchNorm1d(4)))
    Sequential(
      (0): SyncBatchNorm(4, eps=1e-05, momentum=0.1, affine=True, bias=True, track_running_stats=True)
    )
    """

    def __init__(self, num_features, eps=1e-5, momentum=0.1, affine=True, track_running_stats=True,
                 process_group=None, device=None, dtype=None, *, bias=True):
        super().__init__(num_features, eps, momentum, affine, track_running_stats, device=device, dtype=dtype,
                         bias=bias)
        self.process_group = process_group

    def _check_input_dim(self, input):
        if input.dim() < 2:
            raise ValueError(f"expected at least 2D input (got {input.dim()}D input)")

    def _check_non_zero_input_channels(self, input):
        if input.size(1) == 0:
            raise ValueError("SyncBatchNorm number of input channels should be non-zero")

    def forward(self, input):
        self._check_input_dim(input)
        self._check_non_zero_input_channels(input)
        distributed = torch.distributed
        if self.training and distributed.is_available() and distributed.is_initialized():
            group = self.process_group if self.process_group is not None else distributed.group.WORLD
            if distributed.get_world_size(group) > 1:
                return self._forward_together(input, group)
        return super().forward(input)

    def _forward_together(self, input, group):
        """Statistics from each process's mean and squares around it, by a differentiable all-gather: squares around 0 would lose digits."""
        from rushlight.distributed.nn.functional import all_gather
        factor = self._average_factor()
        dims, channels = [d for d in range(input.dim()) if d != 1], input.size(1)
        shape = [1, -1] + [1] * (input.dim() - 2)
        x = input.float() if input.dtype in (torch.float16, torch.bfloat16) else input
        count = input.numel() // channels
        mean = x.sum(dims) / max(count, 1)
        squares = (x - mean.view(shape)).square().sum(dims)
        every = torch.stack(all_gather(torch.cat([mean, squares, x.new_full((1,), count)]), group=group))
        means, squares, counts = every.split([channels, channels, 1], 1)
        n = counts.sum()
        mean = (means * counts).sum(0) / n
        var = (squares + (means - mean).square() * counts).sum(0) / n
        if self.track_running_stats and self.running_mean is not None:
            with torch.no_grad():
                self.running_mean.lerp_(mean.to(self.running_mean.dtype), factor)
                self.running_var.lerp_((var * n / (n - 1)).to(self.running_var.dtype), factor)
        out = (x - mean.view(shape)) * torch.rsqrt(var + self.eps).view(shape)
        if self.weight is not None:
            out = out * self.weight.view(shape)
        return (out if self.bias is None else out + self.bias.view(shape)).to(input.dtype)

    @classmethod
    def convert_sync_batchnorm(cls, module, process_group=None):
        """`module` with every batch normalisation in it replaced by a synchronised one."""
        converted = module
        if isinstance(module, _BatchNorm):
            converted = cls(module.num_features, module.eps, module.momentum, module.affine,
                            module.track_running_stats, process_group, bias=module.bias is not None)
            if module.affine:
                with torch.no_grad():
                    converted.weight = module.weight
                    converted.bias = module.bias
            for name in ("running_mean", "running_var", "num_batches_tracked", "training"):
                setattr(converted, name, getattr(module, name))
            if hasattr(module, "qconfig"):
                converted.qconfig = module.qconfig
        for name, child in module.named_children():
            converted.add_module(name, cls.convert_sync_batchnorm(child, process_group))
        return converted
