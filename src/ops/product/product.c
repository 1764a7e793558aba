/* product.c - one matrix product, or a batch, on tensors: picks the engine.
 *
 * Small and skinny products and float64 are ours (kernels/cpu/gemm.c); float32 and bfloat16 of some size are
 * oneDNN's; half types otherwise go through float, complex ones through four real products, integers through
 * a loop of their own.
 */
#include "ops/product/product.h"
#include "kernels/cpu/gemm.h"
#include "kernels/engine/engine.h"

RUSH_HOT int rush_product_dtype(rush_dtype d, const char *kernel)
{
    bool ok = d == RUSH_F32 || d == RUSH_F64 || d == RUSH_F16 || d == RUSH_BF16 || d == RUSH_C64 || d == RUSH_C128 || d == RUSH_U8 ||
              d == RUSH_I8 || d == RUSH_I16 || d == RUSH_I32 || d == RUSH_I64;
    RUSH_CHECK(ok, RUSH_NOT_IMPLEMENTED, "\"%s\" not implemented for '%s'", kernel, rush_dtype_word(d));
    return 0;
}

rush_tensor *rush_adjoint(rush_tensor *t)
{
    if (!t) return NULL;
    if (rush_now.mode == RUSH_MODE_NO_GRAD && t->ndim == 2 && t->layout == RUSH_STRIDED && !rush_dtype_is_complex(t->dtype))
        return rush_tensor_alias(t, 2, (int64_t[]){t->size[1], t->size[0]}, (int64_t[]){t->stride[1], t->stride[0]}, t->offset);
    t = t->ndim == 2 ? T("t", V(t)) : T("transpose.int", V(t), V(-2), V(-1));
    return t && rush_dtype_is_complex(t->dtype) ? T("_conj_if_complex", V(t)) : t;
}

rush_tensor *rush_as_rows(const rush_tensor *t, int64_t rows, int64_t columns)
{
    int64_t size[2] = {rows, columns}, stride[2];
    if (!rush_view_strides(t, 2, size, stride)) {
        rush_tensor *copy = rush_contiguous_copy(t);
        if (!copy) return NULL;
        stride[0] = columns, stride[1] = 1;
        return rush_tensor_alias(copy, 2, size, stride, copy->offset);
    }
    rush_tensor *view = rush_tensor_alias(t, 2, size, stride, t->offset);
    if (view) view->flags |= t->flags & (RUSH_T_CONJ | RUSH_T_NEG);
    return view;
}

/* ---- one call, described without tensors ---- */

typedef struct job {
    rush_dtype dtype;
    int64_t batch, ab, bb, cb;
    rush_gemm g;
    size_t esize;
} job;

/* A right-hand matrix that changes no more, where there are enough rows for that to pay, and so few that an engine would spend much of
 * its time on laying it out. */
#define LAID_OUT_ROWS 256

static void lay_out(const rush_weight *w, void *to)
{
    rush_k_gemm->lay_out(&(rush_gemm){.n = w->n, .k = w->k, .b = w->at, .bk = w->k_step, .bn = w->n_step}, to);
}

static void find_panels(rush_gemm *g, const rush_tensor *b)
{
    if (g->m < 4 || g->m > LAID_OUT_ROWS || g->n < RUSH_GEMM_WIDE || (double)g->m * (double)g->n * (double)g->k <= 32768) return;
    g->panels = rush_laid_out(b, &(rush_weight){g->b, g->k, g->n, g->bk, g->bn, .nbytes = rush_k_gemm->panels_size(g->n, g->k), .lay_out = lay_out});
}

static void one(const job *j, int64_t i)
{
    rush_gemm g = j->g;
    g.a = (const char *)g.a + (size_t)(i * j->ab) * j->esize;
    g.b = (const char *)g.b + (size_t)(i * j->bb) * j->esize;
    g.c = (char *)g.c + (size_t)(i * j->cb) * j->esize;
    if (j->dtype == RUSH_F32) rush_k_gemm->f32(&g);
    else if (j->dtype == RUSH_F64) rush_k_gemm->f64(&g);
    else rush_k_gemm->integer(&g, j->dtype);
}

