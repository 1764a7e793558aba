/* wire.c - tensors in KServe v2's bodies: JSON, and behind it the bytes of those that are sent in binary. */
#include "serve/serve.h"
#include "base/utf8.h"
#include <rushlight/data.h>

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- text ---- */

static bool grow(serve_text *t, size_t n)
{
    if (t->failed) return false;
    if (t->room - t->n > n) return true;
    size_t room = SERVE_ROOM((t->room + n) * 2);
    char *p = realloc(t->p, room);
    if (!p) return !(t->failed = true);
    t->p = p;
    t->room = room;
    return true;
}

void serve_put(serve_text *t, const void *p, size_t n)
{
    if (!grow(t, n)) return;
    memcpy(t->p + t->n, p, n);
    t->n += n;
    t->p[t->n] = 0;
}

void serve_print(serve_text *t, const char *format, ...)
{
    char small[512];
    va_list args, again;
    va_start(args, format);
    va_copy(again, args);
    int n = vsnprintf(small, sizeof small, format, args);
    va_end(args);
    if (n >= 0 && (size_t)n < sizeof small) serve_put(t, small, (size_t)n);
    else if (n >= 0 && grow(t, (size_t)n + 1)) t->n += (size_t)vsnprintf(t->p + t->n, (size_t)n + 1, format, again);
    va_end(again);
}

void serve_put_json_bytes(serve_text *t, const char *p, size_t n)
{
    serve_put(t, "\"", 1);
    for (const char *end = p + n; p < end; ++p) {
        int letter = rush_utf8_length(p);
        if (*p == '"' || *p == '\\') serve_print(t, "\\%c", *p);
        else if ((unsigned char)*p < 32) serve_print(t, "\\u%04x", *p);
        else if (letter) serve_put(t, p, (size_t)letter), p += letter - 1;
        else serve_print(t, "\xef\xbf\xbd");
    }
    serve_put(t, "\"", 1);
}

void serve_put_json(serve_text *t, const char *text) { serve_put_json_bytes(t, text, strlen(text)); }

bool serve_base64(const char *text, size_t n, char *to, size_t *length)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    unsigned bits = 0, have = 0;
    const char *d, *end = text + n;
    *length = 0;
    for (; text < end && *text && (d = strchr(digits, *text)); ++text) {
        bits = bits << 6 | (unsigned)(d - digits);
        if ((have += 6) >= 8) to[(*length)++] = (char)(bits >> (have -= 8));
    }
    while (text < end && (*text == '=' || *text == '\n')) ++text;
    return text == end;
}

/* ---- dtypes ---- */

static const struct { const char *name; int dtype; } datatypes[] = {
    {"BOOL", RUSH_BOOL}, {"UINT8", RUSH_U8}, {"UINT16", RUSH_U16}, {"UINT32", RUSH_U32}, {"UINT64", RUSH_U64}, {"INT8", RUSH_I8}, {"INT16", RUSH_I16}, {"INT32", RUSH_I32},
    {"INT64", RUSH_I64}, {"FP16", RUSH_F16}, {"FP32", RUSH_F32}, {"FP64", RUSH_F64}, {"BF16", RUSH_BF16}, {"BYTES", SERVE_BYTES}};

const char *serve_datatype(int dtype)
{
    for (size_t k = 0; k < sizeof datatypes / sizeof *datatypes; ++k)
        if (datatypes[k].dtype == dtype) return datatypes[k].name;
    return NULL;
}

int serve_dtype_named(const char *name)
{
    for (size_t k = 0; name && k < sizeof datatypes / sizeof *datatypes; ++k)
        if (!strcmp(datatypes[k].name, name)) return datatypes[k].dtype;
    return -1;
}

/* ---- requests ---- */

enum { MOST_CLASSES = 1000 };

/* Result k, in JSON or behind it, or in shared memory (region); classes: as texts of the largest so many. */
typedef struct wanted { int k; bool binary; int classes; const char *region; uint64_t offset, room; } wanted;
struct serve_request {
    rush_json *json;
    const char *id;
    bool near; /* of a client on this machine, which may name shared memory */
    wanted out[SERVE_TENSORS];
    int nout;
};

