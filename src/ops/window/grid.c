/* grid.c - reading images at the points of a grid (spatial transformers, Jaderberg et al., 2015), and making such grids. */
#include "op/formula.h"
#include "op/tables.h"
#include "ops/geometry.h"

/* input, grid, interpolation_mode, padding_mode, align_corners; `from` is where input stands. */
static int read_grid(rush_grid *g, const rush_value *in, int nd)
{
    const rush_tensor *x = in[0].t, *p = in[1].t;
    RUSH_CHECK(x->ndim && p->ndim, RUSH_RUNTIME_ERROR, "grid_sampler(): expected input and grid to have dimensions");
    RUSH_CHECK(x->size[0] == p->size[0], RUSH_RUNTIME_ERROR,
               "grid_sampler(): expected grid and input to have same batch size, but got input with sizes %s and grid with sizes %s", rush_shape_of(x),
               rush_shape_of(p));
    RUSH_CHECK(p->size[p->ndim - 1] == x->ndim - 2, RUSH_RUNTIME_ERROR,
               "grid_sampler(): expected grid to have size %d in last dimension, but got grid with sizes %s", x->ndim - 2, rush_shape_of(p));
    for (int i = 2; i < x->ndim; ++i)
        RUSH_CHECK(x->size[i] > 0, RUSH_RUNTIME_ERROR,
                   "grid_sampler(): expected input to have non-empty spatial dimensions, but input has sizes %s with dimension %d being empty",
                   rush_shape_of(x), i);
    RUSH_CHECK(x->ndim == nd + 2 && p->ndim == x->ndim, RUSH_RUNTIME_ERROR,
               "grid_sampler(): expected %dD input and grid with same number of dimensions, but got input with sizes %s and grid with sizes %s", nd + 2,
               rush_shape_of(x), rush_shape_of(p));
    RUSH_CHECK(x->dtype == p->dtype, RUSH_RUNTIME_ERROR, "expected scalar type %s but found %s", rush_dtype_word(x->dtype),
               rush_dtype_word(p->dtype));
    RUSH_CHECK(rush_dtype_is_float(x->dtype) && rush_dtypes[x->dtype].size > 1, RUSH_NOT_IMPLEMENTED,
               "\"grid_sampler_2d_cpu_kernel_impl\" not implemented for '%s'", rush_dtype_word(x->dtype));
    RUSH_CHECK(I_(in[2]) != 2 || nd == 2, RUSH_RUNTIME_ERROR, "grid_sampler(): bicubic interpolation only supports 4D input");
    *g = (rush_grid){.n = x->size[0], .channels = x->size[1], .points = 1, .space = {1, 1, 1}, .nd = nd, .padding = (int)I_(in[3]), .align = I_(in[4])};
    g->mode = I_(in[2]) == 0 || I_(in[2]) == 2 ? (int)I_(in[2]) : 1;
    for (int i = 0; i < nd; ++i) {
        g->space[3 - nd + i] = x->size[2 + i];
        g->points *= p->size[1 + i];
    }
    return 0;
}

/* The row of each record: how many dimensions the space has. */
static const int space_dims[] = {0, 1, 2, 3};
#define DIMS(n) (&space_dims[n])
static int dims_of(const rush_op *op) { return *(const int *)op->row; }

static int sampler_shape(const rush_op *op, const rush_value *in, rush_value *out)
{
    const rush_tensor *x = in[0].t, *p = in[1].t;
    int nd = dims_of(op);
    rush_grid g;
    if (read_grid(&g, in, nd)) return -1;
    int64_t size[5] = {x->size[0], x->size[1]};
    memcpy(size + 2, p->size + 1, sizeof *size * (size_t)nd);
    return rush_out_t(out, 0, x, x->dtype, nd + 2, size) ? 0 : -1;
}

