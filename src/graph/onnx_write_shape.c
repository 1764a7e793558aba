/* onnx_write_shape.c - views, pieces, places and new tensors, written as ONNX. What shape a result has is known, so that most views are one Reshape. */
#include "graph/onnx_write.h"
#include "op/op.h"

#define RULE(name) static int name(W *w, const rush_graph_node *node)

static int64_t wrapped(const rush_graph_value *v, int64_t d) { return d < 0 && v && v->ndim >= 0 ? d + v->ndim : d; }

/* ---- views ---- */

RULE(reshaped)
{
    const char *x = TENSOR(0), *shape = rush_onnx_shape_of(w, RESULT(0), NULL, true);
    if (!shape && !rush_failed() && (!strncmp(node->op->base, "view", 4) || !strncmp(node->op->base, "reshape", 7) || !strcmp(node->op->base, "_unsafe_view"))) shape = rush_onnx_sizes_of(w, IN(1));
    GIVE(x && shape ? PUT("Reshape", NULL, x, shape) : NULL);
}

RULE(squeezed)
{
    int64_t x[RUSH_MAXDIM];
    int n = node->op->nargs > 1 ? rush_onnx_ints_of(IN(1), RUSH_MAXDIM, x) : 0, kept = 0;
    const rush_graph_value *v = TYPE(0);
    if (n < 0 || !v || v->ndim < 0) return 1;
    for (int i = 0; i < n; ++i)
        if (v->size[wrapped(v, x[i])].n == 1) x[kept++] = x[i]; /* others stay */
    if (node->op->nargs > 1) GIVE(kept ? PUT("Squeeze", NULL, TENSOR(0), rush_onnx_list(w, kept, x)) : TENSOR(0));
    return reshaped(w, node);
}

RULE(unsqueezed)
{
    int64_t d;
    if (!rush_onnx_int(IN(1), &d)) return 1;
    GIVE(PUT("Unsqueeze", NULL, TENSOR(0), rush_onnx_list(w, 1, &d)));
}

RULE(expanded)
{
    const char *shape = TYPE(0) ? rush_onnx_shape_of(w, RESULT(0), TYPE(0), false) : NULL;
    if (!shape && !rush_failed() && !strcmp(node->op->base, "expand")) {
        shape = rush_onnx_sizes_of(w, IN(1)); /* -1 keeps what is there, as 1 does there */
        if (shape) shape = PUT("Abs", NULL, shape);
    }
    GIVE(PUT("Expand", NULL, TENSOR(0), shape));
}

static const char *transposed(W *w, const char *x, int n, int a, int b)
{
    int64_t perm[RUSH_MAXDIM];
    for (int d = 0; d < n; ++d) perm[d] = d == a ? b : d == b ? a : d;
    return PUT("Transpose", rush_onnx_ints(NULL, "perm", n, perm), x);
}

RULE(swapped)
{
    const rush_graph_value *v = TYPE(0);
    int64_t a = 0, b = 1;
    if (!v || v->ndim < 0 || (node->op->nargs > 1 && (!rush_onnx_int(IN(1), &a) || !rush_onnx_int(IN(2), &b)))) return 1;
    if (node->op->nargs == 1 && strcmp(node->op->base, "t")) a = v->ndim - 2, b = v->ndim - 1;
    if (v->ndim < 2) GIVE(TENSOR(0));
    GIVE(transposed(w, TENSOR(0), v->ndim, (int)wrapped(v, a), (int)wrapped(v, b)));
}

RULE(permuted)
{
    int64_t perm[RUSH_MAXDIM];
    int n = rush_onnx_ints_of(IN(1), RUSH_MAXDIM, perm);
    if (n < 0) return 1;
    for (int d = 0; d < n; ++d) perm[d] = perm[d] < 0 ? perm[d] + n : perm[d];
    GIVE(PUT("Transpose", rush_onnx_ints(NULL, "perm", n, perm), TENSOR(0)));
}

