"""Sparse tensors of drawn shapes and densities."""
import math

import rushlight as torch
from rushlight.utils.benchmark.utils.fuzzer import FuzzedTensor

__all__ = ["FuzzedSparseTensor"]


class FuzzedSparseTensor(FuzzedTensor):
    """A tensor in coordinates. sparse_dim, nnz, density and coalesced are numbers, or names of the parameters that hold them.

    Of nnz (or density of all places among the sparse dimensions) places each holds a number; where coalesced is false, the same place may
    be there several times.
    """

    def __init__(self, name, size, min_elements=None, max_elements=None, dim_parameter=None, sparse_dim=None, nnz=None, density=None, coalesced=None,
                 dtype=torch.float32, cuda=False):
        super().__init__(name=name, size=size, min_elements=min_elements, max_elements=max_elements, dim_parameter=dim_parameter, dtype=dtype, cuda=cuda)
        self._sparse_dim, self._nnz, self._density, self._coalesced = sparse_dim, nnz, density, coalesced

    @staticmethod
    def sparse_tensor_constructor(size, dtype, sparse_dim, nnz, is_coalesced):
        """Of nnz entries, at places that differ if it is coalesced."""
        places = torch.randperm(math.prod(size[:sparse_dim]))[:nnz] if is_coalesced else torch.randint(math.prod(size[:sparse_dim]), (nnz,))
        indices = torch.stack(torch.unravel_index(places, size[:sparse_dim]))
        values = FuzzedTensor.default_tensor_constructor((len(places), *size[sparse_dim:]), dtype)
        made = torch.sparse_coo_tensor(indices, values, size)
        return made.coalesce() if is_coalesced else made

    def _make_tensor(self, params, state):
        size, _, _ = self._get_size_and_steps(params)

        def given(what, absent):
            return absent if what is None else params[what] if isinstance(what, str) else what
        sparse_dim = min(given(self._sparse_dim, len(size)), len(size))
        room = math.prod(size[:sparse_dim])
        nnz = given(self._nnz, None)
        nnz = math.ceil(room * given(self._density, 0.1)) if nnz is None else nnz
        made = self.sparse_tensor_constructor(size, self._dtype, sparse_dim, nnz, bool(given(self._coalesced, True)))
        made = made.cuda() if self._cuda else made
        about = {"numel": made.numel(), "shape": made.size(), "is_coalesced": made.is_coalesced(), "density": made._nnz() / room if room else 0., "sparsity": 1 - made._nnz() / room if room else 1.,
                 "sparse_dim": made.sparse_dim(), "dense_dim": made.dense_dim(), "is_hybrid": made.dense_dim() > 0, "dtype": str(self._dtype)}
        return made, about
