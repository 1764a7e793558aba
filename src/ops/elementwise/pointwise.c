/* pointwise.c - elementwise operations: records from the rows of src/kernels/pointwise.def, and their one kernel.
 *
 * The shape rule broadcasts, promotes, and picks the type to compute in; the kernel takes that type's loop and lets the
 * iterator run it. Loops are for contiguous elements: what is strided or a number passes through small blocks.
 */
#include "ops/elementwise/pointwise.h"
#include "op/blocks.h"
#include "op/later.h"
#include "op/schema.h"
#include "op/tables.h"
#include <stdio.h>

/* ---- which loop ---- */

/* The type in which elements of d are computed. */
static rush_dtype compute_dtype(rush_dtype d)
{
    switch (d) {
    case RUSH_I8:
    case RUSH_I16:
    case RUSH_U16:
        return RUSH_I32;
    case RUSH_U32:
        return RUSH_I64;
    case RUSH_C32:
        return RUSH_C64;
    case RUSH_F16:
    case RUSH_BF16:
    case RUSH_F8E4M3FN:
    case RUSH_F8E5M2:
    case RUSH_F8E4M3FNUZ:
    case RUSH_F8E5M2FNUZ:
    case RUSH_F8E8M0FNU:
        return RUSH_F32;
    default:
        return d;
    }
}

static int refuse(rush_pw_id id, rush_dtype d)
{
    if (rush_failed()) return -1;
    const char *name = rush_now.op ? rush_now.op->base : "operation";
    for (const rush_pw_refusal *r = rush_pw_refusals; r < rush_pw_refusals + rush_pw_refusals_count; r++)
        if (r->id == id && r->category == rush_dtypes[d].category) return rush_fail(r->error, r->text, name);
    return rush_fail(RUSH_NOT_IMPLEMENTED, "\"%s_cpu\" not implemented for '%s'", name, rush_dtype_word(d));
}

/* The dtype that the operands are promoted to. */
RUSH_HOT static rush_dtype common_dtype(int nx, const rush_value *x)
{
    if (x[0].kind == RUSH_V_TENSOR && !(x[0].t->flags & RUSH_T_WRAPPED) && x[0].t->ndim) {
        rush_dtype d = x[0].t->dtype;
        int k = 1;
        /* the same type everywhere, or beside a number that cannot change it */
        for (; k < nx; k++) {
            if (x[k].kind == RUSH_V_TENSOR ? x[k].t->dtype == d
                                           : x[k].kind != RUSH_V_COMPLEX && rush_dtypes[d].category >= (x[k].kind == RUSH_V_FLOAT ? 2 : 1)) continue;
            break;
        }
        if (k == nx) return d;
    }
    return rush_result_type(nx, x);
}

RUSH_HOT int rush_pw_plan_make(rush_pw_plan *plan, rush_pw_id id, const rush_value *x)
{
    const rush_pw_row *row = &rush_pw_rows[id];
    rush_dtype d = row->nx == 1 && x[0].kind == RUSH_V_TENSOR ? (rush_dtype)x[0].t->dtype : common_dtype(row->nx, x), c;
    if (row->set & RUSH_PW_UP && rush_dtypes[d].category < 2) d = rush_default_dtype();
    if (RUSH_UNLIKELY(id == RUSH_PW_square && d == RUSH_BOOL)) d = RUSH_I64; /* it is x ** 2 */
    c = row->set & RUSH_PW_LOGIC ? RUSH_BOOL : compute_dtype(d);
    if (RUSH_UNLIKELY(id == RUSH_PW_nextafter && (d == RUSH_F16 || d == RUSH_BF16))) c = d; /* of its own steps, not float's */
    plan->known = row->set >> rush_dtypes[c].category & 1;
    plan->common = (uint8_t)d;
    plan->compute = c;
    plan->result = row->result == RUSH_PW_BOOL ? RUSH_BOOL : row->result == RUSH_PW_REAL ? rush_dtype_real(d) : d;
    plan->stored = row->result == RUSH_PW_BOOL ? RUSH_BOOL : row->result == RUSH_PW_REAL ? rush_dtype_real(c) : c;
    return rush_failed() ? -1 : 0;
}

/* ---- the result's shape and strides ---- */

/* Which of dimensions p, q is further out? 1: p, -1: q, 0: cannot be told. The first operand that knows decides. */
static int outer(int nx, const rush_value *x, int ndim, const int64_t *size, int p, int q)
{
    for (int k = 0; k < nx; k++) {
        if (x[k].kind != RUSH_V_TENSOR) continue;
        const rush_tensor *t = x[k].t;
        int lead = ndim - t->ndim;
        if (p < lead || q < lead) continue;
        int64_t sp = t->size[p - lead] == 1 && size[p] != 1 ? 0 : t->stride[p - lead];
        int64_t sq = t->size[q - lead] == 1 && size[q] != 1 ? 0 : t->stride[q - lead];
        if (sp == 0 || sq == 0) continue;
        if (sp != sq) return sp > sq ? 1 : -1;
        if (size[p] > size[q]) return 1; /* of equal strides the longer is the outer one */
    }
    return 0;
}

