/* pt2.c - programs in the files that torch.export.save writes: a zip of JSON and of the tensors' bytes.
 *
 * Nothing in such a file is run: pickled parts (sample inputs, objects) are never read. Paper: none; the format is described by
 * what PyTorch 2.13 writes, and checked against it.
 */
#include "graph/pass.h"
#include "graph/pt2.h"
#include "io/zip.h"
#include "tensor/tensor.h"
#include <rushlight/program.h>

#include <stdio.h>

typedef struct loaded { /* a tensor of the file, by where its bytes are and how they are seen */
    const rush_json *entry;
    rush_tensor *t;
} loaded;

typedef struct reader {
    const char *path;
    rush_zip *zip;
    rush_json *json, *weights, *constants;
    char name[128]; /* of the program in its archive */
    rush_module *module;
    rush_program *p;
    loaded *loaded;
    int nloaded;
} reader;

static int damaged(const reader *r, const char *what)
{
    return rush_fail(RUSH_VALUE_ERROR, "'%s' is no program that can be read: %s", r->path, what);
}

/* ---- the archive's texts ---- */

static rush_json *read_json(const reader *r, const char *folder, const char *rest)
{
    char name[200];
    snprintf(name, sizeof name, "%s%s%s", folder, r->name, rest);
    const rush_zip_entry *e = rush_zip_need(r->zip, name);
    if (!e) return NULL;
    RUSH_CHECK_NULL(e->size < (1u << 30), RUSH_VALUE_ERROR, "'%s' holds %s of %llu bytes", r->path, name, (unsigned long long)e->size);
    char *text = rush_zip_read_all(r->zip, e);
    rush_json *json = text ? rush_json_read(text, (size_t)e->size) : NULL;
    rush_free(text);
    if (text && !json) rush_fail(RUSH_VALUE_ERROR, "%s in '%s' is no JSON", name, r->path);
    return json;
}

/* "models/NAME.json": a file may hold several programs; the first is taken. */
static int find_name(reader *r)
{
    size_t root = strlen(r->zip->root);
    for (uint32_t i = 0; i < r->zip->n; ++i) {
        const char *name = r->zip->entry[i].name + (root ? root + 1 : 0);
        size_t n = strlen(r->zip->entry[i].name) > root ? strlen(name) : 0;
        if (n < 13 || strncmp(name, "models/", 7) || strcmp(name + n - 5, ".json") || n - 12 >= sizeof r->name) continue;
        snprintf(r->name, sizeof r->name, "%.*s", (int)(n - 12), name + 7);
        return 0;
    }
    return damaged(r, rush_zip_find_below(r->zip, "data.pkl") ? "it is a checkpoint, tensors without a program" : "there is no models/NAME.json in it");
}

/* ---- its tensors ---- */

static int read_strides(const rush_json *meta, int ndim, int64_t *size, int64_t *stride, int64_t *offset)
{
    int n = 0, m = 0;
    rush_json_each(x, rush_json_get(meta, "sizes")) if (n == ndim || !rush_pt2_size(x, &size[n]) || size[n++] < 0) return -1;
    rush_json_each(x, rush_json_get(meta, "strides")) if (m == ndim || !rush_pt2_size(x, &stride[m]) || stride[m++] < 0) return -1;
    return n == ndim && m == ndim && rush_pt2_size(rush_json_get(meta, "storage_offset"), offset) && *offset >= 0 ? 0 : -1;
}

/* The bytes of an entry; an empty one stands for `bytes` zeros. */
static rush_storage *read_bytes(const reader *r, const rush_zip_entry *e, size_t bytes)
{
    if (e->size) return rush_zip_read_storage(r->zip, e);
    rush_storage *s = rush_storage_new(bytes, (rush_device){RUSH_CPU, -1});
    if (s && bytes) memset(s->data, 0, bytes);
    return s;
}

