/* run.c - runs a program's functions: expressions to values, statements one after the other.
 *
 * Each value that an expression gives is the caller's reference. What calls operations is on the road that every call takes, so
 * gradients are recorded as ever, and loops and conditions are part of them by what they did.
 */
#include "script/script.h"
#include "nn/module.h"

#include <stdio.h>

enum { DEEPEST_CALL = 400, DEEPEST_NEST = 5000, MOST_ARGUMENTS = 256, MOST_STARRED = 64 };
enum flow { FAILED = -1, GO_ON, BROKE, CONTINUED, RETURNED };

typedef struct frame {
    script_unit *u;
    const script_function *f;
    script_value *local, result;
    int depth;
} frame;

static _Thread_local int nest; /* how deep the evaluation is: a program must not overflow the stack */
static int eval(frame *f, const script_node *x, script_value *out);
static int run(frame *f, const script_node *x);

/* ---- errors ---- */

static _Thread_local bool raised;

int rush_script_raise(const char *before, const char *text)
{
    raised = true;
    return rush_fail(RUSH_RUNTIME_ERROR, "%s%s", before, text);
}

bool rush_script_raised(void) { return raised && rush_failed(); }

/* A program's callers see two kinds of failure only: what is not implemented, and all else. */
static void as_callers_see_it(void)
{
    if (rush_now.error && rush_now.error != RUSH_NOT_IMPLEMENTED && rush_now.error != RUSH_FOREIGN_ERROR && rush_now.error != RUSH_MEMORY_ERROR)
        rush_now.error = RUSH_RUNTIME_ERROR;
}

/* Says once where an error came about. */
static int told(const frame *f, const script_node *x)
{
    char what[2048];
    if (!rush_failed() || f->depth > 3) return -1;
    rush_error_kind kind = rush_error_kind_now();
    snprintf(what, sizeof what, "%s", rush_error());
    if (kind == RUSH_FOREIGN_ERROR || strlen(what) > 1500) return -1;
    rush_error_clear();
    return rush_fail(kind, "%s\n  in %s, line %u of its code", what, f->f ? f->f->path : "a constant", (unsigned)x->line);
}

/* ---- attributes ---- */

/* The method that stands for reading or setting a property: __name_getter, __name_setter. */
static const script_function *property_of(script_value v, const char *name, const char *what)
{
    char method[160];
    if ((size_t)snprintf(method, sizeof method, "__%s_%s", name, what) >= sizeof method) return NULL;
    return v.kind == SCRIPT_OBJECT ? rush_script_method_find(v.box->type, method) : NULL;
}

static int attribute(script_value v, const char *name, int depth, script_value *out)
{
    if (v.kind == SCRIPT_TUPLE && v.box->type) {
        for (uint32_t i = 0; i < v.box->type->nfields && i < v.box->n; ++i)
            if (!strcmp(v.box->type->field[i].name, name)) return *out = rush_script_keep(v.box->item[i]), 0;
    }
    if (v.kind == SCRIPT_TUPLE && v.box->of) { /* x.max(0).values */
        for (int i = 0; i < v.box->of->nout; ++i)
            if (v.box->of->out_names[i] && !strcmp(v.box->of->out_names[i], name)) return *out = rush_script_keep(v.box->item[i]), 0;
    }
    if (v.kind == SCRIPT_FOREIGN) {
        script_call c = {.n = 1, .in = &v};
        int r = rush_script_foreign(&c, name, "_getter", out);
        if (r != SCRIPT_NOT_MINE) return r;
    } else if (v.kind == SCRIPT_OBJECT) {
        rush_slot *slot = v.box->module ? rush_slot_named(v.box->module, name) : NULL;
        if (slot) return *out = rush_script_of_tensor(slot->t), 0;
        if (v.box->module && !strcmp(name, "training")) return *out = script_of_bool(v.box->module->training), 0;
        script_field *f = rush_script_field_find(v.box->type, name);
        if (f && f->fixed) {
            frame fixed = {.u = f->value ? v.box->type->unit : NULL};
            return f->value ? eval(&fixed, f->value, out) : rush_fail(RUSH_ATTRIBUTE_ERROR, "the constant '%s' has no value", name);
        }
        if (f && f->slot < v.box->n && v.box->item[f->slot].kind != SCRIPT_UNSET) return *out = rush_script_keep(v.box->item[f->slot]), 0;
        const script_function *getter = property_of(v, name, "getter");
        if (getter) {
            script_call c = {.unit = v.box->type->unit, .name = name, .depth = depth + 1};
            return rush_script_call_function(&c, getter, v, out);
        }
    } else if (v.kind != SCRIPT_TUPLE) {
        script_call c = {.name = name, .n = 1, .in = &v};
        script_builtin builtin = rush_script_builtin_find(name);
        int r = builtin ? builtin(&c, out) : SCRIPT_NOT_MINE;
        if (r != SCRIPT_NOT_MINE) return r;
        const rush_op *op = v.kind == SCRIPT_TENSOR ? rush_op_find(name) : NULL; /* x.real, x.imag */
        if (op) return rush_script_run_op(op, &c, out);
        if (v.kind != SCRIPT_TENSOR && !strcmp(name, "value")) return *out = rush_script_keep(v), 0; /* of an enum's member, for which its value stands */
    }
    return rush_fail(RUSH_ATTRIBUTE_ERROR, "'%.100s' object has no attribute '%.100s'", rush_script_kind_name(v), name);
}

int rush_script_attribute(script_value v, const char *name, script_value *out) { return attribute(v, name, 0, out); }

