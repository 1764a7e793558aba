/* topk.c - topk.inc for four types. */
#include "kernels/cpu/topk.h"

#define T float
#define NAME(x) x##f32
#define NAN_(x) ((x) != (x))
#include "kernels/cpu/topk.inc"

#define T double
#define NAME(x) x##f64
#define NAN_(x) ((x) != (x))
#include "kernels/cpu/topk.inc"

#define T int32_t
#define NAME(x) x##i32
#define NAN_(x) 0
#include "kernels/cpu/topk.inc"

#define T int64_t
#define NAME(x) x##i64
#define NAN_(x) 0
#include "kernels/cpu/topk.inc"

RUSH_KERNELS(topk) = {.best = {best_f32, best_f64, best_i32, best_i64}};
