/* pointwise.h - the elementwise operations: the rows of src/kernels/pointwise.def as data, and how one is run.
 *
 * pointwise_rows.c holds the rows, pointwise_grad.c their derivatives, pointwise.c makes records of them and runs
 * them. Operations that need more than a row (clamp, where, gelu) are records of their own that call rush_pw_*().
 */
#ifndef RUSH_POINTWISE_H
#define RUSH_POINTWISE_H

#include "op/op.h"
#include "kernels/cpu/pointwise.h"

enum { /* of rush_pw_row.set */
    RUSH_PW_B = 1, RUSH_PW_I = 2, RUSH_PW_F = 4, RUSH_PW_C = 8,
    RUSH_PW_UP = 16,   /* bool and integers become the default float */
    RUSH_PW_LOGIC = 32 /* every operand is taken as bool             */
};
enum { RUSH_PW_SAME, RUSH_PW_REAL, RUSH_PW_BOOL };
enum { /* of rush_pw_row.is, above the bits of rush_op.method */
    RUSH_PW_METHOD = 255, RUSH_PW_ROUNDS = 256, RUSH_PW_KEEPS = 512, RUSH_PW_DIVIDES = 1024, RUSH_PW_WIDE_X = 2048, RUSH_PW_WIDE_Y = 4096,
    RUSH_PW_WIDE_Z = 8192, RUSH_PW_SWAPPED = 16384, RUSH_PW_PLAIN = 32768
};

typedef struct rush_pw_row {
    uint8_t id;         /* rush_pw_id                                   */
    uint8_t nx, na;     /* operands, other arguments                    */
    uint8_t set, result;
    uint8_t x[3], a[4]; /* which arguments of the schema they are       */
    uint16_t is;        /* the last column                              */
    const char *schema; /* NULL: a loop that other operations use       */
    const char *value;  /* the expressions as text                      */
    const char *grad[3];
} rush_pw_row;

extern rush_pw_row rush_pw_rows[RUSH_PW_COUNT];
/* What is said of a dtype without a loop. */
typedef struct rush_pw_refusal {
    uint8_t id, category;
    rush_error_kind error;
    const char *text; /* of a printf, with the operation's name */
} rush_pw_refusal;
extern const rush_pw_refusal rush_pw_refusals[];
extern const int rush_pw_refusals_count;
extern const rush_derivative rush_pw_derivatives[RUSH_PW_COUNT];

/* What one call computes in, and gives. */
typedef struct rush_pw_plan {
    uint8_t common;        /* dtype that the operands promote to */
    uint8_t compute;       /* dtype of the loop's operands      */
    uint8_t result;        /* dtype of the result               */
    uint8_t stored;        /* what the loop itself writes       */
    bool known;            /* is there a loop for that dtype?   */
} rush_pw_plan;

/* x: the row's operands, tensors or numbers. */
int rush_pw_plan_make(rush_pw_plan *, rush_pw_id, const rush_value *x);
/* Result i of broadcast size, its strides like PyTorch's. */
/* Dense strides in the order of the operands', of which only sizes and strides are looked at. False: contiguous will do. */
bool rush_pw_strides(int nx, const rush_value *x, int ndim, const int64_t *size, int64_t *stride);
int rush_pw_result(rush_value *out, int i, rush_dtype, int nx, const rush_value *x);
/* Both (a NotImplementedError where there is no loop), and running it into a result that was made so. */
/* -1 and an error for integers divided by zero, x[0] / x[1]: by a number (shape rules), by elements (kernels) */
int rush_pw_check_divisor(const rush_value *x);
int rush_pw_check_divisors(const rush_value *x);
/* -1 and an error for x[0] - x[1] of truth values */
int rush_pw_check_sub(const rush_value *x);
int rush_pw_shape_row(rush_pw_id, const rush_value *x, rush_value *out);
void rush_pw_run_row(rush_pw_id, const rush_value *x, const rush_pw_args *, rush_tensor *result);
/* Any loop over any operands, outputs first: own dtypes in memory, `compute` for the loop. */
void rush_pw_run_loop(rush_pw_kernel, int nout, int n, const rush_value *operand, const uint8_t *compute,
                      const rush_pw_args *);
/* The rule and kernel of records made from rows: op->row says which. */
int rush_pw_shape(const rush_op *op, const rush_value *in, rush_value *out);
void rush_pw_cpu(const rush_op *op, const rush_value *in, rush_value *out);

/* max.other and min.other, registered between max and max.dim: the order in which overloads are tried */
extern rush_op rush_op_max_other, rush_op_min_other;

/* Registers all overloads of `of` under another base name; method: where Python has them. */
void rush_op_alias(const char *name, const char *of, unsigned method);

#endif
