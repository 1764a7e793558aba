/* archive.c - programs with what stands around them: files or texts as the input, classes and labels as results.
 *
 * Such a file is the program's own (.pt2), or a zip with model.onnx in it, and has extra/rushlight.json beside it: a declaration, of which nothing is believed. What it
 * declares becomes nodes of the graph, calls of operations as all others, so that nothing else knows of it. archive_write.c writes them.
 *
 *     {"picture": {"size": [224, 224], "resize": 256, "gray": false, "mean": [...], "std": [...]}}     the first input is files of pictures
 *     {"text": {"merges": "merges.txt", "vocabulary": "vocab.json", "length": 64, "padding": 0}}       or texts
 *     {"softmax": true, "top": 5, "labels": "labels.txt"}                                              the first result becomes scores, classes, labels
 */
#include "graph/pass.h"
#include "base/json.h"
#include "data/tokenizer.h"
#include "io/zip.h"
#include "tensor/tensor.h"
#include <stdio.h>

enum { MOST_LABELS = 1 << 26 }; /* bytes of their table */

typedef struct reader {
    const char *path;
    rush_zip *zip;
    rush_module *module;
    rush_program *p;
} reader;

static int wrong(const reader *r, const char *what) { return rush_fail(RUSH_VALUE_ERROR, "'%s': extra/rushlight.json %s", r->path, what); }

/* ---- what is declared ---- */

/* A whole number; `otherwise` where there is none. -1 and an error. */
static int64_t whole(const reader *r, const rush_json *box, const char *name, int64_t least, int64_t most, int64_t otherwise)
{
    const rush_json *x = rush_json_get(box, name);
    if (!x) return otherwise;
    if (x->kind == RUSH_JSON_WHOLE && x->i >= least && x->i <= most) return x->i;
    return rush_fail(RUSH_VALUE_ERROR, "'%s': '%s' of extra/rushlight.json is a whole number from %lld to %lld", r->path, name, (long long)least, (long long)most);
}

/* A list of numbers as an argument, in the graph's memory; none: None. */
static int floats(const reader *r, const rush_json *box, const char *name, int64_t channels, rush_value *v)
{
    const rush_json *list = rush_json_get(box, name);
    *v = RUSH_NONE;
    if (!list) return 0;
    if (list->kind != RUSH_JSON_LIST || (list->n != 1 && list->n != channels)) return wrong(r, "has a mean or a deviation that is no list of a number for each channel");
    double *to = rush_graph_alloc(r->p->graph, list->n * sizeof *to);
    if (!to) return -1;
    *v = rush_v_floats(to, list->n);
    rush_json_each(x, list) {
        if (!rush_json_is_number(x)) return wrong(r, "has a mean or a deviation that is no number");
        *to++ = x->number;
    }
    return 0;
}

/* A file that is named, at extra/; ended by a zero, for rush_free(). */
static char *read_file(const reader *r, const char *name, size_t *n)
{
    char path[256];
    if (!name || strlen(name) > 200) return wrong(r, "lacks the name of a file"), NULL;
    snprintf(path, sizeof path, "extra/%s", name);
    const rush_zip_entry *e = rush_zip_need(r->zip, path);
    RUSH_CHECK_NULL(!e || e->size < MOST_LABELS, RUSH_VALUE_ERROR, "'%s' holds %s of %llu bytes", r->path, path, (unsigned long long)e->size);
    *n = e ? (size_t)e->size : 0;
    return e ? rush_zip_read_all(r->zip, e) : NULL;
}

/* ---- nodes ---- */

static rush_operand value_of(uint32_t v) { return (rush_operand){.kind = RUSH_OPERAND_VALUE, .value = v}; }
static rush_operand constant_of(rush_value v) { return (rush_operand){.kind = RUSH_OPERAND_CONSTANT, .constant = v}; }

/* A call with these arguments and defaults for the others, before node `at`. */
static int insert(const reader *r, uint32_t at, const char *name, int nin, const rush_operand *in, int nout, const uint32_t *out)
{
    const rush_op *op = rush_op_find(name);
    RUSH_CHECK(op, RUSH_NOT_IMPLEMENTED, "'%s' needs the operation %s, which this library lacks", r->path, name);
    rush_graph_node *node = rush_graph_insert(r->p->graph, at, op, name, (uint32_t)nout);
    if (!node) return -1;
    for (int i = 0; i < op->nargs; ++i) node->in[i] = i < nin ? in[i] : constant_of(op->args[i].def);
    memcpy(node->out, out, (size_t)nout * sizeof *out);
    return 0;
}

