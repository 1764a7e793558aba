/* host.c - operations that the host computes, whose arguments are copied there and whose results come back.
 *
 * Two kinds: those whose numbers the host reads anyway (how many classes there are, which matrix was singular), and rare ones that
 * nobody has written a kernel for yet. torch._C._cuda_host() lists them, since copies and a synchronisation are what they cost.
 */
#include "cuda/column.h"

static const char *const operations[] = {
    /* the host reads their numbers anyway */
    "_linalg_first_failure", "_pivots_to_permutation", "_int_list", "_combination_places", "one_hot", "repeat_interleave.Tensor", "_unique2", "unique_dim",
    "unique_consecutive", "_multilabel_listed", "histogramdd", "histogram.bin_ct", "histogram.bins_tensor", "_compressed_within", "histc", "bincount", "multinomial", "randperm",
    /* kernels to be written */
    "_cdist_forward", "_cdist_backward", "pdist", "frexp.Tensor", "isin.Tensor_Tensor", "searchsorted.Tensor", "bucketize.Tensor", "_segment_reduce",
    "grid_sampler_2d", "grid_sampler_2d_backward", "grid_sampler_3d", "grid_sampler_3d_backward", "_embedding_bag", "embedding_renorm_", "_pdist_backward", "_segment_reduce_backward", "rrelu_with_noise", NULL};

static const rush_device cpu = {RUSH_CPU, 0};

static rush_tensor *copy_at(const rush_tensor *t, rush_device d)
{
    rush_tensor *there = t ? rush_tensor_new(t->dtype, d, t->ndim, t->size) : NULL;
    return there && !rush_copy_into(there, t) ? there : NULL;
}

/* v with its tensors copied to device d, if they are not there. */
static rush_value moved(rush_value v, rush_device d)
{
    if (v.kind == RUSH_V_DEVICE) v.device = d;
    if (v.kind == RUSH_V_GENERATOR && v.gen->device.type != d.type) return RUSH_NONE; /* the host's own draws */
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

static void on_host(const rush_op *op, const rush_value *in, rush_value *out)
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
    op->cpu(op, args, results);
    for (int k = 0; k < op->nout && !rush_failed(); k++) {
        if (results[k].kind == RUSH_V_TENSOR && out[k].kind == RUSH_V_TENSOR) rush_copy_into(out[k].t, results[k].t);
        else out[k] = moved(results[k], d);
    }
}

static char listed[2048];
const char *cuda_host(void) { return listed; }

int cuda_host_put(void)
{
    for (int i = 0; operations[i]; i++) {
        if (rush_backend_kernel(&cuda_backend, operations[i], on_host)) return -1;
        RUSH_CHECK(strlen(listed) + strlen(operations[i]) + 2 < sizeof listed, RUSH_RUNTIME_ERROR, "the list of operations that the host computes is too long");
        if (*listed) strcat(listed, " ");
        strcat(listed, operations[i]);
    }
    return 0;
}
