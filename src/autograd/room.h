/* room.h - what the files of src/autograd share among themselves. */
#ifndef RUSH_AUTOGRAD_ROOM_H
#define RUSH_AUTOGRAD_ROOM_H

#include "autograd/autograd.h"

rush_node *rush_node_new_room(const rush_node_kind *, int nedge, int nout, int nsaved, size_t extra);
void rush_note_writer(const rush_tensor *, const char *op_name);
const char *rush_last_writer(const rush_tensor *);
bool rush_alone(rush_tensor *); /* has nobody else this tensor, or its memory? */
rush_tensor *rush_grad_sum(rush_tensor *a, rush_tensor *b); /* dense or sparse, as PyTorch sums them */
rush_edge rush_grad_edge_had(rush_tensor *);                /* rush_grad_edge() of what shows a base that is just being changed */
int rush_view_barred(const rush_tensor *view, bool by_another); /* the error */
rush_tensor *rush_view_again(const rush_tensor *view); /* a new view of its base, recorded */

#endif
