/* grid.cu - images read at the points of a grid, forward, back and back again: a thread has a point and some of the channels.
 *
 * Gradients of images are added atomically, since points may lie in one place; those of points, too, where several threads share one.
 */
#include "cuda/device.h"

#define AXIS_FN FN
#define AXIS_UNROLL UNROLLED
#define T float
#define F(name) name##_f32
#define FLOOR floorf
#define NEAREST rintf
#define MOD fmodf
#include "kernels/cpu/grid_axis.inc"
#undef T
#undef F
#undef FLOOR
#undef NEAREST
#undef MOD
#define T double
#define F(name) name##_f64
#define FLOOR floor
#define NEAREST rint
#define MOD fmod
#include "kernels/cpu/grid_axis.inc"
#undef T
#undef F

template <class T> struct axis_of;
template <> struct axis_of<float> : axis_f32 { FN void find(const rush_grid &g, float point, int64_t n) { find_axis_f32(&g, point, n, this); } };
template <> struct axis_of<double> : axis_f64 { FN void find(const rush_grid &g, double point, int64_t n) { find_axis_f64(&g, point, n, this); } };

FN int64_t space_of(const rush_grid &g) { return g.space[0] * g.space[1] * g.space[2]; }

/* What a thread has: a point, where it lies along ND coordinates, and the channels c, c + step, ... of its image. */
template <class T, int ND, int MODE> struct spot {
    enum { N = MODE == 0 ? 2 : MODE == 1 ? 1 : 4, DEEP = ND == 3 ? N : 1 }; /* taps of a coordinate */
    int64_t point, image, result, c; /* image and result: where channel 0 begins */
    axis_of<T> axis[3];
    FN spot(const cuda_grid &p, int64_t i)
    {
        rush_grid g = p.g;
        g.mode = MODE; /* loops over taps are unrolled */
        const int64_t at = i % g.points, n = i / g.points / p.groups;
        c = i / g.points % p.groups;
        point = n * g.points + at;
        image = n * g.channels * space_of(g);
        result = n * g.channels * g.points + at;
        UNROLLED
        for (int d = 0; d < ND; d++) axis[d].find(g, ((const T *)p.d.points)[point * ND + d], g.space[2 - d]);
    }
    /* f(x, y, z, place) of the taps that lie inside */
    template <class FUN> FN void each(const rush_grid &g, FUN f) const
    {
        UNROLLED
        for (int z = 0; z < DEEP; z++)
            UNROLLED
            for (int y = 0; y < N; y++)
                UNROLLED
                for (int x = 0; x < N; x++) {
                    const int64_t deep = ND == 3 ? axis[2].at[z] : 0, row = axis[1].at[y], column = axis[0].at[x];
                    if (deep >= 0 && row >= 0 && column >= 0) f(x, y, z, (deep * g.space[1] + row) * g.space[2] + column);
                }
    }
    FN T weight(int x, int y, int z) const { return ND == 3 ? axis[0].w[x] * axis[1].w[y] * axis[2].w[z] : axis[0].w[x] * axis[1].w[y]; }
    /* its derivative by coordinate d */
    FN T slope(int d, int x, int y, int z) const
    {
        const T a = d == 0 ? axis[0].dw[x] : axis[0].w[x], b = d == 1 ? axis[1].dw[y] : axis[1].w[y];
        return ND == 3 ? a * b * (d == 2 ? axis[2].dw[z] : axis[2].w[z]) : a * b;
    }
    /* the second one by a and b */
    FN T bend(int a, int b, int x, int y, int z) const
    {
        const int at[3] = {x, y, z};
        T v = 1;
        UNROLLED
        for (int d = 0; d < ND; d++) v *= d == a && d == b ? axis[d].ddw[at[d]] : d == a || d == b ? axis[d].dw[at[d]] : axis[d].w[at[d]];
        return v;
    }
    /* sums over the channels that the thread has */
    FN void give(const cuda_grid &p, const T *sum) const
    {
        T *to = (T *)p.d.to_points + point * ND;
        UNROLLED
        for (int d = 0; d < ND && p.d.to_points; d++) {
            if (p.groups > 1) atomicAdd(to + d, sum[d]);
            else to[d] = sum[d];
        }
    }
};

