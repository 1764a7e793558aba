/* test_pointwise.c - the iterator's ways against a naive walk, and every row of the pointwise table: strided as
 * contiguous, half types as float, first and second derivatives as finite differences. */
#include "suite/suite.h"
#include "ops/elementwise/pointwise.h"

#include <math.h>
#include <stdio.h>

static const rush_device cpu = {RUSH_CPU, -1};
static uint64_t seed = 7;

static double uniform(double low, double high)
{
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return low + (high - low) * (double)(seed >> 11) * 0x1p-53;
}

static rush_tensor *random_tensor(int ndim, const int64_t *size, double low, double high)
{
    rush_tensor *t = rush_tensor_new(RUSH_F64, cpu, ndim, size);
    assert_non_null(t);
    for (int64_t i = 0; i < t->numel; i++) ((double *)rush_ptr(t))[i] = uniform(low, high);
    return t;
}

static double element(const rush_tensor *t, const int64_t *at)
{
    int64_t offset = 0;
    for (int d = 0; d < t->ndim; d++) offset += (t->size[d] == 1 ? 0 : at[d]) * t->stride[d];
    return ((const double *)rush_ptr(t))[offset];
}

/* ---- the iterator ---- */

static rush_tensor *permuted(rush_tensor *t, int a, int b, int c)
{
    return T("permute", V(t), INTS(a, b, c));
}

/* x + y by add against one by one, for operands of one shape (n, m, k) up to broadcasting */
static void compare_sum(rush_tensor *x, rush_tensor *y)
{
    rush_tensor *sum = T("add.Tensor", V(x), V(y));
    assert_non_null(sum);
    assert_null(rush_error());
    int64_t at[3];
    for (at[0] = 0; at[0] < sum->size[0]; at[0]++)
        for (at[1] = 0; at[1] < sum->size[1]; at[1]++)
            for (at[2] = 0; at[2] < sum->size[2]; at[2]++)
                assert_true(element(sum, at) == element(x, at) + element(y, at));
}

static void iterator_walks_any_strides(void **state)
{
    static const int64_t sizes[][3] = {{2, 3, 4}, {1, 1, 1}, {70, 65, 3}, {3, 130, 66}, {5, 1, 600}, {64, 64, 64}, {1, 200, 2}, {0, 3, 2}};
    static const int orders[][3] = {{0, 1, 2}, {2, 1, 0}, {0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}};
    for (size_t s = 0; s < RUSH_COUNT(sizes); s++)
        for (size_t p = 0; p < RUSH_COUNT(orders); p++) rush_scope() {
                const int *o = orders[p];
                int64_t size[3], back[3];
                for (int d = 0; d < 3; d++) size[d] = sizes[s][o[d]], back[o[d]] = d;
                rush_tensor *x = permuted(random_tensor(3, size, -1, 1), (int)back[0], (int)back[1], (int)back[2]);
                rush_tensor *y = random_tensor(3, sizes[s], -1, 1);
                compare_sum(x, y);
                compare_sum(y, x);
                compare_sum(x, T("slice.Tensor", V(y), V((int64_t)1), V((int64_t)0), V((int64_t)1)));
                compare_sum(T("slice.Tensor", V(x), V((int64_t)0), V((int64_t)0), V((int64_t)1)), y);
                compare_sum(T("slice.Tensor", V(y), V((int64_t)2), V((int64_t)0), V((int64_t)1)), x);
            }
}

