/* label.cu - the negative likelihood of labels: x is (outer, n, inner), contiguous, a label each for (outer, inner). */
#include "cuda/rows.h"

/* Label m; the one that is passed over if it is outside, which is noted. */
FN int64_t label_at(const cuda_labels &p, int64_t m)
{
    const int64_t label = p.byte ? ((const uint8_t *)p.label)[m] : ((const int64_t *)p.label)[m];
    if (label == p.ignore || (label >= 0 && label < p.n)) return label;
    report(p.fault, CUDA_FAULT_INDEX, label, p.n);
    return p.ignore;
}

/* The weight of m's label, and its loss. */
template <class T> FN T loss_at(const cuda_labels &p, int64_t m, T &weight)
{
    const int64_t label = label_at(p, m), outer = m / p.inner;
    weight = label == p.ignore ? (T)0 : p.weight ? ((const T *)p.weight)[label] : (T)1;
    return label == p.ignore ? (T)0 : -weight * ((const T *)p.x)[(outer * p.n + label) * p.inner + m - outer * p.inner];
}

/* By one block: the sum of all, or the mean by weight, and the weights' sum. */
template <class T> FN void label_sum(const cuda_labels &p)
{
    __shared__ double losses[CUDA_THREADS], weights[CUDA_THREADS];
    const unsigned me = threadIdx.x;
    if (blockIdx.x) return;
    losses[me] = weights[me] = 0;
    for (int64_t m = me; m < p.outer * p.inner; m += blockDim.x) {
        T weight;
        losses[me] += loss_at<T>(p, m, weight);
        weights[me] += weight;
    }
    __syncthreads();
    for (unsigned s = blockDim.x / 2; s; s /= 2) {
        if (me < s) losses[me] += losses[me + s], weights[me] += weights[me + s];
        __syncthreads();
    }
    if (me) return;
    *(T *)p.y = (T)(p.mean ? losses[0] / weights[0] : losses[0]);
    *(T *)p.sum = (T)weights[0];
}

/* The loss of each, and its weight where there is a place for it. */
template <class T> FN void label_each(const cuda_labels &p)
{
    for (int64_t m = FIRST; m < p.outer * p.inner; m += ALL) {
        T weight;
        ((T *)p.y)[m] = loss_at<T>(p, m, weight);
        if (p.sum) ((T *)p.sum)[m] = weight;
    }
}

/* The gradient of all of x: zero but where a label is. */
template <class T> FN void label_back(const cuda_labels &p)
{
    for (int64_t e = FIRST; e < p.outer * p.n * p.inner; e += ALL) {
        const int64_t line = e / p.inner, outer = line / p.n, c = line - outer * p.n, m = outer * p.inner + e - line * p.inner;
        const int64_t label = label_at(p, m);
        T v = 0;
        if (label == c && label != p.ignore) {
            v = -(p.weight ? ((const T *)p.weight)[c] : (T)1) * ((const T *)p.g)[p.each ? m : 0];
            if (p.mean) v /= *(const T *)p.total;
        }
        ((T *)p.y)[e] = v;
    }
}

#define KERNELS(name)                                                                                       \
    KERNEL(name##_f32, cuda_labels) { name<float>(p); }                                                     \
    KERNEL(name##_f64, cuda_labels) { name<double>(p); }
KERNELS(label_sum)
KERNELS(label_each)
KERNELS(label_back)