bool rush_pw_strides(int nx, const rush_value *x, int ndim, const int64_t *size, int64_t *stride)
{
    int order[RUSH_MAXDIM]; /* innermost first */
    bool moved = false;
    for (int i = 0; i < ndim; i++) {
        order[i] = ndim - 1 - i;
        if (size[i] == 0) return false; /* the others may be of any size */
    }
    for (int i = 1; i < ndim; i++) {
        for (int at = i, j = i - 1; j >= 0; j--) {
            int c = outer(nx, x, ndim, size, order[j], order[at]);
            if (c < 0) break;
            if (c == 0) continue;
            int swap = order[j];
            order[j] = order[at], order[at] = swap;
            at = j;
            moved = true;
        }
    }
    int64_t next = 1;
    for (int i = 0; i < ndim; i++) {
        stride[order[i]] = next;
        next *= size[order[i]];
    }
    return moved;
}

RUSH_HOT int rush_pw_result(rush_value *out, int i, rush_dtype d, int nx, const rush_value *x)
{
    int64_t size[RUSH_MAXDIM], stride[RUSH_MAXDIM];
    const int64_t *shape = NULL;
    int ndim = 0;
    bool plain = true; /* all operands contiguous */
    rush_device device = {RUSH_CPU, -1};
    const rush_tensor *first = NULL;
    for (int k = 0; k < nx; k++) {
        if (x[k].kind != RUSH_V_TENSOR) continue;
        const rush_tensor *t = x[k].t;
        plain &= t->flags & RUSH_T_CONTIGUOUS;
        if (!first || device.type == RUSH_CPU) device = t->device;
        if (!first) {
            first = t;
            ndim = t->ndim;
            shape = t->size;
        } else if (t->ndim != 0 && (t->ndim != ndim || !rush_sizes_equal(ndim, shape, t->size))) {
            if (ndim && shape != size) memcpy(size, shape, sizeof *size * (size_t)ndim);
            if (rush_broadcast_sizes(ndim, size, t->ndim, t->size, &ndim, size)) return -1;
            shape = size;
        }
    }
    if (plain || ndim < 2 || !rush_pw_strides(nx, x, ndim, shape, stride)) return rush_out(out, i, d, device, ndim, shape) ? 0 : -1;
    return rush_out_strided(out, i, d, device, ndim, shape, stride) ? 0 : -1;
}

RUSH_HOT int rush_pw_shape_row(rush_pw_id id, const rush_value *x, rush_value *out)
{
    rush_pw_plan plan;
    if (rush_pw_plan_make(&plan, id, x)) return -1;
    if (RUSH_UNLIKELY(id == RUSH_PW_pow && x[0].kind != RUSH_V_TENSOR && x[1].kind == RUSH_V_TENSOR)) /* contiguous, however the exponents lie */
        return !rush_out(out, 0, plan.result, x[1].t->device, x[1].t->ndim, x[1].t->size) || !plan.known ? refuse(id, (rush_dtype)plan.common) : 0;
    return rush_pw_result(out, 0, plan.result, rush_pw_rows[id].nx, x) || !plan.known ? refuse(id, (rush_dtype)plan.common) : 0;
}

/* ---- running ---- */

enum { BLOCK = 512 };

/* Through blocks: operands that are not contiguous are gathered, one element repeated once for all blocks. */
static void run_blocks(const rush_block_loop *r, char **p, const int64_t *stride, int64_t n, unsigned mask)
{
    char buffer[RUSH_LOOP_OPERANDS][BLOCK * 16] __attribute__((aligned(64)));
    char *q[RUSH_LOOP_OPERANDS];
    int64_t most = RUSH_MIN(n, BLOCK);
    unsigned one = rush_block_ones(r, mask);
    for (int k = r->nout; k < r->n; k++)
        if (stride[k] == 0 && !(one >> (k - r->nout) & 1)) rush_block_move(buffer[k], r->size[k], p[k], 0, most, r->size[k]);
    for (int64_t i = 0; i < n; i += most) {
        int64_t m = RUSH_MIN(most, n - i);
        for (int k = 0; k < r->n; k++) {
            bool direct = stride[k] == r->size[k] || (k >= r->nout && one >> (k - r->nout) & 1);
            q[k] = direct ? p[k] + i * stride[k] : buffer[k];
            if (!direct && k >= r->nout && stride[k]) rush_block_move(q[k], r->size[k], p[k] + i * stride[k], stride[k], m, r->size[k]);
        }
        rush_block_run(r, q, m, one);
        for (int k = 0; k < r->nout; k++)
            if (stride[k] != r->size[k]) rush_block_move(p[k] + i * stride[k], stride[k], q[k], r->size[k], m, r->size[k]);
    }
}

