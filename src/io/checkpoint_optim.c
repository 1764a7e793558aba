/* checkpoint_optim.c - optimizers as PyTorch's state_dict() has them: state by the number of the parameter, and groups of options.
 *
 * A kind of optimizer lists the options of its groups in PyTorch's order (rush_optim_kind.group), one word each: `eps` a number,
 * `amsgrad!` a bool, `betas=beta1,beta2` a tuple, `foreach-` None, `capturable~` and `capturable+` always False and True. C's
 * optimizers have one group; a file may have several, if their options are equal.
 */
#include "base/buried.h"
#include "io/content.h"
#include "optim/optim.h"

#include <stdio.h>

typedef struct word {
    char name[40], part[2][24]; /* the options of the operator that it stands for */
    char mark;                  /* 0: a number; or = ! - ~ + */
} word;

/* The next word of a list, or false at its end. */
static bool next_word(const char **at, word *w)
{
    char text[96];
    *at += strspn(*at, " ");
    size_t n = strcspn(*at, " ");
    if (!n || n >= sizeof text) return false;
    memcpy(text, *at, n);
    text[n] = 0;
    *at += n;
    *w = (word){.mark = 0};
    char *parts = strchr(text, '=');
    if (parts) {
        *parts = 0;
        w->mark = '=';
        sscanf(parts + 1, "%23[^,],%23s", w->part[0], w->part[1]);
    } else if (strchr("!-~+", text[n - 1])) {
        w->mark = text[n - 1];
        text[n - 1] = 0;
    }
    snprintf(w->name, sizeof w->name, "%.39s", text);
    if (!parts) snprintf(w->part[0], sizeof w->part[0], "%.23s", text);
    return true;
}

static double *option(rush_optim *o, const char *name)
{
    if (!strcmp(name, "lr")) return &o->lr;
    for (int i = 0; i < o->noptions; i++)
        if (!strcmp(o->option[i].name, name)) return &o->option[i].value;
    return NULL;
}

static double value_of(rush_optim *o, const char *name)
{
    const double *x = option(o, name);
    return x ? *x : 0;
}

static int set_number(rush_content *dict, int64_t key, rush_content *x)
{
    rush_content *pair[2] = {rush_content_int(key), x};
    return pair[0] && x ? rush_content_add(dict, pair, 2) : -1;
}

static rush_content *group_of(rush_optim *o)
{
    rush_content *group = rush_content_dict(), *params = rush_content_list();
    word w;
    for (const char *at = o->kind->group; group && next_word(&at, &w);) {
        rush_content *x;
        if (w.mark == '=') {
            x = rush_content_tuple();
            for (int k = 0; x && k < 2; k++)
                if (rush_content_append(x, rush_content_float(value_of(o, w.part[k])))) return NULL;
        } else if (w.mark == '-') {
            x = rush_content_none();
        } else {
            x = w.mark ? rush_content_bool(w.mark == '!' ? value_of(o, w.part[0]) != 0 : w.mark == '+') : rush_content_float(value_of(o, w.part[0]));
        }
        if (rush_content_set(group, w.name, x)) return NULL;
    }
    for (int i = 0; params && i < o->n; i++)
        if (rush_content_append(params, rush_content_int(i))) return NULL;
    return params && group && !rush_content_set(group, "params", params) ? group : NULL;
}

rush_content *rush_content_optim(rush_optim *o)
{
    if (rush_failed()) return NULL;
    if (!rush_lives(o, "an optimizer")) return NULL;
    if (o->lbfgs) return rush_content_lbfgs(o);
    rush_content *all = rush_content_dict(), *state = rush_content_dict(), *groups = rush_content_list(), *group = group_of(o);
    for (int i = 0; state && i < o->n; i++) {
        const rush_optim_entry *e = &o->entry[i];
        rush_content *one = e->begun ? rush_content_dict() : NULL;
        if (!e->begun) continue;
        if (!o->kind->first_apart && rush_content_set(one, "step", rush_content_tensor(e->step))) return NULL;
        for (int k = 0; k < RUSH_OPTIM_STATES; k++)
            if (e->state[k] && rush_content_set(one, o->kind->state[k].name, rush_content_tensor(e->state[k]))) return NULL;
        if (set_number(state, i, one)) return NULL;
    }
    if (!all || !group || rush_content_append(groups, group) || rush_content_set(all, "state", state) || rush_content_set(all, "param_groups", groups)) return NULL;
    return all;
}

/* ---- and back ---- */

static int wrong(const char *what) { return rush_fail(RUSH_VALUE_ERROR, "this is no state of an optimizer: %s", what); }

int rush_content_number(const rush_content *x, double *to)
{
    if (!x) return -1;
    switch (x->kind) {
    case RUSH_CONTENT_NONE: *to = 0; return 0;
    case RUSH_CONTENT_BOOL:
    case RUSH_CONTENT_INT: *to = (double)x->i; return 0;
    case RUSH_CONTENT_FLOAT: *to = x->f; return 0;
    case RUSH_CONTENT_TENSOR: *to = rush_item(x->t); return rush_failed() ? -1 : 0;
    default: return -1;
    }
}

