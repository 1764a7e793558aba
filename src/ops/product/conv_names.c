/* conv_names.c - convolutions by the names of PyTorch's algorithms: slow_conv3d, thnn_conv2d, ...
 *
 * All are convolution of one group; the kernel's size stands beside the weight, and has to be its size.
 */
#include "op/formula.h"

static const int64_t zeros[3];

/* in: self, weight, kernel_size, bias, stride, padding, then what the algorithm has more; `dims` of space. */
static int convolve(const rush_value *in, rush_value *out, int dims, bool transposed, rush_value output_padding, rush_value dilation)
{
    const rush_tensor *x = in[0].t, *w = in[1].t;
    static const int64_t ones[3] = {1, 1, 1};
    RUSH_CHECK(x->ndim == dims + 1 || x->ndim == dims + 2, RUSH_RUNTIME_ERROR, "non-empty %dD or %dD (batch mode) tensor expected for input, but got %s", dims + 1,
               dims + 2, rush_shape_of(x));
    RUSH_CHECK(w->ndim == dims + 2 && !memcmp(w->size + 2, in[2].ints, sizeof *w->size * (size_t)dims), RUSH_RUNTIME_ERROR,
               "a weight with a kernel of size %s was expected, but got %s", rush_shape_text(dims, in[2].ints), rush_shape_of(w));
    bool batched = x->ndim == dims + 2;
    if (!HAS(dilation)) dilation = rush_v_ints(ones, dims);
    if (!HAS(output_padding)) output_padding = rush_v_ints(zeros, dims);
    rush_tensor *batch = batched ? in[0].t : unsqueeze(in[0].t, 0);
    rush_tensor *y = T("convolution", V(batch), in[1], in[3], in[4], in[5], dilation, V(transposed), output_padding, V((int64_t)1));
    return rush_result(out, batched || !y ? y : squeeze(y, 0));
}

static int forward2_run(const rush_op *op, const rush_value *in, rush_value *out) { return convolve(in, out, 2, false, RUSH_NONE, RUSH_NONE); }
static int forward3_run(const rush_op *op, const rush_value *in, rush_value *out) { return convolve(in, out, 3, false, RUSH_NONE, RUSH_NONE); }
static int dilated2_run(const rush_op *op, const rush_value *in, rush_value *out) { return convolve(in, out, 2, false, RUSH_NONE, in[6]); }
static int dilated3_run(const rush_op *op, const rush_value *in, rush_value *out) { return convolve(in, out, 3, false, RUSH_NONE, in[6]); }
static int transpose2_run(const rush_op *op, const rush_value *in, rush_value *out) { return convolve(in, out, 2, true, in[6], in[7]); }
static int transpose3_run(const rush_op *op, const rush_value *in, rush_value *out) { return convolve(in, out, 3, true, in[6], in[7]); }

#define NAMED(id, dims, more, how)                                                                                                        \
    static rush_op op_##id = {                                                                                                          \
        .schema = #id "(Tensor self, Tensor weight, SymInt[" dims "] kernel_size, Tensor? bias=None, SymInt[" dims "] stride=1, SymInt[" dims "] padding=0" \
                  more ") -> Tensor",                                                                                                   \
        .doc = "convolution, with the size of its kernel.", .run = how, .method = RUSH_NN, .flags = RUSH_HIDDEN}
NAMED(thnn_conv2d, "2", "", forward2_run);
NAMED(slow_conv3d, "3", "", forward3_run);
NAMED(slow_conv_dilated2d, "2", ", SymInt[2] dilation=1", dilated2_run);
NAMED(slow_conv_dilated3d, "3", ", SymInt[3] dilation=1", dilated3_run);
NAMED(slow_conv_transpose2d, "2", ", SymInt[2] output_padding=0, SymInt[2] dilation=1", transpose2_run);
NAMED(slow_conv_transpose3d, "3", ", SymInt[3] output_padding=0, SymInt[3] dilation=1", transpose3_run);

RUSH_FAMILY(conv_names, &op_thnn_conv2d, &op_slow_conv3d, &op_slow_conv_dilated2d, &op_slow_conv_dilated3d, &op_slow_conv_transpose2d, &op_slow_conv_transpose3d)