void serve_request_free(serve_request *r)
{
    if (!r) return;
    rush_free(r->json);
    free(r);
}

const char *serve_request_id(const serve_request *r) { return r->id; }

static int64_t whole_of(const rush_json *x) { return rush_json_is(x, RUSH_JSON_WHOLE) && x->i >= 0 ? x->i : -1; }

static int64_t count_leaves(const rush_json *x, int depth)
{
    int64_t n = 0;
    if (!rush_json_is(x, RUSH_JSON_LIST)) return rush_json_is_number(x) || rush_json_is(x, RUSH_JSON_BOOL) ? 1 : -1;
    if (depth > RUSH_MAXDIM) return -1;
    rush_json_each(item, x) {
        int64_t one = count_leaves(item, depth + 1);
        if (one < 0) return -1;
        n += one;
    }
    return n;
}

/* Numbers as they are read: whole ones as int64, others as double. */
static int fill(const rush_json *x, rush_dtype dtype, double **f, int64_t **i)
{
    if (rush_json_is(x, RUSH_JSON_LIST)) {
        rush_json_each(item, x)
            if (fill(item, dtype, f, i)) return -1;
        return 0;
    }
    if (*f) return *(*f)++ = x->kind == RUSH_JSON_BOOL ? (double)x->i : x->number, 0;
    bool whole = x->kind != RUSH_JSON_NUMBER;
    RUSH_CHECK(whole || (x->number == floor(x->number) && fabs(x->number) <= 0x1p53), RUSH_VALUE_ERROR, "%.17g is no whole number of 64 bits; send the tensor in binary", x->number);
    static const int64_t limit[][2] = {[RUSH_BOOL] = {0, 1}, [RUSH_U8] = {0, UINT8_MAX}, [RUSH_U16] = {0, UINT16_MAX}, [RUSH_U32] = {0, UINT32_MAX}, [RUSH_U64] = {0, INT64_MAX},
                                       [RUSH_I8] = {INT8_MIN, INT8_MAX}, [RUSH_I16] = {INT16_MIN, INT16_MAX}, [RUSH_I32] = {INT32_MIN, INT32_MAX}, [RUSH_I64] = {INT64_MIN, INT64_MAX}};
    int64_t v = whole ? x->i : (int64_t)x->number;
    RUSH_CHECK(v >= limit[dtype][0] && v <= limit[dtype][1], RUSH_VALUE_ERROR, "%lld does not fit into %s", (long long)v, serve_datatype((int)dtype));
    return *(*i)++ = v, 0;
}

static rush_tensor *tensor_of_json(const rush_json *data, rush_dtype dtype, int ndim, const int64_t *size, int64_t numel)
{
    int64_t n = count_leaves(data, 0);
    RUSH_CHECK_NULL(rush_json_is(data, RUSH_JSON_LIST) && n >= 0, RUSH_VALUE_ERROR, "'data' must be an array of numbers");
    RUSH_CHECK_NULL(n == numel, RUSH_VALUE_ERROR, "'data' has %lld numbers, the shape %lld", (long long)n, (long long)numel);
    bool whole = !rush_dtype_is_float(dtype);
    void *room = malloc(SERVE_ROOM((size_t)n * 8));
    if (!room) return rush_fail(RUSH_MEMORY_ERROR, "out of memory"), NULL;
    double *f = whole ? NULL : room;
    int64_t *i = whole ? room : NULL;
    rush_tensor *t = fill(data, dtype, &f, &i) ? NULL : rush_from_data(room, whole ? RUSH_I64 : RUSH_F64, ndim, size);
    free(room);
    return t;
}

/* ---- texts: in binary each has its length before it, in four bytes ---- */

static size_t length_at(const char *p)
{
    const unsigned char *b = (const unsigned char *)p;
    return b[0] | (size_t)b[1] << 8 | (size_t)b[2] << 16 | (size_t)b[3] << 24;
}

