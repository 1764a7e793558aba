/* autograd.hpp - torch::autograd: functions with a derivative of their own, gradients, and the guards around them. */
#ifndef RUSHLIGHT_AT_AUTOGRAD_HPP
#define RUSHLIGHT_AT_AUTOGRAD_HPP

#include "library.hpp"

#include <cxxabi.h>
#include <typeinfo>

namespace c10 {
/* A type as programs write it. */
inline std::string demangle(const char *name)
{
    int status;
    std::unique_ptr<char, void (*)(void *)> plain(abi::__cxa_demangle(name, nullptr, nullptr, &status), free);
    return plain ? plain.get() : name;
}
} // namespace c10

namespace torch {
using Variable = at::Tensor;

namespace autograd {

using Variable = at::Tensor;
using variable_list = std::vector<at::Tensor>;
using tensor_list = variable_list;

/* Its memory was changed by the program: zeros are written to none of its elements, which counts as a change. */
inline void increment_version(const at::Tensor &x) { x.detach().as_strided({0}, {1}).zero_(); }

inline bool any_variable_requires_grad(const variable_list &list)
{
    return std::any_of(list.begin(), list.end(), [](const Variable &x) { return x.requires_grad(); });
}

class AutogradContext {
    template <class> friend struct Function;
    variable_list to_save, dirty, no_grad;
    std::vector<bool> is_variable; /* of the arguments of forward */
    bool materialize = true;
    rush_node *node = nullptr; /* of the graph, which owns this */
    size_t saved = 0, results = 0;

public:
    std::unordered_map<std::string, c10::IValue> saved_data;

    AutogradContext() = default;
    AutogradContext(const AutogradContext &) = delete;
    AutogradContext &operator=(const AutogradContext &) = delete;

