/* library.h - operations that are defined piece by piece, as torch.library does: a schema, then a function per dispatch key.
 *
 *     rush_library_define("mine::squareplus(Tensor self, float b=1.0) -> Tensor");
 *     rush_library_impl("mine::squareplus", "CPU", squareplus, NULL, NULL);
 *
 * It is an operation like any other from then on: found by name, called by rush_call(), a part of torch.ops in Python. One that
 * is written as a whole is better a record (rush_op): see docs/adding-an-operation.md.
 */
#ifndef RUSHLIGHT_LIBRARY_H
#define RUSHLIGHT_LIBRARY_H

#include <rushlight.h>

#ifdef __cplusplus
extern "C" {
#endif

/* What schemas of programs may say beyond a rush_arg_type and a list of it: Dict(str, Tensor), str[], (str, int)[], int[][], as one more
 * such type. A value of it is RUSH_V_VALUES, whose items are those of the list or tuple, or keys and values in turn (n counts both);
 * they may be such values again. Lists of tensors, ints, bools and floats inside are as they are outside. */
enum { RUSH_A_NESTED = RUSH_A_GENERATOR + 1 };

/* Fills out; tensors are parked. -1 and an error. */
typedef int (*rush_library_fn)(void *arg, const rush_op *, const rush_value *in, rush_value *out);

/* The new operation, or NULL and an error: the schema cannot be read, or there is one of this name. The text is copied. */
RUSH_API const rush_op *rush_library_define(const char *schema);
/* What runs under a dispatch key: "CPU", "Meta", "CUDA", "PrivateUse1", below autograd, "QuantizedCPU" where a tensor is quantized; "CompositeExplicitAutograd", the same
 * for all devices; "Autograd" (or "AutogradCPU", ...), in their place where a gradient is wanted; "AutocastCPU", "AutocastCUDA", before all under autocast; "CompositeImplicitAutograd"
 * or "", what consists of other operations and has their derivatives. Of two the later one counts; those of PyTorch's other keys are taken and never run. One that only writes its
 * arguments and returns nothing needs no function for "Meta". An operation that is not defined yet gets it when it is. Both functions are for the time before
 * threads call. -1 and an error. */
RUSH_API int rush_library_impl(const char *op, const char *key, rush_library_fn, void *arg, void (*end)(void *arg));

/* The pending error's text without the operation's name that rush_fail put in front, which PyTorch's text does not have. */
RUSH_API const char *rush_error_bare(void);

#ifdef __cplusplus
}
#endif
#endif