/* Where the next text is; NULL and an error. */
static const char *next_text(const char **p, const char *end, size_t *n)
{
    bool whole = end - *p >= 4;
    *n = whole ? length_at(*p) : 0;
    RUSH_CHECK_NULL(whole && *n <= (size_t)(end - *p) - 4, RUSH_VALUE_ERROR, "a text reaches beyond the bytes of its input");
    const char *text = *p + 4;
    *p = text + *n;
    return text;
}

/* From JSON, or (data NULL) from the bytes. */
static rush_tensor *tensor_of_texts(const rush_json *data, const char *p, const char *end, int ndim, const int64_t *size, int64_t numel)
{
    int64_t most = (int64_t)serve_given.max_bytes, whole[RUSH_MAXDIM + 1];
    bool fits = data ? rush_json_is(data, RUSH_JSON_LIST) && data->n == numel : numel <= (end - p) / 4;
    RUSH_CHECK_NULL(fits && ndim < RUSH_MAXDIM, RUSH_VALUE_ERROR, "there are not the %lld texts that the shape tells of", (long long)numel);
    const char **text = malloc(SERVE_ROOM((size_t)numel * sizeof *text));
    size_t *length = malloc(SERVE_ROOM((size_t)numel * sizeof *length));
    const rush_json *x = data ? data->first : NULL;
    int failed = text && length ? 0 : rush_fail(RUSH_MEMORY_ERROR, "out of memory");
    int64_t longest = 1;
    for (int64_t i = 0; !failed && i < numel; ++i, x = data ? x->next : NULL) {
        text[i] = data ? rush_json_text(x) : next_text(&p, end, &length[i]);
        if (data && text[i]) length[i] = strlen(text[i]);
        if (!text[i]) failed = data ? rush_fail(RUSH_VALUE_ERROR, "'data' must be an array of texts") : -1;
        else if ((int64_t)length[i] > longest) longest = (int64_t)length[i];
    }
    if (!failed && !data && p != end) failed = rush_fail(RUSH_VALUE_ERROR, "there are more bytes than those of the texts");
    if (!failed && numel && longest > most / numel) failed = rush_fail(RUSH_VALUE_ERROR, "%lld texts of up to %lld bytes are more than the server allows", (long long)numel, (long long)longest);
    rush_tensor *t = failed ? NULL : rush_texts((size_t)numel, text, length);
    memcpy(whole, size, (size_t)ndim * sizeof *size);
    whole[ndim] = longest;
    free(text);
    free(length);
    return t ? rush_from_data(rush_data(t), RUSH_U8, ndim + 1, whole) : NULL; /* no operation: the stack is small here */
}

static int read_shape(const rush_json *shape, int64_t *size, int64_t *numel)
{
    int n = 0;
    RUSH_CHECK(rush_json_is(shape, RUSH_JSON_LIST) && rush_json_count(shape) <= RUSH_MAXDIM, RUSH_VALUE_ERROR, "'shape' must be an array of at most %d numbers", RUSH_MAXDIM);
    *numel = 1;
    rush_json_each(x, shape) {
        size[n] = whole_of(x);
        RUSH_CHECK(size[n] >= 0, RUSH_VALUE_ERROR, "'shape' must be an array of sizes");
        RUSH_CHECK(!__builtin_mul_overflow(*numel, size[n], numel) && *numel <= INT64_C(1) << 40, RUSH_VALUE_ERROR, "'shape' asks for too many elements");
        ++n;
    }
    return n;
}

