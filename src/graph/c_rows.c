/* c_rows.c - a row for each operation that can be written as C: the lines of one call of it. */
#include "base/text.h"
#include "graph/c_text.h"
#include "ops/elementwise/pointwise.h"

#include <ctype.h>
#include <math.h>

enum { MOST_OPERANDS = 4 };

static rush_tensor *tensor(const c_step *s, int i) { return s->in[i].kind == RUSH_V_TENSOR ? s->in[i].t : NULL; }
static rush_tensor *result(const c_step *s, int i) { return s->out[i].kind == RUSH_V_TENSOR ? s->out[i].t : NULL; }
static int64_t integer(const c_step *s, int i) { return rush_is_number(s->in[i]) ? rush_to_int(s->in[i]) : 0; }

static int unwritten(const c_step *s, const char *why) { return rush_fail(RUSH_NOT_IMPLEMENTED, "%s cannot be written as C: %s", s->op->name, why); }

/* Asks for a function of c_helpers.c. */
static void need(c_record *r, const char *name)
{
    for (int i = 0; i < rush_c_helpers_count; ++i)
        if (!strcmp(rush_c_helpers[i].name, name)) r->helpers |= (uint64_t)1 << i | rush_c_helpers[i].needs;
}

static bool all_floats(const c_step *s)
{
    for (int i = 0; i < s->op->nargs; ++i)
        if (tensor(s, i) && rush_dtypes[tensor(s, i)->dtype].category == 2 && tensor(s, i)->dtype != RUSH_F32) return false;
    return !result(s, 0) || result(s, 0)->dtype == RUSH_F32;
}

/* "NULL" where there is no tensor. */
static const char *packed(c_record *r, const rush_tensor *t) { return t && t->storage ? rush_c_packed(r, t) : "NULL"; }

/* A number as an expression of the type that the line has. */
static void put_number(FILE *to, double x, bool real)
{
    if (isnan(x)) fprintf(to, "NAN");
    else if (isinf(x)) fprintf(to, x < 0 ? "-INFINITY" : "INFINITY");
    else if (real) rush_fprintf(to, x == floor(x) && fabs(x) < 1e15 ? "%.1ff" : "%.9gf", x);
    else fprintf(to, "%.0f", x);
}

/* ---- elements ---- */

typedef struct walk { int ndim; int64_t size[64], stride[MOST_OPERANDS + 1][64]; } walk;

/* Sizes of the result, strides of all; neighbours that are one run become one. */
static void walk_make(walk *w, int n, const rush_tensor *const *t)
{
    w->ndim = 0;
    for (int d = 0; d < t[0]->ndim; ++d) {
        int64_t stride[MOST_OPERANDS + 1];
        if (t[0]->size[d] == 1) continue;
        for (int k = 0; k < n; ++k) {
            int at = t[k] ? d - (t[0]->ndim - t[k]->ndim) : -1;
            stride[k] = at < 0 || t[k]->size[at] == 1 ? 0 : t[k]->stride[at];
        }
        bool joins = w->ndim > 0;
        for (int k = 0; k < n && joins; ++k) joins = w->stride[k][w->ndim - 1] == stride[k] * t[0]->size[d];
        if (joins) w->size[w->ndim - 1] *= t[0]->size[d];
        else w->size[w->ndim++] = t[0]->size[d];
        for (int k = 0; k < n; ++k) w->stride[k][w->ndim - 1] = stride[k];
    }
}

static void put_index(FILE *to, const walk *w, int k)
{
    bool any = false;
    for (int d = 0; d < w->ndim; ++d) {
        if (!w->stride[k][d]) continue;
        fprintf(to, any ? " + i%d" : "i%d", d);
        if (w->stride[k][d] != 1) fprintf(to, " * %lld", (long long)w->stride[k][d]);
        any = true;
    }
    if (!any) fprintf(to, "0");
}

static void put_loops(FILE *to, const walk *w)
{
    for (int d = 0; d < w->ndim; ++d) fprintf(to, "%*sfor (i%d = 0; i%d < %lld; ++i%d)%s\n", 8 + 4 * d, "", d, d, (long long)w->size[d], d, d + 1 == w->ndim ? " {" : "");
    if (!w->ndim) fprintf(to, "        {\n");
}

static void put_counters(FILE *to, const walk *w)
{
    for (int d = 0; d < w->ndim; ++d) fprintf(to, d ? ", i%d" : "        long i%d", d);
    if (w->ndim) fprintf(to, ";\n");
}

typedef struct formula {
    const char *value;                   /* in x, y, z and a, b, c, d */
    uint8_t type;                        /* what it is computed in    */
    bool logic;                          /* operands are taken as bool */
    int nx, na;
    rush_value x[MOST_OPERANDS], a[4];
} formula;

