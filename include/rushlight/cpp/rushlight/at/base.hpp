/* base.hpp - what C++ programs for PyTorch expect below tensors: errors as exceptions, views of lists, small containers. */
#ifndef RUSHLIGHT_AT_BASE_HPP
#define RUSHLIGHT_AT_BASE_HPP

#include <rushlight.h>
#include <rushlight/library.h>

#include <algorithm>
#include <array>
#include <cassert>
#include <cctype>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <exception>
#include <functional>
#include <initializer_list>
#include <iostream>
#include <limits>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <numeric>
#include <optional>
#include <ostream>
#include <set>
#include <sstream>
#include <stdexcept>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <variant>
#include <vector>

#define C10_EXPORT __attribute__((visibility("default")))
#define C10_HIDDEN __attribute__((visibility("hidden")))
#define C10_API
#define TORCH_API
#define C10_IMPORT C10_EXPORT
#define C10_LIKELY(x) (__builtin_expect(static_cast<bool>(x), 1))
#define C10_UNLIKELY(x) (__builtin_expect(static_cast<bool>(x), 0))
#define C10_ALWAYS_INLINE __attribute__((always_inline)) inline
#define C10_NOINLINE __attribute__((noinline))
#define C10_UNUSED __attribute__((unused))
#define C10_RESTRICT __restrict
#define C10_NODISCARD [[nodiscard]]
#define C10_CONCATENATE_(a, b) a##b
#define C10_CONCATENATE(a, b) C10_CONCATENATE_(a, b)
#define C10_ANONYMOUS_VARIABLE(name) C10_CONCATENATE(name, __COUNTER__)
#define C10_STRINGIZE_(x) #x
#define C10_STRINGIZE(x) C10_STRINGIZE_(x)
#ifdef __CUDACC__
#define C10_HOST_DEVICE __host__ __device__
#define C10_DEVICE __device__
#define C10_HOST __host__
#else
#define C10_HOST_DEVICE
#define C10_DEVICE
#define C10_HOST
#endif