static void copies_convert(void **state)
{
    int64_t size[2] = {67, 70};
    for (int d = 0; d <= RUSH_C128; d++) rush_scope() {
            rush_tensor *x = random_tensor(2, size, 0, 100), *there = rush_cast_copy(x, (rush_dtype)d), *back = rush_cast_copy(there, RUSH_F64);
            rush_tensor *other = T("transpose.int", V(x), V((int64_t)0), V((int64_t)1));
            rush_tensor *turned = rush_cast_copy(T("transpose.int", V(rush_cast_copy(other, (rush_dtype)d)), V((int64_t)0), V((int64_t)1)), RUSH_F64);
            double off = d == RUSH_BOOL ? 100 : d < RUSH_F16 ? 1 : d == RUSH_BF16 ? 0.3 : d == RUSH_F16 || d == RUSH_C32 ? 0.04 : 1e-5;
            assert_null(rush_error());
            for (int64_t i = 0; i < x->numel; i++) {
                double a = ((double *)rush_ptr(x))[i], b = ((double *)rush_ptr(back))[i], c = ((double *)rush_ptr(turned))[i];
                assert_true(fabs(a - b) < off && b == c);
            }
        }
}

static void promotion(void **state)
{
    rush_scope() {
        int64_t one[1] = {1};
        rush_tensor *i = rush_tensor_new(RUSH_I32, cpu, 1, one), *h = rush_tensor_new(RUSH_F16, cpu, 1, one);
        rush_tensor *d0 = rush_tensor_new(RUSH_F64, cpu, 0, NULL), *c0 = rush_tensor_new(RUSH_C128, cpu, 0, NULL);
        assert_null(rush_error());
        assert_int_equal(rush_result_type(2, (rush_value[]){V(i), V(1.5)}), RUSH_F32);
        assert_int_equal(rush_result_type(2, (rush_value[]){V(i), V(true)}), RUSH_I32);
        assert_int_equal(rush_result_type(2, (rush_value[]){V(h), V(d0)}), RUSH_F16);
        assert_int_equal(rush_result_type(2, (rush_value[]){V(i), V(d0)}), RUSH_F64);
        assert_int_equal(rush_result_type(2, (rush_value[]){V(h), V(c0)}), RUSH_C32);
        assert_int_equal(rush_result_type(2, (rush_value[]){V(h), V(i)}), RUSH_F16);
    }
}

/* ---- the rows ---- */

typedef struct call {
    const rush_op *op;
    const rush_pw_row *row;
    rush_value in[8];
} call;

/* Operands in (0.2, 0.9), other arguments as they default or a half, which is inside of most domains. */
static void make_call(call *c, const rush_op *op)
{
    static const int64_t size[3][2] = {{3, 4}, {4}, {3, 1}};
    c->op = op;
    c->row = op->row;
    for (int i = 0, n = 0; i < op->nargs; i++) {
        const rush_arg *a = &op->args[i];
        if (a->type == RUSH_A_TENSOR) c->in[i] = V(random_tensor(n == 1 ? 1 : 2, size[n], 0.2, 0.9)), n++;
        else if (a->has_default) c->in[i] = a->def;
        else c->in[i] = a->type == RUSH_A_INT ? V((int64_t)1) : a->type == RUSH_A_BOOL ? V(false) : V(0.5);
    }
}

static rush_tensor *run_call(const call *c)
{
    rush_value out[RUSH_MAXOUT];
    return rush_call(c->op, c->in, out) ? NULL : out[0].t;
}

/* What is differentiated: order 1 a weighted sum of the result, order 2 one of the gradient of that by operand `first`. */
static rush_tensor *weighted(rush_tensor *t)
{
    if (!t) return NULL;
    rush_tensor *w = rush_tensor_new(RUSH_F64, t->device, t->ndim, t->size);
    if (!w) return NULL;
    for (int64_t i = 0; i < w->numel; i++) ((double *)rush_ptr(w))[i] = 1 + (double)(i % 3);
    return T("sum", V(T("mul.Tensor", V(t), V(w))));
}

static rush_tensor *objective(const call *c, int order, int first)
{
    rush_tensor *y = weighted(run_call(c)), *x = c->in[c->row->x[first]].t, *g = NULL;
    if (order == 1 || !y) return y;
    if (rush_grad_of(1, &y, NULL, 1, &x, &g, true, true, true) || !g) return NULL;
    return weighted(g);
}

static int compared; /* operands whose derivative was there to be compared */