static int write_formula(c_record *r, const c_step *s, const rush_tensor *out, const formula *f)
{
    static const char *const operands[] = {"x", "y", "z", "w"}, *const others[] = {"a", "b", "c", "d"};
    const char *type = rush_c_type(f->type), *stored = rush_c_type(out->dtype);
    if (!type || !stored) return unwritten(s, "of this type");
    if (!out->numel) return 0;
    const bool real = rush_dtypes[f->type].category == 2;
    const rush_tensor *t[MOST_OPERANDS + 1] = {out};
    for (int k = 0; k < f->nx; ++k) t[k + 1] = f->x[k].kind == RUSH_V_TENSOR ? f->x[k].t : NULL;
    walk w;
    walk_make(&w, f->nx + 1, t);
    fprintf(r->to, "    {\n");
    put_counters(r->to, &w);
    fprintf(r->to, "        typedef %s T;\n        %s *o = %s;\n", type, stored, rush_c_place(r, out));
    for (int k = 0; k < f->nx; ++k)
        if (t[k + 1] && rush_names(f->value, operands[k])) fprintf(r->to, "        const %s *p%d = %s;\n", rush_c_type(t[k + 1]->dtype), k, rush_c_place(r, t[k + 1]));
    for (int k = 0; k < f->na; ++k)
        if (rush_names(f->value, others[k])) {
            fprintf(r->to, "        const T %s = ", others[k]);
            put_number(r->to, rush_is_number(f->a[k]) ? rush_to_double(f->a[k]) : -1, real);
            fprintf(r->to, ";\n");
        }
    put_loops(r->to, &w);
    for (int k = 0; k < f->nx; ++k) {
        if (!rush_names(f->value, operands[k])) continue;
        fprintf(r->to, "            const T %s = ", operands[k]);
        if (t[k + 1]) {
            fprintf(r->to, "%s(T)p%d[", f->logic ? "0 != " : "", k);
            put_index(r->to, &w, k + 1);
            fprintf(r->to, "]");
        } else put_number(r->to, rush_to_double(f->x[k]), real);
        fprintf(r->to, ";\n");
    }
    fprintf(r->to, "            o[");
    put_index(r->to, &w, 0);
    if (out->dtype == RUSH_BOOL) fprintf(r->to, "] = 0 != (%s);\n        }\n    }\n", f->value);
    else fprintf(r->to, "] = (%s)(%s);\n        }\n    }\n", stored, f->value);
    return 0;
}

static int write_row(c_record *r, const c_step *s)
{
    const rush_pw_row *row = s->op->row;
    formula f = {.value = row->value, .nx = row->nx, .na = row->na, .logic = row->set & RUSH_PW_LOGIC};
    rush_pw_plan plan;
    for (int k = 0; k < row->nx; ++k) f.x[k] = s->in[row->x[k]];
    for (int k = 0; k < row->na; ++k) f.a[k] = s->in[row->a[k]];
    if (rush_pw_plan_make(&plan, (rush_pw_id)row->id, f.x)) return -1;
    f.type = plan.compute;
    const rush_tensor *out = s->inplace ? tensor(s, 0) : result(s, 0);
    return write_formula(r, s, out, &f);
}

/* The elements of t without gaps: where they are, or room that they are copied to first. */
const char *rush_c_packed(c_record *r, const rush_tensor *t)
{
    if (rush_is_contiguous(t)) return rush_c_place(r, t);
    rush_tensor *like = rush_tensor_new((rush_dtype)t->dtype, (rush_device){RUSH_CPU, -1}, t->ndim, t->size);
    c_buffer *room = like ? rush_c_room(r, (rush_dtype)t->dtype, t->numel) : NULL;
    if (!room) return "";
    const char *to = rush_c_name(r, room), *type = rush_c_type(t->dtype);
    const rush_tensor *both[2] = {like, t};
    walk w;
    walk_make(&w, 2, both);
    fprintf(r->to, "    {\n");
    put_counters(r->to, &w);
    fprintf(r->to, "        %s *o = %s;\n        const %s *p = %s;\n", type, to, type, rush_c_place(r, t));
    put_loops(r->to, &w);
    fprintf(r->to, "            o[");
    put_index(r->to, &w, 0);
    fprintf(r->to, "] = p[");
    put_index(r->to, &w, 1);
    fprintf(r->to, "];\n        }\n    }\n");
    return to;
}

static int copy_into(c_record *r, const c_step *s, const rush_tensor *to, rush_value from)
{
    return write_formula(r, s, to, &(formula){.value = "x", .type = to->dtype == RUSH_BOOL && from.kind == RUSH_V_TENSOR ? from.t->dtype : to->dtype, .nx = 1, .x = {from}});
}

static int write_copy(c_record *r, const c_step *s) { return copy_into(r, s, result(s, 0), s->in[0]); }
static int write_copy_(c_record *r, const c_step *s) { return copy_into(r, s, tensor(s, 0), s->in[1]); }
static int write_ones(c_record *r, const c_step *s) { return copy_into(r, s, result(s, 0), rush_v_float(1)); }
static int write_zeros(c_record *r, const c_step *s) { return copy_into(r, s, result(s, 0), rush_v_float(0)); }
static int write_fill(c_record *r, const c_step *s) { return copy_into(r, s, s->inplace ? tensor(s, 0) : result(s, 0), s->in[1]); }

static int write_where(c_record *r, const c_step *s)
{
    const rush_tensor *out = result(s, 0);
    return write_formula(r, s, out, &(formula){.value = "x != 0 ? y : z", .type = out->dtype, .nx = 3, .x = {s->in[0], s->in[1], s->in[2]}});
}

static int write_masked_fill(c_record *r, const c_step *s)
{
    const rush_tensor *out = s->inplace ? tensor(s, 0) : result(s, 0);
    return write_formula(r, s, out, &(formula){.value = "y != 0 ? z : x", .type = out->dtype, .nx = 3, .x = {s->in[0], s->in[1], s->in[2]}});
}

static int write_clamp(c_record *r, const c_step *s)
{
    const rush_tensor *out = s->inplace ? tensor(s, 0) : result(s, 0);
    const bool low = rush_is_number(s->in[1]), high = s->op->nargs > 2 && rush_is_number(s->in[2]);
    if (tensor(s, 1) || (s->op->nargs > 2 && tensor(s, 2))) return unwritten(s, "by tensors");
    return write_formula(r, s, out, &(formula){.value = low && high ? "at_most(at_least(x, a), b)" : low ? "at_least(x, a)" : "at_most(x, b)", .type = out->dtype, .nx = 1, .x = {s->in[0]}, .na = 2, .a = {s->in[1], high ? s->in[2] : RUSH_NONE}});
}

static const char *gelu_of(const c_step *s, int at, bool back)
{
    const bool tanh_form = s->in[at].kind == RUSH_V_STRING && s->in[at].s && !strcmp(s->in[at].s, "tanh");
    return rush_pw_rows[back ? (tanh_form ? RUSH_PW_gelu_tanh_backward : RUSH_PW_gelu_erf_backward) : (tanh_form ? RUSH_PW_gelu_tanh : RUSH_PW_gelu_erf)].value;
}

