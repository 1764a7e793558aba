/* matmul.c - products of matrices and vectors: mm, bmm, matmul, linear, and their adding forms.
 *
 * The kernels are in product.c; here are ATen's checks and shapes, and derivatives, all of which are
 * products again: of C = A B, the gradient of A is g B^H, that of B is A^H g.
 */
#include "autograd/autograd.h"
#include "op/watch.h"
#include "op/formula.h"
#include "kernels/cpu/gemm.h"
#include "ops/product/product.h"

#define LOW RUSH_AUTOCAST_LOW

static int same_dtype(const rush_tensor *a, const rush_tensor *b)
{
    RUSH_CHECK(a->dtype == b->dtype, RUSH_RUNTIME_ERROR, "expected m1 and m2 to have the same dtype, but got: %s != %s",
               rush_dtype_word(a->dtype), rush_dtype_word(b->dtype));
    return 0;
}

static int shapes_multiply(const rush_tensor *a, const rush_tensor *b)
{
    RUSH_CHECK(a->size[1] == b->size[0], RUSH_RUNTIME_ERROR, "mat1 and mat2 shapes cannot be multiplied (%lldx%lld and %lldx%lld)",
               (long long)a->size[0], (long long)a->size[1], (long long)b->size[0], (long long)b->size[1]);
    return 0;
}

/* Types without a kernel are refused unless there is nothing to compute. */
static int result(rush_value *out, const rush_tensor *on, int ndim, const int64_t *size, const char *kernel)
{
    rush_tensor *t = rush_out_t(out, 0, on, on->dtype, ndim, size);
    if (!t) return -1;
    return t->numel && t->device.type == RUSH_CPU ? rush_product_dtype(t->dtype, kernel) : 0;
}

/* ---- mm, bmm ---- */

static int mm_shape(const rush_op *op, const rush_value *in, rush_value *out)
{
    const rush_tensor *a = in[0].t, *b = in[1].t;
    RUSH_CHECK(a->ndim == 2, RUSH_RUNTIME_ERROR, "self must be a matrix");
    RUSH_CHECK(b->ndim == 2, RUSH_RUNTIME_ERROR, "mat2 must be a matrix");
    if (shapes_multiply(a, b) || same_dtype(a, b)) return -1;
    return result(out, a, 2, (int64_t[]){a->size[0], b->size[1]}, "addmm_impl_cpu_");
}

static void mm_cpu(const rush_op *op, const rush_value *in, rush_value *out)
{
    rush_product(out[0].t, in[0].t, in[1].t, 1, 0, NULL);
}

/* The derivatives of a b by a and by b: the gradient of a factor that lies column by column does, too, as in PyTorch. */
static bool by_columns(const rush_tensor *t) { return t->stride[0] == 1 && t->stride[1] == t->size[0]; }

static rush_tensor *conjugate(rush_tensor *t) { return t && rush_dtype_is_complex(t->dtype) ? conj_(t) : t; }

static rush_tensor *by_left(rush_tensor *g, const rush_tensor *a, rush_tensor *b)
{
    return by_columns(a) ? T("t", V(mm(conjugate(b), T("t", V(g))))) : mm(g, rush_adjoint(b));
}

static rush_tensor *by_right(rush_tensor *g, rush_tensor *a, const rush_tensor *b)
{
    return by_columns(b) ? T("t", V(mm(T("t", V(g)), conjugate(a)))) : mm(rush_adjoint(a), g);
}

static void mm_grad(rush_grads *s)
{
    if (rush_needs(s, 1)) s->gin[1] = by_right(s->g[0], s->in[0].t, s->in[1].t);
    if (rush_needs(s, 0)) s->gin[0] = by_left(s->g[0], s->in[0].t, s->in[1].t);
}

static rush_op op_mm = {
    .schema = "mm(Tensor self, Tensor mat2) -> Tensor", .method = RUSH_METHOD,
    .doc = "Matrix product of two 2-d tensors, (n, k) and (k, m). No broadcasting: see matmul.",
    .shape = mm_shape, .cpu = mm_cpu, .grad = mm_grad, .saves = "self@mat2, mat2@self", .flags = LOW,
};

static int batches_multiply(const rush_tensor *a, const rush_tensor *b)
{
    RUSH_CHECK(a->ndim == 3, RUSH_RUNTIME_ERROR, "batch1 must be a 3D tensor");
    RUSH_CHECK(b->ndim == 3, RUSH_RUNTIME_ERROR, "batch2 must be a 3D tensor");
    RUSH_CHECK(a->size[0] == b->size[0] && a->size[2] == b->size[1], RUSH_RUNTIME_ERROR,
               "Expected size for first two dimensions of batch2 tensor to be: [%lld, %lld] but got: [%lld, %lld].", (long long)a->size[0],
               (long long)a->size[2], (long long)b->size[0], (long long)b->size[1]);
    return 0;
}

static int bmm_shape(const rush_op *op, const rush_value *in, rush_value *out)
{
    const rush_tensor *a = in[0].t, *b = in[1].t;
    if (batches_multiply(a, b)) return -1;
    RUSH_CHECK(a->dtype == b->dtype, RUSH_RUNTIME_ERROR, "expected scalar type %s but found %s", rush_dtype_word(a->dtype),
               rush_dtype_word(b->dtype));
    return result(out, a, 3, (int64_t[]){a->size[0], a->size[1], b->size[2]}, "bmm");
}

