/* optim.cu - steps of optimizers: a thread takes an element of a parameter with its gradient and state. */
#include "cuda/device.h"

#define RUSH_STEP FN
#define LOOP for (int64_t i = 0; i < n; i++)
#define restrict __restrict__

#define T float
#define NAME(x) x##_f32
#define SQRT sqrtf
#define FABS fabsf
#define FMA(a, b, c) fmaf(a, b, c)
#include "kernels/cpu/optim.inc"
#undef T
#undef NAME
#undef SQRT
#undef FABS
#undef FMA

#define T double
#define NAME(x) x##_f64
#define SQRT sqrt
#define FABS fabs
#define FMA(a, b, c) fma(a, b, c)
#include "kernels/cpu/optim.inc"
#undef T
#undef NAME

template <class T, class F> FN void steps(const cuda_steps &p, F step)
{
    ROLLED
    for (int64_t i = FIRST; i < p.elements; i += ALL) {
        int k = 0;
        while (k + 1 < p.n && p.job[k + 1].begin <= i) k++;
        const rush_step_job &job = p.job[k];
        const int64_t far = (i - job.begin) * p.size;
        T v[RUSH_STEP_PARTS];
        void *part[RUSH_STEP_PARTS];
        for (int q = 0; q < RUSH_STEP_PARTS; q++) {
            part[q] = job.p[q] ? &v[q] : nullptr;
            v[q] = job.p[q] ? load<T>((const char *)job.p[q] + far, p.dtype) : 0;
        }
        step(part, 1, &job.step);
        for (int q = 0; q < RUSH_STEP_PARTS; q++)
            if (job.p[q] && p.written >> q & 1) store<T>((char *)job.p[q] + far, p.dtype, v[q]);
    }
}

#define STEP(id)                                                                                            \
    KERNEL(step_##id##_f32, cuda_steps)                                                                     \
    {                                                                                                       \
        steps<float>(p, [](void *const *part, int64_t n, const rush_step *s) { id##_f32(part, n, s); });    \
    }                                                                                                       \
    KERNEL(step_##id##_f64, cuda_steps)                                                                     \
    {                                                                                                       \
        steps<double>(p, [](void *const *part, int64_t n, const rush_step *s) { id##_f64(part, n, s); });   \
    }
STEP(adam)
STEP(sgd)
STEP(adagrad)
STEP(rmsprop)
STEP(adadelta)
STEP(adamax)
STEP(nadam)
STEP(radam)
STEP(rprop)
STEP(asgd)