/* ---- pieces ---- */

RULE(sliced)
{
    int64_t d, zero = 0, most = INT64_MAX;
    if (!rush_onnx_int(IN(1), &d)) return 1;
    d = wrapped(TYPE(0), d);
    const char *from = rush_onnx_none(IN(2)) ? rush_onnx_list(w, 1, &zero) : rush_onnx_size_of(w, IN(2)), *to = rush_onnx_none(IN(3)) ? rush_onnx_list(w, 1, &most) : rush_onnx_size_of(w, IN(3));
    GIVE(PUT("Slice", NULL, TENSOR(0), from, to, rush_onnx_list(w, 1, &d), rush_onnx_size_of(w, IN(4))));
}

RULE(narrowed)
{
    int64_t d;
    if (!rush_onnx_int(IN(1), &d)) return 1;
    const char *from = rush_onnx_size_of(w, IN(2)), *n = rush_onnx_size_of(w, IN(3));
    GIVE(PUT("Slice", NULL, TENSOR(0), from, PUT("Add", NULL, from, n), rush_onnx_list(w, 1, &d)));
}

RULE(selected)
{
    int64_t d;
    if (!rush_onnx_int(IN(1), &d)) return 1;
    GIVE(PUT("Gather", rush_onnx_i(NULL, "axis", d), TENSOR(0), rush_onnx_tensor_of(w, IN(2), RUSH_I64)));
}

static int list_of(W *w, const rush_operand *o, int dtype, const char **to, int most)
{
    if (o->kind != RUSH_OPERAND_LIST || !o->n || (int)o->n > most) return -1;
    for (uint32_t i = 0; i < o->n; ++i)
        if (!(to[i] = rush_onnx_tensor_of(w, &o->item[i], dtype))) return -1;
    return (int)o->n;
}

enum { MOST = 512 };

RULE(joined)
{
    const char *each[MOST];
    int64_t d;
    bool stack = !strcmp(node->op->base, "stack");
    int n = list_of(w, IN(0), RESULT(0)->dtype, each, MOST), kept = 0;
    if (n < 0 || !rush_onnx_int(IN(1), &d)) return 1;
    for (int i = 0; i < n; ++i) {
        const rush_graph_value *v = rush_onnx_type(w, &IN(0)->item[i]);
        if (!stack && v && v->ndim == 1 && RESULT(0)->ndim > 1 && v->size[0].n == 0) continue; /* an old kind of emptiness */
        each[kept++] = stack ? PUT("Unsqueeze", NULL, each[i], rush_onnx_list(w, 1, &d)) : each[i];
    }
    GIVE(rush_onnx_put(w, "Concat", rush_onnx_i(NULL, "axis", d), kept, each));
}

/* split, chunk, unbind and the like: the sizes of the results are known. */
RULE(split)
{
    const char *out[MOST], *in[2] = {TENSOR(0), ""};
    int64_t d = 0, size[MOST];
    int at = rush_op_arg(node->op, "dim"), n = (int)node->nout;
    bool unbind = !strcmp(node->op->base, "unbind"), known = true;
    const rush_graph_value *v = TYPE(0);
    if (!v || v->ndim < 0 || n > MOST || (at >= 0 && !rush_onnx_int(IN(at), &d))) return 1;
    d = wrapped(v, d);
    for (int i = 0; i < n; ++i) {
        const rush_graph_value *r = node->out[i] == RUSH_NO_VALUE ? NULL : RESULT(i);
        size[i] = unbind ? 1 : r && r->ndim > d ? r->size[d].n : -1;
        known = known && size[i] >= 0;
    }
    if (!known && !unbind && v->size[d].n >= 0) { /* a piece that nobody asks for has what is left */
        int64_t rest = v->size[d].n, holes = 0, hole = 0;
        for (int i = 0; i < n; ++i) size[i] < 0 ? (++holes, hole = i) : (rest -= size[i]);
        if (holes == 1 && rest >= 0) size[hole] = rest, known = true;
    }
    if (known) in[1] = rush_onnx_list(w, n, size);
    int failed = rush_onnx_put_many(w, "Split", known ? rush_onnx_i(NULL, "axis", d) : rush_onnx_i(rush_onnx_i(NULL, "axis", d), "num_outputs", n), 2, in, n, out);
    for (int i = 0; !failed && i < n; ++i) failed = rush_onnx_give(w, node, i, unbind ? PUT("Squeeze", NULL, out[i], rush_onnx_list(w, 1, &d)) : out[i]);
    return failed;
}

