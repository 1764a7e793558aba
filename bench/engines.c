/* engines.c - products and convolutions beside oneDNN called directly, one thread: milliseconds and their ratio.
 *
 *     bench/engines [NAME]
 *
 * Both start from dense rows (images: N, C, H, W) and leave their result so. The direct side has made its primitives, and
 * memory for the layouts that oneDNN likes, beforehand; a run is the reorders and the product. Ours allocates its result.
 * The two take turns, and the best round of each counts, so that a busy machine disturbs the ratio little.
 */
#include <rushlight.h>
#include "kernels/engine/versions.h"

#include <omp.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

enum { IN, WEIGHT, OUT, TENSORS };

/* A product by oneDNN: for each tensor the caller's memory, the primitive's, and the reorder between where they differ. */
typedef struct direct {
    dnnl_primitive_t product, reorder[TENSORS];
    dnnl_memory_t own[TENSORS], inner[TENSORS];
} direct;

static dnnl_engine_t engine;
static dnnl_stream_t stream;

static int try_(dnnl_status_t s, const char *what)
{
    if (s != dnnl_success) fprintf(stderr, "oneDNN: %s fails with %d\n", what, (int)s);
    return s != dnnl_success;
}
#define TRY(call) try_(call, #call)

static int reorder_between(dnnl_primitive_t *p, rush_const_desc from, rush_const_desc to)
{
    dnnl_primitive_desc_t pd;
    if (TRY(dnnl_reorder_primitive_desc_create(&pd, from, engine, to, engine, NULL))) return -1;
    int failed = TRY(dnnl_primitive_create(p, pd));
    dnnl_primitive_desc_destroy(pd);
    return failed;
}

static int prepare(direct *d, dnnl_primitive_desc_t pd, const rush_desc *own, void *const *data)
{
    static const dnnl_query_t ask[TENSORS] = {dnnl_query_src_md, dnnl_query_weights_md, dnnl_query_dst_md};
    for (int i = 0; i < TENSORS; i++) {
        rush_const_desc want = dnnl_primitive_desc_query_md(pd, ask[i], 0);
        if (TRY(dnnl_memory_create(&d->own[i], own[i], engine, data[i]))) return -1;
        d->inner[i] = d->own[i];
        if (dnnl_memory_desc_equal(want, own[i])) continue;
        if (TRY(dnnl_memory_create(&d->inner[i], want, engine, DNNL_MEMORY_ALLOCATE))) return -1;
        if (i == OUT ? reorder_between(&d->reorder[i], want, own[i]) : reorder_between(&d->reorder[i], own[i], want)) return -1;
    }
    return TRY(dnnl_primitive_create(&d->product, pd));
}

static void reorder(direct *d, int i, dnnl_memory_t from, dnnl_memory_t to)
{
    dnnl_exec_arg_t args[] = {{DNNL_ARG_FROM, from}, {DNNL_ARG_TO, to}};
    if (d->reorder[i]) dnnl_primitive_execute(d->reorder[i], stream, 2, args);
}

static void run_direct(direct *d)
{
    reorder(d, IN, d->own[IN], d->inner[IN]);
    reorder(d, WEIGHT, d->own[WEIGHT], d->inner[WEIGHT]);
    dnnl_exec_arg_t args[] = {{DNNL_ARG_SRC, d->inner[IN]}, {DNNL_ARG_WEIGHTS, d->inner[WEIGHT]}, {DNNL_ARG_DST, d->inner[OUT]}};
    dnnl_primitive_execute(d->product, stream, 3, args);
    reorder(d, OUT, d->inner[OUT], d->own[OUT]);
    dnnl_stream_wait(stream);
}

/* As it lies, or as oneDNN likes it. */
static int describe(rush_desc *d, const rush_tensor *t, int any)
{
    dnnl_dims_t dims, strides;
    memcpy(dims, rush_sizes(t), sizeof *dims * (size_t)rush_ndim(t));
    memcpy(strides, rush_strides(t), sizeof *strides * (size_t)rush_ndim(t));
    return any ? TRY(dnnl_memory_desc_create_with_tag(d, rush_ndim(t), dims, dnnl_f32, dnnl_format_tag_any))
               : TRY(dnnl_memory_desc_create_with_strides(d, rush_ndim(t), dims, dnnl_f32, strides));
}

static int describe_all(rush_desc d[TENSORS], rush_tensor *const *t, int any)
{
    int failed = 0;
    for (int i = 0; i < TENSORS; i++) failed |= describe(&d[i], t[i], any);
    return failed;
}