static int attribute_set(script_value v, const char *name, int depth, script_value to)
{
    if (v.kind == SCRIPT_FOREIGN) {
        script_value none, in[] = {v, to};
        script_call c = {.n = 2, .in = in};
        int r = rush_script_foreign(&c, name, "_setter", &none);
        RUSH_CHECK(r != SCRIPT_NOT_MINE, RUSH_ATTRIBUTE_ERROR, "'%.100s' object has no attribute '%.100s' that could be set", rush_script_kind_name(v), name);
        return r;
    }
    RUSH_CHECK(v.kind == SCRIPT_OBJECT, RUSH_TYPE_ERROR, "an attribute of a %s cannot be set", rush_script_kind_name(v));
    rush_slot *slot = v.box->module ? rush_slot_named(v.box->module, name) : NULL;
    if (slot) {
        RUSH_CHECK(to.kind == SCRIPT_TENSOR || to.kind == SCRIPT_NONE, RUSH_TYPE_ERROR, "'%s' is a tensor and cannot become a %s", name, rush_script_kind_name(to));
        rush_tensor *old = slot->t;
        slot->t = to.kind == SCRIPT_TENSOR ? rush_keep(to.t) : NULL;
        rush_drop(old);
        return 0;
    }
    if (v.box->module && !strcmp(name, "training")) {
        RUSH_CHECK(to.kind == SCRIPT_BOOL, RUSH_TYPE_ERROR, "'training' is a bool and cannot become a %s", rush_script_kind_name(to));
        return v.box->module->training = to.i, 0;
    }
    script_field *f = rush_script_field_find(v.box->type, name);
    const script_function *setter = f ? NULL : property_of(v, name, "setter");
    if (setter) {
        script_value none, given = rush_script_keep(to);
        script_call c = {.unit = v.box->type->unit, .name = name, .n = 1, .in = &given, .depth = depth + 1};
        int failed = rush_script_call_function(&c, setter, v, &none);
        rush_script_drop(given);
        if (!failed) rush_script_drop(none);
        return failed;
    }
    RUSH_CHECK(f && !f->fixed, RUSH_ATTRIBUTE_ERROR, "'%.100s' object has no attribute '%.100s' that could be set", v.box->type->path, name);
    while (v.box->n <= f->slot) /* of a class that has got more since */
        if (rush_script_append(v.box, (script_value){.kind = SCRIPT_UNSET})) return -1;
    script_value old = v.box->item[f->slot];
    v.box->item[f->slot] = rush_script_keep(to);
    rush_script_drop(old);
    return 0;
}

int rush_script_attribute_set(script_value v, const char *name, script_value to) { return attribute_set(v, name, 0, to); }

/* ---- calls ---- */

static int eval_arguments(frame *f, const script_node *x, script_call *c)
{
    size_t room = 1;
    for (uint32_t i = 1; i < x->n; ++i) room += x->kid[i]->op == SCRIPT_N_STAR ? MOST_STARRED : 1;
    script_value *in = room > MOST_ARGUMENTS ? NULL : rush_scope_alloc(room * sizeof *in);
    const char **names = in ? rush_scope_alloc(room * sizeof *names) : NULL;
    if (!names) return rush_failed() ? -1 : rush_fail(RUSH_TYPE_ERROR, "a call has too many arguments");
    if (c->n) in[0] = c->in[0];
    c->in = in;
    for (uint32_t i = 1; i < x->n; ++i) {
        const script_node *arg = x->kid[i];
        if (arg->op == SCRIPT_N_STAR) {
            script_value all;
            if (eval(f, arg->kid[0], &all)) return -1;
            bool fits = (all.kind == SCRIPT_LIST || all.kind == SCRIPT_TUPLE) && all.box->n <= MOST_STARRED;
            for (size_t k = 0; fits && k < all.box->n; ++k) c->in[c->n++] = rush_script_keep(all.box->item[k]);
            rush_script_drop(all);
            RUSH_CHECK(fits, RUSH_TYPE_ERROR, "a starred argument is no list, or too long");
            continue;
        }
        if (x->names && x->names[i]) {
            if (!c->names && !(c->names = memset(names, 0, room * sizeof *names))) return -1;
            c->names[c->n] = x->names[i];
        }
        if (eval(f, arg, &c->in[c->n])) return -1;
        ++c->n;
    }
    return 0;
}

/* Classes have methods for operators, and for what is asked of objects. */
static int call_special(script_call *c, script_value *out)
{
    char name[40];
    snprintf(name, sizeof name, c->name[0] == '_' ? "%s" : "__%s__", !strcmp(c->name, "div") ? "truediv" : c->name);
    return rush_script_special(c->in[0], name, c->n - 1, c->in + 1, out);
}

static int call_either(script_builtin builtin, const rush_op *op, script_call *c, script_value *out)
{
    int r = c->n && (c->in[0].kind == SCRIPT_OBJECT || c->in[0].kind == SCRIPT_FOREIGN) ? call_special(c, out) : SCRIPT_NOT_MINE;
    if (r == SCRIPT_NOT_MINE && builtin) r = builtin(c, out);
    if (r != SCRIPT_NOT_MINE) return r;
    if (op) return rush_script_run_op(op, c, out);
    return rush_fail(RUSH_TYPE_ERROR, "%s does not take %s%s", c->name, c->n ? "a " : "no arguments", c->n ? rush_script_kind_name(c->in[0]) : "");
}

