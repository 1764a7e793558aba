/* archive.c - PyTorchFileReader and PyTorchFileWriter: the zip archives of src/io as Python objects.
 *
 * Bytes go between files and storages without passing through Python's objects, and without its lock.
 */
#define _GNU_SOURCE
#include "ext.h"
#include "io/zip.h"
#include <rushlight/gguf.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- reading ---- */

typedef struct reader {
    PyObject_HEAD
    rush_zip *zip;
    Py_buffer buffer;     /* buf NULL: a file */
    rush_mapping *map[2]; /* of the whole file, once storages are mapped: private, shared */
} reader;

static void reader_dealloc(PyObject *self)
{
    reader *x = (reader *)self;
    rush_zip_close(x->zip);
    for (int i = 0; i < 2; i++) rush_unmap(x->map[i]);
    if (x->buffer.obj) PyBuffer_Release(&x->buffer);
    Py_TYPE(self)->tp_free(self);
}

/* PyTorchFileReader(path), (descriptor, name, start) or (buffer, name) */
static int open_source(reader *x, PyObject *from, const char *name, long long start, rush_source *s)
{
    if (PyUnicode_Check(from)) {
        PyObject *path;
        if (!PyUnicode_FSConverter(from, &path)) return -1;
        int failed = rush_source_open(s, PyBytes_AS_STRING(path));
        if (!failed) s->name = name ? name : "a file";
        Py_DECREF(path);
        return failed ? py_raise_int() : 0;
    }
    if (PyLong_Check(from)) {
        int fd = fcntl((int)PyLong_AsLong(from), F_DUPFD_CLOEXEC, 0);
        struct stat st;
        bool regular = fd >= 0 && !fstat(fd, &st) && S_ISREG(st.st_mode); /* its position is left alone: Python's buffer knows it */
        if (!regular || start < 0 || start > st.st_size) {
            if (fd < 0) PyErr_SetFromErrno(PyExc_OSError);
            else PyErr_SetString(PyExc_ValueError, regular ? "the position is outside of the file" : "only regular files are read by position");
            if (fd >= 0) close(fd);
            return -1;
        }
        off_t size = st.st_size;
        *s = (rush_source){.fd = fd, .size = (uint64_t)(size - start), .start = (uint64_t)start, .name = name ? name : "a file"};
        return 0;
    }
    if (PyObject_GetBuffer(from, &x->buffer, PyBUF_SIMPLE)) return -1;
    *s = (rush_source){.fd = -1, .mem = x->buffer.buf, .size = (uint64_t)x->buffer.len, .name = name ? name : "a buffer"};
    return 0;
}

static PyObject *reader_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"source", "name", "start", "check", NULL};
    PyObject *from;
    const char *name = NULL;
    long long start = 0;
    int check = 1;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O|zLp:PyTorchFileReader", names, &from, &name, &start, &check)) return NULL;
    PyObject *whole = !PyObject_CheckBuffer(from) && PyObject_HasAttrString(from, "read") ? PyObject_CallMethod(from, "read", NULL) : py_ref(from); /* of a file object */
    reader *x = whole ? (reader *)type->tp_alloc(type, 0) : NULL;
    rush_source s;
    if (x && !open_source(x, whole, name ? name : PyUnicode_Check(from) ? PyUnicode_AsUTF8(from) : NULL, start, &s)) {
        x->zip = rush_zip_open(s);
        if (x->zip) {
            x->zip->check = check;
            Py_DECREF(whole);
            return (PyObject *)x;
        }
        py_raise();
    }
    Py_XDECREF(whole);
    Py_XDECREF(x);
    return NULL;
}

static const rush_zip_entry *entry_of(PyObject *self, PyObject *name)
{
    const char *text = PyUnicode_AsUTF8(name);
    const rush_zip_entry *e = text ? rush_zip_need(((reader *)self)->zip, text) : NULL;
    if (text && !e) py_raise();
    return e;
}

static PyObject *has_record(PyObject *self, PyObject *name)
{
    const char *text = PyUnicode_AsUTF8(name);
    if (!text) return NULL;
    bool yes = rush_zip_find_below(((reader *)self)->zip, text);
    return rush_failed() ? py_raise() : PyBool_FromLong(yes);
}