static int run(rush_grid_pass pass, const rush_grid *g, const rush_tensor *x, const rush_grid_data *d)
{
    const rush_tables *tables = rush_tables_of[x->device.type];
    if (RUSH_UNLIKELY(tables != NULL)) return tables->grid(pass, g, rush_computed_in(x), x->device, d);
    if (rush_computed_in(x) == RUSH_F32) rush_k_resample->grid_f32(pass, g, d);
    else rush_k_resample->grid_f64(pass, g, d);
    return 0;
}

/* What a pass reads; NULL: it is not there, or an error. */
static const void *given(rush_value v, rush_dtype d)
{
    const rush_tensor *t = HAS(v) ? rush_cast_copy(v.t, d) : NULL;
    return t ? rush_ptr(t) : NULL;
}

/* Zeros that become out. */
static void *zeros_for(rush_value out, rush_dtype d, rush_tensor **made)
{
    *made = HAS(out) ? rush_tensor_new(d, out.t->device, out.t->ndim, out.t->size) : NULL;
    if (!*made) return NULL;
    rush_zero_into(*made);
    return rush_ptr(*made);
}

static void sampler_cpu(const rush_op *op, const rush_value *in, rush_value *out)
{
    rush_grid g;
    rush_tensor *y = out[0].t;
    const rush_dtype d = rush_computed_in(y);
    if (!y->numel || read_grid(&g, in, dims_of(op))) return;
    rush_tensor *to = y->dtype == d && rush_contiguous(y) ? y : rush_tensor_new(d, y->device, y->ndim, y->size);
    const rush_grid_data data = {.x = given(in[0], d), .points = given(in[1], d), .y = to ? rush_ptr(to) : NULL};
    if (!rush_failed() && !run(RUSH_GRID_READ, &g, y, &data) && to != y) rush_copy_into(y, to);
}

static void sampler_grad(rush_grads *s)
{
    const rush_value *a = s->in;
    rush_value out[2];
    int64_t mask[2] = {rush_needs(s, 0), rush_needs(s, 1)};
    int failed = dims_of(s->op) == 2 ? TN(out, "grid_sampler_2d_backward", V(s->g[0]), a[0], a[1], a[2], a[3], a[4], rush_v_ints(mask, 2))
                                     : TN(out, "grid_sampler_3d_backward", V(s->g[0]), a[0], a[1], a[2], a[3], a[4], rush_v_ints(mask, 2));
    if (failed) return;
    if (mask[0]) s->gin[0] = T_(out[0]);
    if (mask[1]) s->gin[1] = T_(out[1]);
}

static int sampler_back_shape(const rush_op *op, const rush_value *in, rush_value *out)
{
    rush_grid g;
    if (read_grid(&g, in + 1, dims_of(op))) return -1;
    const rush_tensor *x = in[1].t, *p = in[2].t, *gy = in[0].t;
    RUSH_CHECK(gy->ndim == x->ndim && gy->size[0] == x->size[0] && gy->size[1] == x->size[1] && !memcmp(gy->size + 2, p->size + 1, sizeof *p->size * (size_t)(p->ndim - 2)),
               RUSH_RUNTIME_ERROR, "grad_output of size %s for an input of %s and a grid of %s", rush_shape_of(gy), rush_shape_of(x), rush_shape_of(p));
    if (in[6].ints[0] && !rush_out_t(out, 0, x, x->dtype, x->ndim, x->size)) return -1;
    return !in[6].ints[1] || rush_out_t(out, 1, p, p->dtype, p->ndim, p->size) ? 0 : -1;
}

static void sampler_back_cpu(const rush_op *op, const rush_value *in, rush_value *out)
{
    rush_grid g;
    rush_tensor *made[2];
    const rush_dtype d = rush_computed_in(in[1].t);
    if (read_grid(&g, in + 1, dims_of(op))) return;
    const rush_grid_data data = {.g = given(in[0], d), .x = given(in[1], d), .points = given(in[2], d), .image = zeros_for(out[0], d, &made[0]), .to_points = zeros_for(out[1], d, &made[1])};
    if (rush_failed() || (in[0].t->numel && run(RUSH_GRID_BACK, &g, in[1].t, &data))) return;
    for (int i = 0; i < 2; ++i)
        if (made[i]) rush_copy_into(out[i].t, made[i]);
}

