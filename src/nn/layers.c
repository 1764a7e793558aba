/* layers.c - modules without much of their own: containers, operations as modules, linear, embedding, dropout. */
#include "nn/module.h"

#include <math.h>
#include <stdio.h>

/* ---- sequential ---- */

static int sequential_forward(rush_module *m, int n, rush_tensor *const *in, rush_tensor **out)
{
    rush_tensor *x = in[0];
    for (int i = 0; i < m->nchildren && x; i++) x = rush_forward(m->children[i].module, x);
    out[0] = x;
    return x ? 1 : -1;
}

static const rush_module_kind sequential = {.name = "Sequential", .forward = sequential_forward};

rush_module *rush_nn_sequential_of(int n, rush_module *const *children)
{
    RUSH_CHECK_NULL(n >= 0 && (children || !n), RUSH_TYPE_ERROR, "a sequence of %d modules (NULL)", n);
    rush_module *m = rush_module_new(&sequential);
    for (int i = 0; m && i < n; i++)
        if (rush_sequential_append(m, children[i])) return NULL;
    return m;
}

int rush_sequential_append(rush_module *m, rush_module *child)
{
    char name[16];
    if (!rush_module_name(m)) return -1;
    RUSH_CHECK(m->kind == &sequential, RUSH_TYPE_ERROR, "only a sequential module can be appended to");
    snprintf(name, sizeof name, "%d", m->nchildren);
    return rush_module_add(m, name, child) ? 0 : -1;
}

/* ---- an operation with the rest of its arguments fixed ---- */

typedef struct fixed_call {
    const rush_op *op;
    int n;
    rush_value *args; /* argument 0 is the input's place */
} fixed_call;

static void fixed_end(void *data)
{
    fixed_call *c = data;
    for (int i = 1; i < c->n; i++)
        if (c->args[i].kind == RUSH_V_INTS || c->args[i].kind == RUSH_V_FLOATS || c->args[i].kind == RUSH_V_STRING) rush_free((void *)c->args[i].ints);
    rush_free(c->args);
}

static int fixed_forward(rush_module *m, int n, rush_tensor *const *in, rush_tensor **out)
{
    const fixed_call *c = m->data;
    rush_value args[64];
    memcpy(args, c->args, sizeof *args * (size_t)c->n);
    args[0] = rush_v_tensor(in[0]);
    out[0] = rush_apply(c->op, c->n, args);
    return out[0] ? 1 : -1;
}

static const rush_module_kind fixed = {.name = "Call", .size = sizeof(fixed_call), .forward = fixed_forward, .end = fixed_end};

rush_module *rush_nn_call(const char *name, int n, const rush_value *args)
{
    RUSH_CHECK_NULL(name && n >= 0 && (args || !n), RUSH_TYPE_ERROR, "an operation as a module needs its name and its arguments");
    const rush_op *op = rush_op_find(name);
    RUSH_CHECK_NULL(op, RUSH_NOT_IMPLEMENTED, "no operation is called %s", name);
    RUSH_CHECK_NULL(n < op->nargs && op->nargs && op->args[0].type == RUSH_A_TENSOR, RUSH_TYPE_ERROR, "%s can't be called with a tensor and %d more arguments",
                    name, n);
    rush_module *m = rush_module_new(&fixed);
    fixed_call *c = rush_module_data(m);
    if (!c || !(c->args = rush_calloc((size_t)n + 1, sizeof *c->args))) return NULL;
    c->op = op;
    c->n = n + 1;
    for (int i = 0; i < n; i++) {
        rush_value v = args[i];
        size_t bytes = v.kind == RUSH_V_INTS || v.kind == RUSH_V_FLOATS ? 8 * (size_t)v.n : v.kind == RUSH_V_STRING ? strlen(v.s) + 1 : 0;
        RUSH_CHECK_NULL(v.kind != RUSH_V_TENSOR && v.kind != RUSH_V_TENSORS && v.kind != RUSH_V_VALUES, RUSH_TYPE_ERROR,
                        "%s as a module can't hold tensors: make a module kind of it", name);
        if (bytes) {
            void *copy = rush_malloc(bytes);
            if (!copy) return NULL;
            v.ints = memcpy(copy, v.ints, bytes);
        }
        c->args[i + 1] = v;
    }
    return m;
}

