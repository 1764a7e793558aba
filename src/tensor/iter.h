/* iter.h - walk several strided tensors of one broadcast shape in step.
 *
 * Operands 0..nout-1 are written, the rest read. Dimensions are sorted by stride and merged where
 * that is possible; the innermost goes to the loop as (pointers, byte strides, n). An operand whose
 * dtype is not the one that the loop computes in is converted block-wise at the edge, so half types,
 * mixed dtypes and conjugated tensors cost no loops of their own.
 *
 * Most callers want rush_iterate(), which does it all and is quick for small contiguous operands.
 */
#ifndef RUSH_ITER_H
#define RUSH_ITER_H

#include "tensor/tensor.h"

#define RUSH_OPERANDS 10

/* p[k] and stride[k] (bytes) of operand k; n elements. Must be free to run on any thread and leave p alone. */
typedef void (*rush_loop)(char **p, const int64_t *stride, int64_t n, const void *arg);
/* Rows of n elements, each `next[k]` bytes after the one before it. */
typedef void (*rush_rows_loop)(char *const *p, const int64_t *next, int64_t rows, int64_t n, const void *arg);

typedef struct rush_iter {
    int nout, nop, ndim;
    int64_t numel;
    int64_t size[RUSH_MAXDIM];                  /* innermost first */
    int64_t stride[RUSH_OPERANDS][RUSH_MAXDIM]; /* bytes */
    char *data[RUSH_OPERANDS];
    uint8_t own[RUSH_OPERANDS];     /* dtype in memory         */
    uint8_t compute[RUSH_OPERANDS]; /* dtype the loop sees     */
    uint8_t lazy[RUSH_OPERANDS];    /* RUSH_T_CONJ / RUSH_T_NEG of operands */
    bool casts;                     /* some operand needs the block-wise edge */
    rush_rows_loop rows;            /* may be set after init: the loop for many rows whose elements lie together */
    _Alignas(16) char number[RUSH_OPERANDS][16]; /* operands that are numbers, already converted */
} rush_iter;

/* Operands as values: tensors or numbers (inputs only). `compute[k]` is the dtype wanted by the loop for
 * operand k. All outputs have the broadcast shape already (without outputs it is the inputs' broadcast shape).
 * Returns -1 with an error on shapes that differ. Overlapping memory is the caller's to refuse. */
int rush_iter_init(rush_iter *, int nout, int nop, const rush_value *operand, const uint8_t *compute);
/* Runs over everything, in parallel where it pays (grain: elements per piece, 0: the default 32768). */
void rush_iter_run(rush_iter *, rush_loop, const void *arg, int64_t grain);
/* Both at once. Contiguous operands of the right dtypes go straight to the loop. */
int rush_iterate(int nout, int nop, const rush_value *operand, const uint8_t *compute, rush_loop, const void *arg,
                 int64_t grain);

/* Visit every 1-d line along `dim` of tensors that agree in all other dims: fn gets pointers to the starts of
 * the lines (one per tensor). Lines are independent and run in parallel (grain: lines per piece, 0: lines that
 * make about 32768 elements of the first tensor). */
typedef void (*rush_line_fn)(char **p, const void *arg);
void rush_lines(int n, rush_tensor *const *ts, int dim, int64_t grain, rush_line_fn fn, const void *arg);

/* A number value as one element of any dtype. */
RUSH_PY void rush_number_store(void *dst, rush_dtype, rush_value);

/* What src/kernels/cpu/copy.c offers to this room. */
struct rush_copy_kernels {
    void (*convert)(void *dst, rush_dtype, int64_t dstride, const void *src, rush_dtype, int64_t sstride, int64_t n);
    /* rows of so many bytes; row strides in bytes */
    void (*rows)(char *dst, int64_t dst_row, const char *src, int64_t src_row, int64_t rows, int64_t bytes);
    /* dst[i][j] = src[j][i] for i < rows, j < cols of elements of `size` bytes; row strides in bytes */
    void (*transpose)(char *dst, int64_t dst_row, const char *src, int64_t src_row, int64_t rows, int64_t cols, size_t size);
    /* in place, for lazily conjugated or negated blocks of float and complex types */
    void (*lazy)(void *p, rush_dtype, int64_t n, int flags);
};
extern const struct rush_copy_kernels *rush_k_copy;

/* rush_convert() for many elements */
static inline void rush_convert_many(void *dst, rush_dtype dd, int64_t ds, const void *src, rush_dtype sd, int64_t ss, int64_t n)
{
    rush_k_copy->convert(dst, dd, ds, src, sd, ss, n);
}

#endif
