/* contract.c - sums of products over named or listed dimensions: einsum, tensordot, and what is built like them.
 *
 * All are compositions: dimensions are permuted into (batch, kept, summed), flattened, and handed to bmm or mm.
 */
#include "op/formula.h"
#include "ops/geometry.h"

#include <stdio.h>

static rush_tensor *permute(rush_tensor *t, const int64_t *order, int n)
{
    return T("permute", V(t), rush_v_ints(order, n));
}

/* ---- tensordot, inner ---- */

/* Kept dimensions of t, in order; or -1 for a dimension that is listed twice. */
static int others(const rush_tensor *t, rush_value dims, int64_t *wrapped, int64_t *rest)
{
    uint64_t seen = 0;
    int n = 0;
    for (uint32_t i = 0; i < dims.n; ++i) {
        int d = rush_dim_wrap(dims.ints[i], t->ndim);
        if (d < 0) return -1;
        RUSH_CHECK(!(seen >> d & 1), RUSH_RUNTIME_ERROR, "dim %d appears multiple times in the list of dims", d);
        seen |= (uint64_t)1 << d;
        wrapped[i] = d;
    }
    for (int d = 0; d < t->ndim; ++d)
        if (!(seen >> d & 1)) rest[n++] = d;
    return n;
}

static rush_tensor *tensordot(rush_tensor *a, rush_tensor *b, rush_value da, rush_value db)
{
    RUSH_CHECK_NULL(da.n == db.n, RUSH_RUNTIME_ERROR, "both dimension lists should have same length");
    RUSH_CHECK_NULL(a->dtype == b->dtype, RUSH_RUNTIME_ERROR, "both inputs should have same dtype");
    int64_t wa[RUSH_MAXDIM], wb[RUSH_MAXDIM], order_a[RUSH_MAXDIM], order_b[RUSH_MAXDIM], size[2 * RUSH_MAXDIM];
    int na = others(a, da, wa, order_a);
    if (na < 0) return NULL;
    int nb = others(b, db, wb, size);
    if (nb < 0) return NULL;
    int64_t k = 1, m = 1, n = 1;
    int ns = (int)da.n, at = 0;
    for (int i = 0; i < ns; ++i) {
        int64_t sa = a->size[wa[i]], sb = b->size[wb[i]];
        if (sb == 1 && sa != 1) a = to_dtype(sum_dim(a, wa[i], true), b->dtype); /* size 1 broadcasts: the other is summed */
        else if (sa == 1 && sb != 1) b = to_dtype(sum_dim(b, wb[i], true), a->dtype);
        else RUSH_CHECK_NULL(sa == sb, RUSH_RUNTIME_ERROR,
                             "contracted dimensions need to match, but first has size %lld in dim %lld and second has size %lld in dim %lld",
                             (long long)sa, (long long)da.ints[i], (long long)sb, (long long)db.ints[i]);
        if (!a || !b) return NULL;
        k *= a->size[wa[i]];
        order_a[na + i] = wa[i];
        order_b[i] = wb[i];
    }
    for (int i = 0; i < nb; ++i) order_b[ns + i] = size[i];
    for (int i = 0; i < na; ++i) m *= size[at++] = a->size[order_a[i]];
    for (int i = 0; i < nb; ++i) n *= size[at++] = b->size[order_b[ns + i]];
    rush_tensor *x = T("reshape", V(permute(a, order_a, a->ndim)), INTS(m, k));
    rush_tensor *y = T("reshape", V(permute(b, order_b, b->ndim)), INTS(k, n));
    return T("reshape", V(mm(x, y)), rush_v_ints(size, at));
}

static int tensordot_run(const rush_op *op, const rush_value *in, rush_value *out)
{
    return rush_result(out, tensordot(in[0].t, in[1].t, in[2], in[3]));
}

static rush_op op_tensordot = {
    .schema = "tensordot(Tensor self, Tensor other, int[] dims_self, int[] dims_other) -> Tensor",
    .doc = "Sum of products over the listed dimensions of both; those of self that are left come first.", .run = tensordot_run,
};

static int inner_run(const rush_op *op, const rush_value *in, rush_value *out)
{
    rush_tensor *a = in[0].t, *b = in[1].t;
    if (!a->ndim || !b->ndim) return rush_result(out, mul(a, b));
    RUSH_CHECK(a->size[a->ndim - 1] == b->size[b->ndim - 1], RUSH_RUNTIME_ERROR,
               "inner() the last dimension must match on both input tensors but got shapes %s and %s", rush_shape_of(a), rush_shape_of(b));
    return rush_result(out, tensordot(a, b, INTS(-1), INTS(-1)));
}

static rush_op op_inner = {
    .schema = "inner(Tensor self, Tensor other) -> Tensor", .method = RUSH_METHOD,
    .doc = "Sum of products over the last dimension of both; the other dimensions of self come first.", .run = inner_run,
};

/* ---- einsum ---- */

#define LABELS 52
enum { ELLIPSIS = LABELS };