RULE(repeated) /* repeat: with dimensions before */
{
    const rush_graph_value *v = TYPE(0);
    const char *x = TENSOR(0), *times = rush_onnx_sizes_of(w, IN(1));
    int n = RESULT(0)->ndim;
    if (!v || v->ndim < 0 || n < 0) return 1;
    int64_t axes[RUSH_MAXDIM];
    for (int d = 0; d < n - v->ndim; ++d) axes[d] = d;
    if (n > v->ndim) x = PUT("Unsqueeze", NULL, x, rush_onnx_list(w, n - v->ndim, axes));
    GIVE(PUT("Tile", NULL, x, times));
}

RULE(interleaved) /* repeat_interleave by a number: each element several times in a dimension of its own */
{
    int64_t d, times[RUSH_MAXDIM + 1], n;
    const rush_graph_value *v = TYPE(0);
    const char *shape = rush_onnx_shape_of(w, RESULT(0), NULL, true);
    if (!v || v->ndim < 0 || !shape || !rush_onnx_int(IN(1), &n) || !rush_onnx_int(IN(2), &d)) return 1;
    d = wrapped(v, d) + 1;
    for (int k = 0; k <= v->ndim; ++k) times[k] = k == d ? n : 1;
    GIVE(PUT("Reshape", NULL, PUT("Tile", NULL, PUT("Unsqueeze", NULL, TENSOR(0), rush_onnx_list(w, 1, &d)), rush_onnx_list(w, v->ndim + 1, times)), shape));
}

RULE(flipped)
{
    int64_t d[RUSH_MAXDIM], from[RUSH_MAXDIM], to[RUSH_MAXDIM];
    int n = rush_onnx_ints_of(IN(1), RUSH_MAXDIM, d);
    if (n < 0) return 1;
    for (int i = 0; i < n; ++i) d[i] = wrapped(TYPE(0), d[i]), from[i] = -1, to[i] = INT64_MIN;
    const char *back = rush_onnx_list(w, n, from);
    GIVE(PUT("Slice", NULL, TENSOR(0), back, rush_onnx_list(w, n, to), rush_onnx_list(w, n, d), back));
}

RULE(rolled)
{
    int64_t shift[RUSH_MAXDIM], d[RUSH_MAXDIM];
    int n = rush_onnx_ints_of(IN(1), RUSH_MAXDIM, shift), m = rush_onnx_ints_of(IN(2), RUSH_MAXDIM, d);
    const char *x = TENSOR(0);
    if (n < 1 || n != m) return 1;
    for (int i = 0; i < n; ++i) { /* the end comes first */
        int64_t cut = -shift[i], zero = 0, most = INT64_MAX, axis = wrapped(TYPE(0), d[i]), size = TYPE(0) ? TYPE(0)->size[axis].n : -1;
        if (size < 0 && shift[i] < 0) cut = -shift[i];
        if (size > 0) cut = ((-shift[i]) % size + size) % size;
        if (!cut) continue;
        const char *at = rush_onnx_list(w, 1, &cut), *axes = rush_onnx_list(w, 1, &axis);
        x = PUT("Concat", rush_onnx_i(NULL, "axis", axis), PUT("Slice", NULL, x, at, rush_onnx_list(w, 1, &most), axes), PUT("Slice", NULL, x, rush_onnx_list(w, 1, &zero), at, axes));
    }
    GIVE(x);
}

