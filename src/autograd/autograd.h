/* autograd.h - the graph of what was done, and the walk back through it.
 *
 * A node stands for one recorded call: the operation, its saved arguments, an edge per tensor argument that
 * wants a gradient. rush_call records nodes; the engine (engine.c) runs them in order of decreasing sequence
 * number. Nodes of Python functions and of hooks are the same struct with another `kind`.
 */
#ifndef RUSH_AUTOGRAD_H
#define RUSH_AUTOGRAD_H

#include "op/op.h"

/* Of rush_op.flags, beside the public ones: of several gradients the last argument's goes back first (the bias before the weight);
 * the last of the results has no gradient. */
enum { RUSH_LAST_GRAD_FIRST = 1 << 30 };
#define RUSH_LAST_PLAIN (1u << 31)

typedef struct rush_edge {
    rush_node *node; /* owned; NULL: no gradient wanted */
    uint32_t slot;   /* which of node's gradients       */
} rush_edge;

/* What a node does. g has node->nout gradients (NULL: zero), gin node->nedge slots to be filled with parked tensors. */
typedef struct rush_node_kind {
    const char *(*name)(const rush_node *);  /* "AddBackward0" */
    int (*apply)(rush_node *, rush_tensor **g, rush_tensor **gin);
    void (*release)(rush_node *);            /* frees what was saved (retain_graph=False), may be called twice */
    void (*end)(rush_node *);                /* the node itself goes; NULL: nothing beyond release */
    void (*visit)(rush_node *, int (*fn)(rush_tensor *, void *), void *arg); /* the tensors it holds, for Python's collector */
    bool unasked;                            /* applied although none of its gradients arrived */
} rush_node_kind;
extern RUSH_PY const rush_node_kind rush_accumulate_kind; /* of leaves; data is the leaf */
extern RUSH_PY const rush_node_kind rush_op_kind;         /* of recorded operations        */

/* One saved tensor: as a reference (input), or as a detached alias (output, which would be a cycle). */
typedef struct rush_saved {
    rush_tensor *t;
    unsigned version;   /* of t when saved                                  */
    bool is_output;     /* t is an alias of result `slot` of this very node */
    bool shape_only;
    uint32_t slot;
    void *packed;       /* saved_tensors_hooks: what pack returned          */
} rush_saved;

typedef struct rush_node_hook {
    /* pre: sees and may replace g before apply; post: sees gin and g, may replace gin */
    int (*call)(void *arg, rush_node *, rush_tensor **g, int ng, rush_tensor **gin, int ngin);
    void (*free)(void *arg);
    bool (*hold)(void *arg, bool on); /* a run that has others to call first begins, and false leaves it out, or ends; NULL: nobody asks */
    void *arg;
    uint64_t id;
    int slot;             /* of tensor hooks: the one gradient that g points to; -1: all of the node's */
    bool pre;
    bool removed;         /* from its list; it goes when no run holds it */
    atomic_int held;
    struct rush_node_hook *next;
} rush_node_hook;

struct rush_node {
    atomic_int refs;
    bool released;        /* its saved tensors are gone: a second backward is an error */
    uint8_t needed;       /* the engine's: lies on a way to what is asked for */
    bool later;           /* recorded while elementwise work was put off (op/later.h), and so its derivative's is */
    int nedge, nout;
    uint64_t seq;         /* later calls have larger numbers; leaves' accumulators the largest of all */
    const rush_node_kind *kind;
    const rush_op *op;    /* of recorded operations */
    rush_edge *edge;
    rush_value *in, *out; /* of recorded operations: the call, tensors replaced by saved[]  */
    rush_saved *saved;
    uint32_t nsaved;
    rush_tensor **shape;  /* per output, shape-only: to check and zero-fill gradients; entries may be NULL */
    rush_node_hook *hooks;
    void *py;             /* its Python object, borrowed */
    void *data;           /* of other kinds */
    const char *name;     /* shown in place of the kind's name; NULL */
    char *made_at;        /* anomaly mode: where the forward call was */
    /* the engine's, while a backward runs */
    size_t bytes;         /* of the whole block: the node and the arrays behind it */
    void *task;
    int waiting;          /* edges into this node that have not delivered yet */
    rush_tensor **buffer; /* gradients summed so far, nout of them; NULL before the first */
    rush_tensor *sole;    /* the buffer of nodes with one output */
};

#define RUSH_GRAD_ANY 255

/* A tensor's part in graphs. */
struct rush_autograd {
    bool requires_grad;   /* asked for by the user, on leaves */
    bool retains_grad;
    uint32_t slot;        /* which output of fn */
    rush_node *fn;        /* NULL for leaves; owned */
    rush_node *accumulator; /* of leaves; borrowed: it keeps the tensor, not the reverse */
    rush_tensor *grad;    /* owned */
    rush_node_hook *hooks; /* tensor hooks: pre, one gradient; retain_grad's among them */
    rush_node_hook *post_accumulate;
    unsigned view_version; /* of views: the version at which fn was made; see rush_grad_fn() */
    uint64_t retain_hook;  /* of retain_grad(), on fn */
    rush_tensor *shown;    /* of views of what has its elements elsewhere: the part of the base, where its own strides and offset say something else; owned */
    uint8_t grad_dtype;    /* of leaves: what gradients are converted to. 0: the tensor's dtype, RUSH_GRAD_ANY, or 1 more than the dtype */
};