rush_module *rush_nn_flatten(void) { return rush_nn_call("flatten.using_ints", 1, (rush_value[]){rush_v_int(1)}); }
rush_module *rush_nn_softmax(int dim) { return rush_nn_call("softmax.int", 1, (rush_value[]){rush_v_int(dim)}); }
rush_module *rush_nn_log_softmax(int dim) { return rush_nn_call("log_softmax.int", 1, (rush_value[]){rush_v_int(dim)}); }

static int identity_forward(rush_module *m, int n, rush_tensor *const *in, rush_tensor **out)
{
    out[0] = in[0];
    return 1;
}

static const rush_module_kind identity = {.name = "Identity", .forward = identity_forward};
rush_module *rush_nn_identity(void) { return rush_module_new(&identity); }

/* ---- dropout: the operation is told whether the module is training ---- */

typedef struct dropout_settings {
    double p;
    const rush_op *op;
} dropout_settings;

static int dropout_forward(rush_module *m, int n, rush_tensor *const *in, rush_tensor **out)
{
    const dropout_settings *s = m->data;
    out[0] = rush_apply(s->op, 3, (rush_value[]){rush_v_tensor(in[0]), rush_v_float(s->p), rush_v_bool(m->training)});
    return out[0] ? 1 : -1;
}

static const rush_module_kind dropout_kind = {.name = "Dropout", .size = sizeof(dropout_settings), .forward = dropout_forward};

static rush_module *dropout(const char *op, double p)
{
    RUSH_CHECK_NULL(p >= 0 && p <= 1, RUSH_VALUE_ERROR, "dropout probability has to be between 0 and 1, but got %g", p);
    rush_module *m = rush_module_new(&dropout_kind);
    if (m) *(dropout_settings *)m->data = (dropout_settings){p, rush_op_find(op)};
    return m;
}

rush_module *rush_nn_dropout(double p) { return dropout("dropout", p); }
rush_module *rush_nn_dropout2d(double p) { return dropout("feature_dropout", p); }
rush_module *rush_nn_alpha_dropout(double p) { return dropout("alpha_dropout", p); }

/* ---- linear ---- */

static int linear_forward(rush_module *m, int n, rush_tensor *const *in, rush_tensor **out)
{
    out[0] = T("linear", V(in[0]), V(rush_slot_at(m, 0)), V(rush_slot_at(m, 1)));
    return out[0] ? 1 : -1;
}

static const rush_module_kind linear = {.name = "Linear", .forward = linear_forward};

rush_module *rush_nn_linear_with(int64_t in, int64_t out, const rush_nn_linear_options *o)
{
    o = RUSH_OPTIONS(o);
    rush_dtype d = o->dtype ? o->dtype : rush_default_dtype();
    rush_module *m = rush_module_new(&linear);
    rush_tensor *w = rush_tensor_new(d, (rush_device){RUSH_CPU, -1}, 2, (const int64_t[]){out, in});
    rush_tensor *b = o->no_bias ? NULL : rush_tensor_new(d, (rush_device){RUSH_CPU, -1}, 1, &out);
    rush_init_kaiming_uniform(w, sqrt(5), false);
    if (b) rush_init_fan(b, in);
    rush_module_parameter(m, "weight", w);
    rush_module_parameter(m, "bias", b);
    return rush_failed() ? NULL : m;
}

/* ---- embedding ---- */

static int embedding_forward(rush_module *m, int n, rush_tensor *const *in, rush_tensor **out)
{
    const int64_t *padding = m->data;
    out[0] = T("embedding", V(rush_slot_at(m, 0)), V(in[0]), V(*padding));
    return out[0] ? 1 : -1;
}

static const rush_module_kind embedding = {.name = "Embedding", .size = sizeof(int64_t), .forward = embedding_forward};

rush_module *rush_nn_embedding_with(int64_t count, int64_t features, const rush_nn_embedding_options *o)
{
    o = RUSH_OPTIONS(o);
    rush_module *m = rush_module_new(&embedding);
    rush_tensor *w = rush_weight_new(2, (const int64_t[]){count, features});
    int64_t padding = !o->has_padding ? -1 : o->padding_idx < 0 ? o->padding_idx + count : o->padding_idx;
    RUSH_CHECK_NULL(padding < count, RUSH_VALUE_ERROR, "padding_idx must be within the %lld embeddings", (long long)count);
    rush_init_normal(w, 0, 1);
    if (o->has_padding && w) rush_init_constant(rush_tensor_alias(w, 1, &features, &(int64_t){1}, padding * features), 0);
    if (m) *(int64_t *)m->data = padding;
    rush_module_parameter(m, "weight", w);
    return rush_failed() ? NULL : m;
}