/* The options of one group; of the first one they are taken, later ones must have the same. */
static int read_group(rush_optim *o, const rush_content *group, bool first)
{
    word w;
    for (const char *at = o->kind->group; next_word(&at, &w);) {
        if (w.mark && !strchr("=!", w.mark)) continue;
        const rush_content *x = rush_content_get(group, w.name);
        for (int k = 0; x && k < (w.mark == '=' ? 2 : 1); k++) {
            double value, *to = option(o, w.part[k]);
            bool pair = w.mark == '=';
            RUSH_CHECK(!pair || ((x->kind == RUSH_CONTENT_TUPLE || x->kind == RUSH_CONTENT_LIST) && x->n == 2), RUSH_VALUE_ERROR, "option '%s' must be two numbers", w.name);
            if (rush_content_number(pair ? x->items[k] : x, &value)) return rush_failed() ? -1 : rush_fail(RUSH_VALUE_ERROR, "option '%s' must be a number", w.name);
            RUSH_CHECK(first || !to || *to == value, RUSH_NOT_IMPLEMENTED, "groups with different options: '%s' is %g and %g", w.name, *to, value);
            if (to) *to = value;
        }
    }
    return 0;
}

static const rush_content *state_of(const rush_content *state, int64_t number)
{
    for (size_t i = 0; i + 1 < state->n; i += 2)
        if (state->items[i]->kind == RUSH_CONTENT_INT && state->items[i]->i == number) return state->items[i + 1];
    return NULL;
}

static int read_entry(rush_optim *o, int i, const rush_content *one)
{
    rush_optim_entry *e = &o->entry[i];
    RUSH_CHECK(one->kind == RUSH_CONTENT_DICT, RUSH_VALUE_ERROR, "the state of parameter %d is no dict", i);
    for (int k = 0; k < RUSH_OPTIM_STATES && o->kind->state[k].name; k++) {
        const rush_content *x = rush_content_get(one, o->kind->state[k].name);
        o->uses[k] = x && x->kind == RUSH_CONTENT_TENSOR;
        RUSH_CHECK(o->uses[k] || o->kind->state[k].optional, RUSH_VALUE_ERROR, "the state of parameter %d has no '%s'", i, o->kind->state[k].name);
    }
    if (rush_optim_begin(o, e)) return -1;
    for (int k = -1; k < RUSH_OPTIM_STATES; k++) {
        rush_tensor *to = k < 0 ? e->step : o->uses[k] ? e->state[k] : NULL;
        const char *name = k < 0 ? "step" : o->kind->state[k].name;
        const rush_content *x = to ? rush_content_get(one, name) : NULL;
        double count;
        if (!x) continue;
        if (x->kind != RUSH_CONTENT_TENSOR) { /* files of older versions have plain numbers */
            RUSH_CHECK(to->numel == 1 && !rush_content_number(x, &count), RUSH_VALUE_ERROR, "'%s' of parameter %d is no tensor", name, i);
            x = rush_content_tensor(rush_tensor_of_number_typed(rush_v_float(count), to->dtype));
            if (!x) return -1;
        }
        RUSH_CHECK(rush_same_sizes(x->t, to), RUSH_VALUE_ERROR, "'%s' of parameter %d has size %s, not %s", name, i, rush_shape_of(x->t), rush_shape_of(to));
        if (rush_copy_into(to, x->t)) return -1;
    }
    return 0;
}

int rush_optim_load_content(rush_optim *o, const rush_content *from)
{
    if (rush_failed()) return -1;
    if (!rush_lives(o, "an optimizer") || !rush_content_given(from)) return -1;
    const rush_content *state = rush_content_get(from, "state"), *groups = rush_content_get(from, "param_groups");
    if (!state || state->kind != RUSH_CONTENT_DICT || !groups || groups->kind != RUSH_CONTENT_LIST || !groups->n) return wrong("it has no 'state' and 'param_groups'");
    int have = 0;
    size_t used = 0;
    for (size_t g = 0; g < groups->n; g++) {
        const rush_content *params = groups->items[g]->kind == RUSH_CONTENT_DICT ? rush_content_get(groups->items[g], "params") : NULL;
        if (!params || params->kind != RUSH_CONTENT_LIST) return wrong("a group has no list of parameters");
        have += (int)params->n;
    }
    RUSH_CHECK(have == o->n, RUSH_VALUE_ERROR, "the state is of %d parameters, the optimizer has %d", have, o->n);
    if (o->lbfgs) return groups->n > 1 ? wrong("LBFGS has one group") : rush_lbfgs_load_content(o, state, groups->items[0]);
    for (size_t g = 0; g < groups->n; g++)
        if (read_group(o, groups->items[g], g == 0)) return -1;
    for (size_t g = 0, i = 0; g < groups->n; g++) {
        const rush_content *params = rush_content_get(groups->items[g], "params");
        for (size_t k = 0; k < params->n; k++, i++) {
            if (params->items[k]->kind != RUSH_CONTENT_INT) return wrong("a parameter has no number");
            const rush_content *one = state_of(state, params->items[k]->i);
            used += one != NULL;
            if (one && read_entry(o, (int)i, one)) return -1;
        }
    }
    RUSH_CHECK(used == state->n / 2, RUSH_VALUE_ERROR, "%zu of %zu states belong to no parameter", state->n / 2 - used, state->n / 2);
    return 0;
}
