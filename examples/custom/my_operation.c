/* my_operation.c - an operation in a file of its own: compiled to a shared object, loaded by main.c.
 *
 * One record says all: the schema, the shape of the result, the kernel, the derivative. From then on it is an
 * operation like any other: found by name, differentiated, checked, profiled.
 *
 *     squareplus(x) = (x + sqrt(x^2 + 4 b)) / 2, a smooth relu (Barron, 2021)
 */
#include <math.h>
#include <rushlight.h>

static int squareplus_shape(const rush_op *op, const rush_value *in, rush_value *out)
{
    rush_tensor *x = in[0].t;
    if (rush_dtype_of(x) != RUSH_F32 || !rush_is_contiguous(x))
        return rush_fail(RUSH_NOT_IMPLEMENTED, "squareplus takes contiguous float32 tensors");
    return rush_out(out, 0, RUSH_F32, rush_device_of(x), rush_ndim(x), rush_sizes(x)) ? 0 : -1;
}

static void squareplus_cpu(const rush_op *op, const rush_value *in, rush_value *out)
{
    const float *x = rush_data(in[0].t);
    float *y = rush_data(out[0].t), b = (float)in[1].f;
    for (int64_t i = 0; i < rush_numel(in[0].t); i++) y[i] = (x[i] + sqrtf(x[i] * x[i] + 4 * b)) / 2;
}

/* dy/dx = (1 + x / sqrt(x^2 + 4b)) / 2 */
static void squareplus_grad(rush_grads *s)
{
    rush_tensor *x = s->in[0].t, *root = rush_sqrt(rush_add(rush_mul(x, x), 4 * s->in[1].f));
    if (rush_needs(s, 0)) s->gin[0] = rush_mul(s->g[0], rush_mul(rush_add(rush_div(x, root), 1), 0.5));
}

static rush_op squareplus = {
    .schema = "squareplus(Tensor self, float b=1.0) -> Tensor",
    .doc = "(x + sqrt(x^2 + 4b)) / 2: a smooth relu.",
    .shape = squareplus_shape, .cpu = squareplus_cpu, .grad = squareplus_grad, .saves = "self",
};

RUSH_API int register_operations(void);
int register_operations(void) { return rush_op_register(&squareplus); }
