/* onnx.c - ONNX files as programs: what stands around the graph, and the module that it becomes. */
#include "graph/onnx.h"
#include "base/buried.h"

#include <rushlight/program.h>
#include <stdio.h>

/* ---- its tensors ---- */

/* A name that a module can have: parts between dots are not empty. */
static void tidy(char *to, size_t room, const char *name)
{
    size_t n = 0;
    bool begins = true;
    for (; *name && n + 1 < room; ++name) {
        bool dot = *name == '.' && !begins && name[1] && name[1] != '.';
        to[n++] = *name == '.' && !dot ? '_' : *name;
        begins = dot;
    }
    if (!n) to[n++] = '_';
    to[n] = 0;
}

static bool is_taken(rush_module *part, const char *name)
{
    return rush_slot_named(part, name) || rush_module_child(part, name);
}

static int place(rush_module *m, const rush_onnx_held *h, rush_program_input *in)
{
    char name[1024], plain[1100];
    const char *last;
    tidy(name, sizeof name, h->name);
    rush_module *part = rush_program_part(m, name, &last);
    if (!part) return -1;
    snprintf(plain, sizeof plain, "%s", last);
    for (int k = 0; is_taken(part, plain); ++k) snprintf(plain, sizeof plain, "%s_%d", last, k);
    return rush_program_place(in, part, plain, h->t, h->what);
}

/* ---- what goes in and comes out ---- */

static int connect(rush_onnx_reader *r, rush_module *m)
{
    rush_program *p = rush_module_data(m);
    rush_graph *g = p->graph;
    p->in = rush_graph_alloc(g, (g->nin + 1u) * sizeof *p->in);
    p->out = rush_graph_alloc(g, (g->nout + 1u) * sizeof *p->out);
    uint32_t *place_of = rush_scope_alloc((g->nvalues + 1u) * sizeof *place_of);
    if (!p->in || !p->out || !place_of) return -1;
    for (uint32_t i = 0; i < g->nin; ++i) place_of[g->in[i]] = i;
    for (uint32_t k = 0; k < r->nheld; ++k)
        if (place(m, &r->held[k], &p->in[place_of[r->held[k].value]])) return -1;
    for (uint32_t i = 0; i < g->nin; ++i) p->ninputs += !p->in[i].part;
    for (uint32_t i = 0; i < g->nout; ++i) p->out[i].into = -1;
    p->nresults = (int)g->nout;
    return 0;
}

/* ---- the whole ---- */

static int read_opset(rush_onnx_file *file, rush_wire model)
{
    rush_wire_field f, domain, version;
    while (rush_wire_next(&model, &f) > 0) {
        if (f.number != 8 || f.type != 2) continue;
        bool named = rush_wire_find(f.bytes, 1, &domain) && domain.n;
        if (named && !rush_wire_is(domain.bytes, "ai.onnx")) continue;
        if (rush_wire_find(f.bytes, 2, &version)) file->opset = version.n < 1000 ? (int64_t)version.n : 1000;
    }
    if (rush_failed()) return -1;
    RUSH_CHECK(file->opset, RUSH_VALUE_ERROR, "'%s' is no program that can be read: neither an archive nor ONNX", file->path);
    RUSH_CHECK(file->opset >= 9, RUSH_NOT_IMPLEMENTED, "'%s' is of ONNX's operator set %lld; those from 9 on are understood", file->path, (long long)file->opset);
    return 0;
}

static int read_model(const rush_onnx_file *file, rush_wire model, rush_module *m)
{
    rush_wire_field graph;
    rush_missing missing = {.n = 0};
    rush_program *p = rush_module_data(m);
    if (!rush_wire_find(model, 7, &graph) || graph.type != 2) return rush_failed() ? -1 : rush_fail(RUSH_VALUE_ERROR, "'%s' is no program that can be read: there is no graph in it", file->path);
    if (!(p->graph = rush_graph_new(NULL))) return -1;
    rush_onnx_reader r = {.file = file, .g = p->graph, .missing = &missing};
    int failed = rush_onnx_graph(&r, graph.bytes);
    if (!failed && missing.n)
        failed = rush_fail(RUSH_NOT_IMPLEMENTED, "'%s' calls %zu operation%s that the library does not have:%s", file->path, missing.n, missing.n == 1 ? "" : "s", missing.text);
    if (!failed) failed = rush_graph_finish(p->graph) || connect(&r, m);
    rush_onnx_reader_end(&r);
    return failed ? -1 : 0;
}

rush_module *rush_onnx_load(const char *path, size_t at, size_t n)
{
    size_t mark = rush_scope_open();
    rush_onnx_file file = {.path = path, .mapping = rush_map(path)};
    rush_module *m = file.mapping ? rush_module_keep(rush_module_new(&rush_program_kind)) : NULL;
    const uint8_t *bytes = m && file.mapping->size ? (const uint8_t *)file.mapping->data + at : NULL;
    rush_wire model = {bytes, bytes ? bytes + RUSH_MIN(n, file.mapping->size - at) : NULL};
    bool failed = !m || read_opset(&file, model) || read_model(&file, model, m);
    if (file.mapping) rush_unmap(file.mapping);
    rush_scope_close(mark);
    if (failed && !strstr(rush_error(), path)) rush_error_in("'%s'", path);
    if (failed) return m ? rush_module_drop(m) : (void)0, NULL;
    return rush_park_object(m);
}