typedef struct operand {
    rush_tensor *t;
    int n, label[RUSH_MAXDIM]; /* one per dimension; ELLIPSIS stands for any number of them */
    bool ellipsis;
} operand;

static int label_of(char c)
{
    return c >= 'A' && c <= 'Z' ? c - 'A' : c >= 'a' && c <= 'z' ? c - 'a' + 26 : -1;
}

static char letter_of(int label)
{
    return (char)(label < 26 ? 'A' + label : 'a' + label - 26);
}

/* One comma-separated part of the equation; `which` names it in messages. */
static int read_labels(const char *text, size_t n, size_t offset, const char *which, operand *o)
{
    for (size_t i = 0; i < n; ++i) {
        char c = text[i];
        if (c == ' ') continue;
        if (c == '.') {
            RUSH_CHECK(!o->ellipsis, RUSH_RUNTIME_ERROR, "einsum(): found '.' for %s for which an ellipsis was already found", which);
            RUSH_CHECK(i + 2 < n && text[i + 1] == '.' && text[i + 2] == '.', RUSH_RUNTIME_ERROR,
                       "einsum(): found '.' for %s that is not part of any ellipsis", which);
            i += 2;
            o->ellipsis = true;
            o->label[o->n++] = ELLIPSIS;
            continue;
        }
        RUSH_CHECK(label_of(c) >= 0, RUSH_RUNTIME_ERROR,
                   "einsum(): invalid subscript given at index %zu in the equation string, subscripts must be in [a-zA-Z]", offset + i);
        RUSH_CHECK(o->n < RUSH_MAXDIM, RUSH_RUNTIME_ERROR, "einsum(): too many subscripts");
        o->label[o->n++] = label_of(c);
    }
    return 0;
}

typedef struct equation {
    int place[LABELS];   /* of each label in the common order of dimensions, -1 when it does not appear */
    int ellipsis, nellipsis, ndim, nout; /* where the ellipsis' dimensions begin, how many; dimensions in all; of the result */
    int64_t size[RUSH_MAXDIM];
} equation;

/* Common order: the result's labels first, in its order; then the summed ones. */
static int order_labels(equation *e, const operand *ops, int n, operand *out, bool given)
{
    int count[LABELS] = {0}, at = 0;
    for (int i = 0; i < n; ++i)
        for (int k = 0; k < ops[i].n; ++k)
            if (ops[i].label[k] != ELLIPSIS) ++count[ops[i].label[k]];
    for (int l = 0; l < LABELS; ++l) e->place[l] = -1;
    e->ellipsis = -1;
    if (!given) { /* the ellipsis, then labels that appear once, in alphabetical order */
        out->n = 0;
        if (e->nellipsis) out->label[out->n++] = ELLIPSIS;
        for (int l = 0; l < LABELS; ++l)
            if (count[l] == 1) out->label[out->n++] = l;
    }
    for (int k = 0; k < out->n; ++k) {
        int l = out->label[k];
        if (l == ELLIPSIS) {
            e->ellipsis = at;
            at += e->nellipsis;
            continue;
        }
        RUSH_CHECK(e->place[l] < 0, RUSH_RUNTIME_ERROR, "einsum(): output subscript %c appears more than once in the output", letter_of(l));
        RUSH_CHECK(count[l], RUSH_RUNTIME_ERROR, "einsum(): output subscript %c does not appear in the equation for any input operand", letter_of(l));
        e->place[l] = at++;
    }
    e->nout = at;
    if (e->ellipsis < 0) {
        e->ellipsis = at;
        at += e->nellipsis;
    }
    for (int l = 0; l < LABELS; ++l)
        if (count[l] && e->place[l] < 0) e->place[l] = at++;
    RUSH_CHECK(at <= RUSH_MAXDIM, RUSH_RUNTIME_ERROR, "einsum(): too many dimensions");
    e->ndim = at;
    for (int d = 0; d < at; ++d) e->size[d] = 1;
    return 0;
}

static int refuse_size(const equation *e, int place, int64_t size, int number)
{
    const long long n = size, before = e->size[place];
    for (int l = 0; l < LABELS; ++l)
        if (e->place[l] == place)
            return rush_fail(RUSH_RUNTIME_ERROR, "einsum(): subscript %c has size %lld for operand %d which does not broadcast with previously seen size %lld", letter_of(l), n, number, before);
    return rush_fail(RUSH_RUNTIME_ERROR, "einsum(): dimension %d covered by ellipsis in operand %d has size %lld which does not broadcast with previously seen ellipsis with size %lld "
                                         "for the respective dimension", place - e->ellipsis, number, n, before);
}