static void run_pieces(char **p, const int64_t *stride, int64_t n, const void *arg)
{
    const rush_block_loop *r = arg;
    unsigned mask = 0;
    bool strided = false;
    for (int k = 0; k < r->n && n > 1; k++) {
        if (RUSH_LIKELY(stride[k] == r->size[k])) continue;
        if (stride[k] == 0 && k >= r->nout) mask |= 1u << (k - r->nout);
        else strided = true;
    }
    if (RUSH_LIKELY(!strided && r->ones >> mask & 1)) rush_block_run(r, p, n, mask);
    else run_blocks(r, p, stride, n, mask);
}

static void run_loop(rush_pw_kernel loop, int nout, int n, const rush_value *operand, const uint8_t *compute, const rush_pw_args *args,
                     unsigned ones, bool even)
{
    rush_block_loop r = {.loop = loop, .args = args, .nout = nout, .n = n, .ones = ones, .even = even};
    RUSH_ASSERT(n <= RUSH_LOOP_OPERANDS);
    for (int k = 0; k < n; k++) r.size[k] = rush_dtypes[compute[k]].size;
    if (RUSH_UNLIKELY(rush_now.mode & RUSH_MODE_LATER) && nout == 1 && rush_later_put(&r, operand, compute)) return;
    rush_iterate(nout, n, operand, compute, run_pieces, &r, 0);
}

void rush_pw_run_loop(rush_pw_kernel loop, int nout, int n, const rush_value *operand, const uint8_t *compute, const rush_pw_args *args)
{
    run_loop(loop, nout, n, operand, compute, args, 1, false);
}

/* The loop for elements computed in d; NULL: there is none. */
RUSH_HOT static rush_pw_kernel loop_of(rush_dtype d, rush_pw_id id)
{
    switch (d) {
    case RUSH_BOOL: return rush_k_pw_bool->loop[id];
    case RUSH_U8: return rush_k_pw_u8->loop[id];
    case RUSH_I32: return rush_k_pw_i32->loop[id];
    case RUSH_I64: return rush_k_pw_i64->loop[id];
    case RUSH_U64: return rush_k_pw_u64->loop[id];
    case RUSH_F32: return rush_k_pw_f32->loop[id];
    case RUSH_F64: return rush_k_pw_f64->loop[id];
    case RUSH_C64: return rush_k_pw_c64->loop[id];
    case RUSH_C128: return rush_k_pw_c128->loop[id];
    case RUSH_F16: return id == RUSH_PW_nextafter ? rush_k_pw_misc->nextafter_f16 : NULL;
    case RUSH_BF16: return id == RUSH_PW_nextafter ? rush_k_pw_misc->nextafter_bf16 : NULL;
    default: return NULL;
    }
}

/* Beside half types, numbers and 0-d tensors of wider types count as rounded to the half type, as in PyTorch, which
 * makes an exception for factors and divisors. */
static rush_value rounded(rush_value v, rush_dtype half)
{
    if (v.kind == RUSH_V_TENSOR) {
        if (v.t->ndim || v.t->dtype == half || v.t->device.type != RUSH_CPU) return v;
        rush_tensor *t = rush_cast_copy(v.t, half);
        return t ? rush_v_tensor(t) : v;
    }
    uint32_t bits = 0;
    rush_value r = {.kind = RUSH_V_COMPLEX};
    rush_number_store(&bits, half, v);
    rush_convert(r.c, RUSH_C128, 0, &bits, half, 0, 1);
    return v.kind == RUSH_V_COMPLEX ? r : rush_v_float(r.c[0]);
}

void rush_pw_run_row(rush_pw_id id, const rush_value *x, const rush_pw_args *args, rush_tensor *result)
{
    rush_pw_plan plan;
    rush_value operand[4] = {rush_v_tensor(result)};
    uint8_t compute[4];
    int nx = rush_pw_rows[id].nx;
    if (rush_pw_plan_make(&plan, id, x) || !plan.known) return;
    rush_tensor *given = result; /* one of a wider type takes what the narrow result would be: wrapped, rounded */
    if (RUSH_UNLIKELY(result->dtype != plan.result && plan.result != plan.stored)) {
        result = rush_tensor_new_like(given, (rush_dtype)plan.result, given->device, RUSH_PRESERVE);
        if (!result) return;
        operand[0] = rush_v_tensor(result);
    }
    compute[0] = plan.stored;
    for (int k = 0; k < nx; k++) operand[k + 1] = x[k], compute[k + 1] = plan.compute;
    if (plan.common != plan.compute && rush_dtypes[plan.common].category >= 2 && !(rush_pw_rows[id].set & RUSH_PW_LOGIC) && nx > 1)
        for (int k = 0; k < nx; k++)
            if (!(rush_pw_rows[id].is & RUSH_PW_WIDE_X << k)) operand[k + 1] = rounded(x[k], (rush_dtype)plan.common);
    const rush_tables *tables = rush_tables_of[result->device.type];
    if (RUSH_UNLIKELY(tables != NULL)) {
        const rush_block_loop later = {.row = (int)id, .args = args, .nout = 1, .n = nx + 1};
        if (RUSH_UNLIKELY(rush_now.mode & RUSH_MODE_LATER) && tables->fuser && result == given && tables->fuser->takes(&later, operand, compute) &&
            rush_later_put(&later, operand, compute)) return;
        if (!tables->row(id, 1, nx + 1, operand, compute, args) && result != given) rush_copy_into(given, result);
        return;
    }
    rush_pw_kernel loop = loop_of(plan.compute, id);
    if ((id == RUSH_PW_neg || id == RUSH_PW_abs) && (plan.common == RUSH_F16 || plan.common == RUSH_BF16)) { /* without a way through float */
        loop = id == RUSH_PW_neg ? rush_k_pw_misc->neg_half : rush_k_pw_misc->abs_half;
        compute[0] = compute[1] = plan.common;
    }
    unsigned ones = plan.compute == RUSH_F16 || plan.compute == RUSH_BF16 ? 1 : RUSH_PW_ONES(nx); /* loops on bits take none */
    run_loop(loop, 1, nx + 1, operand, compute, args, ones, rush_pw_rows[id].is & RUSH_PW_ROUNDS && rush_dtypes[plan.compute].category >= 2);
    if (result != given) rush_copy_into(given, result);
}

