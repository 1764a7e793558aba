/* cell.cu - a step of an LSTM or GRU after its products, a thread to each unit of each row, and the ways back. The formulas are those of
 * kernels/cpu/rnn.inc.
 */
#include "cuda/device.h"

template <class T> FN T sigmoid(T x) { return 1 / (1 + exp(-x)); }
/* Row `row` of an array of `wide` units each, and unit k of it. */
template <class T> FN T *unit(const void *p, int64_t row, int64_t wide, int64_t units, int64_t k) { return (T *)p + row * wide * units + k; }
#define EACH_UNIT                                                                                           \
    const int64_t h = p.units;                                                                              \
    ROLLED                                                                                                  \
    for (int64_t at = FIRST, row = at / h, k = at % h; at < p.batch * h; at += ALL, row = at / h, k = at % h)

/* gates come in as sums of products and leave as gates; state is c, to the new one, more the new h */
template <class T> FN void lstm(const cuda_cell &p)
{
    EACH_UNIT {
        T *gate = unit<T>(p.gates, row, 4, h, k);
        const T i = sigmoid(gate[0]), f = sigmoid(gate[h]), g = tanh(gate[2 * h]), o = sigmoid(gate[3 * h]), c = f * ((const T *)p.state)[at] + i * g;
        gate[0] = i, gate[h] = f, gate[2 * h] = g, gate[3 * h] = o;
        ((T *)p.to)[at] = c;
        ((T *)p.more)[at] = o * tanh(c);
    }
}
KERNEL(lstm_f32, cuda_cell) { lstm<float>(p); }
KERNEL(lstm_f64, cuda_cell) { lstm<double>(p); }

/* to: the gates' gradients; more: the gradient of c, of the new one before and of the old one afterwards */
template <class T> FN void lstm_back(const cuda_cell &p)
{
    EACH_UNIT {
        const T *gate = unit<const T>(p.gates, row, 4, h, k), i = gate[0], f = gate[h], g = gate[2 * h], o = gate[3 * h];
        T *to = unit<T>(p.to, row, 4, h, k), *dc = (T *)p.more + at;
        const T t = tanh(((const T *)p.state_new)[at]), dh = ((const T *)p.dh)[at], d = *dc + dh * o * (1 - t * t);
        to[3 * h] = dh * t * o * (1 - o);
        to[0] = d * g * i * (1 - i);
        to[h] = d * ((const T *)p.state)[at] * f * (1 - f);
        to[2 * h] = d * i * (1 - g * g);
        *dc = d * f;
    }
}
KERNEL(lstm_back_f32, cuda_cell) { lstm_back<float>(p); }
KERNEL(lstm_back_f64, cuda_cell) { lstm_back<double>(p); }

/* products: the old h's; gates keep r, z, n and the product that r weighs */
template <class T> FN void gru(const cuda_cell &p)
{
    EACH_UNIT {
        const T *x = unit<const T>(p.x, row, 3, h, k), *product = unit<const T>(p.products, row, 3, h, k);
        const T r = sigmoid(x[0] + product[0]), z = sigmoid(x[h] + product[h]), n = tanh(x[2 * h] + r * product[2 * h]);
        T *gate = unit<T>(p.gates, row, 4, h, k);
        gate[0] = r, gate[h] = z, gate[2 * h] = n, gate[3 * h] = product[2 * h];
        ((T *)p.to)[at] = n + z * (((const T *)p.state)[at] - n);
    }
}
KERNEL(gru_f32, cuda_cell) { gru<float>(p); }
KERNEL(gru_f64, cuda_cell) { gru<double>(p); }

/* to: the gradient of x's products, more that of h's; products: the gradient of h, which becomes what goes by z to the old one */
template <class T> FN void gru_back(const cuda_cell &p)
{
    EACH_UNIT {
        const T *gate = unit<const T>(p.gates, row, 4, h, k), r = gate[0], z = gate[h], n = gate[2 * h];
        T *dx = unit<T>(p.to, row, 3, h, k), *dhh = unit<T>(p.more, row, 3, h, k), *dh = (T *)p.products + at;
        const T d = *dh, dn = d * (1 - z) * (1 - n * n), dz = d * (((const T *)p.state)[at] - n) * z * (1 - z), dr = dn * gate[3 * h] * r * (1 - r);
        dx[0] = dhh[0] = dr;
        dx[h] = dhh[h] = dz;
        dx[2 * h] = dn;
        dhh[2 * h] = dn * r;
        *dh = d * z;
    }
}
KERNEL(gru_back_f32, cuda_cell) { gru_back<float>(p); }
KERNEL(gru_back_f64, cuda_cell) { gru_back<double>(p); }
