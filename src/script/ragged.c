/* ragged.c - batches of rows with lengths of their own, as far as traces of encoders with a padding mask use them: in programs such a
 * batch is a pair of the padded tensor and the mask of its padding. */
#include "script/builtin.h"
#include "op/formula.h"

/* A program may make any pair. */
static bool is_ragged(const script_call *c)
{
    if (!c->n || c->in[0].kind != SCRIPT_TUPLE || c->in[0].box->n != 2) return false;
    const script_value *item = c->in[0].box->item;
    if (item[0].kind != SCRIPT_TENSOR || item[1].kind != SCRIPT_TENSOR) return false;
    const rush_tensor *t = item[0].t, *padding = item[1].t;
    return t->ndim == 3 && padding->ndim == 2 && padding->dtype == RUSH_BOOL && padding->size[0] == t->size[0] && padding->size[1] == t->size[1];
}

static int pair_of(script_value padded, script_value padding, script_value *out)
{
    const script_value both[] = {padded, padding};
    return give(out, rush_script_list(SCRIPT_TUPLE, 2, both));
}

/* (Tensor t, Tensor mask, bool mask_check=True): of row b of t what the mask has */
FUNCTION(from_mask)
{
    if (c->n < 2 || c->in[0].kind != SCRIPT_TENSOR || c->in[1].kind != SCRIPT_TENSOR) NOT_MINE;
    rush_tensor *t = c->in[0].t, *mask = c->in[1].t;
    RUSH_CHECK(t->ndim == 3 && mask->ndim == 2 && mask->dtype == RUSH_BOOL && mask->size[0] == t->size[0] && mask->size[1] == t->size[1], RUSH_RUNTIME_ERROR,
               "a boolean mask (batch, length) and a tensor (batch, length, width) were expected, but got %s and %s", rush_shape_of(mask), rush_shape_of(t));
    int failed = -1;
    rush_scope() {
        script_value padding = rush_script_of_tensor(logical_not(mask));
        if (!rush_failed()) failed = pair_of(c->in[0], padding, out);
        rush_script_drop(padding);
    }
    return failed;
}

/* As for a tensor, with the padding as its mask. */
FUNCTION(encoder)
{
    enum { MASK = 18, MASK_TYPE, ALL };
    if (!is_ragged(c)) NOT_MINE;
    RUSH_CHECK(c->n >= MASK && c->n <= ALL && !rush_script_argument(c, MASK, "mask"), RUSH_RUNTIME_ERROR, "rows with lengths of their own take no mask");
    script_value in[ALL], y = {.kind = SCRIPT_UNSET};
    memcpy(in, c->in, MASK * sizeof *in);
    in[0] = c->in[0].box->item[0], in[MASK] = c->in[0].box->item[1], in[MASK_TYPE] = script_of_int(1);
    script_call dense = {.unit = c->unit, .name = c->name, .n = ALL, .depth = c->depth, .in = in};
    if (rush_script_run_op(rush_op_find(c->name), &dense, &y)) return -1;
    int failed = pair_of(y, in[MASK], out);
    rush_script_drop(y);
    return failed;
}

/* (Tensor self, float padding, int[]? output_size=None): as long as the longest row, or of the size that is asked for */
FUNCTION(padded)
{
    const script_value *size = rush_script_argument(c, 2, "output_size");
    if (!is_ragged(c) || c->n < 2 || !script_is_number(c->in[1]) || (size && (size->kind != SCRIPT_LIST || size->box->n != 3))) NOT_MINE;
    rush_tensor *t = c->in[0].box->item[0].t, *padding = c->in[0].box->item[1].t;
    int failed = -1;
    rush_scope() {
        rush_value fill = V(rush_script_double(c->in[1]));
        rush_tensor *lengths = T("sum.dim_IntList", V(logical_not(padding)), INTS(1)), *longest = t->size[0] ? T("amax", V(lengths), INTS(0)) : lengths;
        rush_tensor *y = T("masked_fill.Scalar", V(t), V(unsqueeze(padding, 2)), fill);
        if (y && t->size[0]) y = T("narrow", V(y), V(1), V(0), V((int64_t)rush_number_of(longest)));
        for (int d = 0; y && size && d < 3; ++d) {
            script_value n = size->box->item[d];
            int64_t pad[6] = {0};
            if (n.kind != SCRIPT_INT || n.i < y->size[d]) {
                y = NULL, rush_fail(RUSH_RUNTIME_ERROR, "an output size is less than what is there, %s", rush_shape_of(t));
                break;
            }
            pad[2 * (2 - d) + 1] = n.i - y->size[d];
            y = T("constant_pad_nd", V(y), rush_v_ints(pad, 6), fill);
        }
        script_value v = rush_script_of_tensor(y);
        failed = rush_failed() ? (rush_script_drop(v), -1) : give(out, v);
    }
    return failed;
}

static const struct { const char *name; script_builtin f; } table[] = {
    {"_nested_tensor_from_mask", from_mask}, {"_transformer_encoder_layer_fwd", encoder}, {"to_padded_tensor", padded}};

script_builtin rush_script_ragged(const char *name)
{
    for (size_t i = 0; i < RUSH_COUNT(table); ++i)
        if (!strcmp(table[i].name, name)) return table[i].f;
    return NULL;
}