/* ---- what single rows check and choose ---- */

static bool has_dtype(const rush_value *x, int nx, rush_dtype d)
{
    for (int k = 0; k < nx; k++)
        if (x[k].kind == RUSH_V_TENSOR ? x[k].t->dtype == d : d == RUSH_BOOL && x[k].kind == RUSH_V_BOOL) return true;
    return false;
}

static int check_alpha(const rush_value *x, rush_value alpha)
{
    rush_dtype d = common_dtype(2, x);
    RUSH_CHECK(alpha.kind != RUSH_V_BOOL || d == RUSH_BOOL, RUSH_RUNTIME_ERROR, "Boolean alpha only supported for Boolean results.");
    RUSH_CHECK(alpha.kind == RUSH_V_INT || alpha.kind == RUSH_V_BOOL || rush_dtypes[d].category >= 2, RUSH_RUNTIME_ERROR,
               "For integral input tensors, argument alpha must not be a floating point number.");
    RUSH_CHECK(alpha.kind != RUSH_V_COMPLEX || rush_dtypes[d].category == 3, RUSH_RUNTIME_ERROR,
               "For non-complex input tensors, argument alpha must not be a complex number.");
    return 0;
}

int rush_pw_check_sub(const rush_value *x)
{
    bool a = has_dtype(x, 1, RUSH_BOOL), b = has_dtype(x + 1, 1, RUSH_BOOL);
    RUSH_CHECK(!(a && b), RUSH_RUNTIME_ERROR, "Subtraction, the `-` operator, with two bool tensors is not supported. "
                                              "Use the `^` or `logical_xor()` operator instead.");
    RUSH_CHECK(!(a || b), RUSH_RUNTIME_ERROR, "Subtraction, the `-` operator, with a bool tensor is not supported. If you are "
                                              "trying to invert a mask, use the `~` or `logical_not()` operator instead.");
    return 0;
}

static void find_zero(char **p, const int64_t *stride, int64_t n, const void *arg)
{
    bool *found = *(bool *const *)arg;
    for (int64_t i = 0; i < n; i++)
        if (*(const int64_t *)(p[0] + i * stride[0]) == 0) *found = true;
}

/* Integers cannot be divided by zero: a number is checked by the shape rule, elements by the kernel before it writes. */
static bool integers(const rush_value *x)
{
    return rush_dtypes[common_dtype(2, x)].category < 2 && (x[0].kind != RUSH_V_TENSOR || x[0].t->numel);
}

int rush_pw_check_divisor(const rush_value *x)
{
    RUSH_CHECK(x[1].kind == RUSH_V_TENSOR || !integers(x) || rush_to_int(x[1]), RUSH_RUNTIME_ERROR, "ZeroDivisionError");
    return 0;
}

int rush_pw_check_divisors(const rush_value *x)
{
    bool found = false, *at = &found;
    if (x[1].kind != RUSH_V_TENSOR || x[1].t->device.type != RUSH_CPU || !integers(x)) return 0; /* devices do not wait for it */
    if (rush_iterate(0, 1, &x[1], (const uint8_t[]){RUSH_I64}, find_zero, &at, INT64_MAX)) return -1;
    RUSH_CHECK(!found, RUSH_RUNTIME_ERROR, "ZeroDivisionError");
    return 0;
}

static int check_same_dtype(const rush_value *x, int nx)
{
    static const char *const names[] = {"self", "end", "weight"};
    for (int k = 1; k < nx; k++)
        RUSH_CHECK(x[0].kind != RUSH_V_TENSOR || x[k].kind != RUSH_V_TENSOR || x[k].t->dtype == x[0].t->dtype || (k == 2 && x[k].t->ndim == 0),
                   RUSH_RUNTIME_ERROR, "expected dtype %s for `%s` but got dtype %s", rush_dtype_name(x[0].t->dtype), names[k],
                   rush_dtype_name(x[k].t->dtype));
    return 0;
}

