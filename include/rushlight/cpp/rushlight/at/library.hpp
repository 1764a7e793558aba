/* library.hpp - TORCH_LIBRARY and torch::RegisterOperators: C++ functions as operations, over rushlight/library.h.
 *
 * A function's parameter types say how arguments are unboxed and, where only a name is given, what the schema is.
 */
#ifndef RUSHLIGHT_AT_LIBRARY_HPP
#define RUSHLIGHT_AT_LIBRARY_HPP

#include "ivalue.hpp"
#include "tags.hpp"
#include <rushlight/modes.h>

namespace c10 {

#define C10_KEYS_(_)                                                                                        \
    _(CPU) _(CUDA) _(HIP) _(XLA) _(MPS) _(IPU) _(XPU) _(HPU) _(VE) _(Lazy) _(MTIA) _(Meta) _(PrivateUse1) _(QuantizedCPU) _(QuantizedCUDA) _(SparseCPU) _(SparseCUDA) _(SparseCsrCPU) _(SparseCsrCUDA) \
    _(NestedTensorCPU) _(NestedTensorCUDA) _(BackendSelect) _(Python) _(Functionalize) _(ADInplaceOrView) _(Tracer) _(FuncTorchBatched) _(Autograd) _(AutogradOther) _(AutogradCPU) _(AutogradCUDA) \
    _(AutogradXLA) _(AutogradMPS) _(AutogradXPU) _(AutogradHPU) _(AutogradIPU) _(AutogradLazy) _(AutogradMTIA) _(AutogradMeta) _(AutogradPrivateUse1) _(AutogradNestedTensor) _(AutocastCPU) _(AutocastXPU) \
    _(AutocastIPU) _(AutocastHPU) _(AutocastXLA) _(AutocastMPS) _(AutocastMTIA) _(AutocastCUDA) _(AutocastPrivateUse1) _(CompositeExplicitAutograd) _(CompositeImplicitAutograd)
#define C10_KEY_(name) name,
enum class DispatchKey { Undefined, C10_KEYS_(C10_KEY_) CatchAll, Autocast = AutocastCUDA };
#undef C10_KEY_
inline const char *toString(DispatchKey k)
{
#define C10_KEY_(name) #name,
    static const char *const names[] = {"Undefined", C10_KEYS_(C10_KEY_) ""};
#undef C10_KEY_
    return names[static_cast<int>(k)];
}
#undef C10_KEYS_

namespace detail {

template <class> struct always_false : std::false_type {};

/* One C++ type as an argument or result: its name in schemas, and the way from and to a value. */
template <class T, class = void> struct Boxed {
    static_assert(always_false<T>::value, "operations take and give tensors, numbers, text, devices, dtypes, and lists, options, tuples and dicts of these");
};

#define C10_BOXED_(T, text, from, to)                                                                       \
    template <> struct Boxed<T> {                                                                           \
        static std::string schema() { return text; }                                                        \
        static T unbox(const rush_value &v) { return from; }                                                 \
        static rush_value box(const T &x) { return to; }                                                     \
    };
C10_BOXED_(at::Tensor, "Tensor", at::Tensor::of(v.kind == RUSH_V_TENSOR ? v.t : nullptr), rush_v_tensor(x.defined() ? rush_park(rush_keep(x.get())) : nullptr))
C10_BOXED_(double, "float", Scalar::of(v).toDouble(), rush_v_float(x))
C10_BOXED_(float, "float", Scalar::of(v).toFloat(), rush_v_float(x))
C10_BOXED_(bool, "bool", v.i != 0, rush_v_bool(x))
C10_BOXED_(Scalar, "Scalar", Scalar::of(v), x.value())
C10_BOXED_(ScalarType, "ScalarType", scalar_type_of(v.i), rush_v_dtype(dtype_of(x)))
C10_BOXED_(Layout, "Layout", layout_of(v.i), rush_v_layout(layout_value(x)))
C10_BOXED_(MemoryFormat, "MemoryFormat", static_cast<MemoryFormat>(v.i), rush_v_memory_format(static_cast<int>(x)))
C10_BOXED_(Device, "Device", Device(v.device), rush_v_device(x.value()))
C10_BOXED_(Generator, "Generator", Generator::of(v.gen), rush_v_generator(x.get()))
C10_BOXED_(SymInt, "SymInt", v.i, rush_v_int(x))
#undef C10_BOXED_

template <class I> struct Boxed<I, std::enable_if_t<std::is_integral_v<I> && !std::is_same_v<I, bool>>> {
    static std::string schema() { return "int"; }
    static I unbox(const rush_value &v) { return static_cast<I>(v.i); }
    static rush_value box(I x) { return rush_v_int(static_cast<int64_t>(x)); }
};

inline rush_value boxed_text(string_view s)
{
    std::string text(s);
    return rush_v_string(static_cast<const char *>(rush_scope_copy(text.c_str(), text.size() + 1)));
}
template <> struct Boxed<std::string> {
    static std::string schema() { return "str"; }
    static std::string unbox(const rush_value &v) { return v.s; }
    static rush_value box(const std::string &x) { return boxed_text(x); }
};
template <> struct Boxed<string_view> {
    static std::string schema() { return "str"; }
    static string_view unbox(const rush_value &v) { return v.s; }
    static rush_value box(string_view x) { return boxed_text(x); }
};

/* Which elements of lists are in arrays of their own (rush_v_ints, ...); the rest are values. */
template <class T> constexpr bool in_tensors = std::is_same_v<T, at::Tensor> || std::is_same_v<T, std::optional<at::Tensor>>;
template <class T> constexpr bool in_array = in_tensors<T> || std::is_arithmetic_v<T> || std::is_same_v<T, SymInt>;

inline rush_value boxed_values(const std::vector<rush_value> &items)
{
    rush_value v = rush_v_none();
    v.kind = RUSH_V_VALUES;
    v.n = static_cast<uint32_t>(items.size());
    v.values = static_cast<rush_value *>(rush_scope_copy(items.data(), items.size() * sizeof(rush_value)));
    return v;
}
template <class T> std::vector<T> unboxed_list(const rush_value &v)
{
    std::vector<T> list;
    list.reserve(v.n);
    for (uint32_t i = 0; i < v.n; ++i) {
        if constexpr (std::is_same_v<T, at::Tensor>) list.push_back(at::Tensor::of(v.tensors[i]));
        else if constexpr (in_tensors<T>) list.push_back(v.tensors[i] ? T(at::Tensor::of(v.tensors[i])) : std::nullopt);
        else if constexpr (!in_array<T>) list.push_back(Boxed<T>::unbox(v.values[i]));
        else if constexpr (std::is_floating_point_v<T>) list.push_back(static_cast<T>(v.floats[i]));
        else list.push_back(static_cast<T>(v.ints[i]));
    }
    return list;
}
template <class List> rush_value boxed_list(const List &list)
{
    using T = typename List::value_type;
    if constexpr (in_tensors<T>) {
        std::vector<rush_tensor *> items;
        for (const auto &x : list) items.push_back(Boxed<T>::box(x).t);
        auto *copy = static_cast<rush_tensor **>(rush_scope_copy(items.data(), items.size() * sizeof(rush_tensor *)));
        return rush_v_tensors(copy, items.size());
    } else if constexpr (!in_array<T>) {
        std::vector<rush_value> items;
        for (const auto &x : list) items.push_back(Boxed<T>::box(x));
        return boxed_values(items);
    } else if constexpr (std::is_floating_point_v<T>) {
        std::vector<double> items(list.begin(), list.end());
        return rush_v_floats(static_cast<double *>(rush_scope_copy(items.data(), items.size() * sizeof(double))), items.size());
    } else {
        std::vector<int64_t> items(list.begin(), list.end());
        return rush_v_ints(static_cast<int64_t *>(rush_scope_copy(items.data(), items.size() * sizeof(int64_t))), items.size());
    }
}
template <class T> std::string schema_of_element()
{
    return Boxed<std::decay_t<T>>::schema();
}
template <class T> struct Boxed<std::vector<T>> {
    static std::string schema() { return schema_of_element<T>() + "[]"; }
    static std::vector<T> unbox(const rush_value &v) { return unboxed_list<T>(v); }
    static rush_value box(const std::vector<T> &x) { return boxed_list(x); }
};
template <class T> struct Boxed<c10::List<T>> {
    static std::string schema() { return schema_of_element<T>() + "[]"; }
    static c10::List<T> unbox(const rush_value &v) { return c10::List<T>(unboxed_list<T>(v)); }
    static rush_value box(const c10::List<T> &x) { return boxed_list(x.vec()); }
};
/* Views need somebody who keeps the elements: they stay until the call ends. */
template <class T> struct Boxed<ArrayRef<T>> {
    struct Kept {
        std::vector<T> items;
        operator ArrayRef<T>() const { return items; }
        operator OptionalArrayRef<T>() const { return ArrayRef<T>(items); }
    };
    static std::string schema() { return schema_of_element<T>() + "[]"; }
    static Kept unbox(const rush_value &v) { return {unboxed_list<T>(v)}; }
    static rush_value box(ArrayRef<T> x) { return boxed_list(x); }
};
template <class T> struct Boxed<OptionalArrayRef<T>> {
    struct Kept {
        std::optional<std::vector<T>> items;
        operator OptionalArrayRef<T>() const { return items ? OptionalArrayRef<T>(ArrayRef<T>(*items)) : OptionalArrayRef<T>(); }
    };
    static std::string schema() { return schema_of_element<T>() + "[]?"; }
    static Kept unbox(const rush_value &v) { return {v.kind == RUSH_V_NONE ? std::optional<std::vector<T>>() : std::optional<std::vector<T>>(unboxed_list<T>(v))}; }
    static rush_value box(const OptionalArrayRef<T> &x) { return x ? boxed_list(*x) : rush_v_none(); }
};
template <class T> struct Boxed<std::optional<T>> {
    static std::string schema() { return Boxed<T>::schema() + "?"; }
    static std::optional<T> unbox(const rush_value &v) { return v.kind == RUSH_V_NONE ? std::optional<T>() : std::optional<T>(Boxed<T>::unbox(v)); }
    static rush_value box(const std::optional<T> &x) { return x ? Boxed<T>::box(*x) : rush_v_none(); }
};

template <class K, class V> struct Boxed<Dict<K, V>> {
    static std::string schema() { return "Dict(" + Boxed<K>::schema() + ", " + Boxed<V>::schema() + ")"; }
    static Dict<K, V> unbox(const rush_value &v)
    {
        Dict<K, V> dict;
        for (uint32_t i = 0; i < v.n; i += 2) dict.insert(Boxed<K>::unbox(v.values[i]), Boxed<V>::unbox(v.values[i + 1]));
        return dict;
    }
    static rush_value box(const Dict<K, V> &x)
    {
        std::vector<rush_value> items;
        for (const auto &entry : x) items.push_back(Boxed<K>::box(entry.key())), items.push_back(Boxed<V>::box(entry.value()));
        return boxed_values(items);
    }
};
/* A tuple inside of something; of what a function returns, see Results. */
template <class... T> struct Boxed<std::tuple<T...>> {
    static std::string schema()
    {
        std::string text;
        ((text += (text.empty() ? "" : ", ") + Boxed<T>::schema()), ...);
        return "(" + text + ")";
    }
    template <size_t... I> static std::tuple<T...> unbox_each(const rush_value &v, std::index_sequence<I...>) { return {Boxed<T>::unbox(v.values[I])...}; }
    static std::tuple<T...> unbox(const rush_value &v) { return unbox_each(v, std::index_sequence_for<T...>()); }
    static rush_value box(const std::tuple<T...> &x)
    {
        return std::apply([](const auto &...item) { return boxed_values({Boxed<std::decay_t<decltype(item)>>::box(item)...}); }, x);
    }
};

/* What a function returns, as a whole. */
template <class R> struct Results {
    static std::string schema() { return Boxed<R>::schema(); }
    static void box(R &&r, rush_value *out) { out[0] = Boxed<R>::box(r); }
    static R unbox(const rush_value *out) { return Boxed<R>::unbox(out[0]); }
};
template <> struct Results<void> {
    static void unbox(const rush_value *) {}
};
template <class... R> struct Results<std::tuple<R...>> {
    static std::string schema()
    {
        std::string text;
        ((text += (text.empty() ? "" : ", ") + Boxed<std::decay_t<R>>::schema()), ...);
        return "(" + text + ")";
    }
    static void box(std::tuple<R...> &&r, rush_value *out)
    {
        std::apply([&](auto &...x) { ((*out++ = Boxed<std::decay_t<decltype(x)>>::box(x)), ...); }, r);
    }
    template <size_t... I> static std::tuple<R...> unbox_each(const rush_value *out, std::index_sequence<I...>) { return {Boxed<std::decay_t<R>>::unbox(out[I])...}; }
    static std::tuple<R...> unbox(const rush_value *out) { return unbox_each(out, std::index_sequence_for<R...>()); }
};

template <class F> struct Signature : Signature<decltype(&F::operator())> {};
template <class R, class... Args> struct Signature<R (*)(Args...)> {
    static constexpr size_t count = sizeof...(Args);
    static std::vector<std::string> types() { return {Boxed<std::decay_t<Args>>::schema()...}; }
    static std::string result()
    {
        if constexpr (std::is_void_v<R>) return "()";
        else return Results<std::decay_t<R>>::schema();
    }
    static std::string schema()
    {
        std::string text;
        int i = 0;
        for (const std::string &type : types()) text += (i ? ", " : "") + type + " _" + std::to_string(i), ++i;
        return "(" + text + ") -> " + result();
    }
    template <class F, size_t... I> static void call(F &f, const rush_value *in, rush_value *out, std::index_sequence<I...>)
    {
        auto args = std::make_tuple(Boxed<std::decay_t<Args>>::unbox(in[I])...); /* what views point to, references refer to */
        (void)args, (void)in, (void)out;
        if constexpr (std::is_void_v<R>) f(static_cast<pass<Args>>(std::get<I>(args))...);
        else Results<std::decay_t<R>>::box(std::decay_t<R>(f(static_cast<pass<Args>>(std::get<I>(args))...)), out);
    }

private:
    template <class A> using pass = std::conditional_t<std::is_lvalue_reference_v<A>, A, std::decay_t<A>>;
};
template <class R, class... Args> struct Signature<R(Args...)> : Signature<R (*)(Args...)> {};
template <class R, class C, class... Args> struct Signature<R (C::*)(Args...)> : Signature<R (*)(Args...)> {};
template <class R, class C, class... Args> struct Signature<R (C::*)(Args...) const> : Signature<R (*)(Args...)> {};

/* Gives f to the operation; it lives as long as that. */
template <class F> void give(const std::string &op, const char *key, F f)
{
    auto run = [](void *arg, const rush_op *which, const rush_value *in, rush_value *out) -> int {
        return guarded([&] {
            TORCH_CHECK(which->nargs == Signature<F>::count, which->name, ": the schema has ", static_cast<int>(which->nargs), " arguments, the function takes ", Signature<F>::count);
            Signature<F>::call(*static_cast<F *>(arg), in, out, std::make_index_sequence<Signature<F>::count>());
        });
    };
    check(rush_library_impl(op.c_str(), key, run, new F(std::move(f)), [](void *arg) { delete static_cast<F *>(arg); }));
}

} // namespace detail
} // namespace c10

