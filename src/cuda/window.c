/* window.c - pooling, padding and resampling as src/op/tables.h asks for them, over the kernels of window.cu. */
#include "cuda/cuda.h"
#include <stdio.h>

/* Numbers of the host in a device's memory; the scope's. */
static void *there(rush_device d, const void *numbers, int64_t n)
{
    rush_tensor *t = rush_tensor_new(RUSH_I64, d, 1, &n);
    if (!t || !n) return NULL;
    return cuda_upload(d, rush_ptr(t), numbers, (size_t)n * sizeof(int64_t)) ? NULL : rush_ptr(t);
}

static const char *word(const rush_tensor *t) { return t->dtype == RUSH_F64 || t->dtype == RUSH_C128 ? "f64" : t->dtype == RUSH_I64 ? "i64" : "f32"; }

static int start(const char *what, const rush_tensor *x, const void *p, int64_t work)
{
    char kernel[32];
    snprintf(kernel, sizeof kernel, "%s_%s", what, word(x));
    return rush_failed() ? -1 : cuda_launch(x->device, kernel, p, work);
}

static int64_t volume(const int64_t *size) { return size[0] * size[1] * size[2]; }

int cuda_pool(rush_pool_kind kind, const rush_pool *from, const rush_tensor *x, rush_tensor *y, rush_tensor *index)
{
    static const char *const words[] = {"pool_max", "pool_mean", "pool_mean_back"};
    cuda_planes p = {.x = rush_ptr(x), .y = rush_ptr(y), .index = index ? rush_ptr(index) : NULL, .planes = from->planes, .divisor = from->divisor,
                     .count_padding = from->count_padding, .each = from->each};
    for (int d = 0; d < 3; d++) {
        p.space[d] = from->space[d], p.result[d] = from->result[d], p.kernel[d] = from->kernel[d], p.stride[d] = from->stride[d];
        p.dilation[d] = from->dilation[d], p.before[d] = from->before[d];
        if (!from->begin[d]) continue;
        const int64_t n = from->result[d] * (from->each ? from->planes : 1);
        p.begin[d] = there(x->device, from->begin[d], n);
        p.end[d] = there(x->device, from->end[d], n);
    }
    if (kind == RUSH_POOL_MEAN_BACK && rush_device_fill(y, rush_v_int(0))) return -1;
    return start(words[kind], x, &p, p.planes * volume(p.result));
}

int cuda_pool_scatter(int64_t planes, int64_t result, int64_t space, const rush_tensor *g, const rush_tensor *index, rush_tensor *gx, bool add)
{
    cuda_planes p = {.x = rush_ptr(g), .y = rush_ptr(gx), .index = rush_ptr(index), .planes = planes, .space = {1, 1, space}, .result = {1, 1, result},
                     .add = add, .fault = cuda_devices[g->device.index].fault};
    return start("pool_scatter", g, &p, planes * result);
}

/* What of the space each result shows, from x to y. */
static void put_maps(cuda_planes *p, const int64_t *const map[3], const rush_tensor *x, rush_tensor *y)
{
    p->x = rush_ptr(x), p->y = rush_ptr(y);
    for (int d = 0; d < 3; d++) p->begin[d] = there(x->device, map[d], p->result[d]);
}

static int show(cuda_planes *p, const int64_t *const map[3], const rush_tensor *x, rush_tensor *y, int64_t item)
{
    char kernel[32];
    put_maps(p, map, x, y);
    snprintf(kernel, sizeof kernel, "show_%d", (int)item);
    return rush_failed() ? -1 : cuda_launch(x->device, kernel, p, p->planes * volume(p->result));
}

int cuda_nearest(const rush_nearest *r, const rush_tensor *x, rush_tensor *y)
{
    const int64_t *maps[3];
    cuda_planes p = {.planes = r->outer};
    for (int d = 0; d < 3; d++) {
        static const int64_t zero[1] = {0};
        maps[d] = r->from[d] ? r->from[d] : zero;
        p.space[d] = r->n[d], p.result[d] = r->m[d];
    }
    return show(&p, maps, x, y, r->item);
}

int cuda_pad(const rush_pad *r, const rush_tensor *x, rush_tensor *y, bool back)
{
    cuda_planes p = {.planes = (back ? y->numel : x->numel) / RUSH_MAX(volume(r->in), 1), .parts = rush_dtype_is_complex(x->dtype) ? 2 : 1};
    for (int d = 0; d < 3; d++) p.space[d] = r->in[d], p.result[d] = r->out[d];
    if (!back) return show(&p, r->map, x, y, (int64_t)r->size);
    put_maps(&p, r->map, x, y);
    return rush_device_fill(y, rush_v_int(0)) ? -1 : start("show_back", x, &p, p.planes * volume(p.result));
}

int cuda_along(const rush_taps *t, int64_t outer, int64_t inner, const rush_tensor *x, rush_tensor *y, bool back)
{
    cuda_taps p = {.x = rush_ptr(x), .y = rush_ptr(y), .outer = outer, .n = t->n, .m = t->m, .inner = inner, .most = t->most};
    p.begin = there(x->device, t->begin, t->m);
    p.count = there(x->device, t->count, t->m);
    p.weight = there(x->device, t->weight, t->m * t->most); /* of 8 bytes, too */
    if (back) rush_device_fill(y, rush_v_int(0));
    return start(back ? "along_back" : "along", x, &p, outer * t->m * inner);
}

/* Points are shared while there are threads too few for a large device. */
int cuda_grid_run(rush_grid_pass pass, const rush_grid *g, rush_dtype d, rush_device device, const rush_grid_data *data)
{
    static const char *const passes[] = {"read", "back", "twice"}, *const modes[] = {"linear", "nearest", "cubic"};
    enum { ENOUGH = 1 << 18, LEAST = 4 }; /* threads; channels of each */
    char kernel[32];
    const int64_t points = g->n * g->points;
    const cuda_grid p = {*g, *data, RUSH_MAX(1, RUSH_MIN(ENOUGH / RUSH_MAX(points, 1), g->channels / LEAST))};
    snprintf(kernel, sizeof kernel, "grid_%s_%s_%dd_%s", passes[pass], d == RUSH_F64 ? "f64" : "f32", g->nd, modes[g->mode]);
    return cuda_launch(device, kernel, &p, points * p.groups);
}
