/* python.h - what the package gives to extension modules written in C or C++, beside rushlight.h.
 *
 *     const rush_python *api = PyCapsule_Import(RUSH_PYTHON_CAPSULE, 0);
 *     rush_tensor *t = api->tensor(object);
 *
 * The interpreter's lock is held by who calls.
 */
#ifndef RUSHLIGHT_PYTHON_H
#define RUSHLIGHT_PYTHON_H

#include <rushlight.h>

typedef struct _object PyObject; /* Python.h's */

#define RUSH_PYTHON_CAPSULE "rushlight._C._extension_api"

typedef struct rush_python {
    size_t size;                                /* of this struct, as the package was built */
    rush_tensor *(*tensor)(PyObject *);         /* borrowed; NULL and no exception: it is no Tensor */
    PyObject *(*object)(rush_tensor *);         /* a new reference; None for NULL */
    int (*dtype)(PyObject *);                   /* -1 and no exception: it is no torch.dtype */
    PyObject *(*dtype_object)(int dtype);       /* a new reference */
    int (*device)(PyObject *, rush_device *);   /* 1: it is a torch.device, a text or an index that names one, 0: no */
    PyObject *(*device_object)(rush_device);
    rush_generator *(*generator)(PyObject *);   /* borrowed; NULL and no exception: it is none */
    void *(*raise)(void);                       /* the library's pending error as Python's exception; NULL */
    int (*foreign)(void);                       /* Python's exception as the library's pending error; -1 */
} rush_python;

#endif
