/* conv_bytes.c - convolutions of int8 and uint8 images by weights of int8: exact sums, which quantized layers scale.
 *
 * The engine does them where the processor multiplies bytes; else they are those of float32, which are exact below 2^24.
 */
#include "kernels/engine/engine.h"
#include "op/formula.h"
#include "ops/product/product.h"

/* in: self, zero_point, weight, stride, padding, dilation, transposed, output_padding, groups */
static int conv_bytes_shape(const rush_op *op, const rush_value *in, rush_value *out)
{
    const rush_tensor *x = in[0].t, *w = in[2].t;
    rush_conv c;
    int64_t size[RUSH_MAXDIM];
    RUSH_CHECK((x->dtype == RUSH_U8 || x->dtype == RUSH_I8) && w->dtype == RUSH_I8, RUSH_RUNTIME_ERROR, "convolutions are of int8 or uint8 and int8, not of %s and %s",
               rush_dtype_name(x->dtype), rush_dtype_name(w->dtype));
    return !rush_conv_geometry(&c, x, w, in + 3, size) && rush_out_format(out, 0, rush_channels_last(x->ndim), x, RUSH_I32, x->ndim, size) ? 0 : -1;
}

/* x with the borders that its windows reach over; what stands for 0 is not 0, and oneDNN 2.6 corrects that wrongly in images of three dimensions. */
static rush_tensor *with_borders(rush_tensor *x, rush_conv *c, int64_t zero)
{
    int64_t border[2 * 3], nd = x->ndim - 2, any = 0;
    for (int i = 0; i < nd; ++i) { /* the last dimension first */
        int64_t *before = &c->before[2 - i];
        border[2 * i] = border[2 * i + 1] = *before;
        any |= *before;
        c->space[2 - i] += 2 * *before;
        *before = 0;
    }
    return any ? T("constant_pad_nd", V(x), rush_v_ints(border, (size_t)(2 * nd)), V(zero)) : x;
}

/* True when it is done, or there is an error. */
static bool by_engine(const rush_value *in, rush_tensor *to)
{
    rush_memory_format format = rush_channels_last(in[0].t->ndim);
    rush_conv c;
    int64_t size[RUSH_MAXDIM], zero = I_(in[1]);
    if (zero != (in[0].t->dtype == RUSH_U8 ? (uint8_t)zero : (int8_t)zero)) return false;
    if (format == RUSH_CONTIGUOUS || I_(in[3 + RUSH_CONV_TRANSPOSED]) || !rush_contiguous_as(to, format)) return false;
    if (rush_conv_geometry(&c, in[0].t, in[2].t, in + 3, size)) return true;
    rush_tensor *x = zero ? with_borders(in[0].t, &c, zero) : in[0].t, *w = rush_contiguous_copy(in[2].t);
    x = x ? T("contiguous", V(x), rush_v_memory_format(format)) : NULL;
    if (!x || !w) return true;
    rush_engine_settled(w->storage, rush_ptr(w));
    bool done = rush_engine_conv_bytes(&c, x->dtype, rush_ptr(x), (int32_t)zero, rush_ptr(w), rush_ptr(to));
    rush_engine_settled(NULL, NULL);
    return done;
}

static void conv_bytes_cpu(const rush_op *op, const rush_value *in, rush_value *out)
{
    rush_tensor *to = out[0].t;
    if (!to->numel || (in[0].t->numel && in[2].t->numel && by_engine(in, to)) || rush_failed()) return;
    rush_tensor *x = T("_grid_numbers", in[0], V(1.0), in[1]), *w = to_dtype(in[2].t, RUSH_F32);
    rush_tensor *sums = x && w ? T("convolution", V(x), V(w), RUSH_NONE, in[3], in[4], in[5], in[6], in[7], in[8]) : NULL;
    if (sums) rush_copy_into(to, sums);
}

static rush_op op_conv_bytes = {
    .schema = "_grid_convolution(Tensor self, int zero_point, Tensor weight, int[] stride, int[] padding, int[] dilation, bool transposed, int[] output_padding, int groups) -> Tensor",
    .doc = "The convolution of self - zero_point, int8 or uint8, by a weight of int8, in int32. Images lie with their channels last.",
    .shape = conv_bytes_shape, .cpu = conv_bytes_cpu, .flags = RUSH_NO_GRAD | RUSH_HIDDEN};

RUSH_FAMILY(conv_bytes, &op_conv_bytes)
