/* draw.cu - numbers of distributions that reject, in double: each element draws from a sequence of its own, as long as it needs it.
 *
 * The functions are the CPU's (draws.inc); the numbers are not PyTorch's on CUDA, which draws Poisson ones by cuRAND's functions, whose
 * algorithm is nowhere described.
 */
#include "cuda/rows.h"
#include "cuda/philox.h"

/* Four words at a time: of the counter the draw and the element, and in the element's upper 16 bits, which are free, the block of words. */
struct sequence {
    uint64_t seed, draw, element, taken;
    philox_words words;
    double other; /* of a pair of normal numbers */
    bool has_other;
    FN sequence(uint64_t seed, uint64_t draw, uint64_t element) : seed(seed), draw(draw), element(element), taken(0), has_other(false) {}
};
static __device__ double uniform_of(sequence *s) /* of 53 bits, [0, 1) */
{
    const int half = (int)(s->taken++ & 1) * 2;
    if (!half) {
        const uint64_t element = s->element ^ (s->taken >> 1) << 48;
        const philox_words c = {{(uint32_t)s->draw, (uint32_t)(s->draw >> 32), (uint32_t)element, (uint32_t)(element >> 32)}};
        s->words = philox(c, (uint32_t)s->seed, (uint32_t)(s->seed >> 32));
    }
    return (double)(((uint64_t)s->words.w[half] << 32 | s->words.w[half + 1]) >> 11) * 0x1p-53;
}
static __device__ double normal_of(sequence *s) /* Box and Muller's */
{
    if (s->has_other) {
        s->has_other = false;
        return s->other;
    }
    const double size = sqrt(-2 * log1p(-uniform_of(s))), angle = 6.283185307179586 * uniform_of(s);
    s->has_other = true;
    s->other = size * sin(angle);
    return size * cos(angle);
}

#define DRAW_FN static __device__
#define DRAW_SOURCE sequence
#define DRAW_UNIFORM uniform_of
#define DRAW_NORMAL normal_of
#include "kernels/cpu/draws.inc"

/* i[0] to i[2]: where the numbers begin, as cuda_philox has it; operands 1 and 2 the distribution's parameters */
template <class F> FN void draw(const cuda_rows &p, F f)
{
    const cuda_philox from = begun({(uint64_t)p.i[0], (uint64_t)p.i[1], (const uint64_t *)p.i[2]});
    ROLLED
    for (int64_t i = FIRST; i < p.w.n; i += ALL) {
        int64_t far[3];
        sequence s(from.seed, from.offset, (uint64_t)i);
        locate<3>(p.w, i, far);
        store<double>((char *)p.w.p[0] + far[0], p.w.dtype[0], f(&s, operand<double>(p.w, 1, far[1]), operand<double>(p.w, 2, far[2])));
    }
}
KERNEL(draw_poisson, cuda_rows) { draw(p, [](sequence *s, double a, double b) { return poisson_one(s, a, b); }); }
KERNEL(draw_binomial, cuda_rows) { draw(p, [](sequence *s, double a, double b) { return binomial_one(s, a, b); }); }
KERNEL(draw_gamma, cuda_rows) { draw(p, [](sequence *s, double a, double b) { return gamma_one(s, a, b); }); }
KERNEL(draw_gamma_narrow, cuda_rows) { draw(p, [](sequence *s, double a, double b) { return gamma_one_narrow(s, a, b); }); }

/* Derivatives of such numbers by their parameters. */
KERNEL(slope_gamma, cuda_rows) { draw(p, [](sequence *, double a, double x) { return gamma_slope(a, x); }); }
KERNEL(slope_dirichlet, cuda_rows)
{
    ROLLED
    for (int64_t i = FIRST; i < p.w.n; i += ALL) {
        int64_t far[4];
        locate<4>(p.w, i, far);
        store<double>((char *)p.w.p[0] + far[0], p.w.dtype[0], dirichlet_slope(operand<double>(p.w, 1, far[1]), operand<double>(p.w, 2, far[2]), operand<double>(p.w, 3, far[3])));
    }
}
