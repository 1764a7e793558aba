/* library.c - operations that extensions define, and those that they call: values of eight bytes on a stack, converted by schemas.
 *
 * Tensors are handles, which whom the value is given to owns; int, float, bool and the numbers of dtypes, layouts and formats are
 * themselves; a device is its type above its index; of what is optional there is a pointer to such a value, or NULL; lists and texts
 * are handles, too.
 */
#include "op/nested.h"
#include "stable/stable.h"
#include <rushlight/backend.h>
#include <rushlight/library.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct stable_list {
    uint64_t *item;
    size_t n, room;
} stable_list;
typedef struct stable_text {
    char *s;
    size_t n;
} stable_text;
typedef struct stable_library { char namespace[200], key[64]; } stable_library;

/* Zeroed; NULL and an error. */
static void *memory(size_t n)
{
    void *p = calloc(1, n);
    if (!p) rush_fail(RUSH_MEMORY_ERROR, "out of memory");
    return p;
}

/* ---- lists and texts ---- */

static stable_list *list_new(size_t n)
{
    stable_list *l = memory(sizeof *l);
    if (!l || !(l->item = memory((n + 1) * sizeof *l->item))) return free(l), NULL;
    l->room = n + 1;
    return l;
}
STABLE(int32_t, torch_new_list_reserve_size, size_t n, stable_list **to) { return *to = list_new(n), rush_stable_end(); }
STABLE(int32_t, torch_list_size, stable_list *l, size_t *n) { return *n = l->n, 0; }
STABLE(int32_t, torch_list_get_item, stable_list *l, size_t i, uint64_t *to)
{
    if (i >= l->n) return rush_fail(RUSH_INDEX_ERROR, "index %zu of a list of %zu", i, l->n), rush_stable_end();
    return *to = l->item[i], 0;
}
STABLE(int32_t, torch_list_set_item, stable_list *l, size_t i, uint64_t x)
{
    if (i >= l->n) return rush_fail(RUSH_INDEX_ERROR, "index %zu of a list of %zu", i, l->n), rush_stable_end();
    return l->item[i] = x, 0;
}
STABLE(int32_t, torch_list_push_back, stable_list *l, uint64_t x)
{
    if (l->n == l->room) {
        uint64_t *more = realloc(l->item, 2 * l->room * sizeof *more);
        if (!more) return rush_fail(RUSH_MEMORY_ERROR, "out of memory"), rush_stable_end();
        l->item = more;
        l->room *= 2;
    }
    return l->item[l->n++] = x, 0;
}
STABLE(int32_t, torch_delete_list, stable_list *l)
{
    if (l) free(l->item);
    free(l);
    return 0;
}
static stable_text *text_new(const char *s, size_t n)
{
    stable_text *t = memory(sizeof *t);
    if (!t || !(t->s = memory(n + 1))) return free(t), NULL;
    memcpy(t->s, s, n);
    t->n = n;
    return t;
}
STABLE(int32_t, torch_new_string_handle, const char *s, size_t n, stable_text **to) { return *to = text_new(s, n), rush_stable_end(); }
STABLE(int32_t, torch_delete_string, stable_text *t)
{
    if (t) free(t->s);
    free(t);
    return 0;
}
STABLE(int32_t, torch_string_length, stable_text *t, size_t *n) { return *n = t->n, 0; }
STABLE(int32_t, torch_string_c_str, stable_text *t, const char **s) { return *s = t->s, 0; }
STABLE(int32_t, torch_new_stable_ivalue, uint64_t **to) { return *to = memory(sizeof **to), rush_stable_end(); }
STABLE(int32_t, torch_delete_stable_ivalue, uint64_t *x) { return free(x), 0; }
STABLE(int32_t, torch_new_generator_handle, rush_generator *g, rush_generator **to) { return *to = g, 0; } /* the caller's, which outlives the call */
STABLE(int32_t, torch_generator_get_device, rush_generator *g, int32_t *type, int32_t *index)
{
    *type = rush_stable_device_type(g->device);
    *index = g->device.index;
    return 0;
}
STABLE(int32_t, torch_delete_generator, rush_generator *g) { return (void)g, 0; }

/* ---- values ---- */

static uint64_t bits_of(double f)
{
    uint64_t x;
    memcpy(&x, &f, sizeof x);
    return x;
}

