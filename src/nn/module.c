/* module.c - the module itself: named tensors and children, training mode, state.
 *
 * A module is a list of own tensors and a list of children; everything that works on a whole network is one
 * walk down the two, with the dotted name built on the way.
 */
#include "nn/module.h"
#include "autograd/autograd.h"
#include "tensor/quantized.h"
#include "tensor/sparse.h"
#include "base/buried.h"

#include <stdio.h>

static bool given(const rush_module *m) { return rush_lives(m, "a module"); }

/* ---- life ---- */

static void give_up(void *object)
{
    rush_module *m = object;
    if (atomic_fetch_sub(&m->refs, 1) != 1) return;
    for (int i = 0; i < m->nslots; i++) {
        rush_free(m->slots[i].name);
        rush_drop(m->slots[i].t);
    }
    for (int i = 0; i < m->nchildren; i++) {
        rush_free(m->children[i].name);
        give_up(m->children[i].module);
    }
    if (m->kind->end && m->data) m->kind->end(m->data);
    rush_free(m->slots);
    rush_free(m->children);
    rush_free(m->data);
    rush_bury_handle(m, sizeof *m);
}

rush_module *rush_module_new(const rush_module_kind *kind)
{
    if (rush_failed()) return NULL;
    RUSH_CHECK_NULL(kind && kind->name && kind->forward, RUSH_TYPE_ERROR, "a kind of module needs a name and a forward");
    rush_module *m = rush_calloc(1, sizeof *m);
    if (!m) return NULL;
    m->end = give_up;
    m->kind = kind;
    m->training = true;
    atomic_init(&m->refs, 1);
    if (kind->size && !(m->data = rush_calloc(1, kind->size))) return give_up(m), NULL;
    return rush_park_object(m);
}

rush_module *rush_module_keep(rush_module *m)
{
    if (!m || !given(m)) return NULL;
    atomic_fetch_add(&m->refs, 1);
    return m;
}

void rush_module_drop(rush_module *m)
{
    if (m && given(m)) give_up(m);
}

void *rush_module_data(rush_module *m) { return given(m) ? m->data : NULL; }
const char *rush_module_name(const rush_module *m) { return given(m) ? m->kind->name : NULL; }

static char *copy_text(const char *s)
{
    char *c = rush_malloc(strlen(s) + 1);
    return c ? strcpy(c, s) : NULL;
}

static rush_tensor *own(rush_module *m, const char *name, rush_tensor *t, uint8_t what)
{
    if (rush_failed() || !given(m)) return NULL;
    RUSH_CHECK_NULL(name && *name && !strchr(name, '.'), RUSH_VALUE_ERROR, "a tensor of a module needs a name without dots, not '%s'", name ? name : "NULL");
    rush_slot *known = rush_slot_named(m, name);
    if (known) {
        rush_keep(t);
        rush_drop(known->t);
        known->t = t;
        known->what = what;
        return t;
    }
    rush_slot *more = rush_realloc(m->slots, (size_t)(m->nslots + 1) * sizeof *more);
    char *own_name = more ? copy_text(name) : NULL;
    if (more) m->slots = more;
    if (!own_name) return NULL;
    more[m->nslots++] = (rush_slot){own_name, rush_keep(t), what};
    return t;
}

rush_tensor *rush_module_parameter(rush_module *m, const char *name, rush_tensor *t)
{
    if (t && !rush_requires_grad_set(t, true)) return NULL;
    return own(m, name, t, SLOT_PARAMETER);
}

rush_tensor *rush_module_buffer(rush_module *m, const char *name, rush_tensor *t, bool persistent)
{
    return own(m, name, t, persistent ? SLOT_BUFFER : SLOT_SCRATCH);
}