static PyObject *get_record(PyObject *self, PyObject *name)
{
    const rush_zip_entry *e = entry_of(self, name);
    PyObject *bytes = e ? PyBytes_FromStringAndSize(NULL, (Py_ssize_t)e->size) : NULL;
    if (!bytes) return NULL;
    int failed;
    Py_BEGIN_ALLOW_THREADS
    failed = rush_zip_read(((reader *)self)->zip, e, PyBytes_AS_STRING(bytes));
    Py_END_ALLOW_THREADS
    if (!failed) return bytes;
    Py_DECREF(bytes);
    return py_raise();
}

static PyObject *get_all_records(PyObject *self, PyObject *unused)
{
    rush_zip *z = ((reader *)self)->zip;
    size_t root = strlen(z->root);
    PyObject *all = PyList_New(0);
    for (uint32_t i = 0; all && i < z->n; i++) {
        const char *name = z->entry[i].name;
        if (strncmp(name, z->root, root) || name[root] != '/') continue;
        PyObject *text = PyUnicode_DecodeUTF8(name + root + 1, (Py_ssize_t)strlen(name + root + 1), "surrogateescape");
        if (!text || PyList_Append(all, text)) Py_CLEAR(all);
        Py_XDECREF(text);
    }
    return all;
}

static PyObject *get_record_offset(PyObject *self, PyObject *name)
{
    const rush_zip_entry *e = entry_of(self, name);
    int64_t at = e ? rush_zip_offset(((reader *)self)->zip, e) : -1;
    return !e ? NULL : at < 0 ? py_raise() : PyLong_FromLongLong(at + (int64_t)((reader *)self)->zip->source.start);
}

static PyObject *get_record_header_offset(PyObject *self, PyObject *name)
{
    const rush_zip_entry *e = entry_of(self, name);
    return e ? PyLong_FromUnsignedLongLong(e->offset + ((reader *)self)->zip->source.start) : NULL;
}

static PyObject *get_record_size(PyObject *self, PyObject *name)
{
    const rush_zip_entry *e = entry_of(self, name);
    return e ? PyLong_FromUnsignedLongLong(e->size) : NULL;
}

static PyObject *archive_name(PyObject *self, PyObject *unused) { return PyUnicode_DecodeFSDefault(((reader *)self)->zip->root); }

static PyObject *version_of(PyObject *self, PyObject *unused)
{
    PyObject *name = PyUnicode_FromString(rush_zip_find_below(((reader *)self)->zip, "version") ? "version" : ".data/version");
    PyObject *text = name ? get_record(self, name) : NULL, *number = text ? PyNumber_Long(text) : NULL;
    Py_XDECREF(name);
    Py_XDECREF(text);
    return number;
}

static PyObject *serialization_id(PyObject *self, PyObject *unused)
{
    PyObject *name = PyUnicode_FromString(".data/serialization_id"), *bytes = NULL, *text = NULL;
    if (name && !rush_zip_find_below(((reader *)self)->zip, ".data/serialization_id")) text = PyUnicode_FromString("");
    else if (name && (bytes = get_record(self, name))) text = PyUnicode_DecodeASCII(PyBytes_AS_STRING(bytes), PyBytes_GET_SIZE(bytes), "replace");
    Py_XDECREF(name);
    Py_XDECREF(bytes);
    return text;
}

static const rush_zip_entry *entry_of_size(PyObject *self, PyObject *name, long long bytes)
{
    const rush_zip_entry *e = entry_of(self, name);
    if (!e || (bytes >= 0 && e->size == (uint64_t)bytes)) return e;
    PyErr_Format(PyExc_RuntimeError, "storage %S of '%s' is declared with %lld bytes, but the file holds %llu", name, ((reader *)self)->zip->name, bytes, (unsigned long long)e->size);
    return NULL;
}

/* read_storage(name, bytes) -> UntypedStorage */
static PyObject *read_storage(PyObject *self, PyObject *args)
{
    PyObject *name;
    long long bytes;
    if (!PyArg_ParseTuple(args, "UL:_read_storage", &name, &bytes)) return NULL;
    const rush_zip_entry *e = entry_of_size(self, name, bytes);
    if (!e) return NULL;
    rush_storage *s = rush_storage_new((size_t)bytes, (rush_device){RUSH_CPU, -1});
    if (!s) return py_raise();
    char none;
    int failed;
    Py_BEGIN_ALLOW_THREADS
    failed = rush_zip_read(((reader *)self)->zip, e, s->data ? s->data : &none);
    Py_END_ALLOW_THREADS
    PyObject *object = failed ? py_raise() : py_storage(s);
    rush_storage_drop(s);
    return object;
}