static uint32_t add(const reader *r, const char *name, int dtype, const rush_graph_size *first, int64_t second)
{
    return rush_graph_add(r->p->graph, name, dtype, 2, (rush_graph_size[]){*first, {second, -1}});
}

/* ---- how it begins ---- */

/* The first input that the caller gives. */
static int first_input(const reader *r, uint32_t *at)
{
    const rush_graph *g = r->p->graph;
    for (*at = 0; *at < g->nin; ++*at)
        if (!r->p->in[*at].part && !r->p->in[*at].unused) return 0;
    return wrong(r, "declares an input, but the program has none");
}

/* The input's place is taken by one of bytes. */
static int begin_with(const reader *r, uint32_t at, const char *name, const char *op, int nin, rush_operand *in)
{
    rush_graph *g = r->p->graph;
    uint32_t was = g->in[at], now = add(r, name, RUSH_U8, &g->value[was].size[0], -1);
    if (now == RUSH_NO_VALUE) return -1;
    in[0] = value_of(now);
    g->in[at] = now;
    return insert(r, 0, op, nin, in, 1, &was);
}

static int read_picture(const reader *r, const rush_json *x)
{
    uint32_t at;
    if (first_input(r, &at)) return -1;
    const rush_graph_value *v = &r->p->graph->value[r->p->graph->in[at]];
    RUSH_CHECK(v->ndim == 4 && (v->dtype == RUSH_U8 || rush_dtype_is_float((rush_dtype)v->dtype)), RUSH_VALUE_ERROR,
               "'%s': pictures are put before an input (n, channels, height, width) of floats or uint8, not before '%s' of %s with %d dimensions", r->path, v->name, rush_dtype_name((rush_dtype)v->dtype), v->ndim);
    const rush_json *size = rush_json_get(x, "size");
    int64_t resize = whole(r, x, "resize", 1, 1 << 14, 0), channels = rush_json_is_true(rush_json_get(x, "gray")) ? 1 : 3, *ints = rush_graph_alloc(r->p->graph, 2 * sizeof *ints);
    rush_value mean, deviation;
    if (!ints || resize < 0 || floats(r, x, "mean", channels, &mean) || floats(r, x, "std", channels, &deviation)) return -1;
    if (size && (size->kind != RUSH_JSON_LIST || size->n != 2)) return wrong(r, "has a size that is no height and width");
    for (int d = 0; d < 2; ++d) {
        const rush_json *told = !size ? NULL : d ? size->first->next : size->first;
        int64_t known = v->size[2 + d].symbol < 0 ? v->size[2 + d].n : -1;
        ints[d] = rush_json_is(told, RUSH_JSON_WHOLE) ? told->i : known;
        if ((size && !rush_json_is(told, RUSH_JSON_WHOLE)) || ints[d] < 1 || ints[d] > 1 << 14 || (known >= 0 && known != ints[d]))
            return rush_fail(RUSH_VALUE_ERROR, "'%s': pictures of %s %lld, but the input '%s' has %lld there", r->path, d ? "width" : "height", (long long)ints[d], v->name, (long long)known);
    }
    RUSH_CHECK(v->size[1].symbol >= 0 || v->size[1].n < 0 || v->size[1].n == channels, RUSH_VALUE_ERROR, "'%s': pictures of %lld channels, but the input '%s' has %lld", r->path, (long long)channels, v->name,
               (long long)v->size[1].n);
    return begin_with(r, at, "picture", "rushlight::pictures", 7, (rush_operand[]){{0}, constant_of(rush_v_ints(ints, 2)), constant_of(rush_v_int(resize)), constant_of(rush_v_int(channels)),
                                                                  constant_of(mean), constant_of(deviation), constant_of(rush_v_dtype(v->dtype))});
}

/* The tables of the tokeniser whose files are in the archive. */
static int read_tables(const reader *r, const rush_json *x, rush_tensor **pairs, rush_tensor **bytes)
{
    const rush_json *vocabulary = rush_json_get(x, "vocabulary");
    size_t nmerges = 0, nvocabulary = 0;
    char *text = read_file(r, rush_json_text_of(x, "merges"), &nmerges), *numbers = text && vocabulary ? read_file(r, rush_json_text(vocabulary), &nvocabulary) : NULL;
    rush_tokenizer *t = text && (numbers || !vocabulary) ? rush_tokenizer_read((rush_named_text){text, nmerges, "merges"}, numbers ? &(rush_named_text){numbers, nvocabulary, "vocabulary"} : NULL) : NULL;
    int failed = t ? rush_tokenizer_tables(t, pairs, bytes) : -1;
    rush_tokenizer_free(t);
    rush_free(text);
    rush_free(numbers);
    return failed;
}

