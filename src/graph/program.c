/* program.c - a graph as a module: its parameters have the names that they had, and rush_forward() runs it. */
#include "graph/pass.h"
#include "base/buried.h"
#include "op/formula.h"
#include "op/later.h"
#include "script/script.h"
#include "tensor/tensor.h"
#include <rushlight/data.h>
#include <rushlight/program.h>

#include <stdio.h>

/* ---- parts: modules that hold the tensors whose names have dots ---- */

static int part_forward(rush_module *m, int n, rush_tensor *const *in, rush_tensor **out)
{
    return rush_fail(RUSH_NOT_IMPLEMENTED, "a part of a program has no forward of its own: the program's graph runs as a whole");
}

static const rush_module_kind part_kind = {.name = "Part", .forward = part_forward};

rush_module *rush_program_part(rush_module *m, const char *path, const char **last)
{
    const char *dot;
    for (; (dot = strchr(path, '.')); path = dot + 1) {
        char name[256];
        RUSH_CHECK_NULL((size_t)(dot - path) < sizeof name && dot > path, RUSH_VALUE_ERROR, "'%.100s' cannot be the name of a tensor of a module", path);
        snprintf(name, sizeof name, "%.*s", (int)(dot - path), path);
        rush_module *child = rush_module_child(m, name);
        if (!child) {
            size_t mark = rush_scope_open();
            rush_module *made = rush_module_new(&part_kind);
            child = made ? rush_module_add(m, name, made) : NULL;
            rush_scope_close(mark);
        }
        if (!(m = child)) return NULL;
    }
    *last = path;
    return m;
}

int rush_program_place(rush_program_input *in, rush_module *part, const char *name, rush_tensor *t, int what)
{
    if (what == SLOT_PARAMETER ? !rush_module_parameter(part, name, t) : !rush_module_buffer(part, name, t, what == SLOT_BUFFER)) return -1;
    in->part = part;
    in->slot = (int)(rush_slot_named(part, name) - part->slots);
    return 0;
}

/* ---- what is given ---- */

static int does_not_fit(const rush_graph *g, int i, const rush_tensor *t)
{
    const rush_graph_value *v = &g->value[g->in[i]];
    char want[512] = "";
    size_t n = 0;
    for (int d = 0; d < v->ndim && n < sizeof want - 64; ++d) {
        const rush_graph_size *s = &v->size[d];
        n += (size_t)snprintf(want + n, sizeof want - n, d ? ", " : "");
        n += s->symbol >= 0 ? (size_t)snprintf(want + n, sizeof want - n, "%.40s", g->symbol[s->symbol].name)
             : s->n >= 0    ? (size_t)snprintf(want + n, sizeof want - n, "%lld", (long long)s->n)
                            : (size_t)snprintf(want + n, sizeof want - n, "?");
    }
    return rush_fail(RUSH_VALUE_ERROR, "the program's input '%s' is a tensor of %s of shape [%s], but was given %s of shape %s", v->name,
                     rush_dtype_name((rush_dtype)v->dtype), want, rush_dtype_name(t->dtype), rush_shape_of(t));
}

/* The sizes that were captured hold, and one symbol stands for one number everywhere. */
static int check_input(const rush_graph *g, int i, const rush_tensor *t, int64_t *bound)
{
    const rush_graph_value *v = &g->value[g->in[i]];
    RUSH_CHECK(t, RUSH_TYPE_ERROR, "the program's input '%s' is missing (NULL)", v->name);
    if (v->ndim < 0) return 0;
    if (t->dtype != v->dtype || t->ndim != v->ndim) return does_not_fit(g, i, t);
    for (int d = 0; d < t->ndim; ++d) {
        const rush_graph_size *s = &v->size[d];
        if (s->symbol < 0) {
            if (s->n >= 0 && s->n != t->size[d]) return does_not_fit(g, i, t);
            continue;
        }
        const rush_graph_symbol *y = &g->symbol[s->symbol];
        bool small = y->least > 2 && t->size[d] < y->least; /* 2 is said of all sizes that were no 0 or 1 when they were captured */
        RUSH_CHECK(!small && t->size[d] <= y->most, RUSH_VALUE_ERROR, "dimension %d of the program's input '%s' is %lld, but %s is from %lld to %lld", d, v->name,
                   (long long)t->size[d], y->name, (long long)y->least, (long long)y->most);
        RUSH_CHECK(bound[s->symbol] < 0 || bound[s->symbol] == t->size[d], RUSH_VALUE_ERROR, "dimension %d of the program's input '%s' is %lld, but %s is %lld elsewhere", d, v->name,
                   (long long)t->size[d], y->name, (long long)bound[s->symbol]);
        bound[s->symbol] = t->size[d];
    }
    return 0;
}

