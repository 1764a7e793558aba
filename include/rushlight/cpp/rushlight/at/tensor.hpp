/* tensor.hpp - at::Tensor: a counted reference to a tensor of the library, with ATen's functions and methods.
 *
 * A call opens a scope, boxes its arguments (detail::Call), and keeps what it returns; an error becomes an exception. The
 * functions themselves are printed from the registry of operations (functions.inc); here are those that methods call.
 */
#ifndef RUSHLIGHT_AT_TENSOR_HPP
#define RUSHLIGHT_AT_TENSOR_HPP

#include "accessor.hpp"
#include "types.hpp"

namespace at {

class Tensor;
using TensorList = ArrayRef<Tensor>;
using ITensorListRef = ArrayRef<Tensor>;

/* A tensor or a number in its place. */
class Operand;

namespace detail {
/* 1, 1: the default of a list. */
template <int64_t... Items> ArrayRef<int64_t> list()
{
    static constexpr int64_t items[] = {Items...};
    return items;
}
} // namespace detail

namespace indexing {

enum class EllipsisIndexType { Ellipsis };
constexpr EllipsisIndexType Ellipsis = EllipsisIndexType::Ellipsis;
constexpr std::nullopt_t None = std::nullopt;

struct Slice {
    std::optional<int64_t> start, stop, step;
    Slice(std::optional<int64_t> start_ = {}, std::optional<int64_t> stop_ = {}, std::optional<int64_t> step_ = {}) : start(start_), stop(stop_), step(step_) {}
};
struct TensorIndex;

} // namespace indexing

/* What x.type() returns: programs of old ask it for the dtype. */
class DeprecatedTypeProperties {
    ScalarType its_dtype;
    Device its_device;

public:
    DeprecatedTypeProperties(ScalarType t, Device d) : its_dtype(t), its_device(d) {}
    ScalarType scalarType() const { return its_dtype; }
    bool is_cuda() const { return its_device.is_cuda(); }
    Device device() const { return its_device; }
    operator TensorOptions() const { return TensorOptions(its_dtype).device(its_device); }
    std::string toString() const { return std::string(is_cuda() ? "CUDA" : "CPU") + c10::toString(its_dtype) + "Type"; }
    bool operator==(const DeprecatedTypeProperties &other) const { return its_dtype == other.its_dtype && its_device.type() == other.its_device.type(); }
    bool operator!=(const DeprecatedTypeProperties &other) const { return !(*this == other); }
};
inline std::ostream &operator<<(std::ostream &out, const DeprecatedTypeProperties &t) { return out << t.toString(); }

} // namespace at

namespace torch::autograd {

struct Edge;

/* A recorded call, of which its results know: y.grad_fn()->name(). */
class Node {
    rush_node *its;

public:
    explicit Node(rush_node *node) : its(node) { rush_node_keep(node); }
    Node(const Node &) = delete;
    Node &operator=(const Node &) = delete;
    ~Node() { rush_node_drop(its); }
    std::string name() const { return rush_grad_fn_name(its); }
    uint32_t num_outputs() const { return static_cast<uint32_t>(rush_grad_fn_edges(its)); }
    std::vector<Edge> next_edges() const;
    Edge next_edge(size_t i) const;
    rush_node *get() const { return its; }
    static std::shared_ptr<Node> of(rush_node *node) { return node ? std::make_shared<Node>(node) : nullptr; }
};
struct Edge {
    std::shared_ptr<Node> function;
    bool is_valid() const noexcept { return function != nullptr; }
};
inline Edge Node::next_edge(size_t i) const { return {of(rush_grad_fn_next(its, static_cast<int>(i)))}; }
inline std::vector<Edge> Node::next_edges() const
{
    std::vector<Edge> edges;
    for (uint32_t i = 0; i < num_outputs(); ++i) edges.push_back(next_edge(i));
    return edges;
}

} // namespace torch::autograd

namespace at {

class Tensor {
    rush_tensor *its;

public:
    Tensor() noexcept : its(nullptr) {}
    Tensor(const Tensor &other) : its(rush_keep(other.its)) {}
    Tensor(Tensor &&other) noexcept : its(std::exchange(other.its, nullptr)) {}
    ~Tensor() { rush_drop(its); }
    Tensor &operator=(const Tensor &other) &
    {
        rush_tensor *was = std::exchange(its, rush_keep(other.its));
        rush_drop(was);
        return *this;
    }
    Tensor &operator=(Tensor &&other) & noexcept
    {
        std::swap(its, other.its);
        return *this;
    }
    /* To what an index selected: x[0] = 1. */
    Tensor &operator=(const Tensor &other) &&;
    Tensor &operator=(const Scalar &number) &&;

    /* A reference that the caller has, or one more of a tensor that somebody else has. */
    static Tensor take(rush_tensor *own)
    {
        Tensor x;
        x.its = own;
        return x;
    }
    static Tensor of(rush_tensor *shared) { return take(rush_keep(shared)); }
    rush_tensor *get() const { return its; }

