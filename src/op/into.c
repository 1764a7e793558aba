/* into.c - a number in every place of a tensor and one tensor added into another, wherever they lie: on the CPU by its kernels, else
 * by their device. What other families fill, paste and pad with.
 */
#include "kernels/cpu/fill.h"
#include "op/formula.h"
#include "tensor/backend.h"

int rush_number_fits(rush_value v, rush_dtype d)
{
    const rush_dtype_info *info = &rush_dtypes[d];
    if (v.kind == RUSH_V_BOOL || d == RUSH_BOOL || d == RUSH_C128) return 0;
    bool fits = true;
    double re = rush_to_double(v), im = v.kind == RUSH_V_COMPLEX ? v.c[1] : 0;
    if (info->category < 3 && im != 0) fits = false;
    if (info->category == 1) {
        double low = info->is_signed ? info->min : -info->max; /* -1 becomes an unsigned type's largest number */
        if (v.kind == RUSH_V_INT) fits = info->size == 8 ? d == RUSH_U64 || !v.n : re >= low && re <= info->max;
        else fits = fits && re >= info->min && re <= (rush_dtypes[d].size == 8 ? 9223372036854775807.0 : info->max);
    } else if (info->category >= 2) {
        const rush_dtype_info *real = &rush_dtypes[rush_dtype_real(d)];
        double most = real->max;
        fits = fits && !(re > most && re <= 1.7976931348623157e308) && !(re < -most && re >= -1.7976931348623157e308);
        if (info->category == 3) fits = fits && !(im > most && im <= 1.7976931348623157e308) && !(im < -most && im >= -1.7976931348623157e308);
    }
    RUSH_CHECK(fits, RUSH_RUNTIME_ERROR, "value cannot be converted to type %s without overflow", info->c_type);
    return 0;
}

typedef struct fill_job {
    char *dst;
    size_t size;
    const char *value;
} fill_job;

static bool one_byte(const fill_job *j)
{
    for (size_t k = 1; k < j->size; ++k)
        if (j->value[k] != j->value[0]) return false;
    return true;
}

static void fill_bytes(void *arg, int64_t begin, int64_t end)
{
    const fill_job *j = arg;
    memset(j->dst + begin, j->value[0], (size_t)(end - begin));
}

static void fill_dense(void *arg, int64_t begin, int64_t end)
{
    const fill_job *j = arg;
    rush_k_fill->fill(j->dst + begin * (int64_t)j->size, (int64_t)j->size, end - begin, j->value, j->size);
}

static void fill_loop(char **p, const int64_t *stride, int64_t n, const void *arg)
{
    const fill_job *j = arg;
    rush_k_fill->fill(p[0], stride[0], n, j->value, j->size);
}

void rush_element_into(rush_tensor *t, const void *element)
{
    fill_job j = {.dst = rush_ptr(t), .size = rush_dtypes[t->dtype].size, .value = element};
    if (t->numel == 0 || !j.dst) return;
    if (t->flags & RUSH_T_DENSE) {
        int64_t bytes = t->numel * (int64_t)j.size;
        if (one_byte(&j)) {
            if (bytes <= 262144) memset(j.dst, j.value[0], (size_t)bytes);
            else rush_parallel_for(bytes, 262144, fill_bytes, &j);
        } else {
            rush_parallel_for(t->numel, 65536, fill_dense, &j);
        }
        return;
    }
    rush_tensor plain = *t; /* the element is what is to lie in memory: no lazy bits */
    plain.flags &= ~(RUSH_T_CONJ | RUSH_T_NEG);
    rush_value operand = rush_v_tensor(&plain);
    rush_iterate(1, 1, &operand, &t->dtype, fill_loop, &j, 0);
}

void rush_fill_into(rush_tensor *t, rush_value v)
{
    if (RUSH_UNLIKELY(t->device.type)) {
        rush_device_fill(t, v);
        return;
    }
    _Alignas(16) char element[16] = {0};
    if (t->flags & (RUSH_T_CONJ | RUSH_T_NEG)) {
        double c[2] = {rush_to_double(v), v.kind == RUSH_V_COMPLEX ? v.c[1] : 0};
        if (t->flags & RUSH_T_CONJ) c[1] = -c[1];
        if (t->flags & RUSH_T_NEG) c[0] = -c[0], c[1] = -c[1];
        v = (rush_value){.kind = RUSH_V_COMPLEX, .c = {c[0], c[1]}};
    }
    rush_number_store(element, t->dtype, v);
    rush_element_into(t, element);
}

void rush_zero_into(rush_tensor *t)
{
    if (RUSH_UNLIKELY(t->device.type)) {
        rush_device_fill(t, V((int64_t)0));
        return;
    }
    rush_element_into(t, (const double[2]){0});
}

int rush_add_into(rush_tensor *dst, const rush_tensor *src)
{
    if (RUSH_UNLIKELY(dst->device.type)) return T_INPLACE("add.Tensor", V(dst), V((rush_tensor *)src)) ? 0 : -1;
    rush_dtype d = dst->dtype;
    if (!rush_k_fill->add[d]) d = rush_dtype_is_complex(d) ? RUSH_C64 : RUSH_F32;
    RUSH_CHECK(rush_dtypes[dst->dtype].category >= 2 || rush_k_fill->add[dst->dtype], RUSH_NOT_IMPLEMENTED, "no sum for dtype %s",
               rush_dtype_name(dst->dtype));
    rush_value operand[3] = {rush_v_tensor(dst), rush_v_tensor(dst), rush_v_tensor((rush_tensor *)src)};
    return rush_iterate(1, 3, operand, (const uint8_t[]){d, d, d}, rush_k_fill->add[d], NULL, 0);
}