/* An operand with its dimensions in the common order, size 1 where it has none; repeated labels take the diagonal. */
static rush_tensor *align(equation *e, const operand *o, int number)
{
    rush_tensor *t = o->t;
    int64_t order[RUSH_MAXDIM], size[RUSH_MAXDIM];
    int at[RUSH_MAXDIM], dim = 0, own = t->ndim - (o->n - o->ellipsis); /* dimensions of this operand's ellipsis */
    for (int d = 0; d < e->ndim; ++d) at[d] = -1;
    for (int k = 0; k < o->n; ++k) {
        if (o->label[k] == ELLIPSIS) {
            for (int i = 0; i < own; ++i) at[e->ellipsis + e->nellipsis - own + i] = dim++;
            continue;
        }
        int d = e->place[o->label[k]];
        if (at[d] < 0) {
            at[d] = dim++;
            continue;
        }
        RUSH_CHECK_NULL(t->size[at[d]] == t->size[dim], RUSH_RUNTIME_ERROR,
                        "einsum(): subscript %c is repeated for operand %d but the sizes don't match, %lld != %lld", letter_of(o->label[k]), number,
                        (long long)t->size[dim], (long long)t->size[at[d]]);
        t = T("diagonal", V(t), V(0), V(at[d]), V(dim)); /* goes to the end: back to its place */
        t = t ? T("movedim.int", V(t), V(-1), V(at[d])) : NULL;
        if (!t) return NULL;
    }
    int n = 0;
    for (int d = 0; d < e->ndim; ++d)
        if (at[d] >= 0) order[n++] = at[d];
    t = permute(t, order, n);
    if (!t) return NULL;
    n = 0;
    for (int d = 0; d < e->ndim; ++d) {
        size[d] = at[d] >= 0 ? t->size[n++] : 1;
        if (size[d] != 1 && e->size[d] != 1 && size[d] != e->size[d]) return refuse_size(e, d, size[d], number), NULL;
        if (size[d] != 1) e->size[d] = size[d];
    }
    for (int d = 0; d < e->ndim; ++d)
        if (at[d] < 0) t = unsqueeze(t, d);
    return t;
}

/* Product of two aligned operands with the dimensions of `sum` summed (they stay, with size 1). */
static rush_tensor *pair(rush_tensor *a, rush_tensor *b, uint64_t sum, bool swapped)
{
    rush_dtype left_dtype = a->dtype, right_dtype = b->dtype;
    int nd = a->ndim;
    int64_t batch[RUSH_MAXDIM], left[RUSH_MAXDIM], right[RUSH_MAXDIM], both[RUSH_MAXDIM], order[RUSH_MAXDIM], size[RUSH_MAXDIM];
    int nb = 0, nl = 0, nr = 0, ns = 0, n = 0;
    int64_t vb = 1, vl = 1, vr = 1, vs = 1;
    for (int d = 0; d < nd; ++d) { /* what only one of them has is summed at once */
        if (!(sum >> d & 1)) continue;
        if (a->size[d] != 1 && b->size[d] == 1) a = sum_dim(a, d, true);
        else if (a->size[d] == 1 && b->size[d] != 1) b = sum_dim(b, d, true);
        else continue;
        if (!a || !b) return NULL;
        sum &= ~((uint64_t)1 << d);
    }
    if (!sum) return mul(a, b);
    RUSH_CHECK_NULL(left_dtype == right_dtype, RUSH_RUNTIME_ERROR, "expected scalar type %s but found %s", rush_dtype_word(left_dtype), rush_dtype_word(right_dtype));
    rush_dtype common = rush_promote(a->dtype, b->dtype); /* sums of integers are int64 */
    if (a->dtype != common) a = to_dtype(a, common);
    if (b->dtype != common) b = to_dtype(b, common);
    if (!a || !b) return NULL;
    for (int d = 0; d < nd; ++d) {
        int64_t sa = a->size[d], sb = b->size[d];
        if (sum >> d & 1) {
            both[ns++] = d;
            vs *= sa;
        } else if (sa != 1 && sb != 1) {
            batch[nb++] = d;
            vb *= sa;
        } else if (sa != 1) {
            left[nl++] = d;
            vl *= sa;
        } else {
            right[nr++] = d;
            vr *= sb;
        }
    }
    if (!swapped && nl && nr && right[nr - 1] < left[0]) return pair(b, a, sum, true); /* in the order of the result: it is contiguous then */
    n = 0;
    for (int i = 0; i < nb; ++i) order[n++] = batch[i];
    for (int i = 0; i < nl; ++i) order[n++] = left[i];
    for (int i = 0; i < ns; ++i) order[n++] = both[i];
    for (int i = 0; i < nr; ++i) order[n++] = right[i];
    rush_tensor *x = T("reshape", V(permute(a, order, nd)), INTS(vb, vl, vs));
    n = 0;
    for (int i = 0; i < nb; ++i) order[n++] = batch[i];
    for (int i = 0; i < ns; ++i) order[n++] = both[i];
    for (int i = 0; i < nr; ++i) order[n++] = right[i];
    for (int i = 0; i < nl; ++i) order[n++] = left[i];
    rush_tensor *y = T("reshape", V(permute(b, order, nd)), INTS(vb, vs, vr));
    rush_tensor *z = nb ? T("bmm", V(x), V(y)) : unsqueeze(mm(squeeze(x, 0), squeeze(y, 0)), 0);
    n = 0; /* (batch, left, right, summed as ones), then into the common order */
    for (int i = 0; i < nb; ++i) order[n] = batch[i], size[n++] = a->size[batch[i]];
    for (int i = 0; i < nl; ++i) order[n] = left[i], size[n++] = a->size[left[i]];
    for (int i = 0; i < nr; ++i) order[n] = right[i], size[n++] = b->size[right[i]];
    for (int i = 0; i < ns; ++i) order[n] = both[i], size[n++] = 1;
    int64_t back[RUSH_MAXDIM];
    for (int i = 0; i < nd; ++i) back[order[i]] = i;
    return permute(T("reshape", V(z), rush_v_ints(size, nd)), back, nd);
}

