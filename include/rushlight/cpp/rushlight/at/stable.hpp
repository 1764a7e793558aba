/* stable.hpp - torch::stable over the C functions that PyTorch promises to keep: what is built with it names no other symbol of a library.
 *
 * An operation's function gets its arguments on a stack of eight bytes each (Value<T> says how a type lies in them) and leaves its
 * results there; TORCH_BOX makes such a function of one with types.
 */
#ifndef RUSHLIGHT_AT_STABLE_HPP
#define RUSHLIGHT_AT_STABLE_HPP

#include "headeronly.hpp"
#include <torch/csrc/inductor/aoti_torch/c/shim.h>

namespace torch::stable {

using DeviceType = c10::DeviceType;
using DeviceIndex = int32_t;

namespace detail {

/* A C function returned 1. */
[[noreturn]] inline void failed(const char *call, const char *file, int line)
{
    const char *what = torch_exception_get_what_without_backtrace();
    throw std::runtime_error(what && *what ? std::string(what) : c10::str(call, " API call failed at ", file, ", line ", line));
}

} // namespace detail
} // namespace torch::stable

#define STABLE_TORCH_ERROR_CODE_CHECK(call)                                                                 \
    if ((call) != AOTI_TORCH_SUCCESS) ::torch::stable::detail::failed(#call, __FILE__, __LINE__);
#define TORCH_ERROR_CODE_CHECK(call)                                                                        \
    if ((call) != AOTI_TORCH_SUCCESS) throw std::runtime_error(::c10::str(#call " API call failed at ", __FILE__, ", line ", __LINE__));
#define STD_TORCH_WARN(...) aoti_torch_warn(__func__, __FILE__, __LINE__, ::c10::str(__VA_ARGS__).c_str())
#define STD_TORCH_WARN_ONCE(...)                                                                            \
    do {                                                                                                    \
        static bool warned = (STD_TORCH_WARN(__VA_ARGS__), true);                                           \
        (void)warned;                                                                                       \
    } while (0)
#define STD_CUDA_CHECK(call)                                                                                \
    do {                                                                                                    \
        cudaError_t std_cuda_status = call;                                                                 \
        STD_TORCH_CHECK(std_cuda_status == cudaSuccess, "CUDA error: ", cudaGetErrorString(std_cuda_status)); \
    } while (0)
#define STD_CUDA_KERNEL_LAUNCH_CHECK() STD_CUDA_CHECK(cudaGetLastError())

namespace torch::stable {
namespace detail {

/* The library's number of a dtype, and the other way round: the C functions tell it. */
template <class T> struct Number {
    T value;
    int32_t (*number)();
};
template <class T, size_t N> int32_t number_of(const Number<T> (&all)[N], T x, const char *what)
{
    for (const auto &one : all)
        if (one.value == x) return one.number();
    throw std::runtime_error(c10::str("the stable interface has not this ", what));
}
template <class T, size_t N> T of_number(const Number<T> (&all)[N], int32_t x, const char *what)
{
    for (const auto &one : all)
        if (one.number() == x) return one.value;
    throw std::runtime_error(c10::str("the stable interface has not this ", what, ": ", x));
}
#define STABLE_DTYPE_(name, word) {c10::ScalarType::name, aoti_torch_dtype_##word}
inline constexpr Number<c10::ScalarType> dtypes[] = {
    STABLE_DTYPE_(Float, float32), STABLE_DTYPE_(Double, float64), STABLE_DTYPE_(Long, int64), STABLE_DTYPE_(Int, int32), STABLE_DTYPE_(Half, float16), STABLE_DTYPE_(BFloat16, bfloat16),
    STABLE_DTYPE_(Bool, bool), STABLE_DTYPE_(Byte, uint8), STABLE_DTYPE_(Char, int8), STABLE_DTYPE_(Short, int16), STABLE_DTYPE_(UInt16, uint16), STABLE_DTYPE_(UInt32, uint32),
    STABLE_DTYPE_(UInt64, uint64), STABLE_DTYPE_(ComplexHalf, complex32), STABLE_DTYPE_(ComplexFloat, complex64), STABLE_DTYPE_(ComplexDouble, complex128),
    STABLE_DTYPE_(Float8_e5m2, float8_e5m2), STABLE_DTYPE_(Float8_e4m3fn, float8_e4m3fn), STABLE_DTYPE_(Float8_e5m2fnuz, float8_e5m2fnuz),
    STABLE_DTYPE_(Float8_e4m3fnuz, float8_e4m3fnuz), STABLE_DTYPE_(Float8_e8m0fnu, float8_e8m0fnu)};
#undef STABLE_DTYPE_
inline constexpr Number<c10::Layout> layouts[] = {
    {c10::Layout::Strided, aoti_torch_layout_strided}, {c10::Layout::Sparse, aoti_torch_layout_sparse_coo}, {c10::Layout::SparseCsr, aoti_torch_layout_sparse_csr},
    {c10::Layout::SparseCsc, aoti_torch_layout_sparse_csc}, {c10::Layout::SparseBsr, aoti_torch_layout_sparse_bsr}, {c10::Layout::SparseBsc, aoti_torch_layout_sparse_bsc},
    {c10::Layout::Mkldnn, aoti_torch_layout__mkldnn}};
inline constexpr Number<c10::MemoryFormat> formats[] = {
    {c10::MemoryFormat::Contiguous, aoti_torch_memory_format_contiguous_format}, {c10::MemoryFormat::Preserve, aoti_torch_memory_format_preserve_format},
    {c10::MemoryFormat::ChannelsLast, aoti_torch_memory_format_channels_last}, {c10::MemoryFormat::ChannelsLast3d, aoti_torch_memory_format_channels_last_3d}};
inline constexpr Number<c10::DeviceType> device_types[] = {
    {c10::DeviceType::CPU, aoti_torch_device_type_cpu}, {c10::DeviceType::CUDA, aoti_torch_device_type_cuda}, {c10::DeviceType::Meta, aoti_torch_device_type_meta},
    {c10::DeviceType::MPS, aoti_torch_device_type_mps}, {c10::DeviceType::XPU, aoti_torch_device_type_xpu}, {c10::DeviceType::PrivateUse1, aoti_torch_device_type_privateuse1}};

} // namespace detail

class Device {
    DeviceType its_type = DeviceType::CPU;
    DeviceIndex its_index = -1;

public:
    Device() = default;
    Device(DeviceType type, DeviceIndex index = -1) : its_type(type), its_index(index) {}
    Device(const std::string &text)
    {
        uint32_t number;
        STABLE_TORCH_ERROR_CODE_CHECK(torch_parse_device_string(text.c_str(), &number, &its_index));
        its_type = detail::of_number(detail::device_types, static_cast<int32_t>(number), "type of device");
    }
    DeviceType type() const { return its_type; }
    DeviceIndex index() const { return its_index; }
    bool has_index() const { return its_index >= 0; }
    void set_index(DeviceIndex index) { its_index = index; }
    bool is_cpu() const { return its_type == DeviceType::CPU; }
    bool is_cuda() const { return its_type == DeviceType::CUDA; }
    bool operator==(const Device &other) const { return its_type == other.its_type && its_index == other.its_index; }
    bool operator!=(const Device &other) const { return !(*this == other); }
};

/* A counted handle: copies are the same tensor. */
class Tensor {
    std::shared_ptr<AtenTensorOpaque> its;

    static AtenTensorHandle undefined()
    {
        AtenTensorHandle made;
        STABLE_TORCH_ERROR_CODE_CHECK(aoti_torch_new_uninitialized_tensor(&made));
        return made;
    }
    template <class T, class H> T told(AOTITorchError (*ask)(H, T *)) const
    {
        T told;
        STABLE_TORCH_ERROR_CODE_CHECK(ask(its.get(), &told));
        return told;
    }
    void of_type(c10::ScalarType t) const { STD_TORCH_CHECK(scalar_type() == t, "expected scalar type ", c10::toString(t), " but found ", c10::toString(scalar_type())); }

public:
    Tensor() : Tensor(undefined()) {}
    explicit Tensor(AtenTensorHandle own) : its(own, [](AtenTensorHandle h) { aoti_torch_delete_tensor_object(h); }) {}
    AtenTensorHandle get() const { return its.get(); }
    void reset() { *this = Tensor(); }
    bool defined() const { return told<bool>(aoti_torch_is_defined); }

    int64_t dim() const { return told<int64_t>(aoti_torch_get_dim); }
    int64_t numel() const { return told<int64_t>(aoti_torch_get_numel); }
    headeronly::IntHeaderOnlyArrayRef sizes() const { return {told<int64_t *>(aoti_torch_get_sizes), static_cast<size_t>(dim())}; }
    headeronly::IntHeaderOnlyArrayRef strides() const { return {told<int64_t *>(aoti_torch_get_strides), static_cast<size_t>(dim())}; }
    int64_t size(int64_t d) const
    {
        int64_t n;
        STABLE_TORCH_ERROR_CODE_CHECK(aoti_torch_get_size(its.get(), d, &n));
        return n;
    }
    int64_t stride(int64_t d) const
    {
        int64_t n;
        STABLE_TORCH_ERROR_CODE_CHECK(aoti_torch_get_stride(its.get(), d, &n));
        return n;
    }
    bool is_contiguous() const { return told<bool>(aoti_torch_is_contiguous); }
    int64_t storage_offset() const { return told<int64_t>(aoti_torch_get_storage_offset); }
    c10::ScalarType scalar_type() const { return detail::of_number(detail::dtypes, told<int32_t>(aoti_torch_get_dtype), "dtype"); }
    c10::Layout layout() const { return detail::of_number(detail::layouts, told<int32_t>(aoti_torch_get_layout), "layout"); }
    size_t element_size() const { return aoti_torch_dtype_element_size(told<int32_t>(aoti_torch_get_dtype)); }
    Device device() const { return {detail::of_number(detail::device_types, told<int32_t>(aoti_torch_get_device_type), "type of device"), get_device_index()}; }
    DeviceIndex get_device_index() const { return told<int32_t>(aoti_torch_get_device_index); }
    DeviceIndex get_device() const { return get_device_index(); }
    bool is_cpu() const { return told<int32_t>(aoti_torch_get_device_type) == aoti_torch_device_type_cpu(); }
    bool is_cuda() const { return told<int32_t>(aoti_torch_get_device_type) == aoti_torch_device_type_cuda(); }

    void *data_ptr() const { return told<void *>(aoti_torch_get_data_ptr); }
    void *mutable_data_ptr() const { return told<void *>(torch_get_mutable_data_ptr); }
    const void *const_data_ptr() const { return told<const void *>(torch_get_const_data_ptr); }
    template <class T> T *data_ptr() const { return of_type(c10::CppTypeToScalarType<T>::value), static_cast<T *>(data_ptr()); }
    template <class T> T *mutable_data_ptr() const { return of_type(c10::CppTypeToScalarType<T>::value), static_cast<T *>(mutable_data_ptr()); }
    template <class T> const std::remove_const_t<T> *const_data_ptr() const
    {
        return of_type(c10::CppTypeToScalarType<std::remove_const_t<T>>::value), static_cast<const std::remove_const_t<T> *>(const_data_ptr());
    }
    void set_requires_grad(bool on) const { STABLE_TORCH_ERROR_CODE_CHECK(torch_set_requires_grad(its.get(), on)); }
};

class Generator {
    std::shared_ptr<AtenGeneratorOpaque> its;

public:
    explicit Generator(AtenGeneratorHandle own) : its(own, [](AtenGeneratorHandle h) { torch_delete_generator(h); }) {}
    AtenGeneratorHandle get() const { return its.get(); }
    Device device() const
    {
        int32_t type, index;
        STABLE_TORCH_ERROR_CODE_CHECK(torch_generator_get_device(its.get(), &type, &index));
        return {detail::of_number(detail::device_types, type, "type of device"), index};
    }
};

namespace detail {

/* How a T lies in eight bytes; what is not a number there is owned by whom the value was given to. */
template <class T, class = void> struct Value {
    static_assert(std::is_trivially_copyable_v<T> && sizeof(T) <= sizeof(StableIValue), "the stable interface has no values of this type");
    static StableIValue from(const T &x)
    {
        StableIValue v = 0;
        std::memcpy(&v, &x, sizeof x);
        return v;
    }
    static T to(StableIValue v)
    {
        T x;
        std::memcpy(&x, &v, sizeof x);
        return x;
    }
};

template <class T> StableIValue from(const T &x);
template <class T> T to(StableIValue v) { return Value<T>::to(v); }

/* Signed numbers keep their sign in an int of eight bytes; a float is a double there. */
template <class T> struct Value<T, std::enable_if_t<std::is_integral_v<T> && std::is_signed_v<T> && (sizeof(T) < sizeof(int64_t))>> {
    static StableIValue from(T x) { return static_cast<StableIValue>(static_cast<int64_t>(x)); }
    static T to(StableIValue v) { return static_cast<T>(static_cast<int64_t>(v)); }
};
template <> struct Value<float> {
    static StableIValue from(float x) { return Value<double>::from(x); }
    static float to(StableIValue v) { return static_cast<float>(Value<double>::to(v)); }
};
template <> struct Value<c10::ScalarType> {
    static StableIValue from(c10::ScalarType x) { return Value<int32_t>::from(number_of(dtypes, x, "dtype")); }
    static c10::ScalarType to(StableIValue v) { return of_number(dtypes, Value<int32_t>::to(v), "dtype"); }
};
template <> struct Value<c10::Layout> {
    static StableIValue from(c10::Layout x) { return Value<int32_t>::from(number_of(layouts, x, "layout")); }
    static c10::Layout to(StableIValue v) { return of_number(layouts, Value<int32_t>::to(v), "layout"); }
};
template <> struct Value<c10::MemoryFormat> {
    static StableIValue from(c10::MemoryFormat x) { return Value<int32_t>::from(number_of(formats, x, "memory format")); }
    static c10::MemoryFormat to(StableIValue v) { return of_number(formats, Value<int32_t>::to(v), "memory format"); }
};
template <> struct Value<c10::DeviceType> {
    static StableIValue from(c10::DeviceType x) { return Value<int32_t>::from(number_of(device_types, x, "type of device")); }
    static c10::DeviceType to(StableIValue v) { return of_number(device_types, Value<int32_t>::to(v), "type of device"); }
};
/* The type above the index. */
template <> struct Value<Device> {
    static StableIValue from(Device x) { return static_cast<StableIValue>(static_cast<uint32_t>(number_of(device_types, x.type(), "type of device"))) << 32 | static_cast<uint32_t>(x.index()); }
    static Device to(StableIValue v) { return {of_number(device_types, static_cast<int32_t>(v >> 32), "type of device"), static_cast<int32_t>(static_cast<uint32_t>(v))}; }
};
template <> struct Value<Tensor> {
    static StableIValue from(const Tensor &x)
    {
        AtenTensorHandle one_more;
        STABLE_TORCH_ERROR_CODE_CHECK(aoti_torch_new_tensor_handle(x.get(), &one_more));
        return Value<AtenTensorHandle>::from(one_more);
    }
    static Tensor to(StableIValue v) { return Tensor(Value<AtenTensorHandle>::to(v)); }
};
template <> struct Value<Generator> {
    static StableIValue from(const Generator &x)
    {
        AtenGeneratorHandle one_more;
        STABLE_TORCH_ERROR_CODE_CHECK(torch_new_generator_handle(x.get(), &one_more));
        return Value<AtenGeneratorHandle>::from(one_more);
    }
    static Generator to(StableIValue v) { return Generator(Value<AtenGeneratorHandle>::to(v)); }
};
template <> struct Value<std::string> {
    static StableIValue from(std::string_view x)
    {
        StringHandle text;
        STABLE_TORCH_ERROR_CODE_CHECK(torch_new_string_handle(x.data(), x.size(), &text));
        return Value<StringHandle>::from(text);
    }
    static std::string to(StableIValue v)
    {
        auto text = Value<StringHandle>::to(v);
        const char *first;
        size_t n;
        STABLE_TORCH_ERROR_CODE_CHECK(torch_string_c_str(text, &first));
        STABLE_TORCH_ERROR_CODE_CHECK(torch_string_length(text, &n));
        std::string copy(first, n);
        torch_delete_string(text);
        return copy;
    }
};
template <> struct Value<std::nullopt_t> {
    static StableIValue from(std::nullopt_t) { return 0; }
};
template <class T> struct Value<std::optional<T>> {
    static StableIValue from(const std::optional<T> &x)
    {
        StableIValue *inner = nullptr;
        if (!x) return 0;
        STABLE_TORCH_ERROR_CODE_CHECK(torch_new_stable_ivalue(&inner));
        *inner = detail::from(*x);
        return Value<StableIValue *>::from(inner);
    }
    static std::optional<T> to(StableIValue v)
    {
        auto *inner = Value<StableIValue *>::to(v);
        if (!inner) return std::nullopt;
        StableIValue own = *inner;
        torch_delete_stable_ivalue(inner);
        return detail::to<T>(own);
    }
};
template <class List, class T> StableIValue from_list(const List &x)
{
    StableListHandle list;
    STABLE_TORCH_ERROR_CODE_CHECK(torch_new_list_reserve_size(x.size(), &list));
    for (const T &item : x) STABLE_TORCH_ERROR_CODE_CHECK(torch_list_push_back(list, detail::from(item)));
    return Value<StableListHandle>::from(list);
}
template <class T> struct Value<std::vector<T>> {
    static StableIValue from(const std::vector<T> &x) { return from_list<std::vector<T>, T>(x); }
    static std::vector<T> to(StableIValue v)
    {
        auto list = Value<StableListHandle>::to(v);
        std::vector<T> items;
        size_t n;
        STABLE_TORCH_ERROR_CODE_CHECK(torch_list_size(list, &n));
        items.reserve(n);
        for (size_t i = 0; i < n; ++i) {
            StableIValue item;
            STABLE_TORCH_ERROR_CODE_CHECK(torch_list_get_item(list, i, &item));
            items.push_back(detail::to<T>(item));
        }
        torch_delete_list(list);
        return items;
    }
};
template <class T> struct Value<c10::ArrayRef<T>> {
    static StableIValue from(c10::ArrayRef<T> x) { return from_list<c10::ArrayRef<T>, T>(x); }
};

template <class T> StableIValue from(const T &x)
{
    if constexpr (!std::is_same_v<T, std::string> && std::is_convertible_v<const T &, std::string_view>) return Value<std::string>::from(std::string_view(x));
    else return Value<T>::from(x);
}

/* What an argument is kept as while the function runs: views need something to look at. */
template <class T> struct Kept { using type = T; };
template <class T> struct Kept<c10::ArrayRef<T>> { using type = std::vector<T>; };
template <> struct Kept<std::string_view> { using type = std::string; };
template <class T> struct Kept<std::optional<T>> { using type = std::optional<typename Kept<T>::type>; };

template <class T> void leave(StableIValue *stack, const T &result) { *stack = from(result); }
template <class... T> void leave(StableIValue *stack, const std::tuple<T...> &results)
{
    std::apply([&](const auto &...x) { ((*stack++ = from(x)), ...); }, results);
}

template <class F> struct Boxed;
template <class R, class... Args> struct Boxed<R (*)(Args...)> {
    template <class A> using pass = std::conditional_t<std::is_lvalue_reference_v<A>, A, std::decay_t<A>>;
    template <class A> static decltype(auto) passed(typename Kept<std::decay_t<A>>::type &kept)
    {
        if constexpr (std::is_same_v<typename Kept<std::decay_t<A>>::type, std::decay_t<A>>) return static_cast<pass<A>>(kept);
        else return std::decay_t<A>(kept);
    }
    template <size_t... I> static void call(R (*f)(Args...), StableIValue *stack, std::index_sequence<I...>)
    {
        std::tuple<typename Kept<std::decay_t<Args>>::type...> kept{to<typename Kept<std::decay_t<Args>>::type>(stack[I])...}; /* in their order */
        (void)kept, (void)stack;
        if constexpr (std::is_void_v<R>) f(passed<Args>(std::get<I>(kept))...);
        else leave(stack, f(passed<Args>(std::get<I>(kept))...));
    }
    static void run(R (*f)(Args...), StableIValue *stack, uint64_t n)
    {
        STD_TORCH_CHECK(n == sizeof...(Args), "the schema has ", n, " arguments, the function takes ", sizeof...(Args));
        call(f, stack, std::index_sequence_for<Args...>());
    }
};
template <auto F> void boxed(StableIValue *stack, uint64_t n, uint64_t) { Boxed<std::decay_t<decltype(F)>>::run(F, stack, n); }

class StableLibrary {
    std::string ns;
    TorchLibraryHandle its = nullptr;
    std::list<StableLibrary> functions; /* given with their schemas */

public:
    enum class Kind { DEF, IMPL, FRAGMENT };
    using Function = void (*)(StableIValue *, uint64_t, uint64_t);

    StableLibrary(Kind kind, const char *name, const char *key, const char *file, uint32_t line) : ns(name)
    {
        STABLE_TORCH_ERROR_CODE_CHECK(kind == Kind::IMPL  ? aoti_torch_library_init_impl(name, key, file, line, &its)
                                      : kind == Kind::DEF ? aoti_torch_library_init_def(name, file, line, &its)
                                                          : aoti_torch_library_init_fragment(name, file, line, &its));
    }
    StableLibrary(const StableLibrary &) = delete;
    ~StableLibrary() { aoti_torch_delete_library_object(its); }
    StableLibrary &def(const char *schema)
    {
        STABLE_TORCH_ERROR_CODE_CHECK(aoti_torch_library_def(its, schema));
        return *this;
    }
    StableLibrary &def(const char *schema, const std::vector<at::Tag> &tags)
    {
        std::vector<int32_t> numbers;
        for (at::Tag t : tags) numbers.push_back(static_cast<int32_t>(t));
        STABLE_TORCH_ERROR_CODE_CHECK(torch_library_def_with_tags(its, schema, numbers.data(), static_cast<int32_t>(numbers.size())));
        return *this;
    }
    /* With the function of all devices. */
    StableLibrary &def(const char *schema, Function f)
    {
        std::string name(schema, std::strcspn(schema, "("));
        def(schema);
        functions.emplace_back(Kind::IMPL, ns.c_str(), "CompositeImplicitAutograd", __FILE__, __LINE__).impl(name.c_str(), f);
        return *this;
    }
    StableLibrary &impl(const char *name, Function f)
    {
        STABLE_TORCH_ERROR_CODE_CHECK(torch_library_impl(its, name, f, TORCH_ABI_VERSION));
        return *this;
    }
    void set_python_module(const char *module, const char *context = "") { STABLE_TORCH_ERROR_CODE_CHECK(torch_library_set_python_module(its, module, context)); }
};

/* Runs when the object is loaded, where nobody could catch an exception: what goes wrong is said, and the operation is not there. The handle
 * lives as long as the object, since PyTorch takes the operations back with it. */
class StableTorchLibraryInit {
    std::optional<StableLibrary> its;

public:
    StableTorchLibraryInit(StableLibrary::Kind kind, void (*fill)(StableLibrary &), const char *ns, const char *key, const char *file, uint32_t line)
    {
        try {
            its.emplace(kind, ns, key, file, line);
            fill(*its);
        } catch (const std::exception &e) {
            aoti_torch_warn(ns, file, line, e.what());
        }
    }
};

} // namespace detail
using detail::from;
} // namespace torch::stable

#define TORCH_BOX(...) (&::torch::stable::detail::boxed<(__VA_ARGS__)>)
#define STABLE_LIBRARY_(kind, ns, key, name, m)                                                             \
    static void name(::torch::stable::detail::StableLibrary &m);                                            \
    static const ::torch::stable::detail::StableTorchLibraryInit C10_CONCATENATE(name, _at_load)(           \
        ::torch::stable::detail::StableLibrary::Kind::kind, &name, C10_STRINGIZE(ns), key, __FILE__, __LINE__); \
    static void name(::torch::stable::detail::StableLibrary &m)
#define STABLE_TORCH_LIBRARY(ns, m) STABLE_LIBRARY_(DEF, ns, nullptr, C10_CONCATENATE(stable_library_, ns), m)
#define STABLE_FRAGMENT_(ns, m, n) STABLE_LIBRARY_(FRAGMENT, ns, nullptr, C10_CONCATENATE(C10_CONCATENATE(stable_fragment_, ns), n), m)
#define STABLE_TORCH_LIBRARY_FRAGMENT(ns, m) STABLE_FRAGMENT_(ns, m, __COUNTER__)
#define STABLE_IMPL_(ns, k, m, n) STABLE_LIBRARY_(IMPL, ns, #k, C10_CONCATENATE(C10_CONCATENATE(C10_CONCATENATE(stable_impl_, ns), k), n), m)
#define STABLE_TORCH_LIBRARY_IMPL(ns, k, m) STABLE_IMPL_(ns, k, m, __COUNTER__)

#endif
