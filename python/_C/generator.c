/* generator.c - torch.Generator, the state of random numbers, as Python sees it. */
#include "ext.h"
#include <sys/random.h>

typedef struct generator_object {
    PyObject_HEAD
    rush_generator *gen; /* owned; its `py` points back */
} generator_object;
#define OWN(x) (((generator_object *)(x))->gen)
#define GEN(x) py_generator_of(x)

bool py_is_generator(PyObject *x) { return PyObject_TypeCheck(x, &py_type_Generator); }

/* torch.default_generator is one object, and stands for the generator of the thread that uses it. */
rush_generator *py_generator_of(PyObject *x)
{
    static rush_generator *everybodys;
    if (!everybodys && !rush_now.generator) everybodys = rush_default_generator();
    return OWN(x) && OWN(x) == everybodys ? rush_default_generator() : OWN(x);
}

static PyObject *wrap(PyTypeObject *type, rush_generator *owned)
{
    generator_object *self = owned ? (generator_object *)type->tp_alloc(type, 0) : NULL;
    if (!self) {
        if (owned) rush_generator_drop(owned);
        return owned ? NULL : py_raise();
    }
    self->gen = owned;
    owned->py = self;
    return (PyObject *)self;
}

PyObject *py_generator(rush_generator *g)
{
    if (!g) Py_RETURN_NONE;
    if (g->py) return py_ref(g->py);
    rush_generator_keep(g);
    return wrap(&py_type_Generator, g);
}

static PyObject *generator_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"device", NULL};
    PyObject *x = NULL;
    rush_device d = {RUSH_CPU, -1};
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|O:Generator", names, &x)) return NULL;
    if (x && x != Py_None && py_to_device(x, &d) <= 0)
        return PyErr_Occurred() ? NULL : PyErr_Format(PyExc_TypeError, "Generator(): argument 'device' must be torch.device, not %s", py_type_name(x));
    if (py_device_ready(d)) return NULL;
    rush_generator *g = rush_generator_new(67280421310721u); /* PyTorch's seed of a generator that was given none */
    if (g) g->device = rush_device_resolve(d);
    return wrap(type, g);
}

static void generator_dealloc(PyObject *self)
{
    if (OWN(self)) {
        OWN(self)->py = NULL;
        rush_generator_drop(OWN(self));
    }
    Py_TYPE(self)->tp_free(self);
}

static PyObject *generator_repr(PyObject *self) { return PyUnicode_FromFormat("<torch._C.Generator object at %p>", self); }

static PyObject *manual_seed(PyObject *self, PyObject *x)
{
    int64_t seed;
    int ok = py_to_int(x, &seed);
    if (ok < 0 && PyLong_Check(x)) { /* beyond int64: seeds reach to 2**64 */
        PyErr_Clear();
        seed = (int64_t)PyLong_AsUnsignedLongLong(x);
        if (PyErr_Occurred()) {
            PyErr_Clear();
            return PyErr_Format(PyExc_ValueError, "Overflow when unpacking long long");
        }
        ok = 1;
    }
    if (ok < 0) return NULL;
    if (!ok) return PyErr_Format(PyExc_RuntimeError, "manual_seed expected a long, but got %s", py_type_name(x));
    rush_generator_seed(GEN(self), (uint64_t)seed);
    return py_ref(self);
}

static PyObject *new_seed(PyObject *self, PyObject *unused)
{
    uint64_t seed;
    if (getrandom(&seed, sizeof seed, 0) != sizeof seed) return PyErr_SetFromErrno(PyExc_OSError);
    seed &= 0x1fffffffffffff; /* PyTorch keeps to 53 bits, which a double holds */
    rush_generator_seed(GEN(self), seed);
    return PyLong_FromUnsignedLongLong(seed);
}

static PyObject *initial_seed(PyObject *self, PyObject *unused) { return PyLong_FromUnsignedLongLong(GEN(self)->seed); }

static PyObject *get_state(PyObject *self, PyObject *unused)
{
    int64_t n = RUSH_GENERATOR_STATE;
    size_t mark = rush_scope_open();
    rush_tensor *t = rush_tensor_new(RUSH_U8, (rush_device){RUSH_CPU, -1}, 1, &n);
    if (t) rush_generator_state(GEN(self), rush_ptr(t));
    PyObject *x = t ? py_wrap(t) : py_raise();
    rush_scope_close(mark);
    return x;
}

static PyObject *set_state(PyObject *self, PyObject *x)
{
    rush_tensor *t = py_need_tensor(x, "set_state(): the new state");
    if (!t) return NULL;
    if (t->dtype != RUSH_U8 || !rush_contiguous(t) || t->device.type != RUSH_CPU)
        return PyErr_Format(PyExc_TypeError, "expected a torch.ByteTensor, but got %s", rush_dtypes[t->dtype].name);
    if (py_lacks_data(t, "set_state()")) return NULL;
    if (rush_generator_state_set(GEN(self), rush_ptr(t), (size_t)t->numel)) return py_raise();
    return py_ref(self);
}

static PyObject *clone_state(PyObject *self, PyObject *unused)
{
    char state[RUSH_GENERATOR_STATE];
    rush_generator *g = rush_generator_new(0);
    rush_generator_state(GEN(self), state);
    if (g && rush_generator_state_set(g, state, sizeof state)) {
        rush_generator_drop(g);
        return py_raise();
    }
    return wrap(&py_type_Generator, g);
}

static PyObject *random_bits(PyObject *self, PyObject *unused) { return PyLong_FromUnsignedLongLong(rush_random64(GEN(self))); }

