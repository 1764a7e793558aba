// train.cpp - a small network trained through PyTorch's C++ names, twice: the losses are those that libtorch prints for the same seed.
#include <torch/torch.h>

#include <cstdio>

namespace nn = torch::nn;

struct NetImpl : nn::Module {
    NetImpl() : conv(nn::Conv2dOptions(1, 4, 3).padding(1).bias(false)), norm(4), head(nn::Linear(4 * 8 * 8, 16), nn::ReLU(), nn::Linear(16, 3))
    {
        register_module("conv", conv);
        register_module("norm", norm);
        register_module("drop", drop);
        register_module("head", head);
    }
    torch::Tensor forward(torch::Tensor x) { return head->forward(drop(torch::relu(norm(conv(x)))).flatten(1)); }
    nn::Conv2d conv;
    nn::BatchNorm2d norm;
    nn::Dropout2d drop{0.25};
    nn::Sequential head;
};
TORCH_MODULE(Net);

struct Noise : torch::data::datasets::Dataset<Noise> {
    torch::Tensor x = torch::randn({24, 1, 8, 8}), y = torch::randint(0, 3, {24});
    torch::data::Example<> get(size_t i) override { return {x[static_cast<int64_t>(i)], y[static_cast<int64_t>(i)]}; }
    std::optional<size_t> size() const override { return 24; }
};

template <class Loader> static void train(Net net, torch::optim::Optimizer &optimizer, Loader &loader)
{
    net->train();
    for (int epoch = 0; epoch < 2; ++epoch)
        for (auto &batch : loader) {
            optimizer.zero_grad();
            torch::Tensor loss = torch::nll_loss(torch::log_softmax(net(batch.data), 1), batch.target);
            loss.backward();
            optimizer.step();
            std::printf(" %.4f", loss.template item<float>());
        }
    net->eval();
    torch::NoGradGuard unrecorded;
    std::printf(" | %.4f\n", net(torch::ones({1, 1, 8, 8})).sum().template item<float>());
}

int main()
{
    torch::manual_seed(3);
    auto data = Noise().map(torch::data::transforms::Normalize<>(0.5, 2)).map(torch::data::transforms::Stack<>());
    auto loader = torch::data::make_data_loader(std::move(data), 10);
    Net net;
    torch::optim::SGD sgd(net->parameters(), torch::optim::SGDOptions(0.1).momentum(0.5));
    train(net, sgd, *loader);
    torch::optim::Adam adam(net->parameters(), torch::optim::AdamOptions(1e-2).betas(std::make_tuple(0.5, 0.9)));
    train(net, adam, *loader);
    std::printf("%zu parameters, %zu buffers, first %s\n", net->parameters().size(), net->buffers().size(), net->named_parameters().begin()->key().c_str());
    torch::nn::Embedding words(5, 3);
    net->to(torch::kDouble);
    std::printf("%.4f %d\n", words(torch::tensor({1, 4})).sum().item<float>(), net->conv->weight.scalar_type() == torch::kDouble);
}
