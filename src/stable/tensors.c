/* tensors.c - handles: what they are of, made and changed. */
#include "stable/stable.h"
#include <rushlight/backend.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static _Thread_local char message[2048];

const char *rush_stable_message(void) { return message; }

int32_t rush_stable_end(void)
{
    if (!rush_error()) return 0;
    snprintf(message, sizeof message, "%s", rush_error());
    rush_error_clear();
    return 1;
}

stable_tensor *rush_stable_handle(rush_tensor *t)
{
    stable_tensor *h = rush_error() ? NULL : malloc(sizeof *h);
    if (!h) return rush_error() ? NULL : (rush_fail(RUSH_MEMORY_ERROR, "out of memory"), NULL);
    h->t = rush_keep(t);
    return h;
}

int32_t rush_stable_give(rush_tensor *t, stable_tensor **to)
{
    *to = rush_stable_handle(t);
    return rush_stable_end();
}

rush_tensor *rush_stable_take(stable_tensor *h)
{
    rush_tensor *t = h ? rush_park(h->t) : NULL;
    free(h);
    return t;
}

/* ---- numbers ---- */

#define NUMBER(name, value) STABLE(int32_t, name, void) { return value; }
#define DTYPE(word, value) NUMBER(aoti_torch_dtype_##word, value)
DTYPE(bool, RUSH_BOOL) DTYPE(uint8, RUSH_U8) DTYPE(uint16, RUSH_U16) DTYPE(uint32, RUSH_U32) DTYPE(uint64, RUSH_U64) DTYPE(int8, RUSH_I8) DTYPE(int16, RUSH_I16) DTYPE(int32, RUSH_I32)
DTYPE(int64, RUSH_I64) DTYPE(float16, RUSH_F16) DTYPE(bfloat16, RUSH_BF16) DTYPE(float32, RUSH_F32) DTYPE(float64, RUSH_F64) DTYPE(complex32, RUSH_C32) DTYPE(complex64, RUSH_C64)
DTYPE(complex128, RUSH_C128) DTYPE(float8_e5m2, RUSH_F8E5M2) DTYPE(float8_e4m3fn, RUSH_F8E4M3FN) DTYPE(float8_e5m2fnuz, RUSH_F8E5M2FNUZ) DTYPE(float8_e4m3fnuz, RUSH_F8E4M3FNUZ)
DTYPE(float8_e8m0fnu, RUSH_F8E8M0FNU) DTYPE(float4_e2m1fn_x2, -1)
NUMBER(torch_dtype_float8_e8m0fnu, RUSH_F8E8M0FNU) NUMBER(torch_dtype_float4_e2m1fn_x2, -1)
#define LAYOUT(word, value) NUMBER(aoti_torch_layout_##word, value)
LAYOUT(strided, RUSH_STRIDED) LAYOUT(sparse_coo, RUSH_SPARSE_COO) LAYOUT(sparse_csr, RUSH_SPARSE_CSR) LAYOUT(sparse_csc, RUSH_SPARSE_CSC) LAYOUT(sparse_bsr, RUSH_SPARSE_BSR)
LAYOUT(sparse_bsc, RUSH_SPARSE_BSC) LAYOUT(_mkldnn, -1) LAYOUT(jagged, -2)
#define FORMAT(word, value) NUMBER(aoti_torch_memory_format_##word, value)
FORMAT(contiguous_format, RUSH_CONTIGUOUS) FORMAT(preserve_format, RUSH_PRESERVE) FORMAT(channels_last, RUSH_CHANNELS_LAST) FORMAT(channels_last_3d, RUSH_CHANNELS_LAST_3D)
#define DEVICE(word, value) NUMBER(aoti_torch_device_type_##word, value)
DEVICE(cpu, RUSH_CPU) DEVICE(meta, RUSH_META) DEVICE(cuda, RUSH_CUDA) DEVICE(privateuse1, RUSH_PRIVATEUSEONE) DEVICE(xpu, RUSH_DEVICES) DEVICE(mps, RUSH_DEVICES + 1)
/* Marks of operations, by their numbers in torch.Tag; nothing is done with them. */
#define TAG(word, value) NUMBER(torch_tag_##word, value)
TAG(core, 0) TAG(cudagraph_unsafe, 1) TAG(data_dependent_output, 2) TAG(dynamic_output_shape, 3) TAG(flexible_layout, 4) TAG(generated, 5) TAG(inplace_view, 7)
TAG(maybe_aliasing_or_mutating, 8) TAG(needs_contiguous_strides, 9) TAG(needs_exact_strides, 10) TAG(needs_fixed_stride_order, 11) TAG(nondeterministic_bitwise, 12)
TAG(nondeterministic_seeded, 13) TAG(out_variant, 15) TAG(pointwise, 16) TAG(pt2_compliant_tag, 17) TAG(reduction, 18) TAG(view_copy, 19)