/* Of generators of CUDA devices: how far the sequence is, as src/cuda/random.c keeps it. */
static bool has_offset(PyObject *self)
{
    if (GEN(self)->device.type == RUSH_CUDA) return true;
    PyErr_Format(PyExc_RuntimeError, "%s Generator does not use offset", GEN(self)->device.type == RUSH_CPU ? "CPU" : rush_device_name(GEN(self)->device.type));
    return false;
}

static PyObject *get_offset(PyObject *self, PyObject *unused) { return has_offset(self) ? PyLong_FromDouble(GEN(self)->normal_double) : NULL; }

static PyObject *set_offset(PyObject *self, PyObject *x)
{
    if (!has_offset(self)) return NULL;
    const unsigned long long offset = PyLong_AsUnsignedLongLong(x);
    if (offset == (unsigned long long)-1 && PyErr_Occurred()) return NULL;
    if (offset % 4) return PyErr_Format(PyExc_RuntimeError, "offset must be a multiple of 4");
    GEN(self)->has_normal_double = true;
    GEN(self)->normal_double = (double)offset;
    return py_ref(self);
}

static PyObject *generator_setstate(PyObject *self, PyObject *args)
{
    PyObject *seed, *offset, *state;
    if (!PyArg_ParseTuple(args, "(OOO)", &seed, &offset, &state)) return NULL;
    PyObject *r = manual_seed(self, seed);
    if (!r) return NULL;
    Py_DECREF(r);
    return set_state(self, state);
}

static PyObject *generator_reduce(PyObject *self, PyObject *unused)
{
    PyObject *device = py_device(GEN(self)->device), *state = get_state(self, NULL);
    if (!device || !state) {
        Py_XDECREF(device);
        Py_XDECREF(state);
        return NULL;
    }
    return Py_BuildValue("O(N)(KON)", &py_type_Generator, device, (unsigned long long)GEN(self)->seed, Py_None, state);
}

static PyObject *get_device(PyObject *self, void *unused) { return py_device(GEN(self)->device); }

/* _thread_generator(g) -> what was set: g must live until the next call in this thread. */
static PyObject *thread_generator(PyObject *module, PyObject *x)
{
    if (x != Py_None && !py_is_generator(x)) return PyErr_Format(PyExc_TypeError, "a Generator was expected, not %s", py_type_name(x));
    return py_generator(rush_thread_generator_set(x == Py_None ? NULL : OWN(x)));
}

static PyObject *thread_alone(PyObject *module, PyObject *unused)
{
    rush_parallel_alone(true);
    Py_RETURN_NONE;
}

static PyObject *grad_bits(PyObject *module, PyObject *unused) { return PyLong_FromLong(rush_now.mode & (RUSH_MODE_NO_GRAD | RUSH_MODE_INFERENCE)); }
static PyObject *set_grad_bits(PyObject *module, PyObject *x)
{
    enum { BITS = RUSH_MODE_NO_GRAD | RUSH_MODE_INFERENCE };
    long bits = PyLong_AsLong(x);
    if (bits == -1 && PyErr_Occurred()) return NULL;
    rush_now.mode = (rush_now.mode & ~(uint32_t)BITS) | ((uint32_t)bits & BITS);
    Py_RETURN_NONE;
}

static PyMethodDef functions[] = {
    {"_thread_generator", thread_generator, METH_O, "Gives this thread a default generator of its own, or None; returns the one it had."},
    {"_thread_alone", thread_alone, METH_NOARGS, "Operations of this thread run on it alone."},
    {"_grad_bits", grad_bits, METH_NOARGS, "Is recording off, inference mode on, in this thread? For _set_grad_bits()."},
    {"_set_grad_bits", set_grad_bits, METH_O, "Makes it so in this thread."},
    {NULL},
};

static PyMethodDef methods[] = {
    {"manual_seed", manual_seed, METH_O, "Starts the sequence that belongs to a seed; returns the generator."},
    {"seed", new_seed, METH_NOARGS, "Seeds from the system's randomness; returns the seed."},
    {"initial_seed", initial_seed, METH_NOARGS, "The seed that was set last."},
    {"get_state", get_state, METH_NOARGS, "The state, as a tensor of bytes."},
    {"set_state", set_state, METH_O, "Continues from a state that get_state() gave."},
    {"clone_state", clone_state, METH_NOARGS, "Another generator in the same state."},
    {"graphsafe_get_state", clone_state, METH_NOARGS, "Another generator in the same state."},
    {"get_offset", get_offset, METH_NOARGS, "How far the sequence is: of generators of CUDA devices."},
    {"set_offset", set_offset, METH_O, "Goes on from there: of generators of CUDA devices, multiples of 4."},
    {"_random64", random_bits, METH_NOARGS, "The next 64 random bits."},
    {"__setstate__", generator_setstate, METH_VARARGS, NULL},
    {"__reduce__", generator_reduce, METH_NOARGS, NULL},
    {NULL},
};
static PyGetSetDef getset[] = {{"device", get_device, NULL, "Where its numbers are made."}, {NULL}};

PyTypeObject py_type_Generator = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "rushlight.Generator",
    .tp_basicsize = sizeof(generator_object),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE,
    .tp_doc = "Generator(device='cpu'): a sequence of random numbers of its own.",
    .tp_new = generator_new,
    .tp_dealloc = generator_dealloc,
    .tp_repr = generator_repr,
    .tp_methods = methods,
    .tp_getset = getset,
};

int py_generator_init(PyObject *module)
{
    if (PyType_Ready(&py_type_Generator)) return -1;
    return PyModule_AddFunctions(module, functions) || py_add(module, "Generator", py_ref((PyObject *)&py_type_Generator)) ||
                   py_add(module, "default_generator", py_generator(rush_default_generator()))
               ? -1 : 0;
}
