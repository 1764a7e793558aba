/* library.c - operations that are left to libraries: products, convolutions, transforms, solvers, sorting.
 *
 * Emulated devices take the CPU's kernels for them, over their memory. On NVIDIA's they are to come from cuBLASLt, cuDNN, cuFFT,
 * cuSOLVER and CUB; so far products do (product.c), all others raise NotImplementedError there.
 */
#include "cuda/column.h"

static const char *const operations[] = {
    /* cuBLASLt */
    "mm", "bmm", "addmm", "baddbmm", "addbmm", "mv", "addmv", "dot", "linear", "_int_mm",
    /* cuDNN */
    "convolution", "convolution_backward", "_lstm_layer", "_lstm_layer_backward", "_gru_layer", "_gru_layer_backward", "_ctc_loss", "_ctc_loss_backward",
    "_scaled_dot_product_flash_attention_for_cpu", "_scaled_dot_product_flash_attention_for_cpu_backward",
    /* cuFFT */
    "_fft_c2c", "_fft_r2c", "_fft_c2r",
    /* cuSOLVER */
    "linalg_cholesky_ex", "linalg_lu_factor_ex", "linalg_qr", "_linalg_eigh", "linalg_eig", "_linalg_svd", "linalg_solve_triangular", "linalg_lu_solve",
    "linalg_lstsq", "linalg_ldl_factor_ex", "linalg_ldl_solve", "geqrf", NULL};

/* CUB, by one operation of each function of the CPU */
static const char *const families[] = {"sort", "topk", "kthvalue", "median.dim", "mode", "nanmedian.dim", "sort.stable", NULL};

typedef struct call {
    const rush_op *op;
    rush_value in[64], out[RUSH_MAXOUT];
    rush_generator *generator;
} call;

/* A tensor of the device as one of the CPU over the same memory. */
static rush_value seen(rush_value v)
{
    if (v.kind == RUSH_V_TENSOR) {
        v.t = rush_host_view(v.t);
    } else if (v.kind == RUSH_V_TENSORS && v.n) {
        rush_tensor **views = rush_scope_alloc(sizeof *views * v.n);
        for (uint32_t k = 0; views && k < v.n; k++) views[k] = v.tensors[k] ? rush_host_view(v.tensors[k]) : NULL;
        v.tensors = views;
    }
    return v;
}

static int run(void *arg)
{
    call *c = arg;
    rush_scope() {
        for (int i = 0; i < c->op->nargs; i++) c->in[i] = seen(c->in[i]);
        for (int i = 0; i < c->op->nout; i++) c->out[i] = seen(c->out[i]);
        if (!rush_error()) c->op->cpu(c->op, c->in, c->out);
    }
    return rush_error() ? -1 : 0;
}

void cuda_library_run(const rush_op *op, const rush_value *in, rush_value *out)
{
    if (!cuda_emulated) {
        const rush_kernel product = cuda_product(op->name);
        if (product) product(op, in, out);
        else rush_fail(RUSH_NOT_IMPLEMENTED, "Could not run 'aten::%s' on device 'cuda': the library's function for it is not connected.", op->name);
        return;
    }
    call c = {.op = op};
    memcpy(c.in, in, sizeof *in * op->nargs);
    memcpy(c.out, out, sizeof *out * op->nout);
    if (rush_emulator_host(run, &c) && !rush_error()) rush_fail(RUSH_RUNTIME_ERROR, "CUDA error: work that was queued before failed");
}

static char listed[4096];
const char *cuda_library(void) { return listed; }

static int put(const char *name)
{
    size_t n = strlen(listed);
    if (rush_backend_kernel(&cuda_backend, name, cuda_library_run)) return -1;
    RUSH_CHECK(n + strlen(name) + 2 < sizeof listed, RUSH_RUNTIME_ERROR, "the list of operations that are left to libraries is too long");
    if (n) strcat(listed, " ");
    strcat(listed, name);
    return 0;
}

int cuda_library_put(void)
{
    for (int i = 0; operations[i]; i++)
        if (put(operations[i])) return -1;
    for (int i = 0; families[i]; i++) {
        const rush_op *one = rush_op_find(families[i]);
        RUSH_CHECK(one, RUSH_NOT_IMPLEMENTED, "no operation is called %s", families[i]);
        for (const rush_op *op = rush_op_first(); op; op = rush_op_next(op))
            if (op->cpu && op->cpu == one->cpu && put(op->name)) return -1;
    }
    return 0;
}
