/* function.h - results whose gradient is the program's own: torch.autograd.Function for C.
 *
 *     static int backward(rush_node *node, void *arg, rush_tensor **g, rush_tensor **gin)
 *     {
 *         rush_tensor *x;
 *         if (rush_function_saved(node, 0, &x)) return -1;
 *         gin[0] = rush_mul(g[0], rush_mul(x, 2));
 *         return rush_error() ? -1 : 0;
 *     }
 *     static const rush_function square = {.name = "Square", .backward = backward};
 *
 *     bool recorded = rush_grad_enabled_set(false);
 *     rush_tensor *y = rush_mul(x, x);
 *     rush_grad_enabled_set(recorded);
 *     rush_node *node;
 *     if (rush_function_begin(&square, NULL, 1, &x, 1, &node)) ...
 *     y = rush_function_result(node, 0, y, 0);
 *     rush_function_save(node, 1, &x);
 *     rush_node_drop(node);
 *
 * The node is NULL where nobody wants a gradient; every function here takes that.
 */
#ifndef RUSHLIGHT_FUNCTION_H
#define RUSHLIGHT_FUNCTION_H

#include <rushlight.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct rush_function {
    const char *name; /* of its nodes, as graphs show them */
    /* g: a gradient per result, NULL where none arrived; gin: per input, to be set to the gradient or left NULL.
     * What it makes is parked in a scope of the engine's. -1 and an error: the backward pass fails. */
    int (*backward)(rush_node *, void *arg, rush_tensor **g, rush_tensor **gin);
    void (*end)(void *arg); /* when the node goes; NULL: nothing to do */
} rush_function;

/* The node of one call, the caller's own reference: rush_node_drop(). *node is NULL when recording is off or no input wants a
 * gradient; arg is then ended at once. inputs may have NULL entries. -1 and an error; arg is ended then, too. */
RUSH_API int rush_function_begin(const rush_function *, void *arg, int ninputs, rush_tensor *const *inputs, int nresults, rush_node **node);

enum rush_function_how {
    RUSH_RESULT_DIRTY = 1,   /* an input, which was changed in place             */
    RUSH_RESULT_INPUT = 2,   /* an input, given back as it came                  */
    RUSH_RESULT_NO_GRAD = 4  /* has no gradient; integers and bools never have   */
};
/* What the caller gets as result i: t, or where t itself cannot carry the history a parked alias. NULL and an error. */
RUSH_API rush_tensor *rush_function_result(rush_node *, int i, rush_tensor *t, unsigned how);
/* Keeps tensors for the backward pass, until its graph is released; entries may be NULL. After the results were made, once. */
RUSH_API int rush_function_save(rush_node *, int n, rush_tensor *const *tensors);
/* The tensor that was kept as number i, parked. -1 and an error: it was changed in place since, or released. */
RUSH_API int rush_function_saved(rush_node *, int i, rush_tensor **tensor);
/* Zeros of result i's shape and dtype, parked: what a gradient of NULL stands for. */
RUSH_API rush_tensor *rush_function_zeros(rush_node *, int i);
RUSH_API bool rush_function_needs(const rush_node *, int i); /* does input i want a gradient? */
/* What recorded calls look like from outside: the node that a tensor is a result of (NULL: a leaf), what graphs call it ("MulBackward0"; the text
 * lives until the next call), and where its i-th gradient goes. None is kept for the caller. */
RUSH_API rush_node *rush_grad_fn(rush_tensor *);
RUSH_API const char *rush_grad_fn_name(const rush_node *);
RUSH_API int rush_grad_fn_edges(const rush_node *);             /* -1: an error */
RUSH_API rush_node *rush_grad_fn_next(const rush_node *, int i); /* NULL: nobody wants it */
RUSH_API void rush_node_keep(rush_node *);
RUSH_API void rush_node_drop(rush_node *);

#ifdef __cplusplus
}
#endif
#endif
