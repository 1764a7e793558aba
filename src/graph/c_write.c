/* c_write.c - a program as one C99 file: the recorded calls as lines, their buffers laid out in arrays, the weights as numbers. */
#include "graph/c_text.h"
#include "graph/pass.h"
#include "op/formula.h"
#include "op/missing.h"
#include "base/text.h"
#include "io/file.h"
#include <rushlight.h>
#include <rushlight/program.h>

#include <ctype.h>

enum { TYPES = 5, MOST_RESULTS = 16 };
static const struct { uint8_t dtype; const char *name, *array; } types[TYPES] = {
    {RUSH_F32, "float", "work_float"}, {RUSH_F64, "double", "work_double"}, {RUSH_I64, "int64_t", "work_int64"}, {RUSH_I32, "int32_t", "work_int32"}, {RUSH_BOOL, "unsigned char", "work_bool"}};

static int type_of(int dtype)
{
    for (int i = 0; i < TYPES; ++i)
        if (types[i].dtype == dtype) return i;
    return -1;
}

const char *rush_c_type(int dtype) { return type_of(dtype) < 0 ? NULL : types[type_of(dtype)].name; }

static const char *texted(const char *form, const char *name, long long n)
{
    char *text = rush_scope_alloc(96);
    if (text) snprintf(text, 96, form, name, n);
    return text ? text : "";
}

/* What says where in its type's array a buffer stands. */
static const char *mark_of(const c_record *r, const c_buffer *b) { return texted("%.4s%lld", r->mark[0] == 'c' ? "R" : "T", (long long)(b - r->buffer)); }

const char *rush_c_name(const c_record *r, const c_buffer *b)
{
    static const char *const marks[] = {"", "in", "out", "w"};
    if (b->use == C_WORK) {
        const int type = type_of(b->dtype);
        char *text = rush_scope_alloc(96);
        if (text) snprintf(text, 96, "%s + %s", type < 0 ? "?" : types[type].array, mark_of(r, b));
        return text ? text : "";
    }
    return texted("%s%lld", b->use == C_CONSTANT ? r->mark : marks[b->use], b->number);
}

static bool is_packed_weight(const c_record *r, const c_buffer *b) { return r->int8 && b->use == C_WEIGHT && b->dtype == RUSH_F32 && b->whole->ndim >= 2; }

const char *rush_c_place(c_record *r, const rush_tensor *t)
{
    c_buffer *b = rush_c_buffer_of(r, t->storage);
    if (!b) return rush_fail(RUSH_NOT_IMPLEMENTED, "a tensor without memory is read"), "";
    const uint32_t number = (uint32_t)(b - r->buffer);
    if (is_packed_weight(r, b)) {
        if (r->unpacked != number) {
            c_buffer *room = rush_c_room(r, RUSH_F32, b->n);
            if (!room) return "";
            b = &r->buffer[number];
            r->unpacked = number;
            r->unpacked_to = (uint32_t)(room - r->buffer);
            for (int i = 0; i < rush_c_helpers_count; ++i)
                if (!strcmp(rush_c_helpers[i].name, "unpack")) r->helpers |= (uint64_t)1 << i;
            fprintf(r->to, "    unpack(%s, w%u, w%u_scale, %lld, %lld);\n", rush_c_name(r, room), b->number, b->number, (long long)b->whole->size[0], (long long)(b->n / RUSH_MAX(b->whole->size[0], 1)));
        }
        b = &r->buffer[r->unpacked_to];
    }
    char *text = t->offset ? rush_scope_alloc(160) : NULL;
    const char *name = rush_c_name(r, b);
    if (text) snprintf(text, 160, "%s + %lld", name, (long long)t->offset);
    return text ? text : name;
}

/* ---- memory ---- */

/* Does t lie as `out` does, alone in a buffer? */
static bool lies_as(const rush_tensor *t, const rush_tensor *out, const c_buffer *b)
{
    return !t->offset && t->ndim == out->ndim && t->numel == b->n && !memcmp(t->size, out->size, sizeof *t->size * (size_t)t->ndim) &&
           !memcmp(t->stride, out->stride, sizeof *t->stride * (size_t)t->ndim);
}