static int write_gelu(c_record *r, const c_step *s) { return write_formula(r, s, s->inplace ? tensor(s, 0) : result(s, 0), &(formula){.value = gelu_of(s, 1, false), .type = RUSH_F32, .nx = 1, .x = {s->in[0]}}); }
static int write_gelu_back(c_record *r, const c_step *s) { return write_formula(r, s, result(s, 0), &(formula){.value = gelu_of(s, 2, true), .type = RUSH_F32, .nx = 2, .x = {s->in[0], s->in[1]}}); }

static int write_cat(c_record *r, const c_step *s)
{
    const rush_tensor *out = result(s, 0);
    int64_t dim = integer(s, 1), at = 0;
    dim += dim < 0 ? out->ndim : 0;
    for (uint32_t k = 0; k < s->in[0].n; ++k) {
        const rush_tensor *t = s->in[0].tensors[k];
        if (!t || !t->numel) continue;
        rush_tensor *part = rush_tensor_alias(out, out->ndim, t->size, out->stride, out->offset + at * out->stride[dim]);
        if (!part || copy_into(r, s, part, rush_v_tensor((rush_tensor *)t))) return -1;
        at += t->size[dim];
    }
    return 0;
}

/* Zeros, and the gradient where the slice was. */
static int write_slice_back(c_record *r, const c_step *s)
{
    const rush_tensor *out = result(s, 0), *g = tensor(s, 0);
    const int64_t dim = integer(s, 2) + (integer(s, 2) < 0 ? out->ndim : 0), step = integer(s, 5);
    int64_t start = integer(s, 3), stride[64];
    start = start < 0 ? RUSH_MAX(start + out->size[dim], 0) : RUSH_MIN(start, out->size[dim]);
    memcpy(stride, out->stride, (size_t)out->ndim * sizeof *stride);
    stride[dim] *= step;
    rush_tensor *part = rush_tensor_alias(out, out->ndim, g->size, stride, out->offset + start * out->stride[dim]);
    return !part || copy_into(r, s, out, rush_v_float(0)) || copy_into(r, s, part, s->in[0]) ? -1 : 0;
}

static int write_select_back(c_record *r, const c_step *s)
{
    const rush_tensor *out = result(s, 0);
    const int64_t dim = integer(s, 2) + (integer(s, 2) < 0 ? out->ndim : 0), index = integer(s, 3) + (integer(s, 3) < 0 ? out->size[dim] : 0);
    int64_t size[64], stride[64];
    int n = 0;
    for (int d = 0; d < out->ndim; ++d)
        if (d != dim) size[n] = out->size[d], stride[n++] = out->stride[d];
    rush_tensor *part = rush_tensor_alias(out, n, size, stride, out->offset + index * out->stride[dim]);
    return !part || copy_into(r, s, out, rush_v_float(0)) || copy_into(r, s, part, s->in[0]) ? -1 : 0;
}

/* ---- sums ---- */

static int write_reduction(c_record *r, const c_step *s, bool mean, const char *start, const char *each)
{
    const rush_tensor *t = tensor(s, 0), *out = result(s, 0);
    if (t->dtype != out->dtype || !rush_c_type(t->dtype)) return unwritten(s, "of these types");
    const rush_value *dims = s->op->nargs > 1 && (s->in[1].kind == RUSH_V_INTS || s->in[1].kind == RUSH_V_INT) ? &s->in[1] : NULL;
    uint64_t reduced = dims && (dims->kind == RUSH_V_INT || dims->n) ? 0 : ~(uint64_t)0;
    for (uint32_t k = 0; dims && k < (dims->kind == RUSH_V_INT ? 1 : dims->n); ++k) {
        const int64_t d = dims->kind == RUSH_V_INT ? dims->i : dims->ints[k];
        reduced |= (uint64_t)1 << (d < 0 ? d + t->ndim : d);
    }
    int64_t count = 1;
    int left = 0;
    for (int d = 0; d < t->ndim; ++d) reduced >> d & 1 ? (count *= t->size[d]) : ++left;
    const bool kept = out->ndim == t->ndim && left < t->ndim;
    fprintf(r->to, "    {\n");
    for (int d = 0; d < t->ndim; ++d) fprintf(r->to, d ? ", i%d" : "        long i%d", d);
    if (t->ndim) fprintf(r->to, ";\n");
    fprintf(r->to, "        const %s *p = %s;\n        %s *o = %s;\n", rush_c_type(t->dtype), rush_c_place(r, t), rush_c_type(out->dtype), rush_c_place(r, out));
    for (int inner = 0; inner < 2; ++inner) {
        for (int d = 0; d < t->ndim; ++d)
            if ((reduced >> d & 1) == (uint64_t)inner) fprintf(r->to, "        for (i%d = 0; i%d < %lld; ++i%d)\n", d, d, (long long)t->size[d], d);
        if (!inner) fprintf(r->to, "        {\n        %s sum = %s;\n", rush_c_type(t->dtype), start);
    }
    fprintf(r->to, "        {\n            const %s x = p[0", rush_c_type(t->dtype));
    for (int d = 0; d < t->ndim; ++d) fprintf(r->to, " + i%d * %lld", d, (long long)t->stride[d]);
    fprintf(r->to, "];\n            %s;\n        }\n        o[0", each);
    for (int d = 0, at = 0; d < t->ndim; ++d) {
        if (!(reduced >> d & 1)) fprintf(r->to, " + i%d * %lld", d, (long long)out->stride[kept ? d : at]);
        at += kept || !(reduced >> d & 1);
    }
    fprintf(r->to, mean ? "] = sum / %lld;\n        }\n    }\n" : "] = sum;\n        }\n    }\n", (long long)count);
    return 0;
}

static int write_sum(c_record *r, const c_step *s) { return write_reduction(r, s, false, "0", "sum += x"); }
static int write_mean(c_record *r, const c_step *s) { return write_reduction(r, s, true, "0", "sum += x"); }
static int write_amax(c_record *r, const c_step *s) { return write_reduction(r, s, false, "-INFINITY", "if (x > sum) sum = x"); }

