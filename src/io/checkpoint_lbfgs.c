/* checkpoint_lbfgs.c - the state of LBFGS as PyTorch's state_dict() has it: all of it stands at parameter 0.
 *
 * `old_stps` and `old_dirs` are lists of the steps and of the changes of gradient, one long vector each; `ro` the numbers
 * 1 / (s . y). Tensors are of the first parameter's dtype, here and there; in memory all are doubles.
 */
#include "io/content.h"
#include "optim/optim.h"

#include <math.h>

static rush_content *vector(const rush_optim *o, const double *x, int64_t n, int ndim)
{
    rush_tensor *wide = rush_from_data(x, RUSH_F64, ndim, &n);
    return wide ? rush_content_tensor(rush_cast_copy(wide, o->entry[0].parameter->dtype)) : NULL;
}

static rush_content *rows(const rush_optim *o, const double *x, int64_t n, int ndim)
{
    rush_content *list = rush_content_list();
    for (int k = 0; list && k < o->lbfgs->pairs; k++)
        if (rush_content_append(list, vector(o, x + n * k, n, ndim))) return NULL;
    return list;
}

static rush_content *state_of(const rush_optim *o)
{
    const rush_lbfgs_memory *m = o->lbfgs;
    rush_content *one = rush_content_dict(), *al = rush_content_list();
    for (int k = 0; al && k < m->room; k++)
        if (rush_content_append(al, rush_content_none())) return NULL;
    bool failed = !one || rush_content_set(one, "func_evals", rush_content_int(m->evaluations)) || rush_content_set(one, "n_iter", rush_content_int(m->iterations)) ||
                  rush_content_set(one, "al", al) || rush_content_set(one, "d", vector(o, m->d, m->n, 1)) || rush_content_set(one, "t", rush_content_float(m->t)) ||
                  rush_content_set(one, "old_dirs", rows(o, m->y, m->n, 1)) || rush_content_set(one, "old_stps", rows(o, m->s, m->n, 1)) ||
                  rush_content_set(one, "ro", rows(o, m->rho, 1, 0)) || rush_content_set(one, "H_diag", vector(o, &m->scale, 1, 0)) ||
                  rush_content_set(one, "prev_flat_grad", vector(o, m->g, m->n, 1)) || rush_content_set(one, "prev_loss", rush_content_float(m->loss));
    return failed ? NULL : one;
}

rush_content *rush_content_lbfgs(rush_optim *o)
{
    const rush_lbfgs_memory *m = o->lbfgs;
    rush_content *all = rush_content_dict(), *state = rush_content_dict(), *groups = rush_content_list(), *group = rush_content_dict(), *params = rush_content_list();
    for (int i = 0; params && i < o->n; i++)
        if (rush_content_append(params, rush_content_int(i))) return NULL;
    if (m->iterations && state) {
        rush_content *pair[2] = {rush_content_int(0), state_of(o)};
        if (!pair[0] || !pair[1] || rush_content_add(state, pair, 2)) return NULL;
    }
    bool failed = !group || rush_content_set(group, "lr", rush_content_float(o->lr)) || rush_content_set(group, "max_iter", rush_content_int(m->max_iter)) ||
                  rush_content_set(group, "max_eval", rush_content_int(m->max_eval)) || rush_content_set(group, "tolerance_grad", rush_content_float(m->tolerance_grad)) ||
                  rush_content_set(group, "tolerance_change", rush_content_float(m->tolerance_change)) || rush_content_set(group, "history_size", rush_content_int(m->room)) ||
                  rush_content_set(group, "line_search_fn", m->search ? rush_content_text("strong_wolfe") : rush_content_none()) || rush_content_set(group, "params", params) ||
                  !groups || rush_content_append(groups, group) || !all || rush_content_set(all, "state", state) || rush_content_set(all, "param_groups", groups);
    return failed ? NULL : all;
}

/* ---- and back ---- */

static int number(const rush_content *dict, const char *name, double least, double *to)
{
    double x = 0;
    RUSH_CHECK(!rush_content_number(rush_content_get(dict, name), &x) && x >= least, RUSH_VALUE_ERROR, "'%s' of LBFGS is not there, or no number that it can be", name);
    *to = x;
    return 0;
}

