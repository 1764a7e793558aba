/* test_later.c - elementwise work that is put off gives the same bits, and what waits is done before anybody looks. */
#include "suite/suite.h"
#include "op/formula.h"
#include "op/later.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ROWS = 96, COLS = 70 };

static rush_tensor *made(rush_dtype d, int ndim, const int64_t *size, int from)
{
    rush_tensor *t = rush_tensor_new(RUSH_F32, (rush_device){RUSH_CPU, -1}, ndim, size);
    if (!t) return NULL;
    for (int64_t i = 0; i < t->numel; ++i) ((float *)rush_ptr(t))[i] = (float)((i * 7 + from) % 23) / 5 - 2;
    return to_dtype(t, d);
}

/* All kinds of operands: dtypes, numbers, rows and columns that are broadcast, steps, changes in place, views. */
static rush_tensor *chain(rush_dtype d)
{
    const int64_t size[] = {ROWS, COLS}, row[] = {COLS}, column[] = {ROWS, 1}, wide[] = {ROWS, 2 * COLS};
    rush_tensor *x = made(d, 2, size, 1), *y = made(d, 2, size, 5), *r = made(d, 1, row, 2), *c = made(d, 2, column, 3), *w = made(d, 2, wide, 4);
    rush_tensor *every = w ? T("slice.Tensor", V(w), V(1), V(0), V(2 * COLS), V(2)) : NULL;
    rush_tensor *z = add(mul(x, y), 1.5);
    z = add(mul(z, r), mul(c, every));
    T_INPLACE("add.Tensor", V(x), V(2));
    z = where(gt(z, x), z, mul(x, 0.5));
    if (!z || !T_INPLACE("mul.Tensor", V(z), V(y)) || !T_INPLACE("tanh", V(z))) return NULL;
    rush_tensor *flat = T("view", V(z), INTS(ROWS * COLS));
    flat = T("clamp", V(mul(flat, 3)), V(-1.0), V(1.0));
    return flat ? T("cat", ((rush_value){.kind = RUSH_V_TENSORS, .n = 3, .tensors = (rush_tensor *[]){flat, T("view", V(z), INTS(-1)), T("view", V(x), INTS(-1))}}), V(0)) : NULL;
}

static bool same_bits(const rush_tensor *a, const rush_tensor *b)
{
    return a && b && a->numel == b->numel && a->dtype == b->dtype && !memcmp(rush_ptr(a), rush_ptr(b), (size_t)a->numel * rush_dtypes[a->dtype].size);
}

static void end(void *begun) { rush_later_end(); }

/* Also ended when the test fails on the way. */
static void begin(void)
{
    static char begun;
    if (rush_later_begin()) fail_msg("%s", rush_error());
    suite_after(end, &begun);
}

static void gives_the_same(void **state)
{
    static const rush_dtype dtypes[] = {RUSH_F32, RUSH_F64, RUSH_F16, RUSH_BF16};
    for (size_t i = 0; i < RUSH_COUNT(dtypes); ++i)
        rush_scope() {
            rush_tensor *plain = chain(dtypes[i]);
            if (!plain || rush_later_begin()) fail_msg("%s", rush_error());
            rush_tensor *later = chain(dtypes[i]);
            rush_later_end();
            if (!later) fail_msg("%s", rush_error());
            assert_true(same_bits(plain, later));
        }
}

static void waits_and_is_done(void **state)
{
    rush_scope() {
        const int64_t size[] = {ROWS, COLS};
        rush_tensor *x = made(RUSH_F32, 2, size, 1);
        if (!x) fail_msg("%s", rush_error());
        begin();
        rush_tensor *y = mul(x, 2), *z = add(y, 1);
        if (!z) fail_msg("%s", rush_error());
        assert_int_equal(rush_later_waiting(), 2);
        assert_true(rush_storage_waits(z->storage));
        assert_null(z->storage->data);
        assert_true(((float *)rush_ptr(z))[3] == 2 * ((float *)rush_ptr(x))[3] + 1);
        assert_int_equal(rush_later_waiting(), 0);
        z = add(x, 1);
        if (!z) fail_msg("%s", rush_error());
        float before = ((float *)x->storage->data)[0];
        ((float *)rush_ptr(x))[0] = 100; /* who asks for x's address may write there */
        assert_true(((float *)rush_ptr(z))[0] == before + 1);
    }
}

static void dropped_results_need_no_memory(void **state)
{
    rush_scope() {
        const int64_t size[] = {ROWS, COLS};
        rush_tensor *x = made(RUSH_F32, 2, size, 1);
        if (!x || rush_later_begin()) fail_msg("%s", rush_error());
        rush_memory_stats before, after;
        rush_memory_stats_read(&before);
        rush_tensor *z = rush_keep(exp_(x));
        for (int i = 0; i < 60 && z; ++i) {
            rush_scope() {
                rush_tensor *next = i % 2 ? mul(z, 0.5) : add(z, x);
                rush_drop(z);
                z = next ? rush_keep(next) : NULL;
            }
        }
        rush_memory_stats_read(&after);
        rush_later_end();
        if (!z) fail_msg("%s", rush_error());
        rush_drop(z);
        assert_in_range(after.live_blocks, 1, before.live_blocks + 3); /* the first, the last, and what the steps that wait read */
    }
}

/* By loops that the C compiler makes: at each level, since this program runs once for each. */
static void compiled_gives_the_same(void **state)
{
    static char folder[] = "/tmp/rushlight-kept-XXXXXX";
    char command[64];
    if (folder[strlen(folder) - 1] == 'X' && !mkdtemp(folder)) fail_msg("there is no room in /tmp");
    setenv("PYTORCH_KERNEL_CACHE_PATH", folder, 1);
    const int before = rush_later_compile(RUSH_LATER_AT_ONCE);
    rush_scope() {
        rush_tensor *plain = chain(RUSH_F32);
        begin();
        rush_tensor *first = chain(RUSH_F32), *again = chain(RUSH_F32);
        rush_later_settle();
        const int made = rush_later_compile(RUSH_LATER_NEVER);
        snprintf(command, sizeof command, "rm -rf %s", folder);
        if (system(command) || !plain || !first || !again) fail_msg("%s", rush_error());
        assert_true(same_bits(plain, first) && same_bits(plain, again));
        assert_true(made > before || before > 0);
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(gives_the_same), cmocka_unit_test(waits_and_is_done), cmocka_unit_test(dropped_results_need_no_memory),
                                       cmocka_unit_test(compiled_gives_the_same)};
    return SUITE(tests);
}