static int check_lerp(const rush_value *x)
{
    rush_dtype d = common_dtype(2, x);
    RUSH_CHECK(rush_dtypes[d].category >= 2, RUSH_NOT_IMPLEMENTED, "\"lerp_kernel_%s\" not implemented for '%s'", x[2].kind == RUSH_V_TENSOR ? "tensor" : "scalar", rush_dtype_word(d));
    RUSH_CHECK(x[2].kind != RUSH_V_COMPLEX || x[2].c[1] == 0 || rush_dtype_is_complex(d), RUSH_RUNTIME_ERROR,
               "value cannot be converted to type %s without overflow", rush_dtypes[d].c_type);
    return check_same_dtype(x, 3);
}

static int check_row(const rush_pw_row *row, const rush_value *in, const rush_value *x)
{
    if (RUSH_UNLIKELY(row->is & RUSH_PW_DIVIDES)) return rush_pw_check_divisor(x);
    switch (row->id) {
    case RUSH_PW_add:
        return in[row->a[0]].kind == RUSH_V_INT ? 0 : check_alpha(x, in[row->a[0]]);
    case RUSH_PW_sub:
    case RUSH_PW_rsub:
        if (rush_pw_check_sub(x)) return -1;
        return in[row->a[0]].kind == RUSH_V_INT ? 0 : check_alpha(x, in[row->a[0]]);
    case RUSH_PW_pow:
        RUSH_CHECK(x[1].kind != RUSH_V_INT || x[1].i >= 0 || rush_dtypes[common_dtype(2, x)].category >= 2, RUSH_RUNTIME_ERROR,
                   "Integers to negative integer powers are not allowed.");
        return 0;
    case RUSH_PW_lerp:
        return check_lerp(x);
    case RUSH_PW_heaviside:
        RUSH_CHECK(x[0].kind != RUSH_V_TENSOR || x[1].kind != RUSH_V_TENSOR || x[0].t->dtype == x[1].t->dtype, RUSH_RUNTIME_ERROR,
                   "heaviside is not yet implemented for tensors with different dtypes.");
        return 0;
    case RUSH_PW_addcdiv:
        RUSH_CHECK(x[1].kind != RUSH_V_TENSOR || x[2].kind != RUSH_V_TENSOR || rush_dtypes[x[1].t->dtype].category >= 2 ||
                       rush_dtypes[x[2].t->dtype].category >= 2,
                   RUSH_RUNTIME_ERROR, "Integer division with addcdiv is no longer supported: it would have to be a true division. Use "
                                       "(input + value * torch.trunc(tensor1 / tensor2)).to(input.dtype), or floating tensors.");
        return 0;
    case RUSH_PW_hardtanh:
        RUSH_CHECK(x[0].t->dtype != RUSH_U8 || (rush_to_double(in[1]) >= 0 && rush_to_double(in[2]) >= 0), RUSH_RUNTIME_ERROR,
                   "cannot do hardtanh on an unsigned type with negative limits");
        return 0;
    case RUSH_PW_polygamma:
        RUSH_CHECK(in[row->a[0]].i >= 0, RUSH_RUNTIME_ERROR, "polygamma(n, x) does not support negative n.");
        return 0;
    case RUSH_PW_softshrink:
        RUSH_CHECK(rush_to_double(in[1]) >= 0, RUSH_RUNTIME_ERROR, "lambda must be greater or equal to 0, but found to be %g.", rush_to_double(in[1]));
        return 0;
    default:
        return 0;
    }
}

/* x ** 2 and the like are quicker than x ** y. */
static rush_pw_id choose(const rush_pw_row *row, const rush_value *x)
{
    if (row->id != RUSH_PW_pow || x[0].kind != RUSH_V_TENSOR || x[1].kind == RUSH_V_TENSOR || x[1].kind == RUSH_V_COMPLEX) return row->id;
    rush_dtype d = common_dtype(2, x);
    double y = rush_to_double(x[1]);
    if (rush_dtypes[d].category < 1 || d != x[0].t->dtype) return row->id;
    if (y == 1) return RUSH_PW_itself;
    if (y == 2) return RUSH_PW_square;
    if (y == 3) return RUSH_PW_cube;
    if (rush_dtypes[d].category != 2) return row->id;
    return y == 0.5 ? RUSH_PW_sqrt : y == -0.5 ? RUSH_PW_rsqrt : y == -1 ? RUSH_PW_reciprocal : y == -2 ? RUSH_PW_inverse_square : row->id;
}

/* ---- the rule and kernel of the rows' records ---- */

/* The operands stand in order: where the last is in its place, all are. */
static inline const rush_value *operands(const rush_pw_row *row, const rush_value *in, rush_value *room)
{
    if (RUSH_LIKELY(row->x[row->nx - 1] == row->nx - 1)) return in;
    for (int k = 0; k < row->nx; k++) room[k] = in[row->x[k]];
    return room;
}

