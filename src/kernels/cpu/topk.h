/* topk.h - the few best of many: rows of contiguous elements, each read once. */
#ifndef RUSH_TOPK_H
#define RUSH_TOPK_H

#include "kernels/cpu/isa.h"

enum { TOPK_F32, TOPK_F64, TOPK_I32, TOPK_I64, TOPK_TYPES };

struct rush_topk_kernels {
    /* The k largest (or smallest) of n >= k elements in order, with their places; of equal ones those that std::partial_sort finds. NaN is the largest. */
    void (*best[TOPK_TYPES])(const void *x, int64_t n, int64_t k, bool largest, void *values, int64_t *places);
};
RUSH_KERNEL_TABLE(topk);

#endif