/* map_storage(name, bytes, shared) -> UntypedStorage over the file's memory */
static PyObject *map_storage(PyObject *self, PyObject *args)
{
    reader *x = (reader *)self;
    PyObject *name;
    long long bytes;
    int shared;
    if (!PyArg_ParseTuple(args, "ULp:_map_storage", &name, &bytes, &shared)) return NULL;
    const rush_zip_entry *e = entry_of_size(self, name, bytes);
    if (!e) return NULL;
    if (e->method) return PyErr_Format(PyExc_RuntimeError, "entry %S of '%s' is compressed and cannot be mapped: load without mmap", name, x->zip->name);
    if (x->zip->source.fd < 0) return PyErr_Format(PyExc_RuntimeError, "only files can be mapped");
    int64_t at = rush_zip_offset(x->zip, e);
    if (at < 0) return py_raise();
    if (!x->map[shared]) x->map[shared] = rush_map_fd(x->zip->source.fd, (size_t)(x->zip->source.start + x->zip->source.size), shared);
    rush_storage *s = x->map[shared] ? rush_map_storage(x->map[shared], (size_t)((uint64_t)at + x->zip->source.start), (size_t)bytes) : NULL;
    if (!s) return py_raise();
    PyObject *object = py_storage(s);
    rush_storage_drop(s);
    return object;
}

/* get_storage_from_record(name, numel, dtype) -> a tensor of one dimension; what is no dtype, such as UntypedStorage, stands for bytes */
static PyObject *get_storage_from_record(PyObject *self, PyObject *args)
{
    PyObject *name, *dtype;
    long long numel;
    int d;
    if (!PyArg_ParseTuple(args, "ULO:get_storage_from_record", &name, &numel, &dtype)) return NULL;
    int found = py_to_dtype(dtype, &d);
    if (found < 0) return NULL;
    if (!found) d = RUSH_U8;
    const rush_zip_entry *e = entry_of_size(self, name, numel * (long long)rush_dtypes[d].size);
    if (!e) return NULL;
    size_t mark = rush_scope_open();
    rush_tensor *t = rush_tensor_new((rush_dtype)d, (rush_device){RUSH_CPU, -1}, 1, (int64_t[]){numel});
    char none;
    int failed = !t;
    if (t) {
        Py_BEGIN_ALLOW_THREADS
        failed = rush_zip_read(((reader *)self)->zip, e, t->storage->data ? t->storage->data : &none);
        Py_END_ALLOW_THREADS
    }
    PyObject *object = failed ? py_raise() : py_wrap(t);
    rush_scope_close(mark);
    return object;
}

static PyMethodDef reader_methods[] = {
    {"has_record", has_record, METH_O, "Is there an entry of that name?"},
    {"get_record", get_record, METH_O, "Its bytes."},
    {"get_all_records", get_all_records, METH_NOARGS, "The names of all entries."},
    {"get_record_offset", get_record_offset, METH_O, "Where its bytes begin in the file."},
    {"get_record_header_offset", get_record_header_offset, METH_O, "Where its header begins in the file."},
    {"get_record_size", get_record_size, METH_O, "How many bytes it has."},
    {"get_storage_from_record", get_storage_from_record, METH_VARARGS, "A tensor of its bytes."},
    {"archive_name", archive_name, METH_NOARGS, "The folder that all entries are in."},
    {"version", version_of, METH_NOARGS, "Of the format."},
    {"serialization_id", serialization_id, METH_NOARGS, "The mark that the writer left."},
    {"_read_storage", read_storage, METH_VARARGS, "A storage of an entry of so many bytes."},
    {"_map_storage", map_storage, METH_VARARGS, "The same over the memory of the file."},
    {NULL},
};

static PyTypeObject reader_type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "torch._C.PyTorchFileReader",
    .tp_basicsize = sizeof(reader),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE,
    .tp_doc = "The entries of a checkpoint by name: PyTorchFileReader(path), (buffer), or (descriptor, name, start).",
    .tp_new = reader_new,
    .tp_dealloc = reader_dealloc,
    .tp_methods = reader_methods,
};