static int make_object(script_call *c, const script_class *type, script_value *out)
{
    if (type->is_tuple) {
        script_value *items = rush_scope_alloc((type->nfields + 1) * sizeof *items);
        if (!items) return -1;
        RUSH_CHECK((uint32_t)c->n <= type->nfields, RUSH_TYPE_ERROR, "%s has %u fields, not %d", type->path, (unsigned)type->nfields, c->n);
        for (uint32_t i = 0; i < type->nfields; ++i) items[i] = (script_value){.kind = SCRIPT_UNSET};
        for (int k = 0; k < c->n; ++k) {
            uint32_t i = (uint32_t)k;
            if (c->names && c->names[k])
                for (i = 0; i < type->nfields && strcmp(type->field[i].name, c->names[k]);) ++i;
            RUSH_CHECK(i < type->nfields, RUSH_TYPE_ERROR, "%s has no field '%s'", type->path, c->names[k]);
            items[i] = c->in[k];
        }
        for (uint32_t i = 0; i < type->nfields; ++i) {
            RUSH_CHECK(items[i].kind != SCRIPT_UNSET || type->field[i].value, RUSH_TYPE_ERROR, "%s is made without '%s'", type->path, type->field[i].name);
            if (items[i].kind == SCRIPT_UNSET) items[i] = type->field[i].value->constant;
        }
        *out = rush_script_list(SCRIPT_TUPLE, type->nfields, items);
        if (out->kind == SCRIPT_UNSET) return -1;
        out->box->type = type;
        return 0;
    }
    *out = rush_script_object(type);
    const script_function *init = rush_script_method_find(type, "__init__");
    script_value none;
    if (out->kind == SCRIPT_UNSET) return -1;
    if (!init) return 0;
    if (rush_script_call_function(c, init, *out, &none)) return rush_script_drop(*out), -1;
    return rush_script_drop(none), 0;
}

/* A call of a value: a module's forward. */
static int call_value(script_call *c, script_value callee, script_value *out)
{
    const script_function *m = NULL;
    if (callee.kind == SCRIPT_FUNCTION) return rush_script_call_function(c, callee.call, (script_value){.kind = SCRIPT_UNSET}, out);
    if (callee.kind == SCRIPT_OBJECT && !(m = rush_script_method_find(callee.box->type, "forward"))) m = rush_script_method_find(callee.box->type, "__call__");
    RUSH_CHECK(m, RUSH_TYPE_ERROR, "a %s cannot be called", rush_script_kind_name(callee));
    return rush_script_call_function(c, m, callee, out);
}

static int call_method(script_call *c, const script_node *x, script_value *out)
{
    script_value self = c->in[0];
    if (self.kind == SCRIPT_FOREIGN) {
        int r = rush_script_foreign(c, x->name, "", out);
        RUSH_CHECK(r != SCRIPT_NOT_MINE, RUSH_ATTRIBUTE_ERROR, "'%.100s' object has no method '%.100s'", rush_script_kind_name(self), x->name);
        return r;
    }
    if (self.kind == SCRIPT_OBJECT || (self.kind == SCRIPT_TUPLE && self.box->type)) {
        const script_function *m = rush_script_method_find(self.box->type, x->name);
        script_call rest = *c;
        rest.in++;
        rest.n--;
        if (rest.names) rest.names++;
        if (m) return rush_script_call_function(&rest, m, self, out);
        if (self.kind == SCRIPT_OBJECT && rush_script_field_find(self.box->type, x->name)) {
            script_value callee;
            if (attribute(self, x->name, c->depth, &callee)) return -1;
            int failed = call_value(&rest, callee, out);
            rush_script_drop(callee);
            return failed;
        }
        if (self.kind == SCRIPT_OBJECT && !strcmp(x->name, "__init__")) return *out = SCRIPT_NOTHING, 0;
    }
    return call_either((script_builtin)x->target, x->op_of, c, out);
}

/* fork(f, ...) calls f at once: what is waited for is there already. f is a function, a module or, as an attribute, a method; or a closure's body. */
static int eval_fork(frame *f, const script_node *x, script_value *out)
{
    const script_node *called = x->kid[1];
    const bool dotted = called->op == SCRIPT_N_ATTRIBUTE;
    script_value v;
    if (called->op == SCRIPT_N_BLOCK) {
        if (run(f, called) == FAILED) return -1;
        *out = f->result;
        f->result = SCRIPT_NOTHING;
        return 0;
    }
    if (eval(f, dotted ? called->kid[0] : called, &v)) return -1;
    script_call c = {.unit = f->u, .name = "fork", .n = dotted, .in = &v, .depth = f->depth + 1};
    script_node rest = *x;
    ++rest.kid, --rest.n;
    if (rest.names) ++rest.names;
    int failed = eval_arguments(f, &rest, &c) || (dotted ? call_method(&c, called, out) : call_value(&c, v, out));
    for (int i = dotted; i < c.n; ++i) rush_script_drop(c.in[i]);
    rush_script_drop(v);
    return failed ? -1 : 0;
}

/* annotate(T, v), uninitialized(T), unchecked_cast(T, v), isinstance(v, T), getattr(v, "name"), hasattr, fork(f, ...) */
static int eval_form(frame *f, const script_node *x, script_value *out)
{
    const char *name = x->name;
    if (!strcmp(name, "uninitialized")) return *out = SCRIPT_NOTHING, 0;
    RUSH_CHECK(x->n >= 2, RUSH_TYPE_ERROR, "%s has too few arguments", name);
    if (!strcmp(name, "fork")) return eval_fork(f, x, out);
    RUSH_CHECK(x->n >= 3, RUSH_TYPE_ERROR, "%s has too few arguments", name);
    if (!strcmp(name, "annotate") || !strcmp(name, "unchecked_cast")) {
        const script_node *t = x->kid[1];
        if (eval(f, x->kid[2], out)) return -1;
        if (out->kind == SCRIPT_INT && t->name && !strcmp(t->name, "float")) *out = script_of_float((double)out->i);
        return 0;
    }
    script_value v;
    if (eval(f, x->kid[1], &v)) return -1;
    if (!strcmp(name, "isinstance")) {
        *out = script_of_bool(rush_script_is_type(v, x->kid[2], f->u));
        return rush_script_drop(v), 0;
    }
    script_value key;
    int failed = eval(f, x->kid[2], &key);
    if (!failed && key.kind != SCRIPT_TEXT) failed = rush_fail(RUSH_TYPE_ERROR, "%s wants a name", name);
    if (!failed && !strcmp(name, "hasattr")) *out = script_of_bool(v.kind == SCRIPT_OBJECT && (rush_script_field_find(v.box->type, key.box->text) || rush_script_method_find(v.box->type, key.box->text)));
    else if (!failed) failed = attribute(v, key.box->text, f->depth, out);
    if (key.kind == SCRIPT_TEXT) rush_script_drop(key);
    rush_script_drop(v);
    return failed ? -1 : 0;
}