static uint64_t extents(const rush_tensor *t)
{
    uint64_t has = 0;
    for (int d = 0; d < t->ndim; ++d) has |= (uint64_t)(t->size[d] != 1) << d;
    return has;
}

static int einsum_run(const rush_op *op, const rush_value *in, rush_value *out)
{
    const char *text = in[0].s, *arrow = strstr(text, "->"), *end = arrow ? arrow : text + strlen(text);
    int n = (int)in[1].n;
    RUSH_CHECK(n > 0, RUSH_RUNTIME_ERROR, "einsum(): must provide at least one operand");
    operand *ops = rush_scope_alloc(sizeof *ops * (size_t)(n + 1));
    if (!ops) return -1;
    memset(ops, 0, sizeof *ops * (size_t)(n + 1));
    operand *result = &ops[n];
    equation e = {{0}, .nellipsis = 0};
    int number = 0;
    for (const char *s = text;; ++number) {
        const char *comma = memchr(s, ',', (size_t)(end - s)), *stop = comma ? comma : end;
        char which[32];
        RUSH_CHECK(number < n, RUSH_RUNTIME_ERROR, "einsum(): fewer operands were provided than specified in the equation");
        operand *o = &ops[number];
        o->t = in[1].tensors[number];
        snprintf(which, sizeof which, "operand %d", number);
        if (read_labels(s, (size_t)(stop - s), (size_t)(s - text), which, o)) return -1;
        int named = o->n - o->ellipsis;
        RUSH_CHECK(o->ellipsis ? named <= o->t->ndim : named == o->t->ndim, RUSH_RUNTIME_ERROR,
                   "einsum(): the number of subscripts in the equation (%d) does not match the number of dimensions (%d) for operand %d%s", named,
                   o->t->ndim, number, o->ellipsis ? "" : " and no ellipsis was given");
        if (o->ellipsis) e.nellipsis = RUSH_MAX(e.nellipsis, o->t->ndim - named);
        if (!comma) break;
        s = comma + 1;
    }
    RUSH_CHECK(number + 1 == n, RUSH_RUNTIME_ERROR, "einsum(): more operands were provided than specified in the equation");
    if (arrow && read_labels(arrow + 2, strlen(arrow + 2), (size_t)(arrow + 2 - text), "output", result)) return -1;
    if (order_labels(&e, ops, n, result, arrow != NULL)) return -1;
    for (int i = 0; i < n; ++i) {
        ops[i].t = align(&e, &ops[i], i);
        if (!ops[i].t) return -1;
    }
    /* Pairs are contracted from the left, or as `path` says; results go to the end of the list. */
    uint64_t kept = e.nout >= 64 ? ~(uint64_t)0 : ((uint64_t)1 << e.nout) - 1;
    for (uint32_t step = 0; n > 1; ++step) {
        int i = 0, j = 1;
        if (HAS(in[2])) {
            RUSH_CHECK(2 * step + 1 < in[2].n, RUSH_RUNTIME_ERROR, "einsum(): the contraction path is too short for %d operands", (int)in[1].n);
            i = (int)RUSH_MIN(in[2].ints[2 * step], in[2].ints[2 * step + 1]);
            j = (int)RUSH_MAX(in[2].ints[2 * step], in[2].ints[2 * step + 1]);
            RUSH_CHECK(i >= 0 && j < n && i != j, RUSH_RUNTIME_ERROR, "einsum(): the contraction path names operands that are not there");
        }
        rush_tensor *a = ops[i].t, *b = ops[j].t;
        uint64_t sum = (extents(a) | extents(b)) & ~kept;
        for (int k = 0; k < n; ++k)
            if (k != i && k != j) sum &= ~extents(ops[k].t);
        memmove(&ops[j], &ops[j + 1], sizeof *ops * (size_t)(n - 1 - j));
        memmove(&ops[i], &ops[i + 1], sizeof *ops * (size_t)(n - 2 - i));
        ops[n - 2].t = pair(a, b, sum, false);
        if (!ops[n - 2].t) return -1;
        if (!HAS(in[2]) && n > 2) { /* from the left: the result is the next pair's first */
            operand last = ops[n - 2];
            memmove(&ops[1], &ops[0], sizeof *ops * (size_t)(n - 2));
            ops[0] = last;
        }
        --n;
    }
    rush_tensor *t = ops[0].t;
    int64_t dims[RUSH_MAXDIM];
    int ns = 0;
    for (int d = e.nout; d < e.ndim; ++d) dims[ns++] = d;
    if (ns) {
        bool ones = in[1].n > 1;
        for (int i = 0; i < ns; ++i) ones = ones && t->size[dims[i]] == 1;
        t = ones ? T("reshape", V(t), rush_v_ints(t->size, (size_t)e.nout)) : T("sum.dim_IntList", V(t), rush_v_ints(dims, (size_t)ns), V(false));
    }
    return rush_result(out, t);
}