/* ---- products ---- */

/* Of each batch: o[n, m] without gaps. */
static int product(c_record *r, const rush_tensor *out, const rush_tensor *a, const rush_tensor *b, const rush_tensor *bias, int64_t n, int64_t k, int64_t m, int64_t ai, int64_t ak, int64_t bk, int64_t bj)
{
    need(r, "product_of");
    fprintf(r->to, "    product_of(%s, %s, %lld, %lld, ", rush_c_place(r, out), rush_c_place(r, a), (long long)ai, (long long)ak);
    fprintf(r->to, "%s, %lld, %lld, ", rush_c_place(r, b), (long long)bk, (long long)bj);
    fprintf(r->to, "%s, %lld, %lld, %lld);\n", packed(r, bias), (long long)n, (long long)k, (long long)m);
    return 0;
}

static int write_linear(c_record *r, const c_step *s)
{
    const rush_tensor *x = tensor(s, 0), *w = tensor(s, 1), *out = result(s, 0);
    if (!all_floats(s) || w->ndim != 2 || !rush_is_contiguous(out)) return unwritten(s, "of these sizes or types");
    const char *from = packed(r, x);
    need(r, "product_of");
    fprintf(r->to, "    product_of(%s, %s, %lld, 1, %s, %lld, %lld, ", rush_c_place(r, out), from, (long long)w->size[1], rush_c_place(r, w), (long long)w->stride[1], (long long)w->stride[0]);
    fprintf(r->to, "%s, %lld, %lld, %lld);\n", packed(r, tensor(s, 2)), (long long)(x->numel / RUSH_MAX(w->size[1], 1)), (long long)w->size[1], (long long)w->size[0]);
    return 0;
}

static int write_mm(c_record *r, const c_step *s)
{
    const rush_tensor *a = tensor(s, 0), *b = tensor(s, 1), *out = result(s, 0);
    if (!all_floats(s) || !rush_is_contiguous(out)) return unwritten(s, "of these strides or types");
    return product(r, out, a, b, NULL, a->size[0], a->size[1], b->size[1], a->stride[0], a->stride[1], b->stride[0], b->stride[1]);
}

static int write_addmm(c_record *r, const c_step *s)
{
    const rush_tensor *bias = tensor(s, 0), *a = tensor(s, 1), *b = tensor(s, 2), *out = result(s, 0);
    if (!all_floats(s) || !rush_is_contiguous(out) || bias->ndim != 1 || rush_to_double(s->in[3]) != 1 || rush_to_double(s->in[4]) != 1) return unwritten(s, "with these arguments");
    return product(r, out, a, b, bias, a->size[0], a->size[1], b->size[1], a->stride[0], a->stride[1], b->stride[0], b->stride[1]);
}

static int write_bmm(c_record *r, const c_step *s)
{
    const rush_tensor *a = tensor(s, 0), *b = tensor(s, 1), *out = result(s, 0);
    if (!all_floats(s) || !rush_is_contiguous(out)) return unwritten(s, "of these strides or types");
    need(r, "product_of");
    fprintf(r->to, "    {\n        long i;\n        for (i = 0; i < %lld; ++i)\n            product_of(%s + i * %lld, ", (long long)a->size[0], rush_c_place(r, out), (long long)out->stride[0]);
    fprintf(r->to, "%s + i * %lld, %lld, %lld, ", rush_c_place(r, a), (long long)a->stride[0], (long long)a->stride[1], (long long)a->stride[2]);
    fprintf(r->to, "%s + i * %lld, %lld, %lld, NULL, %lld, %lld, %lld);\n    }\n", rush_c_place(r, b), (long long)b->stride[0], (long long)b->stride[1], (long long)b->stride[2], (long long)a->size[1], (long long)a->size[2], (long long)b->size[2]);
    return 0;
}

/* ---- windows ---- */

static void put_sizes(c_record *r, const int64_t *size, int n)
{
    fprintf(r->to, "        static const long s[] = {");
    for (int i = 0; i < n; ++i) fprintf(r->to, i ? ", %lld" : "%lld", (long long)size[i]);
    fprintf(r->to, "};\n");
}

static int64_t list_at(const rush_value *v, int i, int64_t standard) { return v->kind == RUSH_V_INT ? v->i : v->kind != RUSH_V_INTS || !v->n ? standard : v->ints[RUSH_MIN(i, (int)v->n - 1)]; }

/* What convolve is told: one dimension is a height of 1. stride, padding and dilation are in[at], at + 1 and at + 2. */
static int conv_sizes(const c_step *s, const rush_tensor *x, const rush_tensor *w, const rush_tensor *y, int at, int64_t *to)
{
    const int dims = w->ndim - 2;
    if (dims > 2 || x->ndim != w->ndim || !all_floats(s) || integer(s, at + 3)) return unwritten(s, "transposed, or of three dimensions");
    const int64_t fill[16] = {x->size[0], x->size[1], dims == 2 ? x->size[2] : 1, x->size[dims + 1], w->size[0], dims == 2 ? y->size[2] : 1, y->size[dims + 1], dims == 2 ? w->size[2] : 1, w->size[dims + 1],
                              dims == 2 ? list_at(&s->in[at], 0, 1) : 1, list_at(&s->in[at], dims - 1, 1), dims == 2 ? list_at(&s->in[at + 1], 0, 0) : 0, list_at(&s->in[at + 1], dims - 1, 0),
                              dims == 2 ? list_at(&s->in[at + 2], 0, 1) : 1, list_at(&s->in[at + 2], dims - 1, 1), RUSH_MAX(x->size[1] / RUSH_MAX(w->size[1], 1), 1)};
    memcpy(to, fill, sizeof fill);
    return 0;
}