static int give(rush_value v, int type, uint64_t *to)
{
    void *made = NULL;
    switch (type) {
    case RUSH_A_TENSOR:
        made = rush_stable_handle(v.kind == RUSH_V_TENSOR ? v.t : NULL);
        break;
    case RUSH_A_FLOAT: return *to = bits_of(v.kind == RUSH_V_FLOAT ? v.f : (double)v.i), 0;
    case RUSH_A_STRING:
        made = text_new(v.s, strlen(v.s));
        break;
    case RUSH_A_DEVICE: return *to = (uint64_t)(uint32_t)rush_stable_device_type(v.device) << 32 | (uint32_t)(int32_t)v.device.index, 0;
    case RUSH_A_GENERATOR: return *to = (uint64_t)(uintptr_t)v.gen, 0;
    case RUSH_A_SCALAR: return rush_fail(RUSH_NOT_IMPLEMENTED, "the stable interface has no arguments of type Scalar");
    default: return *to = (uint64_t)v.i, 0;
    }
    *to = (uint64_t)(uintptr_t)made;
    return made ? 0 : -1;
}

/* Element i of a list, as a value of its own. */
static rush_value element(rush_value list, uint32_t i, int type)
{
    switch (list.kind) {
    case RUSH_V_TENSORS: return rush_v_tensor(list.tensors[i]);
    case RUSH_V_FLOATS: return rush_v_float(list.floats[i]);
    case RUSH_V_VALUES: return list.values[i];
    case RUSH_V_INTS: return type == RUSH_A_FLOAT ? rush_v_float((double)list.ints[i]) : rush_v_int(list.ints[i]);
    default: return list; /* one number that stands for all */
    }
}

static int give_optional(rush_value v, int type, uint64_t *to)
{
    *to = 0;
    if (v.kind == RUSH_V_NONE) return 0;
    uint64_t *x = memory(sizeof *x);
    *to = (uint64_t)(uintptr_t)x;
    return x ? give(v, type, x) : -1;
}

static int give_list(rush_value v, const rush_arg *a, uint64_t *to)
{
    bool one = v.kind == RUSH_V_INT || v.kind == RUSH_V_FLOAT || v.kind == RUSH_V_BOOL;
    uint32_t n = one ? (uint32_t)a->fixed : v.n;
    stable_list *l = list_new(n);
    if (!l) return -1;
    l->n = n;
    *to = (uint64_t)(uintptr_t)l;
    for (uint32_t i = 0; i < n; ++i)
        if ((a->optional_items ? give_optional : give)(element(v, i, a->type), a->type, &l->item[i])) return -1;
    return 0;
}

/* Lists of texts, lists of lists. */
static int give_nested(rush_value v, rush_type_text type, uint64_t *to)
{
    rush_type_text inside;
    rush_type_form form = rush_type_read(type, &inside);
    if (form == RUSH_TYPE_PLAIN && v.kind != RUSH_V_OBJECT) return give(v, rush_type_plain(type), to);
    if (form == RUSH_TYPE_OPTIONAL) {
        *to = 0;
        if (v.kind == RUSH_V_NONE) return 0;
        uint64_t *x = memory(sizeof *x);
        *to = (uint64_t)(uintptr_t)x;
        return x ? give_nested(v, inside, x) : -1;
    }
    RUSH_CHECK(form == RUSH_TYPE_LIST, RUSH_NOT_IMPLEMENTED, "the stable interface has no values of type %.*s", (int)type.n, type.at);
    stable_list *l = list_new(v.n);
    if (!l) return -1;
    l->n = v.n;
    *to = (uint64_t)(uintptr_t)l;
    for (uint32_t i = 0; i < v.n; ++i)
        if (give_nested(element(v, i, rush_type_plain(inside)), inside, &l->item[i])) return -1;
    return 0;
}

static int give_argument(const rush_op *op, int i, rush_value v, uint64_t *to)
{
    const rush_arg *a = &op->args[i];
    if (a->type == RUSH_A_NESTED) return give_nested(v, rush_type_of_arg(op, i), to);
    if (!a->list) return a->optional ? give_optional(v, a->type, to) : give(v, a->type, to);
    if (!a->optional) return give_list(v, a, to);
    *to = 0;
    if (v.kind == RUSH_V_NONE) return 0;
    uint64_t *x = memory(sizeof *x);
    *to = (uint64_t)(uintptr_t)x;
    return x ? give_list(v, a, x) : -1;
}