/* The result of step i, one of a row of pointwise.def, takes the place of an argument that ends there. */
static void take_over(const c_record *r, int64_t i)
{
    const c_step *s = &r->step[i];
    const rush_tensor *out = s->row && !*s->row->name && !s->inplace && s->out[0].kind == RUSH_V_TENSOR ? s->out[0].t : NULL;
    c_buffer *b = out ? rush_c_buffer_of(r, out->storage) : NULL;
    if (!b || b->use != C_WORK || b->first != i || !lies_as(out, out, b)) return;
    for (int k = 0; k < s->op->nargs && !b->over; ++k) {
        c_buffer *a = s->in[k].kind == RUSH_V_TENSOR && s->in[k].t ? rush_c_buffer_of(r, s->in[k].t->storage) : NULL;
        bool ends = a && a != b && a->use == C_WORK && a->first >= 0 && a->last == i && a->dtype == b->dtype && a->n == b->n;
        for (int j = 0; j < s->op->nargs && ends; ++j)
            if (s->in[j].kind == RUSH_V_TENSOR && s->in[j].t && s->in[j].t->storage == a->storage) ends = lies_as(s->in[j].t, out, b);
        if (ends) b->over = a->over ? a->over : a;
    }
    if (b->over) b->over->last = b->last;
}

/* Buffers that live at once get places apart: the largest first, each at the first gap that takes it. How many elements of each type. */
static int plan(const c_record *r, int64_t *total)
{
    uint32_t *order = rush_scope_alloc(sizeof *order * (r->nbuffers + 1u)), n = 0;
    if (!order) return -1;
    for (uint32_t i = 0; i < r->nsteps; ++i) take_over(r, i);
    for (uint32_t i = 0; i < r->nbuffers; ++i) {
        const c_buffer *b = &r->buffer[i];
        if (b->use != C_WORK || b->first < 0 || b->over) continue;
        uint32_t k = n++;
        for (; k && r->buffer[order[k - 1]].n < b->n; --k) order[k] = order[k - 1];
        order[k] = i;
    }
    for (uint32_t i = 0; i < n; ++i) {
        c_buffer *b = &r->buffer[order[i]];
        bool moved = true;
        b->at = 0;
        while (moved) {
            moved = false;
            for (uint32_t k = 0; k < i; ++k) {
                const c_buffer *o = &r->buffer[order[k]];
                if (o->dtype != b->dtype || o->last < b->first || o->first > b->last || o->at + o->n <= b->at || b->at + b->n <= o->at) continue;
                b->at = (o->at + o->n + 15) / 16 * 16;
                moved = true;
            }
        }
        int type = type_of(b->dtype);
        RUSH_CHECK(type >= 0, RUSH_NOT_IMPLEMENTED, "there are no tensors of %s in C files", rush_dtype_name(b->dtype));
        total[type] = RUSH_MAX(total[type], b->at + b->n);
    }
    for (uint32_t i = 0; i < r->nbuffers; ++i)
        if (r->buffer[i].over) r->buffer[i].at = r->buffer[i].over->at;
    return 0;
}

/* ---- numbers ---- */

static void put_element(FILE *to, const void *data, int dtype, int64_t i)
{
    if (dtype == RUSH_F32) {
        float x = ((const float *)data)[i];
        if (x != x) fprintf(to, "NAN");
        else if (x - x != 0) fprintf(to, x < 0 ? "-INFINITY" : "INFINITY");
        else rush_fprintf(to, x == (float)(int)x && x < 1e6f && x > -1e6f ? "%.0f" : "%.9g", (double)x);
    } else if (dtype == RUSH_F64) rush_fprintf(to, "%.17g", ((const double *)data)[i]);
    else fprintf(to, "%lld", dtype == RUSH_I64 ? (long long)((const int64_t *)data)[i] : dtype == RUSH_I32 ? (long long)((const int32_t *)data)[i] : (long long)((const uint8_t *)data)[i]);
}

static void put_numbers(FILE *to, const void *data, int dtype, int64_t n)
{
    for (int64_t i = 0; i < n; ++i) {
        fprintf(to, i % 16 ? " " : "\n    ");
        put_element(to, data, dtype, i);
        fprintf(to, i + 1 < n ? "," : "");
    }
}