static int read_text(const reader *r, const rush_json *x)
{
    uint32_t at;
    rush_tensor *pairs, *bytes;
    if (first_input(r, &at)) return -1;
    const rush_graph_value *v = &r->p->graph->value[r->p->graph->in[at]];
    RUSH_CHECK(v->ndim == 2 && v->dtype == RUSH_I64, RUSH_VALUE_ERROR, "'%s': texts are put before an input (n, tokens) of int64, not before '%s' of %s with %d dimensions", r->path, v->name,
               rush_dtype_name((rush_dtype)v->dtype), v->ndim);
    int64_t known = v->size[1].symbol < 0 ? v->size[1].n : -1, length = whole(r, x, "length", 1, 1 << 20, known), padding = whole(r, x, "padding", 0, INT32_MAX, 0);
    if (length < 0 && !rush_failed()) return wrong(r, "does not say how many tokens there are (length), and the program does not either");
    if (length < 0 || padding < 0) return -1;
    RUSH_CHECK(known < 0 || known == length, RUSH_VALUE_ERROR, "'%s': texts of %lld tokens, but the input '%s' has %lld", r->path, (long long)length, v->name, (long long)known);
    if (read_tables(r, x, &pairs, &bytes)) return -1;
    uint32_t a = rush_program_constant(r->module, r->p, "pairs", pairs), b = a == RUSH_NO_VALUE ? a : rush_program_constant(r->module, r->p, "bytes", bytes);
    if (b == RUSH_NO_VALUE) return -1;
    return begin_with(r, at, "text", "rushlight::tokens", 5, (rush_operand[]){{0}, value_of(a), value_of(b), constant_of(rush_v_int(length)), constant_of(rush_v_int(padding))});
}

/* ---- how it ends ---- */

/* A row for each line of the file. */
static rush_tensor *read_labels(const reader *r, const char *name)
{
    size_t n = 0, lines = 0, longest = 1;
    char *text = read_file(r, name, &n);
    if (!text) return NULL;
    const char **line = rush_scope_alloc((n + 1) * sizeof *line);
    for (char *p = text, *end = text + n; line && p < end; ++lines) {
        char *stop = memchr(p, '\n', (size_t)(end - p));
        if (!stop) stop = end;
        *stop = 0;
        if (stop > p && stop[-1] == '\r') stop[-1] = 0;
        line[lines] = p;
        longest = RUSH_MAX(longest, strlen(p));
        p = stop + 1;
    }
    if (line && (!lines || longest > MOST_LABELS / lines)) rush_fail(RUSH_VALUE_ERROR, "'%s' has no labels, or too long ones", r->path);
    rush_tensor *t = line && !rush_failed() ? rush_texts(lines, line, NULL) : NULL;
    rush_free(text);
    return t;
}

/* The first result becomes n others. */
static int end_with(const reader *r, uint32_t at, uint32_t n, const uint32_t *values)
{
    rush_graph *g = r->p->graph;
    rush_operand *out = rush_graph_alloc(g, (g->nout + n) * sizeof *out);
    rush_program_result *to = rush_graph_alloc(g, (g->nout + n) * sizeof *to);
    if (!out || !to) return -1;
    for (uint32_t i = 0, k = 0; i < g->nout; ++i) {
        for (uint32_t j = 0; i == at && j < n; ++j, ++k) out[k] = value_of(values[j]), to[k].into = -1;
        if (i != at) out[k] = g->out[i], to[k++] = r->p->out[i];
    }
    g->out = out;
    g->nout += n - 1;
    r->p->out = to;
    r->p->nresults += (int)n - 1;
    return 0;
}