    void save_for_backward(variable_list list) { to_save = std::move(list); }
    variable_list get_saved_variables() const
    {
        if (!node) return to_save;
        variable_list list(saved);
        at::detail::Call scope;
        for (size_t i = 0; i < saved; ++i) {
            rush_tensor *t;
            c10::detail::check(rush_function_saved(node, static_cast<int>(i), &t));
            list[i] = at::Tensor::of(t);
        }
        return list;
    }
    void mark_dirty(const variable_list &list) { dirty = list; }
    void mark_non_differentiable(const variable_list &list) { no_grad = list; }
    void set_materialize_grads(bool on) { materialize = on; }
    bool needs_input_grad(size_t input) const
    {
        int edge = 0;
        for (size_t i = 0; i < input && i < is_variable.size(); ++i) edge += is_variable[i];
        return input < is_variable.size() && is_variable[input] && rush_function_needs(node, edge);
    }
    const variable_list &get_dirty() const { return dirty; }
};

/* struct Mine : Function<Mine> { static variable_list forward(AutogradContext *, ...), backward(AutogradContext *, variable_list); }; */
template <class T> struct Function {
    template <class... Args> static auto apply(Args &&...args)
    {
        auto ctx = std::make_unique<AutogradContext>();
        variable_list inputs;
        (note(*ctx, inputs, args), ...);
        using Result = decltype(T::forward(ctx.get(), std::forward<Args>(args)...));
        Result result = [&] {
            at::AutoDispatchBelowAutograd unrecorded;
            return T::forward(ctx.get(), std::forward<Args>(args)...);
        }();
        if constexpr (std::is_same_v<Result, at::Tensor>) {
            record(std::move(ctx), inputs, &result, 1);
        } else {
            record(std::move(ctx), inputs, result.data(), result.size());
        }
        return result;
    }

private:
    static void note(AutogradContext &ctx, variable_list &inputs, const at::Tensor &x)
    {
        ctx.is_variable.push_back(true);
        inputs.push_back(x);
    }
    static void note(AutogradContext &ctx, variable_list &inputs, const std::optional<at::Tensor> &x)
    {
        if (x) note(ctx, inputs, *x);
        else ctx.is_variable.push_back(false);
    }
    static void note(AutogradContext &ctx, variable_list &inputs, const variable_list &list)
    {
        for (const at::Tensor &x : list) note(ctx, inputs, x);
    }
    static void note(AutogradContext &ctx, variable_list &inputs, at::TensorList list)
    {
        for (const at::Tensor &x : list) note(ctx, inputs, x);
    }
    template <class A> static void note(AutogradContext &ctx, variable_list &, const A &) { ctx.is_variable.push_back(false); }

    static bool contains(const variable_list &list, const at::Tensor &x)
    {
        for (const at::Tensor &y : list)
            if (y.is_same(x)) return true;
        return false;
    }

    static int backward(rush_node *node, void *arg, rush_tensor **g, rush_tensor **gin)
    {
        auto *ctx = static_cast<AutogradContext *>(arg);
        return c10::detail::guarded([&] {
            variable_list grads;
            for (size_t i = 0; i < ctx->results; ++i) {
                rush_tensor *t = g[i] || !ctx->materialize ? g[i] : rush_function_zeros(node, static_cast<int>(i));
                if (rush_error()) c10::detail::raise();
                grads.push_back(at::Tensor::of(t));
            }
            variable_list made = T::backward(ctx, std::move(grads));
            while (made.size() > ctx->is_variable.size() && !made.back().defined()) made.pop_back();
            TORCH_CHECK(made.size() == ctx->is_variable.size(), "function ", name(), " returned an incorrect number of gradients (expected ", ctx->is_variable.size(), ", got ", made.size(), ")");
            int edge = 0;
            for (size_t i = 0; i < made.size(); ++i) {
                TORCH_CHECK(ctx->is_variable[i] || !made[i].defined(), "function ", name(), " returned a gradient different from None at position ", i + 1, ", but the corresponding forward input was not a Variable");
                if (ctx->is_variable[i]) gin[edge++] = made[i].defined() ? rush_park(rush_keep(made[i].get())) : nullptr;
            }
        });
    }
    static const char *name()
    {
        static const std::string text = "torch::autograd::CppNode<" + c10::demangle(typeid(T).name()) + ">";
        return text.c_str();
    }

    static void record(std::unique_ptr<AutogradContext> ctx, const variable_list &inputs, at::Tensor *result, size_t n)
    {
        static const rush_function function = {name(), backward, [](void *arg) { delete static_cast<AutogradContext *>(arg); }};
        variable_list dirty = ctx->dirty, no_grad = ctx->no_grad, to_save = std::move(ctx->to_save);
        ctx->results = n;
        at::detail::Call scope;
        auto pointers = [](const variable_list &list) { return reinterpret_cast<rush_tensor *const *>(list.data()); };
        rush_node *node = nullptr;
        AutogradContext *kept = ctx.get();
        c10::detail::check(rush_function_begin(&function, ctx.release(), static_cast<int>(inputs.size()), pointers(inputs), static_cast<int>(n ? n : 1), &node));
        struct Drop {
            rush_node *node;
            ~Drop() { rush_node_drop(node); }
        } drop{node};
        variable_list given(result, result + n);
        for (size_t i = 0; i < n; ++i) {
            if (!result[i].defined()) continue;
            unsigned how = (contains(dirty, result[i]) ? static_cast<unsigned>(RUSH_RESULT_DIRTY) : 0u) | (contains(inputs, result[i]) ? static_cast<unsigned>(RUSH_RESULT_INPUT) : 0u) | (contains(no_grad, result[i]) ? static_cast<unsigned>(RUSH_RESULT_NO_GRAD) : 0u);
            rush_tensor *t = rush_function_result(node, static_cast<int>(i), result[i].get(), how);
            if (!t) c10::detail::raise();
            result[i] = at::Tensor::of(t);
        }
        if (!node) return;
        for (at::Tensor &x : to_save) /* results are saved as what they have become */
            for (size_t i = 0; i < n; ++i)
                if (x.defined() && given[i].is_same(x) && !contains(inputs, x)) x = result[i];
        c10::detail::check(rush_function_save(node, static_cast<int>(to_save.size()), pointers(to_save)));
        kept->saved = to_save.size();
        kept->node = node;
    }
};

namespace detail {
inline variable_list first_gradients(const variable_list &roots, const variable_list &given)
{
    variable_list list;
    for (size_t i = 0; i < roots.size(); ++i) list.push_back(i < given.size() ? at::detail::first_gradient(roots[i], given[i], i) : at::Tensor());
    return list;
}
} // namespace detail

/* Gradients of outputs by inputs; those of inputs that nothing depends on are undefined (allow_unused). */
inline variable_list grad(const variable_list &outputs, const variable_list &inputs, const variable_list &grad_outputs = {}, std::optional<bool> retain_graph = std::nullopt,
                          bool create_graph = false, bool allow_unused = false)
{
    std::vector<rush_tensor *> roots, grads, wanted, got(inputs.size());
    variable_list first = detail::first_gradients(outputs, grad_outputs);
    for (const auto &x : outputs) roots.push_back(x.get());
    for (const auto &x : first) grads.push_back(x.get());
    for (const auto &x : inputs) wanted.push_back(x.get());
    at::detail::Call scope;
    c10::detail::check(rush_grad_of(static_cast<int>(roots.size()), roots.data(), grads.data(), static_cast<int>(wanted.size()), wanted.data(), got.data(),
                                    retain_graph.value_or(create_graph), create_graph, allow_unused));
    variable_list result;
    for (rush_tensor *t : got) result.push_back(at::Tensor::of(t));
    return result;
}
inline void backward(const variable_list &tensors, const variable_list &grad_tensors = {}, std::optional<bool> retain_graph = std::nullopt, bool create_graph = false)
{
    std::vector<rush_tensor *> roots, grads;
    variable_list first = detail::first_gradients(tensors, grad_tensors);
    for (const auto &x : tensors) roots.push_back(x.get());
    for (const auto &x : first) grads.push_back(x.get());
    c10::detail::check(rush_backward_full(static_cast<int>(roots.size()), roots.data(), grads.data(), retain_graph.value_or(create_graph), create_graph));
}

} // namespace autograd

using at::AutoGradMode;
using at::NoGradGuard;
struct InferenceMode : AutoGradMode {
    explicit InferenceMode(bool on = true) : AutoGradMode(!on && rush_grad_enabled()) {}
};
struct GradMode {
    static bool is_enabled() { return rush_grad_enabled(); }
    static void set_enabled(bool on) { rush_grad_enabled_set(on); }
};
inline void manual_seed(uint64_t seed) { rush_manual_seed(seed); }

} // namespace torch
namespace at {
using torch::GradMode;
using torch::manual_seed;
inline Generator make_generator(uint64_t seed)
{
    rush_generator *g = rush_generator_new(seed);
    if (!g) detail::raise();
    return Generator(g);
}
} // namespace at
namespace c10 {
using torch::InferenceMode;
}
#endif
