/* given.c - results that are given: what out= and in-place forms have to look at before, and how a result reaches its place. */
#include "api/api.h"
#include "op/watch.h"
#include "tensor/sparse.h"
#include "tensor/backend.h"

/* A kernel may write `to` while reading the inputs: no input shares memory with it but at exactly the same places (1).
 * 2 is an error; 3, where that is not known, goes by way of a result of its own, as does what a conjugate or negative view of
 * the place would be read for after it is overwritten. */
static int worst_overlap(const rush_op *op, const rush_value *in, const rush_tensor *to)
{
    int worst = 0;
    for (uint64_t left = op->tensor_args; left; left &= left - 1) {
        int i = __builtin_ctzll(left);
        const rush_value *v = &in[i];
        bool apart = i && op->flags & RUSH_APART, number = op->flags & RUSH_FILLS && v->kind == RUSH_V_TENSOR && !v->t->ndim;
        int how = v->kind == RUSH_V_TENSOR && (v->t != to || apart) && !v->t->layout && !number ? rush_overlap(to, v->t) : 0;
        if (how == 1 && apart) how = 2;
        if (how == 2 && v->t->flags & (RUSH_T_CONJ | RUSH_T_NEG)) how = 3;
        if (how == 2) return 2;
        if (how > worst) worst = how;
    }
    return worst;
}

static int overlaps_itself(void)
{
    return rush_fail(RUSH_RUNTIME_ERROR, "unsupported operation: more than one element of the written-to tensor refers to a single memory location. "
                                         "Please clone() the tensor before performing the operation.");
}

static bool is_argument(const rush_op *op, const rush_value *in, const rush_tensor *to)
{
    for (uint64_t left = op->tensor_args; left; left &= left - 1)
        if (T_(in[__builtin_ctzll(left)]) == to) return true;
    return false;
}

int rush_given_check(rush_form form, const rush_op *op, const rush_value *in, const rush_value *out)
{
    bool inplace = form == RUSH_FORM_INPLACE;
    if (!op->run && op->flags & RUSH_STRIDED_OUT && out[0].kind == RUSH_V_TENSOR) {
        int shared = worst_overlap(op, in, out[0].t);
        bool folded = rush_self_overlap(out[0].t), lazy = out[0].t->flags & (RUSH_T_CONJ | RUSH_T_NEG); /* not all kernels write these */
        if (op->nout == 1 && !folded && !lazy && shared < 2) return !inplace && is_argument(op, in, out[0].t) ? 2 : 1;
        if (folded && inplace && op->flags & RUSH_FILLS) {
            rush_log(1, "Use of %s_ on expanded tensors is deprecated. Please clone() the tensor before performing this operation. This also applies "
                        "to advanced indexing e.g. tensor[mask] = scalar", op->base);
            return 1;
        }
        if (folded) return overlaps_itself();
        if (shared == 2) return rush_overlaps_input();
    }
    if (inplace && out[0].kind == RUSH_V_TENSOR && rush_self_overlap(out[0].t)) return overlaps_itself();
    for (int i = 0; !inplace && i < op->nout; ++i) {
        const rush_tensor *to = out[i].kind == RUSH_V_TENSOR ? out[i].t : NULL;
        if (!to || to->layout || !to->numel) continue;
        if (rush_self_overlap(to)) return overlaps_itself();
        if (worst_overlap(op, in, to) == 2) return rush_overlaps_input();
    }
    return 0;
}

int rush_given_asked_dtype(const rush_op *op, rush_dtype asked, const rush_tensor *to)
{
    if (asked == to->dtype) return 0;
    return !op->tensor_args ? rush_fail(RUSH_RUNTIME_ERROR, "dtype %s does not match dtype of out parameter (%s)", rush_dtype_word(asked), rush_dtype_word(to->dtype))
                            : rush_fail(RUSH_RUNTIME_ERROR, "Expected out tensor to have dtype %s, but got %s instead", rush_dtypes[asked].c_type, rush_dtypes[to->dtype].c_type);
}

const rush_value *rush_given_dtype(const rush_op *op, const rush_value *in, const rush_value *out, rush_value *room)
{
    int dtype = rush_op_arg(op, "dtype");
    if ((op->flags & (RUSH_OUT_CASTS | RUSH_OUT_KIND)) != RUSH_OUT_CASTS || dtype < 0 || op->args[dtype].type != RUSH_A_DTYPE || HAS(in[dtype]) || out[0].kind != RUSH_V_TENSOR || !out[0].t) return in;
    if (rush_dtypes[out[0].t->dtype].category > 1) return in;
    memcpy(room, in, sizeof *in * op->nargs);
    room[dtype] = rush_v_dtype(out[0].t->dtype);
    return room;
}