static rush_op op_einsum = {
    .schema = "einsum(str equation, Tensor[] tensors, *, int[]? path=None) -> Tensor",
    .doc = "Sums of products by Einstein's convention: each dimension has a letter, those that the result (after ->) does not "
           "name are summed. '...' stands for any dimensions, which broadcast.",
    .run = einsum_run,
};

/* ---- bilinear ---- */

static int bilinear_run(const rush_op *op, const rush_value *in, rush_value *out)
{
    rush_tensor *a = in[0].t, *b = in[1].t, *w = in[2].t, *bias = T_(in[3]);
    RUSH_CHECK(a->ndim == b->ndim, RUSH_RUNTIME_ERROR, "bilinear(): input dimensions do not match: got %d and %d", a->ndim, b->ndim);
    RUSH_CHECK(w->ndim == 3 && a->ndim, RUSH_RUNTIME_ERROR, "bilinear(): expected a weight of 3 dimensions and inputs of at least 1");
    for (int d = 0; d < a->ndim - 1; ++d)
        RUSH_CHECK(a->size[d] == b->size[d], RUSH_RUNTIME_ERROR, "bilinear(): input batch dimensions do not match at dim %d: got %lld and %lld", d,
                   (long long)a->size[d], (long long)b->size[d]);
    int64_t n1 = a->size[a->ndim - 1], n2 = b->size[b->ndim - 1], m = w->size[0], rows = 1, size[RUSH_MAXDIM];
    RUSH_CHECK(n1 == w->size[1], RUSH_RUNTIME_ERROR, "bilinear(): input1 size does not match weight size: got %lld but expected %lld",
               (long long)n1, (long long)w->size[1]);
    RUSH_CHECK(n2 == w->size[2], RUSH_RUNTIME_ERROR, "bilinear(): input2 size does not match weight size: got %lld but expected %lld",
               (long long)n2, (long long)w->size[2]);
    RUSH_CHECK(!bias || (bias->ndim == 1 && bias->size[0] == m), RUSH_RUNTIME_ERROR,
               "bilinear(): bias size does not match weight size: got %lld but expected %lld", bias && bias->ndim ? (long long)bias->size[0] : 0,
               (long long)m);
    for (int d = 0; d < a->ndim - 1; ++d) rows *= size[d] = a->size[d];
    size[a->ndim - 1] = m;
    /* (rows, n1) @ (n1, m n2) is a matrix (m, n2) per row, which meets the row of b */
    rush_tensor *w2 = T("reshape", V(permute(w, (int64_t[]){1, 0, 2}, 3)), INTS(n1, m * n2));
    rush_tensor *half = T("view", V(mm(T("reshape", V(a), INTS(rows, n1)), w2)), INTS(rows, m, n2));
    rush_tensor *y = T("view", V(T("bmm", V(half), V(T("reshape", V(b), INTS(rows, n2, 1))))), rush_v_ints(size, a->ndim));
    return rush_result(out, bias ? add(y, bias) : y);
}

static rush_op op_bilinear = {
    .schema = "bilinear(Tensor input1, Tensor input2, Tensor weight, Tensor? bias=None) -> Tensor",
    .doc = "y[..., o] = input1[..., i] weight[o, i, j] input2[..., j] + bias[o], summed over i and j.", .run = bilinear_run, .flags = RUSH_AUTOCAST_WIDEST,
};

static int trilinear_run(const rush_op *op, const rush_value *in, rush_value *out)
{
    rush_tensor *t[3] = {in[0].t, in[1].t, in[2].t};
    for (int k = 0; k < 3; ++k)
        for (uint32_t i = 0; i < in[3 + k].n && t[k]; ++i) t[k] = unsqueeze(t[k], in[3 + k].ints[i]);
    rush_tensor *p = mul(mul(t[0], t[1]), t[2]);
    return rush_result(out, in[6].n ? T("sum.dim_IntList", V(p), in[6], V(false)) : p);
}

static rush_op op_trilinear = {
    .schema = "_trilinear(Tensor i1, Tensor i2, Tensor i3, int[] expand1, int[] expand2, int[] expand3, int[] sumdim, int unroll_dim=1) -> Tensor",
    .doc = "Product of three tensors, each given size-1 dimensions, summed over sumdim.", .run = trilinear_run, .flags = RUSH_HIDDEN | RUSH_WHOLE,
};

/* ---- kron, cross, vecdot, vander ---- */