static int eval_call(frame *f, const script_node *x, script_value *out)
{
    if (x->op == SCRIPT_N_CALL && x->what == SCRIPT_T_FORM) return eval_form(f, x, out);
    script_value self, callee = {.kind = SCRIPT_UNSET};
    script_call c = {.unit = f->u, .name = x->name, .in = &self, .depth = f->depth + 1};
    size_t mark = rush_scope_open();
    int failed = 0;
    bool named_callee = x->op == SCRIPT_N_CALL && x->kid[0]->op == SCRIPT_N_NAME;
    if (x->op == SCRIPT_N_METHOD) {
        failed = eval(f, x->kid[0], &self);
        c.n = !failed;
    } else if (!named_callee) failed = eval(f, x->kid[0], &callee);
    const bool empty = x->op == SCRIPT_N_CALL && (x->what == SCRIPT_T_NEW || x->what == SCRIPT_T_FOREIGN);
    if (!failed && !empty) failed = eval_arguments(f, x, &c);
    else if (!failed) c.n = 0;
    if (!failed) {
        if (x->op == SCRIPT_N_METHOD) failed = call_method(&c, x, out);
        else if (!named_callee) failed = call_value(&c, callee, out);
        else if (x->what == SCRIPT_T_FUNCTION) failed = rush_script_call_function(&c, x->target, callee, out);
        else if (x->what == SCRIPT_T_NEW) failed = (*out = rush_script_object(x->target)).kind == SCRIPT_UNSET;
        else if (x->what == SCRIPT_T_FOREIGN) failed = (*out = rush_script_of_object(rush_object_new(x->target, NULL))).kind == SCRIPT_NONE;
        else if (x->what == SCRIPT_T_CLASS) failed = make_object(&c, x->target, out);
        else failed = call_either(x->what == SCRIPT_T_BUILTIN ? (script_builtin)x->target : NULL, x->op_of, &c, out);
    }
    for (int i = 0; i < c.n; ++i) rush_script_drop(c.in[i]);
    rush_script_drop(callee);
    rush_scope_close(mark);
    return failed ? -1 : 0;
}

/* ---- expressions ---- */

static int eval_items(frame *f, const script_node *x, int kind, script_value *out)
{
    *out = rush_script_list(kind, 0, NULL);
    if (out->kind == SCRIPT_UNSET) return -1;
    for (uint32_t i = 0; i < x->n; ++i) {
        script_value v;
        bool star = x->kid[i]->op == SCRIPT_N_STAR;
        if (eval(f, star ? x->kid[i]->kid[0] : x->kid[i], &v)) return rush_script_drop(*out), -1;
        int failed = 0;
        if (star) {
            bool fits = v.kind == SCRIPT_LIST || v.kind == SCRIPT_TUPLE;
            if (!fits) failed = rush_fail(RUSH_TYPE_ERROR, "what is starred is no list");
            for (size_t k = 0; !failed && k < v.box->n; ++k) failed = rush_script_append(out->box, v.box->item[k]);
        } else failed = rush_script_append(out->box, v);
        rush_script_drop(v);
        if (failed) return rush_script_drop(*out), -1;
    }
    return 0;
}

static int eval_dict(frame *f, const script_node *x, script_value *out)
{
    *out = rush_script_dict();
    if (out->kind == SCRIPT_UNSET) return -1;
    for (uint32_t i = 0; i + 1 < x->n; i += 2) {
        script_value key, v;
        int failed = eval(f, x->kid[i], &key);
        if (!failed && eval(f, x->kid[i + 1], &v)) rush_script_drop(key), failed = -1;
        if (failed) return rush_script_drop(*out), -1;
        failed = rush_script_dict_set(out->box, key, v);
        rush_script_drop(key);
        rush_script_drop(v);
        if (failed) return rush_script_drop(*out), -1;
    }
    return 0;
}

static int operate(const script_node *x, script_value *in, script_value *out)
{
    script_call c = {.name = x->name, .n = (int)x->n, .in = in};
    return call_either((script_builtin)x->target, x->op_of, &c, out);
}

static int eval_operator(frame *f, const script_node *x, script_value *out)
{
    script_value in[2] = {{.kind = SCRIPT_UNSET}, {.kind = SCRIPT_UNSET}};
    int failed = eval(f, x->kid[0], &in[0]);
    if (failed) return -1;
    if (x->n > 1) failed = eval(f, x->kid[1], &in[1]);
    if (failed) return rush_script_drop(in[0]), -1;
    failed = operate(x, in, out);
    rush_script_drop(in[0]);
    rush_script_drop(in[1]);
    return failed ? -1 : 0;
}

static int store(frame *f, const script_node *to, script_value v);