rush_program *rush_program_of(const rush_module *m)
{
    if (!rush_lives(m, "a module")) return NULL;
    RUSH_CHECK_NULL(!rush_script_is_program(m), RUSH_NOT_IMPLEMENTED, "this is a program of TorchScript, which has no graph: torch.export makes one that has");
    RUSH_CHECK_NULL(m->kind == &rush_program_kind, RUSH_TYPE_ERROR, "the module is no program");
    return m->data;
}

static int gather(const rush_program *p, int n, rush_tensor *const *in, rush_value *v)
{
    const rush_graph *g = p->graph;
    int64_t *bound = rush_scope_alloc(sizeof *bound * RUSH_MAX(g->nsymbols, 1u));
    if (!bound) return -1;
    for (uint32_t k = 0; k < g->nsymbols; ++k) bound[k] = -1;
    RUSH_CHECK(n == p->ninputs, RUSH_TYPE_ERROR, "the program takes %d tensor%s, not %d", p->ninputs, p->ninputs == 1 ? "" : "s", n);
    for (uint32_t i = 0, k = 0; i < g->nin; ++i) {
        const rush_program_input *from = &p->in[i];
        v[i] = from->part ? rush_v_tensor(rush_slot_at(from->part, from->slot)) : RUSH_NONE;
        if (from->part || from->unused) continue;
        if (check_input(g, (int)i, in[k], bound)) return -1;
        v[i] = rush_v_tensor(in[k++]);
    }
    return 0;
}

/* Hands out the results, and writes those that stand for changes. */
static int deliver(const rush_program *p, const rush_value *in, const rush_value *results, int room, rush_tensor **out)
{
    int n = 0;
    for (uint32_t i = 0; i < p->graph->nout; ++i) {
        rush_value r = results[i];
        if (p->out[i].into >= 0) {
            rush_tensor *to = T_(in[p->out[i].into]), *from = T_(r);
            RUSH_CHECK(to && from, RUSH_TYPE_ERROR, "the program changes what is no tensor");
            uint32_t mode = rush_now.mode;
            rush_now.mode |= RUSH_MODE_NO_GRAD;
            bool written = to == from || T("copy_", V(to), V(from));
            rush_now.mode = mode;
            if (!written) return -1;
            continue;
        }
        RUSH_CHECK(n < room, RUSH_VALUE_ERROR, "the program has %d results, and there is room for %d: see rush_program_run()", p->nresults, room);
        rush_tensor *t = r.kind == RUSH_V_TENSOR ? r.t : rush_is_number(r) ? rush_tensor_of_number(r, false) : NULL;
        if (!t && rush_failed()) return -1;
        out[n++] = t;
    }
    return n;
}

/* Does an operation read the value as texts, or make it so? */
static bool is_text(const rush_graph *g, uint32_t value)
{
    for (uint32_t k = 0; k < g->nnodes; ++k) {
        const rush_graph_node *node = &g->node[k];
        uint32_t flags = node->op ? node->op->flags : 0;
        if (flags & RUSH_TAKES_TEXT && node->in[0].kind == RUSH_OPERAND_VALUE && node->in[0].value == value) return true;
        if (flags & RUSH_GIVES_TEXT && node->out[0] == value) return true;
    }
    return false;
}

static void tell(const rush_graph *g, uint32_t value, rush_program_value *to)
{
    const rush_graph_value *v = &g->value[value];
    *to = (rush_program_value){.name = v->name, .dtype = -1, .ndim = -1};
    if (v->type != RUSH_A_TENSOR || v->ndim < 0) return;
    to->dtype = v->dtype;
    to->ndim = v->ndim;
    for (int d = 0; d < v->ndim; ++d) to->size[d] = v->size[d].symbol >= 0 || v->size[d].n < 0 ? -1 : v->size[d].n;
    to->text = v->dtype == RUSH_U8 && v->ndim > 0 && is_text(g, value);
}