static int kron_run(const rush_op *op, const rush_value *in, rush_value *out)
{
    rush_tensor *a = in[0].t, *b = in[1].t;
    int nd = RUSH_MAX(a->ndim, b->ndim);
    int64_t sa[2 * RUSH_MAXDIM], sb[2 * RUSH_MAXDIM], size[RUSH_MAXDIM];
    RUSH_CHECK(2 * nd <= RUSH_MAXDIM, RUSH_RUNTIME_ERROR, "kron: too many dimensions");
    for (int d = 0; d < nd; ++d) {
        int da = d - (nd - a->ndim), db = d - (nd - b->ndim);
        sa[2 * d] = da >= 0 ? a->size[da] : 1;
        sa[2 * d + 1] = sb[2 * d] = 1;
        sb[2 * d + 1] = db >= 0 ? b->size[db] : 1;
        if ((size[d] = rush_size_times(sa[2 * d], sb[2 * d + 1])) < 0) return -1;
    }
    rush_tensor *p = mul(T("reshape", V(a), rush_v_ints(sa, 2 * nd)), T("reshape", V(b), rush_v_ints(sb, 2 * nd)));
    return rush_result(out, T("_unsafe_view", V(p), rush_v_ints(size, nd)));
}

static rush_op op_kron = {
    .schema = "kron(Tensor self, Tensor other) -> Tensor", .method = RUSH_METHOD,
    .doc = "Kronecker product: each element of self times the whole of other, as blocks.", .run = kron_run, .flags = RUSH_OUT_CASTS,
};

static rush_tensor *cross(rush_tensor *a, rush_tensor *b, int64_t dim)
{
    RUSH_CHECK_NULL(a->ndim == b->ndim, RUSH_RUNTIME_ERROR, "linalg.cross: inputs must have the same number of dimensions.");
    int d = rush_dim_wrap(dim, a->ndim);
    if (d < 0) return NULL;
    RUSH_CHECK_NULL(a->ndim && a->size[d] == 3 && b->size[d] == 3, RUSH_RUNTIME_ERROR,
                    "linalg.cross: inputs dimension %lld must have length 3. Got %lld and %lld", (long long)dim, a->ndim ? (long long)a->size[d] : 1,
                    b->ndim ? (long long)b->size[d] : 1);
    RUSH_CHECK_NULL(a->dtype == b->dtype, RUSH_RUNTIME_ERROR, "expected scalar type %s but found %s", rush_dtype_word(a->dtype),
                    rush_dtype_word(b->dtype));
    RUSH_CHECK_NULL(a->dtype != RUSH_BOOL, RUSH_NOT_IMPLEMENTED, "\"cross\" not implemented for 'Bool'");
    rush_tensor *x[3], *y[3], *z[3];
    for (int i = 0; i < 3; ++i) {
        x[i] = T("select.int", V(a), V(d), V(i));
        y[i] = T("select.int", V(b), V(d), V(i));
    }
    for (int i = 0; i < 3; ++i) z[i] = sub(mul(x[(i + 1) % 3], y[(i + 2) % 3]), mul(x[(i + 2) % 3], y[(i + 1) % 3]));
    return T("stack", rush_v_tensors(z, 3), V(d));
}

static int linalg_cross_run(const rush_op *op, const rush_value *in, rush_value *out)
{
    return rush_result(out, cross(in[0].t, in[1].t, I_(in[2])));
}

static rush_op op_linalg_cross = {
    .schema = "linalg_cross(Tensor self, Tensor other, *, int dim=-1) -> Tensor", .node = "LinalgCrossBackward0",
    .doc = "Vector product of 3-vectors that lie along dim; the other dimensions broadcast.", .run = linalg_cross_run, .flags = RUSH_WHOLE,
};

static int cross_run(const rush_op *op, const rush_value *in, rush_value *out)
{
    const rush_tensor *a = in[0].t;
    if (HAS(in[2])) return rush_result(out, T("linalg_cross", in[0], in[1], in[2]));
    RUSH_WARN_ONCE("Using torch.cross without specifying the dim arg is deprecated.\nPlease either pass the dim explicitly or simply use "
                        "torch.linalg.cross.\nThe default value of dim will change to agree with that of linalg.cross in a future release.");
    int d = 0;
    while (d < a->ndim && a->size[d] != 3) ++d;
    RUSH_CHECK(d < a->ndim, RUSH_RUNTIME_ERROR, "no dimension of size 3 in input");
    return rush_result(out, T("linalg_cross", in[0], in[1], V(d)));
}

static rush_op op_cross = {
    .schema = "cross(Tensor self, Tensor other, int? dim=None) -> Tensor", .method = RUSH_METHOD, .node = "LinalgCrossBackward0",
    .doc = "linalg_cross along dim, or along the first dimension of size 3.", .run = cross_run,
};

static int vecdot_run(const rush_op *op, const rush_value *in, rush_value *out)
{
    rush_tensor *x = in[0].t, *y = in[1].t;
    for (int i = 0; i < 2; ++i)
        RUSH_CHECK(rush_dtypes[in[i].t->dtype].category >= 2, RUSH_RUNTIME_ERROR,
                   "linalg.vecdot: Expected a floating point or complex tensor as input. Got %s", rush_dtype_word(in[i].t->dtype));
    RUSH_CHECK(x->dtype == y->dtype, RUSH_RUNTIME_ERROR, "linalg.vecdot: Expected x and y to have the same dtype, but found x of type %s and y of type %s instead",
               rush_dtype_word(x->dtype), rush_dtype_word(y->dtype));
    if (x->ndim == 1 && y->ndim == 1 && x->size[0] == y->size[0]) return rush_result(out, T("vdot", V(x), V(y)));
    return rush_result(out, sum_dim(mul(conj_(x), y), I_(in[2]), false));
}