/* 8 bits and a scale for each row: the largest becomes 127. */
static void put_packed(FILE *to, const c_buffer *b, const char *name)
{
    const float *data = b->storage->data;
    const int64_t rows = b->whole->size[0], n = b->n / RUSH_MAX(rows, 1);
    fprintf(to, "static const signed char %s[%lld] = {", name, (long long)b->n);
    float *scale = rush_scope_alloc(sizeof *scale * (size_t)(rows + 1));
    for (int64_t r = 0; scale && r < rows; ++r) {
        float most = 0;
        for (int64_t i = 0; i < n; ++i) most = RUSH_MAX(most, __builtin_fabsf(data[r * n + i]));
        scale[r] = most > 0 ? most / 127 : 1;
        for (int64_t i = 0; i < n; ++i) fprintf(to, "%s%d%s", (r * n + i) % 24 ? " " : "\n    ", (int)__builtin_rintf(data[r * n + i] / scale[r]), r * n + i + 1 < b->n ? "," : "");
    }
    fprintf(to, "};\nstatic const float %s_scale[%lld] = {", name, (long long)rows);
    if (scale) put_numbers(to, scale, RUSH_F32, rows);
    fprintf(to, "};\n");
}

static void put_array(FILE *to, const c_record *r, const c_buffer *b, bool trained)
{
    const char *name = rush_c_name(r, b);
    if (b->name) fprintf(to, "/* %s %s */\n", b->name, rush_shape_of(b->whole));
    if (is_packed_weight(r, b)) {
        put_packed(to, b, name);
        return;
    }
    fprintf(to, "static %s%s %s[%lld] = {", trained || b->written ? "" : "const ", rush_c_type(b->dtype), name, (long long)RUSH_MAX(b->n, 1));
    if (b->n) put_numbers(to, b->storage->data, b->dtype, b->n);
    else fprintf(to, "0");
    fprintf(to, "};\n");
}

/* ---- what is recorded ---- */

static int name_weights(c_record *r, rush_module *m)
{
    rush_state s = rush_module_state(m);
    for (int i = 0; i < s.n; ++i)
        if (rush_c_buffer_add(r, s.tensor[i], C_WEIGHT, s.name[i])) return -1;
    return rush_failed() ? -1 : 0;
}

/* Lines of all steps into `to`. */
static int write_steps(c_record *r)
{
    for (r->now = 0; r->now < r->nsteps; ++r->now) {
        const c_step *s = &r->step[r->now];
        r->unpacked = -1;
        fprintf(r->to, "    /* %s */\n", s->op->name);
        if (s->row->write(r, s) || rush_failed()) return -1;
    }
    return 0;
}

static void add_missing(rush_missing *missing, const rush_op *op, bool depends, const char *where)
{
    char what[128];
    snprintf(what, sizeof what, "%s%s", op->name, depends ? " (what it gives depends on data)" : "");
    rush_missing_add(missing, what, where);
}

static int tell_missing(const rush_missing *missing)
{
    RUSH_CHECK(!missing->n, RUSH_NOT_IMPLEMENTED, "the program calls %zu operation%s that cannot be written as C:%s", missing->n, missing->n == 1 ? "" : "s", missing->text);
    return 0;
}

/* All that cannot be written, in one error. */
static int check_steps(const c_record *r)
{
    rush_missing missing = {0};
    for (uint32_t i = 0; i < r->nsteps; ++i)
        if (!r->step[i].row || r->step[i].depends) add_missing(&missing, r->step[i].op, r->step[i].depends, r->step[i].where);
    return tell_missing(&missing);
}

static bool has_mask(const rush_graph *g, const rush_operand *o)
{
    if (o->kind == RUSH_OPERAND_VALUE) return g->value[o->value].dtype == RUSH_BOOL || g->value[o->value].dtype == RUSH_U8;
    for (uint32_t i = 0; o->kind == RUSH_OPERAND_LIST && i < o->n; ++i)
        if (has_mask(g, &o->item[i])) return true;
    return false;
}

static bool is_tensor(const rush_graph *g, const rush_operand *o)
{
    return o->kind == RUSH_OPERAND_VALUE ? g->value[o->value].type == RUSH_A_TENSOR : o->kind == RUSH_OPERAND_CONSTANT && o->constant.kind == RUSH_V_TENSOR;
}