static int check_value(const serve_value *v, int dtype, int ndim, const int64_t *size)
{
    RUSH_CHECK(v->dtype < 0 || v->dtype == dtype, RUSH_VALUE_ERROR, "input '%s' must be %s, not %s", v->name, serve_datatype(v->dtype) ? serve_datatype(v->dtype) : "of another type", serve_datatype(dtype));
    RUSH_CHECK(v->ndim < 0 || v->ndim == ndim, RUSH_VALUE_ERROR, "input '%s' must have %d dimensions, not %d", v->name, v->ndim, ndim);
    for (int d = 0; d < v->ndim; ++d)
        RUSH_CHECK(v->size[d] < 0 || v->size[d] == size[d], RUSH_VALUE_ERROR, "dimension %d of input '%s' must be %lld, not %lld", d, v->name, (long long)v->size[d], (long long)size[d]);
    return 0;
}

/* Bytes of a tensor, which are n. */
static rush_tensor *tensor_of_bytes(const serve_value *v, int dtype, int ndim, const int64_t *size, int64_t numel, const char *p, int64_t n)
{
    int64_t item = dtype == SERVE_BYTES ? 0 : (int64_t)rush_dtype_size((rush_dtype)dtype);
    RUSH_CHECK_NULL(!item || n == numel * item, RUSH_VALUE_ERROR, "unexpected total byte size %lld for input '%s', expecting %lld", (long long)n, v->name, (long long)(numel * item));
    for (int64_t k = 0; dtype == RUSH_BOOL && k < n; ++k) RUSH_CHECK_NULL((unsigned char)p[k] <= 1, RUSH_VALUE_ERROR, "input '%s': a byte of a bool is neither 0 nor 1", v->name);
    return item ? rush_from_data(p, (rush_dtype)dtype, ndim, size) : tensor_of_texts(NULL, p, p + n, ndim, size, numel);
}

/* The region that parameters name, and which of its bytes; NULL: none, or an error. */
static const char *region_of(const rush_json *parameters, bool near, uint64_t *offset, uint64_t *n)
{
    const char *name = rush_json_text_of(parameters, "shared_memory_region");
    const rush_json *at = rush_json_get(parameters, "shared_memory_offset"), *size = rush_json_get(parameters, "shared_memory_byte_size");
    if (!rush_json_get(parameters, "shared_memory_region")) return NULL;
    RUSH_CHECK_NULL(serve_given.shared, RUSH_NOT_IMPLEMENTED, "shared memory is for servers that are started with --shared-memory");
    RUSH_CHECK_NULL(near, RUSH_VALUE_ERROR, "shared memory is for clients on the server's machine");
    RUSH_CHECK_NULL(name && whole_of(size) >= 0 && (!at || whole_of(at) >= 0), RUSH_VALUE_ERROR, "shared memory needs a region, an offset and a size in bytes");
    *offset = at ? (uint64_t)at->i : 0;
    *n = (uint64_t)size->i;
    return name;
}

static rush_tensor *tensor_of_shared(const serve_value *v, int dtype, int ndim, const int64_t *size, int64_t numel, const char *region, uint64_t offset, uint64_t n)
{
    RUSH_CHECK_NULL(n <= serve_given.max_bytes, RUSH_VALUE_ERROR, "input '%s' is larger than the server allows", v->name);
    char *room = malloc(SERVE_ROOM(n));
    if (!room) return rush_fail(RUSH_MEMORY_ERROR, "out of memory"), NULL;
    rush_tensor *t = serve_shared_read(region, offset, room, n) ? NULL : tensor_of_bytes(v, dtype, ndim, size, numel, room, (int64_t)n);
    free(room);
    return t;
}