static rush_op op_vecdot = {
    .schema = "linalg_vecdot(Tensor x, Tensor y, *, int dim=-1) -> Tensor",
    .doc = "Sum of conj(x) y along dim.", .run = vecdot_run, .flags = RUSH_AUTOCAST_LOW,
};

static int linalg_vander_run(const rush_op *op, const rush_value *in, rush_value *out)
{
    rush_tensor *x = in[0].t;
    RUSH_CHECK(x->dtype != RUSH_BOOL, RUSH_RUNTIME_ERROR, "linalg.vander: bool tensors are not supported");
    RUSH_CHECK(x->ndim || HAS(in[1]), RUSH_RUNTIME_ERROR, "x must have dim >= 1.");
    int64_t n = HAS(in[1]) ? I_(in[1]) : x->size[x->ndim - 1], size[RUSH_MAXDIM];
    RUSH_CHECK(n > 1, RUSH_RUNTIME_ERROR, "N must be greater than 1.");
    if (!x->ndim) x = unsqueeze(x, 0);
    if (!x) return -1;
    memcpy(size, x->size, sizeof *size * x->ndim);
    size[x->ndim] = n - 1;
    rush_tensor *wide = T("expand", V(unsqueeze(x, -1)), rush_v_ints(size, (size_t)x->ndim + 1));
    rush_tensor *powers = T("cumprod", V(wide), V(-1));
    size[x->ndim] = 1;
    rush_tensor *ones = T("new_ones", V(x), rush_v_ints(size, (size_t)x->ndim + 1), powers ? rush_v_dtype(powers->dtype) : RUSH_NONE);
    rush_tensor *parts[2] = {ones, powers};
    return rush_result(out, T("cat", rush_v_tensors(parts, 2), V(-1)));
}

static rush_op op_linalg_vander = {
    .schema = "linalg_vander(Tensor x, *, SymInt? N=None) -> Tensor",
    .doc = "Vandermonde matrices: powers 0 to N - 1 of each element, as rows.", .run = linalg_vander_run,
};

/* ---- chains and powers of matrices ---- */

static rush_tensor *power(rush_tensor *a, int64_t n)
{
    rush_tensor *z = NULL, *result = NULL;
    while (n > 0) {
        z = z ? matmul(z, z) : a;
        if (n & 1) result = result ? matmul(result, z) : z;
        n >>= 1;
        if (!z) return NULL;
    }
    return result;
}

static int matrix_power_run(const rush_op *op, const rush_value *in, rush_value *out)
{
    rush_tensor *a = in[0].t;
    int64_t n = I_(in[1]);
    RUSH_CHECK(a->ndim >= 2, RUSH_RUNTIME_ERROR, "The input tensor A must have at least 2 dimensions.");
    int64_t rows = a->size[a->ndim - 2], columns = a->size[a->ndim - 1];
    RUSH_CHECK(rows == columns, RUSH_RUNTIME_ERROR,
               "A must be batches of square matrices, but they are %lld by %lld matrices", (long long)rows, (long long)columns);
    if (n == 0) {
        rush_tensor *eye = T("eye", V(columns), rush_v_dtype(a->dtype), ON(a));
        return rush_result(out, T_INPLACE("copy", V(T("clone", V(a))), V(eye))); /* zero gradient, not none */
    }
    if (n < 0) {
        RUSH_CHECK(n > INT64_MIN, RUSH_RUNTIME_ERROR, "the power %lld is too small", (long long)n);
        a = T("linalg_inv", V(a));
        if (!a) return -1;
        n = -n;
    }
    return rush_result(out, n == 1 ? T("clone", V(a)) : power(a, n));
}

static rush_op op_linalg_matrix_power = {
    .schema = "linalg_matrix_power(Tensor self, int n) -> Tensor",
    .doc = "n-th power of square matrices by repeated squaring; of the inverse for negative n.", .run = matrix_power_run, .flags = RUSH_OUT_CASTS,
};
static rush_op op_matrix_power = {
    .schema = "matrix_power(Tensor self, int n) -> Tensor", .method = RUSH_METHOD, .doc = "linalg_matrix_power.", .run = matrix_power_run, .flags = RUSH_OUT_CASTS,
};

/* Matrices i..j in the order with the fewest multiplications; split[i * n + j] is where. */
static rush_tensor *chain(rush_tensor **t, const int *split, int n, int i, int j)
{
    if (i == j) return t[i];
    int s = split[i * n + j];
    rush_tensor *left = chain(t, split, n, i, s), *right = chain(t, split, n, s + 1, j);
    return left && right ? mm(left, right) : NULL;
}

