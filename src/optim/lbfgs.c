/* lbfgs.c - limited-memory BFGS: the direction from the last pairs of steps and changes of gradient.
 *
 * All parameters are one long vector of doubles here. Nocedal and Wright, Numerical optimization, chapters 3 (the
 * search along a line for a point that fulfils the strong Wolfe conditions) and 7 (the two loops).
 */
#include "optim/optim.h"

#include <math.h>

void rush_lbfgs_free(rush_lbfgs_memory *m)
{
    rush_free(m->s);
    rush_free(m->y);
    rush_free(m->rho);
    rush_free(m->d);
    rush_free(m->g);
    rush_free(m);
}

static const rush_optim_kind lbfgs = {.op = "lbfgs"};

rush_optim *rush_lbfgs_with(rush_tensors p, const rush_lbfgs_options *s)
{
    s = RUSH_OPTIONS(s);
    RUSH_CHECK_NULL(s->history >= 0 && s->max_iter >= 0 && s->max_eval >= 0, RUSH_TYPE_ERROR, "LBFGS: counts are not negative");
    rush_optim *o = rush_optim_new(&lbfgs, p);
    if (!o) return NULL;
    rush_lbfgs_memory *m = o->lbfgs = rush_calloc(1, sizeof *m);
    if (!m) return NULL;
    for (size_t i = 0; i < p.n; i++) m->n += p.data[i]->numel;
    o->lr = RUSH_OPTION(s, lr, 1);
    m->tolerance_grad = RUSH_OPTION(s, tolerance_grad, 1e-7);
    m->tolerance_change = RUSH_OPTION(s, tolerance_change, 1e-9);
    m->max_iter = s->max_iter ? s->max_iter : 20;
    m->max_eval = s->max_eval ? s->max_eval : m->max_iter * 5 / 4;
    m->room = s->history ? s->history : 100;
    m->search = s->line_search;
    m->scale = 1;
    m->d = rush_calloc((size_t)m->n, sizeof *m->d);
    m->g = rush_calloc((size_t)m->n, sizeof *m->g);
    return rush_lbfgs_room(m, m->room) || !m->d || !m->g ? NULL : o;
}

int rush_lbfgs_room(rush_lbfgs_memory *m, int room)
{
    size_t row = (size_t)m->n * sizeof(double);
    double **list[] = {&m->s, &m->y, &m->rho};
    RUSH_CHECK(room > 0 && (!row || (size_t)room < SIZE_MAX / 2 / row), RUSH_VALUE_ERROR, "LBFGS of %lld numbers with a history of %d", (long long)m->n, room);
    for (int i = 0; i < 3; i++) {
        double *more = rush_realloc(*list[i], (size_t)room * (i < 2 ? row : sizeof(double)));
        if (!more) return -1;
        *list[i] = more;
    }
    m->room = room;
    m->pairs = RUSH_MIN(m->pairs, room);
    return 0;
}

/* ---- the long vector ---- */

static double dot(const double *a, const double *b, int64_t n)
{
    double sum = 0;
    for (int64_t i = 0; i < n; i++) sum += a[i] * b[i];
    return sum;
}

static double largest(const double *a, int64_t n)
{
    double most = 0;
    for (int64_t i = 0; i < n; i++) most = fmax(most, fabs(a[i]));
    return most;
}

static void gather(const rush_optim *o, double *to, bool gradient)
{
    for (int i = 0; i < o->n; i++) {
        rush_tensor *p = o->entry[i].parameter, *t = gradient ? rush_grad(p) : p;
        const rush_tensor *c = t ? rush_cast_copy(t, RUSH_F64) : NULL;
        if (!p->numel) continue;
        if (c) memcpy(to, rush_ptr(c), sizeof *to * (size_t)p->numel);
        else memset(to, 0, sizeof *to * (size_t)p->numel);
        to += p->numel;
    }
}

static void scatter(rush_optim *o, const double *from)
{
    for (int i = 0; i < o->n; i++) {
        rush_tensor *p = o->entry[i].parameter, *c = rush_tensor_new(RUSH_F64, p->device, p->ndim, p->size);
        if (!c) return;
        if (!p->numel) continue;
        memcpy(rush_ptr(c), from, sizeof *from * (size_t)p->numel);
        if (rush_copy_into(p, c)) return;
        rush_version_bump(p);
        from += p->numel;
    }
}