/* The tensor of a configuration's entry. Two names of one place are one tensor, so that tied weights stay tied. */
static rush_tensor *tensor_of(reader *r, bool weight, const char *name)
{
    const rush_json *entry = rush_json_get(rush_json_get(weight ? r->weights : r->constants, "config"), name), *meta = rush_json_get(entry, "tensor_meta"), *sizes = rush_json_get(meta, "sizes");
    const char *file = rush_json_text_of(entry, "path_name");
    int dtype = rush_pt2_dtype(rush_json_get(meta, "dtype")), ndim = rush_json_is(sizes, RUSH_JSON_LIST) ? (int)rush_json_count(sizes) : -1;
    int64_t size[RUSH_MAXDIM], stride[RUSH_MAXDIM], offset = 0, last = 0;
    if (!file || dtype < 0 || ndim < 0 || ndim > RUSH_MAXDIM || read_strides(meta, ndim, size, stride, &offset)) {
        rush_fail(RUSH_VALUE_ERROR, "'%s' does not say what the tensor '%.100s' is", r->path, name);
        return NULL;
    }
    RUSH_CHECK_NULL(!rush_json_is_true(rush_json_get(entry, "use_pickle")), RUSH_NOT_IMPLEMENTED, "the tensor '%.100s' of '%s' is pickled, and pickles can run code: it is not read", name, r->path);
    for (int i = 0; i < r->nloaded; ++i)
        if (rush_json_same(rush_json_get(r->loaded[i].entry, "path_name"), rush_json_get(entry, "path_name")) && rush_json_same(rush_json_get(r->loaded[i].entry, "tensor_meta"), meta))
            return r->loaded[i].t;
    int64_t numel = rush_numel_of(ndim, size);
    if (numel < 0) return NULL;
    for (int d = 0; d < ndim; ++d) {
        int64_t span;
        bool fits = numel == 0 || (!__builtin_mul_overflow(size[d] - 1, stride[d], &span) && !__builtin_add_overflow(last, span, &last));
        RUSH_CHECK_NULL(fits, RUSH_VALUE_ERROR, "the tensor '%.100s' of '%s' is too large", name, r->path);
    }
    size_t item = rush_dtypes[dtype].size, bytes = 0;
    bool fits = !__builtin_add_overflow(last, offset, &last) && last < INT64_MAX / 32;
    if (fits && numel) bytes = ((size_t)last + 1) * item;
    char path[256];
    snprintf(path, sizeof path, "data/%s/%.150s", weight ? "weights" : "constants", file);
    const rush_zip_entry *e = rush_zip_need(r->zip, path);
    if (!e) return NULL;
    RUSH_CHECK_NULL(fits && (!e->size || bytes <= e->size), RUSH_VALUE_ERROR, "the tensor '%.100s' of '%s' is longer than its bytes", name, r->path);
    RUSH_CHECK_NULL(bytes <= r->zip->source.size || e->size, RUSH_VALUE_ERROR, "the tensor '%.100s' of '%s' is longer than the file", name, r->path);
    rush_storage *s = read_bytes(r, e, bytes);
    rush_tensor *t = s ? rush_tensor_over(s, (rush_dtype)dtype, ndim, size, stride, offset) : NULL;
    if (t && s->data && dtype == RUSH_BOOL) rush_clean_bools(s->data, s->nbytes);
    rush_storage_drop(s);
    if (!t) return NULL;
    r->loaded[r->nloaded++] = (loaded){entry, t};
    return t;
}

/* Gives it to the module under its own name, "layers.0.weight". */
static int place(reader *r, rush_program_input *in, const char *name, rush_tensor *t, int what)
{
    const char *last;
    rush_module *part = t ? rush_program_part(r->module, name, &last) : NULL;
    if (!part) return -1;
    bool learns = rush_dtypes[t->dtype].category >= 2;
    return rush_program_place(in, part, last, t, what == SLOT_PARAMETER && !learns ? SLOT_SCRATCH : what);
}

/* ---- what goes in and comes out ---- */

static int read_input(reader *r, const rush_json *spec, rush_program_input *in)
{
    const rush_json *x = rush_json_is(spec, RUSH_JSON_OBJECT) ? spec->first : NULL;
    const char *tag = x ? x->name : NULL, *name;
    if (!tag) return damaged(r, "an input is not described");
    if (!strcmp(tag, "parameter") && (name = rush_json_text_of(x, "parameter_name"))) {
        rush_tensor *t = tensor_of(r, true, name);
        if (place(r, in, name, t, SLOT_PARAMETER)) return -1;
        const rush_json *meta = rush_json_get(rush_json_get(rush_json_get(r->weights, "config"), name), "tensor_meta");
        return rush_json_is_false(rush_json_get(meta, "requires_grad")) && rush_requires_grad(t) && !rush_requires_grad_set(t, false) ? -1 : 0;
    }
    if (!strcmp(tag, "buffer") && (name = rush_json_text_of(x, "buffer_name"))) {
        bool persistent = !rush_json_is_false(rush_json_get(x, "persistent"));
        return place(r, in, name, tensor_of(r, persistent, name), persistent ? SLOT_BUFFER : SLOT_SCRATCH);
    }
    if (!strcmp(tag, "tensor_constant") && (name = rush_json_text_of(x, "tensor_constant_name"))) return place(r, in, name, tensor_of(r, false, name), SLOT_SCRATCH);
    if (!strcmp(tag, "constant_input")) return in->unused = true, 0;
    if (!strcmp(tag, "user_input")) {
        const rush_json *arg = rush_json_get(x, "arg");
        in->unused = !rush_json_get(arg, "as_tensor");
        RUSH_CHECK(!rush_json_get(arg, "as_sym_int") && !rush_json_get(arg, "as_custom_obj"), RUSH_NOT_IMPLEMENTED, "'%s': a program that takes a number which may vary", r->path);
        r->p->ninputs += !in->unused;
        return 0;
    }
    return rush_fail(RUSH_NOT_IMPLEMENTED, "'%s': an input of the kind '%.40s' is not supported", r->path, tag);
}

static int read_inputs(reader *r, const rush_json *specs)
{
    size_t n = rush_json_count(specs);
    if (n != r->p->graph->nin) return damaged(r, "its graph has another number of inputs than its signature");
    r->p->in = rush_graph_alloc(r->p->graph, (n + 1) * sizeof *r->p->in);
    r->loaded = rush_scope_alloc((n + 1) * sizeof *r->loaded);
    if (!r->p->in || !r->loaded) return -1;
    size_t i = 0;
    rush_json_each(x, specs) if (read_input(r, x, &r->p->in[i++])) return -1;
    return 0;
}

