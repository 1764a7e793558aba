/* onnx_put.c - nodes, attributes and constants of an ONNX graph that is written. */
#include "graph/onnx_write.h"
#include "op/formula.h"

#include <stdio.h>

const char *rush_onnx_fresh(W *w)
{
    char *name = rush_scope_alloc(96);
    const rush_graph_node *node = w->node;
    const char *from = node && node->nout && node->out[0] != RUSH_NO_VALUE ? w->g->value[node->out[0]].name : "constant";
    if (name) snprintf(name, 96, "%.70s.%u", from, (*w->fresh)++);
    return name;
}

/* ---- attributes ---- */

static rush_bytes *begun(rush_bytes *a)
{
    if (a) return a;
    a = rush_scope_alloc(sizeof *a);
    if (a) *a = (rush_bytes){0};
    return a;
}

static rush_bytes *attribute(rush_bytes *to, rush_bytes *one, const char *name, int type)
{
    rush_pb_text(one, 1, name);
    rush_pb_int(one, 20, type);
    if (to) rush_pb_message(to, 5, one);
    else rush_bytes_end(one);
    return to;
}

rush_bytes *rush_onnx_i(rush_bytes *a, const char *name, int64_t i)
{
    rush_bytes one = {0};
    rush_pb_int(&one, 3, i);
    return attribute(begun(a), &one, name, 2);
}

rush_bytes *rush_onnx_f(rush_bytes *a, const char *name, double f)
{
    rush_bytes one = {0};
    rush_pb_float(&one, 2, (float)f);
    return attribute(begun(a), &one, name, 1);
}

rush_bytes *rush_onnx_s(rush_bytes *a, const char *name, const char *s)
{
    rush_bytes one = {0};
    rush_pb_text(&one, 4, s);
    return attribute(begun(a), &one, name, 3);
}

rush_bytes *rush_onnx_ints(rush_bytes *a, const char *name, int64_t n, const int64_t *x)
{
    rush_bytes one = {0};
    for (int64_t i = 0; i < n; ++i) rush_pb_int(&one, 8, x[i]);
    return attribute(begun(a), &one, name, 7);
}

/* ---- nodes ---- */

int rush_onnx_put_many(W *w, const char *type, rush_bytes *attributes, int n, const char *const *in, int nout, const char **out)
{
    rush_bytes node = {0};
    for (int i = 0; i < n; ++i) {
        if (in[i]) continue;
        if (attributes) rush_bytes_end(attributes);
        return 1;
    }
    while (n && !*in[n - 1]) --n;
    for (int i = 0; i < n; ++i) rush_pb_text(&node, 1, in[i]);
    for (int i = 0; i < nout; ++i) {
        if (!(out[i] = rush_onnx_fresh(w))) break;
        rush_pb_text(&node, 2, out[i]);
    }
    rush_pb_text(&node, 4, type);
    if (!rush_failed()) rush_pb_text(&node, 3, nout ? out[0] : type);
    if (attributes) {
        rush_bytes_add(&node, attributes->p, attributes->n);
        rush_bytes_end(attributes);
    }
    rush_pb_message(w->nodes, 1, &node);
    return rush_failed() || w->nodes->lost ? -1 : 0;
}

const char *rush_onnx_put(W *w, const char *type, rush_bytes *attributes, int n, const char *const *in)
{
    const char *out;
    return rush_onnx_put_many(w, type, attributes, n, in, 1, &out) ? NULL : out;
}

/* ---- constants ---- */

int rush_onnx_constant(W *w, const char *name, const rush_tensor *t)
{
    rush_bytes tensor = {0};
    size_t mark = rush_scope_open();
    t = t ? rush_contiguous_copy(t) : NULL;
    if (t && !rush_dtypes[t->dtype].onnx) rush_fail(RUSH_NOT_IMPLEMENTED, "ONNX has no tensors of %s", rush_dtype_name(t->dtype));
    if (t && !rush_failed()) {
        for (int d = 0; d < t->ndim; ++d) rush_pb_int(&tensor, 1, t->size[d]);
        rush_pb_int(&tensor, 2, rush_dtypes[t->dtype].onnx);
        rush_pb_text(&tensor, 8, name);
        rush_pb_data(&tensor, 9, t->numel ? rush_ptr(t) : "", (size_t)t->numel * rush_dtypes[t->dtype].size);
        rush_pb_message(w->constants, 5, &tensor);
    }
    rush_scope_close(mark);
    return rush_failed() || w->constants->lost ? -1 : 0;
}

