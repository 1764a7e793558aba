/* python.hpp - tensors as arguments and results of functions that pybind11 binds. Python.h and pybind11 are the program's. */
#ifndef RUSHLIGHT_AT_PYTHON_HPP
#define RUSHLIGHT_AT_PYTHON_HPP

#if !__has_include(<pybind11/pybind11.h>)
#error "torch/extension.h needs pybind11: pip install pybind11"
#endif
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include "autograd.hpp"
#include <rushlight/python.h>

namespace c10::detail {

inline void translate(std::exception_ptr thrown)
{
    try {
        if (thrown) std::rethrow_exception(thrown);
    } catch (const Error &e) {
        static PyObject *const types[] = {nullptr, PyExc_RuntimeError, PyExc_ValueError, PyExc_TypeError, PyExc_IndexError, PyExc_KeyError, PyExc_NotImplementedError, PyExc_MemoryError,
                                          PyExc_OSError, PyExc_RuntimeError, PyExc_OverflowError, PyExc_ZeroDivisionError, PyExc_AttributeError};
        size_t kind = static_cast<size_t>(e.kind());
        PyErr_SetString(kind > 0 && kind < sizeof types / sizeof *types ? types[kind] : PyExc_RuntimeError, e.what());
    }
}

/* What the package gives. Asked for by everything that converts, so that errors have their types in the module by then. */
inline const rush_python &python()
{
    static const rush_python *api = [] {
        auto *found = static_cast<const rush_python *>(PyCapsule_Import(RUSH_PYTHON_CAPSULE, 0));
        if (!found) throw pybind11::error_already_set();
        pybind11::register_local_exception_translator(translate);
        return found;
    }();
    return *api;
}

} // namespace c10::detail

namespace pybind11::detail {

template <> struct type_caster<at::Tensor> {
    PYBIND11_TYPE_CASTER(at::Tensor, const_name("torch.Tensor"));
    bool load(handle source, bool)
    {
        const auto &api = c10::detail::python();
        rush_tensor *t = source.is_none() ? nullptr : api.tensor(source.ptr());
        value = at::Tensor::of(t);
        return t || source.is_none();
    }
    static handle cast(const at::Tensor &t, return_value_policy, handle) { return c10::detail::python().object(t.get()); }
};
/* None is an empty option, not an option of an undefined tensor: pybind11's own caster says so. */

template <> struct type_caster<at::ScalarType> {
    PYBIND11_TYPE_CASTER(at::ScalarType, const_name("torch.dtype"));
    type_caster() : value(at::kFloat) {}
    bool load(handle source, bool)
    {
        int d = c10::detail::python().dtype(source.ptr());
        if (d >= 0) value = c10::detail::scalar_type_of(d);
        return d >= 0;
    }
    static handle cast(at::ScalarType t, return_value_policy, handle) { return c10::detail::python().dtype_object(c10::detail::dtype_of(t)); }
};

template <> struct type_caster<at::Device> {
    PYBIND11_TYPE_CASTER(at::Device, const_name("torch.device"));
    type_caster() : value(at::kCPU) {}
    bool load(handle source, bool)
    {
        rush_device d;
        bool is = c10::detail::python().device(source.ptr(), &d);
        if (is) value = at::Device(d);
        return is;
    }
    static handle cast(at::Device d, return_value_policy, handle) { return c10::detail::python().device_object(d.value()); }
};

template <> struct type_caster<at::Scalar> {
    PYBIND11_TYPE_CASTER(at::Scalar, const_name("float"));
    bool load(handle source, bool)
    {
        PyObject *x = source.ptr();
        if (PyBool_Check(x)) value = x == Py_True;
        else if (PyLong_Check(x)) value = PyLong_AsLongLong(x);
        else if (PyFloat_Check(x)) value = PyFloat_AS_DOUBLE(x);
        else if (PyComplex_Check(x)) value = std::complex<double>(PyComplex_RealAsDouble(x), PyComplex_ImagAsDouble(x));
        else if (rush_tensor *t = c10::detail::python().tensor(x)) value = at::Tensor::of(t).item();
        else return false;
        if (!PyErr_Occurred()) return true;
        PyErr_Clear();
        return false;
    }
    static handle cast(const at::Scalar &s, return_value_policy, handle)
    {
        if (s.isBoolean()) return PyBool_FromLong(s.toBool());
        if (s.isIntegral()) return PyLong_FromLongLong(s.toLong());
        if (s.isFloatingPoint()) return PyFloat_FromDouble(s.toDouble());
        return PyComplex_FromDoubles(s.toComplexDouble().real(), s.toComplexDouble().imag());
    }
};

template <> struct type_caster<at::Generator> {
    PYBIND11_TYPE_CASTER(at::Generator, const_name("torch.Generator"));
    bool load(handle source, bool)
    {
        rush_generator *g = c10::detail::python().generator(source.ptr());
        value = at::Generator::of(g);
        return g;
    }
};

/* A view of a list: the caster keeps the list while the call lasts. */
template <class T> struct type_caster<c10::ArrayRef<T>> {
    PYBIND11_TYPE_CASTER(c10::ArrayRef<T>, const_name("list[") + make_caster<T>::name + const_name("]"));
    std::vector<T> kept;
    bool load(handle source, bool convert)
    {
        list_caster<std::vector<T>, T> list;
        if (!isinstance<sequence>(source) || !list.load(source, convert)) return false;
        kept = std::move(static_cast<std::vector<T> &>(list));
        value = c10::ArrayRef<T>(kept);
        return true;
    }
    static handle cast(c10::ArrayRef<T> list, return_value_policy policy, handle parent) { return list_caster<std::vector<T>, T>::cast(list.vec(), policy, parent); }
};

} // namespace pybind11::detail

namespace torch {
namespace py = pybind11;
template <class F> F &&wrap_pybind_function(F &&f) { return std::forward<F>(f); } /* errors are translated anyhow */
}
namespace py = pybind11;

#endif