static bool check_order(call *c, int order, int first)
{
    for (int k = 0; k < c->row->nx; k++) {
        rush_tensor *x = c->in[c->row->x[k]].t, *got = NULL;
        for (int j = 0; j < c->row->nx; j++) rush_requires_grad_set(c->in[c->row->x[j]].t, true);
        rush_tensor *y = objective(c, order, first);
        if (!y || !rush_requires_grad(y)) {
            bool unknown = rush_error_kind_now() == RUSH_NOT_IMPLEMENTED;
            if (rush_error() && !unknown) return false;
            rush_error_clear();
            return true; /* no derivative, or one that is constant */
        }
        if (rush_grad_of(1, &y, NULL, 1, &x, &got, true, false, true)) {
            if (rush_error_kind_now() != RUSH_NOT_IMPLEMENTED) return false;
            rush_error_clear();
            continue;
        }
        compared += got != NULL;
        for (int64_t i = 0; i < x->numel; i++) rush_scope() {
                double *at = (double *)rush_ptr(x) + i, was = *at, h = 1e-6, side[2];
                for (int s = 0; s < 2; s++) {
                    *at = was + (s ? h : -h);
                    rush_tensor *moved = objective(c, order, first);
                    side[s] = moved ? rush_item(moved) : NAN;
                }
                *at = was;
                double want = (side[1] - side[0]) / (2 * h), have = got ? ((double *)rush_ptr(got))[i] : 0;
                if (isfinite(want) && !(fabs(have - want) <= 1e-4 * fmax(1, fabs(want)))) {
                    printf("%s: derivative %d by operand %d is %g, not %g\n", c->op->name, order, k, have, want);
                    return false;
                }
            }
    }
    return true;
}

static void rows_have_right_derivatives(void **state)
{
    bool good = true;
    for (const rush_op *op = rush_op_first(); op; op = rush_op_next(op)) {
        if (op->shape != rush_pw_shape || !op->grad) continue;
        const rush_pw_row *row = op->row;
        if (op->schema != row->schema) continue;                    /* another name of the same */
        if (row->result == RUSH_PW_BOOL) continue;                  /* zeros, and in place alone: tests/python/unseen.tsv */
        if (row->id == RUSH_PW_nextafter || row->id == RUSH_PW_fmod || row->id == RUSH_PW_remainder) continue; /* steps */
        rush_scope() {
            call c;
            make_call(&c, op);
            good &= check_order(&c, 1, 0);
            for (int first = 0; first < row->nx; first++) good &= check_order(&c, 2, first);
            if (rush_error()) fail_msg("%s: %s", op->name, rush_error());
        }
    }
    assert_true(good);
    assert_true(compared > 200);
}

static bool same(const rush_tensor *a, const rush_tensor *b, double off)
{
    a = rush_cast_copy(a, RUSH_C128);
    b = rush_cast_copy(b, RUSH_C128);
    if (!a || !b || !rush_same_sizes(a, b)) return false;
    for (int64_t i = 0; i < 2 * a->numel; i++) {
        double x = ((const double *)rush_ptr(a))[i], y = ((const double *)rush_ptr(b))[i];
        if (x != y && !(isnan(x) && isnan(y)) && !(fabs(x - y) <= off * fmax(1, fabs(x)))) return false;
    }
    return true;
}

