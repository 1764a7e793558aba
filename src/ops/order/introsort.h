/* introsort.h - pairs of a key and the place it came from, and the sort that PyTorch's order of equal elements follows from. */
#ifndef RUSH_OPS_INTROSORT_H
#define RUSH_OPS_INTROSORT_H

#include <stdint.h>

typedef struct rush_pair {
    uint64_t key;
    int64_t at;
} rush_pair;

/* By key; equal keys end in the order in which std::sort leaves them. Long ones by all threads. */
void rush_introsort(rush_pair *, int64_t n);
/* The same of pairs in one word each: the key in the upper half, the place in the lower. */
void rush_introsort_packed(uint64_t *, int64_t n);
/* The k <= n least ones to the front and in order, equal ones where PyTorch's topk finds them. */
void rush_introsort_top(rush_pair *, int64_t n, int64_t k);
void rush_introsort_top_packed(uint64_t *, int64_t n, int64_t k);

#endif
