/* test_survival.c - every operation of the registry with arguments made from its schema, forward and backward.
 *
 * Numbers are not looked at: the operation may refuse such arguments, but must do so with an error. The point
 * is the run with failing allocations (suite.h), which here reaches kernels and derivatives that no other test
 * calls. The operations are dealt to several tests, so that each gets its share of the time.
 */
#include "suite/suite.h"
#include "op/op.h"

enum { SHARES = 16, RANKS = 4 };

/* Small and square; matrices are positive definite, so that most operations take them; integers where the name says so.
 * Not leaves, so that they may be changed in place. */
static rush_tensor *operand(const rush_arg *a, int rank)
{
    static const char *const whole[] = {"index", "indices", "target", "mask", "condition", "offsets", "lengths"};
    double x[81];
    for (int i = 0; i < 81; i++) x[i] = (double[]){2, 0.3, 0.1, 0.3, 1.5, 0.2, 0.1, 0.2, 1.2}[i % 9];
    rush_tensor *t = rush_from_data(x, RUSH_F64, rank, (int64_t[]){3, 3, 3, 3});
    for (size_t k = 0; k < RUSH_COUNT(whole); k++)
        if (!strcmp(a->name, whole[k])) return T("to.dtype", V(t), rush_v_dtype(strcmp(whole[k], "mask") && strcmp(whole[k], "condition") ? RUSH_I64 : RUSH_BOOL));
    return T("mul.Scalar", V(rush_requires_grad_set(t, true)), V(1.0));
}

static rush_value argument(const rush_arg *a, int rank)
{
    static rush_tensor *list[2];
    static const int64_t dims[] = {0, 1, 2, 3, 4, 5}, sizes[] = {3, 3, 3, 3, 3, 3}, yes[] = {1, 1, 1, 1, 1, 1};
    if (a->has_default) return a->def;
    if (a->optional) return RUSH_NONE;
    if (a->list && a->type == RUSH_A_TENSOR) return list[0] = operand(a, rank), list[1] = operand(a, rank), rush_v_tensors(list, 2);
    if (a->list && a->type == RUSH_A_INT) return rush_v_ints(strncmp(a->name, "dim", 3) ? sizes : dims, a->fixed > 0 ? a->fixed : 2);
    if (a->list) return rush_v_ints(yes, a->fixed > 0 ? a->fixed : 2);
    switch (a->type) {
    case RUSH_A_TENSOR: return V(operand(a, rank));
    case RUSH_A_INT: return V((int64_t)1);
    case RUSH_A_BOOL: return V(false);
    case RUSH_A_FLOAT:
    case RUSH_A_SCALAR: return V(0.5);
    case RUSH_A_STRING: return rush_v_string("floor");
    case RUSH_A_DTYPE: return rush_v_dtype(RUSH_F64);
    default: return RUSH_NONE;
    }
}

static void call(const rush_op *op, int rank)
{
    rush_value in[64], out[RUSH_MAXOUT] = {0};
    rush_tensor *roots[RUSH_MAXOUT], *seeds[RUSH_MAXOUT];
    for (int i = 0; i < op->nargs; i++) in[i] = argument(&op->args[i], rank);
    if (rush_call(op, in, out)) return;
    int n = 0;
    for (int i = 0; i < op->nout; i++)
        if (out[i].kind == RUSH_V_TENSOR && rush_requires_grad(out[i].t)) {
            seeds[n] = T("ones_like", V(out[i].t));
            roots[n++] = out[i].t;
        }
    if (n) rush_backward_full(n, roots, seeds, false, false);
}

static void share(int of)
{
    int at = 0;
    for (const rush_op *op = rush_op_first(); op; op = rush_op_next(op)) {
        if (at++ % SHARES != of || op->flags & RUSH_HIDDEN) continue; /* hidden ones trust their callers */
        for (int rank = 1; rank <= RANKS; rank++)
            rush_scope() {
                call(op, rank);
                if (rush_error_kind_now() == RUSH_MEMORY_ERROR) fail_msg("%s: %s", op->name, rush_error());
                rush_error_clear();
            }
    }
}

#define SHARE(n) static void share_##n(void **state) { share(n); }
SHARE(0) SHARE(1) SHARE(2) SHARE(3) SHARE(4) SHARE(5) SHARE(6) SHARE(7)
SHARE(8) SHARE(9) SHARE(10) SHARE(11) SHARE(12) SHARE(13) SHARE(14) SHARE(15)

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(share_0), cmocka_unit_test(share_1), cmocka_unit_test(share_2), cmocka_unit_test(share_3),
        cmocka_unit_test(share_4), cmocka_unit_test(share_5), cmocka_unit_test(share_6), cmocka_unit_test(share_7),
        cmocka_unit_test(share_8), cmocka_unit_test(share_9), cmocka_unit_test(share_10), cmocka_unit_test(share_11),
        cmocka_unit_test(share_12), cmocka_unit_test(share_13), cmocka_unit_test(share_14), cmocka_unit_test(share_15),
    };
    return SUITE(tests);
}