static void forget(rush_desc d[TENSORS])
{
    for (int i = 0; i < TENSORS; i++) dnnl_memory_desc_destroy(d[i]);
}

static int direct_matmul(direct *d, rush_tensor *const *t)
{
    rush_desc own[TENSORS];
    dnnl_primitive_desc_t pd;
    if (describe_all(own, t, 0) || TRY(dnnl_matmul_primitive_desc_create(&pd, engine, own[IN], own[WEIGHT], NULL, own[OUT], NULL))) return -1;
    int failed = prepare(d, pd, own, (void *[]){rush_data(t[IN]), rush_data(t[WEIGHT]), rush_data(t[OUT])});
    dnnl_primitive_desc_destroy(pd);
    forget(own);
    return failed;
}

static int direct_conv(direct *d, rush_tensor *const *t)
{
    rush_desc own[TENSORS], any[TENSORS];
    dnnl_primitive_desc_t pd;
    dnnl_dims_t ones = {1, 1}, zeros = {0, 0}; /* oneDNN counts dilation from 0 */
    if (describe_all(own, t, 0) || describe_all(any, t, 1)) return -1;
    if (TRY(dnnl_convolution_forward_primitive_desc_create(&pd, engine, dnnl_forward_inference, dnnl_convolution_direct, any[IN], any[WEIGHT], NULL,
                                                           any[OUT], ones, zeros, ones, ones, NULL))) return -1;
    forget(any);
    int failed = prepare(d, pd, own, (void *[]){rush_data(t[IN]), rush_data(t[WEIGHT]), rush_data(t[OUT])});
    dnnl_primitive_desc_destroy(pd);
    forget(own);
    return failed;
}

static rush_tensor *our_matmul(rush_tensor *const *t) { return rush_matmul(t[IN], t[WEIGHT]); }
static rush_tensor *our_conv(rush_tensor *const *t) { return rush_conv2d(t[IN], t[WEIGHT], .padding = RUSH_INTS(1, 1)); }

static const struct {
    const char *name;
    rush_tensor *(*ours)(rush_tensor *const *);
    int (*direct)(direct *, rush_tensor *const *);
    int ndim;
    int64_t in[4], weight[4];
} cases[] = {
    {"matmul 1024 x 1024 x 1024", our_matmul, direct_matmul, 2, {1024, 1024}, {1024, 1024}},
    {"conv2d 16 x 64 x 56 x 56, 64 of 3 x 3", our_conv, direct_conv, 4, {16, 64, 56, 56}, {64, 64, 3, 3}},
    {"conv2d 16 x 256 x 14 x 14, 256 of 3 x 3", our_conv, direct_conv, 4, {16, 256, 14, 14}, {256, 256, 3, 3}},
};

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec * 1e-6;
}

static int compare(size_t k)
{
    int failed = 0;
    rush_scope() {
        direct d = {0};
        rush_ints in = {cases[k].in, (size_t)cases[k].ndim}, weight = {cases[k].weight, (size_t)cases[k].ndim};
        rush_tensor *t[TENSORS] = {rush_randn(in), rush_randn(weight)};
        rush_tensor *first = cases[k].ours(t);
        t[OUT] = rush_zeros_like(first);
        failed = rush_error() || cases[k].direct(&d, t);
        if (failed) break;
        double ours = 1e30, theirs = 1e30, begin = now();
        for (int round = 0; round < 10 || (round < 200 && now() - begin < 6000); round++) {
            double from = now();
            run_direct(&d);
            double between = now();
            rush_scope() cases[k].ours(t);
            double end = now();
            if (between - from < theirs) theirs = between - from;
            if (end - between < ours) ours = end - between;
        }
        double off = rush_item(rush_max(rush_abs(rush_sub(first, t[OUT]))));
        printf("%-40s %9.3f ms, oneDNN directly %9.3f ms: %5.3f%s\n", cases[k].name, ours, theirs, ours / theirs, off < 1e-2 ? "" : "  DIFFERENT NUMBERS");
        fflush(stdout);
    }
    return failed;
}

int main(int argc, char **argv)
{
    rush_num_threads_set(1);
    omp_set_num_threads(1);
    rush_manual_seed(0);
    if (TRY(dnnl_engine_create(&engine, dnnl_cpu, 0)) || TRY(dnnl_stream_create(&stream, engine, dnnl_stream_default_flags))) return 1;
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++)
        if ((argc < 2 || strstr(cases[k].name, argv[1])) && compare(k)) return fprintf(stderr, "%s\n", rush_error() ? rush_error() : "failed"), 1;
    return 0;
}