static void bmm_grad(rush_grads *s)
{
    if (rush_needs(s, 0)) s->gin[0] = T("bmm", V(s->g[0]), V(rush_adjoint(s->in[1].t)));
    if (rush_needs(s, 1)) s->gin[1] = T("bmm", V(rush_adjoint(s->in[0].t)), V(s->g[0]));
}

static rush_op op_bmm = {
    .schema = "bmm(Tensor self, Tensor mat2) -> Tensor", .method = RUSH_METHOD,
    .doc = "Batched matrix product, (b, n, k) and (b, k, m). No broadcasting: see matmul.",
    .shape = bmm_shape, .cpu = mm_cpu, .grad = bmm_grad, .saves = "self@mat2, mat2@self", .flags = LOW,
};

/* ---- beta self + alpha product ---- */

static bool is_one(rush_value v)
{
    return v.kind == RUSH_V_COMPLEX ? v.c[0] == 1 && v.c[1] == 0 : rush_to_double(v) == 1;
}

static bool is_zero(rush_value v)
{
    return v.kind == RUSH_V_COMPLEX ? v.c[0] == 0 && v.c[1] == 0 : rush_to_double(v) == 0;
}

/* The derivative of v t by t, applied to g. */
static rush_tensor *scaled(rush_tensor *g, rush_value v)
{
    return !g || is_one(v) ? g : T("mul.Tensor", V(g), rush_conj_number(v));
}

static int scalars_fit(rush_dtype d, rush_value beta, rush_value alpha)
{
    bool cplx = (beta.kind == RUSH_V_COMPLEX && beta.c[1] != 0) || (alpha.kind == RUSH_V_COMPLEX && alpha.c[1] != 0);
    RUSH_CHECK(!cplx || rush_dtype_is_complex(d), RUSH_RUNTIME_ERROR, "value cannot be converted to type %s without overflow",
               rush_dtype_name(d));
    return 0;
}

static int expands_to(const rush_tensor *t, int ndim, const int64_t *size)
{
    RUSH_CHECK(t->ndim <= ndim, RUSH_RUNTIME_ERROR,
               "expand(%s, size=%s): the number of sizes provided (%d) must be greater or equal to the number of dimensions in the tensor (%d)",
               rush_shape_of(t), rush_shape_text(ndim, size), ndim, t->ndim);
    for (int i = 0; i < t->ndim; ++i) {
        int64_t have = t->size[t->ndim - 1 - i], want = size[ndim - 1 - i];
        RUSH_CHECK(have == want || have == 1, RUSH_RUNTIME_ERROR,
                   "The expanded size of the tensor (%lld) must match the existing size (%lld) at non-singleton dimension %d.  "
                   "Target sizes: %s.  Tensor sizes: %s",
                   (long long)want, (long long)have, ndim - 1 - i, rush_shape_text(ndim, size), rush_shape_of(t));
    }
    return 0;
}

/* Arguments self, mat1, mat2, beta, alpha of a call whose result is made already. */
static int add_product(rush_tensor *c, rush_tensor *self, rush_tensor *a, rush_tensor *b, rush_value beta, rush_value alpha)
{
    rush_dtype d = c->dtype;
    bool real = rush_dtype_is_float(d) || (rush_dtype_is_complex(d) && (beta.kind != RUSH_V_COMPLEX || beta.c[1] == 0) &&
                                           (alpha.kind != RUSH_V_COMPLEX || alpha.c[1] == 0));
    if (is_zero(beta)) {
        if (real) return rush_product(c, a, b, rush_to_double(alpha), 0, NULL);
    } else if (real) {
        bool row = self->ndim == 1 && c->ndim == 2 && self->size[0] == c->size[1] && is_one(beta) && is_one(alpha) && d != RUSH_F16;
        if (row && a->size[1]) return rush_product(c, a, b, 1, 0, self->flags & (RUSH_T_NEG | RUSH_T_CONJ) ? rush_contiguous_copy(self) : self);
        return rush_copy_into(c, self) || rush_product(c, a, b, rush_to_double(alpha), rush_to_double(beta), NULL);
    }
    uint32_t mode = rush_now.mode;
    rush_now.mode |= RUSH_MODE_NO_GRAD;
    if (!rush_dtype_is_complex(d)) { /* numbers are cut to integers */
        beta = rush_v_int(rush_to_int(beta));
        alpha = rush_v_int(rush_to_int(alpha));
    }
    rush_tensor *p = rush_tensor_new(d, c->device, c->ndim, c->size), *sum = NULL;
    if (p && !rush_product(p, a, b, 1, 0, NULL)) {
        sum = is_one(alpha) ? p : T("mul.Tensor", V(p), alpha);
        if (!is_zero(beta)) sum = add(sum, is_one(beta) ? self : T("mul.Tensor", V(self), beta));
    }
    rush_now.mode = mode;
    return sum ? rush_copy_into(c, sum) : -1;
}

static void addmm_cpu(const rush_op *op, const rush_value *in, rush_value *out)
{
    add_product(out[0].t, in[0].t, in[1].t, in[2].t, in[3], in[4]);
}

