"""Options of LinearCrossEntropyLoss: how the large product may be cut up."""


class LinearCrossEntropyOptions:
    """How the loss may trade memory for work; the result does not depend on it.

    allow_retain_graph: backward may run more than once; batch_chunk_size: how many samples at a time; chunking_method: "auto" or how the size
    is chosen; acc_policy, acc_dtype: where and in which dtype sums are accumulated.

    >>> nn.LinearCrossEntropyOptions().chunking_method
    'auto'
    """

    _names = ("allow_retain_graph", "batch_chunk_size", "chunking_method", "acc_policy", "acc_dtype")

    def __init__(self, allow_retain_graph=False, batch_chunk_size=None, chunking_method="auto", acc_policy="auto",
                 acc_dtype=None):
        if acc_policy not in ("accurate", "balanced", "compact", "auto"):
            raise ValueError("acc_policy must be one of 'accurate', 'balanced', 'compact', 'auto', but got "
                             f"{acc_policy!r}")
        values = (allow_retain_graph, batch_chunk_size, chunking_method, acc_policy, acc_dtype)
        for name, value in zip(self._names, values):
            object.__setattr__(self, name, value)

    def __setattr__(self, name, value):
        raise AttributeError(f"cannot assign to field {name!r}")

    def _values(self):
        return tuple(getattr(self, name) for name in self._names)

    def __eq__(self, other):
        return isinstance(other, LinearCrossEntropyOptions) and self._values() == other._values()

    def __hash__(self):
        return hash(self._values())

    def __repr__(self):
        return ("LinearCrossEntropyOptions("
                + ", ".join(f"{name}={value!r}" for name, value in zip(self._names, self._values())) + ")")