/* A dtype= that contradicts out=. Without tensor arguments, as in zeros(), the device and layout count as well. */
int rush_given_asked(const rush_op *op, const rush_value *in, const rush_tensor *to)
{
    int dtype = rush_op_arg(op, "dtype"), device = rush_op_arg(op, "device"), layout = rush_op_arg(op, "layout");
    bool makes = !op->tensor_args;
    bool asks = dtype >= 0 && in[dtype].kind == RUSH_V_DTYPE && (op->args[dtype].def.kind != RUSH_V_DTYPE || op->args[dtype].def.i != in[dtype].i);
    if (asks && rush_given_asked_dtype(op, (rush_dtype)in[dtype].i, to)) return -1;
    if (makes && device >= 0 && in[device].kind == RUSH_V_DEVICE && !rush_same_device(rush_device_resolve(in[device].device), to->device))
        return rush_fail(RUSH_RUNTIME_ERROR, "device type %s does not match device type of out parameter (%s)", rush_device_text(in[device].device), rush_device_text(to->device));
    if (makes && layout >= 0 && in[layout].kind == RUSH_V_LAYOUT && in[layout].i != to->layout)
        return rush_fail(RUSH_RUNTIME_ERROR, "layout %s does not match layout of out parameter (%s)", rush_layout_word((int)in[layout].i), rush_layout_word(to->layout));
    return 0;
}

static int check_apart(const rush_op *op, const rush_value *in, const rush_tensor *to)
{
    for (int i = 0; i < op->nargs; ++i)
        if (in[i].kind == RUSH_V_TENSOR && to->numel && in[i].t == to) return rush_overlaps_input();
    return 0;
}

static int check_sizes(const rush_tensor *to, const rush_tensor *from)
{
    RUSH_CHECK(rush_same_sizes(to, from), RUSH_RUNTIME_ERROR, "output with shape %s doesn't match the broadcast shape %s", rush_shape_of(to),
               rush_shape_of(from));
    return 0;
}

int rush_given_fits(const rush_tensor *self, const rush_tensor *result)
{
    return check_sizes(self, result) || rush_out_takes(rush_now.op, true, result->dtype, self) ? -1 : 0;
}

static int give(rush_tensor *to, rush_tensor *from, bool inplace)
{
    if (to == from) return 0;
    if (inplace && check_sizes(to, from)) return -1;
    if (rush_out_takes(rush_now.op, inplace, from->dtype, to)) return -1;
    if (to->layout || from->layout) return rush_sparse_give(to, from, inplace);
    if (!rush_same_sizes(to, from)) {
        if (!rush_now.op || rush_now.op->tensor_args) rush_warn_of_resize(to, from->ndim, from->size);
        if (rush_tensor_resize(to, from->ndim, from->size)) return -1;
        if (from->flags & RUSH_T_DENSE && rush_tensor_reshape_inplace(to, from->ndim, from->size, from->stride, to->offset)) return -1; /* channels_last, say */
    }
    return rush_copy_into(to, from);
}

int rush_given_fill(rush_form form, const rush_op *op, const rush_value *in, rush_value *out, const rush_value *fresh)
{
    bool inplace = form == RUSH_FORM_INPLACE;
    for (int i = 0; i < op->nout; ++i) {
        if (out[i].kind != RUSH_V_TENSOR) {
            out[i] = fresh[i];
        } else if (fresh[i].kind == RUSH_V_TENSOR) {
            if (!inplace && op->flags & RUSH_OUT_APART && check_apart(op, in, out[i].t)) return -1;
            if (give(out[i].t, fresh[i].t, inplace)) return -1;
        }
    }
    return 0;
}

static rush_tensor *original(rush_tensor *t)
{
    if (rush_is_watched(t)) return T("clone", V(t));
    if (t->layout) return rush_sparse_alias(t); /* its parts stay as they are */
    rush_tensor *copy = rush_tensor_new_like(t, t->dtype, t->device, RUSH_PRESERVE);
    return copy && !rush_copy_into(copy, t) ? copy : NULL;
}

int rush_given_keep(const rush_op *op, const rush_value *in, rush_value *values)
{
    memcpy(values, in, sizeof *in * op->nargs);
    /* Of the changed tensor as another argument, as in x.mul_(x), the memory alone: with its history the node would keep itself. */
    for (uint64_t left = op->saves_in & op->tensor_args & ~(uint64_t)1; left; left &= left - 1) {
        int i = __builtin_ctzll(left);
        if (in[i].kind != RUSH_V_TENSOR || in[i].t != in[0].t || in[0].t->layout) continue;
        if (!(values[i].t = rush_tensor_detach(in[0].t))) return -1;
    }
    if (!rush_saves_self(op, in)) return 0;
    if (!(values[0].t = original(in[0].t))) return -1;
    rush_same_history(values[0].t, in[0].t);
    return rush_failed() ? -1 : 0;
}

int rush_given_others(const rush_op *op, const rush_value *in)
{
    for (int k = 0; k < op->nargs; ++k) {
        if (!op->args[k].written || (k == 0 && !op->args[k].list)) continue;
        rush_tensor *single = T_(in[k]), **t = in[k].kind == RUSH_V_TENSORS ? in[k].tensors : &single;
        uint32_t n = in[k].kind == RUSH_V_TENSORS ? in[k].n : single != NULL;
        for (uint32_t i = 0; i < n; ++i) {
            if (rush_inplace_check(t[i], rush_wants_grad(t[i]))) return -1;
            rush_version_bump(t[i]);
        }
    }
    return 0;
}