static int addmm_shape(const rush_op *op, const rush_value *in, rush_value *out)
{
    const rush_tensor *self = in[0].t, *a = in[1].t, *b = in[2].t;
    RUSH_CHECK(a->ndim == 2, RUSH_RUNTIME_ERROR, "mat1 must be a matrix, got %d-D tensor", a->ndim);
    RUSH_CHECK(b->ndim == 2, RUSH_RUNTIME_ERROR, "mat2 must be a matrix, got %d-D tensor", b->ndim);
    if (shapes_multiply(a, b) || same_dtype(a, b)) return -1;
    RUSH_CHECK(self->dtype == b->dtype, RUSH_RUNTIME_ERROR, "self and mat2 must have the same dtype, but got %s and %s",
               rush_dtype_word(self->dtype), rush_dtype_word(b->dtype));
    int64_t size[2] = {a->size[0], b->size[1]};
    if (expands_to(self, 2, size) || scalars_fit(a->dtype, in[3], in[4])) return -1;
    return result(out, a, 2, size, "addmm_impl_cpu_");
}

static void addmm_grad(rush_grads *s)
{
    rush_tensor *g = s->g[0], *ga = scaled(g, s->in[4]);
    if (rush_needs(s, 1)) s->gin[1] = by_left(ga, s->in[1].t, s->in[2].t);
    if (rush_needs(s, 2)) s->gin[2] = by_right(ga, s->in[1].t, s->in[2].t);
    if (rush_needs(s, 0)) s->gin[0] = scaled(sum_to_size(g, s->in[0].t), s->in[3]);
}

static rush_op op_addmm = {
    .schema = "addmm(Tensor self, Tensor mat1, Tensor mat2, *, Scalar beta=1, Scalar alpha=1) -> Tensor", .method = RUSH_METHODS | RUSH_OLD_ORDER,
    .doc = "beta self + alpha (mat1 @ mat2); self broadcasts to the product's size and is not read when beta is 0.",
    .shape = addmm_shape, .cpu = addmm_cpu, .grad = addmm_grad, .saves = "mat1@mat2, mat2@mat1", .flags = LOW | RUSH_INPLACE_OK,
};

static int addmm_activation_run(const rush_op *op, const rush_value *in, rush_value *out)
{
    rush_tensor *y = T("addmm", in[0], in[1], in[2], in[3], in[4]);
    return rush_result(out, I_(in[5]) ? T("gelu", V(y), V("none")) : T("relu", V(y)));
}

static rush_op op_addmm_activation = {
    .schema = "_addmm_activation(Tensor self, Tensor mat1, Tensor mat2, *, Scalar beta=1, Scalar alpha=1, bool use_gelu=False) -> Tensor",
    .method = RUSH_METHOD,
    .doc = "relu or gelu of addmm.", .run = addmm_activation_run, .flags = LOW,
};

static int baddbmm_shape(const rush_op *op, const rush_value *in, rush_value *out)
{
    const rush_tensor *self = in[0].t, *a = in[1].t, *b = in[2].t;
    if (batches_multiply(a, b)) return -1;
    RUSH_CHECK(self->dtype == a->dtype && a->dtype == b->dtype, RUSH_RUNTIME_ERROR,
               "Input dtypes must be the same, got: input %s, batch1: %s, batch2: %s", rush_dtype_name(self->dtype), rush_dtype_name(a->dtype),
               rush_dtype_name(b->dtype));
    int64_t size[3] = {a->size[0], a->size[1], b->size[2]};
    if (expands_to(self, 3, size) || scalars_fit(a->dtype, in[3], in[4])) return -1;
    return result(out, a, 3, size, "baddbmm");
}

static void baddbmm_grad(rush_grads *s)
{
    rush_tensor *g = s->g[0], *ga = scaled(g, s->in[4]);
    if (rush_needs(s, 0)) s->gin[0] = scaled(sum_to_size(g, s->in[0].t), s->in[3]);
    if (rush_needs(s, 1)) s->gin[1] = T("bmm", V(ga), V(rush_adjoint(s->in[2].t)));
    if (rush_needs(s, 2)) s->gin[2] = T("bmm", V(rush_adjoint(s->in[1].t)), V(ga));
}

static rush_op op_baddbmm = {
    .schema = "baddbmm(Tensor self, Tensor batch1, Tensor batch2, *, Scalar beta=1, Scalar alpha=1) -> Tensor", .method = RUSH_METHODS | RUSH_OLD_ORDER,
    .doc = "beta self + alpha (batch1 @ batch2), for each matrix of the batch.",
    .shape = baddbmm_shape, .cpu = addmm_cpu, .grad = baddbmm_grad, .saves = "batch1@batch2, batch2@batch1", .flags = LOW | RUSH_INPLACE_OK,
};