/* ---- writing ---- */

typedef struct writer {
    PyObject_HEAD
    rush_writing file;
    rush_zip_writer zip;
    PyObject *target; /* an object with write(); NULL: a file of our own */
    PyObject *root, *names;
    bool open;
} writer;

static void finish(writer *x, bool keep)
{
    if (!x->open) return;
    x->open = false;
    if (!keep) rush_zip_end(&x->zip, false);
    if (!x->target && !keep) rush_write_end(&x->file, false);
}

static void writer_dealloc(PyObject *self)
{
    writer *x = (writer *)self;
    finish(x, false);
    Py_XDECREF(x->target);
    Py_XDECREF(x->root);
    Py_XDECREF(x->names);
    Py_TYPE(self)->tp_free(self);
}

/* All bytes to target.write(), which may take fewer at a time. */
static int to_object(void *target, const void *p, size_t n)
{
    const char *at = p;
    while (n) {
        PyObject *view = PyMemoryView_FromMemory((char *)at, (Py_ssize_t)n, PyBUF_READ), *got = NULL;
        if (view) got = PyObject_CallMethod(target, "write", "O", view);
        Py_XDECREF(view);
        if (!got) return py_foreign();
        Py_ssize_t taken = PyLong_Check(got) ? PyLong_AsSsize_t(got) : (Py_ssize_t)n;
        Py_DECREF(got);
        if (taken <= 0 || (size_t)taken > n) return rush_fail(RUSH_IO_ERROR, "write() took %zd of %zu bytes", taken, n);
        at += taken, n -= (size_t)taken;
    }
    return 0;
}

static PyObject *writer_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"file", "compute_crc32", "storage_alignment", "archive_name", NULL};
    PyObject *to, *root = NULL, *path = NULL;
    int check = 1;
    Py_ssize_t alignment = 64;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O|pnU:PyTorchFileWriter", names, &to, &check, &alignment, &root)) return NULL;
    writer *x = (writer *)type->tp_alloc(type, 0);
    if (!x) return NULL;
    x->root = root ? py_ref(root) : PyUnicode_FromString("archive");
    x->names = PyList_New(0);
    bool own = !PyObject_HasAttrString(to, "write"), ready = x->root && x->names;
    if (ready && own && (ready = PyUnicode_FSConverter(to, &path))) {
        if (rush_write_begin(&x->file, PyBytes_AS_STRING(path))) ready = py_raise();
        Py_DECREF(path);
    }
    if (ready) {
        x->target = own ? NULL : py_ref(to);
        x->open = true;
        rush_zip_begin(&x->zip, own ? rush_zip_to_file : to_object, own ? (void *)&x->file : (void *)to);
        x->zip.check = check;
        return (PyObject *)x;
    }
    Py_DECREF(x);
    return NULL;
}

/* write_record(name, data, size): bytes, a storage, anything with a buffer; None stands for zeros */
static PyObject *write_record(PyObject *self, PyObject *args)
{
    writer *x = (writer *)self;
    PyObject *name, *data;
    long long size = -1;
    if (!PyArg_ParseTuple(args, "UO|L:write_record", &name, &data, &size)) return NULL;
    if (!x->open) return PyErr_Format(PyExc_RuntimeError, "the archive is written already");
    Py_buffer view = {.obj = NULL};
    if (data != Py_None && PyObject_GetBuffer(data, &view, PyBUF_SIMPLE)) return NULL;
    if (size < 0) size = view.len;
    PyObject *full = view.obj && size > view.len ? PyErr_Format(PyExc_ValueError, "%lld bytes of data that has %zd", size, view.len) : PyUnicode_FromFormat("%U/%U", x->root, name);
    const char *text = full ? PyUnicode_AsUTF8(full) : NULL;
    int failed = !text;
    if (text && x->target) {
        failed = rush_zip_add(&x->zip, text, view.obj ? view.buf : NULL, (uint64_t)size) ? py_raise_int() : 0;
    } else if (text) {
        Py_BEGIN_ALLOW_THREADS
        failed = rush_zip_add(&x->zip, text, view.obj ? view.buf : NULL, (uint64_t)size);
        Py_END_ALLOW_THREADS
        if (failed) py_raise();
    }
    if (!failed) failed = PyList_Append(x->names, name);
    Py_XDECREF(full);
    if (view.obj) PyBuffer_Release(&view);
    if (failed) return NULL;
    Py_RETURN_NONE;
}

