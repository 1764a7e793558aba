/* test_survival.c - every operation of the registry with arguments made from its schema, forward and backward.
 *
 * Numbers are not looked at: the operation may refuse such arguments, but must do so with an error. With --failing
 * each call is made again and again, every one of its allocations failing in turn: that reaches the ways out of
 * kernels and derivatives that no other test takes. `test_survival --failing 1 NAME`: of operations named so.
 */
#include "suite/calls.h"
#include <stdio.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum { SHARES = 4, RANKS = 4, MOST = 3000 };

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

static rush_tensor *ended(void)
{
    rush_tensor *t = NULL;
    rush_scope() t = rush_from_data((float[]){1, 2}, RUSH_F32, 1, (int64_t[]){2});
    return t;
}

/* A tensor whose scope was closed, for each argument of each operation: alone, and in a list. */
static void after_its_scope(void **state)
{
    if (suite_failing()) return;
    rush_value in[64], out[RUSH_MAXOUT] = {0};
    for (const rush_op *op = rush_op_first(); op; op = rush_op_next(op))
        for (int i = 0; i < op->nargs; i++)
            if (op->args[i].type == RUSH_A_TENSOR)
                rush_scope() {
                    rush_tensor *list[2];
                    for (int k = 0; k < op->nargs; k++) in[k] = argument(&op->args[k], 2);
                    list[0] = list[1] = ended(); /* last, so that its memory is no other tensor's yet */
                    in[i] = op->args[i].list ? rush_v_tensors(list, 2) : rush_v_tensor(list[0]);
                    if (!rush_call(op, in, out) || !rush_error()) fail_msg("%s takes a tensor of a closed scope for its argument %d", op->name, i);
                    if (i == 0 && !strstr(rush_error(), "scope")) fail_msg("%s of a tensor of a closed scope: %s", op->name, rush_error());
                    rush_error_clear();
                }
    assert_int_equal(rush_ndim(ended()), 0);
    assert_non_null(rush_error());
    rush_error_clear();
    assert_null(rush_keep(ended()));
    assert_non_null(rush_error());
    rush_error_clear();
}

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
                    whole |= op->args[i].type == RUSH_A_TENSOR && !op->args[i].list && !op->shape && kind >= RUSH_V_INT && kind <= RUSH_V_COMPLEX; /* for a tensor of a composite */
                    bool takes = whole || (op->args[i].type == RUSH_A_DTYPE && kind == RUSH_V_INT) || (kind <= RUSH_V_GENERATOR && op->args[i].kinds >> kind & 1);
                    bool bad = !takes || list || constant || kind == RUSH_V_TENSOR;
                    int failed = bad ? rush_call(op, in, out) : -1;
                    if (bad && (!failed || !rush_failed())) fail_msg("%s takes kind %d for its argument %d", op->name, kind, i);
                    rush_error_clear();
                }
    assert_int_equal(rush_call(NULL, in, out), -1);
    assert_non_null(rush_error());
    rush_error_clear();
    assert_null(rush_apply(rush_op_find("no such operation"), 0, in));
    assert_non_null(rush_error());
    rush_error_clear();
}

/* A number in the place of each tensor, then of all: an error or a result. */
static void numbers_for_tensors(void **state)
{
    if (suite_failing()) return;
    rush_value in[64], out[RUSH_MAXOUT] = {0};
    for (const rush_op *op = rush_op_first(); op; op = rush_op_next(op))
        for (int i = 0; i <= op->nargs; i++)
            rush_scope() {
                bool any = false;
                for (int k = 0; k < op->nargs; k++) {
                    bool here = (k == i || i == op->nargs) && op->args[k].type == RUSH_A_TENSOR && !op->args[k].list;
                    in[k] = here ? rush_v_float(1.5) : argument(&op->args[k], 2);
                    any |= here;
                }
                int failed = any ? rush_call(op, in, out) : 0;
                if (failed != (rush_failed() ? -1 : 0)) fail_msg("%s of numbers: %d, %s", op->name, failed, rush_error());
                rush_error_clear();
            }
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
    const struct CMUnitTest tests[] = {cmocka_unit_test(share_0), cmocka_unit_test(share_1), cmocka_unit_test(share_2), cmocka_unit_test(share_3), cmocka_unit_test(wrong_kinds), cmocka_unit_test(numbers_for_tensors), cmocka_unit_test(after_its_scope)};
    if (argc > 1 && !strcmp(argv[1], "--failing")) return failing(argc > 3 ? argv[3] : "");
    return SUITE(tests);
}
