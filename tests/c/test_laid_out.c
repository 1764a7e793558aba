/* test_laid_out.c - weights that change no more: products, convolutions and recurrent layers give with them what they give with others. */
#include "suite/suite.h"
#include "op/formula.h"
#include "tensor/tensor.h"
#include <rushlight/ops.h>

#include <pthread.h>

/* Sums of 400 terms in another order. */
#define ROUNDING 3e-6

/* max |a - b| in units of max |b| */
static double differs(rush_tensor *a, rush_tensor *b)
{
    return rush_item(rush_div(rush_max(rush_abs(rush_sub(a, b))), rush_add(rush_max(rush_abs(b)), 1e-30)));
}

static rush_tensor *settled(rush_tensor *w)
{
    rush_tensor *copy = T("clone", V(w));
    assert_true(copy && !rush_storage_settle(copy->storage));
    return copy;
}

/* Twice: the form is made, then found. */
static void same(rush_tensor *x, rush_tensor *w, rush_tensor *kept, rush_tensor *bias)
{
    rush_tensor *want = T("linear", V(x), V(w), V(bias));
    for (int k = 0; k < 2; ++k) {
        rush_tensor *got = T("linear", V(x), V(kept), V(bias));
        assert_true(want && got && differs(got, want) < ROUNDING);
    }
}

static void products(void **state)
{
    static const int64_t rows[] = {1, 3, 4, 7, 35, 64, 65, 256, 257}, columns[] = {11, 12, 17, 33, 96, 200}, depths[] = {1, 64, 193, 400};
    for (size_t k = 0; k < RUSH_COUNT(depths); ++k)
        for (size_t n = 0; n < RUSH_COUNT(columns); ++n) {
            rush_scope() {
                rush_tensor *w = rush_randn(RUSH_INTS(columns[n], depths[k])), *kept = settled(w), *bias = rush_randn(RUSH_INTS(columns[n]));
                rush_tensor *turned = T("contiguous", V(T("t", V(w)))), *kept_turned = settled(turned);
                for (size_t m = 0; m < RUSH_COUNT(rows); ++m) {
                    rush_tensor *x = rush_randn(RUSH_INTS(rows[m], depths[k]));
                    same(x, w, kept, bias);
                    same(x, w, kept, NULL);
                    assert_true(differs(T("mm", V(x), V(kept_turned)), T("mm", V(x), V(turned))) < ROUNDING);
                }
            }
        }
}

/* Parts of one weight have a form each; after a write none is used. */
static void parts_and_writes(void **state)
{
    rush_scope() {
        rush_tensor *w = rush_randn(RUSH_INTS(96, 64)), *kept = settled(w), *x = rush_randn(RUSH_INTS(20, 64));
        for (int64_t begin = 0; begin < 96; begin += 32)
            same(x, T("narrow", V(w), V(0), V(begin), V(32)), T("narrow", V(kept), V(0), V(begin), V(32)), NULL);
        for (int64_t n = 20; n < 96; ++n) /* more than are kept */
            same(x, T("narrow", V(w), V(0), V(0), V(n)), T("narrow", V(kept), V(0), V(0), V(n)), NULL);
        rush_grad_enabled_set(false);
        rush_mul_(kept, 2);
        rush_grad_enabled_set(true);
        same(x, rush_mul(w, 2), kept, NULL);
    }
}

typedef struct at_once {
    rush_tensor *x, *w, *want;
    bool same, failed;
} at_once;

static void *multiply(void *arg)
{
    at_once *a = arg;
    rush_scope() a->same = differs(T("linear", V(a->x), V(a->w)), a->want) < ROUNDING;
    a->failed = rush_failed();
    return NULL;
}

/* Several threads ask for the same form at once: one of theirs is kept. */
static void threads_meet(void **state)
{
    rush_scope() {
        rush_tensor *w = rush_randn(RUSH_INTS(200, 96)), *kept = settled(w), *x = rush_randn(RUSH_INTS(20, 96)), *want = T("linear", V(x), V(w));
        at_once job[4];
        pthread_t thread[4];
        for (int k = 0; k < 4; ++k) {
            job[k] = (at_once){x, kept, want, false, false};
            assert_int_equal(pthread_create(&thread[k], NULL, multiply, &job[k]), 0);
        }
        for (int k = 0; k < 4; ++k) pthread_join(thread[k], NULL);
        for (int k = 0; k < 4; ++k) {
            if (job[k].failed) rush_fail(RUSH_RUNTIME_ERROR, "a thread failed"); /* errors are a thread's own */
            assert_true(job[k].same);
        }
    }
}