template <class T, int ND, int MODE> FN void read(const cuda_grid &p, int64_t i)
{
    typedef spot<T, ND, MODE> here;
    enum { ALL_TAPS = here::N * here::N * here::DEEP };
    const here s(p, i);
    int64_t place[ALL_TAPS];
    T weight[ALL_TAPS];
    UNROLLED
    for (int k = 0; k < ALL_TAPS; k++) place[k] = -1;
    s.each(p.g, [&](int x, int y, int z, int64_t at) {
        const int k = (z * here::N + y) * here::N + x;
        place[k] = at, weight[k] = s.weight(x, y, z);
    });
    ROLLED
    for (int64_t c = s.c; c < p.g.channels; c += p.groups) {
        const T *image = (const T *)p.d.x + s.image + c * space_of(p.g);
        T sum = 0;
        UNROLLED
        for (int k = 0; k < ALL_TAPS; k++)
            if (place[k] >= 0) sum += MODE == 1 ? image[place[k]] : weight[k] * image[place[k]];
        ((T *)p.d.y)[s.result + c * p.g.points] = sum;
    }
}

template <class T, int ND, int MODE> FN void back(const cuda_grid &p, int64_t i)
{
    const spot<T, ND, MODE> s(p, i);
    T sum[3] = {0};
    ROLLED
    for (int64_t c = s.c; c < p.g.channels; c += p.groups) {
        const int64_t first = s.image + c * space_of(p.g);
        const T g = ((const T *)p.d.g)[s.result + c * p.g.points];
        s.each(p.g, [&](int x, int y, int z, int64_t at) {
            if (p.d.image) atomicAdd((T *)p.d.image + first + at, s.weight(x, y, z) * g);
            if (!p.d.to_points) return;
            const T v = g * ((const T *)p.d.x)[first + at];
            UNROLLED
            for (int d = 0; d < ND; d++) sum[d] += v * s.slope(d, x, y, z);
        });
    }
    s.give(p, sum);
}

template <class T, int ND, int MODE> FN void twice(const cuda_grid &p, int64_t i)
{
    const spot<T, ND, MODE> s(p, i);
    T sum[3] = {0}, way[3] = {0};
    UNROLLED
    for (int d = 0; d < ND && p.d.gg_points; d++) way[d] = ((const T *)p.d.gg_points)[s.point * ND + d];
    ROLLED
    for (int64_t c = s.c; c < p.g.channels; c += p.groups) {
        const int64_t first = s.image + c * space_of(p.g), result = s.result + c * p.g.points;
        const T g = ((const T *)p.d.g)[result];
        T y = 0;
        s.each(p.g, [&](int x, int yy, int z, int64_t at) {
            const T v = ((const T *)p.d.x)[first + at], moved = p.d.gg_image ? ((const T *)p.d.gg_image)[first + at] : 0;
            T along = 0;
            UNROLLED
            for (int d = 0; d < ND; d++) along += way[d] * s.slope(d, x, yy, z);
            y += s.weight(x, yy, z) * moved + along * v;
            if (p.d.image) atomicAdd((T *)p.d.image + first + at, along * g);
            UNROLLED
            for (int b = 0; b < ND && p.d.to_points; b++) {
                T bent = 0;
                UNROLLED
                for (int a = 0; a < ND; a++) bent += way[a] * s.bend(a, b, x, yy, z);
                sum[b] += g * (s.slope(b, x, yy, z) * moved + bent * v);
            }
        });
        if (p.d.y) ((T *)p.d.y)[result] = y;
    }
    s.give(p, sum);
}

/* A kernel for each pass, type and kind of space and mode: they differ much in what they take. */
#define GRIDS_OF(pass, word, T, nd, mode, name)                                                             \
    KERNEL(grid_##pass##_##word##_##nd##d_##name, cuda_grid)                                                \
    {                                                                                                       \
        ROLLED                                                                                              \
        for (int64_t i = FIRST; i < p.g.n * p.groups * p.g.points; i += ALL) pass<T, nd, mode>(p, i);       \
    }
#define GRIDS(pass, word, T)                                                                                \
    GRIDS_OF(pass, word, T, 2, 0, linear)                                                                   \
    GRIDS_OF(pass, word, T, 2, 1, nearest)                                                                  \
    GRIDS_OF(pass, word, T, 2, 2, cubic)                                                                    \
    GRIDS_OF(pass, word, T, 3, 0, linear)                                                                   \
    GRIDS_OF(pass, word, T, 3, 1, nearest)
GRIDS(read, f32, float)
GRIDS(read, f64, double)
GRIDS(back, f32, float)
GRIDS(back, f64, double)
GRIDS(twice, f32, float)
GRIDS(twice, f64, double)
