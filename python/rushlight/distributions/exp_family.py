"""ExponentialFamily: distributions whose entropy follows from their log-normalizer."""
import rushlight as torch
from rushlight.distributions.distribution import Distribution

__all__ = ["ExponentialFamily"]


class ExponentialFamily(Distribution):
    """Subclasses give _natural_params, _log_normalizer(*params) and _mean_carrier_measure."""

    @property
    def _natural_params(self):
        raise NotImplementedError

    def _log_normalizer(self, *natural_params):
        raise NotImplementedError

    @property
    def _mean_carrier_measure(self):
        raise NotImplementedError

    def entropy(self):
        """log Z minus <parameters, gradient of log Z>: the gradient is the mean of the sufficient statistics."""
        result = -self._mean_carrier_measure
        params = [p.detach().requires_grad_() for p in self._natural_params]
        log_z = self._log_normalizer(*params)
        means = torch.autograd.grad(log_z.sum(), params, create_graph=True)
        result = result + log_z
        for param, mean in zip(params, means):
            result = result - (param * mean).reshape(self._batch_shape + (-1,)).sum(-1)
        return result