static int addbmm_shape(const rush_op *op, const rush_value *in, rush_value *out)
{
    const rush_tensor *self = in[0].t, *a = in[1].t, *b = in[2].t;
    RUSH_CHECK(a->ndim == 3, RUSH_RUNTIME_ERROR, "batch1 must be a 3D tensor");
    RUSH_CHECK(b->ndim == 3, RUSH_RUNTIME_ERROR, "batch2 must be a 3D tensor");
    RUSH_CHECK(a->size[0] == b->size[0], RUSH_RUNTIME_ERROR, "batch1 and batch2 must have same number of batches, got %lld and %lld",
               (long long)a->size[0], (long long)b->size[0]);
    RUSH_CHECK(a->size[2] == b->size[1], RUSH_RUNTIME_ERROR, "Incompatible matrix sizes for bmm (%lldx%lld and %lldx%lld)",
               (long long)a->size[1], (long long)a->size[2], (long long)b->size[1], (long long)b->size[2]);
    RUSH_CHECK(a->dtype == b->dtype && self->dtype == a->dtype, RUSH_RUNTIME_ERROR, "mat1 and mat2 must have the same dtype, but got %s and %s",
               rush_dtype_word(a->dtype), rush_dtype_word(b->dtype));
    int64_t size[2] = {a->size[1], b->size[2]};
    if (expands_to(self, 2, size) || scalars_fit(a->dtype, in[3], in[4])) return -1;
    return result(out, a, 2, size, "addmm_impl_cpu_");
}

/* The sum over the batch is one product of (n, batch k) and (batch k, m). */
static void addbmm_cpu(const rush_op *op, const rush_value *in, rush_value *out)
{
    rush_tensor *a = in[1].t, *b = in[2].t;
    int64_t nb = a->size[0], n = a->size[1], k = a->size[2], m = b->size[2];
    rush_tensor *wide = rush_tensor_alias(a, 3, (int64_t[]){n, nb, k}, (int64_t[]){a->stride[1], a->stride[0], a->stride[2]}, a->offset);
    rush_tensor *rows = wide ? rush_as_rows(wide, n, nb * k) : NULL, *columns = rush_as_rows(b, nb * k, m);
    if (rows && columns) add_product(out[0].t, in[0].t, rows, columns, in[3], in[4]);
}

static void addbmm_grad(rush_grads *s)
{
    rush_tensor *g = s->g[0], *a = s->in[1].t, *b = s->in[2].t;
    if (rush_needs(s, 0)) s->gin[0] = scaled(sum_to_size(g, s->in[0].t), s->in[3]);
    if (!rush_needs(s, 1) && !rush_needs(s, 2)) return;
    rush_tensor *ga = T("expand", V(scaled(g, s->in[4])), INTS(a->size[0], a->size[1], b->size[2]));
    if (rush_needs(s, 1)) s->gin[1] = T("bmm", V(ga), V(rush_adjoint(b)));
    if (rush_needs(s, 2)) s->gin[2] = T("bmm", V(rush_adjoint(a)), V(ga));
}

static rush_op op_addbmm = {
    .schema = "addbmm(Tensor self, Tensor batch1, Tensor batch2, *, Scalar beta=1, Scalar alpha=1) -> Tensor", .method = RUSH_METHODS | RUSH_OLD_ORDER,
    .doc = "beta self + alpha times the sum of batch1[i] @ batch2[i].",
    .shape = addbmm_shape, .cpu = addbmm_cpu, .grad = addbmm_grad, .saves = "batch1@batch2, batch2@batch1", .flags = LOW | RUSH_INPLACE_OK,
};

/* ---- matrix and vector ---- */

static rush_tensor *as_column(const rush_tensor *v)
{
    return rush_tensor_alias(v, 2, (int64_t[]){v->size[0], 1}, (int64_t[]){v->stride[0], v->size[0] == 1 ? 1 : v->stride[0] * v->size[0]},
                             v->offset);
}

static int vectors_fit(const rush_tensor *mat, const rush_tensor *vec, const rush_tensor *self)
{
    int nself = self ? self->ndim : 1;
    RUSH_CHECK(mat->ndim == 2 && vec->ndim == 1 && nself <= 1, RUSH_RUNTIME_ERROR, "vector + matrix @ vector expected, got %d, %d, %d", nself,
               mat->ndim, vec->ndim);
    int64_t n = !self ? mat->size[0] : self->ndim ? self->size[0] : 1;
    RUSH_CHECK(mat->size[1] == vec->size[0] && (n == mat->size[0] || n == 1), RUSH_RUNTIME_ERROR,
               "size mismatch, got input (%lld), mat (%lldx%lld), vec (%lld)", (long long)n, (long long)mat->size[0], (long long)mat->size[1],
               (long long)vec->size[0]);
    RUSH_CHECK(mat->dtype == vec->dtype && (!self || self->dtype == vec->dtype), RUSH_RUNTIME_ERROR,
               "addmv input tensors must have the same dtype, but got %s, %s, and %s", rush_dtype_word(self ? self->dtype : vec->dtype),
               rush_dtype_word(mat->dtype), rush_dtype_word(vec->dtype));
    return 0;
}

static int mv_shape(const rush_op *op, const rush_value *in, rush_value *out)
{
    if (vectors_fit(in[0].t, in[1].t, NULL)) return -1;
    return result(out, in[0].t, 1, in[0].t->size, "addmv_impl_cpu");
}

static void mv_cpu(const rush_op *op, const rush_value *in, rush_value *out)
{
    rush_tensor *x = as_column(in[1].t), *y = as_column(out[0].t);
    if (x && y) rush_product(y, in[0].t, x, 1, 0, NULL);
}

static rush_tensor *outer(rush_tensor *a, rush_tensor *b)
{
    return T("mul.Tensor", V(unsqueeze(a, 1)), V(conj_(b)));
}

