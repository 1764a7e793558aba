/* test_few_bits.c - products with matrices of int8 and int4 against plain loops, at sizes around those of the tiles. */
#include "suite/suite.h"
#include <rushlight.h>
#include <math.h>
#include <string.h>

static const int64_t sizes[][3] = {{1, 16, 64}, {1, 7, 33}, {2, 64, 128}, {3, 65, 96}, {4, 4, 32}, {5, 67, 160}, {9, 130, 64}, {5, 6, 4128}};

/* (m, n) whole numbers from low on. */
static rush_tensor *whole(rush_dtype dtype, int64_t m, int64_t n, int64_t low, int64_t steps)
{
    char *data = suite_alloc((size_t)(m * n) * rush_dtype_size(dtype));
    for (int64_t i = 0; i < m * n; ++i) {
        int64_t x = low + (int64_t)((uint32_t)(i * 11 + n) * 2654435761u >> 8) % steps;
        if (dtype == RUSH_I32) ((int32_t *)data)[i] = (int32_t)x;
        else ((uint8_t *)data)[i] = (uint8_t)x;
    }
    rush_tensor *t = rush_from_data(data, dtype, 2, (int64_t[]){m, n});
    assert_non_null(t);
    return t;
}

static rush_tensor *floats(int ndim, const int64_t *size)
{
    int64_t n = 1;
    for (int d = 0; d < ndim; ++d) n *= size[d];
    float *data = suite_alloc(sizeof *data * (size_t)n);
    for (int64_t i = 0; i < n; ++i) data[i] = (float)((uint32_t)(i * 7 + 3) * 2654435761u) * 0x1p-31f - 1;
    rush_tensor *t = rush_from_data(data, RUSH_F32, ndim, size);
    assert_non_null(t);
    return t;
}

#define CALL(name, ...) rush_apply(rush_op_find(name), sizeof((rush_value[]){__VA_ARGS__}) / sizeof(rush_value), (rush_value[]){__VA_ARGS__})
#define TV(t) rush_v_tensor(t)

static const void *elements(const rush_tensor *t)
{
    assert_null(rush_error());
    return rush_data((rush_tensor *)t);
}

static void int8_times_int8(void **state)
{
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; ++s)
        for (int turned = 0; turned < 2; ++turned)
            rush_scope() {
                int64_t m = sizes[s][0], n = sizes[s][1], k = sizes[s][2];
                rush_tensor *a = whole(RUSH_I8, m, k, -128, 256), *b = turned ? CALL("t", TV(whole(RUSH_I8, n, k, -128, 256))) : whole(RUSH_I8, k, n, -128, 256);
                rush_tensor *c = CALL("_int_mm", TV(a), TV(b));
                for (int64_t i = 0; i < m; ++i)
                    for (int64_t j = 0; j < n; ++j) {
                        int64_t sum = 0;
                        for (int64_t p = 0; p < k; ++p)
                            sum += ((const int8_t *)elements(a))[i * k + p] * ((const int8_t *)elements(b))[p * rush_stride(b, 0) + j * rush_stride(b, 1)];
                        assert_int_equal(((const int32_t *)elements(c))[i * n + j], sum);
                    }
            }
}

static void floats_times_int8(void **state)
{
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; ++s)
        rush_scope() {
            int64_t m = sizes[s][0], n = sizes[s][1], k = sizes[s][2];
            rush_tensor *a = floats(2, (int64_t[]){m, k}), *w = whole(RUSH_I8, n, k, -128, 256), *scale = floats(1, &n);
            rush_tensor *c = CALL("_weight_int8pack_mm", TV(a), TV(w), TV(scale));
            for (int64_t i = 0; i < m; ++i)
                for (int64_t j = 0; j < n; ++j) {
                    double sum = 0;
                    for (int64_t p = 0; p < k; ++p) sum += (double)((const float *)elements(a))[i * k + p] * ((const int8_t *)elements(w))[j * k + p];
                    assert_float_equal(((const float *)elements(c))[i * n + j], sum * ((const float *)elements(scale))[j], 1e-4 * (double)k);
                }
        }
}