rush_module *rush_module_add(rush_module *m, const char *name, rush_module *child)
{
    if (rush_failed() || !given(m)) return NULL;
    RUSH_CHECK_NULL(name && *name && !strchr(name, '.'), RUSH_VALUE_ERROR, "a child of a module needs a name without dots, not '%s'", name ? name : "NULL");
    RUSH_CHECK_NULL(child != m, RUSH_VALUE_ERROR, "module %s can't be its own child", m->kind->name);
    if (!given(child)) return NULL;
    rush_child *more = rush_realloc(m->children, (size_t)(m->nchildren + 1) * sizeof *more);
    char *own_name = more ? copy_text(name) : NULL;
    if (more) m->children = more;
    if (!own_name) return NULL;
    more[m->nchildren++] = (rush_child){own_name, rush_module_keep(child)};
    return child;
}

/* ---- running ---- */

int rush_forward_all(rush_module *m, int n, rush_tensor *const *in, rush_tensor **out)
{
    if (rush_failed()) return -1;
    if (!given(m)) return -1;
    RUSH_CHECK(n > 0 && n <= 64 && in && in[0] && out, RUSH_TYPE_ERROR, "%s: its first input is missing", m->kind->name);
    for (int i = 0; i < n; i++)
        if (in[i] && !rush_tensor_given(in[i])) return -1;
    int made = m->kind->forward(m, n, in, out);
    return rush_failed() ? -1 : made;
}

rush_tensor *rush_forward(rush_module *m, rush_tensor *x)
{
    rush_tensor *out[8] = {NULL};
    return rush_forward_all(m, 1, &x, out) > 0 ? out[0] : NULL;
}

void rush_module_train(rush_module *m, bool on)
{
    if (!given(m)) return;
    m->training = on;
    for (int i = 0; i < m->nchildren; i++) rush_module_train(m->children[i].module, on);
}

void rush_module_eval(rush_module *m) { rush_module_train(m, false); }
bool rush_module_training(const rush_module *m) { return given(m) && m->training; }

/* ---- walking ---- */

#define NAME_MAX_LENGTH 512

typedef int (*visit)(void *arg, const char *name, rush_slot *);

static int walk(rush_module *m, char *name, size_t at, visit fn, void *arg)
{
    for (int i = 0; i < m->nslots; i++) {
        RUSH_CHECK(at + strlen(m->slots[i].name) + 2 < NAME_MAX_LENGTH, RUSH_VALUE_ERROR, "the name %s... is too long", name);
        strcpy(name + at, m->slots[i].name);
        if (fn(arg, name, &m->slots[i])) return -1;
    }
    for (int i = 0; i < m->nchildren; i++) {
        size_t n = strlen(m->children[i].name);
        RUSH_CHECK(at + n + 2 < NAME_MAX_LENGTH, RUSH_VALUE_ERROR, "the name %s... is too long", name);
        memcpy(name + at, m->children[i].name, n);
        name[at + n] = '.';
        if (walk(m->children[i].module, name, at + n + 1, fn, arg)) return -1;
    }
    return 0;
}

static int each_slot(rush_module *m, visit fn, void *arg)
{
    char name[NAME_MAX_LENGTH] = "";
    return given(m) ? walk(m, name, 0, fn, arg) : -1;
}

typedef struct gather {
    int n;
    rush_tensor **tensor;
    const char **name;
} gather;

static int count_parameter(void *arg, const char *name, rush_slot *s)
{
    *(int *)arg += s->what == SLOT_PARAMETER && s->t;
    return 0;
}

/* A tensor that two modules share is one parameter. */
static int take_parameter(void *arg, const char *name, rush_slot *s)
{
    rush_tensors *list = arg;
    if (s->what != SLOT_PARAMETER || !s->t) return 0;
    for (size_t i = 0; i < list->n; i++)
        if (list->data[i] == s->t) return 0;
    list->data[list->n++] = s->t;
    return 0;
}

rush_tensors rush_parameters(rush_module *m)
{
    int n = 0;
    each_slot(m, count_parameter, &n);
    rush_tensors list = {rush_scope_alloc(sizeof(rush_tensor *) * (size_t)RUSH_MAX(n, 1)), 0};
    if (list.data) each_slot(m, take_parameter, &list);
    return list;
}

