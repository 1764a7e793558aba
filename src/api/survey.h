/* survey.h - the one look that the road takes at the arguments of a call (call.c). */
#ifndef RUSH_API_SURVEY_H
#define RUSH_API_SURVEY_H
#include "api/api.h"
#include "tensor/backend.h"

/* What one pass over the tensor arguments finds. */
typedef struct survey {
    const rush_tensor *first; /* the one whose device decides */
    bool mixed;               /* a 0-d CPU tensor goes with tensors of another device */
    bool wants_grad;
    uint32_t special;         /* layouts of all together, RUSH_T_WATCHED and RUSH_T_HISTORY_BELOW: 0 when all are plain */
} survey;

static inline int two_devices(const rush_tensor *a, const rush_tensor *b)
{
    return rush_fail(RUSH_RUNTIME_ERROR, "Expected all tensors to be on the same device, but found at least two devices, %s and %s!",
                     rush_device_text(a->device), rush_device_text(b->device));
}

static inline int see(survey *s, const rush_op *op, const rush_tensor *t)
{
    s->special |= t->layout | (t->flags & (RUSH_T_WATCHED | RUSH_T_HISTORY_BELOW));
    if (!s->wants_grad && (t->ag || t->base)) s->wants_grad = rush_wants_grad(t);
    if (!s->first) {
        s->first = t;
    } else if (RUSH_UNLIKELY(!rush_same_device(t->device, s->first->device))) {
        bool first_is_number = s->first->ndim == 0 && s->first->device.type == RUSH_CPU;
        if (op->flags & RUSH_CROSS_DEVICE) return 0;
        if (!first_is_number && (t->ndim != 0 || t->device.type != RUSH_CPU)) return two_devices(s->first, t);
        if (first_is_number) s->first = t;
        s->mixed = true;
    } else if (s->first->ndim == 0) {
        s->first = t;
    }
    return 0;
}

/* Are the arguments of the kinds that the schema asks for, and what do the tensors among them say? 1: what rush_call_fitted() makes fit. */
static inline __attribute__((always_inline)) int survey_args(survey *s, const rush_op *op, const rush_value *in)
{
    const rush_arg *a = op->args;
    for (const rush_value *v = in, *end = in + op->nargs; v < end; ++v, ++a) {
        unsigned kind = v->kind;
        if (RUSH_UNLIKELY(kind > RUSH_V_OBJECT || !(a->kinds >> kind & 1))) return rush_arg_wrong(op, (int)(v - in), v);
        if (kind == RUSH_V_TENSOR) {
            if (RUSH_UNLIKELY(!v->t || v->t->ndim > RUSH_MAXDIM)) return rush_arg_holds(op, (int)(v - in), v);
            if (see(s, op, v->t)) return -1;
        } else if (kind > RUSH_V_COMPLEX && !(kind == RUSH_V_INTS && v->ints && a->type == RUSH_A_INT)) {
            if (rush_arg_holds(op, (int)(v - in), v)) return -1;
            for (uint32_t k = 0; kind == RUSH_V_TENSORS && k < v->n; ++k)
                if (v->tensors[k] && see(s, op, v->tensors[k])) return -1;
        }
    }
    return RUSH_UNLIKELY(!s->first) && rush_numbers_only(op, in);
}

#endif
