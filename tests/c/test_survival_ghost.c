/* test_survival_ghost.c - every operation of the registry with arguments on a device whose memory the host cannot touch.
 *
 * Like test_survival.c, but on examples/ghost, which is compiled in: whatever reads or writes an element outside of a
 * kernel ends the process and names the operation. Once at once, once lazily.
 */
#include "suite/calls.h"
#define rush_clone(t) T("clone", V(t)) /* inside of the library there are no C functions of operations */
#include "../../examples/ghost/ghost.c"

/* Also refused is an answer: it names the operation or says what does not fit. */
static void all_calls(void)
{
    for (const rush_op *op = rush_op_first(); op; op = rush_op_next(op))
        for (int rank = 1; rank <= 4; rank++)
            rush_scope() {
                int failed = call(op, rank);
                if (failed && !rush_failed()) fail_msg("%s fails without an error", op->name);
                if (rush_error_kind_now() == RUSH_MEMORY_ERROR) fail_msg("%s: %s", op->name, rush_error());
                rush_error_clear();
                rush_device_synchronize(calls_device);
                rush_error_clear();
            }
}

static void at_once(void **state)
{
    if (suite_failing()) return;
    assert_int_equal(register_operations(), 0); /* here, where its handler of signals comes before cmocka's */
    calls_device = (rush_device){RUSH_PRIVATEUSEONE, 0};
    all_calls();
}

static void lazily(void **state)
{
    if (suite_failing()) return;
    lazy = true;
    all_calls();
    lazy = false;
}

static void nothing_is_left(void **state)
{
    if (suite_failing()) return;
    rush_device_stats s;
    assert_int_equal(rush_device_stats_read(calls_device, &s), 0);
    assert_int_equal(s.live_blocks, 0);
    assert_true(s.allocations > 0 && s.allocations == s.frees);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(at_once), cmocka_unit_test(lazily), cmocka_unit_test(nothing_is_left)};
    return SUITE(tests);
}
