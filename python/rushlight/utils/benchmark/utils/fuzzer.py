"""Tensors of drawn shapes and layouts, for benchmarks that are to hold for more than the author's sizes."""
import itertools
import math

import rushlight as torch

__all__ = ["Fuzzer", "FuzzedParameter", "ParameterAlias", "FuzzedTensor"]

MOST_TRIES = 1000  # of drawing parameters that fit together


def prod(values, base=1):
    return math.prod(values, start=base)


def _flat(items):
    """One level of lists opened."""
    return list(itertools.chain.from_iterable(x if isinstance(x, (list, tuple)) else [x] for x in items))


class ParameterAlias:
    """A choice of a parameter's distribution that stands for another parameter's value."""

    def __init__(self, alias_to):
        self.alias_to = alias_to

    def __repr__(self):
        return "ParameterAlias[alias_to: %s]" % self.alias_to


class FuzzedParameter:
    """A number that is drawn anew for each set of tensors.

    distribution: "uniform" between minval and maxval, both included (whole numbers if both are), "loguniform" (whole numbers), or a dict
    {choice: probability}. strict: not drawn again by itself when a set does not fit; the whole set is.
    """

    def __init__(self, name, minval=None, maxval=None, distribution=None, strict=False):
        self._name, self._minval, self._maxval, self.strict = name, minval, maxval, strict
        self._distribution = self._check_distribution(distribution)

    @property
    def name(self):
        return self._name

    def _check_distribution(self, distribution):
        if isinstance(distribution, dict):
            if self._minval is not None or self._maxval is not None:
                raise ValueError("a distribution by choices has no minval and maxval")
            total = sum(distribution.values())
            if abs(total - 1) > 1e-6 or any(p < 0 for p in distribution.values()):
                raise ValueError("probabilities must be positive and sum to one, not to %s" % total)
            return distribution
        if distribution not in ("uniform", "loguniform"):
            raise AssertionError("Unknown distribution: %s" % (distribution,))
        if self._minval is None or self._maxval is None:
            raise ValueError("the distribution %s needs minval and maxval" % distribution)
        return distribution

    def sample(self, state):
        """A value, drawn from a numpy.random.RandomState."""
        low, high = self._minval, self._maxval
        if isinstance(self._distribution, dict):
            choices = list(self._distribution)
            return choices[state.choice(len(choices), p=tuple(self._distribution.values()))]
        whole = isinstance(low, int) and isinstance(high, int)
        if self._distribution == "uniform":
            return int(state.randint(low, high + 1)) if whole else state.uniform(low, high)
        return min(max(int(2 ** state.uniform(math.log2(low), math.log2(high))), low), high)