/* What a run on zeros cannot show: which way the program goes, where data decide it. Is there any such node? */
static bool find_decisions(const rush_graph *g, rush_missing *missing)
{
    bool any = false;
    for (uint32_t k = 0; k < g->nnodes; ++k) {
        const rush_graph_node *node = &g->node[k];
        bool decides = node->form == RUSH_NODE_WHILE || (node->form == RUSH_NODE_COND && is_tensor(g, &node->in[0]));
        bool mask = false;
        for (uint32_t i = 0; i < node->nin; ++i) mask |= node->in[i].kind == RUSH_OPERAND_LIST && has_mask(g, &node->in[i]);
        bool depends = node->op && rush_c_depends_on_data(node->op, mask);
        if (decides) rush_missing_add(missing, node->form == RUSH_NODE_WHILE ? "while_loop (data decide how often it runs)" : "cond (data decide which block runs)", node->where);
        else if (node->op && !rush_c_is_settled(node->op) && (depends || (!node->op->run && !(node->op->flags & RUSH_VIEW) && !rush_c_row_find(node->op)))) add_missing(missing, node->op, depends, node->where);
        any |= decides || depends;
        for (int i = 0; i < 2; ++i)
            if (node->block[i]) any |= find_decisions(node->block[i], missing);
    }
    return any;
}

typedef struct writer {
    c_record run, train;
    rush_tensor *in[MOST_RESULTS], *out[MOST_RESULTS], *target;
    int nin, nout;
    const rush_c_options *o;
    char name[64];
    char *body[2];
    size_t length[2];
    int64_t total[TYPES];
    rush_tensors parameters;
} writer;

static int add_inputs(writer *w, c_record *r)
{
    for (int i = 0; i < w->nin; ++i)
        if (rush_c_buffer_add(r, w->in[i], C_INPUT, NULL)) return -1;
    return w->target ? rush_c_buffer_add(r, w->target, C_INPUT, NULL) : 0;
}

/* The results' lines: each is copied to where the caller wants it. */
static int write_results(writer *w)
{
    c_record *r = &w->run;
    for (int i = 0; i < w->nout; ++i) {
        rush_tensor *t = w->out[i], *to = rush_tensor_new((rush_dtype)t->dtype, t->device, t->ndim, t->size);
        c_buffer *b = rush_c_buffer_of(r, t->storage);
        if (!to || !b || rush_c_buffer_add(r, to, C_OUTPUT, NULL)) return rush_failed() ? -1 : rush_fail(RUSH_NOT_IMPLEMENTED, "a result is no tensor with memory");
        b = rush_c_buffer_of(r, t->storage);
        b->last = r->nsteps;
        const c_step copy = {.op = rush_op_find("copy_"), .in = (rush_value[]){rush_v_tensor(to), rush_v_tensor(t), RUSH_NONE}};
        const c_row *row = copy.op ? rush_c_row_find(copy.op) : NULL;
        r->unpacked = -1;
        if (!row || row->write(r, &copy)) return -1;
    }
    return 0;
}

static int record_run(writer *w, rush_module *m)
{
    c_record *r = &w->run;
    r->mark = "c";
    r->int8 = w->o->int8;
    const bool before = rush_grad_enabled_set(false);
    int failed = name_weights(r, m) || add_inputs(w, r) || rush_c_record_begin(r);
    if (!failed) {
        w->nout = rush_program_run(m, w->nin, w->in, MOST_RESULTS, w->out);
        failed = rush_c_record_end(r) || w->nout < 0;
    }
    rush_grad_enabled_set(before);
    if (failed || check_steps(r)) return -1;
    if (!(r->to = open_memstream(&w->body[0], &w->length[0]))) return rush_fail(RUSH_MEMORY_ERROR, "no memory for the text");
    failed = write_steps(r) || write_results(w);
    fclose(r->to);
    return failed || plan(r, w->total) ? -1 : 0;
}

static rush_tensor *loss_of(writer *w, rush_tensor *y)
{
    const bool mse = w->o->loss && !strcmp(w->o->loss, "mse");
    RUSH_CHECK_NULL(mse || !w->o->loss || !strcmp(w->o->loss, "cross_entropy"), RUSH_VALUE_ERROR, "the loss '%s': there are cross_entropy and mse", w->o->loss);
    if (mse) return T("mse_loss", V(y), V(w->target), V((int64_t)1));
    rush_tensor *rows = T("reshape", V(y), rush_v_ints((int64_t[]){-1, y->size[y->ndim - 1]}, 2));
    return rows ? T("cross_entropy_loss", V(rows), V(w->target)) : NULL;
}