static int read_results(const reader *r, const rush_json *x)
{
    rush_graph *g = r->p->graph;
    const rush_json *labels = rush_json_get(x, "labels");
    bool softmax = rush_json_is_true(rush_json_get(x, "softmax"));
    int64_t top = whole(r, x, "top", 1, 1 << 20, 0);
    uint32_t at = 0, n = 0, values[3];
    if (top < 0) return -1;
    if (labels && !top) return wrong(r, "has labels, but does not say of how many classes (top)");
    if (!softmax && !top) return 0;
    while (at < g->nout && r->p->out[at].into >= 0) ++at;
    const rush_graph_value *v = at < g->nout && g->out[at].kind == RUSH_OPERAND_VALUE ? &g->value[g->out[at].value] : NULL;
    RUSH_CHECK(v && v->ndim == 2 && rush_dtype_is_float((rush_dtype)v->dtype), RUSH_VALUE_ERROR, "'%s': classes are those of a first result (n, classes) of floats, which the program does not have", r->path);
    uint32_t scores = g->out[at].value;
    int dtype = v->dtype;
    rush_graph_size rows = v->size[0], classes = v->size[1];
    RUSH_CHECK(classes.symbol >= 0 || classes.n < 0 || top <= classes.n, RUSH_VALUE_ERROR, "'%s': the %lld likeliest of %lld classes", r->path, (long long)top, (long long)classes.n);
    if (softmax) {
        uint32_t now = rush_graph_add(g, "scores", dtype, 2, (rush_graph_size[]){rows, classes});
        if (now == RUSH_NO_VALUE || insert(r, g->nnodes, "softmax.int", 2, (rush_operand[]){value_of(scores), constant_of(rush_v_int(-1))}, 1, &now)) return -1;
        values[n++] = scores = now;
    }
    if (top) {
        n = 2;
        values[0] = add(r, "scores", dtype, &rows, top);
        values[1] = values[0] == RUSH_NO_VALUE ? RUSH_NO_VALUE : add(r, "classes", RUSH_I64, &rows, top);
        if (values[1] == RUSH_NO_VALUE || insert(r, g->nnodes, "topk", 2, (rush_operand[]){value_of(scores), constant_of(rush_v_int(top))}, 2, values)) return -1;
    }
    if (labels) {
        rush_tensor *names = read_labels(r, rush_json_text(labels));
        if (!names) return -1;
        RUSH_CHECK(classes.symbol < 0 && classes.n == names->size[0], RUSH_VALUE_ERROR, "'%s': %lld labels for %lld classes", r->path, (long long)names->size[0], (long long)classes.n);
        uint32_t table = rush_program_constant(r->module, r->p, "labels", names);
        values[n] = table == RUSH_NO_VALUE ? table : rush_graph_add(g, "labels", RUSH_U8, 3, (rush_graph_size[]){rows, {top, -1}, {names->size[1], -1}});
        if (values[n] == RUSH_NO_VALUE || insert(r, g->nnodes, "rushlight::labels", 2, (rush_operand[]){value_of(values[1]), value_of(table)}, 1, &values[n])) return -1;
        ++n;
    }
    return end_with(r, at, n, values);
}

/* ---- the whole ---- */

static int read_declaration(const reader *r)
{
    size_t n = 0;
    char *text = read_file(r, "rushlight.json", &n);
    rush_json *json = text ? rush_json_read(text, n) : NULL;
    const rush_json *picture = rush_json_get(json, "picture"), *words = rush_json_get(json, "text");
    int failed = !text || rush_failed() ? -1 : !rush_json_is(json, RUSH_JSON_OBJECT) ? wrong(r, "is no JSON object") : picture && words ? wrong(r, "has both a picture and a text") : 0;
    if (!failed && picture) failed = rush_json_is(picture, RUSH_JSON_OBJECT) ? read_picture(r, picture) : wrong(r, "has a picture that is no object");
    if (!failed && words) failed = rush_json_is(words, RUSH_JSON_OBJECT) ? read_text(r, words) : wrong(r, "has a text that is no object");
    if (!failed) failed = read_results(r, json);
    rush_free(json);
    rush_free(text);
    return failed ? -1 : rush_graph_finish(r->p->graph);
}

rush_module *rush_archive_load(const char *path)
{
    reader r = {.path = path};
    rush_source source;
    size_t mark = rush_scope_open();
    if (rush_source_open(&source, path) || !(r.zip = rush_zip_open(source))) return rush_scope_close(mark), NULL;
    const rush_zip_entry *onnx = rush_zip_find_below(r.zip, "model.onnx");
    int64_t at = onnx ? rush_zip_offset(r.zip, onnx) : 0;
    if (onnx && onnx->method) at = rush_fail(RUSH_VALUE_ERROR, "'%s' holds model.onnx compressed: it is stored as it is", path);
    r.module = at < 0 ? NULL : rush_module_keep(onnx ? rush_onnx_load(path, (size_t)at, (size_t)onnx->size) : rush_pt2_load(path));
    bool declared = r.module && rush_zip_find_below(r.zip, "extra/rushlight.json");
    if (r.module) r.p = rush_module_data(r.module);
    bool failed = !r.module || (declared && read_declaration(&r));
    rush_zip_close(r.zip);
    rush_scope_close(mark);
    if (failed && r.module) rush_module_drop(r.module);
    return failed ? NULL : rush_park_object(r.module);
}
