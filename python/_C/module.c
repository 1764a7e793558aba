/* module.c - rushlight._C: puts the parts of the extension together. */
#include "ext.h"

extern PyMethodDef py_parse_to, py_tensor_graph_methods[];

static PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, .m_name = "rushlight._C", .m_doc = "The library as Python sees it.", .m_size = -1,
};

static int add_parse_to(PyObject *module)
{
    PyObject *nn = PyObject_GetAttrString(module, "_nn"), *f = PyCFunction_New(&py_parse_to, NULL);
    int failed = nn && f ? PyObject_SetAttrString(nn, "_parse_to", f) : -1;
    Py_XDECREF(nn);
    Py_XDECREF(f);
    return failed;
}

PyMODINIT_FUNC PyInit__C(void);

PyMODINIT_FUNC PyInit__C(void)
{
    /* The order matters: types before what makes objects of them, operations before the functions written by hand. */
    static int (*const parts[])(PyObject *) = {
        py_errors_init, py_types_init, py_constants_init, py_generator_init, py_storage_init, py_tensor_init, py_call_init,
        py_override_init, py_dispatch_init, py_kernels_init, py_make_init, py_legacy_init, py_numpy_init, py_dlpack_init, py_node_init, py_hooks_init, py_engine_init,
        py_customfn_init, py_modes_init, py_device_init, py_cuda_init, py_library_init, py_elsewhere_init, py_compat_init, py_nnmodule_init, py_profiler_init, py_capture_init, py_unpickle_init,
        py_archive_init, py_gguf_init, py_summary_init, py_script_init, py_object_init, py_onnx_init, py_store_init, py_dist_init, py_share_init, add_parse_to};
    PyObject *module = PyModule_Create(&definition);
    for (size_t i = 0; module && i < RUSH_COUNT(parts); ++i)
        if (parts[i](module)) Py_CLEAR(module);
    return module;
}