STABLE(size_t, aoti_torch_dtype_element_size, int32_t dtype) { return rush_dtype_size((rush_dtype)dtype); }
STABLE(uint64_t, aoti_torch_abi_version, void) { return UINT64_C(0x020d000000000000); } /* 2.13, a byte each */

rush_device rush_stable_device(int32_t type, int32_t index)
{
    bool indexed = type != RUSH_CPU && type != RUSH_META;
    return (rush_device){.type = (uint8_t)type, .index = (int8_t)(indexed ? index : -1)};
}
int32_t rush_stable_device_type(rush_device d) { return d.type; }

/* ---- what a handle is of ---- */

/* An undefined one is of nothing. */
static rush_tensor *of(stable_tensor *h)
{
    if (!h || !h->t) rush_fail(RUSH_RUNTIME_ERROR, "the tensor is not defined");
    return h ? h->t : NULL;
}

typedef void *voidp;
typedef int64_t *int64_tp;
#define TELL(name, type, value)                                                                             \
    STABLE(int32_t, name, stable_tensor *h, type *to)                                                       \
    {                                                                                                       \
        const rush_tensor *t = of(h);                                                                       \
        if (t) *to = (type)(value);                                                                         \
        return rush_stable_end();                                                                           \
    }
TELL(aoti_torch_get_data_ptr, voidp, rush_data(t))
TELL(torch_get_mutable_data_ptr, voidp, rush_data(t))
TELL(torch_get_const_data_ptr, voidp, rush_data(t))
TELL(aoti_torch_get_dim, int64_t, rush_ndim(t))
TELL(aoti_torch_get_numel, int64_t, rush_numel(t))
TELL(aoti_torch_get_sizes, int64_tp, rush_sizes(t))
TELL(aoti_torch_get_strides, int64_tp, rush_strides(t))
TELL(aoti_torch_get_dtype, int32_t, rush_dtype_of(t))
TELL(aoti_torch_get_device_type, int32_t, rush_stable_device_type(rush_device_of(t)))
TELL(aoti_torch_get_device_index, int32_t, rush_device_of(t).index)
TELL(aoti_torch_get_layout, int32_t, rush_layout_of(t))
TELL(aoti_torch_get_storage_offset, int64_t, rush_storage_offset(t))
TELL(aoti_torch_get_storage_size, int64_t, (t->storage ? (int64_t)t->storage->nbytes : 0))
TELL(aoti_torch_get_storage_numel, int64_t, (t->storage ? (int64_t)t->storage->nbytes : 0) / (int64_t)rush_dtype_size(rush_dtype_of(t)))
TELL(aoti_torch_is_contiguous, bool, rush_is_contiguous(t))

STABLE(int32_t, aoti_torch_get_size, stable_tensor *h, int64_t d, int64_t *to)
{
    if (of(h)) *to = rush_size(h->t, (int)d);
    return rush_stable_end();
}
STABLE(int32_t, aoti_torch_get_stride, stable_tensor *h, int64_t d, int64_t *to)
{
    if (of(h)) *to = rush_stride(h->t, (int)d);
    return rush_stable_end();
}
STABLE(int32_t, aoti_torch_is_defined, stable_tensor *h, bool *to) { return *to = h && h->t, 0; }
STABLE(int32_t, torch_set_requires_grad, stable_tensor *h, bool on)
{
    if (of(h)) rush_requires_grad_set(h->t, on);
    return rush_stable_end();
}