static int take(uint64_t x, int type, rush_value *v)
{
    double f;
    memcpy(&f, &x, sizeof f);
    switch (type) {
    case RUSH_A_TENSOR: *v = rush_v_tensor(rush_stable_take((stable_tensor *)(uintptr_t)x)); break;
    case RUSH_A_INT: *v = rush_v_int((int64_t)x); break;
    case RUSH_A_FLOAT: *v = rush_v_float(f); break;
    case RUSH_A_BOOL: *v = rush_v_bool((x & 0xff) != 0); break;
    case RUSH_A_DTYPE: *v = rush_v_dtype((int32_t)x); break;
    case RUSH_A_LAYOUT: *v = rush_v_layout((int32_t)x); break;
    case RUSH_A_MEMORY_FORMAT: *v = rush_v_memory_format((int32_t)x); break;
    case RUSH_A_DEVICE: *v = rush_v_device(rush_stable_device((int32_t)(x >> 32), (int32_t)(uint32_t)x)); break;
    case RUSH_A_GENERATOR: *v = rush_v_generator((rush_generator *)(uintptr_t)x); break;
    case RUSH_A_STRING: {
        stable_text *t = (stable_text *)(uintptr_t)x;
        *v = rush_v_string(rush_scope_copy(t->s, t->n + 1));
        torch_delete_string(t);
        return v->s ? 0 : -1;
    }
    default: return rush_fail(RUSH_NOT_IMPLEMENTED, "the stable interface has no values of this type");
    }
    return 0;
}

static int take_optional(uint64_t x, int type, rush_value *v)
{
    uint64_t *inner = (uint64_t *)(uintptr_t)x;
    *v = rush_v_none();
    int failed = inner ? take(*inner, type, v) : 0;
    free(inner);
    return failed;
}

static int take_list(uint64_t x, int type, bool optional_items, rush_value *v)
{
    stable_list *l = (stable_list *)(uintptr_t)x;
    void *to = rush_scope_alloc((l->n + 1) * 8);
    int failed = !to;
    for (size_t i = 0; i < l->n && !failed; ++i) {
        rush_value item;
        failed = (optional_items ? take_optional : take)(l->item[i], type, &item);
        if (failed) break;
        if (type == RUSH_A_TENSOR) ((rush_tensor **)to)[i] = item.kind == RUSH_V_TENSOR ? item.t : NULL;
        else if (type == RUSH_A_FLOAT) ((double *)to)[i] = item.f;
        else ((int64_t *)to)[i] = item.i;
    }
    if (type == RUSH_A_TENSOR) *v = rush_v_tensors((rush_tensor **)to, l->n);
    else if (type == RUSH_A_FLOAT) *v = rush_v_floats((double *)to, l->n);
    else *v = rush_v_ints((int64_t *)to, l->n);
    torch_delete_list(l);
    return failed ? -1 : 0;
}

static int take_nested(uint64_t x, rush_type_text type, rush_value *v)
{
    rush_type_text inside;
    rush_type_form form = rush_type_read(type, &inside);
    int plain = form == RUSH_TYPE_LIST ? rush_type_plain(inside) : -1;
    if (form == RUSH_TYPE_PLAIN) return take(x, rush_type_plain(type), v);
    if (plain >= 0 && plain <= RUSH_A_BOOL) return take_list(x, plain, false, v);
    if (form == RUSH_TYPE_OPTIONAL) {
        uint64_t *inner = (uint64_t *)(uintptr_t)x;
        *v = rush_v_none();
        int failed = inner ? take_nested(*inner, inside, v) : 0;
        free(inner);
        return failed;
    }
    RUSH_CHECK(form == RUSH_TYPE_LIST, RUSH_NOT_IMPLEMENTED, "the stable interface has no values of type %.*s", (int)type.n, type.at);
    stable_list *l = (stable_list *)(uintptr_t)x;
    rush_value *items = rush_scope_alloc((l->n + 1) * sizeof *items);
    int failed = items ? 0 : -1;
    for (size_t i = 0; i < l->n && !failed; ++i) failed = take_nested(l->item[i], inside, &items[i]);
    *v = (rush_value){.kind = RUSH_V_VALUES, .n = (uint32_t)l->n, .values = items};
    torch_delete_list(l);
    return failed;
}

static int take_argument(const rush_op *op, int i, uint64_t x, rush_value *v)
{
    const rush_arg *a = &op->args[i];
    if (a->type == RUSH_A_NESTED) return take_nested(x, rush_type_of_arg(op, i), v);
    if (!a->list) return a->optional ? take_optional(x, a->type, v) : take(x, a->type, v);
    if (!a->optional) return take_list(x, a->type, a->optional_items, v);
    uint64_t *inner = (uint64_t *)(uintptr_t)x;
    *v = rush_v_none();
    int failed = inner ? take_list(*inner, a->type, a->optional_items, v) : 0;
    free(inner);
    return failed;
}