static rush_tensor *make_target(const writer *w)
{
    rush_tensor *y = w->out[0];
    if (w->o->loss && !strcmp(w->o->loss, "mse")) return T("zeros_like", V(y));
    RUSH_CHECK_NULL(y->ndim >= 1, RUSH_VALUE_ERROR, "a result without dimensions has no classes");
    const int64_t n = y->numel / RUSH_MAX(y->size[y->ndim - 1], 1);
    rush_tensor *t = rush_tensor_new(RUSH_I64, y->device, 1, &n);
    if (t && rush_data(t)) memset(rush_data(t), 0, (size_t)n * 8);
    return t;
}

static int record_train(writer *w, rush_module *m)
{
    c_record *r = &w->train;
    rush_tensor *out[MOST_RESULTS], *loss = NULL, **gradient = rush_scope_alloc(sizeof *gradient * (w->parameters.n + 1));
    if (!gradient) return -1;
    r->mark = "t";
    if (!(w->target = make_target(w))) return -1;
    int failed = name_weights(r, m) || add_inputs(w, r) || rush_c_record_begin(r);
    if (!failed) {
        int n = rush_program_run(m, w->nin, w->in, MOST_RESULTS, out);
        loss = n > 0 ? loss_of(w, out[0]) : NULL;
        failed = !loss || rush_grad_of(1, &loss, (rush_tensor *[]){NULL}, (int)w->parameters.n, w->parameters.data, gradient, false, false, true) ? 1 : 0;
        failed = rush_c_record_end(r) || failed;
    }
    if (failed || check_steps(r)) return -1;
    if (!(r->to = open_memstream(&w->body[1], &w->length[1]))) return rush_fail(RUSH_MEMORY_ERROR, "no memory for the text");
    failed = write_steps(r);
    const bool adam = !strcmp(w->o->train, "adam");
    for (size_t i = 0; !failed && i < w->parameters.n; ++i) {
        rush_tensor *p = w->parameters.data[i], *g = gradient[i];
        c_buffer *b = rush_c_buffer_of(r, p->storage), *of = g ? rush_c_buffer_of(r, g->storage) : NULL;
        if (!of) continue;
        of->last = r->nsteps;
        r->now = r->nsteps;
        const char *from = rush_c_packed(r, g);
        for (int k = 0; k < rush_c_helpers_count; ++k)
            if (!strcmp(rush_c_helpers[k].name, adam ? "adam_step" : "sgd_step")) r->helpers |= (uint64_t)1 << k;
        b = rush_c_buffer_of(r, p->storage);
        if (adam) fprintf(r->to, "    adam_step(w%u, w%u_mean, w%u_square, %s, %lld, lr, step);\n", b->number, b->number, b->number, from, (long long)p->numel);
        else fprintf(r->to, "    sgd_step(w%u, %s, %lld, lr);\n", b->number, from, (long long)p->numel);
    }
    c_buffer *b = rush_c_buffer_of(r, loss->storage);
    if (b) b->last = r->nsteps;
    fprintf(r->to, "    return *(%s);\n", rush_c_place(r, loss));
    fclose(r->to);
    return failed || rush_failed() || plan(r, w->total) ? -1 : 0;
}

/* ---- the file ---- */

static void put_arguments(FILE *to, const writer *w, bool train)
{
    for (int i = 0; i < w->nin; ++i) fprintf(to, "%sconst %s *in%d", i ? ", " : "", rush_c_type(w->in[i]->dtype), i);
    if (train) fprintf(to, "%sconst %s *in%d, float lr", w->nin ? ", " : "", rush_c_type(w->target->dtype), w->nin);
    for (int i = 0; !train && i < w->nout; ++i) fprintf(to, "%s%s *out%d", i || w->nin ? ", " : "", rush_c_type(w->out[i]->dtype), i);
}