/* One input; binary: where the bytes that are left begin. */
static int read_input(const serve_model *m, const rush_json *x, bool near, const char **binary, const char *end, serve_job *job)
{
    const char *name = rush_json_text_of(x, "name");
    int64_t size[RUSH_MAXDIM], numel = 0;
    int i = 0, dtype = serve_dtype_named(rush_json_text_of(x, "datatype"));
    RUSH_CHECK(name, RUSH_VALUE_ERROR, "an input has no name");
    while (i < m->nin && strcmp(m->in[i].name, name)) ++i;
    RUSH_CHECK(i < m->nin, RUSH_VALUE_ERROR, "unexpected inference input '%.100s' for model '%s'", name, m->name);
    RUSH_CHECK(!job->in[i], RUSH_VALUE_ERROR, "input '%s' is given twice", m->in[i].name);
    RUSH_CHECK(dtype >= 0 && (dtype != SERVE_BYTES || m->in[i].dtype >= 0), RUSH_VALUE_ERROR, "input '%s': the datatype is missing or not supported", m->in[i].name);
    int ndim = read_shape(rush_json_get(x, "shape"), size, &numel);
    if (ndim < 0 || check_value(&m->in[i], dtype, ndim, size)) return -1;
    const rush_json *parameters = rush_json_get(x, "parameters"), *bytes = rush_json_get(parameters, "binary_data_size");
    uint64_t offset = 0, nshared = 0;
    const char *region = region_of(parameters, near, &offset, &nshared);
    if (!region && rush_error()) return -1;
    rush_tensor *t;
    if (region) {
        t = tensor_of_shared(&m->in[i], dtype, ndim, size, numel, region, offset, nshared);
    } else if (bytes) {
        int64_t n = whole_of(bytes);
        RUSH_CHECK(n >= 0 && n <= end - *binary, RUSH_VALUE_ERROR, "input '%s': the body has not the %lld bytes that it says", m->in[i].name, (long long)n);
        t = tensor_of_bytes(&m->in[i], dtype, ndim, size, numel, *binary, n);
        *binary += n;
    } else if (dtype == SERVE_BYTES) {
        const rush_json *data = rush_json_get(x, "data");
        RUSH_CHECK(data, RUSH_VALUE_ERROR, "'data' must be an array of texts");
        t = tensor_of_texts(data, NULL, NULL, ndim, size, numel);
    } else {
        t = tensor_of_json(rush_json_get(x, "data"), (rush_dtype)dtype, ndim, size, numel);
        job->cast[i] = (int8_t)dtype;
    }
    if (!t) return -1;
    job->in[i] = rush_keep(t);
    return 0;
}

static bool is_binary(const rush_json *parameters, bool otherwise)
{
    const rush_json *x = rush_json_get(parameters, "binary_data");
    return x ? rush_json_is_true(x) : otherwise;
}

static int read_outputs(const serve_model *m, serve_request *r)
{
    const rush_json *list = rush_json_get(r->json, "outputs"), *all = rush_json_get(r->json, "parameters");
    bool binary = rush_json_is_true(rush_json_get(all, "binary_data_output"));
    RUSH_CHECK(!list || rush_json_is(list, RUSH_JSON_LIST), RUSH_VALUE_ERROR, "'outputs' must be an array");
    for (int k = 0; !list && k < m->nout; ++k) r->out[r->nout++] = (wanted){k, binary, 0, NULL, 0, 0};
    rush_json_each(x, list) {
        const char *name = rush_json_text_of(x, "name");
        const rush_json *p = rush_json_get(x, "parameters"), *classes = rush_json_get(p, "classification");
        int k = 0;
        while (name && k < m->nout && strcmp(m->out[k].name, name)) ++k;
        RUSH_CHECK(name && k < m->nout, RUSH_VALUE_ERROR, "unexpected inference output '%.100s' for model '%s'", name ? name : "", m->name);
        RUSH_CHECK(r->nout < SERVE_TENSORS, RUSH_VALUE_ERROR, "too many outputs are asked for");
        wanted w = {k, is_binary(p, binary), 0, NULL, 0, 0};
        w.region = region_of(p, r->near, &w.offset, &w.room);
        if (!w.region && rush_error()) return -1;
        RUSH_CHECK(!classes || (whole_of(classes) >= 0 && classes->i <= MOST_CLASSES), RUSH_VALUE_ERROR, "output '%s': classification is of at most %d classes", name, MOST_CLASSES);
        RUSH_CHECK(!classes || m->out[k].dtype != SERVE_BYTES, RUSH_VALUE_ERROR, "output '%s': classification is of numbers", name);
        w.classes = classes ? (int)classes->i : 0;
        r->out[r->nout++] = w;
    }
    return 0;
}