static int eval_each(frame *f, const script_node *x, script_value *out)
{
    bool pairs = x->op == SCRIPT_N_EACH_PAIR;
    uint32_t to = pairs ? 2 : 1;
    script_value of, items;
    if (eval(f, x->kid[to + 1], &of)) return -1;
    int failed = rush_script_items(of, &items);
    rush_script_drop(of);
    if (failed) return -1;
    *out = pairs ? rush_script_dict() : rush_script_list(SCRIPT_LIST, 0, NULL);
    failed = out->kind == SCRIPT_UNSET;
    for (size_t i = 0; !failed && i < items.box->n; ++i) {
        script_value v = SCRIPT_NOTHING, w = SCRIPT_NOTHING;
        if ((failed = store(f, x->kid[to], items.box->item[i]))) break;
        if (x->n > to + 2) {
            script_value condition;
            if ((failed = eval(f, x->kid[to + 2], &condition))) break;
            int truth = rush_script_truth(condition);
            rush_script_drop(condition);
            if (truth < 0) failed = -1;
            if (truth != 1) continue;
        }
        if ((failed = eval(f, x->kid[0], &v))) break;
        if (pairs && !(failed = eval(f, x->kid[1], &w))) {
            failed = rush_script_dict_set(out->box, v, w);
            rush_script_drop(w);
        } else if (!failed) failed = rush_script_append(out->box, v);
        rush_script_drop(v);
    }
    rush_script_drop(items);
    if (failed) rush_script_drop(*out);
    return failed ? -1 : 0;
}

static int truth_of(frame *f, const script_node *x)
{
    script_value v;
    if (eval(f, x, &v)) return -1;
    int truth = rush_script_truth(v);
    rush_script_drop(v);
    return truth;
}

static int eval_logic(frame *f, const script_node *x, script_value *out)
{
    if (x->op == SCRIPT_N_NOT || x->op == SCRIPT_N_CHOICE) {
        int truth = truth_of(f, x->kid[0]);
        if (truth < 0) return -1;
        return x->op == SCRIPT_N_NOT ? (*out = script_of_bool(!truth), 0) : eval(f, x->kid[truth ? 1 : 2], out);
    }
    if (eval(f, x->kid[0], out)) return -1;
    int truth = rush_script_truth(*out);
    if (truth < 0) return rush_script_drop(*out), -1;
    if (truth != (x->op == SCRIPT_N_AND)) return 0;
    rush_script_drop(*out);
    return eval(f, x->kid[1], out);
}

static int eval_index(frame *f, const script_node *x, script_value *out)
{
    script_value of, at;
    if (eval(f, x->kid[0], &of)) return -1;
    if (eval(f, x->kid[1], &at)) return rush_script_drop(of), -1;
    size_t mark = rush_scope_open();
    int failed = rush_script_index(of, at, out);
    rush_scope_close(mark);
    rush_script_drop(of);
    rush_script_drop(at);
    return failed ? -1 : 0;
}

static int eval_one(frame *f, const script_node *x, script_value *out)
{
    script_value v;
    int failed;
    switch (x->op) {
    case SCRIPT_N_CONSTANT: return *out = rush_script_keep(x->constant), 0;
    case SCRIPT_N_LOCAL:
        RUSH_CHECK(f->local && f->local[x->slot].kind != SCRIPT_UNSET, RUSH_RUNTIME_ERROR, "'%s' is used before it has a value", x->name);
        return *out = rush_script_keep(f->local[x->slot]), 0;
    case SCRIPT_N_LIST: return eval_items(f, x, SCRIPT_LIST, out);
    case SCRIPT_N_TUPLE: return eval_items(f, x, SCRIPT_TUPLE, out);
    case SCRIPT_N_SLICE: return eval_items(f, x, SCRIPT_SLICE, out);
    case SCRIPT_N_DICT: return eval_dict(f, x, out);
    case SCRIPT_N_OPERATOR: return eval_operator(f, x, out) ? told(f, x) : 0;
    case SCRIPT_N_AND: case SCRIPT_N_OR: case SCRIPT_N_NOT: case SCRIPT_N_CHOICE: return eval_logic(f, x, out);
    case SCRIPT_N_ATTRIBUTE:
        if (eval(f, x->kid[0], &v)) return -1;
        failed = attribute(v, x->name, f->depth, out);
        rush_script_drop(v);
        return failed ? told(f, x) : 0;
    case SCRIPT_N_INDEX: return eval_index(f, x, out) ? told(f, x) : 0;
    case SCRIPT_N_CALL: case SCRIPT_N_METHOD: return eval_call(f, x, out) ? told(f, x) : 0;
    case SCRIPT_N_EACH: case SCRIPT_N_EACH_PAIR: return eval_each(f, x, out);
    default: return rush_fail(RUSH_RUNTIME_ERROR, "'%s' is no value", x->name ? x->name : "this");
    }
}

static int eval(frame *f, const script_node *x, script_value *out)
{
    RUSH_CHECK(nest < DEEPEST_NEST, RUSH_RUNTIME_ERROR, "the program is nested more than %d deep", DEEPEST_NEST);
    ++nest;
    int failed = eval_one(f, x, out);
    --nest;
    if (failed) *out = (script_value){.kind = SCRIPT_UNSET}; /* what fails may leave a value that it has dropped */
    return failed;
}

/* ---- statements ---- */

