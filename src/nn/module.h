/* module.h - what a module is inside: its own tensors in order of registration, then its children. */
#ifndef RUSH_NN_MODULE_H
#define RUSH_NN_MODULE_H

#include "op/op.h"
#include <rushlight/io.h>
#include <rushlight/nn.h>

enum slot_kind { SLOT_PARAMETER, SLOT_BUFFER, SLOT_SCRATCH /* a buffer that no state holds */ };

typedef struct rush_slot {
    char *name;
    rush_tensor *t; /* owned; NULL: the module does without */
    uint8_t what;
} rush_slot;

typedef struct rush_child {
    char *name;
    rush_module *module; /* owned */
} rush_child;

struct rush_module {
    rush_object_end end; /* first: modules are parked in scopes */
    atomic_int refs;
    const rush_module_kind *kind;
    bool training;
    int nslots, nchildren;
    rush_slot *slots;
    rush_child *children;
    void *data; /* kind->size bytes */
};

/* Shorthands of layers: the k-th own tensor, the k-th child. */
static inline rush_tensor *rush_slot_at(const rush_module *m, int k) { return m->slots[k].t; }
/* The module's own tensor of that name; NULL: none. */
static inline rush_slot *rush_slot_named(const rush_module *m, const char *name)
{
    for (int i = 0; i < m->nslots; ++i)
        if (!strcmp(m->slots[i].name, name)) return &m->slots[i];
    return NULL;
}
static inline rush_module *rush_child_at(const rush_module *m, int k) { return m->children[k].module; }
/* Are its entries there, with names and tensors that live? If not, an error. */
bool rush_state_given(rush_state);
/* A new, unwritten floating tensor of the default dtype. */
rush_tensor *rush_weight_new(int ndim, const int64_t *size);
/* Uniform within +-1/sqrt(n), the start of most layers' weights; t may be NULL. */
rush_tensor *rush_init_fan(rush_tensor *t, int64_t n);

#endif