static void put_header(FILE *to, const writer *w)
{
    char upper[64];
    size_t n = strlen(w->name);
    for (size_t i = 0; i <= n; ++i) upper[i] = rush_upper(w->name[i]);
    fprintf(to, "/* %s.h - a program that rushlight wrote as C. */\n#ifndef %s_H\n#define %s_H\n\n#include <stdint.h>\n\n", w->name, upper, upper);
    for (int i = 0; i < w->nin; ++i) fprintf(to, "/* in%d: %s %s */\n", i, rush_c_type(w->in[i]->dtype), rush_shape_of(w->in[i]));
    for (int i = 0; i < w->nout; ++i) fprintf(to, "/* out%d: %s %s */\n", i, rush_c_type(w->out[i]->dtype), rush_shape_of(w->out[i]));
    fprintf(to, "enum {");
    for (int i = 0; i < w->nin; ++i) fprintf(to, " %s_IN%d = %lld,", upper, i, (long long)w->in[i]->numel);
    for (int i = 0; i < w->nout; ++i) fprintf(to, " %s_OUT%d = %lld%s", upper, i, (long long)w->out[i]->numel, i + 1 < w->nout ? "," : "");
    fprintf(to, " };\n\n/* One at a time: all memory that a run needs is in static arrays. */\nvoid %s_run(", w->name);
    put_arguments(to, w, false);
    fprintf(to, ");\n");
    if (w->o->train) {
        fprintf(to, "\n/* One step of %s on these inputs, in%d being the target (%s %s): the loss before it. */\nfloat %s_train(", w->o->train, w->nin, rush_c_type(w->target->dtype), rush_shape_of(w->target), w->name);
        put_arguments(to, w, true);
        fprintf(to, ");\n");
    }
    fprintf(to, "\n#endif\n");
}

static void put_places(FILE *to, const c_record *r, const char *body)
{
    bool any = false;
    for (uint32_t i = 0; i < r->nbuffers; ++i) {
        const c_buffer *b = &r->buffer[i];
        if (b->use != C_WORK || b->first < 0 || !strstr(body, mark_of(r, b))) continue;
        fprintf(to, "%s%s = %lld", any ? ", " : "enum { ", mark_of(r, b), (long long)b->at);
        any = true;
    }
    if (any) fprintf(to, " };\n");
}

static void put_file(FILE *to, const writer *w)
{
    const bool train = w->o->train;
    fprintf(to, "/* %s.c - a program that rushlight wrote as C: see %s.h. It needs nothing but libm. */\n#include \"%s.h\"\n#include <stddef.h>\n#include <tgmath.h>\n\n%s\n", w->name, w->name, w->name, rush_c_words);
    for (int i = 0; i < rush_c_helpers_count; ++i)
        if ((w->run.helpers | w->train.helpers) >> i & 1) fprintf(to, "%s\n", rush_c_helpers[i].text);
    for (uint32_t i = 0; i < w->run.nbuffers; ++i) {
        const c_buffer *b = &w->run.buffer[i], *again = train ? rush_c_buffer_of(&w->train, b->storage) : NULL;
        if (b->use == C_CONSTANT ? b->first >= 0 : b->use == C_WEIGHT && (b->first >= 0 || (again && again->first >= 0))) put_array(to, &w->run, b, train);
    }
    for (uint32_t i = 0; train && i < w->train.nbuffers; ++i) {
        const c_buffer *b = &w->train.buffer[i];
        if (b->use == C_CONSTANT && b->first >= 0) put_array(to, &w->train, b, false);
        if (b->use == C_WEIGHT && b->first >= 0 && !strcmp(w->o->train, "adam") && rush_dtypes[b->dtype].category == 2) fprintf(to, "static float w%u_mean[%lld], w%u_square[%lld];\n", b->number, (long long)b->n, b->number, (long long)b->n);
    }
    for (int i = 0; i < TYPES; ++i)
        if (w->total[i]) fprintf(to, "static %s %s[%lld];\n", types[i].name, types[i].array, (long long)w->total[i]);
    put_places(to, &w->run, w->body[0]);
    if (train) put_places(to, &w->train, w->body[1]);
    fprintf(to, "\nvoid %s_run(", w->name);
    put_arguments(to, w, false);
    fprintf(to, ")\n{\n%s}\n", w->body[0]);
    if (!train) return;
    fprintf(to, "\nfloat %s_train(", w->name);
    put_arguments(to, w, true);
    fprintf(to, ")\n{\n%s%s}\n", strcmp(w->o->train, "adam") ? "" : "    static long step;\n    ++step;\n", w->body[1]);
}