static void sampler_back_grad(rush_grads *s)
{
    const rush_value *a = s->in;
    rush_value out[3];
    int64_t mask[3] = {rush_needs(s, 0), rush_needs(s, 1), rush_needs(s, 2)};
    if (!s->g[0] && !s->g[1]) return;
    if (TN(out, "_grid_sampler_backward_backward", a[0], a[1], a[2], a[3], a[4], a[5], s->g[0] ? V(s->g[0]) : RUSH_NONE,
           s->g[1] ? V(s->g[1]) : RUSH_NONE, rush_v_ints(mask, 3)))
        return;
    for (int i = 0; i < 3; ++i)
        if (mask[i]) s->gin[i] = T_(out[i]);
}

static int sampler_twice_shape(const rush_op *op, const rush_value *in, rush_value *out)
{
    rush_grid g;
    if (read_grid(&g, in + 1, in[1].t->ndim == 5 ? 3 : 2)) return -1;
    const rush_tensor *x = in[1].t, *p = in[2].t, *gy = in[0].t;
    RUSH_CHECK(gy->ndim == x->ndim && gy->size[0] == x->size[0] && gy->size[1] == x->size[1] && !memcmp(gy->size + 2, p->size + 1, sizeof *p->size * (size_t)(p->ndim - 2)) &&
               (!HAS(in[6]) || rush_same_sizes(in[6].t, x)) && (!HAS(in[7]) || rush_same_sizes(in[7].t, p)), RUSH_RUNTIME_ERROR,
               "gradients do not have the sizes of what they belong to: an input of %s and a grid of %s", rush_shape_of(x), rush_shape_of(p));
    for (int i = 0; i < 3; ++i)
        if (in[8].ints[i] && !rush_out_t(out, i, in[i].t, in[i].t->dtype, in[i].t->ndim, in[i].t->size)) return -1;
    return 0;
}

static void sampler_twice_cpu(const rush_op *op, const rush_value *in, rush_value *out)
{
    rush_grid g;
    rush_tensor *made[3];
    const rush_dtype d = rush_computed_in(in[1].t);
    if (read_grid(&g, in + 1, in[1].t->ndim == 5 ? 3 : 2)) return;
    const rush_grid_data data = {.g = given(in[0], d), .x = given(in[1], d), .points = given(in[2], d), .gg_image = given(in[6], d), .gg_points = given(in[7], d),
                                 .y = zeros_for(out[0], d, &made[0]), .image = zeros_for(out[1], d, &made[1]), .to_points = zeros_for(out[2], d, &made[2])};
    if (rush_failed() || (in[0].t->numel && run(RUSH_GRID_TWICE, &g, in[1].t, &data))) return;
    for (int i = 0; i < 3; ++i)
        if (made[i]) rush_copy_into(out[i].t, made[i]);
}

static rush_op op_grid_sampler_twice = {
    .schema = "_grid_sampler_backward_backward(Tensor grad_output, Tensor input, Tensor grid, int interpolation_mode, int padding_mode, "
              "bool align_corners, Tensor? grad_input_grad, Tensor? grad_grid_grad, bool[3] output_mask) -> (Tensor, Tensor, Tensor)",
    .doc = "Gradients of grid_sampler_2d_backward and grid_sampler_3d_backward.", .shape = sampler_twice_shape, .cpu = sampler_twice_cpu,
    .flags = RUSH_HIDDEN,
};

