/* schedule.c - learning rates as functions of the step. */
#include "base/buried.h"
#include "optim/optim.h"

#include <math.h>

#define PI 3.14159265358979323846

double rush_lr_step(double base, int64_t t, int64_t size, double gamma) { return base * pow(gamma, (double)(t / RUSH_MAX(size, 1))); }

double rush_lr_multistep(double base, int64_t t, rush_ints milestones, double gamma)
{
    if (milestones.n && !milestones.data) return rush_fail(RUSH_TYPE_ERROR, "there are no milestones (NULL)"), base;
    for (size_t i = 0; i < milestones.n; i++)
        if (t >= milestones.data[i]) base *= gamma;
    return base;
}

double rush_lr_exponential(double base, int64_t t, double gamma) { return base * pow(gamma, (double)t); }
double rush_lr_constant(double base, int64_t t, double factor, int64_t total) { return t < total ? base * factor : base; }

double rush_lr_linear(double base, int64_t t, double start, double end, int64_t total)
{
    double part = total > 0 ? (double)RUSH_MIN(t, total) / (double)total : 1;
    return base * (start + (end - start) * part);
}

double rush_lr_polynomial(double base, int64_t t, int64_t total, double power)
{
    return total > 0 ? base * pow(1 - (double)RUSH_MIN(t, total) / (double)total, power) : 0;
}

double rush_lr_cosine(double base, int64_t t, int64_t total, double least)
{
    return least + (base - least) * (1 + cos(PI * (double)t / (double)RUSH_MAX(total, 1))) / 2;
}

double rush_lr_warm_restarts(double base, int64_t t, int64_t first, int64_t factor, double least)
{
    int64_t length = RUSH_MAX(first, 1);
    if (factor <= 1 && t > 0) t %= length;
    while (t >= length) {
        t -= length;
        if (__builtin_mul_overflow(length, factor, &length)) length = INT64_MAX;
    }
    return rush_lr_cosine(base, t, length, least);
}

static double between(double from, double to, double part) { return to + (from - to) / 2 * (1 + cos(PI * part)); }

double rush_lr_one_cycle(double most, int64_t t, int64_t total, double rising, double start_div, double end_div)
{
    double start = most / start_div, end = start / end_div, top = rising * (double)total - 1, last = (double)total - 1;
    double x = fmin((double)t, last);
    if (x <= top) return between(start, most, top > 0 ? x / top : 1);
    return between(most, end, last > top ? (x - top) / (last - top) : 1);
}

double rush_lr_cyclic(double base, double most, int64_t t, int64_t up, int64_t down)
{
    double rise = (double)up, length = fmax(rise + (double)down, 1), x = fmod((double)t, length);
    double part = x <= rise ? (up ? x / rise : 1) : 1 - (x - rise) / (double)RUSH_MAX(down, 1);
    return base + (most - base) * part;
}

void rush_lr_plateau(rush_plateau *s, rush_optim *o, double loss, double factor, int64_t patience, double least)
{
    if (!rush_lives(o, "an optimizer")) return;
    if (!s) {
        rush_fail(RUSH_TYPE_ERROR, "a plateau needs its memory");
        return;
    }
    if (!s->begun || loss < s->best * (1 - 1e-4)) {
        s->best = loss;
        s->bad = 0;
        s->begun = true;
        return;
    }
    if (++s->bad <= patience) return;
    s->bad = 0;
    rush_optim_lr_set(o, fmax(rush_optim_lr(o) * factor, least));
}