/* Inputs of zeros, sizes that vary taking `size`. */
static int make_inputs(writer *w, const rush_program *p)
{
    const rush_graph *g = p->graph;
    for (uint32_t i = 0; i < g->nin; ++i) {
        const rush_graph_value *v = &g->value[g->in[i]];
        int64_t size[64];
        if (p->in[i].part || p->in[i].unused) continue;
        RUSH_CHECK(w->nin < MOST_RESULTS && v->ndim >= 0 && v->ndim < 64, RUSH_NOT_IMPLEMENTED, "the input '%s' is no tensor of known dimensions", v->name);
        for (int d = 0; d < v->ndim; ++d) {
            const rush_graph_symbol *s = v->size[d].symbol >= 0 ? &g->symbol[v->size[d].symbol] : NULL;
            size[d] = s ? RUSH_MIN(RUSH_MAX(RUSH_MAX(w->o->size, s->least), 1), s->most) : v->size[d].n;
            RUSH_CHECK(size[d] >= 0, RUSH_NOT_IMPLEMENTED, "dimension %d of the input '%s' is not known", d, v->name);
        }
        rush_tensor *t = rush_tensor_new((rush_dtype)v->dtype, (rush_device){RUSH_CPU, -1}, v->ndim, size);
        if (!t) return -1;
        rush_clear(t);
        w->in[w->nin++] = t;
    }
    return 0;
}

static int write_file(const char *path, const writer *w, void (*put)(FILE *, const writer *))
{
    rush_writing file;
    if (rush_write_begin(&file, path)) return -1;
    put(file.f, w);
    int failed = rush_failed() ? -1 : ferror(file.f) ? rush_fail(RUSH_IO_ERROR, "'%s' could not be written to its end", path) : 0;
    return rush_write_end(&file, !failed) || failed ? -1 : 0;
}

static int save(writer *w, rush_module *m, const char *path)
{
    const char *base = strrchr(path, '/') ? strrchr(path, '/') + 1 : path;
    const size_t n = strlen(base), whole = strlen(path);
    RUSH_CHECK(n > 2 && n < sizeof w->name && !strcmp(base + n - 2, ".c"), RUSH_VALUE_ERROR, "'%s' is no name of a C file", path);
    for (size_t i = 0; i < n - 2; ++i) w->name[i] = isalnum((unsigned char)base[i]) ? base[i] : '_';
    if (isdigit((unsigned char)w->name[0])) w->name[0] = '_';
    RUSH_CHECK(!w->o->train || !strcmp(w->o->train, "sgd") || !strcmp(w->o->train, "adam"), RUSH_VALUE_ERROR, "the optimizer '%s': there are sgd and adam", w->o->train);
    RUSH_CHECK(!(w->o->train && w->o->int8), RUSH_VALUE_ERROR, "weights of 8 bits cannot be trained");
    RUSH_CHECK(!w->o->loss || w->o->train, RUSH_VALUE_ERROR, "a loss ('%s') is for training: say by which optimizer", w->o->loss);
    if (!rush_program_of(m)) return -1;
    if (!w->o->train && rush_passes_run(m, m->data, RUSH_PASS_FROZEN)) return -1;
    rush_missing missing = {0};
    if (find_decisions(((rush_program *)m->data)->graph, &missing)) return tell_missing(&missing);
    w->parameters = rush_parameters(m);
    if (make_inputs(w, m->data) || record_run(w, m) || (w->o->train && record_train(w, m))) return -1;
    char *header = rush_scope_alloc(whole + 1);
    if (!header) return -1;
    memcpy(header, path, whole + 1);
    header[whole - 1] = 'h';
    return write_file(path, w, put_file) || write_file(header, w, put_header) ? -1 : 0;
}

int rush_program_save_c_with(rush_module *m, const char *path, const rush_c_options *options)
{
    static const rush_c_options standard = {.size = 1};
    if (rush_failed()) return -1;
    RUSH_CHECK(path, RUSH_TYPE_ERROR, "a C file without a name");
    writer *w = rush_calloc(1, sizeof *w);
    if (!w) return -1;
    w->o = options ? options : &standard;
    size_t mark = rush_scope_open();
    int failed = save(w, m, path);
    rush_c_record_free(&w->run);
    rush_c_record_free(&w->train);
    free(w->body[0]);
    free(w->body[1]);
    rush_scope_close(mark);
    rush_free(w);
    return failed ? -1 : 0;
}
