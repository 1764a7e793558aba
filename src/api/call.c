/* call.c - rush_call, the one road that every operation takes.
 *
 * Check that no error is pending; autocast the arguments; look at all of them once (device, gradient, layout); run (shape
 * rule, then the device's kernel, or the composite's function); record a node if a gradient is wanted; tell the profiler.
 * In-place and out= forms take the same way with results that are given. Read this file first.
 */
#include "api/survey.h"
#include "op/later.h"
#include "op/profile.h"
#include "op/watch.h"
#include "tensor/sparse.h"

#define SLOW_MODES (RUSH_MODE_AUTOCAST | RUSH_MODE_PROFILE)

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

static inline __attribute__((always_inline)) int compute(const rush_op *op, const survey *s, const rush_value *in, rush_value *out)
{
    RUSH_CHECK(op->shape, RUSH_NOT_IMPLEMENTED, "the operation has no shape rule");
    bool given = op->nout && out[0].kind != RUSH_V_NONE;
    if (op->shape(op, in, out)) return -1;
    if (RUSH_UNLIKELY(op->flags & RUSH_SIDE_EFFECT) && rush_given_others(op, in)) return -1;
    const rush_tensor *t = any_result(op, out);
    if (RUSH_UNLIKELY(s->mixed) && t && !rush_same_device(t->device, s->first->device)) return two_devices(s->first, t);
    if (!t) t = s->first;
    if (RUSH_UNLIKELY(t && t->device.type != RUSH_CPU)) return rush_now.pending ? rush_run_beside_later(op, t, in, out, given) : rush_run_on(t->device, op, in, out);
    if (RUSH_UNLIKELY(t && !t->numel) && all_empty(op, in, out)) return 0;
    if (RUSH_LIKELY(op->cpu != NULL)) {
        if (RUSH_UNLIKELY(rush_now.pending)) return rush_run_beside_later(op, t, in, out, given);
        return rush_kernel_run(op->cpu, op, in, out);
    }
    if (op->flags & (RUSH_VIEW | RUSH_ANY_DEVICE)) return 0;
    return rush_fail(RUSH_NOT_IMPLEMENTED, "there is no kernel for the CPU");
}

/* Runs with results out[i].t given where they are tensors. A kernel that can writes them itself; a sparse form that says
 * RUSH_STRIDED_OUT may, in place, write its first result itself. */
static __attribute__((noinline)) int compute_into(rush_form form, const rush_op *op, const survey *s, const rush_value *in, rush_value *out, bool sparse)
{
    rush_value fresh[RUSH_MAXOUT] = {0};
    bool inplace = form == RUSH_FORM_INPLACE;
    int itself = sparse ? 0 : rush_given_check(form, op, in, out);
    if (itself < 0) return -1;
    if (sparse && inplace && op->flags & RUSH_STRIDED_OUT) fresh[0] = out[0];
    uint32_t mode = rush_now.mode;
    rush_now.mode |= !itself ? RUSH_MODE_NO_GRAD : inplace ? RUSH_MODE_INPLACE : itself > 1 ? RUSH_MODE_READ_TOO : 0;
    int failed = op->run ? op->run(op, in, fresh) : compute(op, s, in, itself ? out : fresh);
    rush_now.mode = mode;
    if (failed || rush_failed()) return -1;
    return itself ? 0 : rush_given_fill(form, op, in, out, fresh);
}

/* Argument 0 is changed, by records such as copy_ and normal_ whose schema says so. */
static bool writes_self(const rush_op *op)
{
    return op->nargs && op->args[0].written && !op->args[0].list;
}

/* ---- the road ---- */

/* Is a tensor that is to be written where the operation does not run? */
static inline bool elsewhere(const survey *s, const rush_op *op, const rush_tensor *to)
{
    return s->first && !rush_same_device(to->device, s->first->device) && !(op->flags & RUSH_CROSS_DEVICE);
}

static int check_out(survey *s, const rush_op *op, const rush_value *in, const rush_value *out)
{
    for (int i = 0; i < op->nout; ++i) {
        rush_tensor *to = T_(out[i]);
        if (!to) continue;
        s->special |= to->layout | (to->flags & (RUSH_T_WATCHED | RUSH_T_HISTORY_BELOW));
        if (elsewhere(s, op, to)) return two_devices(s->first, to);
        if (rush_given_asked(op, in, to)) return -1;
        RUSH_CHECK(rush_now.mode & RUSH_MODE_NO_GRAD || !(s->wants_grad || rush_wants_grad(to)), RUSH_RUNTIME_ERROR,
                   "functions with out=... arguments don't support automatic differentiation, but one of the arguments requires grad.");
        if (rush_inplace_check(to, false)) return -1;
    }
    return 0;
}