static void mv_grad(rush_grads *s)
{
    if (rush_needs(s, 0)) s->gin[0] = outer(s->g[0], s->in[1].t);
    if (rush_needs(s, 1)) s->gin[1] = T("mv", V(rush_adjoint(s->in[0].t)), V(s->g[0]));
}

static rush_op op_mv = {
    .schema = "mv(Tensor self, Tensor vec) -> Tensor", .method = RUSH_METHOD,
    .doc = "Product of a matrix (n, m) and a vector (m).",
    .shape = mv_shape, .cpu = mv_cpu, .grad = mv_grad, .saves = "self@vec, vec@self",
};

static int addmv_shape(const rush_op *op, const rush_value *in, rush_value *out)
{
    if (vectors_fit(in[1].t, in[2].t, in[0].t) || scalars_fit(in[1].t->dtype, in[3], in[4])) return -1;
    return result(out, in[1].t, 1, in[1].t->size, "addmv_impl_cpu");
}

static void addmv_cpu(const rush_op *op, const rush_value *in, rush_value *out)
{
    rush_tensor *self = in[0].t, *x = as_column(in[2].t), *y = as_column(out[0].t);
    if (self->ndim == 1) self = as_column(self);
    if (x && y && self) add_product(y, self, in[1].t, x, in[3], in[4]);
}

static void addmv_grad(rush_grads *s)
{
    rush_tensor *g = s->g[0], *ga = scaled(g, s->in[4]);
    if (rush_needs(s, 0)) s->gin[0] = scaled(sum_to_size(g, s->in[0].t), s->in[3]);
    if (rush_needs(s, 1)) s->gin[1] = outer(ga, s->in[2].t);
    if (rush_needs(s, 2)) s->gin[2] = T("mv", V(rush_adjoint(s->in[1].t)), V(ga));
}

static rush_op op_addmv = {
    .schema = "addmv(Tensor self, Tensor mat, Tensor vec, *, Scalar beta=1, Scalar alpha=1) -> Tensor", .method = RUSH_ALL_FORMS | RUSH_OLD_ORDER,
    .doc = "beta self + alpha (mat @ vec).",
    .shape = addmv_shape, .cpu = addmv_cpu, .grad = addmv_grad, .saves = "mat@vec, vec@mat", .flags = RUSH_INPLACE_OK,
};

static int dot_shape(const rush_op *op, const rush_value *in, rush_value *out)
{
    const rush_tensor *a = in[0].t, *b = in[1].t;
    RUSH_CHECK(a->ndim == 1 && b->ndim == 1, RUSH_RUNTIME_ERROR, "1D tensors expected, but got %dD and %dD tensors", a->ndim, b->ndim);
    RUSH_CHECK(a->dtype == b->dtype, RUSH_RUNTIME_ERROR, "dot : expected both vectors to have same dtype, but found %s and %s",
               rush_dtype_word(a->dtype), rush_dtype_word(b->dtype));
    RUSH_CHECK(a->numel == b->numel, RUSH_RUNTIME_ERROR,
               "inconsistent tensor size, expected tensor [%lld] and src [%lld] to have the same number of elements, but got %lld and %lld "
               "elements respectively",
               (long long)a->numel, (long long)b->numel, (long long)a->numel, (long long)b->numel);
    return result(out, a, 0, NULL, "dot");
}

static void dot_cpu(const rush_op *op, const rush_value *in, rush_value *out)
{
    const rush_tensor *a = in[0].t, *b = in[1].t;
    rush_tensor *y = out[0].t;
    int64_t n = a->numel;
    bool lazy = (a->flags | b->flags) & RUSH_T_NEG;
    if (y->dtype == RUSH_F32 && !lazy) {
        *(float *)rush_ptr(y) = rush_k_gemm->dot_f32(n, rush_ptr(a), a->stride[0], rush_ptr(b), b->stride[0]);
    } else if (y->dtype == RUSH_F64 && !lazy) {
        *(double *)rush_ptr(y) = rush_k_gemm->dot_f64(n, rush_ptr(a), a->stride[0], rush_ptr(b), b->stride[0]);
    } else {
        rush_tensor *row = rush_tensor_alias(a, 2, (int64_t[]){1, n}, (int64_t[]){1, a->stride[0]}, a->offset);
        rush_tensor *one = rush_tensor_alias(y, 2, (int64_t[]){1, 1}, (int64_t[]){1, 1}, y->offset);
        if (row && one) rush_product(one, row, as_column(b), 1, 0, NULL);
    }
}

static void dot_grad(rush_grads *s)
{
    if (rush_needs(s, 0)) s->gin[0] = mul(s->g[0], conj_(s->in[1].t));
    if (rush_needs(s, 1)) s->gin[1] = mul(s->g[0], conj_(s->in[0].t));
}

static rush_op op_dot = {
    .schema = "dot(Tensor self, Tensor tensor) -> Tensor", .method = RUSH_METHOD,
    .doc = "Sum of the products of two vectors' elements. Complex numbers are not conjugated: see vdot.",
    .shape = dot_shape, .cpu = dot_cpu, .grad = dot_grad, .saves = "self@tensor, tensor@self",
};