int rush_program_input_at(const rush_module *m, int i, rush_program_value *v)
{
    RUSH_CHECK(v, RUSH_TYPE_ERROR, "rush_program_input_at: there is no room for the answer (NULL)");
    if (m && rush_lives(m, "a module") && rush_script_is_program(m)) return rush_script_program_input_at(m, i, v);
    const rush_program *p = rush_program_of(m);
    if (!p) return -1;
    for (uint32_t k = 0; k < p->graph->nin; ++k)
        if (!p->in[k].part && !p->in[k].unused && !i--) return tell(p->graph, p->graph->in[k], v), 0;
    return rush_fail(RUSH_INDEX_ERROR, "the program has no such input");
}

int rush_program_result_at(const rush_module *m, int i, rush_program_value *v)
{
    RUSH_CHECK(v, RUSH_TYPE_ERROR, "rush_program_result_at: there is no room for the answer (NULL)");
    *v = (rush_program_value){.dtype = -1, .ndim = -1};
    if (m && rush_lives(m, "a module") && rush_script_is_program(m)) return 0;
    const rush_program *p = rush_program_of(m);
    if (!p) return -1;
    for (uint32_t k = 0; k < p->graph->nout; ++k) {
        if (p->out[k].into >= 0 || i--) continue;
        if (p->graph->out[k].kind == RUSH_OPERAND_VALUE) tell(p->graph, p->graph->out[k].value, v);
        return 0;
    }
    return rush_fail(RUSH_INDEX_ERROR, "the program has no such result");
}

int rush_program_run(rush_module *m, int n, rush_tensor *const *in, int room, rush_tensor **out)
{
    if (rush_failed()) return -1;
    if (m && rush_lives(m, "a module") && rush_script_is_program(m)) return rush_script_program_run(m, n, in, room, out);
    const rush_program *p = rush_program_of(m);
    if (!p) return -1;
    RUSH_CHECK(n >= 0 && room >= 0 && (in || !n) && (out || !room), RUSH_TYPE_ERROR, "a run without inputs or without room for results");
    const rush_graph *g = p->graph;
    rush_value *v = rush_scope_alloc(sizeof *v * (g->nin + g->nout + 1));
    if (!v || gather(p, n, in, v)) return -1;
    for (uint32_t i = 0; i < g->nout; ++i) v[g->nin + i] = RUSH_NONE;
    if (rush_later_begin()) return -1;
    int given = rush_graph_run(g, v, v + g->nin) ? -1 : deliver(p, v, v + g->nin, room, out);
    rush_later_end();
    return given;
}

static int forward(rush_module *m, int n, rush_tensor *const *in, rush_tensor **out) { return rush_program_run(m, n, in, 8, out); }

static void end(void *data) { rush_graph_free(((rush_program *)data)->graph); }

const rush_module_kind rush_program_kind = {.name = "Program", .size = sizeof(rush_program), .forward = forward, .end = end};

int rush_program_inputs(const rush_module *m)
{
    if (m && rush_lives(m, "a module") && rush_script_is_program(m)) return rush_script_program_inputs(m);
    const rush_program *p = rush_program_of(m);
    return p ? p->ninputs : -1;
}

int rush_program_results(const rush_module *m)
{
    if (m && rush_lives(m, "a module") && rush_script_is_program(m)) return rush_script_program_results(m);
    const rush_program *p = rush_program_of(m);
    return p ? p->nresults : -1;
}

int rush_program_freeze(rush_module *m)
{
    if (rush_failed()) return -1;
    rush_program *p = rush_program_of(m);
    if (!p || rush_passes_run(m, p, RUSH_PASS_RUN)) return -1;
    for (uint32_t i = 0; i < p->graph->nin; ++i) {
        rush_tensor *t = rush_program_tensor(p, p->graph->in[i]);
        if (t && t->device.type == RUSH_CPU && t->storage && rush_storage_settle(t->storage)) return -1;
    }
    return 0;
}

int rush_program_changes(const rush_module *m)
{
    if (m && rush_lives(m, "a module") && rush_script_is_program(m)) return 1;
    const rush_program *p = rush_program_of(m);
    if (!p) return -1;
    for (uint32_t i = 0; i < p->graph->nout; ++i)
        if (p->out[i].into >= 0) return 1;
    return 0;
}

const char *rush_program_text(const rush_module *m)
{
    if (m && rush_lives(m, "a module") && rush_script_is_program(m)) return rush_script_program_text(m);
    const rush_program *p = rush_program_of(m);
    return p ? rush_graph_text(p->graph) : NULL;
}