/* A body that is nothing but the only text. */
static int read_raw(const serve_model *m, serve_request *r, const char *body, size_t n, serve_job *job)
{
    RUSH_CHECK(m->nin == 1 && m->in[0].dtype == SERVE_BYTES && m->in[0].ndim == 1 && (m->in[0].size[0] < 0 || m->in[0].size[0] == 1), RUSH_VALUE_ERROR,
               "a body without JSON is for models whose only input is one text (BYTES)");
    rush_tensor *t = rush_texts(1, &body, &n);
    if (!t) return -1;
    job->in[0] = rush_keep(t);
    return read_outputs(m, r);
}

static int read_all(const serve_model *m, serve_request *r, const char *body, size_t n, size_t nheader, serve_job *job)
{
    const char *binary = body + nheader;
    const rush_json *list;
    r->json = rush_json_read(body, nheader);
    RUSH_CHECK(rush_json_is(r->json, RUSH_JSON_OBJECT), RUSH_VALUE_ERROR, "the request is no JSON object");
    r->id = rush_json_text_of(r->json, "id");
    list = rush_json_get(r->json, "inputs");
    RUSH_CHECK(rush_json_is(list, RUSH_JSON_LIST), RUSH_VALUE_ERROR, "'inputs' must be an array");
    rush_json_each(x, list)
        if (read_input(m, x, r->near, &binary, body + n, job)) return -1;
    RUSH_CHECK(binary == body + n, RUSH_VALUE_ERROR, "the body has %zu bytes more than its inputs", (size_t)(body + n - binary));
    for (int i = 0; i < m->nin; ++i) RUSH_CHECK(job->in[i], RUSH_VALUE_ERROR, "expected %d inputs, and input '%s' is missing", m->nin, m->in[i].name);
    return read_outputs(m, r);
}

serve_request *serve_request_read(const serve_model *m, const char *body, size_t n, size_t nheader, bool near, serve_job *job)
{
    serve_request *r = calloc(1, sizeof *r);
    if (!r) return rush_fail(RUSH_MEMORY_ERROR, "out of memory"), NULL;
    r->near = near;
    job->n = m->nin;
    int failed = 0;
    rush_scope() failed = !nheader && n ? read_raw(m, r, body, n, job) : read_all(m, r, body, n, nheader, job);
    for (int k = 0; k < r->nout; ++k) job->shown |= (uint64_t)((!r->out[k].binary && !r->out[k].region) || r->out[k].classes) << r->out[k].k;
    if (!failed) return r;
    serve_request_free(r);
    return NULL;
}

/* ---- answers ---- */

static void put_data(serve_text *out, const rush_tensor *t, const rush_tensor *plain)
{
    rush_dtype dtype = rush_dtype_of(t);
    bool whole = !rush_dtype_is_float(dtype);
    int64_t n = rush_numel(plain);
    const int64_t *i = rush_data(plain);
    const double *f = rush_data(plain);
    serve_print(out, ",\"data\":[");
    for (int64_t k = 0; k < n; ++k) {
        if (k) serve_put(out, ",", 1);
        if (dtype == RUSH_BOOL) serve_print(out, i[k] ? "true" : "false");
        else if (whole) serve_print(out, "%lld", (long long)i[k]);
        else if (isfinite(f[k])) serve_print(out, dtype == RUSH_F64 ? "%.17g" : "%.9g", f[k]);
        else serve_print(out, isnan(f[k]) ? "NaN" : f[k] > 0 ? "Infinity" : "-Infinity"); /* as Triton and Python's json have them */
    }
    serve_put(out, "]", 1);
}

static int64_t count_texts(const rush_tensor *t) { return rush_size(t, rush_ndim(t) - 1) ? rush_numel(t) / rush_size(t, rush_ndim(t) - 1) : 0; }