static int vdot_run(const rush_op *op, const rush_value *in, rush_value *out)
{
    return rush_result(out, T("dot", V(conj_(in[0].t)), in[1]));
}

static rush_op op_vdot = {
    .schema = "vdot(Tensor self, Tensor other) -> Tensor", .method = RUSH_METHOD, .node = "VdotBackward0",
    .doc = "Sum of conj(self) times other, for two vectors.", .run = vdot_run, .flags = RUSH_WHOLE,
};

/* ---- linear ---- */

static int linear_shape(const rush_op *op, const rush_value *in, rush_value *out)
{
    const rush_tensor *x = in[0].t, *w = in[1].t, *b = T_(in[2]);
    RUSH_CHECK(x->ndim && w->ndim, RUSH_RUNTIME_ERROR, "both arguments to linear need to be at least 1D, but they are %dD and %dD", x->ndim,
               w->ndim);
    RUSH_CHECK(w->ndim <= 2, RUSH_RUNTIME_ERROR, "t() expects a tensor with <= 2 dimensions, but self is %dD", w->ndim);
    int64_t size[RUSH_MAXDIM], k = x->size[x->ndim - 1], rows = k ? x->numel / k : 1;
    RUSH_CHECK(k == w->size[w->ndim - 1], RUSH_RUNTIME_ERROR, "mat1 and mat2 shapes cannot be multiplied (%lldx%lld and %lldx%lld)",
               (long long)rows, (long long)k, (long long)w->size[w->ndim - 1], (long long)(w->ndim == 2 ? w->size[0] : 1));
    RUSH_CHECK(x->dtype == w->dtype, RUSH_RUNTIME_ERROR, "mat1 and mat2 must have the same dtype, but got %s and %s", rush_dtype_word(x->dtype),
               rush_dtype_word(w->dtype));
    RUSH_CHECK(!b || b->dtype == x->dtype, RUSH_RUNTIME_ERROR, "self and mat2 must have the same dtype, but got %s and %s",
               rush_dtype_word(b ? b->dtype : 0), rush_dtype_word(x->dtype));
    RUSH_CHECK(!b || w->ndim == 2 || b->ndim == 0, RUSH_RUNTIME_ERROR, "mat2 must be a matrix, got 1-D tensor");
    int ndim = x->ndim - (w->ndim == 1);
    memcpy(size, x->size, sizeof *size * x->ndim);
    if (w->ndim == 2) size[ndim - 1] = w->size[0];
    if (b && expands_to(b, ndim, size)) return -1;
    return result(out, x, ndim, size, "addmm_impl_cpu_");
}

static void linear_cpu(const rush_op *op, const rush_value *in, rush_value *out)
{
    rush_tensor *x = in[0].t, *w = in[1].t, *b = T_(in[2]), *y = out[0].t;
    int64_t k = x->size[x->ndim - 1], n = w->ndim == 2 ? w->size[0] : 1, rows = n ? y->numel / n : 0;
    if (!y->numel) return;
    rush_tensor *a = x->ndim == 2 ? x : rush_as_rows(x, rows, k);
    rush_tensor *t = rush_tensor_alias(w, 2, (int64_t[]){k, n}, (int64_t[]){w->stride[w->ndim - 1], w->ndim == 2 ? w->stride[0] : k}, w->offset);
    rush_tensor *c = y->ndim == 2 && w->ndim == 2 ? y : rush_tensor_alias(y, 2, (int64_t[]){rows, n}, (int64_t[]){n, 1}, y->offset);
    if (!a || !t || !c) return;
    bool row = b && b->ndim == 1 && b->size[0] == n && !(b->flags & (RUSH_T_NEG | RUSH_T_CONJ)) && k;
    if (b && !row && rush_copy_into(y, b)) return;
    rush_product(c, a, t, 1, b && !row, row ? b : NULL);
}

/* Does x, as a matrix of rows of k, lie column by column? */
static bool rows_by_columns(const rush_tensor *x, int64_t k)
{
    if (rush_contiguous(x) || !x->numel) return false;
    const int64_t size[2] = {x->numel / k, k};
    int64_t stride[2];
    return rush_view_strides(x, 2, size, stride) && stride[0] == 1 && stride[1] == size[0];
}

static void linear_grad(rush_grads *s)
{
    rush_tensor *x = s->in[0].t, *w = s->in[1].t, *b = T_(s->in[2]), *g = s->g[0];
    int64_t k = x->size[x->ndim - 1], n = w->ndim == 2 ? w->size[0] : 1;
    if (rush_needs(s, 2)) s->gin[2] = sum_to_size(g, b);
    int64_t rows = n ? g->numel / n : k ? x->numel / k : 0;
    rush_tensor *g2 = g->ndim == 2 && w->ndim == 2 ? g : T("reshape", V(g), INTS(rows, n));
    if (rush_needs(s, 0)) {
        rush_tensor *w2 = w->ndim == 2 ? w : unsqueeze(w, 0);
        if (rush_dtype_is_complex(x->dtype)) w2 = conj_(w2);
        rush_tensor *gx = rows_by_columns(x, k) ? T("t", V(T("mm", V(T("t", V(w2))), V(T("t", V(g2)))))) : T("mm", V(g2), V(w2));
        s->gin[0] = x->ndim == 2 ? gx : T("view", V(gx), rush_v_ints(x->size, x->ndim));
    }
    if (rush_needs(s, 1)) {
        rush_tensor *x2 = x->ndim == 2 ? x : T("reshape", V(x), INTS(k ? x->numel / k : rows, k));
        if (rush_dtype_is_complex(x->dtype)) x2 = conj_(x2);
        if (w->ndim == 2 && (w->stride[1] != 1 || w->stride[0] != k)) {
            s->gin[1] = T("t", V(T("mm", V(T("t", V(x2))), V(g2))));
        } else {
            rush_tensor *gw = T("mm", V(transpose(g2, 0, 1)), V(x2));
            s->gin[1] = w->ndim == 2 ? gw : squeeze(gw, 0);
        }
    }
}