static int store_items(frame *f, const script_node *to, script_value v)
{
    RUSH_CHECK(v.kind == SCRIPT_TUPLE || v.kind == SCRIPT_LIST || v.kind == SCRIPT_TENSOR, RUSH_TYPE_ERROR, "a %s cannot be taken apart", rush_script_kind_name(v));
    script_value items;
    if (rush_script_items(v, &items)) return -1;
    size_t n = items.box->n, star = to->n, more = 0;
    for (uint32_t i = 0; i < to->n; ++i)
        if (to->kid[i]->op == SCRIPT_N_STAR) star = i;
    int failed = 0;
    if (star < to->n ? n + 1 < to->n : n != to->n) failed = rush_fail(RUSH_VALUE_ERROR, "Expected %u elements in a list but found %zu", (unsigned)to->n, n);
    if (star < to->n) more = n + 1 - to->n;
    for (uint32_t i = 0; i < to->n && !failed; ++i) {
        if (i == star) {
            script_value some = rush_script_list(SCRIPT_LIST, more, items.box->item + i);
            failed = some.kind == SCRIPT_UNSET || store(f, to->kid[i]->kid[0], some);
            rush_script_drop(some);
        } else failed = store(f, to->kid[i], items.box->item[i < star ? i : i + more - 1]);
    }
    rush_script_drop(items);
    return failed ? -1 : 0;
}

static int store(frame *f, const script_node *to, script_value v)
{
    script_value of, at;
    int failed;
    switch (to->op) {
    case SCRIPT_N_LOCAL: {
        script_value old = f->local[to->slot];
        f->local[to->slot] = rush_script_keep(v);
        rush_script_drop(old);
        return 0;
    }
    case SCRIPT_N_ATTRIBUTE:
        if (eval(f, to->kid[0], &of)) return -1;
        failed = attribute_set(of, to->name, f->depth, v);
        rush_script_drop(of);
        return failed;
    case SCRIPT_N_INDEX:
        if (eval(f, to->kid[0], &of)) return -1;
        if (eval(f, to->kid[1], &at)) return rush_script_drop(of), -1;
        failed = rush_script_index_set(of, at, v);
        rush_script_drop(of);
        rush_script_drop(at);
        return failed;
    case SCRIPT_N_TUPLE: case SCRIPT_N_LIST: return store_items(f, to, v);
    default: return rush_fail(RUSH_RUNTIME_ERROR, "this cannot be assigned to");
    }
}

static int run_assign(frame *f, const script_node *x)
{
    script_value v;
    if (eval(f, x->kid[x->n - 1], &v)) return FAILED;
    int failed = 0;
    for (uint32_t i = 0; i + 1 < x->n && !failed; ++i) failed = store(f, x->kid[i], v);
    rush_script_drop(v);
    return failed ? told(f, x) : GO_ON;
}

/* Tensors and lists are changed in place, as Python does. */
static int run_change(frame *f, const script_node *x)
{
    script_value in[2], out;
    if (eval(f, x->kid[0], &in[0])) return FAILED;
    if (eval(f, x->kid[1], &in[1])) return rush_script_drop(in[0]), FAILED;
    char name[40];
    const char *what = in[0].kind == SCRIPT_TENSOR && !strcmp(x->name, "floordiv") ? "floor_divide" : x->name;
    bool inplace = (in[0].kind == SCRIPT_TENSOR && strcmp(what, "matmul")) || (in[0].kind == SCRIPT_LIST && !strcmp(what, "add"));
    snprintf(name, sizeof name, inplace && what[0] != '_' ? "%s_" : "%s", what);
    if (inplace && what[0] == '_') snprintf(name, sizeof name, "bitwise_%s_", !strcmp(what, "__or__") ? "or" : !strcmp(what, "__and__") ? "and" : !strcmp(what, "__xor__") ? "xor" : !strcmp(what, "__lshift__") ? "left_shift" : "right_shift");
    const rush_op *op = rush_op_find(name);
    char base[40];
    snprintf(base, sizeof base, "%.*s", (int)strlen(name) - inplace, name);
    script_call c = {.name = name, .n = 2, .in = in};
    int failed = call_either(rush_script_builtin_find(name), op ? op : rush_op_find(base), &c, &out);
    rush_script_drop(in[0]);
    rush_script_drop(in[1]);
    if (failed) return told(f, x);
    failed = store(f, x->kid[0], out);
    rush_script_drop(out);
    return failed ? told(f, x) : GO_ON;
}

static int run_for(frame *f, const script_node *x)
{
    script_value of, items;
    if (eval(f, x->kid[1], &of)) return FAILED;
    if (of.kind == SCRIPT_RANGE) items = of;
    else {
        int failed = rush_script_items(of, &items);
        rush_script_drop(of);
        if (failed) return told(f, x);
    }
    int flow = GO_ON;
    if (items.kind == SCRIPT_RANGE) {
        int64_t from = items.box->item[0].i, to = items.box->item[1].i, step = items.box->item[2].i;
        for (int64_t i = from; step > 0 ? i < to : i > to;) {
            flow = store(f, x->kid[0], script_of_int(i)) ? FAILED : run(f, x->kid[2]);
            if (flow == BROKE || flow == FAILED || flow == RETURNED || __builtin_add_overflow(i, step, &i)) break;
        }
    } else
        for (size_t i = 0; i < items.box->n; ++i) {
            flow = store(f, x->kid[0], items.box->item[i]) ? told(f, x) : run(f, x->kid[2]);
            if (flow == BROKE || flow == FAILED || flow == RETURNED) break;
        }
    rush_script_drop(items);
    return flow == FAILED || flow == RETURNED ? flow : GO_ON;
}

static int call_on(frame *f, script_value self, const char *name, int n, script_value *in, script_value *out)
{
    const script_function *m = self.kind == SCRIPT_OBJECT ? rush_script_method_find(self.box->type, name) : NULL;
    RUSH_CHECK(m, RUSH_TYPE_ERROR, "a %s has no %s", rush_script_kind_name(self), name);
    script_call c = {.unit = f->u, .name = name, .n = n, .in = in, .depth = f->depth + 1};
    return rush_script_call_function(&c, m, self, out);
}

