/* test_backend.c - a device added from outside, by the public header alone: its memory is at addresses where the host has none. */
#include "suite/suite.h"
#include <rushlight.h>
#include <stdlib.h>
#include <string.h>

#define FAR ((uintptr_t)1 << 47) /* what its addresses differ by from the host's */
static char *near(const void *p, rush_device d) { return (char *)((uintptr_t)p - (d.type == RUSH_CPU ? 0 : FAR)); }
static float *elements(const rush_tensor *t) { return (float *)near(rush_data(t), rush_device_of(t)); }

static void *mirror_alloc(rush_device d, size_t bytes)
{
    char *p = bytes < 1 << 20 ? malloc(bytes) : NULL;
    return p ? (void *)((uintptr_t)p + FAR) : NULL;
}
static void mirror_free(rush_device d, void *p, size_t bytes) { free(near(p, d)); }

static int mirror_copy(void *to, rush_device a, const void *from, rush_device b, size_t bytes)
{
    memmove(near(to, a), near(from, b), bytes);
    return 0;
}

static int mirror_convert(rush_tensor *to, const rush_tensor *from)
{
    if (!rush_is_contiguous(to) || !rush_is_contiguous(from) || rush_dtype_of(to) != RUSH_F32 || rush_dtype_of(from) != RUSH_F32 || rush_numel(to) != rush_numel(from))
        return rush_fail(RUSH_NOT_IMPLEMENTED, "mirror copies float32 in order");
    memmove(elements(to), elements(from), 4 * (size_t)rush_numel(to));
    return 0;
}

static int mirror_fill(rush_tensor *t, rush_value number)
{
    for (int64_t i = 0; i < rush_numel(t); ++i) elements(t)[i] = number.kind == RUSH_V_FLOAT ? (float)number.f : (float)number.i;
    return 0;
}

/* A number of the CPU may stand for a tensor. */
static void mirror_add(const rush_op *op, const rush_value *in, rush_value *out)
{
    for (int64_t i = 0; i < rush_numel(out[0].t); ++i)
        elements(out[0].t)[i] = elements(in[0].t)[i] + elements(in[1].t)[rush_ndim(in[1].t) ? i : 0];
}

static rush_backend mirror = {.name = "mirror", .devices = 2, .alloc = mirror_alloc, .free = mirror_free, .copy = mirror_copy,
                              .convert = mirror_convert, .fill = mirror_fill};
static rush_backend other = {.name = "other", .devices = 1, .alloc = mirror_alloc, .free = mirror_free, .copy = mirror_copy,
                             .convert = mirror_convert, .fill = mirror_fill};

static int setup(void)
{
    return mirror.type || (rush_backend_register(&mirror) == RUSH_PRIVATEUSEONE && !rush_backend_kernel(&mirror, "add.Tensor", mirror_add)) ? 0 : -1;
}

static rush_tensor *moved(rush_tensor *t, rush_device d)
{
    return rush_apply(rush_op_find("_to_copy"), 4, (rush_value[]){RUSH_V(t), RUSH_NONE, RUSH_NONE, {.kind = RUSH_V_DEVICE, .device = d}});
}
static rush_tensor *three(rush_device d) { return moved(rush_from_data((float[]){1, 2, 3}, RUSH_F32, 1, (int64_t[]){3}), d); }
#define ON(i) ((rush_device){RUSH_PRIVATEUSEONE, i})

static void fails_with(rush_error_kind kind, const char *part)
{
    assert_int_equal(rush_error_kind_now(), kind);
    assert_non_null(strstr(rush_error(), part));
    rush_error_clear();
}