int64_t rush_parameter_count(rush_module *m)
{
    int64_t n = 0;
    rush_tensors p = rush_parameters(m);
    for (size_t i = 0; i < p.n; i++) n += p.data[i]->numel;
    return n;
}

void rush_module_zero_grad(rush_module *m)
{
    rush_tensors p = rush_parameters(m);
    for (size_t i = 0; i < p.n; i++) rush_grad_set(p.data[i], NULL);
}

void rush_module_requires_grad(rush_module *m, bool on)
{
    rush_tensors p = rush_parameters(m);
    for (size_t i = 0; i < p.n; i++) rush_requires_grad_set(p.data[i], on);
}

typedef struct search {
    const char *name;
    rush_tensor *found;
} search;

static int find(void *arg, const char *name, rush_slot *s)
{
    search *f = arg;
    if (!f->found && !strcmp(name, f->name)) f->found = s->t;
    return 0;
}

rush_tensor *rush_module_tensor(rush_module *m, const char *name)
{
    search f = {name, NULL};
    RUSH_CHECK_NULL(name, RUSH_TYPE_ERROR, "a tensor of a module has a name");
    each_slot(m, find, &f);
    return f.found;
}

rush_module *rush_module_child(rush_module *m, const char *name)
{
    if (!given(m)) return NULL;
    RUSH_CHECK_NULL(name, RUSH_TYPE_ERROR, "a child is asked for by a name");
    while (m && *name) {
        size_t n = strcspn(name, ".");
        rush_module *next = NULL;
        for (int i = 0; i < m->nchildren && !next; i++)
            if (!strncmp(m->children[i].name, name, n) && !m->children[i].name[n]) next = m->children[i].module;
        m = next;
        name += n + (name[n] == '.');
    }
    return m;
}

int rush_data_set(rush_tensor *t, rush_tensor *from)
{
    if (rush_failed() || !rush_tensor_given(t) || !rush_tensor_given(from)) return -1;
    RUSH_CHECK(t->layout == from->layout, RUSH_RUNTIME_ERROR, "Attempted to call `variable.set_data(tensor)`, but `variable` and `tensor` have incompatible tensor type.");
    RUSH_CHECK(!(t->ag && rush_wants_grad(t)) || rush_dtypes[from->dtype].category >= 2, RUSH_RUNTIME_ERROR, "data set to a tensor that requires gradients must be floating point or complex dtype");
    if (rush_is_quantized(t)) return rush_quantized_become(t, from);
    if (t->layout) return rush_sparse_become(t, from);
    if (!t->version && rush_version_own(t, rush_version_of(t))) return -1; /* see set_() */
    rush_tensor_set_storage(t, from->storage, from->offset);
    t->dtype = from->dtype;
    t->device = from->device;
    t->flags = (t->flags & ~(RUSH_T_CONJ | RUSH_T_NEG | RUSH_T_ZERO)) | (from->flags & (RUSH_T_CONJ | RUSH_T_NEG | RUSH_T_ZERO));
    return rush_tensor_reshape_inplace(t, from->ndim, from->size, from->stride, from->offset);
}

static int change_dtype(void *arg, const char *name, rush_slot *s)
{
    rush_dtype d = *(rush_dtype *)arg;
    if (!s->t || rush_dtypes[s->t->dtype].category != 2 || s->t->dtype == d) return 0;
    rush_tensor *t = rush_cast_copy(s->t, d);
    if (!t || (s->what == SLOT_PARAMETER && !rush_requires_grad_set(t, rush_requires_grad(s->t)))) return -1;
    rush_keep(t);
    rush_drop(s->t);
    s->t = t;
    return 0;
}

int rush_module_to(rush_module *m, rush_dtype d)
{
    RUSH_CHECK((unsigned)d < RUSH_QINT8 && rush_dtypes[d].category == 2, RUSH_TYPE_ERROR, "a module's parameters can't be %s", rush_dtype_name(d));
    return each_slot(m, change_dtype, &d);
}

/* ---- state ---- */

static int count_state(void *arg, const char *name, rush_slot *s)
{
    *(int *)arg += s->what != SLOT_SCRATCH && s->t;
    return 0;
}