static PyObject *write_end_of_file(PyObject *self, PyObject *unused)
{
    writer *x = (writer *)self;
    if (!x->open) return PyErr_Format(PyExc_RuntimeError, "the archive is written already");
    int failed = rush_zip_end(&x->zip, true);
    if (!x->target) {
        Py_BEGIN_ALLOW_THREADS
        failed = rush_write_end(&x->file, !failed) || failed;
        Py_END_ALLOW_THREADS
    }
    x->open = false;
    if (failed) return py_raise();
    Py_RETURN_NONE;
}

/* Forgets what was written; a file of that name stays as it was. */
static PyObject *discard(PyObject *self, PyObject *unused)
{
    finish((writer *)self, false);
    Py_RETURN_NONE;
}

static PyObject *get_all_written_records(PyObject *self, PyObject *unused) { return PySequence_List(((writer *)self)->names); }
static PyObject *writer_archive_name(PyObject *self, PyObject *unused) { return py_ref(((writer *)self)->root); }

static PyMethodDef writer_methods[] = {
    {"write_record", write_record, METH_VARARGS, "Adds an entry: name, data, size."},
    {"write_end_of_file", write_end_of_file, METH_NOARGS, "Ends the archive; only now the file is there."},
    {"discard", discard, METH_NOARGS, "Forgets what was written."},
    {"get_all_written_records", get_all_written_records, METH_NOARGS, "The names of the entries so far."},
    {"archive_name", writer_archive_name, METH_NOARGS, "The folder that all entries are in."},
    {NULL},
};

static PyTypeObject writer_type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "torch._C.PyTorchFileWriter",
    .tp_basicsize = sizeof(writer),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE,
    .tp_doc = "Writes a checkpoint's archive to a path (whole or not at all), or to an object with write().",
    .tp_new = writer_new,
    .tp_dealloc = writer_dealloc,
    .tp_methods = writer_methods,
};

/* ---- named tensors of other formats ---- */

typedef struct format {
    const char *name;
    rush_state (*load)(const char *);
    int (*save)(const char *, rush_state);
} format;
static int gguf_save(const char *path, rush_state s) { return rush_gguf_save(path, s, NULL, NULL); }

static const format formats[] = {
    {"state", rush_load_state, rush_save_state}, {"npz", rush_npz_load, rush_npz_save}, {"safetensors", rush_safetensors_load, rush_safetensors_save},
    {"gguf", rush_gguf_load, gguf_save},
};

static const format *format_of(const char *name)
{
    for (size_t i = 0; i < RUSH_COUNT(formats); i++)
        if (!strcmp(formats[i].name, name)) return formats + i;
    PyErr_Format(PyExc_ValueError, "no format is called %s", name);
    return NULL;
}

/* _load_named(format, path) -> [(name, tensor), ...]; "state" is every tensor of a checkpoint or TorchScript archive */
static PyObject *load_named(PyObject *module, PyObject *args)
{
    PyObject *path;
    const char *name;
    if (!PyArg_ParseTuple(args, "sO&:_load_named", &name, PyUnicode_FSConverter, &path)) return NULL;
    const format *f = format_of(name);
    size_t mark = rush_scope_open();
    rush_state s = f ? f->load(PyBytes_AS_STRING(path)) : (rush_state){.n = -1};
    Py_DECREF(path);
    PyObject *all = s.n >= 0 ? PyList_New(0) : f ? py_raise() : NULL;
    for (int i = 0; all && i < s.n; i++) {
        PyObject *tensor = py_wrap(s.tensor[i]), *pair = tensor ? Py_BuildValue("(sN)", s.name[i], tensor) : NULL;
        if (!pair || PyList_Append(all, pair)) Py_CLEAR(all);
        Py_XDECREF(pair);
    }
    rush_scope_close(mark);
    return all;
}

