/* look.c - over the kernels of look.cu and distance.cu: searchsorted, bucketize, isin, embedding_bag, distances of rows; and one_hot. */
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
                  .size = rush_ptr(size), .best = is_max ? rush_ptr(best) : NULL, .rows = rows, .width = weight->size[1], .n = n, .bags = bags, .starts = is_max || padding >= 0 ? bags : start->numel,
                  .padding = padding < -1 && padding >= -rows ? padding + rows : padding, .mode = (int)I_(in[4]), .fault = cuda_devices[to->device.index].fault};
    char kernel[32];
    snprintf(kernel, sizeof kernel, "bag_%s", cuda_word(d));
    if (cuda_launch(to->device, kernel, &p, bags * p.width)) return;
    if (!rush_copy_into(to, made) && !rush_copy_into(out[1].t, which) && !rush_copy_into(out[2].t, size)) rush_copy_into(out[3].t, best);
}

/* ---- distances, as src/op/tables.h asks for them ---- */

static cuda_distances distances_of(const rush_distances *d, const rush_tensor *a, const rush_tensor *b, rush_tensor *to)
{
    return (cuda_distances){.a = rush_ptr(a), .b = rush_ptr(b), .to = rush_ptr(to), .batch = d->batch, .n = d->n, .m = d->m, .width = d->width, .pieces = 1, .piece = d->m, .p = d->p, .pairs = d->pairs,
                            .kind = d->p == 0 ? DISTANCE_COUNT : d->p == 1 ? DISTANCE_ONE : d->p == 2 ? DISTANCE_TWO : d->p == __builtin_inf() ? DISTANCE_LARGEST : DISTANCE_OTHER};
}

int cuda_distances_run(const rush_distances *d, const rush_tensor *a, const rush_tensor *b, rush_tensor *to)
{
    const cuda_distances p = distances_of(d, a, b, to);
    const int64_t down = (d->n + CUDA_PRODUCT_SIDE - 1) / CUDA_PRODUCT_SIDE, across = (d->m + CUDA_PRODUCT_SIDE - 1) / CUDA_PRODUCT_SIDE;
    return cuda_launch_blocks(to->device, to->dtype == RUSH_F64 ? "distances_f64" : "distances_f32", &p, d->batch * down * across);
}

/* A thread has an element of ga, and a piece of b's rows where there are few such. */
int cuda_distances_back(const rush_distances *d, const rush_tensor *weight, const rush_tensor *a, const rush_tensor *b, const rush_tensor *distance, rush_tensor *ga)
{
    cuda_distances p = distances_of(d, a, b, ga);
    p.weight = rush_ptr(weight), p.distance = rush_ptr(distance);
    const int64_t pieces = cuda_pieces_of(ga->numel, 1, d->m);
    p.piece = (d->m + pieces - 1) / pieces, p.pieces = (d->m + p.piece - 1) / p.piece;
    rush_tensor *parts = p.pieces > 1 ? rush_tensor_new(ga->dtype, ga->device, 2, (const int64_t[]){p.pieces, ga->numel}) : ga;
    if (!parts) return -1;
    p.to = rush_ptr(parts);
    if (cuda_launch(ga->device, ga->dtype == RUSH_F64 ? "distances_back_f64" : "distances_back_f32", &p, parts->numel)) return -1;
    rush_tensor *sum = parts == ga ? ga : T("sum.dim_IntList", V(parts), INTS(0), V(false));
    return sum == ga ? 0 : sum ? rush_copy_into(ga, reshape_to(sum, ga)) : -1;
}

const cuda_kernel cuda_look_kernels[] = {
    {"searchsorted.Tensor", searchsorted}, {"searchsorted.Scalar", searchsorted}, {"bucketize.Tensor", bucketize}, {"bucketize.Scalar", bucketize}, {"isin.Tensor_Tensor", isin},
    {"isin.Tensor_Scalar", isin}, {"isin.Scalar_Tensor", isin}, {"one_hot", one_hot}, {"_embedding_bag", embedding_bag}, {"_embedding_bag_forward_only", embedding_bag}, {0}};
