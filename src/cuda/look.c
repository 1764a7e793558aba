/* look.c - over the kernels of look.cu: searchsorted, bucketize, isin, embedding_bag; and one_hot. */
#include "cuda/column.h"
#include "op/formula.h"
#include <stdio.h>

/* ---- places in sorted sequences ---- */

/* A tensor, or a number as one of the device. */
static rush_tensor *on_device(rush_value v, const rush_tensor *like, bool wrapped)
{
    if (v.kind == RUSH_V_TENSOR) return v.t;
    rush_tensor *t = rush_tensor_of_number(v, wrapped);
    return t ? T("_to_copy", V(t), RUSH_NONE, RUSH_NONE, rush_v_device(like->device)) : NULL;
}

static void search(rush_tensor *to, rush_tensor *edges, rush_tensor *values, bool right, rush_tensor *order)
{
    char kernel[32];
    if (!values || !values->numel) return;
    const rush_dtype common = rush_result_type(2, (const rush_value[2]){V(edges), V(values)});
    edges = rush_cast_copy(edges, common), values = rush_cast_copy(values, common), order = order ? rush_contiguous_copy(order) : NULL;
    rush_tensor *result = to->dtype == RUSH_I64 && rush_contiguous(to) ? to : rush_tensor_new(RUSH_I64, to->device, to->ndim, to->size);
    if (rush_failed()) return;
    cuda_search p = {.edge = rush_ptr(edges), .value = rush_ptr(values), .order = order ? rush_ptr(order) : NULL, .to = rush_ptr(result), .n = edges->size[edges->ndim - 1],
                     .row = edges->ndim == 1 || !values->ndim ? values->numel : values->size[values->ndim - 1], .count = values->numel, .dtype = common,
                     .item = (int)rush_dtypes[common].size, .by_row = edges->ndim > 1, .right = right, .fault = cuda_devices[to->device.index].fault};
    snprintf(kernel, sizeof kernel, "search_%s", common == RUSH_U64 ? "u64" : rush_dtypes[common].category < 2 ? "i64" : "f64");
    if (!cuda_launch(to->device, kernel, &p, p.count) && result != to) rush_copy_into(to, result);
}

/* in: sorted_sequence, self, out_int32, right, side, sorter */
static void searchsorted(const rush_op *op, const rush_value *in, rush_value *out)
{
    search(out[0].t, in[0].t, on_device(in[1], in[0].t, true), I_(in[3]) || (HAS(in[4]) && !strcmp(in[4].s, "right")), T_(in[5]));
}

/* in: self, boundaries, out_int32, right */
static void bucketize(const rush_op *op, const rush_value *in, rush_value *out) { search(out[0].t, in[1].t, on_device(in[0], in[1].t, true), I_(in[3]), NULL); }

/* in: elements, test_elements, assume_unique, invert. Whether the test element where each would go is equal to it. */
static void isin(const rush_op *op, const rush_value *in, rush_value *out)
{
    rush_tensor *on = in[0].kind == RUSH_V_TENSOR ? in[0].t : in[1].t, *x = on_device(in[0], on, false), *test = on_device(in[1], on, false), *to = out[0].t;
    if (!x || !test || !x->numel) return;
    if (!test->numel) return (void)rush_device_fill(to, rush_v_bool(I_(in[3])));
    rush_tensor *sorted = T("sort", V(T("reshape", V(test), INTS(-1)))), *place = sorted ? T("searchsorted.Tensor", V(sorted), V(T("reshape", V(x), INTS(-1)))) : NULL;
    rush_tensor *found = place ? T("take", V(sorted), V(T("clamp_max", V(place), V(sorted->numel - 1)))) : NULL;
    rush_tensor *same = found ? eq(found, T("reshape", V(x), INTS(-1))) : NULL;
    if (same) rush_copy_into(to, reshape_to(I_(in[3]) ? logical_not(same) : same, to));
}

/* ---- one_hot: in self, num_classes, or how many there are ---- */

