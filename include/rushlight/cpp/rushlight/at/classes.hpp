/* classes.hpp - torch::class_: C++ classes whose objects operations take and give and Python holds, over rushlight/library.h. */
#ifndef RUSHLIGHT_AT_CLASSES_HPP
#define RUSHLIGHT_AT_CLASSES_HPP

#include "library.hpp"

namespace c10::detail {

template <class T> struct Boxed<intrusive_ptr<T>> {
    static std::string schema() { return rush_class_path(Registered<T>::get()); }
    static intrusive_ptr<T> unbox(const rush_value &v) { return v.kind == RUSH_V_OBJECT ? Registered<T>::unbox(v.object) : intrusive_ptr<T>(); }
    static rush_value box(const intrusive_ptr<T> &x) { return rush_v_object(x ? Registered<T>::box(x) : nullptr); }
};

} // namespace c10::detail

namespace torch {

/* torch::arg("x") = 2: a name and a default for an argument. */
struct arg {
    std::string name;
    std::optional<c10::IValue> standard;

    explicit arg(std::string its_name) : name(std::move(its_name)) {}
    static c10::IValue none() { return {}; }
    arg &operator=(c10::IValue x)
    {
        standard = std::move(x);
        return *this;
    }
};

namespace detail {
template <class... Args> struct Init {};
template <class F> struct InitBy {
    F f;
};

/* As a schema has it. */
inline std::string default_text(const c10::IValue &x)
{
    if (x.isNone()) return "None";
    if (x.isBool()) return x.toBool() ? "True" : "False";
    if (x.isInt()) return std::to_string(x.toInt());
    if (x.isString()) return '"' + x.toStringRef() + '"';
    if (x.isDouble()) {
        char text[40];
        std::snprintf(text, sizeof text, "%.17g", x.toDouble());
        return std::strpbrk(text, ".en") ? text : std::string(text) + ".0";
    }
    TORCH_CHECK(x.isIntList(), "a default of type ", x.tagKind(), " is not supported for a method");
    std::string text;
    for (int64_t i : x.toIntVector()) text += (text.empty() ? "" : ", ") + std::to_string(i);
    return "[" + text + "]";
}
} // namespace detail

template <class... Args> detail::Init<Args...> init() { return {}; }
template <class F> detail::InitBy<std::decay_t<F>> init(F &&f) { return {std::forward<F>(f)}; }

/* Each method is an operation, "ns::Name::method"; so are what reads and writes a property, property_getter and property_setter. */
template <class T> class class_ {
    using Self = c10::intrusive_ptr<T>;
    std::string name;

    template <class R, class C, class... A> static auto with_self(R (C::*f)(A...))
    {
        return [f](const Self &self, A... a) -> R { return ((*self).*f)(std::forward<A>(a)...); };
    }
    template <class R, class C, class... A> static auto with_self(R (C::*f)(A...) const)
    {
        return [f](const Self &self, A... a) -> R { return ((*self).*f)(std::forward<A>(a)...); };
    }
    template <class F> static F with_self(F f) { return f; }

    /* selfs: how many arguments stand before those that args tells of. Without names they are _0, ... after an object. */
    template <class F> class_ &add(const std::string &method, F f, const std::vector<arg> &args, size_t selfs)
    {
        using Of = c10::detail::Signature<F>;
        const std::vector<std::string> types = Of::types();
        TORCH_CHECK(args.empty() || args.size() + selfs == types.size(), "Default values must be specified for none or all arguments");
        std::string text;
        for (size_t i = 0; i < types.size(); ++i) {
            const arg *a = args.empty() || i < selfs ? nullptr : &args[i - selfs];
            text += (i ? ", " : "") + types[i] + " " + (a ? a->name : !args.empty() ? "self" : "_" + std::to_string(i + 1 - selfs));
            if (a && a->standard) text += "=" + detail::default_text(*a->standard);
        }
        const std::string op = name + "::" + method;
        if (!rush_library_define((op + "(" + text + ") -> " + Of::result()).c_str())) c10::detail::raise();
        c10::detail::give(op, "CompositeImplicitAutograd", std::move(f));
        return *this;
    }

public:
    class_(const std::string &ns, const std::string &its_name, const std::string & = "") : name(ns + "::" + its_name)
    {
        static_assert(std::is_base_of_v<CustomClassHolder, T>, "torch::class_<T> requires T to inherit from CustomClassHolder");
        const rush_class *made = rush_class_define(name.c_str(), [](void *data) { delete static_cast<Self *>(data); });
        if (!made) c10::detail::raise();
        c10::detail::Registered<T>::as = made;
    }

    template <class... A> class_ &def(detail::Init<A...>, const std::string & = "", const std::vector<arg> &args = {})
    {
        return add("__init__", [](A... a) { return c10::make_intrusive<T>(std::forward<A>(a)...); }, args, 0);
    }
    template <class F> class_ &def(detail::InitBy<F> by, const std::string & = "", const std::vector<arg> &args = {}) { return add("__init__", std::move(by.f), args, 0); }
    template <class F> class_ &def(const std::string &method, F f, const std::string & = "", const std::vector<arg> &args = {}) { return add(method, with_self(std::move(f)), args, 1); }
    template <class F> class_ &def_static(const std::string &method, F f, const std::string & = "") { return add(method, std::move(f), {}, 0); }
    template <class G> class_ &def_property(const std::string &property, G get, const std::string & = "") { return add(property + "_getter", with_self(std::move(get)), {}, 1); }
    template <class G, class S, class = decltype(&c10::detail::Signature<decltype(with_self(std::declval<S>()))>::types)>
    class_ &def_property(const std::string &property, G get, S set, const std::string & = "")
    {
        return def_property(property, std::move(get)).add(property + "_setter", with_self(std::move(set)), {}, 1);
    }
    template <class F> class_ &def_readonly(const std::string &property, F T::*field)
    {
        return add(property + "_getter", [field](const Self &self) -> F { return (*self).*field; }, {}, 1);
    }
    template <class F> class_ &def_readwrite(const std::string &property, F T::*field)
    {
        return def_readonly(property, field).add(property + "_setter", [field](const Self &self, F x) { (*self).*field = std::move(x); }, {}, 1);
    }
    /* get: from an object to what may be saved; set: from this to an object. */
    template <class G, class S> class_ &def_pickle(G &&get, S &&set)
    {
        return add("__getstate__", std::decay_t<G>(std::forward<G>(get)), {}, 1).add("__setstate__", std::decay_t<S>(std::forward<S>(set)), {}, 0);
    }
};

template <class T> class_<T> Library::class_(const std::string &its_name, const std::string &doc) { return torch::class_<T>(ns, its_name, doc); }
template <class T, class... Args> c10::IValue make_custom_class(Args &&...args) { return c10::make_intrusive<T>(std::forward<Args>(args)...); }

} // namespace torch

#endif