static int take_state(void *arg, const char *name, rush_slot *s)
{
    gather *g = arg;
    if (s->what == SLOT_SCRATCH || !s->t) return 0;
    char *own_name = rush_scope_alloc(strlen(name) + 1);
    if (!own_name) return -1;
    g->name[g->n] = strcpy(own_name, name);
    g->tensor[g->n++] = rush_tensor_detach(s->t);
    return 0;
}

rush_state rush_module_state(rush_module *m)
{
    int n = 0;
    each_slot(m, count_state, &n);
    gather g = {0, rush_scope_alloc(sizeof *g.tensor * (size_t)RUSH_MAX(n, 1)), rush_scope_alloc(sizeof *g.name * (size_t)RUSH_MAX(n, 1))};
    if (!g.tensor || !g.name || each_slot(m, take_state, &g)) return (rush_state){-1, NULL, NULL};
    return (rush_state){g.n, g.name, g.tensor};
}

bool rush_state_given(rush_state s)
{
    bool there = s.n >= 0 && (!s.n || (s.name && s.tensor));
    if (!there) rush_fail(RUSH_TYPE_ERROR, "a state was expected, but there is none");
    for (int i = 0; there && i < s.n; i++)
        if (!(there = s.name[i] && s.tensor[i])) rush_fail(RUSH_TYPE_ERROR, "entry %d of the state has no name or no tensor", i);
        else there = rush_tensor_given(s.tensor[i]);
    return there;
}

rush_tensor *rush_state_find(rush_state s, const char *name)
{
    if (!rush_state_given(s)) return NULL;
    RUSH_CHECK_NULL(name, RUSH_TYPE_ERROR, "a tensor is asked for by a name");
    for (int i = 0; i < s.n; i++)
        if (!strcmp(s.name[i], name)) return s.tensor[i];
    return NULL;
}

typedef struct loading {
    rush_state from;
    bool strict, check_only;
    int used;
    const rush_module *of;
} loading;

static int load_one(void *arg, const char *name, rush_slot *s)
{
    loading *l = arg;
    if (s->what == SLOT_SCRATCH || !s->t) return 0;
    rush_tensor *t = rush_state_find(l->from, name);
    if (!t) {
        RUSH_CHECK(!l->strict, RUSH_RUNTIME_ERROR, "the state has no '%s', which %s needs", name, l->of->kind->name);
        return 0;
    }
    RUSH_CHECK(rush_same_sizes(t, s->t), RUSH_RUNTIME_ERROR, "'%s' has size %s in the state, %s in the module", name, rush_shape_of(t),
               rush_shape_of(s->t));
    l->used++;
    if (l->check_only) return 0;
    if (rush_copy_into(s->t, t)) return -1;
    rush_version_bump(s->t);
    return 0;
}

int rush_module_load_state(rush_module *m, rush_state from, bool strict)
{
    if (!given(m) || !rush_state_given(from)) return -1;
    loading l = {from, strict, true, 0, m};
    if (each_slot(m, load_one, &l)) return -1; /* first everything is looked at, then everything is changed */
    for (int i = 0; strict && l.used < from.n && i < from.n; i++)
        RUSH_CHECK(rush_module_tensor(m, from.name[i]), RUSH_RUNTIME_ERROR, "the state has '%s', which %s has not", from.name[i], m->kind->name);
    l.check_only = false;
    return each_slot(m, load_one, &l);
}

int rush_module_save(rush_module *m, const char *path)
{
    size_t mark = rush_scope_open();
    rush_state s = rush_module_state(m);
    int failed = s.n < 0 || rush_safetensors_save(path, s);
    rush_scope_close(mark);
    return failed ? -1 : 0;
}

int rush_module_load(rush_module *m, const char *path)
{
    size_t mark = rush_scope_open();
    rush_state s = rush_safetensors_load(path);
    int failed = s.n < 0 || rush_module_load_state(m, s, true);
    rush_scope_close(mark);
    return failed ? -1 : 0;
}
