"""The success probability of a trial, given as `probs` or as `logits`, for the distributions built on trials."""
from rushlight.distributions.utils import broadcast_all, lazy_property, logits_to_probs, probs_to_logits


def one_of(probs, logits):
    """Check that one of the two is given; True when it is probs."""
    if (probs is None) == (logits is None):
        raise ValueError("Either `probs` or `logits` must be specified, but not both.")
    return probs is not None


class Trials:
    """Mixin: keeps the one that was given, computes the other when it is asked for."""

    def _take(self, probs, logits, *others):
        """Store probs or logits, broadcast against `others`, and return those."""
        name = "probs" if one_of(probs, logits) else "logits"
        *others, value = broadcast_all(*others, probs if name == "probs" else logits)
        setattr(self, name, value)
        return others

    @property
    def _param(self):
        return self.__dict__["probs"] if "probs" in self.__dict__ else self.logits

    def _new(self, *args, **kwargs):
        return self._param.new(*args, **kwargs)

    @lazy_property
    def logits(self):
        return probs_to_logits(self.probs, is_binary=True)

    @lazy_property
    def probs(self):
        return logits_to_probs(self.logits, is_binary=True)

    @property
    def param_shape(self):
        return self._param.size()