/* ---- places ---- */

RULE(embedded) { GIVE(PUT("Gather", NULL, TENSOR(0), TENSOR(1))); }

RULE(taken) /* index_select */
{
    int64_t d;
    if (!rush_onnx_int(IN(1), &d)) return 1;
    GIVE(PUT("Gather", rush_onnx_i(NULL, "axis", d), TENSOR(0), TENSOR(2)));
}

RULE(gathered)
{
    int64_t d;
    if (!rush_onnx_int(IN(1), &d)) return 1;
    GIVE(PUT("GatherElements", rush_onnx_i(NULL, "axis", d), TENSOR(0), TENSOR(2)));
}

RULE(scattered)
{
    int64_t d;
    const char *updates;
    if (!rush_onnx_int(IN(1), &d)) return 1;
    if (TYPE(3)) updates = rush_onnx_tensor_of(w, IN(3), RESULT(0)->dtype);
    else updates = PUT("Expand", NULL, rush_onnx_tensor_of(w, IN(3), RESULT(0)->dtype), PUT("Shape", NULL, TENSOR(2)));
    rush_bytes *a = rush_onnx_i(NULL, "axis", d);
    if (!strcmp(node->op->base, "scatter_add")) a = rush_onnx_s(a, "reduction", "add");
    GIVE(PUT("ScatterElements", a, TENSOR(0), TENSOR(2), updates));
}

/* Indices that are given, as one tensor whose last dimension names a place: broadcast, then side by side. first: how many dimensions come before. */
static const char *places(W *w, const rush_operand *list, int *first, int *n)
{
    const char *each[RUSH_MAXDIM] = {NULL}, *shape = NULL;
    *first = -1;
    *n = 0;
    for (uint32_t i = 0; i < list->n && i < RUSH_MAXDIM; ++i) {
        const rush_graph_value *v = rush_onnx_type(w, &list->item[i]);
        if (rush_onnx_none(&list->item[i])) {
            if (*n) return NULL; /* indices that are not next to each other, or behind: not written */
            continue;
        }
        if (!v || v->ndim < 0 || rush_dtypes[v->dtype].category != 1) return NULL;
        if (*first < 0) *first = (int)i;
        each[(*n)++] = rush_onnx_tensor_of(w, &list->item[i], RUSH_I64);
    }
    if (*n == 1) return each[0];
    const char *sum = each[0];
    for (int i = 1; i < *n; ++i) sum = PUT("Add", NULL, sum, each[i]); /* of the shape of all */
    shape = sum ? PUT("Shape", NULL, sum) : NULL;
    for (int i = 0; i < *n; ++i) each[i] = PUT("Unsqueeze", NULL, PUT("Expand", NULL, each[i], shape), rush_onnx_list(w, 1, (int64_t[]){-1}));
    return rush_onnx_put(w, "Concat", rush_onnx_i(NULL, "axis", -1), *n, each);
}

RULE(indexed)
{
    int first, n;
    if (IN(1)->kind != RUSH_OPERAND_LIST) return 1;
    const char *at = places(w, IN(1), &first, &n);
    if (!at || (n > 1 && first)) return 1;
    if (n == 1) GIVE(PUT("Gather", rush_onnx_i(NULL, "axis", first), TENSOR(0), at));
    GIVE(PUT("GatherND", NULL, TENSOR(0), at));
}

RULE(put_in)
{
    int first, n;
    int64_t sum = 0;
    if (IN(1)->kind != RUSH_OPERAND_LIST || !rush_onnx_int(IN(3), &sum)) return 1;
    const char *at = places(w, IN(1), &first, &n);
    const rush_graph_value *x = TYPE(0), *v = TYPE(2);
    if (!at || first || !x || !v) return 1;
    if (n == 1) at = PUT("Unsqueeze", NULL, at, rush_onnx_list(w, 1, (int64_t[]){-1}));
    /* updates have the places' shape, then the rest of x's */
    const char *shape = PUT("Concat", rush_onnx_i(NULL, "axis", 0), PUT("Shape", rush_onnx_i(NULL, "end", -1), at), PUT("Shape", rush_onnx_i(NULL, "start", n), TENSOR(0)));
    GIVE(PUT("ScatterND", sum ? rush_onnx_s(NULL, "reduction", "add") : NULL, TENSOR(0), at, PUT("Expand", NULL, TENSOR(2), shape)));
}

