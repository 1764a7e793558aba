/* host.c - operations that the host computes, whose arguments are copied there and whose results come back.
 *
 * Two kinds: those whose numbers the host reads anyway (how many classes there are, which matrix was singular), and rare ones that
 * nobody has written a kernel for yet. torch._C._cuda_host() lists them, since copies and a synchronisation are what they cost.
 */
#include "cuda/column.h"
#include <rushlight/modes.h>

/* With all overloads that have kernels. */
static const char *const operations[] = {
    /* the host reads their numbers anyway */
    "_linalg_first_failure", "_pivots_to_permutation", "_int_list", "_combination_places", "repeat_interleave",
    "_multilabel_listed", "nonzero_static", "histogram", "histogramdd", "_histogramdd_bin_edges",
    "_histogramdd_from_bin_cts", "_histogramdd_from_bin_tensors", "_histogram_range", "_grid_of_range", "_grid_integers", "_grid_numbers", "_grid_product", "_grid_convolution",
    "_grid_finish", "histc", "bincount",
    /* coordinates of sparse tensors, sorted and joined, which says how many are left */
    "_coo_keys", "_coo_group", "_coo_find", "_coo_common", "_coo_merge", "_coo_within", "_compressed_within", "_compressed_validate", "_row_starts", "_row_entries", "_rows_merge",
    "_compressed_coordinates", "_compressed_starts", "_rows_dense", "_rows_sparse", "_sampled_products",
    /* a few numbers, made once */
    "hann_window", "hamming_window", "blackman_window", "bartlett_window", "kaiser_window", "audio_mel_filters", "audio_create_dct",
    /* what NVIDIA's libraries are to do: solvers (the others: solver.c), and the loss of sequences */
    "linalg_eig", "linalg_lstsq", "linalg_ldl_factor_ex", "linalg_ldl_solve", "_ctc_loss", "_ctc_loss_backward",
    /* kernels to be written */
    "segment_reduce", "_segment_reduce",
    "_segment_reduce_backward", "_jagged_to_padded_dense_forward", "_padded_dense_to_jagged_forward", "_jagged_to_padded_dense_backward", "_affine_pixels",
    "vision_adjust_hue", "torchaudio::_lfilter_core_loop", "torchaudio::_overdrive_core_loop", "torchaudio::rnnt_loss_forward", "torchaudio::forced_align",
    "torchvision::_nms_kept", "torchvision::box_iou_rotated", "torchvision::roi_align", "torchvision::_roi_align_backward", "torchvision::ps_roi_align", "torchvision::_ps_roi_align_backward",
    "torchvision::roi_pool", "torchvision::_roi_pool_backward", "torchvision::ps_roi_pool", "torchvision::_ps_roi_pool_backward", NULL};

static const rush_device cpu = {RUSH_CPU, 0};

/* With t's strides where it is dense: kernels may count on those that the shape rule gave a result. */
static rush_tensor *copy_at(const rush_tensor *t, rush_device d)
{
    rush_tensor *there = t ? rush_tensor_new_like(t, t->dtype, d, RUSH_PRESERVE) : NULL;
    return there && !rush_copy_into(there, t) ? there : NULL;
}

/* v with its tensors copied to device d, if they are not there. */
static rush_value moved(rush_value v, rush_device d)
{
    if (v.kind == RUSH_V_DEVICE) v.device = d;
    if (v.kind == RUSH_V_GENERATOR && v.gen->device.type != d.type) return RUSH_NONE; /* computed() says who draws */
    if (v.kind == RUSH_V_TENSOR && v.t->device.type != d.type) v.t = copy_at(v.t, d);
    if (v.kind == RUSH_V_TENSORS && v.n) {
        rush_tensor **all = rush_scope_alloc(sizeof *all * v.n);
        for (uint32_t k = 0; all && k < v.n; k++) all[k] = v.tensors[k] ? copy_at(v.tensors[k], d) : NULL;
        v.tensors = all;
    }
    return v;
}

static rush_device device_of(const rush_op *op, const rush_value *in)
{
    for (int i = 0; i < op->nargs; i++) {
        if (in[i].kind == RUSH_V_TENSOR && in[i].t->device.type == RUSH_CUDA) return in[i].t->device;
        if (in[i].kind == RUSH_V_DEVICE && in[i].device.type == RUSH_CUDA) return in[i].device;
    }
    return (rush_device){RUSH_CUDA, (int8_t)rush_device_current(RUSH_CUDA)};
}

/* op->cpu, whose random numbers are those of a generator that begins where the device's is. */
static void computed(const rush_op *op, rush_device d, const rush_value *in, const rush_value *args, rush_value *results)
{
    rush_generator *given = NULL;
    if (!(op->flags & RUSH_SIDE_EFFECT)) {
        op->cpu(op, args, results);
        return;
    }
    for (int i = 0; i < op->nargs; i++)
        if (in[i].kind == RUSH_V_GENERATOR) given = in[i].gen;
    rush_generator *own = rush_generator_new(cuda_random_seed(d, given));
    if (!own) return;
    rush_generator *before = rush_thread_generator_set(own);
    op->cpu(op, args, results);
    rush_thread_generator_set(before);
    rush_generator_drop(own);
}

void cuda_host_run(const rush_op *op, const rush_value *in, rush_value *out)
{
    rush_value args[64], results[RUSH_MAXOUT];
    const rush_device d = device_of(op, in);
    for (int i = 0; i < op->nargs; i++) args[i] = moved(in[i], cpu);
    for (int k = 0; k < op->nout; k++) {
        results[k] = moved(out[k], cpu);
        for (int i = 0; i < op->nargs; i++) /* in place */
            if (out[k].kind == RUSH_V_TENSOR && in[i].kind == RUSH_V_TENSOR && in[i].t == out[k].t) results[k] = args[i];
    }
    if (rush_failed()) return;
    computed(op, d, in, args, results);
    for (int k = 0; k < op->nout && !rush_failed(); k++) {
        if (results[k].kind == RUSH_V_TENSOR && out[k].kind == RUSH_V_TENSOR) rush_copy_into(out[k].t, results[k].t);
        else out[k] = moved(results[k], d);
    }
}

static char listed[4096];
const char *cuda_host(void) { return listed; }

static int put(const rush_op *op)
{
    if (rush_backend_kernel(&cuda_backend, op->name, cuda_host_run)) return -1;
    RUSH_CHECK(strlen(listed) + strlen(op->name) + 2 < sizeof listed, RUSH_RUNTIME_ERROR, "the list of operations that the host computes is too long");
    if (*listed) strcat(listed, " ");
    strcat(listed, op->name);
    return 0;
}

int cuda_host_put(void)
{
    for (int i = 0; operations[i]; i++) {
        int found = 0;
        for (const rush_op *op = rush_op_first(); op; op = rush_op_next(op))
            if (op->cpu && !op->run && !strcmp(op->base, operations[i]) && (found++, put(op))) return -1;
        RUSH_CHECK(found, RUSH_NOT_IMPLEMENTED, "no operation with a kernel is called %s", operations[i]);
    }
    return 0;
}