    bool defined() const { return its; }
    void reset() { *this = Tensor(); }
    bool is_same(const Tensor &other) const { return its == other.its; }
    rush_tensor *unsafeGetTensorImpl() const { return its; }

    /* One that is undefined has the size [0] and no dtype. */
    int64_t dim() const { return its ? rush_ndim(its) : 1; }
    int64_t ndimension() const { return dim(); }
    int64_t numel() const { return its ? rush_numel(its) : 0; }
    IntArrayRef sizes() const { return its ? IntArrayRef(rush_sizes(its), static_cast<size_t>(dim())) : detail::list<0>(); }
    IntArrayRef strides() const
    {
        TORCH_CHECK(its, "strides() called on an undefined Tensor");
        return {rush_strides(its), static_cast<size_t>(dim())};
    }
    int64_t size(int64_t d) const { return in_range(d), its ? rush_size(its, static_cast<int>(d)) : 0; }
    int64_t stride(int64_t d) const { return in_range(d), rush_stride(its, static_cast<int>(d)); }
    int64_t sym_size(int64_t d) const { return size(d); }
    IntArrayRef sym_sizes() const { return sizes(); }
    int64_t sym_numel() const { return numel(); }
    int64_t storage_offset() const;
    ScalarType scalar_type() const { return its ? detail::scalar_type_of(rush_dtype_of(its)) : ScalarType::Undefined; }
    caffe2::TypeMeta dtype() const { return caffe2::TypeMeta(scalar_type()); }
    Device device() const { return Device(rush_device_of(given())); }
    Layout layout() const { return its ? detail::layout_of(rush_layout_of(its)) : kStrided; }
    DeviceIndex get_device() const { return device().index(); }
    TensorOptions options() const { return TensorOptions(scalar_type()).layout(layout()).device(device()); }
    DeprecatedTypeProperties type() const { return {scalar_type(), device()}; }
    std::string toString() const { return type().toString(); }
    size_t element_size() const { return elementSize(scalar_type()); }
    size_t itemsize() const { return element_size(); }
    size_t nbytes() const { return element_size() * static_cast<size_t>(numel()); }
    bool has_storage() const { return defined(); }
    bool is_cpu() const { return its && device().is_cpu(); }
    bool is_cuda() const { return its && device().is_cuda(); }
    bool is_meta() const { return its && device().is_meta(); }
    bool is_mps() const { return false; }
    bool is_xpu() const { return false; }
    bool is_hip() const { return false; }
    bool is_mkldnn() const { return false; }
    bool is_sparse() const { return layout() == kSparse; }
    bool is_sparse_csr() const { return layout() == kSparseCsr; }
    bool is_quantized() const
    {
        rush_dtype d = its ? rush_dtype_of(its) : RUSH_F32;
        return d == RUSH_QINT8 || d == RUSH_QUINT8 || d == RUSH_QINT32;
    }
    bool is_floating_point() const { return its && isFloatingType(scalar_type()); }
    bool is_complex() const { return its && isComplexType(scalar_type()); }
    bool is_signed() const { return scalar_type() != kByte && scalar_type() != kBool; }
    bool is_contiguous(MemoryFormat format = MemoryFormat::Contiguous) const;
    MemoryFormat suggest_memory_format() const { return is_contiguous() ? MemoryFormat::Contiguous : dim() == 4 && is_contiguous(MemoryFormat::ChannelsLast) ? MemoryFormat::ChannelsLast : MemoryFormat::Contiguous; }

    void *data_ptr() const
    {
        TORCH_CHECK(layout() == kStrided, "Cannot access data pointer of Tensor that doesn't have storage");
        return rush_data(given());
    }
    const void *const_data_ptr() const { return data_ptr(); }
    void *mutable_data_ptr() const { return data_ptr(); }
    template <class T> T *data_ptr() const { return static_cast<T *>(of_type<std::remove_const_t<T>>()); }
    template <class T> const std::remove_const_t<T> *const_data_ptr() const { return data_ptr<std::remove_const_t<T>>(); }
    template <class T> T *mutable_data_ptr() const { return data_ptr<T>(); }
    template <class T> [[deprecated("data_ptr<T>()")]] T *data() const { return data_ptr<T>(); }
    template <class T> T item() const { return item().to<T>(); }
    Scalar item() const;
    template <class T, size_t N> TensorAccessor<T, N> accessor() const &
    {
        of_rank(N);
        return {data_ptr<T>(), rush_sizes(its), rush_strides(its)};
    }
    template <class T, size_t N> TensorAccessor<T, N> accessor() && = delete; /* its tensor would be gone */
    template <class T, size_t N, template <class> class Traits = DefaultPtrTraits> GenericPackedTensorAccessor<T, N, Traits, int32_t> packed_accessor32() const &
    {
        of_rank(N);
        TORCH_CHECK(numel() <= std::numeric_limits<int32_t>::max(), "numel needs to be smaller than int32_t max; otherwise, please use packed_accessor64");
        return {data_ptr<T>(), rush_sizes(its), rush_strides(its)};
    }
    template <class T, size_t N, template <class> class Traits = DefaultPtrTraits> GenericPackedTensorAccessor<T, N, Traits, int64_t> packed_accessor64() const &
    {
        of_rank(N);
        return {data_ptr<T>(), rush_sizes(its), rush_strides(its)};
    }