static void has_a_name_and_a_number(void **state)
{
    assert_int_equal(setup(), 0);
    assert_string_equal(rush_device_name(RUSH_PRIVATEUSEONE), "mirror");
    assert_string_equal(rush_device_text(ON(1)), "mirror:1");
    assert_int_equal(rush_device_from_name("mirror"), RUSH_PRIVATEUSEONE);
    assert_int_equal(rush_device_count(RUSH_PRIVATEUSEONE), 2);
    assert_ptr_equal(rush_backend_of(ON(0)), &mirror);
    assert_null(rush_backend_of((rush_device){RUSH_CUDA, 0}));
    assert_int_equal(rush_backend_register(&mirror), -1);
    rush_error_clear();
    if (!other.type) assert_true(rush_backend_register(&other) > RUSH_PRIVATEUSEONE);
    assert_int_equal(rush_device_rename(RUSH_PRIVATEUSEONE, "again"), -1);
    fails_with(RUSH_RUNTIME_ERROR, "Current backend: mirror");
    static rush_backend nothing = {.name = "nothing"};
    assert_int_equal(rush_backend_register(&nothing), -1);
    fails_with(RUSH_VALUE_ERROR, "a backend needs");
}

static void runs_its_kernels(void **state)
{
    assert_int_equal(setup(), 0);
    rush_scope() {
        rush_tensor *x = three(ON(-1)), *y = rush_apply(rush_op_find("add.Tensor"), 2, (rush_value[]){RUSH_V(x), RUSH_V(x)});
        assert_non_null(y);
        assert_int_equal(rush_device_of(y).index, 0);
        assert_true(rush_item(rush_select(y, 0, 2)) == 6);
        rush_tensor *z = rush_add(y, rush_from_data((float[]){0.5f}, RUSH_F32, 0, NULL));
        assert_true(rush_item(rush_select(z, 0, 0)) == 2.5);
        char text[100];
        rush_tensor_format(z, text, sizeof text);
        assert_string_equal(text, "tensor([2.5000, 4.5000, 6.5000], device='mirror:0')");
        const float *home = rush_data(moved(z, (rush_device){RUSH_CPU, -1}));
        assert_non_null(home);
        assert_true(home[1] == 4.5f);
        rush_requires_grad_set(x, true);
        assert_int_equal(rush_backward_full(1, (rush_tensor *[]){rush_add(x, x)}, (rush_tensor *[]){y}, false, false), 0);
        assert_true(rush_item(rush_select(rush_grad(x), 0, 1)) == 8);
    }
}

static void says_what_it_cannot_do(void **state)
{
    assert_int_equal(setup(), 0);
    rush_scope() {
        rush_tensor *x = three(ON(0)), *far = three(ON(1));
        assert_null(rush_mul(x, x));
        fails_with(RUSH_NOT_IMPLEMENTED, "Could not run 'aten::mul.Tensor' on device 'mirror'");
        assert_null(rush_add(x, far));
        fails_with(RUSH_RUNTIME_ERROR, "found at least two devices, mirror:0 and mirror:1!");
        assert_null(three(ON(2)));
        fails_with(RUSH_RUNTIME_ERROR, "the number of devices is 2");
        assert_null(rush_zeros(RUSH_INTS(1 << 20), .device = {.kind = RUSH_V_DEVICE, .device = ON(0)}));
        fails_with(RUSH_MEMORY_ERROR, "mirror:0 has no memory");
        assert_int_equal(rush_backend_kernel(&mirror, "no_such_operation", mirror_add), -1);
        fails_with(RUSH_NOT_IMPLEMENTED, "no_such_operation");
    }
}

static void counts_its_memory(void **state)
{
    assert_int_equal(setup(), 0);
    rush_device_stats before, s;
    assert_int_equal(rush_device_stats_read(ON(1), &before), 0);
    rush_scope() {
        three(ON(1));
        rush_device_stats_read(ON(1), &s);
        assert_int_equal(s.live_bytes, before.live_bytes + 12);
    }
    rush_device_stats_read(ON(1), &s);
    assert_int_equal(s.live_bytes, before.live_bytes);
    assert_int_equal(s.frees, before.frees + 1);
    assert_true(s.peak_bytes >= before.live_bytes + 12);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(has_a_name_and_a_number),
        cmocka_unit_test(runs_its_kernels),
        cmocka_unit_test(says_what_it_cannot_do),
        cmocka_unit_test(counts_its_memory),
    };
    return SUITE(tests);
}