typedef struct problem {
    rush_optim *o;
    rush_tensor *(*loss_of)(void *);
    void *arg;
    double *x, *at; /* where the line begins; a point on it */
    int evaluations;
} problem;

/* The loss at x + t d, its gradient into g. */
static double evaluate(problem *q, double t, const double *d, double *g)
{
    rush_lbfgs_memory *m = q->o->lbfgs;
    size_t mark = rush_scope_open();
    for (int64_t i = 0; i < m->n; i++) q->at[i] = q->x[i] + t * d[i];
    scatter(q->o, q->at);
    rush_optim_zero_grad(q->o);
    bool grad = rush_grad_enabled_set(true);
    rush_tensor *loss = q->loss_of(q->arg);
    rush_grad_enabled_set(grad);
    double f = loss ? rush_item(loss) : NAN;
    gather(q->o, g, true);
    q->evaluations++;
    rush_scope_close(mark);
    return f;
}

/* Minimum of the cubic through two points with slopes, kept within [low, high]. */
static double cubic(double x1, double f1, double g1, double x2, double f2, double g2, double low, double high)
{
    double d1 = g1 + g2 - 3 * (f1 - f2) / (x1 - x2), square = d1 * d1 - g1 * g2;
    if (!(square >= 0)) return (low + high) / 2;
    double d2 = sqrt(square), x = x1 <= x2 ? x2 - (x2 - x1) * ((g2 + d2 - d1) / (g2 - g1 + 2 * d2)) : x1 - (x1 - x2) * ((g1 + d2 - d1) / (g1 - g2 + 2 * d2));
    return fmin(fmax(x, low), high);
}

/* A step t along d that fulfils the strong Wolfe conditions; g and *f are of that point afterwards. */
static double search(problem *q, double t, const double *d, double *f, double *g, double slope, double *room)
{
    const double c1 = 1e-4, c2 = 0.9;
    int64_t n = q->o->lbfgs->n;
    double f0 = *f, before_t = 0, before_f = f0, before_slope = slope, *g_low = room, *g_new = room + n;
    double low = 0, f_low = f0, slope_low = slope, high = 0, f_high = 0, slope_high = 0;
    bool bracketed = false;
    memcpy(g_low, g, sizeof *g * (size_t)n);
    for (int k = 0; k < 25 && !rush_failed(); k++) {
        double f_new = evaluate(q, t, d, g_new), slope_new = dot(g_new, d, n);
        bool too_high = f_new > f0 + c1 * t * slope || !(f_new == f_new) || (k > 0 && f_new >= before_f);
        if (!too_high && fabs(slope_new) <= -c2 * slope) {
            *f = f_new;
            memcpy(g, g_new, sizeof *g * (size_t)n);
            return t;
        }
        if (too_high || slope_new >= 0) {
            low = too_high ? before_t : t, f_low = too_high ? before_f : f_new, slope_low = too_high ? before_slope : slope_new;
            high = too_high ? t : before_t, f_high = too_high ? f_new : before_f, slope_high = too_high ? slope_new : before_slope;
            if (!too_high) memcpy(g_low, g_new, sizeof *g * (size_t)n);
            bracketed = true;
            break;
        }
        double next = cubic(before_t, before_f, before_slope, t, f_new, slope_new, t + 0.01 * (t - before_t), t * 10);
        before_t = t, before_f = f_new, before_slope = slope_new;
        memcpy(g_low, g_new, sizeof *g * (size_t)n);
        t = next;
    }
    for (int k = 0; k < 25 && bracketed && !rush_failed(); k++) {
        double a = fmin(low, high), b = fmax(low, high);
        if ((b - a) * largest(d, n) < q->o->lbfgs->tolerance_change) break;
        t = cubic(low, f_low, slope_low, high, f_high, slope_high, a, b);
        double margin = 0.1 * (b - a);
        t = fmin(fmax(t, a + margin), b - margin); /* not too near an end, or the bracket would not shrink */
        double f_new = evaluate(q, t, d, g_new), slope_new = dot(g_new, d, n);
        if (f_new > f0 + c1 * t * slope || f_new >= f_low || !(f_new == f_new)) {
            high = t, f_high = f_new, slope_high = slope_new;
            continue;
        }
        if (fabs(slope_new) <= -c2 * slope) {
            *f = f_new;
            memcpy(g, g_new, sizeof *g * (size_t)n);
            return t;
        }
        if (slope_new * (high - low) >= 0) high = low, f_high = f_low, slope_high = slope_low;
        low = t, f_low = f_new, slope_low = slope_new;
        memcpy(g_low, g_new, sizeof *g * (size_t)n);
    }
    *f = f_low;
    memcpy(g, g_low, sizeof *g * (size_t)n);
    return low;
}