    bool requires_grad() const { return its && rush_requires_grad(its); }
    const Tensor &set_requires_grad(bool on) const
    {
        TORCH_CHECK(!on || is_floating_point() || is_complex(), "Only Tensors of floating point and complex dtype can require gradients");
        if (!rush_requires_grad_set(given(), on)) detail::raise();
        return *this;
    }
    const Tensor &requires_grad_(bool on = true) const { return set_requires_grad(on); }
    bool is_leaf() const { return rush_is_leaf(given()); }
    std::shared_ptr<torch::autograd::Node> grad_fn() const
    {
        auto node = torch::autograd::Node::of(rush_grad_fn(given()));
        if (rush_error()) detail::raise();
        return node;
    }
    void retain_grad() const { detail::check(rush_retain_grad(given())); }
    Tensor grad() const { return of(rush_grad(given())); }
    class Grad;
    Grad mutable_grad() const;
    void backward(const Tensor &gradient = {}, std::optional<bool> retain_graph = std::nullopt, bool create_graph = false, std::optional<TensorList> inputs = std::nullopt) const;
    template <class F> unsigned register_hook(F &&hook) const;
    void remove_hook(unsigned id) const { detail::check(rush_hook_remove(given(), id)); }
    int64_t _version() const { return static_cast<int64_t>(rush_tensor_version(given())); }
    Tensor data() const;
    Tensor tensor_data() const { return data(); }
    Tensor variable_data() const { return data(); }

    Tensor operator[](int64_t i) const;
    Tensor operator[](const Tensor &i) const;
    Tensor index(std::initializer_list<indexing::TensorIndex> list) const;
    Tensor index(ArrayRef<indexing::TensorIndex> list) const;
    Tensor index(const c10::List<std::optional<Tensor>> &list) const;
    Tensor &index_put_(std::initializer_list<indexing::TensorIndex> list, const Tensor &values);
    Tensor &index_put_(std::initializer_list<indexing::TensorIndex> list, const Scalar &value);
    Tensor &index_put_(ArrayRef<indexing::TensorIndex> list, const Tensor &values);
    const Tensor &index_put_(const c10::List<std::optional<Tensor>> &list, const Tensor &values, bool accumulate = false) const;

    Tensor operator-() const;
    Tensor operator~() const;
    Tensor &operator+=(const Operand &other);
    Tensor &operator-=(const Operand &other);
    Tensor &operator*=(const Operand &other);
    Tensor &operator/=(const Operand &other);
    Tensor &operator&=(const Operand &other);
    Tensor &operator|=(const Operand &other);
    Tensor &operator^=(const Operand &other);

    Tensor where(const Tensor &condition, const Tensor &other) const;
    Tensor polygamma(int64_t n) const;
    Tensor toType(ScalarType type) const;
    Tensor cpu() const;
    Tensor cuda() const;
    void print() const { rush_tensor_print(its); }

#define RUSH_AT_METHODS
#include <rushlight/at/functions.inc>
#undef RUSH_AT_METHODS

private:
    rush_tensor *given() const
    {
        TORCH_CHECK(its, "tensor does not have a device: it is undefined");
        return its;
    }
    void in_range(int64_t d) const
    {
        int64_t n = dim();
        TORCH_CHECK_INDEX(d >= -n && d < n, "Dimension out of range (expected to be in range of [", -n, ", ", n - 1, "], but got ", d, ")");
    }
    void of_rank(size_t n) const { TORCH_CHECK(dim() == static_cast<int64_t>(n), "TensorAccessor expected ", n, " dims but tensor has ", dim()); }
    template <class T> void *of_type() const
    {
        if constexpr (!std::is_void_v<T> && !std::is_same_v<T, char>) return data_of(CppTypeToScalarType<T>::value);
        else return data_given();
    }
    C10_NOINLINE void *data_of(ScalarType want) const
    {
        TORCH_CHECK(scalar_type() == want, "expected scalar type ", want, " but found ", scalar_type());
        return data_given();
    }
    C10_NOINLINE void *data_given() const
    {
        void *data = data_ptr();
        TORCH_CHECK(data || !numel(), "The tensor has a non-zero number of elements, but its data is not allocated yet.\nA kernel is traced, or asked for shapes only: make it an operator of its own (TORCH_LIBRARY) "
                                      "with a function for \"Meta\"");
        return data;
    }
};
static_assert(sizeof(Tensor) == sizeof(rush_tensor *), "a list of tensors is a list of pointers");

class Tensor::Grad : public Tensor {
    Tensor owner;

public:
    explicit Grad(const Tensor &of) : Tensor(of.grad()), owner(of) {}
    Grad &operator=(const Tensor &g)
    {
        Tensor::operator=(g);
        detail::check(rush_grad_set(owner.get(), g.get()));
        return *this;
    }
};
inline Tensor::Grad Tensor::mutable_grad() const { return Grad(*this); }

class Operand {
    rush_value v;

public:
    Operand(const Tensor &x) : v(rush_v_tensor(x.get())) {}
    Operand(const Scalar &x) : v(x.value()) {}
    template <class T, std::enable_if_t<std::is_arithmetic_v<T> || std::is_same_v<T, Half> || std::is_same_v<T, BFloat16>, int> = 0> Operand(T x) : v(Scalar(x).value()) {}
    template <class F> Operand(std::complex<F> x) : v(Scalar(x).value()) {}
    const rush_value &value() const { return v; }
    bool is_number() const { return v.kind != RUSH_V_TENSOR; }
};

namespace detail {

/* The operations that functions.inc names, as they were found: in each program or library by itself, and under a name that is made of all names, since
 * the places are those of one header: parts that were compiled with others may be linked into the same library. */
inline namespace RUSH_AT_NAMES {
C10_HIDDEN inline const rush_op *found[RUSH_AT_OPS] = {};

C10_NOINLINE inline const rush_op *find_first(size_t place, const char *name)
{
    const rush_op *op = rush_op_find(name);
    if (!op) fail<Error>("this operation is not part of the library that is loaded");
    __atomic_store_n(&found[place], op, __ATOMIC_RELEASE);
    return op;
}
inline const rush_op *find(size_t place, const char *name)
{
    const rush_op *op = __atomic_load_n(&found[place], __ATOMIC_ACQUIRE);
    return C10_LIKELY(op) ? op : find_first(place, name);
}
}

/* A new tensor requires a gradient where its options say so, which no operation is told. */
inline Tensor as_asked(Tensor t, const TensorOptions &options)
{
    if (options.requires_grad()) t.set_requires_grad(true);
    return t;
}

/* One call: its scope, its arguments as values, its results as objects. */
class Call {
    const rush_op *op = nullptr;
    size_t mark = rush_scope_open();