/* The items of a dict of texts, one after the other, and NULL; in the scope. */
static const char **texts_of(PyObject *dict)
{
    size_t n = 2 * (size_t)PyDict_GET_SIZE(dict), i = 0;
    const char **texts = rush_scope_alloc((n + 1) * sizeof *texts);
    PyObject *key, *value;
    for (Py_ssize_t at = 0; texts && PyDict_Next(dict, &at, &key, &value); i += 2)
        if (!(texts[i] = PyUnicode_AsUTF8(key)) || !(texts[i + 1] = PyUnicode_AsUTF8(value))) return NULL;
    if (texts) texts[n] = NULL;
    return texts;
}

/* _save_named(format, path, names, tensors, notes=None): two lists, and of safetensors a dict of texts */
static PyObject *save_named(PyObject *module, PyObject *args)
{
    PyObject *path, *names, *tensors, *notes = NULL;
    const char *name;
    if (!PyArg_ParseTuple(args, "sO&O!O!|O!:_save_named", &name, PyUnicode_FSConverter, &path, &PyList_Type, &names, &PyList_Type, &tensors, &PyDict_Type, &notes)) return NULL;
    const format *f = format_of(name);
    size_t mark = rush_scope_open(), n = (size_t)PyList_GET_SIZE(names);
    rush_state s = {.n = (int)n, .name = rush_scope_alloc(n * sizeof *s.name), .tensor = rush_scope_alloc(n * sizeof *s.tensor)};
    const char **texts = notes ? texts_of(notes) : NULL;
    bool ready = f && s.name && s.tensor && (size_t)PyList_GET_SIZE(tensors) == n && (!notes || texts);
    for (size_t i = 0; ready && i < n; i++) {
        s.name[i] = PyUnicode_AsUTF8(PyList_GET_ITEM(names, (Py_ssize_t)i));
        s.tensor[i] = py_need_tensor(PyList_GET_ITEM(tensors, (Py_ssize_t)i), "what is saved");
        ready = s.name[i] && s.tensor[i];
    }
    int failed = !ready;
    if (ready) {
        Py_BEGIN_ALLOW_THREADS
        failed = notes ? rush_safetensors_save_noted(PyBytes_AS_STRING(path), s, texts) : f->save(PyBytes_AS_STRING(path), s);
        Py_END_ALLOW_THREADS
    }
    rush_scope_close(mark);
    Py_DECREF(path);
    if (failed) return PyErr_Occurred() ? NULL : py_raise();
    Py_RETURN_NONE;
}

static PyObject *load_npy(PyObject *module, PyObject *args)
{
    PyObject *path;
    if (!PyArg_ParseTuple(args, "O&:_load_npy", PyUnicode_FSConverter, &path)) return NULL;
    size_t mark = rush_scope_open();
    rush_tensor *t = rush_npy_load(PyBytes_AS_STRING(path));
    PyObject *tensor = t ? py_wrap(t) : py_raise();
    rush_scope_close(mark);
    Py_DECREF(path);
    return tensor;
}

static PyObject *save_npy(PyObject *module, PyObject *args)
{
    PyObject *path, *x;
    if (!PyArg_ParseTuple(args, "O&O:_save_npy", PyUnicode_FSConverter, &path, &x)) return NULL;
    rush_tensor *t = py_need_tensor(x, "what is saved");
    int failed = !t;
    if (t) {
        Py_BEGIN_ALLOW_THREADS
        failed = rush_npy_save(PyBytes_AS_STRING(path), t);
        Py_END_ALLOW_THREADS
    }
    Py_DECREF(path);
    if (failed) return t ? py_raise() : NULL;
    Py_RETURN_NONE;
}

static PyMethodDef functions[] = {
    {"_load_named", load_named, METH_VARARGS, "Every tensor of a file, by name."},
    {"_save_named", save_named, METH_VARARGS, "A file of named tensors."},
    {"_load_npy", load_npy, METH_VARARGS, "The array of a file."},
    {"_save_npy", save_npy, METH_VARARGS, "A file of one array."},
    {NULL},
};

int py_archive_init(PyObject *module)
{
    if (PyType_Ready(&reader_type) || PyType_Ready(&writer_type) || PyModule_AddFunctions(module, functions)) return -1;
    return py_add(module, "PyTorchFileReader", py_ref((PyObject *)&reader_type)) || py_add(module, "PyTorchFileWriter", py_ref((PyObject *)&writer_type)) ? -1 : 0;
}
