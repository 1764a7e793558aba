// torch.cpp - PyTorch's C++ names over rushlight: tensors, dispatch, operations and derivatives of a program's own.
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Parallel.h>
#include <ATen/native/CPUBlas.h>
#include <torch/torch.h>

#if AT_MKL_ENABLED() || !AT_PARALLEL_OPENMP
#error what ATen/Config.h says
#endif
#if TORCH_VERSION_MAJOR < 2
#error what torch/version.h says
#endif
#include <cstdio>
#include <cstdlib>
#include <random>
#include <unistd.h>

static int wrong;
#define SAME(a, b)                                                                                          \
    do {                                                                                                    \
        if (!((a) == (b))) std::printf("line %d: %s is not %s\n", __LINE__, #a, #b), ++wrong;               \
    } while (0)
template <class E, class F> static bool throws(F f)
{
    try {
        f();
    } catch (const E &) {
        return true;
    }
    return false;
}

struct Square : torch::autograd::Function<Square> {
    static torch::Tensor forward(torch::autograd::AutogradContext *ctx, torch::Tensor x, double k)
    {
        ctx->save_for_backward({x});
        ctx->saved_data["k"] = k;
        return x * x * k;
    }
    static torch::autograd::variable_list backward(torch::autograd::AutogradContext *ctx, torch::autograd::variable_list g)
    {
        return {g[0] * ctx->get_saved_variables()[0] * 2 * ctx->saved_data["k"].toDouble(), torch::Tensor()};
    }
};

static at::Tensor mad(const at::Tensor &a, const std::optional<at::Tensor> &b, double c) { return b ? a * *b + c : a + c; }
static std::tuple<at::Tensor, int64_t> counted(at::TensorList list, at::IntArrayRef sizes) { return {at::stack(list).reshape(sizes), static_cast<int64_t>(list.size())}; }
using Edge = std::tuple<std::string, int64_t>;
static std::tuple<c10::Dict<std::string, at::Tensor>, std::vector<std::vector<int64_t>>> turned(const c10::Dict<std::string, std::vector<int64_t>> &sizes, const std::vector<Edge> &edges, std::optional<std::vector<std::string>> names)
{
    c10::Dict<std::string, at::Tensor> sums;
    std::vector<std::vector<int64_t>> lists;
    for (const auto &[name, i] : edges) sums.insert(name, at::full({}, sizes.at(name)[static_cast<size_t>(i)]));
    for (const auto &entry : sizes) lists.push_back(entry.value());
    if (names) lists.push_back({static_cast<int64_t>(names->size())});
    return {sums, lists};
}
TORCH_LIBRARY_IMPL(cpp_test, CPU, m) { m.impl("mad", &mad); } // before the definition, as may be when objects are loaded
template <c10::DispatchKey key, c10::DeviceType type> static at::Tensor twice_cast(const at::Tensor &x, c10::SymInt n)
{
    c10::impl::ExcludeDispatchKeyGuard no_autocast(key);
    static auto op = c10::Dispatcher::singleton().findSchemaOrThrow("cpp_test::repeated", "").typed<at::Tensor(const at::Tensor &, c10::SymInt)>();
    return op.call(at::autocast::cached_cast(at::kDouble, x, type), n);
}
TORCH_LIBRARY_IMPL(cpp_test, CPU, m) { m.impl("repeated", [](const at::Tensor &x, c10::SymInt n) { return x.repeat({n}); }); }
TORCH_LIBRARY_IMPL(cpp_test, QuantizedCPU, m) { m.impl("repeated", [](const at::Tensor &, c10::SymInt n) { return at::full({}, n * 100); }); }
TORCH_LIBRARY_IMPL(cpp_test, AutocastCPU, m) { m.impl("repeated", TORCH_FN((twice_cast<c10::DispatchKey::AutocastCPU, c10::DeviceType::CPU>))); }
TORCH_LIBRARY_IMPL(cpp_test, AutocastXPU, m) { m.impl("repeated", TORCH_FN((twice_cast<c10::DispatchKey::AutocastXPU, c10::DeviceType::XPU>))); } // a device that is nowhere
/* The kernel for Autograd calls the operation again, below autograd; what that answers tells which one it was. */
static at::Tensor below_autograd(const at::Tensor &x)
{
    at::AutoDispatchBelowADInplaceOrView below;
    static auto op = c10::Dispatcher::singleton().findSchemaOrThrow("cpp_test::recorded", "").typed<at::Tensor(const at::Tensor &)>();
    return op.call(x) + 10;
}
TORCH_LIBRARY_IMPL(cpp_test, CPU, m) { m.impl("recorded", [](const at::Tensor &x) { return x.detach() * 2; }); }
TORCH_LIBRARY_IMPL(cpp_test, Autograd, m)
{
    m.impl("recorded", &below_autograd);
    m.impl("only_above", [](const at::Tensor &x) { return x * 3; });
}
TORCH_LIBRARY(cpp_test, m)
{
    m.def("recorded(Tensor x) -> Tensor");
    m.def("only_above(Tensor x) -> Tensor");
    m.def("repeated(Tensor x, SymInt n) -> Tensor");
    m.def("mad(Tensor a, Tensor? b, float c=1) -> Tensor");
    m.def("counted", &counted);
    m.def("turned", &turned);
    m.def("fails(Tensor x) -> Tensor", [](const at::Tensor &x) -> at::Tensor { TORCH_CHECK_INDEX(false, "no ", x.dim()); });
}

static void tensors()
{
    torch::Tensor x = torch::arange(6, torch::dtype(torch::kFloat)).view({2, 3});
    SAME((x + 1).sum().item<double>(), 21);
    SAME((2 - x)[1][2].item<float>(), -3);
    SAME(x.sizes().vec(), (std::vector<int64_t>{2, 3}));
    SAME(x.slice(1, 1).sizes().vec(), (std::vector<int64_t>{2, 2}));
    SAME(x.slice(/*dim=*/0, 0, 1).sum().item<double>(), 3);
    SAME(x.nonzero().size(0), 5);
    SAME(x.where(x > 2, x.mT().mT() * 0).sum().item<double>(), 12);
    SAME(x.sum(0).numel() + x.sum({0, 1}).dim(), 3);
    SAME(std::get<1>(x.max(1)).sum().item<int64_t>(), 4);
    using namespace torch::indexing;
    SAME(x.index({Slice(), -1}).sum().item<int>(), 7);
    SAME(x.index({"...", None, Slice(None, None, 2)}).sizes().vec(), (std::vector<int64_t>{2, 1, 2}));
    SAME(x.index({torch::tensor({1, 0}), 0}).select(0, 0).item<int>(), 3);
    SAME(x.index({1, "...", x[0] > 0}).numel() + x.index({"...", x[0] > 0}).numel(), 6);
    x.index_put_({0, Slice(1)}, torch::tensor({7.f, 8.f}));
    x[1] = 5;
    SAME(x.sum().item<float>(), 30);
    SAME(x.to(torch::kInt).scalar_type(), torch::kInt);
    SAME(torch::equal(torch::tensor({{1., 2.}, {3., 4.}}).t(), torch::tensor({{1., 3.}, {2., 4.}})), true);
    const std::string path = std::string(std::getenv("TMPDIR") ? std::getenv("TMPDIR") : "/tmp") + "/rushlight_torch_cpp_" + std::to_string(getpid());
    torch::from_file(path, /*shared=*/true, /*size=*/3).copy_(x[1]);
    SAME(torch::equal(torch::from_file(path, false, 2, torch::kFloat), x[1].slice(0, 0, 2)), true);
    SAME(throws<c10::Error>([&] { (void)torch::from_file(path, false, 4); }), true);
    std::remove(path.c_str());
    float data[] = {1, 2, 3, 4};
    torch::Tensor shared = torch::from_blob(data, {2, 2});
    shared.add_(1);
    SAME(data[3], 5);
    SAME((shared.accessor<float, 2>()[1][0]), 4);
    c10::OptionalDeviceGuard on(at::device_of(shared)), nowhere(at::device_of(at::Tensor()));
    auto floored = c10::Dispatcher::singleton().findSchemaOrThrow("aten::div", "Tensor_mode").typed<at::Tensor(const at::Tensor &, const at::Tensor &, std::optional<std::string>)>();
    SAME(floored.call(torch::full({1}, 7.), torch::full({1}, 2.), std::string("floor")).item<double>(), 3.);
    SAME(throws<c10::Error>([&] { (void)shared.data_ptr<double>(); }), true);
    SAME(throws<c10::Error>([] { (void)torch::ones({2}, torch::kMeta).data_ptr<float>(); }), true);
    SAME(throws<c10::Error>([] { (void)torch::ones({2}).to_sparse().data_ptr(); }), true);
    SAME(torch::ones({2}, torch::kMeta).data_ptr() == nullptr && torch::ones({0}, torch::kMeta).data_ptr<float>() == nullptr, true);
    SAME(throws<c10::IndexError>([&] { (void)shared.size(2); }), true);
    SAME(throws<c10::Error>([&] { (void)(shared + torch::ones({3})); }), true);
    SAME(float(at::Half(1.5f) + at::Half(2.f)), 3.5f);
    SAME(std::numeric_limits<at::BFloat16>::infinity() > 1e30f, true);
    for (float f : {0.f, -0.f, 1e-8f, 6.1e-5f, 65504.f, 65520.f, 3.14159f}) SAME(float(at::Half(f)), torch::tensor(f).to(torch::kHalf).item<float>());
    torch::Tensor out;
    at::add_out(out, shared, shared);
    SAME(out[0][0].item<float>(), 4);
}

static void dispatched()
{
    torch::Tensor x = torch::ones({100000}, torch::kDouble), y = torch::empty_like(x);
    AT_DISPATCH_FLOATING_TYPES_AND2(at::kHalf, at::kBFloat16, x.scalar_type(), "doubled", [&] {
        const scalar_t *from = x.data_ptr<scalar_t>();
        scalar_t *to = y.data_ptr<scalar_t>();
        at::parallel_for(0, x.numel(), 100, [&](int64_t begin, int64_t end) {
            for (int64_t i = begin; i < end; ++i) to[i] = from[i] * 2;
        });
    });
    SAME(y.sum().item<double>(), 200000);
    SAME(throws<c10::NotImplementedError>([&] { AT_DISPATCH_INTEGRAL_TYPES(x.scalar_type(), "whole", [&] { (void)scalar_t(); }); }), true);
    SAME(throws<std::runtime_error>([] { at::parallel_for(0, 1000, 1, [](int64_t, int64_t) { throw std::runtime_error("inside"); }); }), true);
    SAME(at::parallel_reduce(0, 1000, 10, int64_t(0), [](int64_t a, int64_t b, int64_t sum) { for (; a < b; ++a) sum += a; return sum; }, std::plus<int64_t>()), 499500);
}

static rush_value values(const std::vector<rush_value> &items) { return c10::detail::boxed_values(items); }
static void nested()
{
    rush_op *op = rush_op_find("cpp_test::turned");
    SAME(std::string(op->schema), "cpp_test::turned(Dict(str, int[]) _0, (str, int)[] _1, str[]? _2) -> (Dict(str, Tensor), int[][])");
    c10::Dict<std::string, std::vector<int64_t>> given;
    given.insert("b", {5, 6});
    auto [summed, listed] = c10::Dispatcher::singleton().findSchemaOrThrow("cpp_test::turned", "").typed<decltype(turned)>().call(given, {{"b", 1}}, std::vector<std::string>{"x"});
    SAME(summed.at("b").item<int64_t>(), 6);
    SAME(listed == (std::vector<std::vector<int64_t>>{{5, 6}, {1}}), true);
    SAME(c10::DeviceTypeName(at::kCUDA, true) + c10::DeviceTypeName(at::kMeta), "cudaMETA");
    rush_scope() {
        int64_t sizes[] = {7, 8};
        rush_value in[] = {values({rush_v_string("b"), rush_v_ints(sizes, 2)}), values({values({rush_v_string("b"), rush_v_int(1)})}), values({rush_v_string("x")})}, out[RUSH_MAXOUT];
        SAME(rush_call(op, in, out), 0);
        SAME(out[0].n, 2u);
        SAME(rush_item_int(out[0].values[1].t), 8);
        SAME(out[1].n, 2u);
        SAME(out[1].values[0].ints[1] + out[1].values[1].ints[0], 9);
        in[2] = rush_v_none();
        SAME(rush_call(op, in, out), 0);
        in[0] = values({rush_v_int(3), rush_v_ints(sizes, 2)}); /* a key of another type */
        SAME(rush_call(op, in, out), -1);
        SAME(rush_error_kind_now(), RUSH_TYPE_ERROR);
        rush_error_clear();
    }
}

static void operations()
{
    torch::Tensor x = torch::full({2}, 3., torch::requires_grad());
    Square::apply(x, 0.5).sum().backward();
    SAME(x.grad()[0].item<double>(), 3);
    auto op = c10::Dispatcher::singleton().findSchemaOrThrow("cpp_test::mad", "").typed<at::Tensor(const at::Tensor &, const std::optional<at::Tensor> &, double)>();
    SAME(op.call(x, x, 1)[0].item<double>(), 10);
    SAME(op.call(x, std::nullopt, 1)[0].item<double>(), 4);
    SAME(op.call(x, x, 1).requires_grad(), false);
    rush_scope() {
        rush_tensor *list[] = {x.get(), x.get()};
        int64_t sizes[] = {4};
        rush_value in[] = {rush_v_tensors(list, 2), rush_v_ints(sizes, 1)}, out[RUSH_MAXOUT];
        SAME(rush_call(rush_op_find("cpp_test::counted"), in, out), 0);
        SAME(rush_ndim(out[0].t), 1);
        SAME(out[1].i, 2);
        in[0] = rush_v_tensor(x.get());
        SAME(rush_call(rush_op_find("cpp_test::fails"), in, out), -1);
        SAME(rush_error_kind_now(), RUSH_INDEX_ERROR);
        rush_error_clear();
    }
    torch::NoGradGuard none;
    SAME((x * 2).requires_grad(), false);
}

/* The function of a mode comes before that of a device, and a quantized tensor has one of its own. */
static void keys()
{
    auto op = c10::Dispatcher::singleton().findSchemaOrThrow("cpp_test::repeated", "").typed<at::Tensor(const at::Tensor &, c10::SymInt)>();
    torch::Tensor x = torch::ones({2});
    SAME(op.call(x, 3).scalar_type(), at::kFloat);
    rush_autocast(RUSH_BF16)
    {
        SAME(op.call(x, 3).scalar_type(), at::kDouble);
        SAME(op.call(x.to(at::kDouble), 3).numel(), 6);
        SAME(at::autocast::is_autocast_enabled(at::kCPU), true);
    }
    auto recorded = c10::Dispatcher::singleton().findSchemaOrThrow("cpp_test::recorded", "").typed<at::Tensor(const at::Tensor &)>();
    auto only_above = c10::Dispatcher::singleton().findSchemaOrThrow("cpp_test::only_above", "").typed<at::Tensor(const at::Tensor &)>();
    torch::Tensor w = torch::ones({2}).requires_grad_();
    SAME(recorded.call(w)[0].item<int>(), 12);
    SAME(only_above.call(w).requires_grad() && !only_above.call(x).requires_grad(), true);
    at::NoGradGuard off;
    SAME(only_above.call(w)[0].item<int>(), 3);
    torch::Tensor q = at::quantize_per_tensor(x, 0.5, 3, at::kQUInt8);
    SAME(op.call(q, 2).item<int>(), 200);
    SAME(AT_DISPATCH_QINT_TYPES(q.scalar_type(), "q", [&] { return q.data_ptr<scalar_t>()[0].val_ + static_cast<int>(sizeof(underlying_t)); }), 6);
}

template <class F> static std::string said(F f)
{
    try {
        f();
    } catch (const c10::Error &e) {
        return e.what_without_backtrace();
    }
    return "";
}
/* What libtorch 2.13 says, too. */
static void messages()
{
    torch::Tensor a = torch::ones({2, 3}), b = torch::ones({4, 5}), none;
    SAME(said([&] { (void)torch::mm(a, b); }), "mat1 and mat2 shapes cannot be multiplied (2x3 and 4x5)");
    SAME(said([&] { (void)torch::linalg_inv(torch::zeros({2, 2})); }), "linalg.inv: The diagonal element 1 is zero, the inversion could not be completed because the input matrix is singular.");
    SAME(said([&] { (void)torch::max_pool2d(torch::ones({5, 1, 2, 2}), 3); }), "Given input size: (1x2x2). Calculated output size: (1x0x0). Output size is too small");
    SAME(said([&] { (void)a.index({5}); }), "index 5 is out of bounds for dimension 0 with size 2");
    SAME(said([&] { (void)(none + a); }), "Expected a proper Tensor but got None (or an undefined Tensor in C++) for argument #0 'self'");
    SAME(said([&] { (void)torch::stack({a, b}); }), "stack expects each tensor to be equal size, but got [2, 3] at entry 0 and [4, 5] at entry 1");
    SAME(said([&] { a.to(torch::kInt).requires_grad_(); }), "Only Tensors of floating point and complex dtype can require gradients");
    SAME(said([&] { (void)torch::Device("cpu:a"); }), "Invalid device string: 'cpu:a'");
    SAME(said([&] { (void)torch::Device("cuda:"); }), "Invalid device string: 'cuda:'");
    SAME(torch::tensor({12, 240}).__and__(0xF0).__rshift__(4).equal(torch::tensor({0, 15})), true);
    SAME(said([&] { TORCH_CHECK_LT(2, 1); }), "Check failed: 2 < 1 (2 vs. 1). ");
    SAME(said([&] { TORCH_INTERNAL_ASSERT(a.dim() == 3, "told"); }).rfind("a.dim() == 3 INTERNAL ASSERT FAILED at \"", 0), 0u);
    SAME(none.sizes().vec() == std::vector<int64_t>{0} && none.dim() == 1 && !none.numel() && !none.is_cpu() && !none.requires_grad() && none.is_contiguous(), true);
    SAME(none.scalar_type() == at::ScalarType::Undefined, true);
    SAME(said([&] { (void)none.item<float>(); }), "a Tensor with 0 elements cannot be converted to Scalar");
    SAME(said([&] { (void)torch::inverse(torch::zeros({2, 2})); }), "linalg.inv: The diagonal element 1 is zero, the inversion could not be completed because the input matrix is singular.");
    SAME(said([&] { (void)torch::zeros({-1}); }), "zeros: Dimension size must be non-negative.");
    SAME(said([&] { torch::load(none, "/nonexistent.pt"); }), "open file failed because of errno 2 on fopen: No such file or directory, file path: /nonexistent.pt");
    SAME(said([&] { (void)c10::IValue(3).toDouble(); }).find("please report a bug to PyTorch. expected double") != std::string::npos, true);
    torch::Tensor w = torch::ones({2}, torch::requires_grad());
    SAME(said([&] { (w * 1).backward(torch::ones({3})); }), "invalid gradient at index 0 - got [3] but expected shape compatible with [2]");
    SAME(said([&] { torch::autograd::backward({w.sum(), w * 1}, {torch::Tensor(), torch::ones({3})}); }), "invalid gradient at index 1 - got [3] but expected shape compatible with [2]");
    (w * 1).backward(torch::ones({4, 2}, torch::kDouble)); /* expanded, and of another dtype: it is summed and converted */
    SAME(w.grad()[1].item<float>() + torch::autograd::grad({w * 2}, {w}, {torch::ones({3, 2})})[0][0].item<float>(), 10);
    SAME(rush_error() == nullptr, true); /* and nothing is left behind */
    SAME(torch::arange(0, 6, 2).numel() + torch::clamp(a, a * 2).sum().item<int64_t>() + a.any(at::OptionalIntArrayRef({0, 1})).numel(), 16);
    torch::nn::Sequential sequence(torch::nn::Linear(3, 2), torch::nn::ReLU());
    torch::Tensor x = a;
    for (auto &m : *sequence) x = m.forward(x);
    SAME(torch::equal(x, sequence->forward(a)) && sequence->begin()->get<torch::nn::LinearImpl>().options.in_features() == 3, true);
    torch::nn::Module module("m");
    module.register_parameter("w", a);
    SAME(said([&] { module.register_parameter("w", a); }), "Parameter 'w' already defined");
    SAME(said([&] { module.register_buffer("a.b", a); }), "Buffer name must not contain a dot (got 'a.b')");
    SAME(said([&] { module.register_module("", torch::nn::Linear(1, 1)); }), "Submodule name must not be empty");
    SAME(said([&] { module.unregister_module("z"); }), "No Module with name `z` is registered");
    SAME(said([&] { torch::nn::Dropout(1.5); }), "dropout probability has to be between 0 and 1, but got 1.5");
    SAME(said([&] { torch::nn::BatchNorm2d(3)->forward(a); }), "expected 4D input (got 2D input)");
    SAME(said([&] { torch::nn::Conv2d(torch::nn::Conv2dOptions(3, 2, 3))->forward(a); }), "Expected 3D (unbatched) or 4D (batched) input to conv2d, but got input of size: [2, 3]");
    SAME(said([&] { torch::nn::LSTM(3, 2)->forward(torch::ones({2, 2, 5})); }), "input.size(-1) must be equal to input_size. Expected 3, got 5");
    SAME(said([&] { torch::nn::RNN(3, 2)->forward(torch::ones({2, 2, 3}), torch::ones({2, 2, 2})); }), "Expected hidden size 1 2 2, got [2, 2, 2]");
    std::vector<torch::Tensor> list = {a};
    SAME(said([&] { torch::optim::SGD(list, torch::optim::SGDOptions(-1)); }), "Invalid learning rate: -1");
    SAME(said([&] { torch::optim::SGD(list, torch::optim::SGDOptions(1).nesterov(true)); }), "Nesterov momentum requires a momentum and zero dampening");
    SAME(said([&] { torch::optim::Adam(list, torch::optim::AdamOptions(1).betas({0.5, 1})); }), "Invalid beta parameter at index 1: 1");
    SAME(said([&] { torch::optim::RMSprop(list, torch::optim::RMSpropOptions(1).eps(-1)); }), "Invalid epsilon value: -1");
}
static void checked()
{
    torch::Tensor a = torch::ones({2, 3}), b = torch::ones({3, 2}, at::kDouble), t = a.t();
    at::TensorArg x{a, "x", 1}, y{b, "y", 2}, z{a, "z", 0}, turned{t, "t", 1};
    at::checkAllSameType("f", {x, z});
    SAME(said([&] { at::checkAllSameType("f", {x, y}); }), "Expected tensor for argument #1 'x' to have the same type as tensor for argument #2 'y'; but type CPUFloatType does not equal CPUDoubleType (while checking arguments for f)");
    SAME(said([&] { at::checkDim("f", z, 3); }), "Expected 3-dimensional tensor, but got 2-dimensional tensor for argument 'z' (while checking arguments for f)");
    SAME(said([&] { at::checkSize("f", x, 1, 4); }), "Expected tensor to have size 4 at dimension 1, but got size 3 for argument #1 'x' (while checking arguments for f)");
    SAME(said([&] { at::checkContiguous("f", turned); }), "Expected contiguous tensor, but got non-contiguous tensor for argument #1 't' (while checking arguments for f)");
    SAME(c10::str(a.layout(), " ", a.suggest_memory_format(), " ", c10::DeviceType::XPU), "Strided Contiguous xpu");
    c10::List<int64_t> list({1, 2});
    list[1] = 5;
    SAME(list.get(1) + list[0], 6);
    TORCH_CHECK(list.size() == 2) // it needs no semicolon
    int counted = 0;
    SAME(said([&] { TORCH_CHECK_EQ(++counted, 2); }), "Check failed: ++counted == 2 (1 vs. 2). ");
    SAME(counted, 1);
    auto items = c10::IValue(std::vector<int64_t>{4, 5}).toList();
    SAME(items[1].get().toSymInt() + static_cast<int64_t>(items.size()), 7);
    int64_t was = a._version();
    torch::autograd::increment_version(a);
    SAME(a._version(), was + 1);
}

static void drawn()
{
    auto g = at::make_generator(5489), other = at::make_generator(5489);
    auto *bits = at::check_generator<at::CPUGeneratorImpl>(g);
    std::mt19937 words; /* of the same seed */
    {
        std::lock_guard<std::mutex> alone(bits->mutex_);
        for (int i = 0; i < 700; ++i) SAME(bits->random(), words());
        uint64_t high = words();
        SAME(bits->random64(), high << 32 | words());
    }
    SAME(at::get_generator_or_default<at::CPUGeneratorImpl>(g, other) == bits && g.get<at::CPUGeneratorImpl>() == bits, true);
    SAME(at::get_generator_or_default<at::CPUGeneratorImpl>(std::nullopt, at::detail::getDefaultCPUGenerator()) == bits, false);
    SAME(bits->current_seed(), 5489u);
    bits->set_current_seed(3), other.set_current_seed(3);
    SAME(at::uniform_real_distribution<float>(0, 1)(bits), at::rand({1}, other).item<float>());
    SAME(at::uniform_real_distribution<double>(-1, 3)(bits), at::empty({1}, at::kDouble).uniform_(-1, 3, other).item<double>());
    SAME(at::uniform_int_from_to_distribution<int64_t>(1000, -7)(bits), at::randint(-7, 993, {1}, other).item<int64_t>());
    SAME(said([] { at::check_generator<at::CPUGeneratorImpl>(std::nullopt); }), "Expected Generator but received nullopt");
}

/* Columns first: a is 2 by 3, and its transpose lies in memory as [3, 2]. */
static void products()
{
    using at::native::TransposeType;
    const double a[] = {1, 2, -1, 3, 4, 5, -1}, b[] = {1, 0, 2, -1, 3, 1}; /* a has a row more than is looked at */
    double c[] = {NAN, NAN, NAN, NAN};
    at::native::cpublas::gemm(TransposeType::NoTranspose, TransposeType::NoTranspose, 2, 2, 2, 1.0, a, 3, b, 2, 0.0, c, 2);
    SAME((std::vector<double>(c, c + 4)), (std::vector<double>{1, 2, -1, 0}));
    at::native::cpublas::gemm(TransposeType::Transpose, TransposeType::Transpose, 1, 2, 3, 2.0, a, 3, b, 2, 1.0, c, 2);
    SAME((std::vector<double>(c, c + 4)), (std::vector<double>{1 + 2 * (1 + 4 - 3), 2, -1 + 2 * (0 - 2 - 1), 0}));
    const c10::complex<float> z[] = {{0, 1}}, w[] = {{2, 1}};
    c10::complex<float> p[1];
    at::native::cpublas::gemm(TransposeType::ConjTranspose, TransposeType::NoTranspose, 1, 1, 1, c10::complex<float>(1), z, 1, w, 1, c10::complex<float>(0), p, 1);
    SAME(p[0] == c10::complex<float>(1, -2), true);
}

int main()
{
    keys();
    drawn();
    products();
    checked();
    messages();
    tensors();
    dispatched();
    operations();
    nested();
    if (!wrong) std::printf("fine\n");
    return wrong;
}