static const char *kept(W *w, const rush_tensor *t)
{
    const char *name = rush_onnx_fresh(w);
    return name && t && !rush_onnx_constant(w, name, t) ? name : NULL;
}

const char *rush_onnx_number(W *w, rush_value v, int dtype)
{
    if (dtype < 0) dtype = v.kind == RUSH_V_FLOAT ? RUSH_F32 : v.kind == RUSH_V_BOOL ? RUSH_BOOL : RUSH_I64;
    return kept(w, T("full", rush_v_ints(NULL, 0), v, rush_v_dtype(dtype)));
}

const char *rush_onnx_list(W *w, int64_t n, const int64_t *x) { return kept(w, rush_from_data(x, RUSH_I64, 1, &n)); }
const char *rush_onnx_filled(W *w, int64_t n, double x, int dtype) { return kept(w, T("full", INTS(n), V(x), rush_v_dtype(dtype))); }
const char *rush_onnx_cast(W *w, const char *name, int dtype) { return name ? PUT("Cast", rush_onnx_i(NULL, "to", rush_dtypes[dtype].onnx), name) : NULL; }

/* ---- arguments ---- */

const rush_graph_value *rush_onnx_type(const W *w, const rush_operand *o)
{
    const rush_graph_value *v = o->kind == RUSH_OPERAND_VALUE ? &w->g->value[o->value] : NULL;
    return v && v->type == RUSH_A_TENSOR ? v : NULL;
}

const char *rush_onnx_tensor_of(W *w, const rush_operand *o, int dtype)
{
    if (o->kind == RUSH_OPERAND_CONSTANT) return o->constant.kind == RUSH_V_INT || o->constant.kind == RUSH_V_FLOAT || o->constant.kind == RUSH_V_BOOL ? rush_onnx_number(w, o->constant, dtype) : NULL;
    if (o->kind != RUSH_OPERAND_VALUE) return NULL;
    const rush_graph_value *v = &w->g->value[o->value];
    int own = v->type == RUSH_A_TENSOR ? v->ndim < 0 ? -1 : v->dtype : v->type == RUSH_A_FLOAT ? RUSH_F32 : v->type == RUSH_A_BOOL ? RUSH_BOOL : RUSH_I64;
    return dtype < 0 || own == dtype ? w->name[o->value] : rush_onnx_cast(w, w->name[o->value], dtype);
}

const char *rush_onnx_size_of(W *w, const rush_operand *o)
{
    int64_t i;
    if (rush_onnx_int(o, &i)) return rush_onnx_list(w, 1, &i);
    const char *scalar = rush_onnx_tensor_of(w, o, RUSH_I64);
    return scalar ? PUT("Reshape", NULL, scalar, rush_onnx_list(w, 1, (int64_t[]){1})) : NULL;
}

const char *rush_onnx_sizes_of(W *w, const rush_operand *o)
{
    int64_t x[RUSH_MAXDIM];
    int n = rush_onnx_ints_of(o, RUSH_MAXDIM, x);
    if (n >= 0) return rush_onnx_list(w, n, x);
    if (o->kind != RUSH_OPERAND_LIST || o->n > RUSH_MAXDIM) return NULL;
    const char *each[RUSH_MAXDIM];
    for (uint32_t i = 0; i < o->n; ++i)
        if (!(each[i] = rush_onnx_size_of(w, &o->item[i]))) return NULL;
    return rush_onnx_put(w, "Concat", rush_onnx_i(NULL, "axis", 0), (int)o->n, each);
}

bool rush_onnx_none(const rush_operand *o) { return o->kind == RUSH_OPERAND_CONSTANT && o->constant.kind == RUSH_V_NONE; }
bool rush_onnx_is(const rush_operand *o, const char *word) { return o->kind == RUSH_OPERAND_CONSTANT && o->constant.kind == RUSH_V_STRING && !strcmp(o->constant.s, word); }

bool rush_onnx_int(const rush_operand *o, int64_t *i)
{
    bool is = o->kind == RUSH_OPERAND_CONSTANT && (o->constant.kind == RUSH_V_INT || o->constant.kind == RUSH_V_BOOL);
    if (is) *i = o->constant.i;
    return is;
}