static int check_self(const survey *s, const rush_op *op, const rush_value *in)
{
    RUSH_CHECK(op->nargs && in[0].kind == RUSH_V_TENSOR, RUSH_TYPE_ERROR, "the operation has no in-place form");
    if (elsewhere(s, op, in[0].t)) return two_devices(s->first, in[0].t);
    if (rush_inplace_check(in[0].t, s->wants_grad && !(op->flags & RUSH_NO_GRAD))) return -1;
    bool recorded = s->wants_grad && !(rush_now.mode & (RUSH_MODE_NO_GRAD | RUSH_MODE_INFERENCE));
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
    if (op->flags & RUSH_VIEW && !rush_view_links(op, in, out)) return 0;
    if (!wants || (op->run && T_(out[0]) && T_(out[0]) == T_(in[0]))) return 0; /* the latter: nothing was done */
    return rush_record(op, in, in, out, NULL);
}

/* Nobody was asked who answers for the tensors: may the operation run on what they are themselves? */
static __attribute__((noinline)) int unanswered(rush_form form, const survey *s, const rush_op *op, const rush_value *in, const rush_value *out)
{
    bool lacks = s->special & RUSH_ELSEWHERE;
    for (int i = 0; i < op->nargs && !(op->flags & RUSH_VIEW); ++i) { /* a view reads no elements */
        if (in[i].kind == RUSH_V_TENSOR) lacks |= in[i].t && rush_lacks_data(in[i].t);
        for (uint32_t k = 0; in[i].kind == RUSH_V_TENSORS && k < in[i].n; ++k) lacks |= in[i].tensors[k] && rush_lacks_data(in[i].tensors[k]);
    }
    for (int i = 0; form == RUSH_FORM_OUT && i < op->nout; ++i) lacks |= T_(out[i]) && rush_lacks_data(T_(out[i]));
    RUSH_CHECK(!lacks, RUSH_NOT_IMPLEMENTED, "the tensor has no elements of its own: its object was not asked");
    return 0;
}

/* A view of a tensor without elements is no more than that itself: nobody answers for it, so it lies where its storage does. */
static __attribute__((noinline)) void lie_with_storage(const rush_op *op, rush_value *views)
{
    for (int i = 0; i < op->nout; ++i) {
        bool list = views[i].kind == RUSH_V_TENSORS;
        for (uint32_t k = 0; k < (list ? views[i].n : 1); ++k) {
            rush_tensor *view = list ? views[i].tensors[k] : T_(views[i]);
            if (view && !(view->flags & RUSH_T_WATCHED) && view->storage && view->storage->device.type == RUSH_META) view->device = view->storage->device;
        }
    }
}

static inline __attribute__((always_inline)) int road(rush_form form, const rush_op *op, survey *s, const rush_value *in, rush_value *out)
{
    rush_value values[64];
    bool changes = form == RUSH_FORM_INPLACE || (form == RUSH_FORM_CALL && writes_self(op)), sparse = false, watched = false;
    if (form == RUSH_FORM_OUT && check_out(s, op, in, out)) return -1;
    if (RUSH_UNLIKELY(s->special | (rush_now.mode & RUSH_MODE_WATCH) | rush_watch_all | op->given)) {
        const bool given = rush_watch_all || op->given;
        if (s->special & RUSH_QUANTIZED) return rush_quantized_call(form, op, in, out);
        watched = (s->special >= RUSH_ELSEWHERE || rush_now.mode & RUSH_MODE_WATCH || given) && !(rush_now.mode & RUSH_MODE_UNWATCHED);
        int taken = watched && given ? rush_taken_above(form, op, in, out) : 1;
        if (taken <= 0) return taken;
        sparse = s->special % RUSH_QUANTIZED;
        if (sparse && !(op = rush_sparse_form(op, in))) return -1;
    }
    bool wants = s->wants_grad && !(rush_now.mode & (RUSH_MODE_NO_GRAD | RUSH_MODE_INFERENCE)) && !(op->flags & RUSH_NO_GRAD);
    bool whole = watched && op->flags & (RUSH_WHOLE | RUSH_NO_GRAD), below = watched && s->special & RUSH_T_HISTORY_BELOW;
    if (whole && wants && op->run && !op->grad && s->special >= RUSH_ELSEWHERE && !below) whole = false; /* who answers records nothing: its pieces do */
    bool by_pieces = whole && op->run && !op->grad, records_itself = by_pieces || below;
    changes = changes && (form == RUSH_FORM_INPLACE || !op->run || sparse);
    if (changes && check_self(s, op, in)) return -1;
    if (RUSH_UNLIKELY(rush_later_threads) && (changes || form == RUSH_FORM_OUT)) rush_later_settle_written(op, form, in, out);
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
    if (failed > 0 && by_pieces && form == RUSH_FORM_INPLACE) return rush_composite_opened(form, op, op->run, in, out, wants); /* nobody answered: as ever */
    if (RUSH_LIKELY(failed > 0)) {
        if (s->special & (RUSH_ELSEWHERE | RUSH_T_WATCHED) && unanswered(form, s, op, in, out)) return -1;
        if (form != RUSH_FORM_CALL) failed = compute_into(form, op, s, in, out, sparse);
        else failed = op->run ? rush_composite_run(op, op->run, in, out, records_itself) : compute(op, s, in, out);
        if (RUSH_UNLIKELY(s->special & RUSH_T_WATCHED) && op->flags & RUSH_VIEW && !failed) lie_with_storage(op, out);
    }
    return failed ? -1 : finish(form, op, in, saved, out, changes, wants && !records_itself);
}