/* The operations that PyTorch makes of it. */
static int linear_open(const rush_op *op, const rush_value *in, rush_value *out)
{
    rush_tensor *x = in[0].t, *w = in[1].t, *b = T_(in[2]);
    int64_t size[RUSH_MAXDIM], k = x->ndim ? x->size[x->ndim - 1] : 1;
    if (x->ndim == 2 && b && w->ndim == 2) return rush_result(out, T("addmm", V(b), V(x), V(T("t", V(w)))));
    if ((x->ndim != 3 && x->ndim != 1) || !b || !rush_contiguous(x) || w->ndim != 2) {
        rush_tensor *y = matmul(x, T("t", V(w)));
        return rush_result(out, b ? add(y, b) : y);
    }
    memcpy(size, x->size, sizeof *size * x->ndim);
    size[x->ndim - 1] = w->size[0];
    rush_tensor *rows = T("view", V(x), INTS(k ? x->numel / k : 0, k));
    return rush_result(out, T("view", V(T("addmm", V(b), V(rows), V(T("t", V(w))))), rush_v_ints(size, x->ndim)));
}

static rush_op op_linear = {
    .schema = "linear(Tensor input, Tensor weight, Tensor? bias=None) -> Tensor", .method = RUSH_NN,
    .doc = "input @ weight^T + bias: input (..., in), weight (out, in) or (in), bias (out).",
    .shape = linear_shape, .cpu = linear_cpu, .grad = linear_grad, .saves = "input@weight, weight@input", .flags = LOW | RUSH_LAST_GRAD_FIRST,
    .open = linear_open,
};

/* ---- matmul: the cases of 1-d, 2-d and batched arguments ---- */

/* (..., n, k) @ (k, m) is one product of all rows. */
static rush_tensor *fold(rush_tensor *a, rush_tensor *b)
{
    int64_t size[RUSH_MAXDIM], k = a->size[a->ndim - 1], rows = 1;
    for (int i = 0; i < a->ndim - 1; ++i) rows *= size[i] = a->size[i];
    rush_tensor *a2 = T("reshape", V(a), INTS(rows, k));
    if (b->ndim == 1) return T("_unsafe_view", V(T("mv", V(a2), V(b))), rush_v_ints(size, a->ndim - 1));
    size[a->ndim - 1] = b->size[1];
    return T("_unsafe_view", V(mm(a2, b)), rush_v_ints(size, a->ndim));
}

static rush_tensor *batches(rush_tensor *t, int nd, const int64_t *batch, int64_t nb)
{
    int64_t size[RUSH_MAXDIM];
    memcpy(size, batch, sizeof *size * nd);
    size[nd] = t->size[t->ndim - 2];
    size[nd + 1] = t->size[t->ndim - 1];
    bool same = t->ndim == nd + 2 && !memcmp(t->size, size, sizeof *size * t->ndim), watched = rush_is_watched(t);
    if (!same || watched) t = T("expand", V(t), rush_v_ints(size, nd + 2));
    if (!t || (nd == 1 && !watched)) return t;
    return T("reshape", V(t), INTS(nb, size[nd], size[nd + 1]));
}

static rush_tensor *batched(rush_tensor *a, rush_tensor *b)
{
    bool row = a->ndim == 1, column = b->ndim == 1;
    if (row) a = unsqueeze(a, 0);
    if (column) b = unsqueeze(b, 1);
    if (!a || !b) return NULL;
    int64_t size[RUSH_MAXDIM], nb = 1;
    int nd;
    if (rush_broadcast_sizes(a->ndim - 2, a->size, b->ndim - 2, b->size, &nd, size)) return NULL;
    for (int i = 0; i < nd; ++i) nb *= size[i];
    rush_tensor *c = T("bmm", V(batches(a, nd, size, nb)), V(batches(b, nd, size, nb)));
    int n = nd;
    if (!row) size[n++] = a->size[a->ndim - 2];
    if (!column) size[n++] = b->size[b->ndim - 1];
    return c && (n != 3 || row || column || rush_is_watched(c)) ? T("_unsafe_view", V(c), rush_v_ints(size, n)) : c;
}

static int matmul_run(const rush_op *op, const rush_value *in, rush_value *out)
{
    rush_tensor *a = in[0].t, *b = in[1].t;
    int da = a->ndim, db = b->ndim;
    RUSH_CHECK(da && db, RUSH_RUNTIME_ERROR, "both arguments to matmul need to be at least 1D, but they are %dD and %dD", da, db);
    if (da == 2 && db == 2) return rush_result(out, mm(a, b));
    if (da == 1 && db == 1) return rush_result(out, T("dot", V(a), V(b)));
    if (da == 2 && db == 1) return rush_result(out, T("mv", V(a), V(b)));
    if (da == 1 && db == 2) return rush_result(out, squeeze(mm(unsqueeze(a, 0), b), 0));
    if (db <= 2) return rush_result(out, fold(a, b));
    return rush_result(out, batched(a, b));
}

