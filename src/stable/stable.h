/* stable.h - the C symbols that PyTorch promises to extensions and compiled programs (aoti_torch_*, torch_*), over rushlight.h.
 *
 * They are in a shared object of their own, libtorch_cpu.so, which such files name as what they need. A handle is a box with a
 * counted tensor, since handles may be undefined and be assigned to. Functions return 0, or 1 and keep the message of the error.
 * Numbers of dtypes, layouts, memory formats and devices are asked of functions, so they are the library's own.
 */
#ifndef RUSH_STABLE_H
#define RUSH_STABLE_H

#include "op/op.h"
#include "tensor/tensor.h"
#include <rushlight/ops.h>

#define STABLE(type, name, ...)                                                                             \
    __attribute__((visibility("default"))) type name(__VA_ARGS__);                                          \
    type name(__VA_ARGS__)

typedef struct stable_tensor { rush_tensor *t; } stable_tensor; /* NULL: undefined */

int32_t rush_stable_end(void);                                /* 0, or 1 where an error is pending, which is kept as text and cleared */
stable_tensor *rush_stable_handle(rush_tensor *);             /* a new one; NULL and an error */
int32_t rush_stable_give(rush_tensor *, stable_tensor **to);  /* the same; 0, or as rush_stable_end() */
rush_tensor *rush_stable_take(stable_tensor *);               /* the handle goes, its tensor is parked */

/* What stands for a device: its type, and where it has one an index. */
rush_device rush_stable_device(int32_t type, int32_t index);
int32_t rush_stable_device_type(rush_device);

/* Of an operation by its name and its first n arguments; the others have their defaults. NULL or -1 and an error. */
rush_tensor *rush_stable_call(const char *op, int n, const rush_value *in);
/* What the printed functions are made of. way: 0, '_' in place, 'o' into tensors that out holds. */
int32_t rush_stable_run(const char *op, char way, int n, const rush_value *in, int nout, stable_tensor **const *out);
rush_value rush_stable_tensors(stable_tensor *const *list, int64_t n);
rush_value rush_stable_flags(const int32_t *list, int64_t n); /* bool[] */
rush_value rush_stable_optional_tensors(stable_tensor *const *const *list, int64_t n);

/* guard.cc: a function of C++, whose exceptions become the library's errors. */
typedef void (*stable_function)(uint64_t *stack, uint64_t n, uint64_t nout);
int rush_stable_guarded(stable_function, uint64_t *stack, uint64_t n, uint64_t nout);
/* What the last function that failed in this thread said. */
const char *rush_stable_message(void);

#endif