RULE(nonzero) { GIVE(PUT("Transpose", rush_onnx_ints(NULL, "perm", 2, (int64_t[]){1, 0}), PUT("NonZero", NULL, TENSOR(0)))); }

RULE(one_hot)
{
    int64_t n;
    if (!rush_onnx_int(IN(1), &n) || n < 0) return 1;
    const char *values = rush_onnx_list(w, 2, (int64_t[]){0, 1});
    GIVE(PUT("OneHot", NULL, TENSOR(0), rush_onnx_list(w, 1, &n), values));
}

RULE(triangle)
{
    int64_t k;
    if (!rush_onnx_int(IN(1), &k)) return 1;
    GIVE(PUT("Trilu", rush_onnx_i(NULL, "upper", !strcmp(node->op->base, "triu")), TENSOR(0), rush_onnx_number(w, rush_v_int(k), RUSH_I64)));
}

/* ---- new tensors ---- */

static const char *filled(W *w, const rush_graph_node *node, const char *with)
{
    const char *shape = rush_onnx_shape_of(w, RESULT(0), NULL, false);
    int size = rush_op_arg(node->op, "size"), like = rush_op_arg(node->op, "self");
    if (!shape && !rush_failed() && size >= 0) shape = rush_onnx_sizes_of(w, IN(size));
    if (!shape && !rush_failed() && like >= 0 && size < 0) shape = PUT("Shape", NULL, TENSOR(like));
    return RESULT(0)->ndim == 0 ? with : PUT("Expand", NULL, with, shape);
}

RULE(full)
{
    int value = rush_op_arg(node->op, "fill_value");
    if (value < 0) value = rush_op_arg(node->op, "value");
    int d = RESULT(0)->dtype;
    if (value < 0 && strstr(node->op->base, "scalar_tensor")) value = 0;
    GIVE(filled(w, node, value >= 0 ? rush_onnx_tensor_of(w, IN(value), d) : rush_onnx_number(w, rush_v_int(strstr(node->op->base, "ones") != NULL), d)));
}

RULE(range)
{
    int d = RESULT(0)->dtype, n = node->op->nargs;
    int end = rush_op_arg(node->op, "end"), start = rush_op_arg(node->op, "start"), step = rush_op_arg(node->op, "step");
    (void)n;
    const char *from = start < 0 ? rush_onnx_number(w, rush_v_int(0), d) : rush_onnx_tensor_of(w, IN(start), d), *by = step < 0 ? rush_onnx_number(w, rush_v_int(1), d) : rush_onnx_tensor_of(w, IN(step), d);
    GIVE(PUT("Range", NULL, from, rush_onnx_tensor_of(w, IN(end), d), by));
}

RULE(padded)
{
    int64_t pad[2 * RUSH_MAXDIM], all[2 * RUSH_MAXDIM] = {0};
    bool plain = !strcmp(node->op->base, "constant_pad_nd") || rush_onnx_is(IN(2), "constant");
    int n = rush_onnx_ints_of(IN(1), 2 * RUSH_MAXDIM, pad), value = plain ? (!strcmp(node->op->base, "constant_pad_nd") ? 2 : 3) : -1;
    const rush_graph_value *v = TYPE(0);
    const char *mode = plain ? "constant" : strstr(node->op->base, "reflect") || rush_onnx_is(IN(2), "reflect") ? "reflect" : strstr(node->op->base, "replicat") || rush_onnx_is(IN(2), "replicate") ? "edge" : NULL;
    if (n < 0 || !v || v->ndim < 0 || n / 2 > v->ndim || !mode) return 1;
    for (int i = 0; i < n / 2; ++i) all[v->ndim - 1 - i] = pad[2 * i], all[2 * v->ndim - 1 - i] = pad[2 * i + 1];
    const char *with = value >= 0 && !rush_onnx_none(IN(value)) ? rush_onnx_tensor_of(w, IN(value), v->dtype) : "";
    GIVE(PUT("Pad", rush_onnx_s(NULL, "mode", mode), TENSOR(0), rush_onnx_list(w, 2 * v->ndim, all), with));
}