class FuzzedTensor:
    """A tensor whose sizes and steps are numbers or names of parameters.

    A larger tensor is made and each dimension taken in its step; before that, with a probability of 1 - probability_contiguous, its
    dimensions lie in memory in another order. Sets whose tensor has fewer than min_elements or more than max_elements, or needs more than
    max_allocation_bytes, are drawn again. dim_parameter: the parameter that says how many dimensions there are. tensor_constructor(size,
    dtype, **parameters) makes other values than normal or whole ones.
    """

    def __init__(self, name, size, steps=None, probability_contiguous=0.5, min_elements=None, max_elements=None, max_allocation_bytes=None,
                 dim_parameter=None, roll_parameter=None, dtype=torch.float32, cuda=False, tensor_constructor=None):
        self._name, self._size, self._steps, self._probability_contiguous = name, size, steps, probability_contiguous
        self._min_elements, self._max_elements, self._max_allocation_bytes = min_elements, max_elements, max_allocation_bytes
        self._dim_parameter, self._dtype, self._cuda, self._tensor_constructor = dim_parameter, dtype, cuda, tensor_constructor

    @property
    def name(self):
        return self._name

    @staticmethod
    def default_tensor_constructor(size, dtype, **kwargs):
        if dtype.is_floating_point or dtype.is_complex:
            return torch.rand(size=size, dtype=dtype, device="cpu")
        return torch.randint(1, 127, size=size, dtype=dtype, device="cpu")

    def _get_size_and_steps(self, params):
        dims = params[self._dim_parameter] if self._dim_parameter is not None else len(self._size)

        def numbers(values, absent):
            return tuple(params.get(v, absent) if isinstance(v, str) else v for v in values)
        size = numbers(self._size, None)[:dims]
        steps = numbers(self._steps or (), 1)[:dims]
        steps += (1,) * (dims - len(steps))
        return size, steps, tuple(n * s for n, s in zip(size, steps))

    def satisfies_constraints(self, params):
        size, _, allocated = self._get_size_and_steps(params)
        count = prod(size)
        bytes_ = prod(allocated, base=torch.empty(0, dtype=self._dtype).element_size())
        return not ((self._max_elements is not None and count > self._max_elements) or (self._min_elements is not None and count < self._min_elements) or
                    (self._max_allocation_bytes is not None and bytes_ > self._max_allocation_bytes))

    def _make_tensor(self, params, state):
        size, steps, allocated = self._get_size_and_steps(params)
        make = self._tensor_constructor or self.default_tensor_constructor
        raw = make(size=allocated, dtype=self._dtype, **params)
        if self._cuda:
            raw = raw.cuda()
        dims = len(size)
        order = list(range(dims))
        if state.rand() > self._probability_contiguous and dims > 1:
            while all(a == b for a, b in enumerate(order)):
                order = [int(d) for d in state.permutation(raw.dim())]
            raw = raw.permute(order).contiguous().permute(sorted(range(dims), key=order.__getitem__))
        tensor = raw[tuple(slice(0, n * step, step) for n, step in zip(size, steps))]
        about = {"numel": int(tensor.numel()), "order": order, "steps": steps, "is_contiguous": tensor.is_contiguous(), "dtype": str(self._dtype)}
        return tensor, about


class Fuzzer:
    """Sets of tensors, the same for the same seed: for tensors, about_tensors, parameters in Fuzzer(...).take(10).

    parameters and tensors: lists, of which items may be lists themselves. constraints: functions of the parameters by name; a set for which
    one is false is drawn again. NumPy draws.
    """

    def __init__(self, parameters, tensors, constraints=None, seed=None):
        import numpy as np
        self._seed = int(np.random.RandomState().randint(0, 2 ** 32 - 1, dtype=np.int64)) if seed is None else seed
        self._parameters, self._tensors, self._constraints = _flat(parameters), _flat(tensors), constraints or ()
        names = [x.name for x in self._parameters + self._tensors]
        twice = sorted({n for n in names if names.count(n) > 1})
        if twice:
            raise ValueError("Duplicate names in parameters and tensors: {%s}" % ", ".join(map(repr, twice)))
        self._rejections = self._total_generated = 0

    @property
    def rejection_rate(self):
        """The part of the drawn sets that did not fit, or None before the first."""
        return self._rejections / self._total_generated if self._total_generated else None

    def take(self, n):
        """n times (tensors by name, what is told of each, parameters)."""
        import numpy as np
        state = np.random.RandomState(self._seed)
        torch.manual_seed(int(state.randint(low=0, high=2 ** 63, dtype=np.int64)))
        for _ in range(n):
            params = self._generate(state)
            tensors, about = {}, {}
            for t in self._tensors:
                tensors[t.name], about[t.name] = t._make_tensor(params, state)
            yield tensors, about, params

    def _fits(self, params):
        return all(c(**params) for c in self._constraints) and all(t.satisfies_constraints(params) for t in self._tensors)

    def _generate(self, state):
        strict = {}
        for tried in range(MOST_TRIES):
            candidate = dict(strict)
            if tried == 0:
                strict = {p.name: p.sample(state) for p in self._parameters if p.strict}
                candidate.update(strict)
            candidate.update((p.name, p.sample(state)) for p in self._parameters if not p.strict)
            params = self._resolve_aliases(candidate)
            self._total_generated += 1
            if self._fits(params):
                return params
            self._rejections += 1
        raise ValueError("Failed to generate a set of valid parameters.")

    @staticmethod
    def _resolve_aliases(params):
        params = dict(params)
        for name in [k for k, v in params.items() if isinstance(v, ParameterAlias)]:
            value = params[name]
            while isinstance(value, ParameterAlias):
                value = params[value.alias_to]
            params[name] = value
        return params
