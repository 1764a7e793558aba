/* api.h - the steps of the road (call.c) that stand in files of their own. */
#ifndef RUSH_API_ROOM_H
#define RUSH_API_ROOM_H

#include "autograd/autograd.h"

/* Autocast, per thread and device type. */
RUSH_PY bool rush_autocast_cache(bool set, bool on);
/* The arguments as autocast wants them for this operation; may be `in` itself. */
const rush_value *rush_autocast_args(const rush_op *, const rush_value *in, rush_value *room);

/* -1: out= is of another dtype than was asked for in so many words. */
RUSH_PY int rush_given_asked_dtype(const rush_op *, rush_dtype asked, const rush_tensor *to);

/* Results that are given (given.c). 1: the kernel may write out[0] itself; 0: results of its own are to be made, and
 * copied by rush_given_fill; -1: an error. */
/* The arguments with the dtype of an integer out= where the operation takes a dtype and none is given, as sum() does; may be `in` itself. */
const rush_value *rush_given_dtype(const rush_op *, const rush_value *in, const rush_value *out, rush_value *room);
int rush_given_asked(const rush_op *, const rush_value *in, const rush_tensor *to);
int rush_given_check(rush_form, const rush_op *, const rush_value *in, const rush_value *out);
int rush_given_fill(rush_form, const rush_op *, const rush_value *in, rush_value *out, const rush_value *fresh);
/* values: `in`, with a copy of argument 0 that has its history if the derivative will ask for what it was before it is overwritten. */
int rush_given_keep(const rush_op *, const rush_value *in, rush_value *values);
/* Of a composite in place, whose result is copied by an operation: may it be? */
int rush_given_fits(const rush_tensor *self, const rush_tensor *result);

/* Somebody else does the work of this call, if anybody wants it (watch.c): as a rush_watch_fn. recorded: autograd's part
 * is done by the caller; wants: with a node. */
int rush_watched(rush_form, const rush_op *, const rush_value *in, rush_value *out, bool recorded, bool wants);

/* Checks and counts what the schema says is written beside a first argument that is no list: lists, state. */
int rush_given_others(const rush_op *, const rush_value *in);

/* Composites (composite.c): the function; one that has a derivative of its own runs unrecorded. One that has none records itself
 * piece by piece, in place, too. */
int rush_composite_run(const rush_op *, rush_rule run, const rush_value *in, rush_value *out, bool recorded);
int rush_composite_opened(rush_form, const rush_op *, rush_rule run, const rush_value *in, rush_value *out, bool wants);

/* While elementwise work waits (op/later.h): the kernel of an operation, and what is to be done before others' tensors are written. */
int rush_run_beside_later(const rush_op *, const rush_tensor *any, const rush_value *in, rush_value *out, bool given);
void rush_later_settle_written(const rush_op *, rush_form, const rush_value *in, const rush_value *out);

/* Sparse layouts (layouts.c): the record that takes such arguments, or NULL and an error; a result written to what was given for it. */
const rush_op *rush_sparse_form(const rush_op *, const rush_value *in);
/* Quantized tensors (quantized.c): the whole call. */
int rush_quantized_call(rush_form, const rush_op *, const rush_value *in, rush_value *out);
int rush_sparse_give(rush_tensor *to, rush_tensor *from, bool inplace);

#endif
