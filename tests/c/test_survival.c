/* test_survival.c - every operation of the registry with arguments made from its schema, forward and backward.
 *
 * Numbers are not looked at: the operation may refuse such arguments, but must do so with an error. With --failing
 * each call is made again and again, every one of its allocations failing in turn: that reaches the ways out of
 * kernels and derivatives that no other test takes. `test_survival --failing 1 NAME`: of operations named so.
 */
#include "suite/suite.h"
#include "op/op.h"
#include <stdio.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum { SHARES = 4, RANKS = 4, MOST = 3000 };

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

static int call(const rush_op *op, int rank)
{
    rush_value in[64], out[RUSH_MAXOUT] = {0};
    rush_tensor *roots[RUSH_MAXOUT], *seeds[RUSH_MAXOUT];
    for (int i = 0; i < op->nargs; i++) in[i] = argument(&op->args[i], rank);
    if (rush_call(op, in, out)) return -1;
    int n = 0;
    for (int i = 0; i < op->nout; i++)
        if (out[i].kind == RUSH_V_TENSOR && rush_requires_grad(out[i].t)) {
            seeds[n] = T("ones_like", V(out[i].t));
            roots[n++] = out[i].t;
        }
    return n ? rush_backward_full(n, roots, seeds, false, false) : 0;
}

static void share(int of)
{
    int at = 0;
    for (const rush_op *op = rush_op_first(); op; op = rush_op_next(op)) {
        if (at++ % SHARES != of) continue;
        for (int rank = 1; rank <= RANKS; rank++)
            rush_scope() {
                call(op, rank);
                if (rush_error_kind_now() == RUSH_MEMORY_ERROR) fail_msg("%s: %s", op->name, rush_error());
                rush_error_clear();
            }
    }
}

#define SHARE(n) static void share_##n(void **state) { share(n); }
SHARE(0) SHARE(1) SHARE(2) SHARE(3)

/* ---- values that are not what the schema says ---- */

/* Every kind of value, and numbers that are no kind, for each argument of each operation: an error where the argument does not take it. */
static void wrong_kinds(void **state)
{
    if (suite_failing()) return;
    rush_value in[64], out[RUSH_MAXOUT] = {0};
    for (const rush_op *op = rush_op_first(); op; op = rush_op_next(op))
        for (int i = 0; i < op->nargs; i++)
            for (int kind = 0; kind < 24; kind++)
                rush_scope() {
                    bool list = kind == RUSH_V_INTS || kind == RUSH_V_FLOATS || kind == RUSH_V_TENSORS || kind == RUSH_V_VALUES;
                    bool constant = kind >= RUSH_V_STRING; /* none of them is 777, or NULL */
                    for (int k = 0; k < op->nargs; k++) in[k] = argument(&op->args[k], 2);
                    in[i] = (rush_value){.kind = (uint8_t)kind, .n = list ? 3 : 0};
                    if (constant && kind != RUSH_V_STRING && kind != RUSH_V_GENERATOR) in[i].i = kind == RUSH_V_DEVICE ? 255 : 777;
                    bool whole = op->args[i].type == RUSH_A_FLOAT && !op->args[i].list && (kind == RUSH_V_INT || kind == RUSH_V_BOOL); /* for a float */
                    bool takes = whole || (op->args[i].type == RUSH_A_DTYPE && kind == RUSH_V_INT) || (kind <= RUSH_V_GENERATOR && op->args[i].kinds >> kind & 1);
                    bool bad = !takes || list || constant || kind == RUSH_V_TENSOR;
                    int failed = bad ? rush_call(op, in, out) : -1;
                    if (bad && (!failed || !rush_failed())) fail_msg("%s takes kind %d for its argument %d", op->name, kind, i);
                    rush_error_clear();
                }
    rush_tensor *gone = NULL;
    rush_scope() gone = rush_from_data((float[]){1, 2}, RUSH_F32, 1, (int64_t[]){2});
#if !defined(__SANITIZE_ADDRESS__) /* which tells by itself */
    assert_null(rush_apply(rush_op_find("neg"), 1, (rush_value[]){{.kind = RUSH_V_TENSOR, .t = gone}}));
    assert_non_null(strstr(rush_error(), "scope"));
    rush_error_clear();
    assert_int_equal(rush_ndim(gone), 0);
    assert_non_null(rush_error());
#endif
    rush_error_clear();
    assert_int_equal(rush_call(NULL, in, out), -1);
    assert_non_null(rush_error());
    rush_error_clear();
    assert_null(rush_apply(rush_op_find("no such operation"), 0, in));
    assert_non_null(rush_error());
    rush_error_clear();
}

