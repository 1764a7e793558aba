/* print.c - tensors as text, as PyTorch prints them: four digits, one width for all, the middle left out above 1,000.
 *
 * For C programs and debuggers; Python has its own, with all of set_printoptions.
 */
#include "tensor/backend.h"
#include "tensor/quantized.h"
#include "tensor/sparse.h"
#include "base/text.h"
#include <math.h>
#include <stdio.h>

enum { PRECISION = 4, THRESHOLD = 1000, EDGE = 3, LINE = 80 };

typedef struct text {
    char *buf;
    size_t room, n;
} text;

static void put(text *t, const char *s)
{
    for (; *s; ++s, ++t->n)
        if (t->n + 1 < t->room) t->buf[t->n] = *s;
}

/* How the elements are written: found by a first pass over all of them. */
typedef struct style {
    bool integral, scientific, floating, summary;
    int width;
} style;

static double element(const rush_tensor *t, int64_t at, double *imag)
{
    double c[2] = {0, 0};
    const char *p = (const char *)rush_storage_data(t->storage) + at * rush_dtypes[t->dtype].size;
    rush_convert(c, RUSH_C128, 0, p, t->dtype, 0, 1);
    if (imag) *imag = c[1];
    return c[0];
}

static int write_number(char *to, size_t room, const style *s, double x)
{
    if (isnan(x)) return snprintf(to, room, "nan");
    if (isinf(x)) return snprintf(to, room, x < 0 ? "-inf" : "inf");
    if (!s->floating) return snprintf(to, room, "%.0f", x); /* uint64 goes beyond long long */
    if (s->scientific) return rush_snprintf(to, room, "%.*e", PRECISION, x);
    if (s->integral) return snprintf(to, room, "%.0f.", x);
    return rush_snprintf(to, room, "%.*f", PRECISION, x);
}

/* Calls fn for every element that is shown. */
static void each(const rush_tensor *t, const style *s, int dim, int64_t at, void (*fn)(const rush_tensor *, int64_t, void *), void *arg)
{
    if (dim == t->ndim) {
        fn(t, at, arg);
        return;
    }
    for (int64_t i = 0; i < t->size[dim]; ++i) {
        if (s->summary && t->size[dim] > 2 * EDGE && i == EDGE) i = t->size[dim] - EDGE;
        each(t, s, dim + 1, at + i * t->stride[dim], fn, arg);
    }
}

typedef struct extremes {
    double min, max;
    bool integral, any;
    style *s;
} extremes;

static void see(const rush_tensor *t, int64_t at, void *arg)
{
    extremes *e = arg;
    double part[2];
    part[0] = element(t, at, &part[1]);
    for (int k = 0; k < 1 + rush_dtype_is_complex(t->dtype); ++k) {
        double x = fabs(part[k]);
        if (!isfinite(x)) continue;
        if (x != trunc(x)) e->integral = false;
        if (x == 0) continue;
        e->min = e->any ? fmin(e->min, x) : x;
        e->max = e->any ? fmax(e->max, x) : x;
        e->any = true;
    }
}

static void measure(const rush_tensor *t, int64_t at, void *arg)
{
    extremes *e = arg;
    char one[512];
    int n = write_number(one, sizeof one, e->s, element(t, at, NULL));
    e->s->width = RUSH_MAX(e->s->width, n);
}

static style choose(const rush_tensor *t)
{
    style s = {.floating = rush_dtypes[t->dtype].category >= 2, .summary = t->numel > THRESHOLD};
    extremes e = {.integral = true, .s = &s};
    each(t, &s, 0, t->offset, see, &e);
    s.integral = e.integral;
    if (s.floating && e.any) {
        double ratio = e.max / e.min;
        s.scientific = e.integral ? ratio > 1000 && e.max > 1e8 : ratio > 1000 || e.max > 1e8 || e.min < 1e-4;
        if (e.integral && e.max > 1e8) s.scientific = true;
    }
    each(t, &s, 0, t->offset, measure, &e);
    return s;
}

static void put_element(text *out, const rush_tensor *t, const style *s, int64_t at)
{
    char one[512], padded[1200];
    double imag, real = element(t, at, &imag);
    if (t->dtype == RUSH_BOOL) {
        snprintf(padded, sizeof padded, "%5s", real != 0 ? "True" : "False");
    } else if (t->dtype == RUSH_I64 || t->dtype == RUSH_U64) { /* beyond 2^53 a double would round */
        const char *p = (const char *)rush_storage_data(t->storage) + at * 8;
        int64_t v;
        memcpy(&v, p, 8);
        snprintf(padded, sizeof padded, t->dtype == RUSH_U64 ? "%*llu" : "%*lld", s->width, (long long)v);
    } else if (rush_dtype_is_complex(t->dtype)) {
        char second[512];
        write_number(one, sizeof one, s, real);
        write_number(second, sizeof second, s, fabs(imag));
        snprintf(padded, sizeof padded, "%*s%s%sj", s->width, one, signbit(imag) ? "-" : "+", second);
    } else {
        write_number(one, sizeof one, s, real);
        snprintf(padded, sizeof padded, "%*s", s->width, one);
    }
    put(out, padded);
}

