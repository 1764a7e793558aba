/* registry.c - all operations by name. Records come from the linker's table (RUSH_FAMILY) and from programs.
 *
 * An open hash table from base name to the chain of its overloads; "add" finds the first overload that was
 * registered, "add.Tensor" that one. Written when the library is loaded and by rush_op_register, under a lock.
 */
#include "op/op.h"
#include "op/schema.h"
#include <stdio.h>

extern rush_op *const __start_rush_ops[] __attribute__((weak));
extern rush_op *const __stop_rush_ops[] __attribute__((weak));
extern rush_op *const __start_rush_sparse_ops[] __attribute__((weak));
extern rush_op *const __stop_rush_sparse_ops[] __attribute__((weak));
extern const rush_quantized_rule __start_rush_quantized_rules[] __attribute__((weak));
extern const rush_quantized_rule __stop_rush_quantized_rules[] __attribute__((weak));

static struct {
    rush_op **slot; /* first overload of a base name */
    size_t size, used;
    rush_op **all; /* in order of registration */
    size_t n, room;
} registry;

static size_t hash(const char *s, size_t n)
{
    size_t h = 1469598103934665603u;
    for (size_t i = 0; i < n; ++i) h = (h ^ (unsigned char)s[i]) * 1099511628211u;
    return h;
}

static size_t place(rush_op **slot, size_t size, const char *base, size_t n)
{
    size_t at = hash(base, n) & (size - 1);
    while (slot[at] && (strncmp(slot[at]->base, base, n) || slot[at]->base[n])) at = (at + 1) & (size - 1);
    return at;
}

static int make_room(void)
{
    if (registry.used * 2 >= registry.size) {
        size_t size = registry.size ? registry.size * 2 : 4096;
        rush_op **slot = rush_calloc(size, sizeof *slot);
        if (!slot) return -1;
        for (size_t i = 0; i < registry.size; ++i)
            if (registry.slot[i]) slot[place(slot, size, registry.slot[i]->base, strlen(registry.slot[i]->base))] = registry.slot[i];
        rush_free(registry.slot);
        registry.slot = slot;
        registry.size = size;
    }
    if (registry.n == registry.room) {
        size_t room = registry.room ? registry.room * 2 : 4096;
        rush_op **all = rush_realloc(registry.all, room * sizeof *all);
        if (!all) return -1;
        registry.all = all;
        registry.room = room;
    }
    return 0;
}

static uint64_t arg_bit(const rush_op *op, const char *name, size_t n)
{
    for (int i = 0; i < op->nargs; ++i)
        if (!strncmp(op->args[i].name, name, n) && !op->args[i].name[n]) return (uint64_t)1 << i;
    return 0;
}

/* "result", "result1", or the name that the schema gives a result; -1. */
static int result_number(const rush_op *op, const char *name, size_t n)
{
    for (int i = 0; i < op->nout; ++i)
        if (op->out_names[i] && !strncmp(op->out_names[i], name, n) && !op->out_names[i][n]) return i;
    return strncmp(name, "result", 6) ? -1 : atoi(name + 6);
}

/* Which arguments and results `saves` names: "result, self@other|weight". */
static int read_saves(rush_op *op)
{
    if (!op->saves || !*op->saves) return 0;
    op->saves_when = rush_calloc((size_t)op->nargs + op->nout, sizeof *op->saves_when);
    if (!op->saves_when) return -1;
    for (const char *s = op->saves; *s; s += strspn(s, ", ")) {
        size_t n = strcspn(s, ", @");
        uint64_t arg = arg_bit(op, s, n);
        int result = result_number(op, s, n);
        RUSH_CHECK(arg || (result >= 0 && result < op->nout), RUSH_VALUE_ERROR, "schema '%s' has no argument or result '%.*s' to save", op->schema, (int)n, s);
        if (arg) op->saves_in |= arg;
        else op->saves_out |= 1u << result;
        s += n;
        while (*s == '@' || *s == '|') {
            size_t k = strcspn(++s, ", |");
            uint64_t when = arg_bit(op, s, k);
            RUSH_CHECK(when, RUSH_VALUE_ERROR, "schema '%s' has no argument '%.*s'", op->schema, (int)k, s);
            op->saves_when[arg ? __builtin_ctzll(arg) : op->nargs + result] |= when;
            s += k;
        }
    }
    return 0;
}

/* In place of each kernel, on a processor that none was compiled for. */
static void no_kernel(const rush_op *op, const rush_value *in, rush_value *out)
{
    (void)op, (void)in, (void)out;
    rush_cpu_refuse();
}

int rush_op_register(rush_op *op)
{
    RUSH_CHECK(op && op->schema, RUSH_TYPE_ERROR, "rush_op_register: there is no operation, or none with a schema (NULL)");
    bool fresh = !op->name;
    if (op->cpu && !rush_cpu_suits()) op->cpu = no_kernel;
    if (fresh && rush_schema_read(op)) return -1;
    if (fresh && read_saves(op)) return rush_schema_forget(op), -1;
    rush_lock(RUSH_LOCK_REGISTRY);
    int failed = make_room();
    if (!failed) {
        rush_op **slot = &registry.slot[place(registry.slot, registry.size, op->base, strlen(op->base))], **first = slot;
        registry.used += !*first;
        while (*first && strcmp((*first)->name, op->name)) first = &(*first)->next;
        if (*first && *first != op) failed = rush_fail(RUSH_VALUE_ERROR, "operation %s is registered already", op->name);
        if (!failed && !*first) {
            if (!strcmp(op->name, op->base)) first = slot; /* the bare name finds the overload without a name */
            op->next = *first;
            *first = op;
            op->index = (uint32_t)registry.n;
            registry.all[registry.n++] = op;
        }
    }
    rush_unlock(RUSH_LOCK_REGISTRY);
    if (failed && fresh) rush_schema_forget(op);
    return failed;
}