RULE(shuffled)
{
    int64_t b;
    if (!rush_onnx_int(IN(1), &b)) return 1;
    GIVE(PUT("DepthToSpace", rush_onnx_s(rush_onnx_i(NULL, "blocksize", b), "mode", "CRD"), TENSOR(0)));
}

const rush_onnx_row rush_onnx_shape[] = {
    {"view", reshaped, NULL}, {"view_copy", reshaped, NULL}, {"view_as", reshaped, NULL}, {"_unsafe_view", reshaped, NULL}, {"reshape", reshaped, NULL}, {"_reshape_alias", reshaped, NULL}, {"flatten", reshaped, NULL},
    {"reshape_as", reshaped, NULL}, {"unflatten", reshaped, NULL}, {"ravel", reshaped, NULL}, {"squeeze", squeezed, NULL}, {"unsqueeze", unsqueezed, NULL}, {"expand", expanded, NULL}, {"expand_as", expanded, NULL},
    {"broadcast_to", expanded, NULL}, {"t", swapped, NULL}, {"numpy_T", swapped, NULL}, {"mT", swapped, NULL}, {"transpose", swapped, NULL}, {"swapaxes", swapped, NULL}, {"permute", permuted, NULL},
    {"slice", sliced, NULL}, {"narrow", narrowed, NULL}, {"select", selected, NULL}, {"cat", joined, NULL}, {"concat", joined, NULL}, {"stack", joined, NULL}, {"split", split, NULL}, {"split_with_sizes", split, NULL},
    {"chunk", split, NULL}, {"unbind", split, NULL}, {"tensor_split", split, NULL}, {"repeat", repeated, NULL}, {"repeat_interleave.self_int", interleaved, NULL}, {"flip", flipped, NULL}, {"roll", rolled, NULL},
    {"embedding", embedded, NULL}, {"index_select", taken, NULL}, {"gather", gathered, NULL}, {"scatter", scattered, NULL}, {"scatter_add", scattered, NULL}, {"index", indexed, NULL}, {"index_put", put_in, NULL},
    {"_unsafe_index_put", put_in, NULL}, {"_unsafe_index", indexed, NULL}, {"nonzero", nonzero, NULL}, {"one_hot", one_hot, NULL}, {"tril", triangle, NULL}, {"triu", triangle, NULL}, {"full", full, NULL}, {"full_like", full, NULL},
    {"zeros", full, NULL}, {"zeros_like", full, NULL}, {"ones", full, NULL}, {"ones_like", full, NULL}, {"new_zeros", full, NULL}, {"new_ones", full, NULL}, {"new_full", full, NULL}, {"empty", full, NULL},
    {"empty_like", full, NULL}, {"new_empty", full, NULL}, {"fill", full, NULL}, {"zero", full, NULL}, {"scalar_tensor", full, NULL}, {"arange", range, NULL}, {"constant_pad_nd", padded, NULL}, {"pad", padded, NULL},
    {"reflection_pad1d", padded, NULL}, {"reflection_pad2d", padded, NULL}, {"reflection_pad3d", padded, NULL}, {"replication_pad1d", padded, NULL}, {"replication_pad2d", padded, NULL}, {"replication_pad3d", padded, NULL},
    {"pixel_shuffle", shuffled, NULL}, {NULL}};
