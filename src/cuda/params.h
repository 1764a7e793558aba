/* params.h - what kernels are given: one structure each, by value, the same for who fills it in C and for who reads it on the device. */
#ifndef RUSH_CUDA_PARAMS_H
#define RUSH_CUDA_PARAMS_H

#include "kernels/cpu/grid_axis.h"
#include "kernels/cpu/step.h"
#include <stdbool.h>
#include <stdint.h>

enum { CUDA_DIMS = 16, CUDA_OPERANDS = 8, CUDA_THREADS = 256 };

/* Set by a kernel that finds what it cannot do: read when the host waits for the device. Memory of the host. */
typedef struct cuda_fault {
    unsigned code; /* CUDA_FAULT_... */
    unsigned op;   /* rush_op.index + 1 of the first one */
    long long value, limit;
} cuda_fault;
enum { CUDA_FAULT_NONE, CUDA_FAULT_INDEX, CUDA_FAULT_DIVISION, CUDA_FAULT_ASSERTION };

/* A walk over a broadcast shape, innermost dimension first; strides in bytes. */
typedef struct cuda_walk {
    int64_t n;
    int ndim, nop;
    int64_t size[CUDA_DIMS];
    int64_t stride[CUDA_OPERANDS][CUDA_DIMS];
    void *p[CUDA_OPERANDS];
    uint8_t dtype[CUDA_OPERANDS], lazy[CUDA_OPERANDS]; /* RUSH_T_CONJ, RUSH_T_NEG */
    uint8_t number[CUDA_OPERANDS][16];                 /* of those whose p is NULL, in the type that is computed in */
    int vector;                                        /* elements that a thread may take at once, one behind the other in each operand or the same; 0: any strides */
} cuda_walk;

typedef struct cuda_rows {
    cuda_walk w;
    double re[4], im[4]; /* the row's arguments a, b, c, d */
    int64_t i[4];
    cuda_fault *fault;
} cuda_rows;

typedef struct cuda_axis {
    int64_t size, in, out; /* strides: bytes of what is read, elements of what is written */
} cuda_axis;

/* A fold: `outputs` results of `length` elements each. */
typedef struct cuda_fold {
    const char *x;
    void *out[2];
    char *partial; /* accumulators of pieces, when there are several */
    uint8_t dtype, lazy, out_dtype[2], out_size[2];
    int nkept, ngone, team, teams, across, pieces_team; /* threads that make an output, and how often a block has them; across: neighbours make neighbours; for joining pieces */
    cuda_axis kept[CUDA_DIMS], gone[CUDA_DIMS];
    int64_t outputs, length, pieces, piece;
    double count, p, correction;
    int mean, root;
} cuda_fold;

/* Elementwise steps that one kernel does (fused.h): how many there are of what it is given. Its parameters fit into 4,096 bytes. */
enum { FUSED_STEPS = 24, FUSED_MEMORY = 4 * FUSED_STEPS, FUSED_NUMBERS = 7 * FUSED_STEPS, FUSED_STRIDED = 8, FUSED_DIMS = 6 };
typedef struct cuda_strided { /* innermost dimension first; bytes */
    int64_t size[FUSED_DIMS], stride[FUSED_DIMS];
} cuda_strided;
typedef struct cuda_fused {
    int64_t n;
    int vector; /* all that is read or written along the result begins where a vector may */
    char *p[FUSED_MEMORY];
    double number[FUSED_NUMBERS];
    cuda_strided strided[FUSED_STRIDED];
} cuda_fused;

/* A fault where the byte is zero. */
typedef struct cuda_assertion {
    const uint8_t *truth;
    cuda_fault *fault;
} cuda_assertion;

enum { CUDA_ADD, CUDA_MUL, CUDA_MAX, CUDA_MIN };

/* Places in w.p[1] that the index tensors w.p[2].. name. */
typedef struct cuda_places {
    cuda_walk w;
    int64_t scale[CUDA_OPERANDS - 2], limit[CUDA_OPERANDS - 2]; /* bytes per unit of an index tensor, and what it stays below */
    int64_t skip;                                               /* this index is passed over */
    int wrap, how, scaled;                                      /* negative ones count from the end; how what meets is combined; times re, im or whole */
    double re, im;
    int64_t whole;
    void *other;
    cuda_fault *fault;
} cuda_places;

/* What a mask chooses, one behind the other: w.p[0] the elements, w.p[1] the mask or what is not zero, in pieces with the count of each. */
enum { CHOICE_ROWS = 16, CHOICE_TILE = CHOICE_ROWS * CUDA_THREADS }; /* a lane looks at so many elements at once, a warp's width apart */
typedef struct cuda_choice {
    cuda_walk w;
    uint64_t bits; /* of 8 bytes that tell a number from zero */
    int64_t *counts, pieces, piece, limit;
    void *other;
    int back, plain; /* the other way: from there to the elements; all lie one behind the other */
    cuda_fault *fault;
} cuda_choice;