namespace torch {

/* A function for a dispatch key: m.impl("name", torch::dispatch(c10::DispatchKey::CPU, f)). */
class CppFunction {
    friend class Library;
    std::function<void(const std::string &, const char *)> give;
    std::string its_schema;
    std::optional<c10::DispatchKey> key;

    CppFunction() = default;

public:
    template <class F, class = std::enable_if_t<!std::is_same_v<std::decay_t<F>, CppFunction>>, class = std::void_t<decltype(&c10::detail::Signature<std::decay_t<F>>::schema)>>
    CppFunction(F &&f) : its_schema(c10::detail::Signature<std::decay_t<F>>::schema())
    {
        give = [f = std::decay_t<F>(std::forward<F>(f))](const std::string &op, const char *k) { c10::detail::give(op, k, f); };
    }
    static CppFunction makeFallthrough() { return CppFunction(); }
    template <class F> friend CppFunction dispatch(c10::DispatchKey key, F &&f);
};
template <class F> CppFunction dispatch(c10::DispatchKey key, F &&f)
{
    CppFunction made(std::forward<F>(f));
    made.key = key;
    return made;
}
template <class F> CppFunction dispatch(c10::DeviceType type, F &&f)
{
    return dispatch(type == c10::kCUDA ? c10::DispatchKey::CUDA : type == c10::kMeta ? c10::DispatchKey::Meta : c10::DispatchKey::CPU, std::forward<F>(f));
}

inline std::string schema(std::string text) { return text; }
template <class T> class class_;

class Library {
    std::string ns;
    std::optional<c10::DispatchKey> key;