/* Each row gives the same for strided operands, in place of a result that is given, and in float and half types. */
static void rows_do_not_mind_layout(void **state)
{
    bool good = true;
    for (const rush_op *op = rush_op_first(); op; op = rush_op_next(op)) {
        if (op->shape != rush_pw_shape) continue;
        const rush_pw_row *row = op->row;
        if (op->schema != row->schema || !(row->set & RUSH_PW_F)) continue;
        rush_scope() {
            call c, other;
            make_call(&c, op);
            rush_tensor *want = run_call(&c);
            if (!want) fail_msg("%s: %s", op->name, rush_error());
            other = c;
            for (int k = 0; k < row->nx; k++) {
                rush_tensor *x = c.in[row->x[k]].t, *wide = T("stack", rush_v_tensors((rush_tensor *[]){x, x, x}, 3), V((int64_t)-1));
                other.in[row->x[k]] = V(T("select.int", V(wide), V((int64_t)-1), V((int64_t)1)));
            }
            if (!same(want, run_call(&other), 1e-14)) good = false, printf("%s: strided operands\n", op->name);
            rush_tensor *room = rush_tensor_new(want->dtype, want->device, 2, (int64_t[]){want->size[1], want->size[0]});
            if (!room) fail_msg("%s: %s", op->name, rush_error());
            rush_value out[RUSH_MAXOUT] = {V(T("transpose.int", V(room), V((int64_t)0), V((int64_t)1)))};
            if (rush_call_out(op, c.in, out) || !same(want, out[0].t, 1e-14)) good = false, printf("%s: out=\n", op->name);
            static const struct { rush_dtype d; double off; } types[] = {{RUSH_F32, 2e-5}, {RUSH_F16, 1e-2}, {RUSH_BF16, 8e-2}};
            for (size_t t = 0; t < RUSH_COUNT(types); t++) {
                other = c;
                call exact = c;
                for (int k = 0; k < row->nx; k++) {
                    other.in[row->x[k]] = V(rush_cast_copy(c.in[row->x[k]].t, types[t].d));
                    exact.in[row->x[k]] = V(rush_cast_copy(other.in[row->x[k]].t, RUSH_F64));
                }
                rush_tensor *got = run_call(&other), *full = run_call(&exact);
                rush_dtype expect = row->result == RUSH_PW_BOOL ? RUSH_BOOL : types[t].d;
                if (row->id == RUSH_PW_nextafter) continue;
                if (!got || got->dtype != expect || !same(got, full, types[t].off)) good = false, printf("%s: in %s\n", op->name, rush_dtype_name(types[t].d));
            }
        }
    }
    assert_true(good);
}

/* What is overwritten is read again by the derivative: x.celu_() and the like. */
static void changes_in_place_differentiate(void **state)
{
    static const char *const names[] = {"selu", "celu", "elu", "silu", "relu6"};
    for (size_t k = 0; k < RUSH_COUNT(names); k++) rush_scope() {
            const rush_op *op = rush_op_find(names[k]);
            rush_tensor *x = rush_requires_grad_set(random_tensor(2, (int64_t[]){3, 4}, -1, 1), true), *grad[2];
            for (int way = 0; way < 2; way++) {
                rush_tensor *y = T("mul.Tensor", V(x), V(1.5));
                rush_value in[8] = {V(y)}, out[RUSH_MAXOUT];
                for (int i = 1; i < op->nargs; i++) in[i] = op->args[i].def;
                assert_int_equal(way ? rush_call_inplace(op, in, out) : rush_call(op, in, out), 0);
                rush_tensor *loss = T("sum", V(out[0].t));
                assert_int_equal(rush_grad_of(1, &loss, NULL, 1, &x, &grad[way], false, false, false), 0);
            }
            assert_memory_equal(rush_ptr(grad[0]), rush_ptr(grad[1]), 12 * sizeof(double));
        }
}

/* The shape rule asks the row's set whether there is a loop, the kernel takes it from the type's table. */
static void sets_tell_which_loops_there_are(void **state)
{
    const struct { rush_dtype dtype; const rush_pw_kernel *loop; } table[] = {
        {RUSH_BOOL, rush_k_pw_bool->loop}, {RUSH_U8, rush_k_pw_u8->loop},   {RUSH_I32, rush_k_pw_i32->loop},
        {RUSH_I64, rush_k_pw_i64->loop},   {RUSH_U64, rush_k_pw_u64->loop}, {RUSH_F32, rush_k_pw_f32->loop},
        {RUSH_F64, rush_k_pw_f64->loop},   {RUSH_C64, rush_k_pw_c64->loop}, {RUSH_C128, rush_k_pw_c128->loop}};
    for (int id = 0; id < RUSH_PW_COUNT; id++) {
        const rush_pw_row *row = &rush_pw_rows[id];
        for (size_t k = 0; k < sizeof table / sizeof *table; k++) {
            bool told = row->set >> rush_dtypes[table[k].dtype].category & 1;
            if (row->set & RUSH_PW_LOGIC && table[k].dtype != RUSH_BOOL) continue;
            if (told != (table[k].loop[id] != NULL)) fail_msg("row %d (%s): dtype %s", id, row->value, rush_dtype_name(table[k].dtype));
        }
    }
}

