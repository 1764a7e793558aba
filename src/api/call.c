/* call.c - rush_call, the one road that every operation takes.
 *
 * Check that no error is pending; autocast the arguments; run (shape rule, then the device's kernel, or the
 * composite's function); record a node if a gradient is wanted; tell the profiler. In-place and out= forms go
 * the same way with results that are given. Read this file first.
 */
#include "api/api.h"
#include "op/profile.h"
#include "tensor/sparse.h"

#define SLOW_MODES (RUSH_MODE_AUTOCAST | RUSH_MODE_PROFILE | RUSH_MODE_TRACE)

/* What one pass over the tensor arguments finds. */
typedef struct survey {
    const rush_tensor *first; /* the one whose device decides */
    bool mixed;               /* a 0-d CPU tensor goes with tensors of another device */
    bool wants_grad;
    uint8_t layouts;          /* of all together: 0 when all are strided */
} survey;

static int two_devices(void)
{
    return rush_fail(RUSH_RUNTIME_ERROR, "Expected all tensors to be on the same device, but found at least two devices");
}

static int see(survey *s, const rush_tensor *t)
{
    if (!t) return 0;
    s->layouts |= t->layout;
    if (!s->wants_grad && (t->ag || t->base)) s->wants_grad = rush_wants_grad(t);
    if (!s->first) {
        s->first = t;
    } else if (RUSH_UNLIKELY(t->device.type != s->first->device.type)) {
        bool first_is_number = s->first->ndim == 0 && s->first->device.type == RUSH_CPU;
        if (!first_is_number && (t->ndim != 0 || t->device.type != RUSH_CPU)) return two_devices();
        if (first_is_number) s->first = t;
        s->mixed = true;
    } else if (s->first->ndim == 0) {
        s->first = t;
    }
    return 0;
}

