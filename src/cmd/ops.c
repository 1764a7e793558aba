/* ops.c - `rushlight ops`: schemas, how C and Python call an operation, and names that are near to what was asked for. */
#include "cmd/cmd.h"
#include <rushlight.h>
#include <stdio.h>
#include <string.h>

static bool shown(const rush_op *op) { return !(op->flags & RUSH_HIDDEN); }

static void print_default(const rush_arg *a)
{
    const rush_value *d = &a->def;
    if (a->list && d->kind == RUSH_V_INTS && d->n) {
        for (uint32_t k = 0; k < d->n; k++) printf("%s%lld", k ? ", " : "RUSH_INTS(", (long long)d->ints[k]);
        printf(")");
    } else if (a->list) printf("{0}");
    else if (d->kind == RUSH_V_STRING) printf("\"%s\"", d->s);
    else if (d->kind == RUSH_V_FLOAT) printf("%g", d->f);
    else if (d->kind == RUSH_V_BOOL) printf(d->i ? "true" : "false");
    else if (d->kind == RUSH_V_INT) printf(a->type == RUSH_A_SCALAR || a->optional ? "RUSH_V(%lld)" : "%lld", (long long)d->i);
    else printf(a->type == RUSH_A_TENSOR || a->type == RUSH_A_STRING || a->type == RUSH_A_GENERATOR ? "NULL" : "RUSH_NONE");
}

/* Everything that C can say, with the defaults. */
static void print_c(const rush_op *op)
{
    const char *name = rush_op_c_name(op);
    if (!name) return;
    printf("    C:      %s(", name);
    int n = 0;
    for (int i = 0; i < op->nargs; i++)
        if (!op->args[i].has_default) printf("%s%s", n++ ? ", " : "", op->args[i].name);
    for (int i = 0; i < op->nargs; i++)
        if (op->args[i].has_default) {
            printf("%s.%s = ", n++ ? ", " : "", op->args[i].name);
            print_default(&op->args[i]);
        }
    printf(")\n");
}

static void print_python(const rush_op *op)
{
    static const char *const spaces[] = {"linalg_", "fft_", "special_"};
    if (op->name[0] == '_' || strchr(op->base, ':') || op->method & RUSH_NO_FUNCTION) return;
    const char *base = op->base;
    printf("    Python: torch.");
    if (op->method & RUSH_NN) printf("nn.functional.");
    for (size_t k = 0; k < sizeof spaces / sizeof *spaces; k++)
        if (!strncmp(base, spaces[k], strlen(spaces[k]))) {
            printf("%.*s.", (int)strlen(spaces[k]) - 1, base);
            base += strlen(spaces[k]);
            break;
        }
    printf("%s(", base);
    for (int i = 0, n = 0; i < op->nargs; i++)
        if (!op->args[i].has_default) printf("%s%s", n++ ? ", " : "", !i && !strcmp(op->args[i].name, "self") ? "input" : op->args[i].name);
    printf(")\n");
}

static void describe(const rush_op *op)
{
    printf("%s\n    %s\n", op->schema, op->doc ? op->doc : "");
    print_c(op);
    print_python(op);
}

/* How many letters are to be added, removed or changed, at most `room` long. */
static size_t distance(const char *a, const char *b)
{
    enum { ROOM = 64 };
    size_t n = strlen(a), m = strlen(b), row[ROOM];
    if (m >= ROOM) return ROOM;
    for (size_t j = 0; j <= m; j++) row[j] = j;
    for (size_t i = 1; i <= n; i++) {
        size_t corner = row[0];
        row[0] = i;
        for (size_t j = 1; j <= m; j++) {
            size_t change = corner + (a[i - 1] != b[j - 1]), best = row[j] < row[j - 1] ? row[j] : row[j - 1];
            corner = row[j];
            row[j] = change < best + 1 ? change : best + 1;
        }
    }
    return row[m];
}

/* Operations whose name holds the word, then those that differ by a letter or two. */
static int suggest(const char *word)
{
    int found = 0;
    for (int near = 0; near < 2 && !found; near++)
        for (const rush_op *op = rush_op_first(); op; op = rush_op_next(op)) {
            if (!shown(op) || op->name[0] == '_' || rush_op_find(op->base) != op) continue; /* each name once */
            if (near ? distance(word, op->base) > (strlen(word) > 4 ? 2 : 1) : !strstr(op->base, word)) continue;
            if (!found++) fprintf(stderr, "rushlight: no operation is called %s; there are\n", word);
            const char *c = rush_op_c_name(op);
            fprintf(stderr, "    %-32s %s\n", op->base, c ? c : "");
        }
    if (!found) fprintf(stderr, "rushlight: no operation is called %s, and none has a name like it\n", word);
    return 1;
}

int rush_cmd_ops(int n, char **args)
{
    if ((n = rush_options_read("ops", &(rush_option){0}, 1, n, args)) < 0) return n;
    const char *name = args[0];
    if (name && !strncmp(name, "rush_", 5)) { /* by its name in C */
        for (const rush_op *op = rush_op_first(); op; op = rush_op_next(op)) {
            const char *c = rush_op_c_name(op);
            if (c && !strcmp(c, name)) return describe(op), 0;
        }
        name += 5;
    }
    bool all = name && !strcmp(name, "*"); /* each, described */
    if (name && !all && !rush_op_find(name)) return suggest(name);
    for (const rush_op *op = rush_op_first(); op; op = rush_op_next(op))
        if (!name) shown(op) ? printf("%s\n", op->schema) : 0;
        else if (all ? shown(op) : strchr(name, '.') ? op == rush_op_find(name) : !strcmp(op->base, name)) describe(op);
    return 0;
}