/* The functions that keep the dtype want a given result to be of it, lerp() with a weight per element. */
static int check_given(const rush_pw_row *row, const rush_value *in, const rush_tensor *given)
{
    const rush_tensor *x = in[0].t;
    bool keeps = row->id == RUSH_PW_lerp ? in[2].kind == RUSH_V_TENSOR && in[2].t->ndim : row->is & RUSH_PW_KEEPS;
    if (!keeps || (rush_dtype_is_complex(x->dtype) && !rush_dtype_is_complex(given->dtype))) return 0; /* of complex numbers abs() is real */
    RUSH_CHECK(row->result != RUSH_PW_BOOL || given->dtype == RUSH_BOOL, RUSH_RUNTIME_ERROR, "%s does not support non-boolean outputs.", rush_now.op->base);
    RUSH_CHECK(row->result == RUSH_PW_BOOL || x->dtype == given->dtype, RUSH_RUNTIME_ERROR, "Found dtype %s but expected %s", rush_dtype_word(given->dtype),
               rush_dtype_word(x->dtype));
    return 0;
}

static int plain_result(rush_value *out, rush_dtype d, int nx, const rush_value *x)
{
    int64_t size[RUSH_MAXDIM];
    if (!T_(x[0]) || (nx > 1 && !T_(x[1]))) return rush_pw_result(out, 0, d, nx, x); /* numbers */
    int ndim = x[0].t->ndim;
    if (ndim) memcpy(size, x[0].t->size, sizeof *size * (size_t)ndim);
    if (nx > 1 && rush_broadcast_sizes(ndim, size, x[1].t->ndim, x[1].t->size, &ndim, size)) return -1;
    return rush_out(out, 0, d, x[0].t->device, ndim, size) ? 0 : -1;
}

RUSH_HOT int rush_pw_shape(const rush_op *op, const rush_value *in, rush_value *out)
{
    rush_value room[3];
    const rush_pw_row *row = op->row;
    const rush_value *x = operands(row, in, room);
    if (RUSH_UNLIKELY(HAS(out[0])) && T_(x[0]) && check_given(row, x, out[0].t)) return -1;
    if (check_row(row, in, x)) return -1;
    if (RUSH_LIKELY(!(row->is & (RUSH_PW_SWAPPED | RUSH_PW_PLAIN)))) return rush_pw_shape_row(row->id, x, out);
    rush_pw_plan plan;
    if (rush_pw_plan_make(&plan, row->id, x)) return -1;
    int failed = row->is & RUSH_PW_PLAIN ? plain_result(out, plan.result, row->nx, x) : rush_pw_result(out, 0, plan.result, 2, (const rush_value[]){x[1], x[0]});
    return failed || !plan.known ? refuse(row->id, (rush_dtype)plan.common) : 0;
}

/* Small contiguous operands of the type that is computed in need neither plan nor iterator. */
static bool run_directly(const rush_pw_row *row, const rush_value *x, const rush_pw_args *args, rush_tensor *result)
{
    const rush_tensor *first = T_(x[0]);
    char number[16] __attribute__((aligned(16)));
    unsigned one = 0;
    char *p[3];
    if (!first || row->nx > 2 || result->numel > BLOCK || row->set & RUSH_PW_LOGIC) return false;
    p[0] = rush_ptr(result);
    rush_dtype d = first->dtype;
    if (result->dtype != (row->result == RUSH_PW_BOOL ? RUSH_BOOL : d) || (row->result == RUSH_PW_REAL && rush_dtype_is_complex(d))) return false;
    if (!(result->flags & RUSH_T_CONTIGUOUS) || result->flags & (RUSH_T_CONJ | RUSH_T_NEG)) return false;
    for (int k = 0; k < row->nx; k++) {
        const rush_tensor *t = T_(x[k]);
        if (!t) { /* a number that does not promote */
            if (x[k].kind == RUSH_V_COMPLEX || (x[k].kind == RUSH_V_FLOAT && rush_dtypes[d].category < 2) || d == RUSH_BOOL) return false;
            rush_number_store(number, d, x[k]);
            p[k + 1] = number;
            one = 2; /* it is the second: the first is a tensor */
            continue;
        }
        if (t->dtype != d || t->numel != result->numel || t->ndim != result->ndim || !(t->flags & RUSH_T_CONTIGUOUS) ||
            t->flags & (RUSH_T_CONJ | RUSH_T_NEG)) return false;
        p[k + 1] = rush_ptr(t);
    }
    rush_pw_kernel loop = loop_of(d, row->id);
    if (!loop) return false;
    if (result->numel && row->is & RUSH_PW_ROUNDS && rush_dtypes[d].category >= 2) {
        rush_block_loop even = {.loop = loop, .args = args, .nout = 1, .n = row->nx + 1, .even = true};
        even.size[0] = rush_dtypes[result->dtype].size;
        for (int k = 1; k < even.n; k++) even.size[k] = rush_dtypes[d].size;
        rush_block_run(&even, p, result->numel, one);
    } else if (result->numel) {
        loop(p, result->numel, args, one);
    }
    return true;
}