    std::string full(const std::string &name) const { return name.find("::") == std::string::npos ? ns + "::" + name : name; }
    void define(const std::string &schema)
    {
        if (!rush_library_define(full(schema).c_str())) c10::detail::raise();
    }

public:
    Library(std::string name, std::optional<c10::DispatchKey> k = std::nullopt) : ns(std::move(name)), key(k) {}
    /* A schema; or a name or schema with the function that serves all devices and has its parts' derivatives. */
    Library &def(const std::string &schema, const std::vector<at::Tag> & = {}) & { return define(schema), *this; }
    template <class F, std::enable_if_t<!std::is_convertible_v<F, std::vector<at::Tag>>, int> = 0> Library &def(const std::string &text, F &&f, const std::vector<at::Tag> & = {}) &
    {
        CppFunction function(std::forward<F>(f));
        size_t paren = text.find('(');
        define(paren == std::string::npos ? text + function.its_schema : text);
        if (function.give) function.give(full(text.substr(0, paren)), c10::toString(function.key.value_or(c10::DispatchKey::CompositeImplicitAutograd)));
        return *this;
    }
    template <class F> Library &impl(const std::string &name, F &&f) &
    {
        CppFunction function(std::forward<F>(f));
        if (function.give) function.give(full(name), c10::toString(function.key ? *function.key : key.value_or(c10::DispatchKey::CompositeImplicitAutograd)));
        return *this;
    }
    template <class F> Library &impl(const std::string &name, c10::DispatchKey k, F &&f) & { return impl(name, dispatch(k, std::forward<F>(f))); }
    template <class F> Library &fallback(F &&) & { return *this; } /* what has no function of its own is the library's */
    /* A class whose objects operations take and give: see classes.hpp. */
    template <class T> torch::class_<T> class_(const std::string &its_name, const std::string &doc = "");
    void set_python_module(const char *, const char * = "") {}
    void impl_abstract_pystub(const char *, const char * = "") {}
};

namespace detail {
/* Runs when the object is loaded, where nobody could catch an exception: what goes wrong is logged, and the operation is not there. */
struct LibraryInit {
    template <class F> LibraryInit(const char *ns, std::optional<c10::DispatchKey> key, F fill)
    {
        Library m(ns, key);
        if (!c10::detail::guarded([&] { fill(m); })) return;
        rush_log(0, "operations of %s: %s", ns, rush_error());
        rush_error_clear();
    }
};
} // namespace detail

/* The form of old: RegisterOperators().op("ns::name", &f). */
class RegisterOperators {
public:
    struct Options {
        std::function<void(const std::string &)> give;
        std::string its_schema;
        template <class F> Options kernel(c10::DispatchKey key, F &&f)
        {
            its_schema = c10::detail::Signature<std::decay_t<F>>::schema();
            give = [before = give, key, f = std::decay_t<F>(std::forward<F>(f))](const std::string &op) {
                if (before) before(op);
                c10::detail::give(op, c10::toString(key), f);
            };
            return *this;
        }
        template <class F> Options catchAllKernel(F &&f) { return kernel(c10::DispatchKey::CatchAll, std::forward<F>(f)); }
        Options schema(const std::string &text)
        {
            its_schema = text;
            return *this;
        }
    };
    static Options options() { return {}; }
    RegisterOperators() = default;
    template <class F> RegisterOperators(const std::string &text, F &&f) { op(text, std::forward<F>(f)); }
    template <class F> RegisterOperators &op(const std::string &text, F &&f)
    {
        if constexpr (std::is_same_v<std::decay_t<F>, Options>) return add(text, f);
        else return add(text, Options().catchAllKernel(std::forward<F>(f)));
    }

private:
    RegisterOperators &add(const std::string &text, const Options &o)
    {
        size_t paren = text.find('(');
        auto define = [&] {
            if (!rush_library_define((paren == std::string::npos ? text + o.its_schema : text).c_str())) c10::detail::raise();
            if (o.give) o.give(text.substr(0, paren));
        };
        if (c10::detail::guarded(define)) {
            rush_log(0, "operation %s: %s", text.c_str(), rush_error());
            rush_error_clear();
        }
        return *this;
    }
};
} // namespace torch