#define SAMPLER(n)                                                                                                                             \
    static rush_op op_grid_sampler_##n##d = {                                                                                                  \
        .row = DIMS(n), .schema = "grid_sampler_" #n "d(Tensor input, Tensor grid, int interpolation_mode, int padding_mode, bool align_corners) -> Tensor",     \
        .doc = "Reads (n, c, space...) at the points of grid (n, ..., " #n "), whose coordinates -1 to 1 span the image.",                     \
        .shape = sampler_shape, .cpu = sampler_cpu, .grad = sampler_grad, .saves = "input, grid", .flags = RUSH_AUTOCAST_F32};                 \
    static rush_op op_grid_sampler_##n##d_backward = {                                                                                         \
        .row = DIMS(n), .schema = "grid_sampler_" #n "d_backward(Tensor grad_output, Tensor input, Tensor grid, int interpolation_mode, int padding_mode, "     \
                  "bool align_corners, bool[2] output_mask) -> (Tensor, Tensor)",                                                              \
        .doc = "Gradients of grid_sampler_" #n "d by the image and the grid.", .shape = sampler_back_shape, .cpu = sampler_back_cpu,                                \
        .grad = sampler_back_grad, .saves = "grad_output, input, grid"};
SAMPLER(2)
SAMPLER(3)

static int grid_sampler_run(const rush_op *op, const rush_value *in, rush_value *out)
{
    return rush_result(out, in[0].t->ndim == 4 ? T("grid_sampler_2d", in[0], in[1], in[2], in[3], in[4])
                                               : T("grid_sampler_3d", in[0], in[1], in[2], in[3], in[4]));
}

static rush_op op_grid_sampler = {
    .schema = "grid_sampler(Tensor input, Tensor grid, int interpolation_mode, int padding_mode, bool align_corners) -> Tensor",
    .doc = "grid_sampler_2d or _3d, by the input's dimensions.", .run = grid_sampler_run, .flags = RUSH_AUTOCAST_F32,
};

/* ---- grids of affine maps ---- */

/* Points (positions, nd + 1) of an image of this size, each with a last coordinate of 1. */
static int points_shape(const rush_op *op, const rush_value *in, rush_value *out)
{
    int64_t points = rush_numel_of((int)in[0].n, in[0].ints);
    RUSH_CHECK(in[0].n && rush_dtypes[in[2].i].category == 2, RUSH_RUNTIME_ERROR, "a grid has one dimension or more and is of a floating type");
    return points < 0 || !rush_out(out, 0, (rush_dtype)in[2].i, in[3].device, 2, (int64_t[]){points, in[0].n + 1}) ? -1 : 0;
}

static void points_cpu(const rush_op *op, const rush_value *in, rush_value *out)
{
    const int nd = (int)in[0].n;
    rush_tensor *to = out[0].t;
    int64_t size[RUSH_MAXDIM + 1];
    memcpy(size, in[0].ints, sizeof *size * (size_t)nd);
    size[nd] = nd + 1;
    rush_tensor *grid = T("view", V(rush_contiguous(to) ? to : rush_tensor_new(to->dtype, to->device, 2, to->size)), rush_v_ints(size, (size_t)nd + 1));
    for (int d = 0; d <= nd && grid; ++d) { /* x is the last dimension of space */
        const int64_t n = d < nd ? size[nd - 1 - d] : 1;
        rush_tensor *k = T("arange", V(n), rush_v_dtype(RUSH_F64), ON(to)), *part = T("select.int", V(grid), V(-1), V((int64_t)d));
        if (d == nd) k = add(k, 1);
        else k = n < 2 ? mul(k, 0) : I_(in[1]) ? sub(div_(mul(k, 2), (double)(n - 1)), 1) : sub(div_(add(mul(k, 2), 1), (double)n), 1);
        for (int behind = 0; behind < d && d < nd && k; ++behind) k = unsqueeze(k, -1);
        if (!k || !part || rush_copy_into(part, T("expand", V(k), rush_v_ints(size, (size_t)nd)))) return;
    }
    if (grid && !rush_contiguous(to)) rush_copy_into(to, T("view", V(grid), rush_v_ints(to->size, 2)));
}

static rush_op op_points = {
    .schema = "_affine_points(int[] size, bool align_corners, ScalarType dtype, Device device) -> Tensor",
    .doc = "The places of the pixels of a picture, from -1 to 1, each followed by 1: what affine_grid_generator multiplies.", .shape = points_shape,
    .cpu = points_cpu, .flags = RUSH_NO_GRAD | RUSH_HIDDEN,
};