enum { CUDA_PRODUCT_SIDE = 64 }; /* of the square that a block makes */
/* c = alpha a b + beta d, `batch` times (m, k) by (k, n); strides in bytes: of the batch, of rows, of columns. */
typedef struct cuda_product {
    const char *a, *b, *d;
    char *c;
    int64_t batch, m, n, k, a_step[3], b_step[3], d_step[3], c_step[3];
    uint8_t a_dtype, b_dtype, d_dtype, c_dtype, a_lazy, b_lazy, d_lazy;
    double alpha[2], beta[2];
} cuda_product;

/* Rows of n elements each, contiguous, in the order of their keys. */
enum { CUDA_TILE = 2 * CUDA_THREADS, SORT_ROWS = 16, SORT_TILE = SORT_ROWS * CUDA_THREADS, SORT_GROUP = 16 }; /* pieces of a group */
enum { SORT_RANK, SORT_MEDIAN, SORT_NANMEDIAN };
typedef struct cuda_sort {
    const void *x;
    const int64_t *from; /* the places that x's elements had, or NULL: where they stand in their rows */
    void *value;         /* what is made: elements in order, and their places */
    int64_t *at;
    void *swap[2]; /* between the passes, one for each digit of 8 bits: elements and places */
    uint32_t *place[2], *counts, *groups; /* elements with each digit: of pieces; of groups of pieces, for each pass */
    uint64_t *differ;                     /* bits in which keys of a row differ, or NULL: all are taken to do so */
    uint64_t sign, infinity, flip;        /* the bit of the sign, if there is one; infinity, if there is one; all bits, if the order goes down */
    int64_t rows, n, pieces, piece, ngroups, k; /* k: how many of the first ones are wanted */
    int span, pass, passes, middle, one;        /* span: of a tile what a row takes, a power of two; one: of the first ones only the last */
} cuda_sort;

/* Attention over (batch, heads, rows, width); `group` heads of queries share one of keys. Steps in bytes: of the batch, of heads, of rows. */
typedef struct cuda_attention {
    const char *q, *k, *v, *mask, *g, *y; /* g, y: the output's gradient, and the output */
    char *out, *dq, *dk, *dv;
    float *lse, *delta; /* of each row: the logarithm of its sum; the sum of g y */
    int64_t q_step[3], k_step[3], v_step[3], g_step[3], y_step[3], out_step[3], dq_step[3], dk_step[3], dv_step[3], mask_step[4];
    int64_t batch, heads, group, rows, keys;
    int width, value_width, causal, mask_dtype; /* of the mask: bool, float32 or a half type */
    int wide;                                   /* all rows begin at 16 bytes and are whole vectors of 16 bytes */
    float scale;
} cuda_attention;
/* ATTENTION(widths up to, rows of a block's tile, rows of those that it meets), for all three dtypes. */
enum { CUDA_ATTEND_THREADS = 128 };
#define CUDA_ATTENTION_TILES(ATTENTION) ATTENTION(64, 64, 64) ATTENTION(128, 64, 32) ATTENTION(256, 32, 32)
/* By tensor cores: ATTENTION(widths up to, sixteens of rows that a warp has forward, tiles under way back); of 64 rows of keys, and of all there are on the way back. */
#define CUDA_ATTENTION_MMA_TILES(ATTENTION) ATTENTION(64, 2, 2) ATTENTION(128, 2, 2) ATTENTION(256, 1, 1)

/* A step of recurrent cells: `batch` rows of `units`, all contiguous; as in kernels/cpu/rnn.h. */
typedef struct cuda_cell {
    const void *x, *products, *state, *state_new, *dh;
    void *gates, *to, *more; /* what is made */
    int64_t batch, units;
} cuda_cell;

/* A step of Fourier transforms along contiguous lines of n complex numbers: parts of `done` are, each made of `radix` of them next. */
typedef struct cuda_fft {
    const void *x;
    void *y;
    int64_t lines, n, done, radix;
    double scale;
    int sign;
} cuda_fft;

/* Places of values among n sorted edges, of their row or of the only one; order: the edges' own order, or NULL. */
typedef struct cuda_search {
    const char *edge, *value;
    const int64_t *order;
    int64_t *to, n, row, count; /* row: values of a row */
    int dtype, item, by_row, right;
    cuda_fault *fault;
} cuda_search;

/* Rows of a table joined by bag. */
enum { CUDA_BAG_SUM, CUDA_BAG_MEAN, CUDA_BAG_MAX };
typedef struct cuda_bag {
    const void *table, *scale;
    const int64_t *index, *start;
    void *to;
    int64_t *which, *size, *best; /* each index's bag; rows of each bag; what row is the largest, or NULL */
    int64_t rows, width, n, bags, starts, padding;
    int mode;
    cuda_fault *fault;
} cuda_bag;

