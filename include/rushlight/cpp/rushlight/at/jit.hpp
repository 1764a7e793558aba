/* jit.hpp - torch::jit::load: programs that torch.jit.save wrote, run and trained. */
#ifndef RUSHLIGHT_AT_JIT_HPP
#define RUSHLIGHT_AT_JIT_HPP

#include "all.hpp"
#include "serialize.hpp"
#include <rushlight/program.h>

namespace torch::jit {

using IValue = c10::IValue;
using Stack = std::vector<IValue>;

/* Shared when copied. */
class Module {
    std::shared_ptr<rush_module> its;

    rush_module *given() const
    {
        TORCH_CHECK(its, "this module is empty: torch::jit::load makes one");
        return its.get();
    }
    struct Named {
        std::string name;
        Tensor value;
    };
    std::vector<Named> tensors(bool parameters) const
    {
        at::detail::Call scope;
        rush_state all = rush_module_state(given());
        rush_tensors list = rush_parameters(given());
        if (rush_error()) c10::detail::raise();
        std::vector<Named> found;
        for (int i = 0; i < all.n; ++i) { /* the state itself is detached */
            rush_tensor *t = rush_module_tensor(given(), all.name[i]);
            if (parameters == (std::find(list.data, list.data + list.n, t) != list.data + list.n)) found.push_back({all.name[i], Tensor::of(t)});
        }
        return found;
    }
    static std::vector<Tensor> values(const std::vector<Named> &named)
    {
        std::vector<Tensor> list;
        for (const Named &n : named) list.push_back(n.value);
        return list;
    }

public:
    Module() = default;
    explicit Module(rush_module *parked) : its(rush_module_keep(parked), rush_module_drop) {}

    /* Tensors in; a tensor, or a tuple of them, out. */
    IValue forward(const std::vector<IValue> &inputs)
    {
        std::vector<rush_tensor *> in, out(64);
        for (const IValue &x : inputs) in.push_back(x.toTensor().get());
        at::detail::Call scope;
        int n = rush_program_run(given(), static_cast<int>(in.size()), in.data(), static_cast<int>(out.size()), out.data());
        if (n < 0) c10::detail::raise();
        if (n == 1) return Tensor::of(out[0]);
        std::vector<IValue> results;
        for (int i = 0; i < n; ++i) results.push_back(Tensor::of(out[static_cast<size_t>(i)]));
        return IValue::tuple(std::move(results));
    }
    template <class... T> IValue operator()(T &&...x) { return forward({IValue(std::forward<T>(x))...}); }

    std::vector<Tensor> parameters() const { return values(tensors(true)); }
    std::vector<Tensor> buffers() const { return values(tensors(false)); }
    std::vector<Named> named_parameters() const { return tensors(true); }
    std::vector<Named> named_buffers() const { return tensors(false); }
    void train(bool on = true) { rush_module_train(given(), on); }
    void eval() { train(false); }
    bool is_training() const { return rush_module_training(given()); }
    void save(const std::string &path) const
    {
        at::detail::Call scope;
        c10::detail::check(rush_program_save(given(), path.c_str()));
    }
    void save(std::ostream &out) const
    {
        serialize::detail::Passing file;
        save(file.path);
        out << std::ifstream(file.path, std::ios::binary).rdbuf();
    }
    void to(ScalarType type) { c10::detail::check(rush_module_to(given(), at::detail::dtype_of(type))); }
    void to(Device device, bool = false)
    {
        NoGradGuard unrecorded;
        for (bool parameters : {true, false})
            for (const Named &n : tensors(parameters)) c10::detail::check(rush_data_set(n.value.get(), n.value.to(TensorOptions(n.value.scalar_type()).device(device)).get()));
    }
};
namespace script {
using jit::Module;
} // namespace script

inline Module load(const std::string &path, std::optional<Device> device = std::nullopt)
{
    at::detail::Call scope;
    rush_module *m = rush_program_load(path.c_str());
    if (!m) c10::detail::raise();
    Module module(m);
    if (device) module.to(*device);
    return module;
}
inline Module load(std::istream &in, std::optional<Device> device = std::nullopt)
{
    serialize::detail::Passing file;
    std::ofstream(file.path, std::ios::binary) << in.rdbuf();
    return load(file.path, device);
}

} // namespace torch::jit
#endif