namespace c10 {
using torch::RegisterOperators;
}

#define TORCH_LIBRARY_IN_(ns, key, name, m)                                                                 \
    static void name(torch::Library &m);                                                                    \
    static const torch::detail::LibraryInit C10_CONCATENATE(name, _at_load)(#ns, key, &name);                 \
    static void name(torch::Library &m)
#define TORCH_LIBRARY(ns, m) TORCH_LIBRARY_IN_(ns, std::nullopt, C10_CONCATENATE(torch_library_, ns), m)
#define TORCH_LIBRARY_FRAGMENT_(ns, m, n) TORCH_LIBRARY_IN_(ns, std::nullopt, C10_CONCATENATE(C10_CONCATENATE(torch_library_fragment_, ns), n), m)
#define TORCH_LIBRARY_FRAGMENT(ns, m) TORCH_LIBRARY_FRAGMENT_(ns, m, __COUNTER__)
#define TORCH_LIBRARY_IMPL_(ns, k, m, n)                                                                    \
    TORCH_LIBRARY_IN_(ns, c10::DispatchKey::k, C10_CONCATENATE(C10_CONCATENATE(C10_CONCATENATE(torch_library_impl_, ns), k), n), m)
#define TORCH_LIBRARY_IMPL(ns, k, m) TORCH_LIBRARY_IMPL_(ns, k, m, __COUNTER__)
#define TORCH_FN(f) (&f)
#define TORCH_SELECTIVE_NAME(name) name
#define TORCH_SELECTIVE_SCHEMA(schema) schema

namespace c10 {

/* Dispatcher::singleton().findSchemaOrThrow("ns::op", "").typed<F>().call(...) */
class OperatorHandle {
    const rush_op *op;

public:
    explicit OperatorHandle(const rush_op *its_op) : op(its_op) {}
    template <class F> struct Typed;
    template <class R, class... Args> struct Typed<R(Args...)> {
        const rush_op *op;
        R call(Args... args) const
        {
            at::detail::Call c(op);
            const rush_value in[] = {detail::Boxed<std::decay_t<Args>>::box(args)..., rush_v_none()};
            rush_value out[RUSH_MAXOUT] = {};
            c.call(in, out);
            return detail::Results<R>::unbox(out);
        }
        R redispatch(int, Args... args) const { return call(args...); }
    };
    template <class F> Typed<F> typed() const { return {op}; }
};
class Dispatcher {
public:
    static Dispatcher &singleton()
    {
        static Dispatcher one;
        return one;
    }
    OperatorHandle findSchemaOrThrow(const char *name, const char *overload) const
    {
        std::string full = std::string(name).rfind("aten::", 0) ? name : name + 6;
        if (*overload) full += std::string(".") + overload;
        const rush_op *op = rush_op_find(full.c_str());
        TORCH_CHECK(op, "Could not find schema for ", name, ".", overload);
        return OperatorHandle(op);
    }
};

} // namespace c10
namespace torch {
using c10::Dispatcher;
}

namespace at {
/* While it lives, calls are recorded, or not. */
class AutoGradMode {
    bool was;

public:
    explicit AutoGradMode(bool on) : was(rush_grad_enabled_set(on)) {}
    AutoGradMode(const AutoGradMode &) = delete;
    ~AutoGradMode() { rush_grad_enabled_set(was); }
};
struct NoGradGuard : AutoGradMode {
    NoGradGuard() : AutoGradMode(false) {}
};
/* While it lives, functions of this key are not chosen: autocast is off, or nothing is recorded. */
class ExcludeDispatchKeyGuard {
    int device = -1; /* whose autocast was on */
    std::optional<NoGradGuard> unrecorded;

public:
    explicit ExcludeDispatchKeyGuard(c10::DispatchKey key)
    {
        std::string name = c10::toString(key);
        int type = key == c10::DispatchKey::AutocastCPU ? RUSH_CPU : key == c10::DispatchKey::AutocastCUDA ? RUSH_CUDA : -1;
        if (type >= 0 && rush_autocast_on(type)) rush_autocast_set(device = type, false);
        if (name.rfind("Autograd", 0) == 0) unrecorded.emplace();
    }
    ExcludeDispatchKeyGuard(const ExcludeDispatchKeyGuard &) = delete;
    ~ExcludeDispatchKeyGuard()
    {
        if (device >= 0) rush_autocast_set(device, true);
    }
};

namespace autocast {
inline bool is_autocast_enabled(DeviceType type) { return rush_autocast_on(detail::device_type_of(type)); }
inline ScalarType get_autocast_dtype(DeviceType type) { return detail::scalar_type_of(rush_autocast_dtype(detail::device_type_of(type))); }
/* In this type, where autocast casts tensors of the device: those of floats but not of doubles. */
inline Tensor cached_cast(ScalarType to, const Tensor &x, DeviceType type = kCUDA)
{
    bool casts = x.defined() && x.is_floating_point() && x.scalar_type() != kDouble && x.device().type() == type;
    return casts && x.scalar_type() != to ? x.to(to) : x;
}
inline std::optional<Tensor> cached_cast(ScalarType to, const std::optional<Tensor> &x, DeviceType type = kCUDA) { return x ? std::optional<Tensor>(cached_cast(to, *x, type)) : std::nullopt; }
inline std::vector<Tensor> cached_cast(ScalarType to, TensorList list, DeviceType type = kCUDA)
{
    std::vector<Tensor> cast;
    for (const Tensor &x : list) cast.push_back(cached_cast(to, x, type));
    return cast;
}
} // namespace autocast

using AutoDispatchBelowAutograd = NoGradGuard; /* below autograd nothing is recorded */
using AutoDispatchBelowADInplaceOrView = AutoDispatchBelowAutograd;
using AutoNonVariableTypeMode = AutoDispatchBelowAutograd;
} // namespace at
namespace c10::impl {
using at::ExcludeDispatchKeyGuard;
}

#include "classes.hpp"

#endif