RUSH_PY rush_autograd *rush_autograd_of(rush_tensor *);          /* makes it when there is none; NULL and an error */
RUSH_PY bool rush_wants_grad(const rush_tensor *);               /* requires_grad, leaf or not */
RUSH_PY int rush_grad_dtype(const rush_tensor *);                /* of a leaf's gradients; -1: any */
/* rush_backward_full to these leaves alone, and to tensors that are no leaves, which retain their gradients from now on. */
RUSH_PY int rush_backward_into(int n, rush_tensor **roots, rush_tensor **grads, int n_in, rush_tensor **inputs, bool retain_graph, bool create_graph);
RUSH_PY rush_edge rush_grad_edge(rush_tensor *);                 /* of a leaf: its accumulator; the reference is the caller's */
RUSH_PY rush_tensor *rush_node_result(rush_node *, int i);       /* in the graph result i of the node, without memory; the leaf itself */
RUSH_PY rush_node *rush_node_new(const rush_node_kind *, int nedge, int nout);
uint64_t rush_node_clock(void);                          /* the number that the next node will get */
/* t as the caller gets it that is result i of a function with a derivative of its own (node; NULL: nobody wants a gradient).
 * how: of rush_function_how, as_view: a flag of RUSH_T_APART, for results that are views. */
RUSH_PY rush_tensor *rush_node_attach(rush_node *, int i, rush_tensor *t, unsigned how, unsigned as_view);
void rush_node_output(rush_node *, int i, rush_tensor *t); /* t is output i of node from now on */

/* Steps of rush_call. */
bool rush_any_wants_grad(const rush_op *, const rush_value *in);
/* After running: `in` gives the edges, `values` what is saved (they differ in place, where argument 0 is a copy of
 * what it was). self: the tensor changed in place, or NULL. */
int rush_record(const rush_op *, const rush_value *in, const rush_value *values, rush_value *out, rush_tensor *self);
void rush_record_name(const rush_op *, rush_value *out, uint64_t since); /* since: rush_node_clock() before it ran */
bool rush_saves_self(const rush_op *, const rush_value *in); /* will the derivative of this call read argument 0? */
void rush_same_history(rush_tensor *copy, rush_tensor *of);  /* copy stands for what `of` is now, in second derivatives, too */
/* Before an in-place change; with_grad: self, or what changes it, wants a gradient. */
RUSH_PY int rush_inplace_check(rush_tensor *self, bool with_grad);
/* self is output `slot` of node from now on, also when it is a view: then its base gets a node that pastes. */
int rush_rebase(rush_tensor *self, rush_node *node, int slot);
void rush_view_link(rush_tensor *view, rush_tensor *of, unsigned how); /* remembers the base; how: 0, or a flag of RUSH_T_APART */
/* The results of a view are views of argument 0; false: which is an inference tensor, whose views have no history. */
bool rush_view_links(const rush_op *, const rush_value *in, rush_value *out);

/* For derivatives that call f_backward(g, self), whose derivative for self is zeros as f has straight pieces, in PyTorch as here.
 * Argument i, saved by its shape alone, with its history; and those zeros. */
rush_value rush_in_graph(const rush_grads *, int i);
void rush_no_curvature(rush_grads *);

RUSH_PY int rush_saved_make(rush_saved *, rush_node *, rush_tensor *t, bool is_output, uint32_t slot, bool shape_only);
/* Parked; checks the version. history: an output gets its own, for second derivatives or for a program that looks at it. */
RUSH_PY rush_tensor *rush_saved_read(rush_saved *, rush_node *, bool history);
RUSH_PY void rush_saved_free(rush_saved *);

typedef struct rush_saved_hooks {       /* torch.autograd.graph.saved_tensors_hooks */
    void *(*pack)(void *arg, rush_tensor *);
    rush_tensor *(*unpack)(void *arg, void *packed); /* parked */
    void (*free_packed)(void *packed);
    void *arg;
    struct rush_saved_hooks *outer;
} rush_saved_hooks;
RUSH_PY void rush_saved_hooks_push(rush_saved_hooks *);
RUSH_PY void rush_saved_hooks_pop(void);

/* Who runs backwards in this thread; set, the thread goes on with a walk of another one, which waits for it. */
RUSH_PY const void *rush_walker(void);
RUSH_PY void rush_walker_set(const void *walker);

RUSH_PY uint64_t rush_tensor_hook(rush_tensor *, rush_node_hook *);   /* registers a gradient hook; returns its id */
/* Asked in anomaly mode where the program is; the text goes with the node (rush_malloc'ed). */
extern RUSH_PY char *(*rush_anomaly_trace)(void);
extern RUSH_PY bool rush_anomaly_check_nan;
extern RUSH_PY void (*rush_anomaly_report)(const char *made_at, const char *node_name);
RUSH_PY uint64_t rush_node_hook_add(rush_node *, rush_node_hook *);
RUSH_PY void rush_node_hook_remove(rush_node_hook **list, uint64_t id);
void rush_node_hook_drop(rush_node_hook *);

#endif