static bool is_mode(const script_node *x, bool *grad)
{
    if (x->op != SCRIPT_N_CALL || x->kid[0]->op != SCRIPT_N_NAME) return false;
    const char *name = x->kid[0]->name;
    *grad = !strcmp(name, "torch.enable_grad");
    return *grad || !strcmp(name, "torch.no_grad") || !strcmp(name, "torch.autograd.no_grad");
}

/* Leaves a context after an error, which stays the pending one unless leaving fails. */
static void leave_after_error(frame *f, script_value self)
{
    char what[2048];
    script_value none[3] = {SCRIPT_NOTHING, SCRIPT_NOTHING, SCRIPT_NOTHING}, left;
    rush_error_kind kind = rush_error_kind_now();
    snprintf(what, sizeof what, "%s", rush_error());
    rush_error_clear();
    if (call_on(f, self, "__exit__", 3, none, &left)) return;
    rush_script_drop(left);
    rush_fail(kind, "%s", what);
}

static int run_with(frame *f, const script_node *x, uint32_t k)
{
    if (k + 1 >= x->n) return run(f, x->kid[x->n - 1]);
    bool grad;
    if (is_mode(x->kid[k], &grad)) {
        bool before = rush_grad_enabled_set(grad);
        int flow = run_with(f, x, k + 2);
        rush_grad_enabled_set(before);
        return flow;
    }
    script_value self, entered, none[3] = {SCRIPT_NOTHING, SCRIPT_NOTHING, SCRIPT_NOTHING}, left;
    if (eval(f, x->kid[k], &self)) return FAILED;
    int flow = call_on(f, self, "__enter__", 0, NULL, &entered) ? FAILED : GO_ON;
    if (flow != FAILED) {
        if (x->kid[k + 1]->op != SCRIPT_N_PASS && store(f, x->kid[k + 1], entered)) flow = FAILED;
        rush_script_drop(entered);
        if (flow != FAILED) flow = run_with(f, x, k + 2);
        if (flow == FAILED) leave_after_error(f, self);
        else if (call_on(f, self, "__exit__", 3, none, &left)) flow = FAILED;
        else rush_script_drop(left);
    }
    rush_script_drop(self);
    return flow;
}

/* Raises what a value says as text. */
static int raise_value(frame *f, const script_node *x, const script_node *what, const char *before)
{
    script_value v;
    if (eval(f, what, &v)) return FAILED;
    bool silent = *before && v.kind == SCRIPT_NONE; /* assert without words */
    script_value text = rush_script_print(v, false);
    rush_script_drop(v);
    if (text.kind == SCRIPT_UNSET) return FAILED;
    rush_script_raise(before, silent ? "" : text.box->text);
    rush_script_drop(text);
    return told(f, x);
}

static int run_assert(frame *f, const script_node *x)
{
    int truth = truth_of(f, x->kid[0]);
    if (truth) return truth < 0 ? FAILED : GO_ON;
    return raise_value(f, x, x->kid[1], "AssertionError: ");
}

static int run_delete(frame *f, const script_node *x)
{
    const script_node *t = x->kid[0];
    if (t->op == SCRIPT_N_LOCAL) return rush_script_drop(f->local[t->slot]), f->local[t->slot].kind = SCRIPT_UNSET, GO_ON;
    RUSH_CHECK(t->op == SCRIPT_N_INDEX, RUSH_RUNTIME_ERROR, "this cannot be deleted");
    script_value in[2], out;
    if (eval(f, t->kid[0], &in[0])) return FAILED;
    if (eval(f, t->kid[1], &in[1])) return rush_script_drop(in[0]), FAILED;
    script_call c = {.name = in[0].kind == SCRIPT_OBJECT ? "delitem" : "Delete", .n = 2, .in = in};
    int failed = call_either(rush_script_builtin_find("Delete"), NULL, &c, &out);
    rush_script_drop(in[0]);
    rush_script_drop(in[1]);
    return failed ? told(f, x) : (rush_script_drop(out), GO_ON);
}

static int run(frame *f, const script_node *x)
{
    script_value v;
    int truth, flow = GO_ON;
    switch (x->op) {
    case SCRIPT_N_BLOCK:
        for (uint32_t i = 0; i < x->n && flow == GO_ON; ++i) flow = run(f, x->kid[i]);
        return flow;
    case SCRIPT_N_ASSIGN: return run_assign(f, x);
    case SCRIPT_N_CHANGE: return run_change(f, x);
    case SCRIPT_N_DO: return eval(f, x->kid[0], &v) ? FAILED : (rush_script_drop(v), GO_ON);
    case SCRIPT_N_IF:
        truth = truth_of(f, x->kid[0]);
        return truth < 0 ? told(f, x) : run(f, x->kid[truth ? 1 : 2]);
    case SCRIPT_N_WHILE:
        while ((truth = truth_of(f, x->kid[0])) == 1) {
            flow = run(f, x->kid[1]);
            if (flow == BROKE || flow == FAILED || flow == RETURNED) break;
        }
        return truth < 0 ? told(f, x) : flow == FAILED || flow == RETURNED ? flow : GO_ON;
    case SCRIPT_N_FOR: return run_for(f, x);
    case SCRIPT_N_RETURN: return eval(f, x->kid[0], &f->result) ? FAILED : RETURNED;
    case SCRIPT_N_BREAK: return BROKE;
    case SCRIPT_N_CONTINUE: return CONTINUED;
    case SCRIPT_N_PASS: return GO_ON;
    case SCRIPT_N_ASSERT: return run_assert(f, x);
    case SCRIPT_N_RAISE: return raise_value(f, x, x->kid[0], "");
    case SCRIPT_N_DELETE: return run_delete(f, x);
    case SCRIPT_N_WITH: return run_with(f, x, 0);
    default: return rush_fail(RUSH_RUNTIME_ERROR, "no statement");
    }
}