/* ---- the step ---- */

static void remember(rush_lbfgs_memory *m, const double *step, const double *change, double sy)
{
    size_t n = (size_t)m->n;
    if (m->pairs == m->room) {
        memmove(m->s, m->s + n, sizeof(double) * n * (size_t)(m->room - 1));
        memmove(m->y, m->y + n, sizeof(double) * n * (size_t)(m->room - 1));
        memmove(m->rho, m->rho + 1, sizeof(double) * (size_t)(m->room - 1));
        m->pairs--;
    }
    memcpy(m->s + n * (size_t)m->pairs, step, sizeof(double) * n);
    memcpy(m->y + n * (size_t)m->pairs, change, sizeof(double) * n);
    m->rho[m->pairs++] = 1 / sy;
    m->scale = sy / dot(change, change, m->n);
}

static void two_loops(rush_lbfgs_memory *m, const double *g, double *weight)
{
    int64_t n = m->n;
    for (int64_t i = 0; i < n; i++) m->d[i] = -g[i];
    for (int k = m->pairs - 1; k >= 0; k--) {
        const double *s = m->s + n * k, *y = m->y + n * k;
        weight[k] = dot(s, m->d, n) * m->rho[k];
        for (int64_t i = 0; i < n; i++) m->d[i] -= weight[k] * y[i];
    }
    for (int64_t i = 0; i < n; i++) m->d[i] *= m->scale;
    for (int k = 0; k < m->pairs; k++) {
        const double *s = m->s + n * k, *y = m->y + n * k;
        double by = weight[k] - dot(y, m->d, n) * m->rho[k];
        for (int64_t i = 0; i < n; i++) m->d[i] += by * s[i];
    }
}

double rush_lbfgs_step(rush_optim *o, rush_tensor *(*loss_of)(void *), void *arg)
{
    rush_lbfgs_memory *m = o->lbfgs;
    int64_t n = m->n;
    double *room = rush_malloc(sizeof(double) * (size_t)(6 * n + m->room));
    if (!room) return NAN;
    double *x = room, *g = room + n, *change = room + 2 * n, *line = room + 3 * n, *weight = room + 6 * n;
    problem q = {o, loss_of, arg, x, room + 5 * n, 0};
    size_t mark = rush_scope_open();
    bool grad = rush_grad_enabled_set(false);
    gather(o, x, false);
    memset(change, 0, sizeof *change * (size_t)n);
    double f = evaluate(&q, 0, change, g), first = f, sum = 0;
    for (int k = 0; k < m->max_iter && !rush_failed() && largest(g, n) > m->tolerance_grad && q.evaluations < m->max_eval + m->search * 1000; k++) {
        if (m->iterations++) {
            for (int64_t i = 0; i < n; i++) {
                change[i] = g[i] - m->g[i];
                line[i] = m->d[i] * m->t;
            }
            double sy = dot(change, line, n);
            if (sy > 1e-10) remember(m, line, change, sy);
        }
        two_loops(m, g, weight);
        sum = 0;
        for (int64_t i = 0; i < n; i++) sum += fabs(g[i]);
        m->t = m->iterations == 1 ? fmin(1, 1 / sum) * o->lr : o->lr;
        double slope = dot(g, m->d, n), before = f;
        memcpy(m->g, g, sizeof *g * (size_t)n);
        if (slope > -m->tolerance_change) break;
        if (m->search) {
            m->t = search(&q, m->t, m->d, &f, g, slope, line);
        } else if (k + 1 < m->max_iter) {
            f = evaluate(&q, m->t, m->d, g);
        }
        for (int64_t i = 0; i < n; i++) x[i] += m->t * m->d[i];
        scatter(o, x);
        if (m->t * largest(m->d, n) <= m->tolerance_change || fabs(f - before) < m->tolerance_change) break;
    }
    scatter(o, x);
    rush_grad_enabled_set(grad);
    rush_scope_close(mark);
    m->evaluations += q.evaluations;
    m->loss = f;
    rush_free(room);
    return rush_failed() ? NAN : first;
}
