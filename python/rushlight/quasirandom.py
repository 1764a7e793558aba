"""Sobol sequences: points that fill the unit cube evenly."""
import rushlight as torch

__all__ = ["SobolEngine"]


class SobolEngine:
    """draw(n) gives the next n points of a sequence in `dimension` dimensions."""

    MAXBIT = 30
    MAXDIM = 21201

    def __init__(self, dimension, scramble=False, seed=None):
        if dimension > self.MAXDIM or dimension < 1:
            raise ValueError("Supported range of dimensionality for SobolEngine is [1, %d]" % self.MAXDIM)
        self.seed, self.scramble, self.dimension = seed, scramble, dimension
        cpu = torch.device("cpu")
        self.sobolstate = torch.zeros(dimension, self.MAXBIT, device=cpu, dtype=torch.long)
        torch._sobol_engine_initialize_state_(self.sobolstate, self.dimension)
        if scramble:
            self._scramble()
        else:
            self.shift = torch.zeros(self.dimension, device=cpu, dtype=torch.long)
        self.quasi = self.shift.clone(memory_format=torch.contiguous_format)
        self._first_point = (self.quasi / 2 ** self.MAXBIT).reshape(1, -1)
        self.num_generated = 0

    def draw(self, n=1, out=None, dtype=None):
        """The next n points, (n, dimension)."""
        dtype = torch.get_default_dtype() if dtype is None else dtype
        if self.num_generated == 0:
            result = self._first_point.to(dtype)
            if n > 1:
                more, self.quasi = torch._sobol_engine_draw(self.quasi, n - 1, self.sobolstate, self.dimension,
                                                            self.num_generated, dtype=dtype)
                result = torch.cat((result, more), dim=-2)
        else:
            result, self.quasi = torch._sobol_engine_draw(self.quasi, n, self.sobolstate, self.dimension,
                                                          self.num_generated - 1, dtype=dtype)
        self.num_generated += n
        if out is not None:
            out.resize_as_(result).copy_(result)
            return out
        return result

    def draw_base2(self, m, out=None, dtype=None):
        """2**m points; together with those drawn before they must be a power of 2."""
        n = 2 ** m
        total = self.num_generated + n
        if total & (total - 1):
            raise ValueError("The balance properties of Sobol' points require n to be a power of 2. %d points have been "
                             "previously generated, then: n=%d+2**%d=%d. If you still want to do this, please use "
                             "'SobolEngine.draw()' instead." % (self.num_generated, self.num_generated, m, total))
        return self.draw(n=n, out=out, dtype=dtype)

    def reset(self):
        self.quasi.copy_(self.shift)
        self.num_generated = 0
        return self

    def fast_forward(self, n):
        """Skip n points."""
        if self.num_generated == 0:
            torch._sobol_engine_ff_(self.quasi, n - 1, self.sobolstate, self.dimension, self.num_generated)
        else:
            torch._sobol_engine_ff_(self.quasi, n, self.sobolstate, self.dimension, self.num_generated - 1)
        self.num_generated += n
        return self

    def _scramble(self):
        generator = None
        if self.seed is not None:
            generator = torch.Generator()
            generator.manual_seed(self.seed)
        cpu = torch.device("cpu")
        bits = torch.randint(2, (self.dimension, self.MAXBIT), device=cpu, generator=generator)
        self.shift = torch.mv(bits, torch.pow(2, torch.arange(0, self.MAXBIT, device=cpu)))
        lower = torch.randint(2, (self.dimension, self.MAXBIT, self.MAXBIT), device=cpu, generator=generator).tril()
        torch._sobol_engine_scramble_(self.sobolstate, lower, self.dimension)

    def __repr__(self):
        text = "SobolEngine(dimension=%d" % self.dimension
        if self.scramble:
            text += ", scramble=True"
        if self.seed is not None:
            text += ", seed=%s" % self.seed
        return text + ")"