static int write_conv(c_record *r, const c_step *s)
{
    const rush_tensor *x = tensor(s, 0), *w = tensor(s, 1), *out = result(s, 0);
    int64_t size[16];
    if (conv_sizes(s, x, w, out, 3, size)) return -1;
    if (!rush_is_contiguous(out)) return unwritten(s, "in this memory format");
    const char *from = packed(r, x), *by = packed(r, w), *bias = packed(r, tensor(s, 2));
    need(r, "convolve");
    fprintf(r->to, "    {\n");
    put_sizes(r, size, 16);
    fprintf(r->to, "        convolve(%s, %s, %s, %s, s);\n    }\n", rush_c_place(r, out), from, by, bias);
    return 0;
}

static int write_conv_back(c_record *r, const c_step *s)
{
    const rush_tensor *g = tensor(s, 0), *x = tensor(s, 1), *w = tensor(s, 2);
    int64_t size[16];
    if (conv_sizes(s, x, w, g, 4, size)) return -1;
    const char *of = packed(r, g), *from = packed(r, x), *by = packed(r, w);
    for (int i = 0; i < 3; ++i)
        if (result(s, i) && !rush_is_contiguous(result(s, i))) return unwritten(s, "in this memory format");
    need(r, "convolve_back");
    fprintf(r->to, "    {\n");
    put_sizes(r, size, 16);
    fprintf(r->to, "        convolve_back(%s, %s, %s, %s, %s, %s, s);\n    }\n", packed(r, result(s, 0)), packed(r, result(s, 1)), packed(r, result(s, 2)), of, x->storage ? from : "NULL", w->storage ? by : "NULL");
    return 0;
}

/* Sizes of pools: in[1] kernel, in[2] stride, in[3] padding, and dilation in in[4] if it is there. */
static int pool_sizes(const c_step *s, const rush_tensor *x, const rush_tensor *y, bool dilated, int64_t *to)
{
    const int d = x->ndim;
    if (d < 3 || !all_floats(s)) return unwritten(s, "of these sizes");
    const int64_t kh = list_at(&s->in[1], 0, 1), kw = list_at(&s->in[1], 1, 1);
    const int64_t fill[13] = {x->numel / RUSH_MAX(x->size[d - 1] * x->size[d - 2], 1), x->size[d - 2], x->size[d - 1], y->size[d - 2], y->size[d - 1], kh, kw, list_at(&s->in[2], 0, kh), list_at(&s->in[2], 1, kw),
                              list_at(&s->in[3], 0, 0), list_at(&s->in[3], 1, 0), dilated ? list_at(&s->in[4], 0, 1) : 1, dilated ? list_at(&s->in[4], 1, 1) : 1};
    memcpy(to, fill, sizeof fill);
    return 0;
}

static int write_max_pool(c_record *r, const c_step *s)
{
    const rush_tensor *x = tensor(s, 0), *out = result(s, 0), *at = s->op->nout > 1 ? result(s, 1) : NULL;
    int64_t size[13];
    if (pool_sizes(s, x, out, true, size)) return -1;
    if (!rush_is_contiguous(out)) return unwritten(s, "in this memory format");
    const char *from = packed(r, x);
    need(r, "largest_of");
    fprintf(r->to, "    {\n");
    put_sizes(r, size, 13);
    fprintf(r->to, "        largest_of(%s, %s, %s, s);\n    }\n", rush_c_place(r, out), packed(r, at), from);
    return 0;
}

static int write_max_pool_back(c_record *r, const c_step *s)
{
    const rush_tensor *g = tensor(s, 0), *x = tensor(s, 1), *at = tensor(s, s->op->nargs - 1), *out = result(s, 0);
    const int d = x->ndim;
    if (!rush_is_contiguous(out)) return unwritten(s, "in this memory format");
    const int64_t n = x->size[d - 1] * x->size[d - 2], m = g->size[d - 1] * g->size[d - 2];
    const char *from = packed(r, g), *where = packed(r, at);
    need(r, "to_places");
    fprintf(r->to, "    to_places(%s, %s, %s, %lld, %lld, %lld);\n", rush_c_place(r, out), from, where, (long long)(x->numel / RUSH_MAX(n, 1)), (long long)n, (long long)m);
    return 0;
}

static int write_avg_pool(c_record *r, const c_step *s)
{
    const rush_tensor *x = tensor(s, 0), *out = result(s, 0);
    int64_t size[13];
    if (pool_sizes(s, x, out, false, size)) return -1;
    if (rush_is_number(s->in[6]) || !rush_is_contiguous(out)) return unwritten(s, "with a divisor of its own");
    const char *from = packed(r, x);
    need(r, "averages_of");
    fprintf(r->to, "    {\n");
    put_sizes(r, size, 11);
    fprintf(r->to, "        averages_of(%s, %s, s, %d);\n    }\n", rush_c_place(r, out), from, (int)integer(s, 5));
    return 0;
}

static int write_adaptive(c_record *r, const c_step *s)
{
    const bool back = s->op->nargs > 1 && tensor(s, 1);
    const rush_tensor *x = back ? result(s, 0) : tensor(s, 0), *y = back ? tensor(s, 0) : result(s, 0);
    const int d = x->ndim;
    if (!rush_is_contiguous(result(s, 0)) || !all_floats(s)) return unwritten(s, "in this memory format");
    const char *from = packed(r, tensor(s, 0));
    need(r, "adaptive_averages");
    fprintf(r->to, "    adaptive_averages(%s, %s, %s, ", back ? "NULL" : rush_c_place(r, y), back ? rush_c_place(r, x) : "NULL", from);
    fprintf(r->to, "%lld, %lld, %lld, %lld, %lld);\n", (long long)(x->numel / RUSH_MAX(x->size[d - 1] * x->size[d - 2], 1)), (long long)x->size[d - 2], (long long)x->size[d - 1], (long long)y->size[d - 2], (long long)y->size[d - 1]);
    return 0;
}

/* ---- normalisation ---- */