static void some(void *arg, int64_t begin, int64_t end)
{
    for (int64_t i = begin; i < end; ++i) one(arg, i);
}

RUSH_HOT static bool by_engine(const job *j)
{
    const rush_gemm *g = &j->g;
    double work = (double)g->m * (double)g->n * (double)g->k;
    if (j->dtype != RUSH_F32 && j->dtype != RUSH_BF16) return false;
    if (g->alpha != 1 || (g->beta != 0 && g->beta != 1)) return false;
    if (work <= 32768 || ((g->m <= 8 || g->n <= 4) && j->batch == 1 && j->dtype == RUSH_F32)) return false;
    if (g->panels || (j->dtype == RUSH_F32 && j->batch == 1 && rush_gemm_keeps(g))) return false;
    rush_engine_product p = {.dtype = j->dtype, .batch = j->batch, .m = g->m, .n = g->n, .k = g->k, .a = g->a, .b = g->b, .bias = g->bias,
                             .c = g->c, .ab = j->ab, .am = g->am, .ak = g->ak, .bb = j->bb, .bk = g->bk, .bn = g->bn, .cb = j->cb,
                             .cm = g->cm, .cn = g->cn, .beta = g->beta};
    return rush_engine_matmul(&p);
}

static void run(const job *j)
{
    const rush_gemm *g = &j->g;
    if (g->m == 0 || g->n == 0 || j->batch == 0) return;
    if (by_engine(j)) return;
    if (j->batch == 1) {
        one(j, 0);
        return;
    }
    double work = (double)g->m * (double)g->n * (double)RUSH_MAX(g->k, 1);
    int64_t grain = work >= 32768 ? 1 : (int64_t)(32768 / work);
    if (j->batch >= rush_num_threads() || grain > 1) rush_parallel_for(j->batch, grain, some, (void *)j);
    else some((void *)j, 0, j->batch);
}

static void matrix_strides(const rush_tensor *t, int64_t batch, int64_t *bs, int64_t *rs, int64_t *cs)
{
    int d = t->ndim;
    *bs = d == 3 && t->size[0] != 1 && batch > 1 ? t->stride[0] : 0;
    *rs = t->stride[d - 2];
    *cs = t->stride[d - 1];
}

/* ---- complex: re = ar br - ai bi, im = ar bi + ai br, on the same memory seen as real numbers ---- */

static void run_complex(job j, bool conj_a, bool conj_b)
{
    rush_gemm *g = &j.g;
    double alpha = g->alpha, beta = g->beta, sa = conj_a ? -1 : 1, sb = conj_b ? -1 : 1;
    size_t half = j.esize / 2;
    const char *a = g->a, *b = g->b;
    char *c = g->c;
    j.dtype = j.dtype == RUSH_C64 ? RUSH_F32 : RUSH_F64;
    j.esize = half;
    j.ab *= 2, j.bb *= 2, j.cb *= 2;
    g->am *= 2, g->ak *= 2, g->bk *= 2, g->bn *= 2, g->cm *= 2, g->cn *= 2;
    for (int part = 0; part < 4; ++part) {
        int ia = part == 1 || part == 3, ib = part == 1 || part == 2, ic = part >= 2;
        g->a = a + (ia ? half : 0);
        g->b = b + (ib ? half : 0);
        g->c = c + (ic ? half : 0);
        g->alpha = alpha * (ia ? sa : 1) * (ib ? sb : 1) * (part == 1 ? -1 : 1);
        g->beta = part == 0 || part == 2 ? beta : 1;
        run(&j);
    }
}

