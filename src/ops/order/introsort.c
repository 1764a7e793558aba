/* introsort.c - the sort of the GNU C++ library, swap for swap, and the selections that topk is made of.
 *
 * An unstable sort of PyTorch is std::sort on pairs of element and place, so the places of equal elements tell which swaps it
 * made: quicksort by the median of three until 16 are left, heapsort where that goes too deep, insertion sort at the end.
 * What is done here in another order (introsort.inc) makes the same swaps: parts that do not touch each other, in several
 * threads; the few that are left, part by part; and a partition finds many elements on the wrong side before it exchanges them.
 */
#include "ops/order/introsort.h"
#include "base/base.h"
#include <stdbool.h>

enum {
    FEW = 16,       /* ranges of so many are left to the insertion sort */
    BLOCK = 64,     /* elements that are looked at on a side before any are exchanged */
    PIECES = 256,   /* ranges for threads, at most */
    LONG = 1 << 16
};

typedef struct piece {
    void *p;
    int64_t n;
    int depth;
} piece;

typedef struct pieces {
    int64_t least, n; /* ranges of at most `least` are put here for the threads; 0: none */
    piece piece[PIECES];
} pieces;

#define ITEM rush_pair
#define KEY(x) (x).key
#define NAME(f) f##_pairs
#include "ops/order/introsort.inc"
#undef ITEM
#undef KEY
#undef NAME

#define ITEM uint64_t
#define KEY(x) ((x) >> 32)
#define NAME(f) f##_packed
#include "ops/order/introsort.inc"

void rush_introsort(rush_pair *p, int64_t n) { sort_pairs(p, n); }
void rush_introsort_packed(uint64_t *p, int64_t n) { sort_packed(p, n); }
void rush_introsort_top(rush_pair *p, int64_t n, int64_t k) { top_pairs(p, n, k); }
void rush_introsort_top_packed(uint64_t *p, int64_t n, int64_t k) { top_packed(p, n, k); }
