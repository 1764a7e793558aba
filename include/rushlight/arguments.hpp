/* arguments.hpp - what C++ passes to the typed functions: lists in braces, and values that box themselves.
 *
 *     rush_tensor *y = rush_max_pool2d(x, 2, {1, 1});             one number or several, defaults as in PyTorch
 *     rush_tensor *z = rush_mul(rush_add(x, y, 2), 0.5);
 *
 * Included by rushlight.h; nothing here is to be named by programs.
 */
#ifndef RUSHLIGHT_ARGUMENTS_HPP
#define RUSHLIGHT_ARGUMENTS_HPP

#include <initializer_list>

#if defined __GNUC__ && !defined __clang__
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Winit-list-lifetime" /* what is in braces outlives the call, which is all that is asked of it */
#endif

/* A list as an argument. What it was made of lives at least as long as the call. */
template <typename T, typename List, typename Data> class rush_list {
    const T *first = nullptr;
    size_t count = 0;
    T one = T();

public:
    rush_list() = default; /* not given */
    rush_list(std::initializer_list<T> list) : first(list.begin() ? list.begin() : &one), count(list.size()) {}
    rush_list(T x) : count(1), one(x) {}
    rush_list(List list) : first(list.data), count(list.n) {}
    rush_list(const rush_list &other) : first(other.first == &other.one ? &one : other.first), count(other.count), one(other.one) {}
    rush_list &operator=(const rush_list &) = delete;
    template <typename C, typename = decltype(static_cast<const T *>(static_cast<const C *>(nullptr)->data()))>
    rush_list(const C &vector) : first(vector.data() ? vector.data() : &one), count(vector.size()) {} /* std::vector and the like */
    List list() const
    {
        List l = {const_cast<Data>(first ? first : count ? &one : nullptr), count};
        return l;
    }
};
typedef rush_list<int64_t, rush_ints, const int64_t *> rush_int_list;
typedef rush_list<double, rush_floats, const double *> rush_float_list;
typedef rush_list<rush_tensor *, rush_tensors, rush_tensor **> rush_tensor_list;
typedef rush_list<rush_value, rush_scalars, const rush_value *> rush_scalar_list;

/* A value as an argument: a tensor, number, text, dtype, device, layout, memory format, or nothing. */
struct rush_boxed {
    rush_value value;
    rush_boxed() : value(rush_v_none()) {}
    rush_boxed(decltype(nullptr)) : value(rush_v_none()) {}
    rush_boxed(const rush_value &v) : value(v) {}
    rush_boxed(rush_tensor *t) : value(rush_v_tensor(t)) {}
    rush_boxed(const char *s) : value(rush_v_string(s)) {}
    rush_boxed(bool b) : value(rush_v_bool(b)) {}
    rush_boxed(double f) : value(rush_v_float(f)) {}
    rush_boxed(float f) : value(rush_v_float(f)) {}
    rush_boxed(int i) : value(rush_v_int(i)) {}
    rush_boxed(unsigned i) : value(rush_v_int(i)) {}
    rush_boxed(long i) : value(rush_v_int(i)) {}
    rush_boxed(unsigned long i) : value(rush_v_int((int64_t)i)) {}
    rush_boxed(long long i) : value(rush_v_int(i)) {}
    rush_boxed(unsigned long long i) : value(rush_v_int((int64_t)i)) {}
    rush_boxed(rush_dtype d) : value(rush_v_dtype(d)) {}
    rush_boxed(rush_layout l) : value(rush_v_layout(l)) {}
    rush_boxed(rush_memory_format f) : value(rush_v_memory_format(f)) {}
    rush_boxed(rush_device d) : value(rush_v_device(d)) {}
};
inline rush_value rush_v(const rush_boxed &x) { return x.value; }

template <typename List, typename T> List rush_list_keep(std::initializer_list<T> list)
{
    T *copy = static_cast<T *>(rush_scope_copy(list.begin(), list.size() * sizeof(T)));
    List l = {copy, copy ? list.size() : 0};
    return l;
}
#define RUSH_INTS(...) rush_list_keep<rush_ints, int64_t>({__VA_ARGS__})
#define RUSH_FLOATS(...) rush_list_keep<rush_floats, double>({__VA_ARGS__})
#define RUSH_TENSORS(...) rush_list_keep<rush_tensors, rush_tensor *>({__VA_ARGS__})
#define RUSH_NONE rush_v_none()
#define RUSH_V(x) rush_v(x)

#if defined __GNUC__ && !defined __clang__
#pragma GCC diagnostic pop
#endif
#endif
