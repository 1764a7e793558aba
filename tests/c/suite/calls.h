/* calls.h - a call of any operation, with arguments made from its schema, forward and backward. */
#ifndef CALLS_H
#define CALLS_H

#include "suite.h"
#include "op/op.h"

static rush_device calls_device = {RUSH_CPU, -1}; /* the device of the tensors */

/* Small and square; matrices are positive definite, so that most operations take them; integers where the name says so.
 * Not leaves, so that they may be changed in place. */
static rush_tensor *operand_here(const rush_arg *a, int rank)
{
    static const char *const whole[] = {"index", "indices", "target", "mask", "condition", "offsets", "lengths"};
    double x[81];
    for (int i = 0; i < 81; i++) x[i] = (double[]){2, 0.3, 0.1, 0.3, 1.5, 0.2, 0.1, 0.2, 1.2}[i % 9];
    rush_tensor *t = rush_from_data(x, RUSH_F64, rank, (int64_t[]){3, 3, 3, 3});
    for (size_t k = 0; k < RUSH_COUNT(whole); k++)
        if (!strcmp(a->name, whole[k])) return T("to.dtype", V(t), rush_v_dtype(strcmp(whole[k], "mask") && strcmp(whole[k], "condition") ? RUSH_I64 : RUSH_BOOL));
    return T("mul.Scalar", V(rush_requires_grad_set(t, true)), V(1.0));
}

static rush_tensor *operand(const rush_arg *a, int rank)
{
    rush_tensor *t = operand_here(a, rank);
    return calls_device.type == RUSH_CPU ? t : T("_to_copy", V(t), RUSH_NONE, RUSH_NONE, ((rush_value){.kind = RUSH_V_DEVICE, .device = calls_device}));
}

static rush_value argument(const rush_arg *a, int rank)
{
    static rush_tensor *list[2];
    static const int64_t dims[] = {0, 1, 2, 3, 4, 5}, sizes[] = {3, 3, 3, 3, 3, 3}, yes[] = {1, 1, 1, 1, 1, 1};
    if (a->has_default) return a->def;
    if (a->optional) return RUSH_NONE;
    if (a->list && a->type == RUSH_A_TENSOR) return list[0] = operand(a, rank), list[1] = operand(a, rank), rush_v_tensors(list, 2);
    if (a->list && a->type == RUSH_A_INT) return rush_v_ints(strncmp(a->name, "dim", 3) ? sizes : dims, a->fixed > 0 ? a->fixed : 2);
    if (a->list) return rush_v_ints(yes, a->fixed > 0 ? a->fixed : 2);
    switch (a->type) {
    case RUSH_A_TENSOR: return V(operand(a, rank));
    case RUSH_A_INT: return V((int64_t)1);
    case RUSH_A_BOOL: return V(false);
    case RUSH_A_FLOAT:
    case RUSH_A_SCALAR: return V(0.5);
    case RUSH_A_STRING: return rush_v_string("floor");
    case RUSH_A_DTYPE: return rush_v_dtype(RUSH_F64);
    default: return RUSH_NONE;
    }
}

static int call(const rush_op *op, int rank)
{
    rush_value in[64], out[RUSH_MAXOUT] = {0};
    rush_tensor *roots[RUSH_MAXOUT], *seeds[RUSH_MAXOUT];
    for (int i = 0; i < op->nargs; i++) in[i] = argument(&op->args[i], rank);
    if (rush_call(op, in, out)) return -1;
    int n = 0;
    for (int i = 0; i < op->nout; i++)
        if (out[i].kind == RUSH_V_TENSOR && rush_requires_grad(out[i].t)) {
            seeds[n] = T("ones_like", V(out[i].t));
            roots[n++] = out[i].t;
        }
    return n ? rush_backward_full(n, roots, seeds, false, false) : 0;
}

#endif