static rush_op op_matmul = {
    .schema = "matmul(Tensor self, Tensor other) -> Tensor", .method = RUSH_METHOD,
    .doc = "Matrix product of vectors, matrices or batches of matrices, whose leading dimensions broadcast. A vector on the left "
           "is a row, on the right a column; the added dimension is removed from the result.",
    .run = matmul_run,
};
static rush_op op_linalg_matmul = {
    .schema = "linalg_matmul(Tensor self, Tensor other) -> Tensor", .doc = "Another name of matmul.", .run = matmul_run,
};

/* ---- outer products ---- */

static int outer_run(const rush_op *op, const rush_value *in, rush_value *out)
{
    RUSH_CHECK(in[0].t->ndim == 1, RUSH_RUNTIME_ERROR, "outer: Expected 1-D argument self, but got %d-D", in[0].t->ndim);
    RUSH_CHECK(in[1].t->ndim == 1, RUSH_RUNTIME_ERROR, "outer: Expected 1-D argument vec2, but got %d-D", in[1].t->ndim);
    return rush_result(out, mul(unsqueeze(in[0].t, 1), in[1].t));
}

static rush_op op_outer = {
    .schema = "outer(Tensor self, Tensor vec2) -> Tensor", .method = RUSH_METHOD, .doc = "The matrix of all products self[i] * vec2[j].", .run = outer_run, .flags = RUSH_OUT_CASTS,
};
static rush_op op_ger = {
    .schema = "ger(Tensor self, Tensor vec2) -> Tensor", .method = RUSH_METHOD, .doc = "Another name of outer.", .run = outer_run, .flags = RUSH_OUT_CASTS,
};

static int addr_run(const rush_op *op, const rush_value *in, rush_value *out)
{
    rush_tensor *self = in[0].t, *a = in[1].t, *b = in[2].t;
    rush_value beta = in[3], alpha = in[4];
    RUSH_CHECK(a->ndim == 1, RUSH_RUNTIME_ERROR, "addr: Expected 1-D argument vec1, but got %d-D", a->ndim);
    RUSH_CHECK(b->ndim == 1, RUSH_RUNTIME_ERROR, "addr: Expected 1-D argument vec2, but got %d-D", b->ndim);
    int64_t size[2] = {a->size[0], b->size[0]};
    if (expands_to(self, 2, size)) return -1;
    rush_dtype d = rush_promote(self->dtype, rush_promote(a->dtype, b->dtype));
    bool whole = rush_dtypes[d].category <= 1, real = rush_dtypes[d].category <= 2;
    for (int i = 0; i < 2; ++i) {
        rush_value v = i ? alpha : beta;
        const char *name = i ? "alpha" : "beta";
        RUSH_CHECK(d != RUSH_BOOL || v.kind == RUSH_V_BOOL || v.kind == RUSH_V_INT, RUSH_RUNTIME_ERROR,
                   "Boolean %s only supported for Boolean results.", name);
        RUSH_CHECK(!whole || v.kind == RUSH_V_BOOL || v.kind == RUSH_V_INT, RUSH_RUNTIME_ERROR,
                   "For integral input tensors, argument %s must not be a floating point number.", name);
        RUSH_CHECK(!real || v.kind != RUSH_V_COMPLEX, RUSH_RUNTIME_ERROR,
                   "For non-complex input tensors, argument %s must not be a complex number.", name);
    }
    rush_tensor *p = mul(unsqueeze(a, 1), b);
    if (d == RUSH_BOOL) {
        bool keep = !is_zero(beta), use = !is_zero(alpha);
        rush_tensor *both = use ? p : rush_zeros_like(p);
        return rush_result(out, keep ? T("logical_or", V(both), V(self)) : both);
    }
    if (!is_one(alpha)) p = T("mul.Tensor", V(p), alpha);
    if (is_zero(beta)) return rush_result(out, p && p->dtype != d ? to_dtype(p, d) : p);
    return rush_result(out, add(is_one(beta) ? self : T("mul.Tensor", V(self), beta), p));
}

static rush_op op_addr = {
    .schema = "addr(Tensor self, Tensor vec1, Tensor vec2, *, Scalar beta=1, Scalar alpha=1) -> Tensor",
    .method = RUSH_METHODS | RUSH_OLD_ORDER, .node = "AddrBackward0",
    .doc = "beta self + alpha times the outer product of vec1 and vec2.", .run = addr_run, .flags = RUSH_INPLACE_OK | RUSH_AUTOCAST_WIDEST | RUSH_OUT_CASTS | RUSH_WHOLE,
};

RUSH_FAMILY(matmul, &op_mm, &op_bmm, &op_addmm, &op_addmm_activation, &op_baddbmm, &op_addbmm, &op_mv, &op_addmv, &op_dot, &op_vdot,
            &op_linear, &op_matmul, &op_linalg_matmul, &op_outer, &op_ger, &op_addr)
