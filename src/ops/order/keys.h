/* keys.h - elements of any real type as 64-bit keys whose order is the elements', and the sorting of such keys. */
#ifndef RUSH_OPS_KEYS_H
#define RUSH_OPS_KEYS_H

#include "op/op.h"

/* Key of each element in row-major order, in the scope's memory; NULL and an error. -0 is 0, NaN is above everything.
 * Keys of two tensors compare if both are integers or both are floats; `as_float` makes integers' keys floats'. */
uint64_t *rush_keys(const rush_tensor *, bool as_float);
#define RUSH_KEY_NAN 0xfff8000000000000u
/* Sorts keys, and with them where each came from (NULL: who cares); stable. -1 and an error. */
int rush_keys_sort(uint64_t *key, int64_t *from, int64_t n);

/* How many of n sorted keys are smaller than this one (or, right, not larger), found without jumps. */
static inline int64_t rush_keys_place(const uint64_t *sorted, int64_t n, uint64_t key, bool right)
{
    const uint64_t *at = sorted;
    if (!n) return 0;
    if (right)
        for (; n > 1; n -= n / 2) at += n / 2 & -(int64_t)(at[n / 2 - 1] <= key);
    else
        for (; n > 1; n -= n / 2) at += n / 2 & -(int64_t)(at[n / 2 - 1] < key);
    return at - sorted + (right ? *at <= key : *at < key);
}

#endif