/* ---- functions ---- */

static int bind_arguments(frame *f, script_value self, int n, const script_value *in, const char **names)
{
    const script_function *g = f->f;
    uint32_t at = 0;
    if (g->of && self.kind != SCRIPT_UNSET) {
        RUSH_CHECK(g->nparams, RUSH_TYPE_ERROR, "the method %s takes no self", g->path);
        f->local[at++] = rush_script_keep(self);
    }
    for (int k = 0; k < n; ++k) {
        uint32_t i = at + (uint32_t)k;
        if (names && names[k]) {
            for (i = at; i < g->nparams && strcmp(g->param[i].name, names[k]);) ++i;
            RUSH_CHECK(i < g->nparams, RUSH_TYPE_ERROR, "%s() has no argument '%.100s'", g->name, names[k]);
        }
        RUSH_CHECK(i < g->nparams, RUSH_TYPE_ERROR, "%s() takes at most %u argument%s, but got %d", g->name, (unsigned)(g->nparams - at), g->nparams - at == 1 ? "" : "s", n);
        RUSH_CHECK(f->local[i].kind == SCRIPT_UNSET, RUSH_TYPE_ERROR, "%s() got the argument '%s' twice", g->name, g->param[i].name);
        f->local[i] = rush_script_keep(in[k]);
        if (!f->depth && rush_script_fit(f->u, g, i, &f->local[i])) return -1; /* within a program types are what they are */
        const script_node *type = g->param[i].type;
        if (in[k].kind == SCRIPT_INT && type && type->name && !strcmp(type->name, "float")) f->local[i] = script_of_float((double)in[k].i);
    }
    for (uint32_t i = at; i < g->nparams; ++i) {
        if (f->local[i].kind != SCRIPT_UNSET) continue;
        RUSH_CHECK(g->param[i].standard, RUSH_TYPE_ERROR, "%s() is missing value for argument '%s'", g->name, g->param[i].name);
        frame outside = {.u = f->u};
        if (eval(&outside, g->param[i].standard, &f->local[i])) return f->local[i].kind = SCRIPT_UNSET, -1;
    }
    return 0;
}

static _Thread_local int running; /* how deep the function is that runs now */

int rush_script_run(script_unit *u, const script_function *g, script_value self, int n, const script_value *in, const char **names, int depth, script_value *out)
{
    RUSH_CHECK(depth < DEEPEST_CALL, RUSH_RUNTIME_ERROR, "functions call each other more than %d deep", DEEPEST_CALL);
    if (rush_failed()) return -1;
    const int outer = running;
    if (!depth) raised = false;
    frame f = {.u = u, .f = g, .depth = depth, .result = SCRIPT_NOTHING};
    if (!(f.local = rush_calloc(RUSH_MAX(g->nlocals, 1u), sizeof *f.local))) return -1;
    running = depth;
    int flow = bind_arguments(&f, self, n, in, names) ? FAILED : run(&f, g->body);
    running = outer;
    for (uint32_t i = 0; i < g->nlocals; ++i) rush_script_drop(f.local[i]);
    rush_free(f.local);
    if (flow == FAILED || rush_failed()) {
        if (!depth) as_callers_see_it();
        return rush_script_drop(f.result), -1;
    }
    *out = f.result;
    return 0;
}

/* The first argument's method, or what reads or writes an attribute of it. Its __init__ makes an object, which it becomes. */
int rush_script_foreign(script_call *c, const char *name, const char *suffix, script_value *out)
{
    char method[160];
    rush_object *self = c->in[0].object;
    if ((size_t)snprintf(method, sizeof method, "%s%s", name, suffix) >= sizeof method) return SCRIPT_NOT_MINE;
    const rush_op *op = rush_class_method(rush_object_class(self), method);
    if (!op) return SCRIPT_NOT_MINE;
    script_call as = *c;
    as.name = op->base;
    if (strcmp(method, "__init__")) return rush_script_run_op(op, &as, out);
    ++as.in, --as.n;
    if (as.names) ++as.names;
    if (rush_script_run_op(op, &as, out)) return -1;
    RUSH_CHECK(out->kind == SCRIPT_FOREIGN, RUSH_TYPE_ERROR, "%s gave no object", op->name);
    rush_object_become(self, out->object);
    rush_script_drop(*out);
    return *out = SCRIPT_NOTHING, 0;
}

static int foreign_special(script_value v, const char *name, int n, const script_value *in, script_value *out)
{
    script_value all[8] = {v};
    script_call c = {.n = n + 1, .in = all};
    if (n >= (int)RUSH_COUNT(all)) return SCRIPT_NOT_MINE;
    for (int i = 0; i < n; ++i) all[i + 1] = in[i];
    return rush_script_foreign(&c, name, "", out);
}

int rush_script_special(script_value v, const char *name, int n, const script_value *in, script_value *out)
{
    if (v.kind == SCRIPT_FOREIGN) return foreign_special(v, name, n, in, out);
    const script_function *m = v.kind == SCRIPT_OBJECT ? rush_script_method_find(v.box->type, name) : NULL;
    return m ? rush_script_run(v.box->type->unit, m, v, n, in, NULL, running + 1, out) : SCRIPT_NOT_MINE;
}

int rush_script_call_function(script_call *c, const script_function *g, script_value self, script_value *out)
{
    return rush_script_run(c->unit, g, self, c->n, c->in, c->names, c->depth, out);
}