    template <class T> T take(const rush_value &v)
    {
        if constexpr (std::is_same_v<T, Tensor>) return Tensor::of(v.kind == RUSH_V_TENSOR ? v.t : nullptr);
        else if constexpr (std::is_same_v<T, std::vector<Tensor>>) {
            std::vector<Tensor> list(v.n);
            for (uint32_t i = 0; i < v.n; ++i) list[i] = Tensor::of(v.tensors[i]);
            return list;
        } else if constexpr (std::is_same_v<T, Scalar>) return Scalar::of(v);
        else if constexpr (std::is_same_v<T, ScalarType>) return scalar_type_of(v.i);
        else if constexpr (std::is_same_v<T, std::string>) return v.kind == RUSH_V_STRING ? v.s : "";
        else if constexpr (std::is_same_v<T, double>) return Scalar::of(v).toDouble();
        else return static_cast<T>(v.i);
    }
    template <class... T, size_t... I> std::tuple<T...> take_all(const rush_value *out, std::index_sequence<I...>, std::tuple<T...> *) { return {take<T>(out[I])...}; }
    /* Of an undefined tensor where one is needed PyTorch says which argument it is. */
    static C10_NOINLINE void failed(const rush_op *op, const rush_value *in)
    {
        for (int i = 0; i < op->nargs; ++i) {
            if (op->args[i].type != RUSH_A_TENSOR || op->args[i].list || op->args[i].optional) continue;
            if (in[i].kind != RUSH_V_NONE && (in[i].kind != RUSH_V_TENSOR || in[i].t)) continue;
            rush_error_clear();
            throw Error(detail::str("Expected a proper Tensor but got None (or an undefined Tensor in C++) for argument #", i, " '", op->args[i].name, "'"));
        }
        raise();
    }
    void checked(int failure, const rush_value *in) const
    {
        if (C10_UNLIKELY(failure)) failed(op, in);
    }
    template <class T> struct is_tuple : std::false_type {};
    template <class... T> struct is_tuple<std::tuple<T...>> : std::true_type {};

    template <class T> T *room(size_t n)
    {
        std::vector<char> zeros((n ? n : 1) * sizeof(T));
        void *p = rush_scope_copy(zeros.data(), zeros.size());
        if (!p) raise();
        return static_cast<T *>(p);
    }