/* `to` is the tensor that is to be written, or NULL: it has to be where the operation runs. */
static int survey_args(survey *s, const rush_op *op, const rush_value *in, const rush_tensor *to)
{
    for (uint64_t left = op->tensor_args; left; left &= left - 1) {
        const rush_value *v = &in[__builtin_ctzll(left)];
        if (v->kind == RUSH_V_TENSOR) {
            if (see(s, v->t)) return -1;
        } else if (v->kind == RUSH_V_TENSORS) {
            for (uint32_t k = 0; k < v->n; ++k)
                if (see(s, v->tensors[k])) return -1;
        }
    }
    if (RUSH_UNLIKELY(to && s->first && to->device.type != s->first->device.type)) return two_devices();
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

static int compute(const rush_op *op, const survey *s, const rush_value *in, rush_value *out)
{
    RUSH_CHECK(op->shape, RUSH_NOT_IMPLEMENTED, "the operation has no shape rule");
    if (op->shape(in, out)) return -1;
    const rush_tensor *t = any_result(op, out);
    int device = t ? t->device.type : RUSH_CPU;
    if (RUSH_UNLIKELY(s->mixed) && device != s->first->device.type) return two_devices();
    rush_kernel kernel = op->kernel[device];
    if (RUSH_LIKELY(kernel != NULL)) {
        if (device == RUSH_META) return 0;
        kernel(in, out);
        return rush_failed() ? -1 : 0;
    }
    if (device == RUSH_META || op->flags & (RUSH_VIEW | RUSH_ANY_DEVICE)) return 0;
    return rush_fail(RUSH_NOT_IMPLEMENTED, "there is no kernel for this device (type %d)", device);
}

/* Closes the scope of a body but hands its results on to the caller's. */
static void leave(const rush_op *op, rush_value *out, size_t mark)
{
    if (rush_now.nparked == mark) return;
    if (op->nout == 1 && out[0].kind == RUSH_V_TENSOR && rush_now.nparked == mark + 1 && rush_now.parked[mark] == out[0].t) return;
    bool lists = false;
    for (int i = 0; i < op->nout; ++i) {
        if (out[i].kind == RUSH_V_TENSOR) rush_keep(out[i].t);
        else if (out[i].kind == RUSH_V_TENSORS) lists = true;
    }
    if (lists) { /* their arrays live in the scope: leave everything to the caller's */
        for (int i = 0; i < op->nout; ++i)
            if (out[i].kind == RUSH_V_TENSOR) rush_drop(out[i].t);
        return;
    }
    rush_scope_close(mark);
    for (int i = 0; i < op->nout; ++i)
        if (out[i].kind == RUSH_V_TENSOR) rush_park(out[i].t);
}

static void link_views(const rush_op *op, const rush_value *in, rush_value *out)
{
    if (op->flags & RUSH_NO_GRAD || in[0].kind != RUSH_V_TENSOR) return;
    for (int i = 0; i < op->nout; ++i) {
        if (out[i].kind == RUSH_V_TENSOR) rush_view_link(out[i].t, in[0].t);
        else if (out[i].kind == RUSH_V_TENSORS)
            for (uint32_t k = 0; k < out[i].n; ++k) rush_view_link(out[i].tensors[k], in[0].t);
    }
}

/* A composite records itself piece by piece; one that has a derivative of its own runs unrecorded. */
static int run_composite(const rush_op *op, const rush_value *in, rush_value *out)
{
    uint32_t mode = rush_now.mode;
    if (op->grad || op->flags & RUSH_NO_GRAD) rush_now.mode |= RUSH_MODE_NO_GRAD;
    int failed = op->run(in, out);
    rush_now.mode = mode;
    return failed || rush_failed() ? -1 : 0;
}

static int self_changed(const rush_op *op, const rush_value *in, const rush_value *values, rush_value *out, bool wants)
{
    rush_version_bump(in[0].t);
    out[0] = rush_v_tensor(in[0].t);
    return wants ? rush_record(op, in, values, out, in[0].t) : 0;
}

/* Records such as copy_ and normal_, whose schema says that they write their first argument. */
static bool writes_self(const rush_op *op)
{
    return op->nargs && op->args[0].written && !op->args[0].list;
}

static rush_tensor *original(const rush_tensor *t)
{
    if (t->layout) return rush_sparse_alias(t); /* its parts stay as they are */
    rush_tensor *copy = rush_tensor_new_like(t, t->dtype, t->device, RUSH_PRESERVE);
    return copy && !rush_copy_into(copy, t) ? copy : NULL;
}

/* Before argument 0 is overwritten: copies of it, and of what shares its memory, if a derivative will ask for what they were. */
static int keep_original(const rush_op *op, const rush_value *in, rush_value *values)
{
    memcpy(values, in, sizeof *in * op->nargs);
    for (uint64_t left = op->saves_in & op->tensor_args; left; left &= left - 1) {
        int i = __builtin_ctzll(left);
        if (in[i].kind != RUSH_V_TENSOR || in[i].t->storage != in[0].t->storage) continue;
        if (!(values[i].t = original(in[i].t))) return -1;
    }
    return 0;
}

/* ---- tensors of sparse layouts ---- */

static int copy_result(rush_tensor *to, const rush_tensor *from, bool inplace)
{
    if (!rush_same_sizes(to, from)) {
        RUSH_CHECK(!inplace, RUSH_RUNTIME_ERROR, "output with shape %s doesn't match the broadcast shape %s", rush_shape_of(to), rush_shape_of(from));
        if (to->numel)
            rush_log(1, "An output with one or more elements was resized since it had shape %s, which does not match the required output shape %s",
                     rush_shape_of(to), rush_shape_of(from));
        if (rush_tensor_resize(to, from->ndim, from->size)) return -1;
    }
    const rush_dtype_info *a = &rush_dtypes[from->dtype], *b = &rush_dtypes[to->dtype];
    RUSH_CHECK(a->category <= b->category, RUSH_RUNTIME_ERROR, "result type %s can't be cast to the desired output type %s", a->name, b->name);
    return to == from ? 0 : rush_copy_into(to, from);
}

static const rush_tensor *first_sparse(const rush_op *op, const rush_value *in)
{
    for (uint64_t left = op->tensor_args; left; left &= left - 1) {
        const rush_value *v = &in[__builtin_ctzll(left)];
        if (v->kind == RUSH_V_TENSOR && v->t->layout) return v->t;
        for (uint32_t k = 0; v->kind == RUSH_V_TENSORS && k < v->n; ++k)
            if (v->tensors[k] && v->tensors[k]->layout) return v->tensors[k];
    }
    return NULL;
}

/* The record that takes such arguments, or NULL and an error. */
static const rush_op *sparse_form(const rush_op *op, const rush_value *in)
{
    const rush_tensor *t = first_sparse(op, in);
    RUSH_CHECK_NULL(!t || t->parts, RUSH_NOT_IMPLEMENTED, "the elements of a sparse tensor are wanted that were not saved for the derivative");
    if (op->flags & RUSH_ANY_LAYOUT) return op;
    if (op->sparse) return rush_now.op = op->sparse;
    RUSH_CHECK_NULL(t, RUSH_NOT_IMPLEMENTED, "the result cannot be written to a sparse tensor");
    int layout = t->layout;
    rush_fail(RUSH_NOT_IMPLEMENTED, "Could not run 'aten::%s' with arguments from the '%s' backend: the operation is not there for tensors of layout %s.",
              op->name, layout == RUSH_SPARSE_COO ? "SparseCPU" : "SparseCsrCPU", rush_layout_word(layout));
    return NULL;
}

static int run_sparse(const rush_op *op, const rush_value *in, rush_value *out, bool wants)
{
    if (!(op = sparse_form(op, in))) return -1;
    bool self = writes_self(op);
    uint64_t since = wants && op->node ? rush_node_clock() : 0;
    if (self && rush_inplace_check(in[0].t)) return -1;
    if (run_composite(op, in, out)) return -1;
    if (since && !op->grad) rush_record_name(op, out, since);
    wants = wants && op->grad;
    if (self) return self_changed(op, in, in, out, wants);
    return wants ? rush_record(op, in, in, out, NULL) : 0;
}

/* Writes a result to the tensor that was given for it. */
static int give(rush_tensor *to, rush_tensor *from, bool inplace)
{
    if (to == from) return 0;
    if (!to->layout && !from->layout) return copy_result(to, from, inplace);
    RUSH_CHECK(to->layout && from->layout, RUSH_RUNTIME_ERROR, "a result of layout %s cannot be written to a tensor of layout %s",
               rush_layout_word(from->layout), rush_layout_word(to->layout));
    RUSH_CHECK(!inplace || rush_same_sizes(to, from), RUSH_RUNTIME_ERROR, "output with shape %s doesn't match the broadcast shape %s", rush_shape_of(to),
               rush_shape_of(from));
    const rush_dtype_info *a = &rush_dtypes[from->dtype], *b = &rush_dtypes[to->dtype];
    RUSH_CHECK(a->category <= b->category, RUSH_RUNTIME_ERROR, "result type %s can't be cast to the desired output type %s", a->name, b->name);
    if (from->dtype != to->dtype) from = rush_sparse_with(from, rush_cast_copy(from->parts->values, to->dtype));
    return from ? rush_sparse_become(to, from) : -1;
}

/* Runs with results that are given. In place, a form that says RUSH_STRIDED_OUT may write its first result itself. */
static int run_sparse_into(const rush_op *op, const rush_value *in, rush_value *out, bool inplace)
{
    rush_value fresh[RUSH_MAXOUT] = {0};
    if (!(op = sparse_form(op, in))) return -1;
    if (inplace && op->flags & RUSH_STRIDED_OUT) fresh[0] = out[0];
    uint32_t mode = rush_now.mode;
    rush_now.mode |= RUSH_MODE_NO_GRAD;
    int failed = op->run(in, fresh);
    rush_now.mode = mode;
    if (failed || rush_failed()) return -1;
    for (int i = 0; i < op->nout; ++i) {
        if (out[i].kind != RUSH_V_TENSOR) out[i] = fresh[i];
        else if (fresh[i].kind == RUSH_V_TENSOR && give(out[i].t, fresh[i].t, inplace)) return -1;
    }
    return 0;
}

static int run(const rush_op *op, const rush_value *in, rush_value *out)
{
    survey s = {0};
    if (survey_args(&s, op, in, writes_self(op) ? T_(in[0]) : NULL)) return -1;
    bool wants = s.wants_grad && !(rush_now.mode & (RUSH_MODE_NO_GRAD | RUSH_MODE_INFERENCE)) && !(op->flags & RUSH_NO_GRAD);
    if (RUSH_UNLIKELY(s.layouts)) return run_sparse(op, in, out, wants);
    if (op->run) {
        uint64_t since = wants && op->node ? rush_node_clock() : 0;
        if (run_composite(op, in, out)) return -1;
        if (since && !op->grad) rush_record_name(op, out, since);
        if (op->flags & RUSH_VIEW) link_views(op, in, out);
        bool itself = in[0].kind == RUSH_V_TENSOR && out[0].kind == RUSH_V_TENSOR && out[0].t == in[0].t; /* nothing was done */
        return wants && op->grad && !itself ? rush_record(op, in, in, out, NULL) : 0;
    }
    if (writes_self(op)) {
        rush_value values[64];
        const rush_value *saved = in;
        RUSH_CHECK(in[0].kind == RUSH_V_TENSOR, RUSH_TYPE_ERROR, "argument '%s' must be a tensor", op->args[0].name);
        if (rush_inplace_check(in[0].t)) return -1;
        if (wants && keep_original(op, in, values)) return -1;
        if (wants) saved = values;
        if (compute(op, &s, in, out)) return -1;
        return self_changed(op, in, saved, out, wants);
    }
    if (compute(op, &s, in, out)) return -1;
    if (op->flags & RUSH_VIEW) link_views(op, in, out);
    return wants ? rush_record(op, in, in, out, NULL) : 0;
}

static int profiled(rush_profile_how how, int (*body)(const rush_op *, const rush_value *, rush_value *), const rush_op *op,
                    const rush_value *in, rush_value *out)
{
    bool recorded = !(rush_now.mode & RUSH_MODE_NO_GRAD);
    rush_profile_event e = {.how = how, .op = op, .in = in, .out = out, .sequence = recorded ? (int64_t)rush_node_clock() : -1};
    rush_profile_tell(&e, true);
    int failed = body(op, in, out);
    rush_profile_tell(&e, false);
    return failed;
}

static int call_slowly(const rush_op *op, const rush_value *in, rush_value *out)
{
    rush_value room[64];
    uint32_t mode = rush_now.mode;
    if (mode & RUSH_MODE_AUTOCAST) {
        in = rush_autocast_args(op, in, room);
        if (!in) return -1;
    }
    return mode & RUSH_MODE_PROFILE ? profiled(RUSH_PROFILE_CALL, run, op, in, out) : run(op, in, out);
}

int rush_call(const rush_op *op, const rush_value *in, rush_value *out)
{
    if (rush_failed()) return -1;
    const rush_op *caller = rush_now.op;
    size_t mark = rush_now.nparked;
    rush_now.op = op;
    for (int i = 0; i < op->nout; ++i) out[i] = RUSH_NONE;
    int failed = RUSH_UNLIKELY(rush_now.mode & SLOW_MODES) ? call_slowly(op, in, out) : run(op, in, out);
    if (failed) rush_scope_close(mark);
    else leave(op, out, mark);
    rush_now.op = caller;
    return failed ? -1 : 0;
}

/* ---- results that are given ---- */

/* A kernel may write `to` while reading the inputs: no input shares memory with it but at exactly the same places (1).
 * 2 is an error; 3, where that is not known, goes by way of a result of its own. */
static int worst_overlap(const rush_op *op, const rush_value *in, const rush_tensor *to)
{
    int worst = 0;
    for (uint64_t left = op->tensor_args; left; left &= left - 1) {
        const rush_value *v = &in[__builtin_ctzll(left)];
        int how = v->kind == RUSH_V_TENSOR && v->t != to ? rush_overlap(to, v->t) : 0;
        if (how == 2) return 2;
        if (how > worst) worst = how;
    }
    return worst;
}

/* What RUSH_OUT_STRICT asks for. */
static int check_strictly(const rush_op *op, const rush_value *in, const rush_tensor *to, const rush_tensor *from)
{
    RUSH_CHECK(to->dtype == from->dtype, RUSH_RUNTIME_ERROR, "Expected out tensor to have dtype %s, but got %s instead", rush_dtype_name(from->dtype),
               rush_dtype_name(to->dtype));
    for (int i = 0; i < op->nargs; ++i)
        RUSH_CHECK(in[i].kind != RUSH_V_TENSOR || !to->numel || in[i].t != to, RUSH_RUNTIME_ERROR,
                   "unsupported operation: some elements of the input tensor and the written-to tensor refer to a single memory location. "
                   "Please clone() the tensor before performing the operation.");
    return 0;
}

static int overlaps_itself(void)
{
    return rush_fail(RUSH_RUNTIME_ERROR, "unsupported operation: more than one element of the written-to tensor refers to a single memory location. "
                                         "Please clone() the tensor before performing the operation.");
}

static int overlaps_input(void)
{
    return rush_fail(RUSH_RUNTIME_ERROR, "unsupported operation: some elements of the input tensor and the written-to tensor refer to a single "
                                         "memory location. Please clone() the tensor before performing the operation.");
}

/* Runs with results out[i].t given where they are tensors. */
static int run_into(const rush_op *op, const survey *s, const rush_value *in, rush_value *out, bool inplace)
{
    rush_value fresh[RUSH_MAXOUT] = {0}, given[RUSH_MAXOUT];
    memcpy(given, out, sizeof *out * op->nout);
    if (!op->run && op->flags & RUSH_STRIDED_OUT && out[0].kind == RUSH_V_TENSOR) {
        int shared = worst_overlap(op, in, out[0].t);
        if (op->nout == 1 && !rush_self_overlap(out[0].t) && shared < 2) {
            uint32_t mode = rush_now.mode;
            if (inplace) rush_now.mode |= RUSH_MODE_INPLACE;
            int failed = compute(op, s, in, out);
            rush_now.mode = mode;
            return failed;
        }
        if (inplace && rush_self_overlap(out[0].t)) return overlaps_itself();
        if (shared == 2) return overlaps_input();
    }
    for (int i = 0; !inplace && i < op->nout; ++i) {
        if (given[i].kind != RUSH_V_TENSOR || !given[i].t->numel) continue;
        if (rush_self_overlap(given[i].t)) return overlaps_itself();
        if (worst_overlap(op, in, given[i].t) == 2) return overlaps_input();
    }
    uint32_t mode = rush_now.mode;
    rush_now.mode |= RUSH_MODE_NO_GRAD;
    int failed = op->run ? op->run(in, fresh) : compute(op, s, in, fresh);
    rush_now.mode = mode;
    if (failed || rush_failed()) return -1;
    for (int i = 0; i < op->nout; ++i) {
        if (given[i].kind != RUSH_V_TENSOR) out[i] = fresh[i];
        else if (!inplace && op->flags & RUSH_OUT_STRICT && check_strictly(op, in, given[i].t, fresh[i].t)) return -1;
        else if (fresh[i].kind == RUSH_V_TENSOR && copy_result(given[i].t, fresh[i].t, inplace)) return -1;
    }
    return 0;
}

static int call_out(const rush_op *op, const rush_value *in, rush_value *out)
{
    const rush_op *caller = rush_now.op;
    size_t mark = rush_now.nparked;
    rush_now.op = op;
    survey s = {0};
    int failed = survey_args(&s, op, in, out[0].kind == RUSH_V_TENSOR ? out[0].t : NULL);
    for (int i = 0; i < op->nout && !failed; ++i) {
        rush_tensor *to = out[i].kind == RUSH_V_TENSOR ? out[i].t : NULL;
        if (to && !(rush_now.mode & RUSH_MODE_NO_GRAD) && (s.wants_grad || rush_wants_grad(to)))
            failed = rush_fail(RUSH_RUNTIME_ERROR, "functions with out=... arguments don't support automatic differentiation, "
                                                   "but one of the arguments requires grad.");
        if (to) s.layouts |= to->layout;
        if (to && !to->layout && rush_self_overlap(to)) failed = overlaps_itself();
    }
    if (!failed) failed = RUSH_UNLIKELY(s.layouts) ? run_sparse_into(op, in, out, false) : run_into(op, &s, in, out, false);
    for (int i = 0; i < op->nout && !failed; ++i)
        if (out[i].kind == RUSH_V_TENSOR) rush_version_bump(out[i].t);
    if (failed) rush_scope_close(mark);
    else leave(op, out, mark);
    rush_now.op = caller;
    return failed ? -1 : 0;
}

int rush_call_out(const rush_op *op, const rush_value *in, rush_value *out)
{
    if (rush_failed()) return -1;
    return RUSH_UNLIKELY(rush_now.mode & RUSH_MODE_PROFILE) ? profiled(RUSH_PROFILE_OUT, call_out, op, in, out) : call_out(op, in, out);
}

/* A composite in place: its result, which has a history of its own, is copied over argument 0. What its pieces save must
 * outlive that: with a history they get a copy. */
static int composite_inplace(const rush_op *op, const rush_value *in, rush_value *out, bool wants)
{
    rush_value values[64];
    rush_tensor *kept = wants ? T("clone", in[0]) : NULL;
    if (wants && !kept) return -1;
    if (wants) {
        memcpy(values, in, sizeof *in * op->nargs);
        values[0] = rush_v_tensor(kept);
    }
    if (run_composite(op, wants ? values : in, out) || out[0].kind != RUSH_V_TENSOR) return -1;
    rush_tensor *self = in[0].t, *result = out[0].t;
    RUSH_CHECK(rush_same_sizes(self, result), RUSH_RUNTIME_ERROR, "output with shape %s doesn't match the broadcast shape %s",
               rush_shape_of(self), rush_shape_of(result));
    RUSH_CHECK(rush_dtypes[result->dtype].category <= rush_dtypes[self->dtype].category, RUSH_RUNTIME_ERROR,
               "result type %s can't be cast to the desired output type %s", rush_dtype_name(result->dtype), rush_dtype_name(self->dtype));
    rush_tensor *changed = result == self ? self : T("copy_", V(self), V(result));
    return changed ? rush_result(out, changed) : -1;
}

static int sparse_inplace(const rush_op *op, const rush_value *in, rush_value *out, bool wants)
{
    rush_value values[64];
    if (!(op = sparse_form(op, in))) return -1;
    RUSH_CHECK(!wants || op->grad, RUSH_NOT_IMPLEMENTED, "a derivative in place, of tensors of layout %s", rush_layout_word(first_sparse(op, in)->layout));
    if (wants && keep_original(op, in, values)) return -1;
    out[0] = in[0];
    return run_sparse_into(op, in, out, true) || self_changed(op, in, wants ? values : in, out, wants);
}

static int call_inplace(const rush_op *op, const rush_value *in, rush_value *out)
{
    const rush_op *caller = rush_now.op;
    size_t mark = rush_now.nparked;
    rush_value room[64], values[64];
    const rush_value *saved = in;
    survey s = {0};
    rush_now.op = op;
    if (RUSH_UNLIKELY(rush_now.mode & RUSH_MODE_AUTOCAST)) in = rush_autocast_args(op, in, room);
    for (int i = 0; i < op->nout; ++i) out[i] = RUSH_NONE;
    int failed = !in || (in[0].kind != RUSH_V_TENSOR && rush_fail(RUSH_TYPE_ERROR, "the operation has no in-place form")) || survey_args(&s, op, in, in[0].t) || rush_inplace_check(in[0].t);
    bool wants = s.wants_grad && !(rush_now.mode & (RUSH_MODE_NO_GRAD | RUSH_MODE_INFERENCE)) && !(op->flags & RUSH_NO_GRAD);
    if (!failed && RUSH_UNLIKELY(s.layouts)) {
        failed = sparse_inplace(op, in, out, wants);
    } else if (!failed && op->run && !op->grad) {
        failed = composite_inplace(op, in, out, wants);
    } else if (!failed) {
        if (wants && !(failed = keep_original(op, in, values))) saved = values;
        out[0] = in[0];
        failed = failed || run_into(op, &s, in, out, true) || self_changed(op, in, saved, out, wants);
    }
    if (failed) rush_scope_close(mark);
    else leave(op, out, mark);
    rush_now.op = caller;
    return failed ? -1 : 0;
}

int rush_call_inplace(const rush_op *op, const rush_value *in, rush_value *out)
{
    if (rush_failed()) return -1;
    return RUSH_UNLIKELY(rush_now.mode & RUSH_MODE_PROFILE) ? profiled(RUSH_PROFILE_INPLACE, call_inplace, op, in, out) : call_inplace(op, in, out);
}
