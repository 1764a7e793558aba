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
 * they may be such values again. Lists of tensors, ints, bools and floats inside are as they are outside. The path of a class is such a type, too; its value
 * is RUSH_V_OBJECT. */
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

/* ---- classes: objects that only the program looks into which made them; torch.classes.ns.Name in Python ----
 *
 *     const rush_class *stack = rush_class_define("mine::Stack", free_stack);
 *     rush_library_define("mine::Stack::__init__(int[] items) -> __torch__.torch.classes.mine.Stack");
 *     rush_library_define("mine::Stack::push(__torch__.torch.classes.mine.Stack self, int x) -> ()");
 *
 * Their methods are operations named after them; other operations take and give objects as well. __getstate__ and __setstate__ (which
 * returns the object) let them be saved. */
typedef struct rush_class rush_class;
typedef struct rush_object rush_object;

/* The new class; end, which may be NULL, is called with the data of each object that has some. NULL and an error: the name is taken, or none. For the time before threads call. */
RUSH_API const rush_class *rush_class_define(const char *name, void (*end)(void *data));
RUSH_API const rush_class *rush_class_find(const char *name); /* NULL: there is none; an error if it is no name */
RUSH_API const char *rush_class_path(const rush_class *);     /* "__torch__.torch.classes.ns.Name" */
/* An object of the innermost scope. NULL and an error; the data is then ended. */
RUSH_API rush_object *rush_object_new(const rush_class *, void *data);
RUSH_API const rush_class *rush_object_class(const rush_object *);
RUSH_API void *rush_object_data(const rush_object *, const rush_class *); /* NULL: it is of another class, or its __init__ was not called yet */
RUSH_API rush_object *rush_object_keep(rush_object *);
RUSH_API void rush_object_drop(rush_object *);
RUSH_API rush_object *rush_object_park(rush_object *); /* gives one reference to the innermost scope */
static inline rush_value rush_v_object(rush_object *o) { rush_value v = rush_v_none(); if (o) { v.kind = RUSH_V_OBJECT; v.object = o; } return v; }

/* The pending error's text without the operation's name that rush_fail put in front, which PyTorch's text does not have. */
RUSH_API const char *rush_error_bare(void);

#ifdef __cplusplus
}
#endif
#endif