/* The number of the graph's input whose description has `key`: `name`. */
static int32_t input_named(const rush_json *specs, const char *key, const char *name)
{
    int32_t i = 0;
    rush_json_each(x, specs) {
        const char *found = x->first ? rush_json_text_of(x->first, key) : NULL;
        if (!strcmp(key, "name") && x->first) found = rush_json_text_of(rush_json_get(rush_json_get(x->first, "arg"), "as_tensor"), "name");
        if (found && name && !strcmp(found, name)) return i;
        ++i;
    }
    return -1;
}

static int read_results(reader *r, const rush_json *inputs, const rush_json *specs)
{
    static const struct { const char *tag, *from, *key; } kinds[] = {
        {"user_output", NULL, NULL}, {"loss_output", NULL, NULL}, {"buffer_mutation", "buffer_name", "buffer_name"},
        {"parameter_mutation", "parameter_name", "parameter_name"}, {"user_input_mutation", "user_input_name", "name"}};
    size_t n = rush_json_count(specs), i = 0;
    if (n != r->p->graph->nout) return damaged(r, "its graph has another number of results than its signature");
    if (!(r->p->out = rush_graph_alloc(r->p->graph, (n + 1) * sizeof *r->p->out))) return -1;
    rush_json_each(x, specs) {
        const char *tag = x->first && x->first->name ? x->first->name : "";
        size_t k = 0;
        while (k < RUSH_COUNT(kinds) && strcmp(kinds[k].tag, tag)) ++k;
        RUSH_CHECK(k < RUSH_COUNT(kinds), RUSH_NOT_IMPLEMENTED, "'%s': a result of the kind '%.40s' is not supported", r->path, tag);
        int32_t into = kinds[k].from ? input_named(inputs, kinds[k].key, rush_json_text_of(x->first, kinds[k].from)) : -1;
        if (kinds[k].from && into < 0) return damaged(r, "it changes an input that it does not have");
        r->p->out[i++].into = into;
        r->p->nresults += into < 0;
    }
    return 0;
}

static int read_ranges(reader *r, const rush_json *ranges)
{
    rush_json_each(x, ranges) {
        rush_graph *g = r->p->graph;
        for (uint32_t k = 0; x->name && k < g->nsymbols; ++k) {
            if (strcmp(g->symbol[k].name, x->name)) continue;
            const rush_json *least = rush_json_get(x, "min_val"), *most = rush_json_get(x, "max_val");
            if (rush_json_is_number(least)) g->symbol[k].least = rush_pt2_int(least);
            if (rush_json_is_number(most)) g->symbol[k].most = rush_pt2_int(most);
        }
    }
    return 0;
}

/* ---- the whole ---- */

static int read_program(reader *r)
{
    rush_missing missing = {.n = 0};
    if (find_name(r) || !(r->json = read_json(r, "models/", ".json"))) return -1;
    const rush_json *major = rush_json_get(rush_json_get(r->json, "schema_version"), "major"), *module = rush_json_get(r->json, "graph_module"), *signature = rush_json_get(module, "signature");
    RUSH_CHECK(rush_json_is_number(major) && major->number == 8, RUSH_NOT_IMPLEMENTED, "'%s' is a program of a format other than 8, which PyTorch has written since 2.6", r->path);
    if (!(r->p->graph = rush_graph_new(NULL)) || rush_pt2_graph(r->p->graph, rush_json_get(module, "graph"), &missing)) return -1;
    RUSH_CHECK(!missing.n, RUSH_NOT_IMPLEMENTED, "'%s' calls %zu operation%s that the library does not have:%s", r->path, missing.n, missing.n == 1 ? "" : "s", missing.text);
    if (!(r->weights = read_json(r, "data/weights/", "_weights_config.json")) || !(r->constants = read_json(r, "data/constants/", "_constants_config.json"))) return -1;
    const rush_json *inputs = rush_json_get(signature, "input_specs");
    if (read_inputs(r, inputs) || read_results(r, inputs, rush_json_get(signature, "output_specs")) || read_ranges(r, rush_json_get(r->json, "range_constraints"))) return -1;
    return rush_passes_run(r->module, r->p, RUSH_PASS_ALWAYS);
}

rush_module *rush_pt2_load(const char *path)
{
    reader r = {.path = path};
    rush_source source;
    size_t mark = rush_scope_open();
    if (rush_source_open(&source, path) || !(r.zip = rush_zip_open(source))) return NULL;
    rush_module *m = rush_module_keep(r.module = rush_module_new(&rush_program_kind));
    bool failed = !m;
    if (m) {
        r.p = rush_module_data(m);
        failed = read_program(&r);
    }
    rush_free(r.json);
    rush_free(r.weights);
    rush_free(r.constants);
    rush_zip_close(r.zip);
    rush_scope_close(mark);
    if (failed) return rush_module_drop(m), NULL;
    return rush_park_object(m);
}