static int count(const rush_content *dict, const char *name, int64_t least, double most, int64_t *to)
{
    double x = 0;
    if (number(dict, name, (double)least, &x)) return -1;
    RUSH_CHECK(x <= most, RUSH_VALUE_ERROR, "'%s' of LBFGS is too large", name);
    *to = (int64_t)x;
    return 0;
}

static int read_vector(const rush_content *x, const char *name, double *to, int64_t n)
{
    RUSH_CHECK(x && x->kind == RUSH_CONTENT_TENSOR && x->t->numel == n, RUSH_VALUE_ERROR, "'%s' of LBFGS is not there, or not of %lld numbers", name, (long long)n);
    const rush_tensor *wide = rush_cast_copy(x->t, RUSH_F64);
    if (wide && n) memcpy(to, rush_ptr(wide), sizeof *to * (size_t)n);
    return wide ? 0 : -1;
}

static int read_rows(const rush_content *dict, const char *name, double *to, int64_t n, size_t pairs)
{
    const rush_content *list = rush_content_get(dict, name);
    RUSH_CHECK(list && list->kind == RUSH_CONTENT_LIST && list->n == pairs, RUSH_VALUE_ERROR, "'%s' of LBFGS is no list of %zu tensors", name, pairs);
    for (size_t k = 0; k < pairs; k++)
        if (read_vector(list->items[k], name, to + n * (int64_t)k, n)) return -1;
    return 0;
}

static int read_options(rush_optim *o, const rush_content *group)
{
    rush_lbfgs_memory *m = o->lbfgs;
    const rush_content *search = rush_content_get(group, "line_search_fn");
    int64_t iter = 0, eval = 0, history = 0;
    if (number(group, "lr", 0, &o->lr) || number(group, "tolerance_grad", 0, &m->tolerance_grad) || number(group, "tolerance_change", 0, &m->tolerance_change) ||
        count(group, "max_iter", 0, INT32_MAX, &iter) || count(group, "max_eval", 0, INT32_MAX, &eval) || count(group, "history_size", 1, 1 << 24, &history))
        return -1;
    m->max_iter = (int)iter;
    m->max_eval = (int)eval;
    m->search = search && search->kind == RUSH_CONTENT_TEXT;
    return rush_lbfgs_room(m, (int)history);
}

int rush_lbfgs_load_content(rush_optim *o, const rush_content *state, const rush_content *group)
{
    rush_lbfgs_memory *m = o->lbfgs;
    if (read_options(o, group)) return -1;
    m->pairs = 0;
    m->iterations = m->evaluations = 0;
    m->scale = 1;
    if (!state->n) return 0;
    RUSH_CHECK(state->n == 2 && state->items[1]->kind == RUSH_CONTENT_DICT, RUSH_VALUE_ERROR, "the state of LBFGS stands at its first parameter");
    const rush_content *one = state->items[1], *steps = rush_content_get(one, "old_stps");
    int64_t iterations = 0;
    if (count(one, "func_evals", 0, 9e15, &m->evaluations) || count(one, "n_iter", 0, 9e15, &iterations)) return -1;
    if (!iterations) return 0; /* the first gradient was small enough: there is nothing else */
    RUSH_CHECK(steps && steps->kind == RUSH_CONTENT_LIST && steps->n <= (size_t)m->room, RUSH_VALUE_ERROR, "'old_stps' of LBFGS is no list, or longer than its history");
    if (number(one, "t", -INFINITY, &m->t) || number(one, "prev_loss", -INFINITY, &m->loss) ||
        read_vector(rush_content_get(one, "d"), "d", m->d, m->n) || read_vector(rush_content_get(one, "prev_flat_grad"), "prev_flat_grad", m->g, m->n) ||
        read_rows(one, "old_stps", m->s, m->n, steps->n) || read_rows(one, "old_dirs", m->y, m->n, steps->n) || read_rows(one, "ro", m->rho, 1, steps->n))
        return -1;
    const rush_content *scale = rush_content_get(one, "H_diag"); /* a number until there is a pair */
    if (rush_content_number(scale, &m->scale)) return rush_fail(RUSH_VALUE_ERROR, "'H_diag' of LBFGS is no number");
    m->pairs = (int)steps->n;
    m->iterations = iterations;
    return 0;
}