/* ---- with failing allocations ---- */

/* Where the child is; shared with it. */
static struct trial {
    int rank;
    uint64_t n, all, made;
} *trial;

/* One call with its n-th allocation failing (0: none); what is wrong about it, or NULL. */
static const char *failing_call(const rush_op *op, int rank, uint64_t n, size_t before)
{
    const char *wrong = NULL;
    rush_memory_fail_at(n, false);
    rush_scope() {
        int failed = call(op, rank);
        rush_memory_fail_at(0, false);
        if (failed && !rush_failed()) wrong = "fails without an error";
        rush_error_clear();
    }
    return wrong ? wrong : before && suite_live() > before ? "leaks" : NULL;
}

/* All calls of one operation, in a process of its own: a crash then names its operation, and the others go on. */
static int failing_calls(const rush_op *op)
{
    int wrong = 0;
    for (int rank = 1; rank <= RANKS; rank++) {
        failing_call(op, rank, 0, 0); /* caches fill */
        uint64_t first = rush_memory_count();
        failing_call(op, rank, 0, 0);
        uint64_t all = rush_memory_count() - first, step = 1 + all / MOST;
        size_t before = suite_live();
        for (uint64_t n = 1; n <= all; n += step) {
            *trial = (struct trial){rank, n, all, trial->made + 1};
            const char *what = failing_call(op, rank, n, before);
            if (!what) continue;
            wrong++;
            printf("FAIL %s of rank %d: %s when allocation %llu of %llu fails\n", op->name, rank, what, (unsigned long long)n, (unsigned long long)all);
            before = suite_live();
        }
    }
    fflush(stdout);
    return wrong != 0;
}

static int failing(const char *name)
{
    int ops = 0, wrong = 0;
    trial = mmap(NULL, sizeof *trial, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (trial == MAP_FAILED) return perror("mmap"), 1;
    for (const rush_op *op = rush_op_first(); op; op = rush_op_next(op)) {
        if (op->flags & RUSH_HIDDEN || !strstr(op->name, name)) continue;
        int status = 0;
        pid_t child = fork();
        if (child < 0) return perror("fork"), 1;
        if (!child) {
            stderr = fopen("/dev/null", "w"); /* warnings; the sanitizers write to the descriptor */
            _exit(failing_calls(op));
        }
        waitpid(child, &status, 0);
        ops++;
        wrong += status != 0;
        if (status && !(WIFEXITED(status) && WEXITSTATUS(status) == 1))
            printf("FAIL %s of rank %d: crashes when allocation %llu of %llu fails\n", op->name, trial->rank, (unsigned long long)trial->n, (unsigned long long)trial->all);
        fflush(stdout);
    }
    printf("%d operations, %llu allocations made to fail, %d operations wrong\n", ops, (unsigned long long)trial->made, wrong);
    return wrong != 0;
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(share_0), cmocka_unit_test(share_1), cmocka_unit_test(share_2), cmocka_unit_test(share_3), cmocka_unit_test(wrong_kinds)};
    if (argc > 1 && !strcmp(argv[1], "--failing")) return failing(argc > 3 ? argv[3] : "");
    return SUITE(tests);
}
