// optim.cpp - what the optimizers of torch::optim make of three parameters, to the bit, with their state saved and loaded on the way.
// Sums of rows that are given twice have no one order, so those are rounded.
#include <torch/torch.h>

#include <cstdint>
#include <cstdio>
#include <cstring>
#include <sstream>

namespace optim = torch::optim;

static unsigned bits_of(const std::vector<torch::Tensor> &list)
{
    uint64_t bits = 0;
    for (const auto &x : list) {
        torch::Tensor flat = x.detach().to(torch::kDouble).flatten();
        for (int64_t i = 0; i < flat.numel(); ++i) {
            uint64_t u;
            std::memcpy(&u, flat.data_ptr<double>() + i, 8);
            bits = (bits ^ u ^ u >> 32) * 1099511628211u;
        }
    }
    return static_cast<unsigned>(bits >> 32);
}

template <class Options, class Optimizer> static std::unique_ptr<Optimizer> loaded(const Optimizer &from)
{
    std::stringstream file;
    torch::save(from, file);
    auto made = std::make_unique<Optimizer>(from.parameters(), Options(9));
    torch::load(*made, file);
    return made;
}

template <class Optimizer, class Options> static unsigned stepped(Options options, torch::ScalarType dtype)
{
    torch::manual_seed(5);
    std::vector<torch::Tensor> w{torch::randn({5, 7}, dtype), torch::randn({3}, dtype), torch::randn({40, 50}, dtype).t()};
    for (auto &x : w) x.requires_grad_();
    auto optimizer = std::make_unique<Optimizer>(w, options);
    for (int i = 0; i < 8; ++i) {
        optimizer->zero_grad();
        for (auto &x : w) {
            torch::Tensor grad = torch::randn(x.sizes(), dtype);
            if (i > 1 || x.dim() > 1) x.mutable_grad() = grad;
        }
        if (i == 4) optimizer = loaded<Options>(*optimizer);
        if (i == 5) optimizer->param_groups()[0].options().set_lr(options.lr() * 0.3);
        optimizer->step();
    }
    return bits_of(w);
}

template <class Optimizer, class Options> static void run(const char *name, Options options)
{
    std::printf("%s %08x %08x\n", name, stepped<Optimizer>(options, torch::kFloat), stepped<Optimizer>(options, torch::kDouble));
}

// Products of three numbers, whose sum has one order.
static void minimised(const char *name, optim::LBFGSOptions options)
{
    torch::manual_seed(5);
    std::vector<torch::Tensor> w{torch::randn({2}).requires_grad_(), torch::randn({1}).requires_grad_()};
    torch::Tensor a = torch::randn({2}), b = torch::rand({2});
    auto optimizer = std::make_unique<optim::LBFGS>(w, options);
    std::printf("%s", name);
    for (int i = 0; i < 4; ++i) {
        if (i == 2) optimizer = loaded<optim::LBFGSOptions>(*optimizer);
        torch::Tensor loss = optimizer->step([&] {
            optimizer->zero_grad();
            torch::Tensor d = w[0] * (w[1][0] + 1) - a, loss = (b * d * d).sum() + (w[1] * w[1] * w[1] * w[1]).sum() + (w[1] - 1).abs().sum() * 0.1;
            loss.backward();
            return loss;
        });
        std::printf(" %.6f", loss.item<float>());
    }
    std::printf(" %08x\n", bits_of(w));
}

static void few_rows()
{
    torch::manual_seed(5);
    torch::nn::Embedding words(torch::nn::EmbeddingOptions(6, 4).sparse(true));
    optim::Adagrad adagrad(words->parameters(), optim::AdagradOptions(0.1).lr_decay(0.02));
    for (int i = 0; i < 3; ++i) {
        adagrad.zero_grad();
        (words(torch::tensor({1, 4, i, 1})) * torch::randn({4, 4})).sum().backward();
        adagrad.step();
    }
    torch::Tensor sums = words->weight.detach().sum(1);
    std::printf("sparse");
    for (int i = 0; i < 6; ++i) std::printf(" %.5f", sums[i].item<float>());
    std::printf("\n");
}

int main()
{
    run<optim::SGD>("sgd", optim::SGDOptions(0.1));
    run<optim::SGD>("decay", optim::SGDOptions(0.1).weight_decay(0.03));
    run<optim::SGD>("momentum", optim::SGDOptions(0.1).momentum(0.9));
    run<optim::SGD>("dampening", optim::SGDOptions(0.1).momentum(0.9).dampening(0.2).weight_decay(0.03));
    run<optim::SGD>("nesterov", optim::SGDOptions(0.1).momentum(0.9).nesterov(true).weight_decay(0.03));
    run<optim::Adam>("adam", optim::AdamOptions(0.01));
    run<optim::Adam>("betas", optim::AdamOptions(0.01).betas(std::make_tuple(0.4, 0.9)));
    run<optim::Adam>("decay", optim::AdamOptions(0.01).weight_decay(0.03));
    run<optim::Adam>("amsgrad", optim::AdamOptions(0.01).amsgrad(true).weight_decay(0.03));
    run<optim::AdamW>("adamw", optim::AdamWOptions(0.01));
    run<optim::AdamW>("undecayed", optim::AdamWOptions(0.01).weight_decay(0));
    run<optim::AdamW>("amsgrad", optim::AdamWOptions(0.01).amsgrad(true).weight_decay(0.3).eps(1e-6));
    run<optim::RMSprop>("rmsprop", optim::RMSpropOptions(0.01));
    run<optim::RMSprop>("decay", optim::RMSpropOptions(0.01).weight_decay(0.03).alpha(0.9));
    run<optim::RMSprop>("momentum", optim::RMSpropOptions(0.01).momentum(0.9));
    run<optim::RMSprop>("centered", optim::RMSpropOptions(0.01).centered(true));
    run<optim::RMSprop>("all", optim::RMSpropOptions(0.01).centered(true).momentum(0.5).weight_decay(0.03));
    run<optim::Adagrad>("adagrad", optim::AdagradOptions(0.1));
    run<optim::Adagrad>("all", optim::AdagradOptions(0.1).lr_decay(0.02).weight_decay(0.03).initial_accumulator_value(0.1));
    few_rows();
    minimised("lbfgs", optim::LBFGSOptions(0.3).max_iter(6).history_size(4));
    minimised("wolfe", optim::LBFGSOptions(1).max_iter(6).history_size(4).line_search_fn("strong_wolfe"));
}