static rush_tensor *multi_dot(rush_tensor *const *given, int n)
{
    rush_tensor **t = rush_scope_alloc(sizeof *t * (size_t)n);
    RUSH_CHECK_NULL(n >= 2, RUSH_RUNTIME_ERROR, "multi_dot(): expected at least 2 tensors but got %d", n);
    if (!t) return NULL;
    memcpy(t, given, sizeof *t * (size_t)n);
    RUSH_CHECK_NULL(t[0]->ndim == 1 || t[0]->ndim == 2, RUSH_RUNTIME_ERROR, "multi_dot(): the first tensor must be 1D or 2D but got %dD", t[0]->ndim);
    RUSH_CHECK_NULL(t[n - 1]->ndim == 1 || t[n - 1]->ndim == 2, RUSH_RUNTIME_ERROR, "multi_dot(): the last tensor must be 1D or 2D but got %dD",
                    t[n - 1]->ndim);
    bool row = t[0]->ndim == 1, column = t[n - 1]->ndim == 1;
    if (row) t[0] = unsqueeze(t[0], 0);
    if (column) t[n - 1] = unsqueeze(t[n - 1], -1);
    for (int i = 0; i < n; ++i) {
        if (!t[i]) return NULL;
        RUSH_CHECK_NULL(t[i]->ndim == 2, RUSH_RUNTIME_ERROR, "multi_dot(): tensor %d must be 2D but got %dD", i, t[i]->ndim);
        RUSH_CHECK_NULL(t[i]->dtype == t[0]->dtype, RUSH_RUNTIME_ERROR,
                        "multi_dot(): all tensors must have be the same dtype but tensor 0 is %s and tensor %d %s", rush_dtype_name(t[0]->dtype), i,
                        rush_dtype_name(t[i]->dtype));
        RUSH_CHECK_NULL(!i || t[i - 1]->size[1] == t[i]->size[0], RUSH_RUNTIME_ERROR,
                        "multi_dot(): tensors %d and %d with shapes %s and %s cannot be multiplied", i - 1, i, rush_shape_of(t[i ? i - 1 : 0]),
                        rush_shape_of(t[i]));
    }
    double *cost = rush_scope_alloc(sizeof *cost * (size_t)(n * n));
    int *split = rush_scope_alloc(sizeof *split * (size_t)(n * n));
    if (!cost || !split) return NULL;
    for (int i = 0; i < n; ++i) cost[i * n + i] = 0;
    for (int length = 1; length < n; ++length)
        for (int i = 0; i + length < n; ++i) {
            int j = i + length;
            cost[i * n + j] = -1;
            for (int s = i; s < j; ++s) {
                double c = cost[i * n + s] + cost[(s + 1) * n + j] + (double)t[i]->size[0] * (double)t[s]->size[1] * (double)t[j]->size[1];
                if (cost[i * n + j] >= 0 && c >= cost[i * n + j]) continue;
                cost[i * n + j] = c;
                split[i * n + j] = s;
            }
        }
    rush_tensor *y = chain(t, split, n, 0, n - 1);
    if (row) y = squeeze(y, 0);
    if (column) y = squeeze(y, -1);
    return y;
}

static int multi_dot_run(const rush_op *op, const rush_value *in, rush_value *out)
{
    return rush_result(out, multi_dot(in[0].tensors, (int)in[0].n));
}

static rush_op op_linalg_multi_dot = {
    .schema = "linalg_multi_dot(Tensor[] tensors) -> Tensor",
    .doc = "Product of matrices in the order that costs the fewest multiplications; first and last may be vectors.", .run = multi_dot_run,
};

static int chain_matmul_run(const rush_op *op, const rush_value *in, rush_value *out)
{
    RUSH_WARN_ONCE("torch.chain_matmul is deprecated and will be removed in a future PyTorch release. Use torch.linalg.multi_dot instead, which "
                    "accepts a list of two or more tensors rather than multiple parameters.");
    RUSH_CHECK(in[0].n, RUSH_RUNTIME_ERROR, "chain_matmul(): Expected one or more matrices");
    for (uint32_t i = 0; i < in[0].n; ++i)
        RUSH_CHECK(in[0].tensors[i]->ndim == 2, RUSH_RUNTIME_ERROR, "Tensor dimension is %d, expected 2 instead.", in[0].tensors[i]->ndim);
    if (in[0].n == 1) return rush_result(out, T("clone", V(in[0].tensors[0])));
    return rush_result(out, multi_dot(in[0].tensors, (int)in[0].n));
}

static rush_op op_chain_matmul = {
    .schema = "chain_matmul(Tensor[] matrices) -> Tensor", .doc = "linalg_multi_dot of one or more matrices.", .run = chain_matmul_run,
};

RUSH_FAMILY(contract, &op_tensordot, &op_inner, &op_einsum, &op_bilinear, &op_trilinear, &op_kron, &op_linalg_cross, &op_cross, &op_vecdot,
            &op_linalg_vander, &op_linalg_matrix_power, &op_matrix_power, &op_linalg_multi_dot, &op_chain_matmul)