const rush_op *rush_op_running(void) { return rush_now.op; }

/* The derivative of the dense record, whose formula serves all layouts. */
static void dense_derivative(rush_grads *s)
{
    rush_grads dense = *s;
    dense.op = s->op->row;
    dense.op->grad(&dense);
}

/* Gives an operation its sparse form, which takes name, arguments and results from it. */
static int adopt(rush_op *form, rush_op *op)
{
    const rush_op own = *form;
    RUSH_CHECK(own.run || op->run, RUSH_VALUE_ERROR, "the sparse form of %s does nothing", op->name);
    *form = *op;
    form->shape = NULL;
    form->cpu = NULL;
    form->flags = RUSH_ANY_LAYOUT | own.flags | (op->flags & (RUSH_NO_GRAD | RUSH_SIDE_EFFECT));
    form->row = op;
    if (!own.run) return 0;
    bool same = own.flags & RUSH_SAME_GRAD;
    form->run = own.run;
    form->grad = !same ? own.grad : op->grad ? dense_derivative : NULL;
    if (same) return 0; /* what it saves came with it */
    form->saves = own.saves;
    form->saves_in = form->saves_out = 0;
    form->saves_when = NULL;
    return read_saves(form);
}

/* The operation that a list of names begins with, which then begins with the next; NULL, with the error "no operation x <wish>". */
static rush_op *next_named(const char **names, const char *wish)
{
    size_t n = strcspn(*names, " ");
    char name[64];
    snprintf(name, sizeof name, "%.*s", (int)n, *names);
    *names += n + strspn(*names + n, " ");
    rush_op *op = rush_op_find(name);
    RUSH_CHECK_NULL(op && !strcmp(op->name, name), RUSH_VALUE_ERROR, "no operation %s %s", name, wish);
    return op;
}

/* `schema` of a form: the operation's name, then others of the same arguments that it serves too. */
static int adopt_all(rush_op *form)
{
    for (const char *names = form->schema; *names;) {
        rush_op *op = next_named(&names, "wants a sparse form");
        if (!op) return -1;
        RUSH_CHECK(!op->sparse, RUSH_VALUE_ERROR, "operation %s has a sparse form already", op->name);
        if (!form->name && adopt(form, op)) return -1;
        op->sparse = form;
    }
    return 0;
}

/* By number of the operation, of those that the library itself registers. */
static rush_rule *quantized_rules;
static size_t n_quantized_rules;

rush_rule rush_quantized_rule_of(const rush_op *op)
{
    return op->index < n_quantized_rules ? quantized_rules[op->index] : NULL;
}

static int take_rule(const rush_quantized_rule *rule)
{
    for (const char *names = rule->names; *names;) {
        rush_op *op = next_named(&names, "wants a rule for quantized tensors");
        if (!op) return -1;
        RUSH_CHECK(op->index < n_quantized_rules && !quantized_rules[op->index], RUSH_VALUE_ERROR, "operation %s cannot have one more rule for quantized tensors", op->name);
        quantized_rules[op->index] = rule->run;
    }
    return 0;
}

static void report(int failed)
{
    if (!failed) return;
    rush_log(0, "%s", rush_error());
    rush_error_clear();
}

static uint32_t own_ops;
bool rush_op_is_added(const rush_op *op) { return op->index >= own_ops; }

__attribute__((constructor(900))) static void register_families(void)
{
    for (rush_op *const *op = __start_rush_ops; op < __stop_rush_ops; ++op)
        if (*op) report(rush_op_register(*op));
    for (rush_op *const *op = __start_rush_sparse_ops; op < __stop_rush_sparse_ops; ++op)
        if (*op) report(adopt_all(*op));
    own_ops = (uint32_t)registry.n;
    if ((quantized_rules = rush_calloc(registry.n, sizeof *quantized_rules))) n_quantized_rules = registry.n;
    for (const rush_quantized_rule *rule = __start_rush_quantized_rules; rule < __stop_rush_quantized_rules; ++rule)
        if (rule->names) report(take_rule(rule));
}

rush_op *rush_op_find(const char *name)
{
    if (!name || !registry.size) return NULL;
    size_t n = strcspn(name, ".");
    rush_op *op = registry.slot[place(registry.slot, registry.size, name, n)];
    while (op && name[n] && strcmp(op->name, name)) op = op->next;
    return op;
}

rush_op *rush_op_first(void)
{
    return registry.n ? registry.all[0] : NULL;
}

rush_op *rush_op_next(const rush_op *op)
{
    size_t k = op ? op->index + 1 : registry.n;
    return k < registry.n ? registry.all[k] : NULL;
}