/* Pictures x, and the weight, with channels last; stride, padding, dilation of both sides. */
static void convolved(rush_tensor *x, rush_tensor *w, rush_tensor *bias, int64_t stride, int64_t padding, int64_t dilation, int64_t groups, bool weight_last)
{
    rush_scope() {
        rush_value last = rush_v_memory_format(RUSH_CHANNELS_LAST), step = rush_v_ints((int64_t[]){stride, stride}, 2), border = rush_v_ints((int64_t[]){padding, padding}, 2);
        rush_value apart = rush_v_ints((int64_t[]){dilation, dilation}, 2);
        rush_tensor *kept = T("clone", V(w), weight_last ? last : RUSH_NONE), *pictures = T("clone", V(x), last);
        assert_true(kept && !rush_storage_settle(kept->storage));
        rush_tensor *want = T("conv2d", V(x), V(w), V(bias), step, border, apart, V(groups));
        for (int k = 0; k < 3; ++k) { /* at last with a weight that may change */
            rush_tensor *got = T("conv2d", V(pictures), V(k < 2 ? kept : w), V(bias), step, border, apart, V(groups));
            assert_true(want && got && differs(got, want) < 3e-6);
        }
    }
}

static void convolve(int64_t batch, int64_t in, int64_t out, int64_t height, int64_t width, int64_t padding, bool with_bias, bool weight_last)
{
    rush_scope() {
        rush_tensor *x = rush_randn(RUSH_INTS(batch, in, height, width)), *w = rush_randn(RUSH_INTS(out, in, 3, 3)), *bias = with_bias ? rush_randn(RUSH_INTS(out)) : NULL;
        convolved(x, w, bias, 1, padding, 1, 1, weight_last);
    }
}

static void convolutions_of_each_channel(void **state)
{
    static const int64_t channels[] = {8, 16, 72, 130, 5}, kernels[][2] = {{3, 3}, {5, 5}, {3, 1}, {1, 4}, {7, 7}};
    for (int k = 0; k < 5; ++k)
        for (int64_t stride = 1; stride < 4; ++stride)
            for (int64_t dilation = 1; dilation < 3; ++dilation) {
                rush_scope() {
                    rush_tensor *w = rush_randn(RUSH_INTS(channels[k], 1, kernels[k][0], kernels[k][1])), *bias = dilation == 1 ? rush_randn(RUSH_INTS(channels[k])) : NULL;
                    for (int64_t padding = dilation == 2 && k == 4 ? 2 : 0; padding < 4; ++padding)
                        convolved(rush_randn(RUSH_INTS(1 + padding % 2, channels[k], 9 + padding, 11 + k)), w, bias, stride, padding, dilation, channels[k], padding % 2);
                }
            }
}

static void convolutions(void **state)
{
    static const int64_t channels[] = {16, 32, 48, 80, 24};
    for (int k = 0; k < 5; ++k)
        for (int64_t padding = 0; padding < 4; ++padding) {
            convolve(1, channels[k], channels[4 - k], 9, 12, padding, padding % 2, false);
            convolve(3, channels[k], 16, 7 + k, 8, padding, true, padding % 2);
            convolve(2, channels[k], channels[4 - k], 27 + k, 30 + padding, padding, true, padding % 2); /* tiles of 4 x 4, cut off in each way */
        }
    convolve(1, 16, 16, 3, 3, 0, true, false); /* one point */
    convolve(1, 16, 16, 1, 1, 1, false, false);
    convolve(2, 64, 64, 33, 30, 1, true, false);  /* several blocks */
    convolve(1, 320, 16, 12, 12, 1, true, true);  /* sums in pieces */
    convolve(1, 320, 320, 20, 20, 1, true, true); /* weights too large for tiles of 4 x 4 */
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(products), cmocka_unit_test(parts_and_writes), cmocka_unit_test(threads_meet), cmocka_unit_test(convolutions), cmocka_unit_test(convolutions_of_each_channel)};
    return SUITE(tests);
}