static void floats_times_int4(void **state)
{
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; ++s)
        rush_scope() {
            int64_t m = sizes[s][0], n = (sizes[s][1] + 15) / 16 * 16, k = (sizes[s][2] + 31) / 32 * 32;
            rush_tensor *a = floats(2, (int64_t[]){m, k}), *q = whole(RUSH_I32, n, k, 0, 16), *pairs = floats(3, (int64_t[]){k / 32, n, 2});
            rush_tensor *w = CALL("_convert_weight_to_int4pack_for_cpu", TV(q), rush_v_int(2));
            rush_tensor *c = CALL("_weight_int4pack_mm_for_cpu", TV(a), TV(w), rush_v_int(32), TV(pairs));
            for (int64_t i = 0; i < m; ++i)
                for (int64_t j = 0; j < n; ++j) {
                    double sum = 0;
                    for (int64_t p = 0; p < k; ++p) {
                        const float *pair = (const float *)elements(pairs) + (p / 32 * n + j) * 2;
                        sum += ((const float *)elements(a))[i * k + p] * ((((const int32_t *)elements(q))[j * k + p] - 8) * (double)pair[0] + pair[1]);
                    }
                    assert_float_equal(((const float *)elements(c))[i * n + j], sum, 1e-5 * (double)k);
                }
        }
}

/* Rows of whole numbers from -127 to 128, both of which occur, are rounded to themselves. */
static void rounded_times_int4(void **state)
{
    static const int64_t groups[] = {32, 40, 96, 160};
    for (size_t s = 0; s < sizeof groups / sizeof *groups; ++s)
        for (int64_t several = 1; several <= 3; several += groups[s] % 32 ? 3 : 2)
            rush_scope() {
                int64_t m = 2, n = 5, group = groups[s], k = group * several;
                rush_tensor *a = floats(2, (int64_t[]){m, k}), *q = whole(RUSH_U8, n, k / 2, 0, 256), *scale = floats(2, (int64_t[]){n, several}), *bias = floats(1, &n);
                float *x = rush_data(a);
                for (int64_t i = 0; i < m * k; ++i) x[i] = i % k == 0 ? -127 : i % k == 1 ? 128 : rintf(x[i] * 100);
                rush_value size[] = {rush_v_int(group), rush_v_int(k), rush_v_int(n)};
                rush_tensor *w = CALL("_dyn_quant_pack_4bit_weight", TV(q), TV(scale), TV(bias), size[0], size[1], size[2]);
                rush_tensor *c = CALL("_dyn_quant_matmul_4bit", TV(a), TV(w), size[0], size[1], size[2]);
                for (int64_t i = 0; i < m; ++i)
                    for (int64_t j = 0; j < n; ++j) {
                        double sum = ((const float *)elements(bias))[j];
                        for (int64_t p = 0; p < k; ++p)
                            sum += x[i * k + p] * ((((const uint8_t *)elements(q))[(j * k + p) / 2] >> (p % 2 * 4) & 15) - 8) * (double)((const float *)elements(scale))[j * several + p / group];
                        assert_float_equal(((const float *)elements(c))[i * n + j], sum, 1e-3 * (1 + fabs(sum)));
                    }
            }
}

static void refused(void **state)
{
    rush_scope() {
        rush_tensor *a = floats(2, (int64_t[]){2, 64}), *w = whole(RUSH_U8, 16, 32, 0, 256), *pairs = floats(3, (int64_t[]){1, 16, 2});
        assert_null(CALL("_weight_int4pack_mm_for_cpu", TV(a), TV(w), rush_v_int(32), TV(pairs))); /* pairs of one group for two */
        assert_non_null(strstr(rush_error(), "groups"));
        rush_error_clear();
        assert_null(CALL("_dyn_quant_matmul_4bit", TV(a), TV(pairs), rush_v_int(32), rush_v_int(64), rush_v_int(INT64_MAX)));
        assert_non_null(rush_error());
        rush_error_clear();
        assert_null(CALL("_dyn_quant_pack_4bit_weight", TV(w), TV(pairs), RUSH_NONE, rush_v_int(0), rush_v_int(64), rush_v_int(16)));
        assert_non_null(strstr(rush_error(), "multiple of 32"));
        rush_error_clear();
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(int8_times_int8), cmocka_unit_test(floats_times_int8), cmocka_unit_test(floats_times_int4),
        cmocka_unit_test(rounded_times_int4), cmocka_unit_test(refused),
    };
    return SUITE(tests);
}