bool rush_onnx_float(const rush_operand *o, double *f)
{
    bool is = o->kind == RUSH_OPERAND_CONSTANT && rush_is_number(o->constant) && o->constant.kind != RUSH_V_COMPLEX;
    if (is) *f = rush_to_double(o->constant);
    return is;
}

int rush_onnx_ints_of(const rush_operand *o, int most, int64_t *to)
{
    if (rush_onnx_int(o, to)) return 1;
    if (o->kind == RUSH_OPERAND_CONSTANT && o->constant.kind == RUSH_V_INTS && o->constant.n <= (uint32_t)most) {
        for (uint32_t i = 0; i < o->constant.n; ++i) to[i] = o->constant.ints[i];
        return (int)o->constant.n;
    }
    if (o->kind != RUSH_OPERAND_LIST || o->n > (uint32_t)most) return -1;
    for (uint32_t i = 0; i < o->n; ++i)
        if (!rush_onnx_int(&o->item[i], &to[i])) return -1;
    return (int)o->n;
}

/* ---- shapes ---- */

/* The number that a symbol stands for: the size of an input that has it. */
static const char *symbol_of(W *w, int32_t k)
{
    const rush_graph *g = w->g;
    if (g->outer) return NULL;
    if (w->symbol[k]) return w->symbol[k];
    for (uint32_t i = 0; i < g->nin; ++i) {
        if (g->in[i] == RUSH_NO_VALUE) continue;
        const rush_graph_value *v = &g->value[g->in[i]];
        for (int d = 0; d < v->ndim; ++d) {
            if (v->size[d].symbol != k) continue;
            return w->symbol[k] = PUT("Shape", rush_onnx_i(rush_onnx_i(NULL, "start", d), "end", d + 1), w->name[g->in[i]]);
        }
    }
    return NULL;
}

static bool same_size(rush_graph_size a, rush_graph_size b) { return a.symbol >= 0 ? a.symbol == b.symbol : a.n >= 0 && b.symbol < 0 && a.n == b.n; }

const char *rush_onnx_shape_of(W *w, const rush_graph_value *v, const rush_graph_value *like, bool minus_one)
{
    int64_t n[RUSH_MAXDIM];
    const char *each[RUSH_MAXDIM];
    int varying = 0, last = -1;
    if (!v || v->ndim < 0) return NULL;
    for (int d = 0; d < v->ndim; ++d) {
        int from = like ? d - (v->ndim - like->ndim) : -1;
        n[d] = like && from >= 0 && (same_size(like->size[from], v->size[d]) || (v->size[d].n < 0 && !(like->size[from].symbol < 0 && like->size[from].n == 1))) ? 1 : v->size[d].symbol < 0 ? v->size[d].n : -1;
        if (n[d] < 0) ++varying, last = v->size[d].symbol < 0 || last < 0 || v->size[last].symbol >= 0 ? d : last;
    }
    if (!varying || (varying == 1 && minus_one)) return rush_onnx_list(w, v->ndim, n);
    for (int d = 0; d < v->ndim; ++d) {
        if (n[d] < 0 && !(minus_one && d == last && v->size[d].symbol < 0)) each[d] = v->size[d].symbol >= 0 ? symbol_of(w, v->size[d].symbol) : NULL;
        else each[d] = rush_onnx_list(w, 1, &n[d]);
        if (!each[d]) return NULL;
    }
    return rush_onnx_put(w, "Concat", rush_onnx_i(NULL, "axis", 0), v->ndim, each);
}

int rush_onnx_give(W *w, const rush_graph_node *node, int k, const char *name)
{
    if (!name) return rush_failed() ? -1 : 1;
    if ((uint32_t)k < node->nout && node->out[k] != RUSH_NO_VALUE) w->name[node->out[k]] = name;
    return 0;
}

/* ---- the tables ---- */

const rush_onnx_row *rush_onnx_row_of(const rush_graph_node *node)
{
    const rush_onnx_row *tables[] = {rush_onnx_math, rush_onnx_shape, rush_onnx_nn}, *found = NULL;
    for (size_t t = 0; t < RUSH_COUNT(tables) && node->op; ++t)
        for (const rush_onnx_row *r = tables[t]; r->op; ++r) {
            if (!strcmp(r->op, node->op->name)) return r;
            if (!strcmp(r->op, node->op->base)) found = r;
        }
    return found;
}

const char *rush_onnx_word(const rush_graph_node *node) { return rush_onnx_row_of(node)->word; }