namespace c10 {

using std::nullopt;
using std::nullopt_t;
using std::optional;
using std::make_optional;
using string_view = std::string_view;

/* ---- errors: each is one of the library's kinds, and becomes the exception of that kind in Python ---- */

struct SourceLocation {
    const char *function, *file;
    uint32_t line;
};

class Error : public std::exception {
    std::string text;
    rush_error_kind its_kind;

public:
    explicit Error(std::string message, rush_error_kind kind = RUSH_RUNTIME_ERROR) : text(std::move(message)), its_kind(kind) {}
    Error(SourceLocation, std::string message) : Error(std::move(message)) {}
    const char *what() const noexcept override { return text.c_str(); }
    const char *what_without_backtrace() const noexcept { return text.c_str(); }
    const std::string &msg() const { return text; }
    rush_error_kind kind() const { return its_kind; }
};

template <rush_error_kind K> class ErrorOf : public Error {
public:
    explicit ErrorOf(std::string message) : Error(std::move(message), K) {}
    ErrorOf(SourceLocation, std::string message) : Error(std::move(message), K) {}
};
using IndexError = ErrorOf<RUSH_INDEX_ERROR>;
using ValueError = ErrorOf<RUSH_VALUE_ERROR>;
using TypeError = ErrorOf<RUSH_TYPE_ERROR>;
using NotImplementedError = ErrorOf<RUSH_NOT_IMPLEMENTED>;
using LinAlgError = ErrorOf<RUSH_LINALG_ERROR>;
using OutOfMemoryError = ErrorOf<RUSH_MEMORY_ERROR>;
using EnforceFiniteError = Error;

namespace detail {

/* What is to be printed, and how. Lists of these are the same type for all messages, so one function prints them all: a function for each
 * combination of types and lengths of texts was a good part of what a file with many checks took to compile. */
struct Shown {
    const void *x;
    void (*print)(std::ostream &out, const void *x);
};
template <class T> void print_one(std::ostream &out, const void *x) { out << *static_cast<const T *>(x); }
inline void print_text(std::ostream &out, const void *x) { out << static_cast<const char *>(x); }
template <class T> C10_ALWAYS_INLINE Shown shown(const T &x) { return {&x, print_one<T>}; }
template <size_t N> C10_ALWAYS_INLINE Shown shown(const char (&text)[N]) { return {text, print_text}; }

inline C10_NOINLINE std::string text_of(std::initializer_list<Shown> list)
{
    std::ostringstream text;
    for (const Shown &item : list) item.print(text, item.x);
    return text.str();
}
template <class... Args> std::string str(const Args &...args) { return text_of({shown(args)...}); }

/* The library's pending error as an exception. */
[[noreturn]] inline void raise()
{
    rush_error_kind kind = rush_error_kind_now();
    std::string message = rush_error() ? rush_error_bare() : "an operation failed";
    rush_error_clear();
    if (kind == RUSH_INDEX_ERROR) throw IndexError(message);
    if (kind == RUSH_VALUE_ERROR) throw ValueError(message);
    if (kind == RUSH_TYPE_ERROR) throw TypeError(message);
    if (kind == RUSH_NOT_IMPLEMENTED) throw NotImplementedError(message);
    if (kind == RUSH_LINALG_ERROR) throw LinAlgError(message);
    if (kind == RUSH_MEMORY_ERROR) throw OutOfMemoryError(message);
    throw Error(message, kind == RUSH_OK ? RUSH_RUNTIME_ERROR : kind);
}

inline void check(int failed)
{
    if (C10_UNLIKELY(failed)) raise();
}

/* What f throws as the library's error: exceptions must not pass through C. */
template <class F> int guarded(F &&f)
{
    try {
        f();
        return 0;
    } catch (const Error &e) {
        return rush_fail(e.kind(), "%s", e.what());
    } catch (const std::bad_alloc &) {
        return rush_fail(RUSH_MEMORY_ERROR, "out of memory");
    } catch (const std::exception &e) {
        return rush_fail(RUSH_RUNTIME_ERROR, "%s", e.what());
    } catch (...) {
        return rush_fail(RUSH_RUNTIME_ERROR, "an exception of a type that is not known was thrown");
    }
}

template <class E> [[noreturn]] C10_NOINLINE void fail_with(const char *otherwise, std::initializer_list<Shown> list)
{
    throw E(list.size() ? text_of(list) : std::string(otherwise));
}
template <class E, class... Args> [[noreturn]] C10_ALWAYS_INLINE void fail(const char *otherwise, const Args &...args)
{
    fail_with<E>(otherwise, {shown(args)...});
}

/* Values are computed once, though they are compared and printed. */
template <class A, class B, class Compared> void compare(const A &a, const B &b, Compared compared, const char *text)
{
    if (C10_UNLIKELY(!compared(a, b))) fail<Error>("", "Check failed: ", text, " (", a, " vs. ", b, "). ");
}

} // namespace detail

template <class... Args> std::string str(const Args &...args) { return detail::str(args...); }

/* Programs leave the semicolon out, so it is a statement without one. */
#define C10_CHECK_(kind, condition, ...)                                                                    \
    if (C10_UNLIKELY(!(condition))) {                                                                       \
        ::c10::detail::fail<kind>("Expected " #condition " to be true, but got false.", ##__VA_ARGS__);     \
    }
#define TORCH_CHECK(condition, ...) C10_CHECK_(::c10::Error, condition, ##__VA_ARGS__)
#define TORCH_CHECK_INDEX(condition, ...) C10_CHECK_(::c10::IndexError, condition, ##__VA_ARGS__)
#define TORCH_CHECK_VALUE(condition, ...) C10_CHECK_(::c10::ValueError, condition, ##__VA_ARGS__)
#define TORCH_CHECK_TYPE(condition, ...) C10_CHECK_(::c10::TypeError, condition, ##__VA_ARGS__)
#define TORCH_CHECK_LINALG(condition, ...) C10_CHECK_(::c10::LinAlgError, condition, ##__VA_ARGS__)
#define TORCH_CHECK_NOT_IMPLEMENTED(condition, ...) C10_CHECK_(::c10::NotImplementedError, condition, ##__VA_ARGS__)
#define C10_COMPARE_(a, op, b) ::c10::detail::compare(a, b, [](const auto &x_, const auto &y_) { return x_ op y_; }, #a " " #op " " #b)
#define TORCH_CHECK_EQ(a, b) C10_COMPARE_(a, ==, b)
#define TORCH_CHECK_NE(a, b) C10_COMPARE_(a, !=, b)
#define TORCH_CHECK_LT(a, b) C10_COMPARE_(a, <, b)
#define TORCH_CHECK_LE(a, b) C10_COMPARE_(a, <=, b)
#define TORCH_CHECK_GT(a, b) C10_COMPARE_(a, >, b)
#define TORCH_CHECK_GE(a, b) C10_COMPARE_(a, >=, b)
#define TORCH_INTERNAL_ASSERT(condition, ...)                                                               \
    TORCH_CHECK(condition, #condition " INTERNAL ASSERT FAILED at \"" __FILE__ "\":", __LINE__, ", please report a bug to PyTorch. ", ##__VA_ARGS__)
#define TORCH_INTERNAL_ASSERT_DEBUG_ONLY(condition, ...) ((void)0)
#define AT_ASSERT(...) TORCH_INTERNAL_ASSERT(__VA_ARGS__)
#define AT_ASSERTM(condition, ...) TORCH_INTERNAL_ASSERT(condition, ##__VA_ARGS__)
#define AT_ERROR(...) ::c10::detail::fail<::c10::Error>("error", ##__VA_ARGS__)
#define C10_THROW_ERROR(kind, message) throw ::c10::kind(message)
#define TORCH_WARN(...) rush_log(1, "%s", ::c10::str(__VA_ARGS__).c_str())
#define TORCH_WARN_ONCE(...)                                                                                \
    do {                                                                                                    \
        static bool warned = (TORCH_WARN(__VA_ARGS__), true);                                               \
        (void)warned;                                                                                       \
    } while (0)
#define AT_WARN(...) TORCH_WARN(__VA_ARGS__)
#define C10_LOG_API_USAGE_ONCE(...) ((void)0) /* nobody is told */

/* ---- views of lists ---- */

template <class T> class ArrayRef {
    const T *first = nullptr;
    size_t count = 0;

public:
    using value_type = T;
    using iterator = const T *;
    using const_iterator = const T *;
    using size_type = size_t;
    using reverse_iterator = std::reverse_iterator<iterator>;

    constexpr ArrayRef() = default;
    constexpr ArrayRef(const T &one) : first(&one), count(1) {}
    constexpr ArrayRef(const T *data, size_t n) : first(data), count(n) {}
    constexpr ArrayRef(const T *begin, const T *end) : first(begin), count(static_cast<size_t>(end - begin)) {}
    template <class A> ArrayRef(const std::vector<T, A> &v) : first(v.data()), count(v.size()) {}
    template <size_t N> constexpr ArrayRef(const std::array<T, N> &v) : first(v.data()), count(N) {}
    template <size_t N> constexpr ArrayRef(const T (&v)[N]) : first(v), count(N) {}
#pragma GCC diagnostic push
#if defined __GNUC__ && !defined __clang__
#pragma GCC diagnostic ignored "-Winit-list-lifetime" /* it is to be used in the call only, as everywhere in PyTorch */
#endif
    constexpr ArrayRef(const std::initializer_list<T> &v) : first(v.begin() == v.end() ? nullptr : v.begin()), count(v.size()) {}
#pragma GCC diagnostic pop

    constexpr iterator begin() const { return first; }
    constexpr iterator end() const { return first + count; }
    constexpr const_iterator cbegin() const { return first; }
    constexpr const_iterator cend() const { return first + count; }
    reverse_iterator rbegin() const { return reverse_iterator(end()); }
    reverse_iterator rend() const { return reverse_iterator(begin()); }
    constexpr bool empty() const { return count == 0; }
    constexpr const T *data() const { return first; }
    constexpr size_t size() const { return count; }
    const T &front() const { return at(0); }
    const T &back() const { return at(count - 1); }
    constexpr const T &operator[](size_t i) const { return first[i]; }
    const T &at(size_t i) const
    {
        TORCH_CHECK(i < count, "ArrayRef: invalid index ", i, " of ", count);
        return first[i];
    }
    ArrayRef slice(size_t from, size_t n) const
    {
        TORCH_CHECK(from + n <= count, "ArrayRef: invalid slice ", from, " to ", from + n, " of ", count);
        return ArrayRef(first + from, n);
    }
    ArrayRef slice(size_t from) const { return slice(from, count - from); }
    std::vector<T> vec() const { return std::vector<T>(first, first + count); }
    bool equals(ArrayRef other) const
    {
        if (count != other.count) return false;
        for (size_t i = 0; i < count; ++i)
            if (!(first[i] == other.first[i])) return false;
        return true;
    }
};
template <class T> bool operator==(ArrayRef<T> a, ArrayRef<T> b) { return a.equals(b); }
template <class T> bool operator!=(ArrayRef<T> a, ArrayRef<T> b) { return !a.equals(b); }
template <class T> bool operator==(const std::vector<T> &a, ArrayRef<T> b) { return ArrayRef<T>(a).equals(b); }
template <class T> bool operator!=(const std::vector<T> &a, ArrayRef<T> b) { return !ArrayRef<T>(a).equals(b); }
template <class T> bool operator==(ArrayRef<T> a, const std::vector<T> &b) { return a.equals(b); }
template <class T> bool operator!=(ArrayRef<T> a, const std::vector<T> &b) { return !a.equals(b); }
template <class T> std::ostream &operator<<(std::ostream &out, ArrayRef<T> list)
{
    out << "[";
    for (size_t i = 0; i < list.size(); ++i) out << (i ? ", " : "") << list[i];
    return out << "]";
}
using IntArrayRef = ArrayRef<int64_t>;
using IntList [[deprecated("IntArrayRef")]] = ArrayRef<int64_t>;
template <class T> ArrayRef<T> makeArrayRef(const std::vector<T> &v) { return v; }

template <class T> class OptionalArrayRef {
    std::optional<ArrayRef<T>> list;

public:
    constexpr OptionalArrayRef() = default;
    constexpr OptionalArrayRef(std::nullopt_t) {}
    constexpr OptionalArrayRef(ArrayRef<T> v) : list(v) {}
    constexpr OptionalArrayRef(const T &one) : list(ArrayRef<T>(one)) {}
    template <class A> OptionalArrayRef(const std::vector<T, A> &v) : list(ArrayRef<T>(v)) {}
    template <size_t N> constexpr OptionalArrayRef(const std::array<T, N> &v) : list(ArrayRef<T>(v)) {}
    constexpr OptionalArrayRef(const std::initializer_list<T> &v) : list(ArrayRef<T>(v)) {}
    OptionalArrayRef(const std::optional<std::vector<T>> &v) : list(v ? std::optional<ArrayRef<T>>(*v) : std::nullopt) {}
    OptionalArrayRef(const std::optional<ArrayRef<T>> &v) : list(v) {}
    constexpr bool has_value() const { return list.has_value(); }
    explicit constexpr operator bool() const { return list.has_value(); }
    const ArrayRef<T> &value() const { return list.value(); }
    const ArrayRef<T> &operator*() const { return *list; }
    const ArrayRef<T> *operator->() const { return &*list; }
};
using OptionalIntArrayRef = OptionalArrayRef<int64_t>;

/* ---- containers that are shared when copied, as in TorchScript ---- */

/* What PyTorch wants to be told of lists and dictionaries of any values, and of attributes: a name here, and one for annotations. */
class Type {
    std::string text, written;

public:
    explicit Type(std::string name, std::string annotation = "") : text(std::move(name)), written(annotation.empty() ? text : std::move(annotation)) {}
    static std::shared_ptr<Type> make(std::string name, std::string annotation = "") { return std::make_shared<Type>(std::move(name), std::move(annotation)); }
    const std::string &str() const { return text; }
    const std::string &annotation_str() const { return written; }
};
using TypePtr = std::shared_ptr<Type>;
#define C10_TYPE_(name, text)                                                                               \
    struct name##Type {                                                                                     \
        static TypePtr get() { return Type::make(text); }                                                   \
    };
C10_TYPE_(Any, "Any") C10_TYPE_(Tensor, "Tensor") C10_TYPE_(Int, "int") C10_TYPE_(Float, "float") C10_TYPE_(Bool, "bool") C10_TYPE_(String, "str") C10_TYPE_(None, "NoneType")
C10_TYPE_(Complex, "complex") C10_TYPE_(DeviceObj, "Device")
#undef C10_TYPE_
struct NumberType {
    static TypePtr get() { return Type::make("Scalar", "number"); }
};
struct ListType {
    static TypePtr create(const TypePtr &of) { return Type::make(of->str() + "[]", "List[" + of->annotation_str() + "]"); }
    static TypePtr ofTensors() { return create(TensorType::get()); }
    static TypePtr ofInts() { return create(IntType::get()); }
    static TypePtr ofFloats() { return create(FloatType::get()); }
    static TypePtr ofBools() { return create(BoolType::get()); }
    static TypePtr ofStrings() { return create(StringType::get()); }
};
struct DictType {
    static TypePtr create(const TypePtr &key, const TypePtr &value)
    {
        return Type::make("Dict(" + key->str() + ", " + value->str() + ")", "Dict[" + key->annotation_str() + ", " + value->annotation_str() + "]");
    }
};
struct OptionalType {
    static TypePtr create(const TypePtr &of) { return Type::make(of->str() + "?", "Optional[" + of->annotation_str() + "]"); }
    static TypePtr ofTensor() { return create(TensorType::get()); }
};
struct TupleType {
    static TypePtr create(const std::vector<TypePtr> &of)
    {
        std::string text, written, between;
        for (const TypePtr &t : of) text += between + t->str(), written += between + t->annotation_str(), between = ", ";
        return Type::make("(" + text + ")", "Tuple[" + written + "]");
    }
};

template <class T> class List {
    std::shared_ptr<std::vector<T>> items = std::make_shared<std::vector<T>>();

public:
    using value_type = T;
    List() = default;
    explicit List(const TypePtr &) {}
    List(std::initializer_list<T> v) : items(std::make_shared<std::vector<T>>(v)) {}
    explicit List(ArrayRef<T> v) : items(std::make_shared<std::vector<T>>(v.begin(), v.end())) {}
    List(std::vector<T> v) : items(std::make_shared<std::vector<T>>(std::move(v))) {}
    size_t size() const { return items->size(); }
    bool empty() const { return items->empty(); }
    typename std::vector<T>::const_reference get(size_t i) const { return items->at(i); }
    typename std::vector<T>::const_reference operator[](size_t i) const { return items->at(i); }
    /* One element of a list that may change: list[i].get(), list[i] = x. */
    class Element {
        std::vector<T> &items;
        size_t i;

    public:
        Element(std::vector<T> &list, size_t at) : items(list), i(at) {}
        typename std::vector<T>::const_reference get() const { return std::as_const(items).at(i); }
        operator T() const { return get(); }
        Element &operator=(T x) { return items.at(i) = std::move(x), *this; }
    };
    Element operator[](size_t i) { return {*items, i}; }
    void set(size_t i, T x) const { items->at(i) = std::move(x); }
    void push_back(T x) const { items->push_back(std::move(x)); }
    template <class... Args> void emplace_back(Args &&...args) const { items->emplace_back(std::forward<Args>(args)...); }
    void reserve(size_t n) const { items->reserve(n); }
    void resize(size_t n) const { items->resize(n); }
    void clear() const { items->clear(); }
    auto begin() const { return items->cbegin(); }
    auto end() const { return items->cend(); }
    std::vector<T> vec() const { return *items; }
    ArrayRef<T> ref() const { return *items; }
    List copy() const { return List(*items); }
};

template <class K, class V> class Dict {
public:
    class Entry {
        std::pair<K, V> item;

    public:
        Entry(K k, V v) : item(std::move(k), std::move(v)) {}
        const K &key() const { return item.first; }
        const V &value() const { return item.second; }
        V &changeable() { return item.second; }
        void setValue(V v) { item.second = std::move(v); }
    };
    using iterator = typename std::vector<Entry>::iterator;

private:
    struct Table {
        std::vector<Entry> entries; /* in the order in which they came */
        std::unordered_map<K, size_t> place;
    };
    std::shared_ptr<Table> table = std::make_shared<Table>();

public:
    Dict() = default;
    Dict(const TypePtr &, const TypePtr &) {}
    size_t size() const { return table->entries.size(); }
    bool empty() const { return table->entries.empty(); }
    bool contains(const K &key) const { return table->place.count(key) > 0; }
    V &at(const K &key) const { return table->entries[table->place.at(key)].changeable(); }
    iterator begin() const { return table->entries.begin(); }
    iterator end() const { return table->entries.end(); }
    iterator find(const K &key) const
    {
        auto found = table->place.find(key);
        return found == table->place.end() ? end() : begin() + static_cast<std::ptrdiff_t>(found->second);
    }
    std::pair<iterator, bool> insert(K key, V value) const
    {
        auto placed = table->place.emplace(key, table->entries.size());
        if (placed.second) table->entries.emplace_back(std::move(key), std::move(value));
        return {begin() + static_cast<std::ptrdiff_t>(placed.first->second), placed.second};
    }
    std::pair<iterator, bool> insert_or_assign(K key, V value) const
    {
        auto done = insert(key, value);
        if (!done.second) done.first->setValue(std::move(value));
        return done;
    }
};

/* for (auto i : c10::irange(n)) */
template <class T> struct integer_range {
    struct iterator {
        T i;
        T operator*() const { return i; }
        iterator &operator++() { return ++i, *this; }
        bool operator!=(iterator other) const { return i != other.i; }
        bool operator==(iterator other) const { return i == other.i; }
    };
    T first, last;
    iterator begin() const { return {first}; }
    iterator end() const { return {last < first ? first : last}; }
};
template <class T> integer_range<T> irange(T end) { return {T(), end}; }
template <class A, class B> integer_range<std::common_type_t<A, B>> irange(A begin, B end)
{
    using T = std::common_type_t<A, B>;
    return {static_cast<T>(begin), static_cast<T>(end)};
}

} // namespace c10

namespace at {
using namespace c10;
namespace detail {
using namespace c10::detail;
}
} // namespace at
namespace torch {
using namespace at;
}
#endif