static void put_texts(serve_text *out, const rush_tensor *t)
{
    serve_print(out, ",\"data\":[");
    for (int64_t i = 0, n = count_texts(t); i < n; ++i) {
        size_t length = 0;
        const char *text = rush_text_at(t, i, &length);
        if (i) serve_put(out, ",", 1);
        serve_put_json_bytes(out, text ? text : "", length);
    }
    serve_put(out, "]", 1);
}

static void put_binary_texts(serve_text *out, const rush_tensor *t)
{
    for (int64_t i = 0, n = count_texts(t); i < n; ++i) {
        size_t length = 0;
        const char *text = rush_text_at(t, i, &length);
        const unsigned char head[] = {(unsigned char)length, (unsigned char)(length >> 8), (unsigned char)(length >> 16), (unsigned char)(length >> 24)};
        serve_put(out, head, 4);
        if (length) serve_put(out, text, length);
    }
}

/* The bytes that a result takes in binary. */
static size_t size_of(const rush_tensor *t, bool texts)
{
    if (!texts) return (size_t)rush_numel(t) * rush_dtype_size(rush_dtype_of(t));
    size_t sum = 0, length = 0;
    for (int64_t i = 0, n = count_texts(t); i < n; ++i) sum += 4 + (rush_text_at(t, i, &length) ? length : 0);
    return sum;
}

/* ---- classification: the largest of each row as texts "value:place" ---- */

typedef struct ranked { double value; int64_t at; } ranked;

static int rank(const void *a, const void *b)
{
    const ranked *x = a, *y = b;
    if (x->value != y->value && !(isnan(x->value) && isnan(y->value))) return isnan(y->value) || x->value > y->value ? -1 : 1; /* NaN behind all */
    return x->at < y->at ? -1 : x->at > y->at;
}

static int rank_row(const rush_tensor *numbers, int64_t row, int64_t n, int classes, ranked *all, char (*text)[64])
{
    bool whole = rush_dtype_of(numbers) == RUSH_I64;
    const int64_t *i = rush_data(numbers);
    const double *f = rush_data(numbers);
    for (int64_t k = 0; k < n; ++k) all[k] = (ranked){whole ? (double)i[row * n + k] : f[row * n + k], k};
    qsort(all, (size_t)n, sizeof *all, rank);
    for (int k = 0; k < classes; ++k)
        if (whole) snprintf(text[k], sizeof text[k], "%lld:%lld", (long long)i[row * n + all[k].at], (long long)all[k].at);
        else snprintf(text[k], sizeof text[k], fabs(all[k].value) < 1e30 ? "%f:%lld" : "%g:%lld", all[k].value, (long long)all[k].at);
    return 0;
}

/* Parked texts, a row for each of the first dimension where the model has samples there. */
static rush_tensor *classes_of(const serve_model *m, const rush_tensor *numbers, int classes)
{
    bool batched = m->max_batch > 1 && rush_ndim(numbers) > 0;
    int64_t rows = batched ? rush_size(numbers, 0) : 1, n = rows ? rush_numel(numbers) / rows : 0, k = RUSH_MIN(classes, n), longest = sizeof(char[64]);
    RUSH_CHECK_NULL(k > 0 && rows * k <= (int64_t)serve_given.max_bytes / longest, RUSH_VALUE_ERROR, "classification of no numbers, or of too many");
    ranked *all = malloc(SERVE_ROOM((size_t)n * sizeof *all));
    char (*text)[64] = calloc((size_t)(rows * k), sizeof *text);
    int failed = all && text ? 0 : rush_fail(RUSH_MEMORY_ERROR, "out of memory");
    for (int64_t row = 0; !failed && row < rows; ++row) failed = rank_row(numbers, row, n, (int)k, all, text + row * k);
    rush_tensor *t = failed ? NULL : rush_from_data(text, RUSH_U8, 2 + batched, batched ? (int64_t[]){rows, k, longest} : (int64_t[]){k, longest});
    free(all);
    free(text);
    return t;
}

/* ---- what is answered of one result ---- */

typedef struct shown { const rush_tensor *t; bool texts; } shown;