static __attribute__((noinline)) int slow_road(rush_form form, const rush_op *op, survey *s, const rush_value *in, rush_value *out)
{
    rush_value room[64];
    uint32_t mode = rush_now.mode;
    if (mode & RUSH_MODE_AUTOCAST && form != RUSH_FORM_OUT) {
        *s = (survey){0};
        const rush_value *given = in;
        if (!(in = rush_autocast_args(op, in, room)) || survey_args(s, op, in)) return -1;
        if (in != given) { /* an operation that autocast has a type for computes in it throughout */
            rush_now.mode &= ~(uint32_t)RUSH_MODE_AUTOCAST;
            int failed = slow_road(form, op, s, in, out);
            rush_now.mode |= RUSH_MODE_AUTOCAST;
            return failed;
        }
    }
    if (!(mode & RUSH_MODE_PROFILE)) return road(form, op, s, in, out);
    bool recorded = !(mode & RUSH_MODE_NO_GRAD);
    rush_profile_event e = {.how = (rush_profile_how)form, .op = op, .in = in, .out = out, .sequence = recorded ? (int64_t)rush_node_clock() : -1};
    rush_profile_tell(&e, true);
    int failed = road(form, op, s, in, out);
    rush_profile_tell(&e, false);
    return failed;
}

static inline __attribute__((always_inline)) int enter(rush_form form, const rush_op *op, const rush_value *in, rush_value *out)
{
    if (rush_failed()) return -1;
    if (RUSH_UNLIKELY(!op || (!out && op->nout) || (!in && op->nargs))) return rush_fail(RUSH_TYPE_ERROR, op ? "a call without values or without room for results" : "there is no such operation");
    survey s = {0};
    int wrong = survey_args(&s, op, in);
    if (RUSH_UNLIKELY(wrong)) return wrong > 0 ? rush_call_fitted(form, op, in, out) : -1;
    const rush_op *caller = rush_now.op;
    size_t mark = rush_now.nparked;
    rush_now.op = op;
    if (form != RUSH_FORM_OUT && op->nout) {
        out[0] = RUSH_NONE; /* most have one: no loop, which would be a call of memset */
        for (int i = 1; i < op->nout; ++i) out[i] = RUSH_NONE;
    }
    int failed = RUSH_UNLIKELY(rush_now.mode & SLOW_MODES) ? slow_road(form, op, &s, in, out) : road(form, op, &s, in, out);
    if (failed) rush_scope_close(mark);
    else if (rush_now.nparked != mark && (rush_now.nparked != mark + 1 || rush_now.parked[mark] != T_(out[0]))) rush_scope_leave(mark, op->nout, out);
    rush_now.op = caller;
    return failed ? -1 : 0;
}

RUSH_HOT int rush_call(const rush_op *op, const rush_value *in, rush_value *out) { return enter(RUSH_FORM_CALL, op, in, out); }
RUSH_HOT int rush_call_inplace(const rush_op *op, const rush_value *in, rush_value *out) { return enter(RUSH_FORM_INPLACE, op, in, out); }
int rush_call_out(const rush_op *op, const rush_value *in, rush_value *out)
{
    rush_value room[64];
    if (op && in && out && op->nout && op->tensor_args) in = rush_given_dtype(op, in, out, room);
    return enter(RUSH_FORM_OUT, op, in, out);
}