    rush_value boxed(const Tensor &t) { return rush_v_tensor(t.get()); }
    rush_value boxed(const Operand &x) { return x.value(); }
    rush_value boxed(const Scalar &x) { return x.value(); }
    rush_value boxed(int64_t i) { return rush_v_int(i); }
    rush_value boxed(double f) { return rush_v_float(f); }
    rush_value boxed(bool b) { return rush_v_bool(b); }
    rush_value boxed(ScalarType t) { return rush_v_dtype(dtype_of(t)); }
    rush_value boxed(Layout l) { return rush_v_layout(layout_value(l)); }
    rush_value boxed(Device d) { return rush_v_device(d.value()); }
    rush_value boxed(MemoryFormat f) { return rush_v_memory_format(static_cast<int>(f)); }
    rush_value boxed(const Generator &g) { return rush_v_generator(g.get()); }
    rush_value boxed(string_view s)
    {
        char *text = room<char>(s.size() + 1);
        std::memcpy(text, s.data(), s.size());
        return rush_v_string(text);
    }
    rush_value boxed(const std::string &s) { return boxed(string_view(s)); } /* it may become a device, too */
    rush_value boxed(ArrayRef<int64_t> list) { return rush_v_ints(list.data(), list.size()); }
    rush_value boxed(ArrayRef<double> list) { return rush_v_floats(list.data(), list.size()); }
    rush_value boxed(ArrayRef<Tensor> list) { return rush_v_tensors(reinterpret_cast<rush_tensor **>(const_cast<Tensor *>(list.data())), list.size()); }
    rush_value boxed(ArrayRef<bool> list)
    {
        int64_t *items = room<int64_t>(list.size());
        for (size_t i = 0; i < list.size(); ++i) items[i] = list[i];
        return rush_v_ints(items, list.size());
    }
    rush_value boxed(ArrayRef<Scalar> list)
    {
        rush_value *items = room<rush_value>(list.size()), v = rush_v_none();
        for (size_t i = 0; i < list.size(); ++i) items[i] = list[i].value();
        v.kind = RUSH_V_VALUES;
        v.n = static_cast<uint32_t>(list.size());
        v.values = items;
        return v;
    }
    rush_value boxed(const c10::List<std::optional<Tensor>> &list)
    {
        rush_tensor **items = room<rush_tensor *>(list.size());
        for (size_t i = 0; i < list.size(); ++i) items[i] = list.get(i) ? list.get(i)->get() : nullptr;
        return rush_v_tensors(items, list.size());
    }
    template <class T> rush_value boxed(const std::optional<T> &x) { return x ? boxed(*x) : rush_v_none(); }
    template <class T> rush_value boxed(const OptionalArrayRef<T> &x) { return x ? boxed(*x) : rush_v_none(); }

public:
    Call() = default;
    explicit Call(const rush_op *called) : op(called) {}
    Call(const Call &) = delete;
    Call &operator=(const Call &) = delete;
    ~Call() { rush_scope_close(mark); }

    /* One candidate: functions.inc has thousands of arguments, and choosing among all overloads for each took half of the time to parse it. */
    template <class T> rush_value operator()(const T &x) { return boxed(x); }