static int write_softmax_of(c_record *r, const c_step *s, const char *helper, int dim_at, bool back, bool logs)
{
    const rush_tensor *x = tensor(s, 0), *out = result(s, 0);
    int64_t dim = integer(s, dim_at), inner = 1, outer = 1;
    dim += dim < 0 ? x->ndim : 0;
    if (!rush_is_contiguous(out) || !all_floats(s)) return unwritten(s, "of these strides or types");
    for (int d = 0; d < x->ndim; ++d) d < dim ? (outer *= x->size[d]) : d > dim ? (inner *= x->size[d]) : 0;
    const char *from = packed(r, x), *of = back ? packed(r, tensor(s, 1)) : NULL;
    need(r, helper);
    fprintf(r->to, "    %s(%s, %s%s%s, ", helper, rush_c_place(r, out), from, back ? ", " : "", back ? of : "");
    fprintf(r->to, "%lld, %lld, %lld, %d);\n", (long long)outer, (long long)(x->ndim ? x->size[dim] : 1), (long long)inner, logs);
    return 0;
}

static int write_softmax(c_record *r, const c_step *s) { return write_softmax_of(r, s, "softmax_of", 1, false, false); }
static int write_log_softmax(c_record *r, const c_step *s) { return write_softmax_of(r, s, "softmax_of", 1, false, true); }
static int write_softmax_back(c_record *r, const c_step *s) { return write_softmax_of(r, s, "softmax_back", 2, true, false); }
static int write_log_softmax_back(c_record *r, const c_step *s) { return write_softmax_of(r, s, "softmax_back", 2, true, true); }

static int64_t product_of_list(const rush_value *v)
{
    int64_t n = 1;
    for (uint32_t i = 0; i < v->n; ++i) n *= v->ints[i];
    return n;
}

static int write_layer_norm(c_record *r, const c_step *s)
{
    const rush_tensor *x = tensor(s, 0), *out = result(s, 0);
    const int64_t n = product_of_list(&s->in[1]);
    if (!rush_is_contiguous(out) || !all_floats(s)) return unwritten(s, "of these strides or types");
    const char *from = packed(r, x);
    need(r, "normalize_rows");
    fprintf(r->to, "    normalize_rows(%s, %s, %s, %s, ", rush_c_place(r, out), packed(r, result(s, 1)), packed(r, result(s, 2)), from);
    rush_fprintf(r->to, "%s, %s, %lld, %lld, %.9gf);\n", packed(r, tensor(s, 2)), packed(r, tensor(s, 3)), (long long)(x->numel / RUSH_MAX(n, 1)), (long long)n, rush_to_double(s->in[4]));
    return 0;
}

static int write_layer_norm_back(c_record *r, const c_step *s)
{
    const rush_tensor *g = tensor(s, 0), *x = tensor(s, 1);
    const int64_t n = product_of_list(&s->in[2]);
    for (int i = 0; i < 3; ++i)
        if (result(s, i) && !rush_is_contiguous(result(s, i))) return unwritten(s, "of these strides");
    const char *of = packed(r, g), *from = packed(r, x);
    need(r, "normalize_rows_back");
    fprintf(r->to, "    normalize_rows_back(%s, %s, %s, %s, %s, ", packed(r, result(s, 0)), packed(r, result(s, 1)), packed(r, result(s, 2)), of, from);
    fprintf(r->to, "%s, %s, %s, %lld, %lld);\n", packed(r, tensor(s, 3)), packed(r, tensor(s, 4)), packed(r, tensor(s, 5)), (long long)(x->numel / RUSH_MAX(n, 1)), (long long)n);
    return 0;
}

static int write_batch_norm(c_record *r, const c_step *s)
{
    const rush_tensor *x = tensor(s, 0), *out = result(s, 0);
    const int64_t channels = x->size[1], batch = x->size[0];
    if (!rush_is_contiguous(out) || !all_floats(s)) return unwritten(s, "of these strides or types");
    const char *from = packed(r, x);
    need(r, "normalize_channels");
    fprintf(r->to, "    normalize_channels(%s, %s, %s, %s, %s, %s, ", rush_c_place(r, out), packed(r, result(s, 1)), packed(r, result(s, 2)), from, packed(r, tensor(s, 1)), packed(r, tensor(s, 2)));
    rush_fprintf(r->to, "%s, %s, %lld, %lld, %lld, %d, %.9gf, %.9gf);\n", packed(r, tensor(s, 3)), packed(r, tensor(s, 4)), (long long)batch, (long long)channels, (long long)(x->numel / RUSH_MAX(batch * channels, 1)),
            (int)integer(s, 5), rush_to_double(s->in[6]), rush_to_double(s->in[7]));
    return 0;
}

static int write_batch_norm_back(c_record *r, const c_step *s)
{
    const rush_tensor *g = tensor(s, 0), *x = tensor(s, 1);
    const int64_t channels = x->size[1], batch = x->size[0];
    if (!integer(s, 7)) return unwritten(s, "with fixed statistics");
    for (int i = 0; i < 3; ++i)
        if (result(s, i) && !rush_is_contiguous(result(s, i))) return unwritten(s, "of these strides");
    const char *of = packed(r, g), *from = packed(r, x);
    need(r, "normalize_channels_back");
    fprintf(r->to, "    normalize_channels_back(%s, %s, %s, %s, %s, ", packed(r, result(s, 0)), packed(r, result(s, 1)), packed(r, result(s, 2)), of, from);
    fprintf(r->to, "%s, %s, %s, %lld, %lld, %lld);\n", packed(r, tensor(s, 5)), packed(r, tensor(s, 6)), packed(r, tensor(s, 2)), (long long)batch, (long long)channels, (long long)(x->numel / RUSH_MAX(batch * channels, 1)));
    return 0;
}

/* ---- attention and rows ---- */

static int add_strides(int64_t *to, int n, const rush_tensor *t, const rush_tensor *like)
{
    for (int d = 0; d < 4; ++d) {
        int at = t ? d - (4 - t->ndim) : -1;
        to[n++] = at < 0 || (t->size[at] == 1 && like->size[d] != 1) ? 0 : t->stride[at];
    }
    return n;
}