/* A tensor with its elements as they are to be read. */
static rush_tensor *settled(const rush_tensor *t, uint16_t lazy)
{
    return t->flags & lazy ? rush_contiguous_copy(t) : (rush_tensor *)t;
}

static int through_float(rush_tensor *c, const rush_tensor *a, const rush_tensor *b, double alpha, double beta, const rush_tensor *bias)
{
    rush_tensor *x = rush_cast_copy(a, RUSH_F32), *y = rush_cast_copy(b, RUSH_F32), *z;
    z = beta != 0 ? rush_cast_copy(c, RUSH_F32) : rush_tensor_new(RUSH_F32, c->device, c->ndim, c->size);
    rush_tensor *s = bias ? rush_cast_copy(bias, RUSH_F32) : NULL;
    if (!x || !y || !z || (bias && !s)) return -1;
    return rush_product(z, x, y, alpha, beta, s) || rush_copy_into(c, z);
}

RUSH_HOT int rush_product(rush_tensor *c, const rush_tensor *a, const rush_tensor *b, double alpha, double beta, const rush_tensor *bias)
{
    rush_dtype d = c->dtype;
    bool cplx = d == RUSH_C64 || d == RUSH_C128;
    int64_t batch = c->ndim == 3 ? c->size[0] : 1;
    if (c->numel == 0) return 0;
    if (bias && d != RUSH_F32 && d != RUSH_F64 && d != RUSH_BF16) { /* rows of the bias are what is added to */
        RUSH_ASSERT(beta == 0);
        if (rush_copy_into(c, bias)) return -1;
        beta = 1;
        bias = NULL;
    }
    if (!(cplx && !((a->flags | b->flags) & RUSH_T_NEG))) {
        a = settled(a, RUSH_T_NEG | (cplx ? 0 : RUSH_T_CONJ));
        b = settled(b, RUSH_T_NEG | (cplx ? 0 : RUSH_T_CONJ));
        if (!a || !b) return -1;
    }
    job j = {.dtype = d, .batch = batch, .esize = rush_dtypes[d].size};
    j.g = (rush_gemm){.m = c->size[c->ndim - 2], .n = c->size[c->ndim - 1], .k = a->size[a->ndim - 1], .a = rush_ptr(a), .b = rush_ptr(b),
                      .c = rush_ptr(c), .alpha = alpha, .beta = beta, .bias = bias ? rush_ptr(bias) : NULL};
    matrix_strides(a, batch, &j.ab, &j.g.am, &j.g.ak);
    matrix_strides(b, batch, &j.bb, &j.g.bk, &j.g.bn);
    matrix_strides(c, batch, &j.cb, &j.g.cm, &j.g.cn);
    if (bias && (bias->stride[0] != 1 && bias->size[0] > 1)) {
        bias = rush_contiguous_copy(bias);
        if (!bias) return -1;
        j.g.bias = rush_ptr(bias);
    }
    switch (d) {
    case RUSH_F32:
        if (batch == 1) find_panels(&j.g, b);
        /* fall through */
    case RUSH_F64:
        run(&j);
        return 0;
    case RUSH_C64:
    case RUSH_C128:
        run_complex(j, a->flags & RUSH_T_CONJ, b->flags & RUSH_T_CONJ);
        return 0;
    case RUSH_BF16:
        if (rush_engine_has_bf16() && by_engine(&j)) return 0;
        return through_float(c, a, b, alpha, beta, bias);
    case RUSH_F16:
        return through_float(c, a, b, alpha, beta, bias);
    default: {
        RUSH_ASSERT(rush_dtypes[d].category <= 1);
        if (beta == 0) {
            rush_tensor *zero = rush_tensor_of_number_typed(rush_v_int(0), d);
            if (!zero || rush_copy_into(c, zero)) return -1;
        }
        RUSH_ASSERT(alpha == 1 && (beta == 0 || beta == 1));
        run(&j);
        return 0;
    }
    }
}