/* A running sum or the like along lines of `length` elements, each in pieces of `piece`: what they sum to is found first. */
enum { SCAN_VECTORS = 4 }; /* of 16 bytes, that a thread has at once */
typedef struct cuda_scan {
    const char *x;
    char *y, *index;
    void *totals; /* an accumulator of each piece, if there are several */
    uint8_t dtype, lazy, y_dtype, down, plain, only_totals; /* down: neighbouring threads have neighbouring lines; plain: elements lie one behind the other, in whole vectors */
    int ndim, lanes;                                         /* lanes: threads of a piece, a power of two of a warp, or a block */
    int64_t size[CUDA_DIMS], in[CUDA_DIMS], out[CUDA_DIMS], at[CUDA_DIMS]; /* of the lines; bytes */
    int64_t lines, length, pieces, piece, x_step, y_step, index_step;
} cuda_scan;

enum { CUDA_HELD = 16 }; /* elements of a row that a thread can hold in registers */
/* Rows of (outer, n, inner), contiguous. */
typedef struct cuda_rows_norm {
    const void *x, *dy, *w, *b;
    void *y, *mean, *rstd;
    int64_t rows, n, inner;
    int64_t span, groups; /* of groups: runs of so many elements share a weight, rows cycle through so many sets of them */
    double eps;
    int log, team; /* team: threads of a row */
} cuda_rows_norm;

/* Batch norm of (n, c, hw), any strides; the way back when g is there. What is of one number per channel is of the type that is computed in. */
typedef struct cuda_batch {
    const void *x, *g, *w, *b;
    void *y, *mean, *rstd, *running_mean, *running_var, *dw, *db;
    void *by;        /* of each channel what batch_apply multiplies with and adds: four rows of c */
    double *partial; /* two sums of each piece of a channel */
    int64_t n, c, hw, x_step[3], g_step[3], y_step[3], pieces, piece; /* bytes */
    uint8_t x_dtype, g_dtype, y_dtype;
    int team, teams, last, training; /* threads that go together, and how often a block has them; last: channels lie one behind the other */
    double momentum, eps;
} cuda_batch;

/* Of rows (outer, n, inner) the places that labels name, (outer, inner). */
typedef struct cuda_labels {
    const void *x, *g, *weight, *total; /* g, total: on the way back */
    const void *label;
    void *y, *sum;
    int64_t outer, n, inner, ignore;
    int byte, each, mean; /* labels of a byte, else int64; each: a loss for every label; mean: divided by the weights' sum */
    cuda_fault *fault;
} cuda_labels;

/* Contiguous planes of three dimensions each, as struct rush_pool, rush_pad and rush_nearest describe them (kernels/cpu). */
typedef struct cuda_planes {
    const void *x;
    void *y;
    int64_t *index;
    int64_t planes, space[3], result[3], kernel[3], stride[3], dilation[3], before[3], divisor;
    const int64_t *begin[3], *end[3]; /* of windows; what result shows of space, for borders and nearest neighbours */
    int count_padding, each, add, parts;
    cuda_fault *fault;
} cuda_planes;

/* Sums with weights along the middle of (outer, n, inner), m of them. */
typedef struct cuda_taps {
    const void *x;
    void *y;
    int64_t outer, n, m, inner, most;
    const int64_t *begin, *count;
    const double *weight;
} cuda_taps;

/* Images read at points, and the ways back; a point's channels are shared by so many threads. */
typedef struct cuda_grid {
    rush_grid g;
    rush_grid_data d;
    int64_t groups;
} cuda_grid;

/* Distances of the n rows of a from the m rows of b, of `width` numbers each; pairs: a is b, and those of j > i stand one behind the other. */
enum { DISTANCE_COUNT, DISTANCE_ONE, DISTANCE_TWO, DISTANCE_LARGEST, DISTANCE_OTHER }; /* p is 0, 1, 2, infinity, any other */
typedef struct cuda_distances {
    const void *a, *b, *weight, *distance; /* of gradients: what a distance's differences share, and the distance */
    void *to;
    int64_t batch, n, m, width, pieces, piece; /* pieces of b's rows, of gradients */
    double p;
    int kind, pairs;
} cuda_distances;

/* A step of an optimizer over several parameters of one dtype, `elements` together. */
enum { CUDA_STEP_JOBS = 16 };
typedef struct cuda_steps {
    int n, parts, dtype, size;
    unsigned written;
    int64_t elements;
    rush_step_job job[CUDA_STEP_JOBS];
} cuda_steps;

/* Where random numbers begin. In a graph the seed, and what the offset adds to, are in memory that is written before each launch. */
typedef struct cuda_philox {
    uint64_t seed, offset;
    const uint64_t *state; /* both; NULL: seed and offset are all */
} cuda_philox;
typedef struct cuda_philox_state {
    uint64_t *to, seed, offset;
} cuda_philox_state;

/* Places that were sorted by random keys: those whose keys are equal are permuted again. */
typedef struct cuda_islands {
    const void *key;
    int64_t *place, n;
    cuda_philox from;
    int dtype;
} cuda_islands;

/* Numbers of a distribution into w.p[0], in the order of memory; of: as in ops/create/random.h. */
typedef struct cuda_sample {
    cuda_walk w;
    int of, unroll, together, wide; /* numbers of one draw; those of a draw lie together, or `stride` apart; integers of 64 bits */
    uint64_t range;
    cuda_philox from;
    int64_t stride, base;
    double a, b;
} cuda_sample;

#endif