static void refusals(void **state)
{
    rush_scope() {
        int64_t two[1] = {2};
        rush_tensor *b = rush_tensor_new(RUSH_BOOL, cpu, 1, two), *c = rush_tensor_new(RUSH_C64, cpu, 1, two);
        rush_tensor *i = T("to.dtype", V(b), rush_v_dtype(RUSH_I64));
        assert_null(rush_error());
        memset(rush_ptr(i), 0, 16);
        assert_null(T("neg", V(b)));
        assert_int_equal(rush_error_kind_now(), RUSH_RUNTIME_ERROR);
        rush_error_clear();
        assert_null(T("lt.Tensor", V(c), V(c)));
        assert_int_equal(rush_error_kind_now(), RUSH_NOT_IMPLEMENTED);
        rush_error_clear();
        assert_null(T("floor_divide", V(i), V(i)));
        const char *cause = strstr(rush_error(), "ZeroDivisionError");
        assert_non_null(cause);
        assert_string_equal(cause, "ZeroDivisionError");
        rush_error_clear();
        assert_null(T_INPLACE("add.Tensor", V(i), V(1.5)));
        rush_error_clear();
    }
}

/* x + a y is rounded once, as PyTorch's is, where the processor can: all but the lowest level of kernels. */
static void scaled_sums_round_once(void **state)
{
    (void)state;
    if (!strcmp(rush_cpu_isa(), "x86-64-v2")) skip();
    rush_scope() {
        rush_value in[4] = {[3] = V(0.3)};
        const float *x[3], f = 0.3f;
        for (int k = 0; k < 3; ++k) {
            in[k] = V(rush_cast_copy(random_tensor(1, (int64_t[]){40}, -1, 1), RUSH_F32));
            x[k] = in[k].t ? rush_ptr(in[k].t) : NULL;
        }
        rush_tensor *made[4] = {T("add.Tensor", in[0], in[1], in[3]), T("sub.Tensor", in[0], in[1], in[3]), T("addcmul", in[0], in[1], in[2], in[3]), T("lerp.Tensor", in[0], in[1], in[2])};
        const float *sum = made[3] ? rush_ptr(made[0]) : NULL, *less = sum ? rush_ptr(made[1]) : NULL, *product = sum ? rush_ptr(made[2]) : NULL, *between = sum ? rush_ptr(made[3]) : NULL;
        for (int i = 0; sum && i < 40; ++i) {
            float a = x[0][i], b = x[1][i], c = x[2][i];
            assert_true(sum[i] == fmaf(f, b, a) && less[i] == fmaf(-f, b, a) && product[i] == fmaf(f * b, c, a));
            assert_true(between[i] == (fabsf(c) < 0.5f ? fmaf(c, b - a, a) : fmaf(c - 1, b - a, b)));
        }
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(scaled_sums_round_once), cmocka_unit_test(iterator_walks_any_strides), cmocka_unit_test(copies_convert), cmocka_unit_test(promotion),
        cmocka_unit_test(rows_have_right_derivatives), cmocka_unit_test(rows_do_not_mind_layout), cmocka_unit_test(changes_in_place_differentiate), cmocka_unit_test(refusals),
        cmocka_unit_test(sets_tell_which_loops_there_are),
    };
    return SUITE(tests);
}