/* ---- operations ---- */

static int kernel(void *arg, const rush_op *op, const rush_value *in, rush_value *out)
{
    size_t n = op->nargs > op->nout ? op->nargs : op->nout;
    uint64_t *stack = rush_scope_alloc((n + 1) * sizeof *stack);
    stable_function f;
    memcpy(&f, arg, sizeof f);
    if (!stack) return -1;
    for (int i = 0; i < op->nargs; ++i)
        if (give_argument(op, i, in[i], &stack[i])) return -1;
    if (rush_stable_guarded(f, stack, op->nargs, op->nout)) return -1;
    for (int i = 0; i < op->nout; ++i) {
        if (op->out_types[i] == RUSH_A_NESTED ? take_nested(stack[i], rush_type_of_result(op, i), &out[i])
            : op->out_list >> i & 1           ? take_list(stack[i], op->out_types[i], false, &out[i])
                                              : take(stack[i], op->out_types[i], &out[i]))
            return -1;
    }
    return 0;
}

static int32_t library(const char *namespace, const char *key, stable_library **to)
{
    stable_library *l = memory(sizeof *l);
    if (!l) return rush_stable_end();
    snprintf(l->namespace, sizeof l->namespace, "%s", namespace);
    snprintf(l->key, sizeof l->key, "%s", key ? key : "");
    *to = l;
    return 0;
}
STABLE(int32_t, aoti_torch_library_init_impl, const char *namespace, const char *key, const char *file, uint32_t line, stable_library **to)
{
    return (void)file, (void)line, library(namespace, key, to);
}
STABLE(int32_t, aoti_torch_library_init_def, const char *namespace, const char *file, uint32_t line, stable_library **to) { return (void)file, (void)line, library(namespace, NULL, to); }
STABLE(int32_t, aoti_torch_library_init_fragment, const char *namespace, const char *file, uint32_t line, stable_library **to) { return (void)file, (void)line, library(namespace, NULL, to); }
STABLE(int32_t, aoti_torch_delete_library_object, stable_library *l) { return free(l), 0; } /* what it defined stays, as the extension does */
STABLE(int32_t, torch_library_set_python_module, stable_library *l, const char *module, const char *context) { return (void)l, (void)module, (void)context, 0; }

/* "ns::name" */
static char *whole_name(const stable_library *l, const char *name)
{
    size_t n = strlen(l->namespace) + strlen(name) + 3;
    char *whole = malloc(n);
    if (whole) snprintf(whole, n, strstr(name, "::") ? "%.0s%s" : "%s::%s", l->namespace, name);
    else rush_fail(RUSH_MEMORY_ERROR, "out of memory");
    return whole;
}
STABLE(int32_t, aoti_torch_library_def, stable_library *l, const char *schema)
{
    char *whole = whole_name(l, schema);
    if (whole) rush_library_define(whole);
    free(whole);
    return rush_stable_end();
}
STABLE(int32_t, torch_library_def_with_tags, stable_library *l, const char *schema, const int32_t *tags, int32_t n) { return (void)tags, (void)n, aoti_torch_library_def(l, schema); }
STABLE(int32_t, torch_library_impl, stable_library *l, const char *name, stable_function f, uint64_t version)
{
    char *whole = whole_name(l, name);
    stable_function *kept = malloc(sizeof *kept);
    (void)version;
    if (kept) *kept = f;
    if (whole && kept) rush_library_impl(whole, l->key, kernel, kept, free);
    else free(kept);
    free(whole);
    return rush_stable_end();
}
STABLE(int32_t, aoti_torch_library_impl, stable_library *l, const char *name, stable_function f) { return torch_library_impl(l, name, f, 0); }