    void call(const rush_value *in, rush_value *out) { checked(rush_call(op, in, out), in); }
    template <class T> T call(const rush_value *in)
    {
        rush_value out[RUSH_MAXOUT] = {};
        call(in, out);
        if constexpr (is_tuple<T>::value) return take_all(out, std::make_index_sequence<std::tuple_size_v<T>>(), static_cast<T *>(nullptr));
        else if constexpr (!std::is_void_v<T>) return take<T>(out[0]);
    }
    Tensor inplace(const rush_value *in)
    {
        rush_value out[RUSH_MAXOUT] = {};
        checked(rush_call_inplace(op, in, out), in);
        return Tensor::of(in[0].t);
    }
    /* Results into tensors that are given; those that are undefined are made. */
    void into(const rush_value *in, std::initializer_list<Tensor *> results)
    {
        rush_value out[RUSH_MAXOUT] = {};
        bool given = true;
        size_t i = 0;
        for (Tensor *r : results) given &= r->defined(), out[i++] = rush_v_tensor(r->get());
        if (given) return checked(rush_call_out(op, in, out), in);
        for (rush_value &v : out) v = rush_v_none();
        checked(rush_call(op, in, out), in);
        i = 0;
        for (Tensor *r : results) *r = Tensor::of(out[i++].t);
    }
};

} // namespace detail

#define RUSH_AT_BODIES
#include <rushlight/at/functions.inc>
#undef RUSH_AT_BODIES

/* ---- what no schema says ---- */

namespace indexing {

struct TensorIndex {
    enum Kind { none, ellipsis, integer, boolean, slice, tensor } kind;
    int64_t i = 0;
    Slice range;
    Tensor indices;
    TensorIndex(std::nullopt_t) : kind(none) {}
    TensorIndex(EllipsisIndexType) : kind(ellipsis) {}
    TensorIndex(const char *text) : kind(ellipsis) { TORCH_CHECK_VALUE(std::string_view(text) == "...", "Expected \"...\" to represent an ellipsis index, but got \"", text, "\""); }
    template <class I, std::enable_if_t<std::is_integral_v<I> && !std::is_same_v<I, bool>, int> = 0> TensorIndex(I index) : kind(integer), i(static_cast<int64_t>(index)) {}
    template <class B, std::enable_if_t<std::is_same_v<B, bool>, int> = 0> TensorIndex(B b) : kind(boolean), i(b) {}
    TensorIndex(Slice s) : kind(slice), range(s) {}
    TensorIndex(Tensor t) : kind(tensor), indices(std::move(t)) {}
};

/* How many dimensions of the tensor an index takes. */
inline int64_t dims_of(const TensorIndex &index)
{
    if (index.kind == TensorIndex::tensor) return index.indices.scalar_type() == kBool || index.indices.scalar_type() == kByte ? index.indices.dim() : 1;
    return index.kind == TensorIndex::integer || index.kind == TensorIndex::slice;
}

/* The view that all but tensors select, and the tensors, at their dimensions. */
inline Tensor select(Tensor x, ArrayRef<TensorIndex> list, c10::List<std::optional<Tensor>> &tensors)
{
    int64_t behind = 0, d = 0; /* what indices not yet looked at take; the dimension at hand */
    bool any = false;
    for (const TensorIndex &index : list) behind += dims_of(index);
    TORCH_CHECK_INDEX(behind <= x.dim(), "too many indices for tensor of dimension ", x.dim());
    auto note = [&](Tensor index, int64_t dims) {
        while (static_cast<int64_t>(tensors.size()) < d) tensors.push_back(std::nullopt);
        tensors.push_back(std::move(index));
        any = true;
        d += dims;
    };
    for (const TensorIndex &index : list) {
        behind -= dims_of(index);
        switch (index.kind) {
        case TensorIndex::none: x = x.unsqueeze(d++); break;
        case TensorIndex::ellipsis: d = x.dim() - behind; break;
        case TensorIndex::integer:
            TORCH_CHECK_INDEX(index.i >= -x.size(d) && index.i < x.size(d), "index ", index.i, " is out of bounds for dimension ", d, " with size ", x.size(d));
            x = x.select(d, index.i);
            break;
        case TensorIndex::boolean:
            x = x.unsqueeze(d);
            note(full({1}, index.i != 0, TensorOptions(kBool)), 1);
            break;
        case TensorIndex::slice: x = at::slice(x, d, index.range.start, index.range.stop, index.range.step.value_or(1)), ++d; break;
        case TensorIndex::tensor: note(index.indices, dims_of(index)); break;
        }
    }
    if (!any) tensors.clear();
    return x;
}

} // namespace indexing
using indexing::TensorIndex;

inline Tensor Tensor::index(ArrayRef<indexing::TensorIndex> list) const
{
    c10::List<std::optional<Tensor>> tensors;
    Tensor part = indexing::select(*this, list, tensors);
    return tensors.empty() ? part.is_same(*this) ? part.alias() : part : at::index(part, tensors);
}
inline Tensor Tensor::index(std::initializer_list<indexing::TensorIndex> list) const { return index(ArrayRef<indexing::TensorIndex>(list)); }
inline Tensor Tensor::index(const c10::List<std::optional<Tensor>> &list) const { return at::index(*this, list); }
inline Tensor &Tensor::index_put_(ArrayRef<indexing::TensorIndex> list, const Tensor &values)
{
    c10::List<std::optional<Tensor>> tensors;
    Tensor part = indexing::select(*this, list, tensors);
    if (tensors.empty()) part.copy_(values);
    else at::index_put_(part, tensors, values.to(part.scalar_type()));
    return *this;
}
inline Tensor &Tensor::index_put_(std::initializer_list<indexing::TensorIndex> list, const Tensor &values) { return index_put_(ArrayRef<indexing::TensorIndex>(list), values); }
inline Tensor &Tensor::index_put_(std::initializer_list<indexing::TensorIndex> list, const Scalar &value) { return index_put_(ArrayRef<indexing::TensorIndex>(list), at::scalar_tensor(value, TensorOptions(scalar_type()))); }
inline const Tensor &Tensor::index_put_(const c10::List<std::optional<Tensor>> &list, const Tensor &values, bool accumulate) const
{
    at::index_put_(*this, list, values, accumulate);
    return *this;
}
inline Tensor Tensor::operator[](int64_t i) const { return at::select(*this, 0, i); }
inline Tensor Tensor::operator[](const Tensor &i) const { return index({i}); }
inline Tensor &Tensor::operator=(const Tensor &other) &&
{
    copy_(other);
    return *this;
}
inline Tensor &Tensor::operator=(const Scalar &number) &&
{
    fill_(number);
    return *this;
}

inline Scalar Tensor::item() const
{
    TORCH_CHECK(numel() == 1, "a Tensor with ", numel(), " elements cannot be converted to Scalar");
    if (is_complex()) {
        Tensor parts = at::view_as_real(at::reshape(*this, {1})).to(kDouble);
        return std::complex<double>(rush_item(parts[0][0].get()), rush_item(parts[0][1].get()));
    }
    Scalar number = scalar_type() == kBool ? Scalar(rush_item_int(its) != 0) : is_floating_point() ? Scalar(rush_item(its)) : Scalar(rush_item_int(its));
    detail::check(rush_error() != nullptr);
    return number;
}
inline bool Tensor::is_contiguous(MemoryFormat format) const
{
    if (format == MemoryFormat::ChannelsLast) return dim() == 4 && rush_is_contiguous(permute({0, 2, 3, 1}).get());
    if (format == MemoryFormat::ChannelsLast3d) return dim() == 5 && rush_is_contiguous(permute({0, 2, 3, 4, 1}).get());
    return !its || rush_is_contiguous(its);
}
inline int64_t Tensor::storage_offset() const { return its ? rush_storage_offset(its) : 0; }
inline Tensor Tensor::data() const { return detach(); }
inline Tensor Tensor::where(const Tensor &condition, const Tensor &other) const { return at::where(condition, *this, other); }
inline Tensor Tensor::polygamma(int64_t n) const { return at::polygamma(n, *this); }
inline Tensor Tensor::toType(ScalarType type) const { return to(type); }
inline Tensor Tensor::cpu() const { return to(TensorOptions(kCPU)); }
inline Tensor Tensor::cuda() const { return to(TensorOptions(kCUDA)); }
inline Tensor Tensor::operator-() const { return neg(); }
inline Tensor Tensor::operator~() const { return bitwise_not(); }
inline Tensor &Tensor::operator+=(const Operand &other) { return add_(other); }
inline Tensor &Tensor::operator-=(const Operand &other) { return sub_(other); }
inline Tensor &Tensor::operator*=(const Operand &other) { return mul_(other); }
inline Tensor &Tensor::operator/=(const Operand &other) { return div_(other); }
inline Tensor &Tensor::operator&=(const Operand &other) { return bitwise_and_(other); }
inline Tensor &Tensor::operator|=(const Operand &other) { return bitwise_or_(other); }
inline Tensor &Tensor::operator^=(const Operand &other) { return bitwise_xor_(other); }

/* x op y, where one of both may be a number. */
#define AT_OPERATOR_(symbol, name)                                                                          \
    inline Tensor operator symbol(const Tensor &x, const Tensor &y) { return at::name(x, y); }               \
    inline Tensor operator symbol(const Tensor &x, const Scalar &y) { return at::name(x, y); }
AT_OPERATOR_(+, add)
AT_OPERATOR_(-, sub)
AT_OPERATOR_(*, mul)
AT_OPERATOR_(/, div)
AT_OPERATOR_(%, remainder)
AT_OPERATOR_(&, bitwise_and)
AT_OPERATOR_(|, bitwise_or)
AT_OPERATOR_(^, bitwise_xor)
AT_OPERATOR_(<<, __lshift__)
AT_OPERATOR_(>>, __rshift__)
AT_OPERATOR_(<, lt)
AT_OPERATOR_(<=, le)
AT_OPERATOR_(>, gt)
AT_OPERATOR_(>=, ge)
AT_OPERATOR_(==, eq)
AT_OPERATOR_(!=, ne)
#undef AT_OPERATOR_
inline Tensor operator+(const Scalar &x, const Tensor &y) { return at::add(y, x); }
inline Tensor operator-(const Scalar &x, const Tensor &y) { return at::rsub(y, x); }
inline Tensor operator*(const Scalar &x, const Tensor &y) { return at::mul(y, x); }
inline Tensor operator/(const Scalar &x, const Tensor &y) { return at::mul(at::reciprocal(y), x); }
inline Tensor operator<(const Scalar &x, const Tensor &y) { return at::gt(y, x); }
inline Tensor operator<=(const Scalar &x, const Tensor &y) { return at::ge(y, x); }
inline Tensor operator>(const Scalar &x, const Tensor &y) { return at::lt(y, x); }
inline Tensor operator>=(const Scalar &x, const Tensor &y) { return at::le(y, x); }
inline Tensor operator==(const Scalar &x, const Tensor &y) { return at::eq(y, x); }
inline Tensor operator!=(const Scalar &x, const Tensor &y) { return at::ne(y, x); }
inline Tensor operator&(const Scalar &x, const Tensor &y) { return at::bitwise_and(y, x); }
inline Tensor operator|(const Scalar &x, const Tensor &y) { return at::bitwise_or(y, x); }
inline Tensor operator^(const Scalar &x, const Tensor &y) { return at::bitwise_xor(y, x); }

namespace detail {
/* The gradient that a pass starts with from root: as the engine's others it may be of another dtype, or of sizes that root's expand to. */
inline Tensor first_gradient(const Tensor &root, Tensor g, size_t i)
{
    if (!g.defined()) return g;
    if (!(g.sizes() == root.sizes())) {
        bool fits = g.dim() >= root.dim();
        for (int64_t d = 1; fits && d <= root.dim(); ++d) fits = root.size(-d) == 1 || root.size(-d) == g.size(-d);
        TORCH_CHECK(fits, "invalid gradient at index ", i, " - got ", g.sizes(), " but expected shape compatible with ", root.sizes());
        g = g.sum_to_size(root.sizes());
    }
    return g.scalar_type() == root.scalar_type() ? g : g.to(root.scalar_type());
}
} // namespace detail

inline void Tensor::backward(const Tensor &gradient, std::optional<bool> retain_graph, bool create_graph, std::optional<TensorList> inputs) const
{
    Tensor first = detail::first_gradient(*this, gradient, 0);
    rush_tensor *root = given(), *g = first.get();
    bool retain = retain_graph.value_or(create_graph);
    if (!inputs) return detail::check(rush_backward_full(1, &root, &g, retain, create_graph));
    std::vector<rush_tensor *> wanted(inputs->size()), got(inputs->size());
    for (size_t i = 0; i < wanted.size(); ++i) wanted[i] = (*inputs)[i].get();
    detail::Call scope;
    detail::check(rush_grad_of(1, &root, &g, static_cast<int>(wanted.size()), wanted.data(), got.data(), retain, create_graph, true));
    for (size_t i = 0; i < wanted.size(); ++i) {
        Tensor sum = Tensor::of(got[i]), before = (*inputs)[i].grad();
        if (sum.defined()) detail::check(rush_grad_set(wanted[i], (before.defined() ? before + sum : sum).get()));
    }
}

template <class F> unsigned Tensor::register_hook(F &&hook) const
{
    using Hook = std::decay_t<F>;
    auto *kept = new Hook(std::forward<F>(hook));
    auto call = [](void *arg, rush_tensor *g) -> rush_tensor * {
        rush_tensor *result = nullptr;
        detail::guarded([&] {
            if constexpr (std::is_void_v<decltype((*static_cast<Hook *>(arg))(Tensor()))>) (*static_cast<Hook *>(arg))(Tensor::of(g));
            else {
                Tensor other = (*static_cast<Hook *>(arg))(Tensor::of(g));
                if (other.defined()) result = rush_park(rush_keep(other.get()));
            }
        });
        return result;
    };
    uint64_t id = rush_hook_add(given(), call, kept, [](void *arg) { delete static_cast<Hook *>(arg); });
    if (!id) detail::raise();
    return static_cast<unsigned>(id);
}

/* A tensor over the caller's memory, which must outlive it; deleter(data) is called at its end. */
inline Tensor from_blob(void *data, IntArrayRef sizes, IntArrayRef strides, const std::function<void(void *)> &deleter, const TensorOptions &options = {})
{
    struct Ender {
        std::function<void(void *)> deleter;
        void *data;
    };
    auto *ender = deleter ? new Ender{deleter, data} : nullptr;
    auto release = [](void *arg) {
        auto *e = static_cast<Ender *>(arg);
        if (e) e->deleter(e->data);
        delete e;
    };
    detail::Call scope;
    rush_tensor *t = rush_from_blob(data, detail::dtype_of(options.dtype().toScalarType()), static_cast<int>(sizes.size()), sizes.data(), strides.empty() && !sizes.empty() ? nullptr : strides.data(), release, ender);
    if (!t) detail::raise();
    return detail::as_asked(Tensor::of(t), options);
}
inline Tensor from_blob(void *data, IntArrayRef sizes, const std::function<void(void *)> &deleter, const TensorOptions &options = {}) { return from_blob(data, sizes, {}, deleter, options); }
inline Tensor from_blob(void *data, IntArrayRef sizes, IntArrayRef strides, const TensorOptions &options = {}) { return from_blob(data, sizes, strides, nullptr, options); }
inline Tensor from_blob(void *data, IntArrayRef sizes, const TensorOptions &options = {}) { return from_blob(data, sizes, {}, nullptr, options); }

/* One dimension with these elements; of one number, none. */
template <class T> Tensor tensor(ArrayRef<T> list, const TensorOptions &options = {})
{
    int64_t n = static_cast<int64_t>(list.size());
    detail::Call scope;
    ScalarType own = CppTypeToScalarType<T>::value, natural = isFloatingType(own) ? get_default_dtype_as_scalartype() : own;
    rush_tensor *t = rush_from_data(list.data(), detail::dtype_of(own), 1, &n);
    if (!t) detail::raise();
    return detail::as_asked(Tensor::of(t).to(TensorOptions(options.dtype_opt().value_or(natural)).device(options.device())), options);
}
template <class T> Tensor tensor(const std::vector<T> &list, const TensorOptions &options = {})
{
    if constexpr (std::is_same_v<T, bool>) return tensor(std::vector<int64_t>(list.begin(), list.end()), options.has_dtype() ? options : options.dtype(kBool));
    else return tensor(ArrayRef<T>(list), options);
}
template <class T, std::enable_if_t<std::is_arithmetic_v<T>, int> = 0> Tensor tensor(std::initializer_list<T> list, const TensorOptions &options = {})
{
    if constexpr (std::is_same_v<T, int>) return tensor(std::vector<int64_t>(list.begin(), list.end()), options);
    else return tensor(std::vector<T>(list), options);
}
template <class T, std::enable_if_t<std::is_arithmetic_v<T>, int> = 0> Tensor tensor(T number, const TensorOptions &options = {}) { return tensor({number}, options).reshape({}); }
template <class T, std::enable_if_t<std::is_arithmetic_v<T>, int> = 0> Tensor tensor(std::initializer_list<std::initializer_list<T>> rows, const TensorOptions &options = {})
{
    std::vector<std::conditional_t<std::is_same_v<T, int>, int64_t, T>> all;
    for (auto &row : rows) all.insert(all.end(), row.begin(), row.end());
    int64_t n = static_cast<int64_t>(rows.size());
    return tensor(all, options).reshape({n, n ? static_cast<int64_t>(all.size()) / n : 0});
}

} // namespace at

namespace torch {
using at::from_blob;
using at::tensor;
} // namespace torch
#endif