/* The one element, as bytes of that dtype. */
static int32_t item(stable_tensor *h, rush_dtype dtype, void *to)
{
    rush_scope() {
        rush_tensor *t = of(h);
        if (t && rush_numel(t) != 1) rush_fail(RUSH_RUNTIME_ERROR, "a tensor with %lld elements cannot be converted to a number", (long long)rush_numel(t));
        t = t ? rush_contiguous(rush_to(t, rush_v_dtype(dtype), .copy = rush_device_of(t).type != RUSH_CPU)) : NULL;
        if (t) memcpy(to, rush_data(t), rush_dtype_size(dtype));
    }
    return rush_stable_end();
}
#define ITEM(word, dtype) STABLE(int32_t, aoti_torch_item_##word, stable_tensor *h, void *to) { return item(h, dtype, to); }
ITEM(bool, RUSH_BOOL) ITEM(uint8, RUSH_U8) ITEM(uint16, RUSH_U16) ITEM(uint32, RUSH_U32) ITEM(uint64, RUSH_U64) ITEM(int8, RUSH_I8) ITEM(int16, RUSH_I16) ITEM(int32, RUSH_I32)
ITEM(int64, RUSH_I64) ITEM(float16, RUSH_F16) ITEM(bfloat16, RUSH_BF16) ITEM(float32, RUSH_F32) ITEM(float64, RUSH_F64) ITEM(complex64, RUSH_C64)
#define FROM_NUMBER(word, type, dtype)                                                                      \
    STABLE(int32_t, aoti_torch_scalar_to_tensor_##word, type x, stable_tensor **to)                         \
    {                                                                                                       \
        int32_t failed = 0;                                                                                 \
        rush_scope() failed = rush_stable_give(rush_from_data(&x, dtype, 0, NULL), to);                     \
        return failed;                                                                                      \
    }
FROM_NUMBER(bool, bool, RUSH_BOOL) FROM_NUMBER(uint8, uint8_t, RUSH_U8) FROM_NUMBER(uint16, uint16_t, RUSH_U16) FROM_NUMBER(uint32, uint32_t, RUSH_U32)
FROM_NUMBER(uint64, uint64_t, RUSH_U64) FROM_NUMBER(int8, int8_t, RUSH_I8) FROM_NUMBER(int16, int16_t, RUSH_I16) FROM_NUMBER(int32, int32_t, RUSH_I32)
FROM_NUMBER(int64, int64_t, RUSH_I64) FROM_NUMBER(float32, float, RUSH_F32) FROM_NUMBER(float64, double, RUSH_F64)

/* ---- made ---- */

static rush_value ints(const int64_t *list, int64_t n) { return rush_v_ints(list, (size_t)n); }

rush_tensor *rush_stable_call(const char *name, int n, const rush_value *given)
{
    const rush_op *op = rush_op_find(name);
    rush_value in[64], out[RUSH_MAXOUT] = {0};
    if (!op || op->nargs > 64) return rush_fail(RUSH_NOT_IMPLEMENTED, "there is no operation '%s'", name), NULL;
    for (int i = 0; i < op->nargs; ++i) in[i] = i < n ? given[i] : op->args[i].def;
    return rush_call(op, in, out) ? NULL : out[0].t;
}
#define CALL(op, ...) rush_stable_call(op, (int)(sizeof((rush_value[]){__VA_ARGS__}) / sizeof(rush_value)), (rush_value[]){__VA_ARGS__})
#define GIVE(made)                                                                                          \
    {                                                                                                       \
        int32_t failed = 1;                                                                                 \
        rush_scope() failed = rush_stable_give(made, to);                                                   \
        return failed;                                                                                      \
    }

STABLE(int32_t, aoti_torch_delete_tensor_object, stable_tensor *h)
{
    if (h) rush_drop(h->t);
    free(h);
    return 0;
}
STABLE(int32_t, aoti_torch_new_tensor_handle, stable_tensor *h, stable_tensor **to) { return rush_stable_give(h->t, to); }
STABLE(int32_t, aoti_torch_new_uninitialized_tensor, stable_tensor **to) { return rush_stable_give(NULL, to); }
STABLE(int32_t, aoti_torch_assign_tensors, stable_tensor *from, stable_tensor *h)
{
    rush_tensor *old = h->t;
    h->t = rush_keep(from->t);
    rush_drop(old);
    return 0;
}
STABLE(int32_t, aoti_torch_assign_tensors_out, stable_tensor *from, stable_tensor **to) { return rush_stable_give(from->t, to); }
STABLE(int32_t, aoti_torch_clone, stable_tensor *h, stable_tensor **to) GIVE(CALL("clone", rush_v_tensor(of(h))))

static rush_tensor *empty(int64_t n, const int64_t *size, const int64_t *stride, int32_t dtype, rush_device device)
{
    return CALL("empty_strided", ints(size, n), ints(stride, n), rush_v_dtype(dtype), rush_v_layout(RUSH_STRIDED), rush_v_device(device));
}
STABLE(int32_t, aoti_torch_empty_strided, int64_t n, const int64_t *size, const int64_t *stride, int32_t dtype, int32_t type, int32_t index, stable_tensor **to)
GIVE(empty(n, size, stride, dtype, rush_stable_device(type, index)))
STABLE(int32_t, aoti_torch_empty_strided_pinned, int64_t n, const int64_t *size, const int64_t *stride, int32_t dtype, int32_t type, int32_t index, stable_tensor **to)
GIVE(empty(n, size, stride, dtype, rush_stable_device(type, index)))
STABLE(int32_t, aoti_torch_clone_preserve_strides, stable_tensor *h, stable_tensor **to)
GIVE(of(h) ? CALL("copy_", rush_v_tensor(empty(rush_ndim(h->t), rush_sizes(h->t), rush_strides(h->t), rush_dtype_of(h->t), rush_device_of(h->t))), rush_v_tensor(h->t)) : NULL)

static rush_tensor *over(rush_tensor *t, int64_t n, const int64_t *size, const int64_t *stride, int64_t offset)
{
    return CALL("as_strided", rush_v_tensor(t), ints(size, n), ints(stride, n), rush_v_int(offset));
}
STABLE(int32_t, aoti_torch_as_strided, stable_tensor *h, const int64_t *size, const int64_t *stride, stable_tensor **to)
GIVE(of(h) ? over(h->t, rush_ndim(h->t), size, stride, rush_storage_offset(h->t)) : NULL)
STABLE(int32_t, aoti_torch__reinterpret_tensor, stable_tensor *h, int64_t n, const int64_t *size, const int64_t *stride, int64_t more, stable_tensor **to)
GIVE(of(h) ? over(h->t, n, size, stride, rush_storage_offset(h->t) + more) : NULL)
STABLE(int32_t, aoti_torch__alloc_from_pool, stable_tensor *h, int64_t bytes, int32_t dtype, int64_t n, const int64_t *size, const int64_t *stride, stable_tensor **to)
GIVE(of(h) ? over(CALL("view.dtype", rush_v_tensor(h->t), rush_v_dtype(dtype)), n, size, stride, bytes / (int64_t)rush_dtype_size((rush_dtype)dtype)) : NULL)

typedef struct ender {
    void (*end)(void *data, void *arg);
    void *data, *arg;
} ender;
static void end_blob(void *p)
{
    ender *e = p;
    e->end(e->data, e->arg);
    free(e);
}
static rush_tensor *blob(void *data, int64_t n, const int64_t *size, const int64_t *stride, int64_t offset, int32_t dtype, int32_t type, void (*end)(void *, void *), void *arg)
{
    ender *e = end ? malloc(sizeof *e) : NULL;
    if (type != RUSH_CPU || (end && !e)) return rush_fail(type != RUSH_CPU ? RUSH_NOT_IMPLEMENTED : RUSH_MEMORY_ERROR, "memory of others becomes a tensor on the CPU alone"), free(e), NULL;
    if (e) *e = (ender){end, data, arg};
    char *first = (char *)data + offset * (int64_t)rush_dtype_size((rush_dtype)dtype);
    rush_tensor *t = rush_from_blob(first, (rush_dtype)dtype, (int)n, size, stride, e ? end_blob : NULL, e);
    if (!t) free(e);
    return t;
}
#define BLOB void *data, int64_t n, const int64_t *size, const int64_t *stride, int64_t offset, int32_t dtype, int32_t type, int32_t index, stable_tensor **to
STABLE(int32_t, aoti_torch_create_tensor_from_blob, BLOB) GIVE(((void)index, blob(data, n, size, stride, offset, dtype, type, NULL, NULL)))
STABLE(int32_t, aoti_torch_create_tensor_from_blob_v2, BLOB, int32_t layout, const uint8_t *more, int64_t nmore)
GIVE(((void)index, (void)layout, (void)more, (void)nmore, blob(data, n, size, stride, offset, dtype, type, NULL, NULL)))
STABLE(int32_t, torch_from_blob, BLOB, int32_t layout, const uint8_t *more, int64_t nmore, void (*end)(void *, void *), void *arg)
GIVE(((void)index, (void)layout, (void)more, (void)nmore, blob(data, n, size, stride, offset, dtype, type, end, arg)))

/* ---- changed ---- */

static int32_t copy(stable_tensor *to, stable_tensor *from)
{
    rush_scope() CALL("copy_", rush_v_tensor(of(to)), rush_v_tensor(of(from)));
    return rush_stable_end();
}
STABLE(int32_t, aoti_torch_tensor_copy_, stable_tensor *from, stable_tensor *to) { return copy(to, from); }
STABLE(int32_t, aoti_torch_copy_, stable_tensor *to, stable_tensor *from, int32_t non_blocking) { return (void)non_blocking, copy(to, from); }
STABLE(int32_t, aoti_torch_zero_, stable_tensor *h)
{
    rush_scope() CALL("zero_", rush_v_tensor(of(h)));
    return rush_stable_end();
}
STABLE(int32_t, aoti_torch_check_inf_and_nan, const char *name, stable_tensor *h)
{
    rush_scope() {
        rush_tensor *fine = CALL("all", rush_v_tensor(CALL("isfinite", rush_v_tensor(of(h)))));
        if (fine && !rush_item_int(fine)) rush_fail(RUSH_RUNTIME_ERROR, "%s has elements that are infinite or no numbers", name);
    }
    return rush_stable_end();
}

/* ---- operations ---- */

int32_t rush_stable_run(const char *name, char way, int n, const rush_value *in, int nout, stable_tensor **const *out)
{
    rush_value results[RUSH_MAXOUT] = {0};
    const rush_op *op = rush_op_find(name);
    int32_t failed = 0;
    if (!op) return rush_fail(RUSH_NOT_IMPLEMENTED, "there is no operation '%s'", name), rush_stable_end();
    rush_scope() {
        for (int i = 0; way == 'o' && i < nout; ++i) results[i] = rush_v_tensor((*out[i])->t);
        int wrong = way == 'o' ? rush_call_out(op, in, results) : way == '_' ? rush_call_inplace(op, in, results) : rush_call(op, in, results);
        for (int i = 0; !wrong && !failed && !way && i < nout; ++i) failed = rush_stable_give(results[i].t, out[i]);
    }
    (void)n;
    return rush_stable_end() || failed;
}

rush_value rush_stable_tensors(stable_tensor *const *list, int64_t n)
{
    rush_tensor **all = rush_scope_copy(list, (size_t)(n ? n : 1) * sizeof *all);
    for (int64_t i = 0; all && i < n; ++i) all[i] = list[i] ? list[i]->t : NULL;
    return rush_v_tensors(all, (size_t)n);
}
rush_value rush_stable_flags(const int32_t *list, int64_t n)
{
    int64_t *all = rush_scope_alloc((size_t)(n + 1) * sizeof *all);
    for (int64_t i = 0; all && i < n; ++i) all[i] = list[i] != 0;
    return rush_v_ints(all, (size_t)n);
}
rush_value rush_stable_optional_tensors(stable_tensor *const *const *list, int64_t n)
{
    rush_tensor **all = rush_scope_copy(list, (size_t)(n ? n : 1) * sizeof *all);
    for (int64_t i = 0; all && i < n; ++i) all[i] = list[i] ? (*list[i])->t : NULL;
    return rush_v_tensors(all, (size_t)n);
}

/* ---- modes, threads, words ---- */

STABLE(bool, aoti_torch_grad_mode_is_enabled, void) { return rush_grad_enabled(); }
STABLE(void, aoti_torch_grad_mode_set_enabled, bool on) { rush_grad_enabled_set(on); }
STABLE(void, aoti_torch_warn, const char *function, const char *file, uint32_t line, const char *text) { rush_log(1, "%s (%s, %s:%u)", text, function, file, line); }
STABLE(void, aoti_torch_print_tensor_handle, stable_tensor *h, const char *text)
{
    printf("[  %s  ]:\n", text);
    if (h && h->t) rush_tensor_print(h->t);
}
STABLE(const char *, torch_exception_get_what, void) { return message; }
STABLE(const char *, torch_exception_get_what_without_backtrace, void) { return message; }
