/* call.c - rush_call, the one road that every operation takes.
 *
 * Check that no error is pending; autocast the arguments; look at all of them once (device, gradient, layout); run (shape
 * rule, then the device's kernel, or the composite's function); record a node if a gradient is wanted; tell the profiler.
 * In-place and out= forms take the same way with results that are given. Read this file first.
 */
#include "api/api.h"
#include "op/profile.h"
#include "tensor/backend.h"
#include "op/watch.h"
#include "tensor/sparse.h"

#define SLOW_MODES (RUSH_MODE_AUTOCAST | RUSH_MODE_PROFILE)

/* What one pass over the tensor arguments finds. */
typedef struct survey {
    const rush_tensor *first; /* the one whose device decides */
    bool mixed;               /* a 0-d CPU tensor goes with tensors of another device */
    bool wants_grad;
    uint32_t special;         /* layouts of all together, and RUSH_T_WATCHED: 0 when all are plain */
} survey;

static int two_devices(const rush_tensor *a, const rush_tensor *b)
{
    return rush_fail(RUSH_RUNTIME_ERROR, "Expected all tensors to be on the same device, but found at least two devices, %s and %s!",
                     rush_device_text(a->device), rush_device_text(b->device));
}

static inline int see(survey *s, const rush_op *op, const rush_tensor *t)
{
    if (!t) return 0;
    s->special |= t->layout | (t->flags & RUSH_T_WATCHED);
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

/* `to` is the tensor that is to be written, or NULL: it has to be where the operation runs. */
static inline int survey_args(survey *s, const rush_op *op, const rush_value *in, const rush_tensor *to)
{
    for (uint64_t left = op->tensor_args; left; left &= left - 1) {
        const rush_value *v = &in[__builtin_ctzll(left)];
        if (v->kind == RUSH_V_TENSOR) {
            if (see(s, op, v->t)) return -1;
        } else if (v->kind == RUSH_V_TENSORS) {
            for (uint32_t k = 0; k < v->n; ++k)
                if (see(s, op, v->tensors[k])) return -1;
        }
    }
    if (RUSH_UNLIKELY(to && s->first && !rush_same_device(to->device, s->first->device)) && !(op->flags & RUSH_CROSS_DEVICE)) return two_devices(s->first, to);
    return 0;
}

static const rush_tensor *any_result(const rush_op *op, const rush_value *out)
{
    for (int i = 0; i < op->nout; ++i) {
        if (out[i].kind == RUSH_V_TENSOR) return out[i].t;
        if (out[i].kind == RUSH_V_TENSORS && out[i].n) return out[i].tensors[0];
    }
    return NULL;
}

/* Nothing goes in and nothing comes out, though loops over some of the dimensions could take long. */
static bool all_empty(const rush_op *op, const rush_value *in, const rush_value *out)
{
    for (int i = 0; i < op->nargs; ++i)
        if (in[i].kind == RUSH_V_TENSORS || (in[i].kind == RUSH_V_TENSOR && in[i].t->numel)) return false;
    for (int i = 0; i < op->nout; ++i)
        if (out[i].kind != RUSH_V_TENSOR || out[i].t->numel) return false;
    return true;
}

static int compute(const rush_op *op, const survey *s, const rush_value *in, rush_value *out)
{
    RUSH_CHECK(op->shape, RUSH_NOT_IMPLEMENTED, "the operation has no shape rule");
    if (op->shape(op, in, out)) return -1;
    if (RUSH_UNLIKELY(op->flags & RUSH_SIDE_EFFECT) && rush_given_others(op, in)) return -1;
    const rush_tensor *t = any_result(op, out);
    if (RUSH_UNLIKELY(s->mixed) && t && !rush_same_device(t->device, s->first->device)) return two_devices(s->first, t);
    if (!t) t = s->first;
    if (RUSH_UNLIKELY(t && t->device.type != RUSH_CPU)) return rush_run_on(t->device, op, in, out);
    if (RUSH_UNLIKELY(t && !t->numel) && all_empty(op, in, out)) return 0;
    if (RUSH_LIKELY(op->cpu != NULL)) {
        uint32_t mode = rush_now.mode;
        rush_now.mode = (mode | RUSH_MODE_NO_GRAD) & ~(uint32_t)RUSH_MODE_AUTOCAST; /* operations that a kernel calls are its own affair */
        op->cpu(op, in, out);
        rush_now.mode = mode;
        return rush_failed() ? -1 : 0;
    }
    if (op->flags & (RUSH_VIEW | RUSH_ANY_DEVICE)) return 0;
    return rush_fail(RUSH_NOT_IMPLEMENTED, "there is no kernel for the CPU");
}

/* Runs with results out[i].t given where they are tensors. A kernel that can writes them itself; a sparse form that says
 * RUSH_STRIDED_OUT may, in place, write its first result itself. */
static int compute_into(rush_form form, const rush_op *op, const survey *s, const rush_value *in, rush_value *out, bool sparse)
{
    rush_value fresh[RUSH_MAXOUT] = {0};
    bool inplace = form == RUSH_FORM_INPLACE;
    int itself = sparse ? 0 : rush_given_check(form, op, in, out);
    if (itself < 0) return -1;
    if (sparse && inplace && op->flags & RUSH_STRIDED_OUT) fresh[0] = out[0];
    uint32_t mode = rush_now.mode;
    rush_now.mode |= !itself ? RUSH_MODE_NO_GRAD : inplace ? RUSH_MODE_INPLACE : 0;
    int failed = op->run ? op->run(op, in, fresh) : compute(op, s, in, itself ? out : fresh);
    rush_now.mode = mode;
    if (failed || rush_failed()) return -1;
    return itself ? 0 : rush_given_fill(form, op, in, out, fresh);
}

/* ---- argument 0 is changed: in-place forms, and records such as copy_ and normal_ whose schema says so ---- */

static bool writes_self(const rush_op *op)
{
    return op->nargs && op->args[0].written && !op->args[0].list;
}

/* ---- the road ---- */

static int check_out(survey *s, const rush_op *op, const rush_value *in, const rush_value *out)
{
    for (int i = 0; i < op->nout; ++i) {
        const rush_tensor *to = T_(out[i]);
        if (!to) continue;
        s->special |= to->layout | (to->flags & RUSH_T_WATCHED);
        if (rush_given_asked(op, in, to)) return -1;
        RUSH_CHECK(rush_now.mode & RUSH_MODE_NO_GRAD || !(s->wants_grad || rush_wants_grad(to)), RUSH_RUNTIME_ERROR,
                   "functions with out=... arguments don't support automatic differentiation, but one of the arguments requires grad.");
    }
    return 0;
}

static int check_self(const rush_op *op, const rush_value *in, bool with_grad)
{
    RUSH_CHECK(op->nargs && in[0].kind == RUSH_V_TENSOR, RUSH_TYPE_ERROR, "the operation has no in-place form");
    if (rush_inplace_check(in[0].t, with_grad)) return -1;
    bool recorded = with_grad && !(rush_now.mode & (RUSH_MODE_NO_GRAD | RUSH_MODE_INFERENCE));
    for (int i = 0; recorded && i < op->nargs; ++i) /* histories are read, and may turn out to be no more, before anything is changed */
        if (in[i].kind == RUSH_V_TENSOR && in[i].t->base && !rush_grad_fn(in[i].t) && rush_failed()) return -1;
    return 0;
}

/* Records what has run, and says so to whoever looks at versions. */
static inline __attribute__((always_inline)) int finish(rush_form form, const rush_op *op, const rush_value *in, const rush_value *saved, rush_value *out, bool changes, bool wants)
{
    if (form == RUSH_FORM_OUT) {
        for (int i = 0; i < op->nout; ++i)
            if (out[i].kind == RUSH_V_TENSOR) rush_version_bump(out[i].t);
        return 0;
    }
    if (changes) {
        rush_version_bump(in[0].t);
        out[0] = rush_v_tensor(in[0].t);
        return wants ? rush_record(op, in, saved, out, in[0].t) : 0;
    }
    if (op->flags & RUSH_VIEW) rush_view_links(op, in, out);
    if (!wants || (op->run && T_(out[0]) && T_(out[0]) == T_(in[0]))) return 0; /* the latter: nothing was done */
    return rush_record(op, in, in, out, NULL);
}

static inline __attribute__((always_inline)) int road(rush_form form, const rush_op *op, const rush_value *in, rush_value *out)
{
    rush_value values[64];
    survey s = {0};
    bool changes = form == RUSH_FORM_INPLACE || (form == RUSH_FORM_CALL && writes_self(op)), sparse = false, watched = false;
    if (survey_args(&s, op, in, changes && op->nargs ? T_(in[0]) : op->nout ? T_(out[0]) : NULL)) return -1;
    if (form == RUSH_FORM_OUT && check_out(&s, op, in, out)) return -1;
    if (RUSH_UNLIKELY(s.special | (rush_now.mode & RUSH_MODE_WATCH))) {
        watched = (s.special >= RUSH_ELSEWHERE || rush_now.mode & RUSH_MODE_WATCH) && !(rush_now.mode & RUSH_MODE_UNWATCHED);
        sparse = s.special % RUSH_ELSEWHERE;
        if (sparse && !(op = rush_sparse_form(op, in))) return -1;
    }
    bool whole = watched && op->flags & (RUSH_WHOLE | RUSH_NO_GRAD), records_itself = whole && op->run && !op->grad;
    bool wants = s.wants_grad && !(rush_now.mode & (RUSH_MODE_NO_GRAD | RUSH_MODE_INFERENCE)) && !(op->flags & RUSH_NO_GRAD);
    changes = changes && (form == RUSH_FORM_INPLACE || !op->run || sparse);
    if (changes && check_self(op, in, s.wants_grad)) return -1;
    rush_rule run = watched && op->open && form == RUSH_FORM_CALL ? op->open : op->grad || whole ? NULL : op->run;
    if (run && form != RUSH_FORM_OUT && !(sparse && form == RUSH_FORM_INPLACE)) {
        if (rush_composite_opened(form, op, run, in, out, wants)) return -1;
        return form == RUSH_FORM_INPLACE ? 0 : finish(form, op, in, in, out, changes, false);
    }
    RUSH_CHECK(!sparse || form == RUSH_FORM_CALL || !wants || op->grad, RUSH_NOT_IMPLEMENTED, "a derivative in place, of tensors of a sparse layout");
    const rush_value *saved = in;
    if (changes && wants) {
        if (rush_given_keep(op, in, values)) return -1;
        saved = values;
    }
    if (form == RUSH_FORM_INPLACE) out[0] = in[0];
    int failed = watched ? rush_watched(form, op, in, out, !records_itself, wants) : 1;
    if (RUSH_LIKELY(failed > 0)) {
        RUSH_CHECK(!(s.special & RUSH_ELSEWHERE), RUSH_NOT_IMPLEMENTED, "the tensor has no elements of its own: its object was not asked");
        if (form != RUSH_FORM_CALL) failed = compute_into(form, op, &s, in, out, sparse);
        else failed = op->run ? rush_composite_run(op, op->run, in, out, records_itself) : compute(op, &s, in, out);
    }
    return failed ? -1 : finish(form, op, in, saved, out, changes, wants && !records_itself);
}

static int slow_road(rush_form form, const rush_op *op, const rush_value *in, rush_value *out)
{
    rush_value room[64];
    uint32_t mode = rush_now.mode;
    if (mode & RUSH_MODE_AUTOCAST && form != RUSH_FORM_OUT && !(in = rush_autocast_args(op, in, room))) return -1;
    if (!(mode & RUSH_MODE_PROFILE)) return road(form, op, in, out);
    bool recorded = !(mode & RUSH_MODE_NO_GRAD);
    rush_profile_event e = {.how = (rush_profile_how)form, .op = op, .in = in, .out = out, .sequence = recorded ? (int64_t)rush_node_clock() : -1};
    rush_profile_tell(&e, true);
    int failed = road(form, op, in, out);
    rush_profile_tell(&e, false);
    return failed;
}

/* Again, with floats for the integers that were given in their place. */
static int with_floats(rush_form form, const rush_op *op, const rush_value *in, rush_value *out)
{
    rush_value values[64];
    memcpy(values, in, sizeof *in * op->nargs);
    for (int i = 0; i < op->nargs; ++i)
        if (op->args[i].type == RUSH_A_FLOAT && (in[i].kind == RUSH_V_INT || in[i].kind == RUSH_V_BOOL)) values[i] = rush_v_float((double)in[i].i);
    return form == RUSH_FORM_CALL ? rush_call(op, values, out) : form == RUSH_FORM_OUT ? rush_call_out(op, values, out) : rush_call_inplace(op, values, out);
}

static inline __attribute__((always_inline)) int enter(rush_form form, const rush_op *op, const rush_value *in, rush_value *out)
{
    if (rush_failed()) return -1;
    if (RUSH_UNLIKELY(!op || (!out && op->nout) || (!in && op->nargs))) return rush_fail(RUSH_TYPE_ERROR, op ? "a call without values or without room for results" : "there is no such operation");
    int wrong = rush_args_check(op, in);
    if (RUSH_UNLIKELY(wrong)) return wrong > 0 ? with_floats(form, op, in, out) : -1;
    const rush_op *caller = rush_now.op;
    size_t mark = rush_now.nparked;
    rush_now.op = op;
    if (form != RUSH_FORM_OUT && op->nout) {
        out[0] = RUSH_NONE; /* most have one: no loop, which would be a call of memset */
        for (int i = 1; i < op->nout; ++i) out[i] = RUSH_NONE;
    }
    int failed = RUSH_UNLIKELY(rush_now.mode & SLOW_MODES) ? slow_road(form, op, in, out) : road(form, op, in, out);
    if (failed) rush_scope_close(mark);
    else if (rush_now.nparked != mark && (rush_now.nparked != mark + 1 || rush_now.parked[mark] != T_(out[0]))) rush_scope_leave(mark, op->nout, out);
    rush_now.op = caller;
    return failed ? -1 : 0;
}

int rush_call(const rush_op *op, const rush_value *in, rush_value *out) { return enter(RUSH_FORM_CALL, op, in, out); }
int rush_call_inplace(const rush_op *op, const rush_value *in, rush_value *out) { return enter(RUSH_FORM_INPLACE, op, in, out); }
int rush_call_out(const rush_op *op, const rush_value *in, rush_value *out) { return enter(RUSH_FORM_OUT, op, in, out); }