static int call(const char *name, const char *overload, uint64_t *stack)
{
    char whole[512];
    const char *base = !strncmp(name, "aten::", 6) ? name + 6 : name;
    snprintf(whole, sizeof whole, *overload ? "%s.%s" : "%s", base, overload);
    const rush_op *op = rush_op_find(whole);
    RUSH_CHECK(op, RUSH_NOT_IMPLEMENTED, "there is no operation '%s'", whole);
    rush_value *in = rush_scope_alloc((op->nargs + 1u) * sizeof *in), out[RUSH_MAXOUT] = {0};
    if (!in) return -1;
    for (int i = 0; i < op->nargs; ++i)
        if (take_argument(op, i, stack[i], &in[i])) return -1;
    if (rush_call(op, in, out)) return -1;
    for (int i = 0; i < op->nout; ++i) {
        const rush_arg as = {.type = op->out_types[i]};
        if (as.type == RUSH_A_NESTED ? give_nested(out[i], rush_type_of_result(op, i), &stack[i])
            : op->out_list >> i & 1  ? give_list(out[i], &as, &stack[i])
                                     : give(out[i], as.type, &stack[i]))
            return -1;
    }
    return 0;
}
STABLE(int32_t, torch_call_dispatcher, const char *name, const char *overload, uint64_t *stack, uint64_t version)
{
    (void)version;
    rush_scope() call(name, overload, stack);
    return rush_stable_end();
}
STABLE(int32_t, aoti_torch_call_dispatcher, const char *name, const char *overload, uint64_t *stack) { return torch_call_dispatcher(name, overload, stack, 0); }

/* ---- devices, threads ---- */

STABLE(int32_t, torch_parse_device_string, const char *text, uint32_t *type, int32_t *index)
{
    char name[32];
    const char *colon = strchr(text, ':');
    snprintf(name, sizeof name, "%.*s", colon ? (int)(colon - text) : (int)strlen(text), text);
    int found = rush_device_from_name(name);
    if (found < 0) return rush_fail(RUSH_RUNTIME_ERROR, "Invalid device string: '%.100s'", text), rush_stable_end();
    *type = (uint32_t)found;
    *index = colon ? atoi(colon + 1) : -1;
    return 0;
}
typedef struct loop {
    void (*f)(int64_t begin, int64_t end, void *arg);
    void *arg;
    int64_t first;
} loop;
static void piece(void *arg, int64_t begin, int64_t end)
{
    const loop *l = arg;
    l->f(l->first + begin, l->first + end, l->arg);
}
STABLE(int32_t, torch_parallel_for, int64_t begin, int64_t end, int64_t grain, void (*f)(int64_t, int64_t, void *), void *arg)
{
    loop l = {f, arg, begin};
    if (end > begin) rush_parallel_for(end - begin, grain, piece, &l);
    return rush_stable_end();
}
STABLE(int32_t, torch_get_thread_idx, uint32_t *to) { return *to = (uint32_t)rush_thread_number(), 0; }
STABLE(int32_t, torch_get_num_threads, uint32_t *to) { return *to = (uint32_t)rush_num_threads(), 0; }

/* ---- devices and streams: of the first type of device beside the CPU that there is ---- */

static int accelerator(void)
{
    for (int type = RUSH_META + 1; type < RUSH_DEVICES; ++type)
        if (rush_device_count(type)) return type;
    return rush_fail(RUSH_RUNTIME_ERROR, "Cannot access accelerator device when none is available.");
}

STABLE(int32_t, aoti_torch_get_current_device_index, int32_t *to)
{
    int type = accelerator();
    if (type >= 0) *to = rush_device_current(type);
    return rush_stable_end();
}
/* A guard is what to put back. */
STABLE(int32_t, aoti_torch_device_guard_set_index, const rush_device *before, int32_t index)
{
    rush_device_set_current((rush_device){before->type, (int8_t)index});
    return rush_stable_end();
}
STABLE(int32_t, aoti_torch_create_device_guard, int32_t index, rush_device **to)
{
    int type = accelerator();
    rush_device *before = type < 0 ? NULL : memory(sizeof *before);
    if (!before) return rush_stable_end();
    *before = (rush_device){(uint8_t)type, (int8_t)rush_device_current(type)};
    if (rush_device_set_current((rush_device){(uint8_t)type, (int8_t)index})) free(before);
    else *to = before;
    return rush_stable_end();
}
STABLE(int32_t, aoti_torch_delete_device_guard, rush_device *before)
{
    rush_device_set_current(*before);
    free(before);
    return rush_stable_end();
}
STABLE(int32_t, aoti_torch_get_current_stream, int32_t index, int64_t **to)
{
    int type = accelerator();
    int stream = type < 0 ? -1 : rush_device_stream((rush_device){(uint8_t)type, (int8_t)index});
    int64_t *its = stream < 0 ? NULL : memory(sizeof *its);
    if (its) *its = stream, *to = its;
    return rush_stable_end();
}
STABLE(int32_t, aoti_torch_stream_id, const int64_t *stream, int64_t *to) { return *to = *stream, 0; }
STABLE(int32_t, aoti_torch_delete_stream, int64_t *stream) { return free(stream), 0; }