/* first: where q stands among the arguments. */
static int attention_sizes(const c_step *s, int first, const rush_tensor *o, const rush_tensor *mask, int64_t *to)
{
    const rush_tensor *q = tensor(s, first), *k = tensor(s, first + 1), *v = tensor(s, first + 2);
    if (q->ndim != 4 || k->size[1] != q->size[1] || !all_floats(s) || (mask && mask->dtype != RUSH_F32)) return unwritten(s, "of these sizes or types");
    int n = 0;
    to[n++] = q->size[0] * q->size[1];
    to[n++] = q->size[2];
    to[n++] = k->size[2];
    to[n++] = q->size[3];
    to[n++] = v->size[3];
    n = add_strides(to, n, q, q);
    n = add_strides(to, n, k, k);
    n = add_strides(to, n, v, v);
    n = add_strides(to, n, o, o);
    for (int d = 0; d < 4; ++d) {
        int at = mask ? d - (4 - mask->ndim) : -1;
        to[n++] = at < 0 || mask->size[at] == 1 ? 0 : mask->stride[at];
    }
    to[n++] = q->size[1];
    return 0;
}

static double scale_of(const rush_value *v, const rush_tensor *q) { return rush_is_number(*v) ? rush_to_double(*v) : 1 / sqrt((double)q->size[3]); }

/* (query, key, value, dropout_p, is_causal, *, attn_mask, scale) -> (output, logsumexp) */
static int write_attention(c_record *r, const c_step *s)
{
    const rush_tensor *mask = tensor(s, 5), *out = result(s, 0), *sums = result(s, 1);
    int64_t size[26];
    if (attention_sizes(s, 0, out, mask, size)) return -1;
    if (rush_to_double(s->in[3]) != 0) return unwritten(s, "with dropout");
    if (sums && (sums->stride[sums->ndim - 1] != 1 || !rush_is_contiguous(sums))) {
        const int64_t want[3] = {sums->size[1] * sums->size[2], sums->size[2], 1}; /* (batch, heads, queries) */
        if (memcmp(sums->stride, want, sizeof want)) sums = NULL;
    }
    c_buffer *scores = rush_c_room(r, RUSH_F32, size[2]);
    if (!scores) return -1;
    const char *room = rush_c_name(r, scores);
    need(r, "attend");
    fprintf(r->to, "    {\n");
    put_sizes(r, size, 26);
    fprintf(r->to, "        attend(%s, %s, %s, ", rush_c_place(r, out), sums ? rush_c_place(r, sums) : "NULL", room);
    fprintf(r->to, "%s, %s, %s, ", rush_c_place(r, tensor(s, 0)), rush_c_place(r, tensor(s, 1)), rush_c_place(r, tensor(s, 2)));
    rush_fprintf(r->to, "%s, s, %.9gf, %d);\n    }\n", mask ? rush_c_place(r, mask) : "NULL", scale_of(&s->in[6], tensor(s, 0)), (int)integer(s, 4));
    return 0;
}

/* (grad_out, query, key, value, out, logsumexp, dropout_p, is_causal, *, attn_mask, scale) */
static int write_attention_back(c_record *r, const c_step *s)
{
    const rush_tensor *mask = tensor(s, 8), *sums = tensor(s, 5);
    int64_t size[42];
    if (attention_sizes(s, 1, tensor(s, 4), mask, size)) return -1;
    int n = add_strides(size, 26, tensor(s, 0), tensor(s, 0));
    for (int i = 0; i < 3; ++i) {
        if (!result(s, i)) return unwritten(s, "for a part of the gradients");
        n = add_strides(size, n, result(s, i), result(s, i));
    }
    const char *logs = packed(r, sums);
    need(r, "attend_back");
    fprintf(r->to, "    {\n");
    put_sizes(r, size, n);
    fprintf(r->to, "        attend_back(%s, %s, %s, ", rush_c_place(r, result(s, 0)), rush_c_place(r, result(s, 1)), rush_c_place(r, result(s, 2)));
    for (int i = 0; i < 5; ++i) fprintf(r->to, "%s, ", rush_c_place(r, tensor(s, i)));
    rush_fprintf(r->to, "%s, %s, s, %.9gf, %d);\n    }\n", logs, mask ? rush_c_place(r, mask) : "NULL", scale_of(&s->in[9], tensor(s, 1)), (int)integer(s, 7));
    return 0;
}

static int write_embedding(c_record *r, const c_step *s)
{
    const rush_tensor *w = tensor(s, 0), *at = tensor(s, 1), *out = result(s, 0);
    if (!all_floats(s) || at->dtype != RUSH_I64 || !rush_is_contiguous(out)) return unwritten(s, "of these types");
    const char *rows = packed(r, w), *numbers = packed(r, at);
    need(r, "rows_of");
    fprintf(r->to, "    rows_of(%s, %s, %s, %lld, %lld, %lld);\n", rush_c_place(r, out), rows, numbers, (long long)at->numel, (long long)w->size[0], (long long)w->size[1]);
    return 0;
}

/* (grad_output, indices, num_weights, padding_idx, scale_grad_by_freq) */
static int write_embedding_back(c_record *r, const c_step *s)
{
    const rush_tensor *g = tensor(s, 0), *at = tensor(s, 1), *out = result(s, 0);
    if (!all_floats(s) || at->dtype != RUSH_I64 || !rush_is_contiguous(out) || integer(s, 4)) return unwritten(s, "of these types");
    const char *from = packed(r, g), *numbers = packed(r, at);
    need(r, "rows_back");
    fprintf(r->to, "    rows_back(%s, %s, %s, %lld, %lld, %lld, %lld);\n", rush_c_place(r, out), from, numbers, (long long)at->numel, (long long)out->size[0], (long long)out->size[1], (long long)integer(s, 3));
    return 0;
}