static rush_tensor *base_points(const int64_t *space, int nd, bool align, const rush_tensor *like)
{
    return T("_affine_points", rush_v_ints(space, (size_t)nd), V(align), rush_v_dtype(like->dtype), (rush_value){.kind = RUSH_V_DEVICE, .device = like->device});
}

static int affine_check(const rush_value size, int *nd)
{
    RUSH_CHECK(size.n == 4 || size.n == 5, RUSH_RUNTIME_ERROR, "AffineGridGenerator needs 4d (spatial) or 5d (volumetric) inputs.");
    *nd = (int)size.n - 2;
    return 0;
}

static int affine_grid_run(const rush_op *op, const rush_value *in, rush_value *out)
{
    int nd = 0;
    rush_tensor *theta = in[0].t;
    if (affine_check(in[1], &nd)) return -1;
    const int64_t *size = in[1].ints;
    RUSH_CHECK(theta->ndim == 3 && theta->size[0] == size[0] && theta->size[1] == nd && theta->size[2] == nd + 1, RUSH_RUNTIME_ERROR,
               "Expected a batch of %dD affine matrices of shape Nx%dx%d for size %s. Got %s.", nd, nd, nd + 1, rush_shape_text((int)in[1].n, size),
               rush_shape_of(theta));
    rush_tensor *base = base_points(size + 2, nd, I_(in[2]), theta);
    if (!base) return -1;
    base = T("expand", V(unsqueeze(base, 0)), INTS(size[0], base->size[0], base->size[1]));
    int64_t shape[5] = {size[0]};
    memcpy(shape + 1, size + 2, sizeof *shape * (size_t)nd);
    shape[nd + 1] = nd;
    return rush_result(out, T("view", V(T("bmm", V(base), V(transpose(theta, 1, 2)))), rush_v_ints(shape, (size_t)nd + 2)));
}

/* Its own, though it is made of products: the grid of one theta can be gone back through more than once. */
static void affine_grid_grad(rush_grads *s)
{
    if (s->g[0] && rush_needs(s, 0)) s->gin[0] = T("affine_grid_generator_backward", V(s->g[0]), s->in[1], s->in[2]);
}

static rush_op op_affine_grid = {
    .schema = "affine_grid_generator(Tensor theta, SymInt[] size, bool align_corners) -> Tensor",
    .doc = "Grids for grid_sampler: the points of an image of this size under the affine maps theta (n, 2, 3) or (n, 3, 4).", .run = affine_grid_run,
    .grad = affine_grid_grad,
};

static int affine_grid_backward_run(const rush_op *op, const rush_value *in, rush_value *out)
{
    int nd = 0;
    rush_tensor *g = in[0].t;
    if (affine_check(in[1], &nd)) return -1;
    const int64_t *size = in[1].ints;
    rush_tensor *base = base_points(size + 2, nd, I_(in[2]), g);
    if (!base) return -1;
    rush_tensor *flat = T("reshape", V(g), INTS(size[0], base->size[0], nd));
    base = T("expand", V(unsqueeze(base, 0)), INTS(size[0], base->size[0], base->size[1]));
    return rush_result(out, transpose(T("bmm", V(transpose(base, 1, 2)), V(flat)), 1, 2));
}

static rush_op op_affine_grid_backward = {
    .schema = "affine_grid_generator_backward(Tensor grad, SymInt[] size, bool align_corners) -> Tensor",
    .doc = "Gradient of affine_grid_generator.", .run = affine_grid_backward_run,
};

RUSH_FAMILY(grid, &op_points, &op_grid_sampler_2d, &op_grid_sampler_2d_backward, &op_grid_sampler_3d, &op_grid_sampler_3d_backward, &op_grid_sampler,
            &op_grid_sampler_twice, &op_affine_grid, &op_affine_grid_backward)