static int put_output(serve_text *out, const serve_model *m, const wanted *w, shown x, const rush_tensor *numbers)
{
    const char *type = serve_datatype(x.texts ? SERVE_BYTES : (int)rush_dtype_of(x.t));
    RUSH_CHECK(type, RUSH_NOT_IMPLEMENTED, "output '%s' is of a dtype that the protocol has no name for", m->out[w->k].name);
    serve_print(out, "{\"name\":");
    serve_put_json(out, m->out[w->k].name);
    serve_print(out, ",\"datatype\":\"%s\",\"shape\":[", type);
    for (int d = 0; d < rush_ndim(x.t) - x.texts; ++d) serve_print(out, d ? ",%lld" : "%lld", (long long)rush_size(x.t, d));
    serve_put(out, "]", 1);
    if (w->region) {
        serve_print(out, ",\"parameters\":{\"shared_memory_region\":");
        serve_put_json(out, w->region);
        serve_print(out, ",\"shared_memory_offset\":%llu,\"shared_memory_byte_size\":%zu}", (unsigned long long)w->offset, size_of(x.t, x.texts));
    } else if (w->binary) serve_print(out, ",\"parameters\":{\"binary_data_size\":%zu}", size_of(x.t, x.texts));
    else if (x.texts) put_texts(out, x.t);
    else put_data(out, x.t, numbers);
    serve_put(out, "}", 1);
    return 0;
}

static int put_shared(const serve_model *m, const wanted *w, shown x)
{
    size_t n = size_of(x.t, x.texts);
    RUSH_CHECK(n <= w->room, RUSH_VALUE_ERROR, "output '%s' takes %zu bytes, and %llu of shared memory were given", m->out[w->k].name, n, (unsigned long long)w->room);
    if (!x.texts) return serve_shared_write(w->region, w->offset, rush_data(x.t), n);
    serve_text bytes = {0};
    put_binary_texts(&bytes, x.t);
    int failed = bytes.failed ? rush_fail(RUSH_MEMORY_ERROR, "out of memory") : serve_shared_write(w->region, w->offset, bytes.p, bytes.n);
    free(bytes.p);
    return failed;
}

static int answer(const serve_request *r, const serve_job *job, serve_text *out, size_t *nheader)
{
    const serve_model *m = job->model;
    shown all[SERVE_TENSORS];
    bool binary = false;
    serve_print(out, "{\"model_name\":\"%s\",\"model_version\":\"%s\"", m->name, m->version);
    if (r->id) serve_print(out, ",\"id\":"), serve_put_json(out, r->id);
    serve_print(out, ",\"outputs\":[");
    for (int i = 0; i < r->nout; ++i) {
        const wanted *w = &r->out[i];
        RUSH_CHECK(w->k < job->nout, RUSH_RUNTIME_ERROR, "the model gave %d results, and result %d was asked for", job->nout, w->k);
        all[i] = (shown){w->classes ? classes_of(m, job->numbers[w->k], w->classes) : job->out[w->k], w->classes || m->out[w->k].dtype == SERVE_BYTES};
        if (!all[i].t) return -1;
        if (i) serve_put(out, ",", 1);
        if (put_output(out, m, w, all[i], job->numbers[w->k]) || (w->region && put_shared(m, w, all[i]))) return -1;
        binary |= w->binary && !w->region;
    }
    serve_print(out, "]}");
    *nheader = binary ? out->n : 0;
    for (int i = 0; i < r->nout; ++i) {
        if (!r->out[i].binary || r->out[i].region) continue;
        if (all[i].texts) put_binary_texts(out, all[i].t);
        else serve_put(out, rush_data(all[i].t), size_of(all[i].t, false));
    }
    return out->failed ? rush_fail(RUSH_MEMORY_ERROR, "out of memory") : 0;
}

int serve_request_answer(const serve_request *r, const serve_job *job, serve_text *out, size_t *nheader)
{
    int failed = 0;
    rush_scope() failed = answer(r, job, out, nheader);
    return failed;
}