/* alpha of half types is rounded to them. */
static rush_value alpha_of(const rush_value *x, rush_value alpha)
{
    rush_dtype d = common_dtype(2, x);
    return rush_dtypes[d].category == 2 && rush_dtypes[d].size == 2 ? rounded(alpha, d) : alpha;
}

RUSH_HOT void rush_pw_cpu(const rush_op *op, const rush_value *in, rush_value *out)
{
    rush_value room[3];
    const rush_pw_row *row = op->row;
    const rush_value *x = operands(row, in, room);
    rush_pw_args args = {0};
    for (int k = 0; k < row->na; k++) {
        rush_value v = in[row->a[k]];
        if (RUSH_LIKELY(v.kind == RUSH_V_INT)) {
            args.re[k] = (double)v.i, args.i[k] = v.i;
            continue;
        }
        if (v.kind == RUSH_V_FLOAT && row->id <= RUSH_PW_rsub) v = alpha_of(x, v);
        args.re[k] = v.kind == RUSH_V_NONE ? __builtin_nan("") : rush_to_double(v);
        args.im[k] = v.kind == RUSH_V_COMPLEX ? v.c[1] : 0;
        args.i[k] = v.kind == RUSH_V_NONE ? 0 : rush_to_int(v);
    }
    if (RUSH_UNLIKELY(row->is & RUSH_PW_DIVIDES) && rush_pw_check_divisors(x)) return;
    rush_pw_id id = choose(row, x);
    if (id == row->id && out[0].t->device.type == RUSH_CPU && run_directly(row, x, &args, out[0].t)) return;
    rush_pw_run_row(id, x, &args, out[0].t);
}

/* ---- making records ---- */

/* Is `word` in the formula, as a whole word? */
static bool mentions(const char *formula, const char *word)
{
    size_t n = strlen(word);
    for (const char *p = formula; (p = strstr(p, word)); p += n) {
        char before = p == formula ? ' ' : p[-1], after = p[n];
        bool inside = (before >= 'a' && before <= 'z') || (before >= 'A' && before <= 'Z') || (before >= '0' && before <= '9') || before == '_' ||
                      (after >= 'a' && after <= 'z') || (after >= 'A' && after <= 'Z') || (after >= '0' && after <= '9') || after == '_';
        if (!inside) return true;
    }
    return false;
}

/* Each operand, and the result, is saved if the gradient of one that needs it mentions it, and then only. */
static int saves_of(rush_op *op, const rush_pw_row *row)
{
    static const char *const words[3] = {"x", "y", "z"};
    op->saves_when = rush_calloc((size_t)op->nargs + op->nout, sizeof *op->saves_when);
    if (!op->saves_when) return -1;
    for (int i = 0; i < row->nx; i++) {
        if (mentions(row->grad[i], "out")) {
            op->saves_out = 1;
            op->saves_when[op->nargs] |= (uint64_t)1 << row->x[i];
        }
        for (int k = 0; k < row->nx; k++) {
            if (!mentions(row->grad[i], words[k])) continue;
            op->saves_in |= (uint64_t)1 << row->x[k];
            op->saves_when[row->x[k]] |= (uint64_t)1 << row->x[i];
        }
    }
    return 0;
}

static void complain(void)
{
    if (!rush_error()) return;
    rush_log(0, "%s", rush_error());
    rush_error_clear();
}

static const char *doc_of(const rush_pw_row *row)
{
    size_t n = strlen(row->value) + 64;
    char *text = rush_malloc(n);
    if (!text) return NULL;
    snprintf(text, n, "Elementwise %s%s.", row->value, row->nx > 1 ? ", operands broadcast" : "");
    return text;
}

static rush_op *record(rush_pw_row *row, const char *schema, const char *doc)
{
    rush_op *op = rush_calloc(1, sizeof *op);
    if (!op) return NULL;
    bool differentiable = false;
    for (int k = 0; k < row->nx; k++) differentiable |= strcmp(row->grad[k], "NIL") != 0;
    *op = (rush_op){.schema = schema, .doc = doc, .shape = rush_pw_shape, .cpu = rush_pw_cpu, .method = row->is & RUSH_PW_METHOD, .row = row, .flags = RUSH_STRIDED_OUT | RUSH_OUT_CASTS,
                    .grad = differentiable ? rush_pw_derivatives[row->id] : NULL};
    if (!differentiable) op->flags |= RUSH_NO_GRAD;
    if (rush_schema_read(op)) return NULL;
    if (strncmp(op->base, row->schema, strlen(op->base))) op->method = 0; /* a form under another name */
    if (schema == row->schema) { /* the first form of the row: which arguments are its operands */
        int nx = 0, na = 0;
        for (int i = 0; i < op->nargs; i++) {
            if (op->args[i].type == RUSH_A_TENSOR) row->x[nx++] = (uint8_t)i;
            else row->a[na++] = (uint8_t)i;
        }
        row->na = (uint8_t)na;
        RUSH_ASSERT(nx == row->nx && na <= 4);
    }
    if (differentiable && saves_of(op, row)) return NULL;
    return rush_op_register(op) ? NULL : op;
}