static void put_dim(text *out, const rush_tensor *t, const style *s, int dim, int64_t at, int indent)
{
    if (dim == t->ndim) {
        put_element(out, t, s, at);
        return;
    }
    int64_t n = t->size[dim];
    bool cut = s->summary && n > 2 * EDGE, last = dim == t->ndim - 1;
    int per_line = RUSH_MAX((LINE - indent) / (s->width + 2), 1), on_line = 0;
    put(out, "[");
    for (int64_t i = 0; i < n; ++i) {
        if (i) {
            put(out, last ? ", " : ",");
            bool wrap = last ? on_line == per_line : true;
            if (wrap) {
                if (last) out->n -= 1; /* the space before a line's end */
                for (int k = last ? 1 : t->ndim - 1 - dim; k > 0; --k) put(out, "\n");
                for (int k = 0; k < indent + 1; ++k) put(out, " ");
                on_line = 0;
            }
        }
        if (cut && i == EDGE) {
            put(out, last ? " ..." : "...");
            i = n - EDGE - 1;
        } else {
            put_dim(out, t, s, dim + 1, at + i * t->stride[dim], indent + 1);
        }
        ++on_line;
    }
    put(out, "]");
}

static void put_part(text *out, const char *name, const rush_tensor *part)
{
    put(out, name);
    size_t room = out->n < out->room ? out->room - out->n : 0;
    out->n += rush_tensor_format(part, room ? out->buf + out->n : NULL, room);
    put(out, ",\n       ");
}

static void put_elements(text *out, const rush_tensor *t)
{
    rush_scope() {
        const rush_tensor *host = rush_on_host(t);
        if (!host) {
            put(out, "...");
            continue;
        }
        style s = choose(host);
        put_dim(out, host, &s, 0, host->offset, 7);
    }
}

size_t rush_tensor_format(const rush_tensor *t, char *buf, size_t size)
{
    text out = {buf, buf ? size : 0, 0};
    if (!t) {
        put(&out, "(no tensor)");
    } else if (!rush_tensor_given(t)) {
        put(&out, "(a tensor of a closed scope)");
    } else {
        put(&out, "tensor(");
        if (t->layout == RUSH_QUANTIZED) {
            rush_scope() put_part(&out, "integers=", rush_quantized_ints(t));
            put(&out, "size=");
            put(&out, rush_shape_of(t));
        } else if (t->layout != RUSH_STRIDED && t->parts) {
            const rush_sparse *p = t->parts;
            if (p->compressed) put_part(&out, rush_by_row(t->layout) ? "crow_indices=" : "ccol_indices=", p->compressed);
            put_part(&out, !p->compressed ? "indices=" : rush_by_row(t->layout) ? "col_indices=" : "row_indices=", p->plain);
            put_part(&out, "values=", p->values);
            put(&out, "size=");
            put(&out, rush_shape_of(t));
        } else if (t->layout != RUSH_STRIDED || (t->numel && !rush_ptr(t))) {
            put(&out, "..., size=");
            put(&out, rush_shape_of(t));
        } else if (t->numel == 0) {
            put(&out, "[]");
            if (t->ndim != 1) put(&out, ", size="), put(&out, rush_shape_of(t));
        } else {
            put_elements(&out, t);
        }
        if (t->device.type > RUSH_META) {
            put(&out, ", device='");
            put(&out, rush_device_text(t->device));
            put(&out, "'");
        }
        if (t->dtype != RUSH_I64 && t->dtype != RUSH_BOOL && t->dtype != rush_default_dtype()) {
            put(&out, ", dtype=");
            put(&out, rush_dtype_name(t->dtype));
        }
        if (t->ag && rush_requires_grad(t)) put(&out, ", requires_grad");
        put(&out, ")");
    }
    if (out.room) buf[RUSH_MIN(out.n, out.room - 1)] = 0;
    return out.n;
}

void rush_tensor_print(const rush_tensor *t)
{
    size_t n = rush_tensor_format(t, NULL, 0);
    char *buf = malloc(n + 1);
    if (!buf) return;
    rush_tensor_format(t, buf, n + 1);
    fwrite(buf, 1, n, stdout);
    fputc('\n', stdout);
    free(buf);
}