static void one_hot(const rush_op *op, const rush_value *in, rush_value *out)
{
    rush_tensor *x = in[0].t, *to = T_(out[0]);
    int64_t size[RUSH_MAXDIM], classes = I_(in[1]);
    if (classes < 0) { /* the host reads them: the size depends on it */
        rush_value limit[2];
        if (TN(limit, "aminmax", V(x))) return;
        const int64_t least = rush_item_int(limit[0].t), most = rush_item_int(limit[1].t);
        if (rush_failed()) return;
        if (least < 0 || most == INT64_MAX) return (void)rush_fail(RUSH_RUNTIME_ERROR, least < 0 ? "Class values must be non-negative." : "Class values are too large.");
        if (x->ndim) memcpy(size, x->size, sizeof *size * x->ndim);
        size[x->ndim] = most + 1;
        to = rush_out(out, 0, RUSH_I64, x->device, x->ndim + 1, size);
    }
    if (!to || rush_device_fill(to, rush_v_int(0)) || !to->numel) return;
    CUDA_INPLACE("scatter.value", V(to), V((int64_t)-1), V(unsqueeze(x, -1)), V((int64_t)1));
}

/* ---- embedding_bag: in weight, indices, offsets, scale_grad_by_freq, mode, sparse, per_sample_weights, include_last_offset, padding_idx ---- */

static void embedding_bag(const rush_op *op, const rush_value *in, rush_value *out)
{
    rush_tensor *weight = in[0].t, *to = out[0].t;
    const rush_dtype d = weight->dtype == RUSH_F64 ? RUSH_F64 : RUSH_F32;
    const int64_t rows = weight->size[0], bags = to->size[0], n = in[1].t->numel, padding = I_(in[8]);
    const bool is_max = I_(in[4]) == CUDA_BAG_MAX;
    rush_tensor *table = rush_cast_copy(weight, d), *scale = T_(in[6]) ? rush_cast_copy(in[6].t, d) : NULL;
    rush_tensor *index = rush_cast_copy(in[1].t, RUSH_I64), *start = rush_cast_copy(in[2].t, RUSH_I64);
    rush_tensor *made = rush_tensor_new(d, to->device, 2, to->size), *which = rush_tensor_new(RUSH_I64, to->device, 1, &n), *size = rush_tensor_new(RUSH_I64, to->device, 1, &bags);
    rush_tensor *best = is_max && size ? rush_tensor_new(RUSH_I64, to->device, 2, to->size) : size;
    if (rush_failed() || rush_device_fill(which, rush_v_int(-1)) /* behind the last offset: in no bag */ || rush_device_fill(size, rush_v_int(0))) return;
    cuda_bag p = {.table = rush_ptr(table), .scale = scale ? rush_ptr(scale) : NULL, .index = rush_ptr(index), .start = rush_ptr(start), .to = rush_ptr(made), .which = rush_ptr(which),
                  .size = rush_ptr(size), .best = is_max ? rush_ptr(best) : NULL, .rows = rows, .width = weight->size[1], .n = n, .bags = bags, .starts = start->numel,
                  .padding = padding < -1 && padding >= -rows ? padding + rows : padding, .mode = (int)I_(in[4]), .fault = cuda_devices[to->device.index].fault};
    char kernel[32];
    snprintf(kernel, sizeof kernel, "bag_%s", cuda_word(d));
    if (cuda_launch(to->device, kernel, &p, bags * p.width)) return;
    if (!rush_copy_into(to, made) && !rush_copy_into(out[1].t, which) && !rush_copy_into(out[2].t, size)) rush_copy_into(out[3].t, best);
}

const cuda_kernel cuda_look_kernels[] = {
    {"searchsorted.Tensor", searchsorted}, {"searchsorted.Scalar", searchsorted}, {"bucketize.Tensor", bucketize}, {"bucketize.Scalar", bucketize}, {"isin.Tensor_Tensor", isin},
    {"isin.Tensor_Scalar", isin}, {"isin.Scalar_Tensor", isin}, {"one_hot", one_hot}, {"_embedding_bag", embedding_bag}, {"_embedding_bag_forward_only", embedding_bag}, {0}};