/* "add.Tensor(Tensor self, Tensor other, *, ...)" -> "add.Scalar(Tensor self, Scalar other, ...)": old and new pieces */
static char *rewrite(const char *schema, const char *const (*pairs)[2], int n)
{
    size_t room = strlen(schema) + 64;
    char *to = rush_malloc(room), *next = rush_malloc(room);
    if (!to || !next) return rush_free(to), rush_free(next), NULL;
    strcpy(to, schema);
    for (int i = 0; i < n; i++) {
        char *at = strstr(to, pairs[i][0]);
        if (!at) continue;
        snprintf(next, room, "%.*s%s%s", (int)(at - to), to, pairs[i][1], at + strlen(pairs[i][0]));
        char *swap = to;
        to = next, next = swap;
    }
    rush_free(next);
    return to;
}

static void forms_with_numbers(rush_pw_row *row, const char *doc)
{
    static const char *const scalar[][2] = {{"_shift.Tensor(", "_shift.Tensor_Scalar("}, {"xlogy.Tensor(", "xlogy.Scalar_Other("}, {".Tensor(", ".Scalar("},
                                            {"Tensor other", "Scalar other"}, {"*, ", ""}};
    static const char *const first[][2] = {{"(Tensor x", ".x_scalar(Scalar x"}}, *const second[][2] = {{"(Tensor x, Tensor n", ".n_scalar(Tensor x, Scalar n"}};
    if (row->nx != 2) return;
    if (strstr(row->schema, ".Tensor(Tensor self, Tensor other")) record(row, rewrite(row->schema, scalar, RUSH_COUNT(scalar)), doc);
    if (!strstr(row->schema, "(Tensor x, Tensor n)")) return;
    record(row, rewrite(row->schema, first, 1), doc);
    record(row, rewrite(row->schema, second, 1), doc);
}

/* Another name of a record: the record itself for who looks. */
typedef struct alias {
    rush_op op;
    const rush_op *of;
} alias;

static int alias_open(const rush_op *op, const rush_value *in, rush_value *out) { return rush_call(((const alias *)op)->of, in, out); }

void rush_op_alias(const char *name, const char *of, unsigned method)
{
    for (const rush_op *op = rush_op_find(of); op; op = op->next) {
        const char *node = rush_node_name(op);
        const char *rest = op->schema + strlen(op->base);
        bool operator = !strncmp(name, "__", 2) && !strncmp(rest, ".Tensor_Scalar(", 15); /* "__lshift__.Scalar" is bitwise_left_shift.Tensor_Scalar */
        size_t shown = strlen(node) + 1, room = strlen(op->schema) + strlen(name) + 1;
        char *schema = rush_malloc(room + shown);
        alias *made = rush_calloc(1, sizeof *made);
        if (!schema || !made) return;
        rush_op *other = &made->op;
        made->of = op;
        snprintf(schema, room, "%s%s%s", name, operator ? "." : "", operator ? rest + 8 : rest);
        *other = *op;
        other->schema = schema;
        other->name = NULL;
        other->next = NULL;
        other->open = alias_open;
        other->method = (uint8_t)method;
        other->node = memcpy(schema + room, node, shown);
        rush_op scratch = {.schema = schema, .shape = op->shape, .run = op->run, .row = op->row, .flags = op->flags}; /* which say what kinds its arguments take */
        if (rush_schema_read(&scratch)) break;
        other->name = scratch.name;
        other->base = scratch.base;
        other->args = scratch.args;
        memcpy(other->out_names, scratch.out_names, sizeof scratch.out_names);
        if (rush_op_register(other)) break;
    }
    complain();
}

static void name_node(const char *form, const char *name)
{
    rush_op *op = rush_op_find(form);
    if (op) op->node = name;
}

/* Before the families' records (900): a base name alone means its first overload, which is to be the row. */
#define ROW(...)
__attribute__((constructor(890))) static void register_rows(void)
{
    for (int i = 0; i < RUSH_PW_COUNT; i++) {
        rush_pw_row *row = &rush_pw_rows[i];
        if (!row->schema) continue;
        const char *doc = doc_of(row);
        record(row, row->schema, doc);
        forms_with_numbers(row, doc);
        complain();
    }
#define OVERLOAD(id, schema) record(&rush_pw_rows[RUSH_PW_##id], schema, doc_of(&rush_pw_rows[RUSH_PW_##id]));
#include "kernels/pointwise.def"
#undef OVERLOAD
#define NODE(form, name) name_node(#form, #name);
#include "kernels/pointwise.def"
#undef NODE
    complain();
}

__attribute__((constructor(895))) static void register_aliases(void)
{
#define FUNCTION 0
#define METHOD RUSH_METHOD
#define METHODS RUSH_METHODS
#define ALL_FORMS RUSH_ALL_FORMS
#define ALIAS(name, of, is) rush_op_alias(#name, #of, is);
#include "kernels/pointwise.def"
#undef ALIAS
}