/* ---- losses ---- */

static double share(int64_t reduction, int64_t n) { return reduction == 1 ? 1.0 / (double)RUSH_MAX(n, 1) : 1; }

/* (self, target, weight, reduction, ignore_index) -> (output, total_weight): rows of log-probabilities */
static int write_nll(c_record *r, const c_step *s)
{
    const rush_tensor *x = tensor(s, 0), *at = tensor(s, 1);
    if (x->ndim != 2 || tensor(s, 2) || integer(s, 3) != 1 || !all_floats(s)) return unwritten(s, "but as the mean over rows without weights");
    const char *from = packed(r, x), *numbers = packed(r, at);
    need(r, "nll_of");
    fprintf(r->to, "    nll_of(%s, %s, ", rush_c_place(r, result(s, 0)), rush_c_place(r, result(s, 1)));
    fprintf(r->to, "%s, %s, %lld, %lld, %lld);\n", from, numbers, (long long)x->size[0], (long long)x->size[1], (long long)integer(s, 4));
    return 0;
}

/* (grad_output, self, target, weight, reduction, ignore_index, total_weight) */
static int write_nll_back(c_record *r, const c_step *s)
{
    const rush_tensor *x = tensor(s, 1), *out = result(s, 0);
    if (x->ndim != 2 || tensor(s, 3) || integer(s, 4) != 1 || !all_floats(s) || !rush_is_contiguous(out)) return unwritten(s, "but as the mean over rows without weights");
    const char *numbers = packed(r, tensor(s, 2));
    need(r, "nll_back");
    fprintf(r->to, "    nll_back(%s, %s, %s, ", rush_c_place(r, out), rush_c_place(r, tensor(s, 0)), numbers);
    fprintf(r->to, "%s, %lld, %lld, %lld);\n", rush_c_place(r, tensor(s, 6)), (long long)x->size[0], (long long)x->size[1], (long long)integer(s, 5));
    return 0;
}

static int write_mse(c_record *r, const c_step *s)
{
    const rush_tensor *x = tensor(s, 0), *y = tensor(s, 1);
    if (!all_floats(s) || integer(s, 2) == 0 || x->numel != y->numel) return unwritten(s, "of each element");
    const char *a = packed(r, x), *b = packed(r, y);
    need(r, "squares_of");
    fprintf(r->to, "    squares_of(%s, %s, ", rush_c_place(r, result(s, 0)), a);
    rush_fprintf(r->to, "%s, %lld, %.9gf);\n", b, (long long)x->numel, share(integer(s, 2), x->numel));
    return 0;
}

/* (grad_output, self, target, reduction) */
static int write_mse_back(c_record *r, const c_step *s)
{
    return write_formula(r, s, result(s, 0), &(formula){.value = "2 * a * x * (y - z)", .type = RUSH_F32, .nx = 3, .x = {s->in[0], s->in[1], s->in[2]}, .na = 1, .a = {rush_v_float(share(integer(s, 3), tensor(s, 1)->numel))}});
}

static const c_row pointwise = {"", write_row, 0};
static const c_row rows[] = {
    {"_adaptive_avg_pool2d", write_adaptive, 0}, {"_adaptive_avg_pool2d_backward", write_adaptive, 0}, {"_log_softmax", write_log_softmax, 0}, {"_log_softmax_backward_data", write_log_softmax_back, 0},
    {"_max_pool2d_values", write_max_pool, 0}, {"_scaled_dot_product_flash_attention_for_cpu", write_attention, 0}, {"_scaled_dot_product_flash_attention_for_cpu_backward", write_attention_back, 0},
    {"_softmax", write_softmax, 0}, {"_softmax_backward_data", write_softmax_back, 0}, {"_to_copy", write_copy, 0}, {"adaptive_avg_pool2d", write_adaptive, 0}, {"addmm", write_addmm, 0}, {"amax", write_amax, 0},
    {"avg_pool2d", write_avg_pool, 0}, {"bmm", write_bmm, 0}, {"cat", write_cat, 0}, {"clamp", write_clamp, 0}, {"clamp_min", write_clamp, 0}, {"clone", write_copy, 0}, {"contiguous", write_copy, 0}, {"convolution", write_conv, 0},
    {"convolution_backward", write_conv_back, 0}, {"copy_", write_copy_, 0}, {"embedding", write_embedding, 0}, {"embedding_dense_backward", write_embedding_back, 0}, {"fill_", write_fill, 0}, {"full_like", write_fill, 0},
    {"gelu", write_gelu, 0}, {"gelu_backward", write_gelu_back, 0}, {"linear", write_linear, 0}, {"masked_fill", write_masked_fill, 0}, {"max_pool2d_with_indices", write_max_pool, 0},
    {"max_pool2d_with_indices_backward", write_max_pool_back, 0}, {"mean", write_mean, 0}, {"mm", write_mm, 0}, {"native_batch_norm", write_batch_norm, 1u << 3 | 1u << 4}, {"native_batch_norm_backward", write_batch_norm_back, 0},
    {"native_layer_norm", write_layer_norm, 0}, {"native_layer_norm_backward", write_layer_norm_back, 0}, {"ones_like", write_ones, 0}, {"select_backward", write_select_back, 0}, {"slice_backward", write_slice_back, 0},
    {"mse_loss", write_mse, 0}, {"mse_loss_backward", write_mse_back, 0}, {"nll_loss_backward", write_nll_back, 0}, {"nll_loss_forward", write_nll, 0}, {"sum", write_sum, 0}, {"where", write_where, 0}, {"zeros_like", write_zeros, 0}};

const c_row *rush_c_row_find(const rush_op *op)
{
    for (size_t i = 0; i < RUSH_COUNT(rows); ++i)
        if (!strcmp(rows[i].name, op->base)) return op->run && !strcmp(op->base, "contiguous") ? NULL : &rows[i];
    return op->cpu == rush_pw_cpu && op->row ? &pointwise : NULL;
}
