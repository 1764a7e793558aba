// saved.cpp - IN OUT: goes on from the files that libtorch (or this program, where IN is "-") wrote, and writes them anew. It prints what libtorch prints.
#include <torch/torch.h>

#include <iostream>
#include <sstream>

namespace nn = torch::nn;
namespace optim = torch::optim;

struct NetImpl : nn::Module {
    NetImpl() : seq(nn::BatchNorm1d(2), nn::Linear(2, 2), nn::ReLU())
    {
        register_module("seq", seq);
        extra = register_parameter("extra", torch::arange(3.));
    }
    torch::Tensor forward(torch::Tensor x) { return seq->forward(x).sum() * extra.pow(2).sum(); }
    nn::Sequential seq;
    torch::Tensor extra;
};
TORCH_MODULE(Net);

static void step(Net net, optim::Optimizer &optimizer)
{
    optimizer.zero_grad();
    net(torch::tensor({{1., 2.}, {3., 5.}, {0., 7.}}, torch::kFloat)).backward();
    optimizer.step();
    std::printf(" %.5f", net->extra.sum().item<float>() + net->seq[1]->parameters()[0].sum().item<float>());
}

int main(int, char **argv)
{
    std::string in = argv[1], out = argv[2];
    torch::manual_seed(2);
    Net net;
    std::vector<optim::OptimizerParamGroup> groups = {optim::OptimizerParamGroup(net->seq->parameters()), optim::OptimizerParamGroup({net->extra}, std::make_unique<optim::AdamWOptions>(0.02))};
    optim::AdamW adam(groups, optim::AdamWOptions(0.01).amsgrad(true));
    optim::SGD sgd(net->parameters(), optim::SGDOptions(0.001).momentum(0.9));
    if (in != "-") {
        torch::load(net, in + "/libtorch_net.pt");
        torch::load(adam, in + "/libtorch_adamw.pt");
        torch::load(sgd, in + "/libtorch_sgd.pt");
    }
    step(net, adam), step(net, sgd), step(net, adam), step(net, sgd);
    adam.param_groups()[1].options().set_lr(0.05);
    step(net, adam);
    std::cout << " " << adam.param_groups()[0].options().get_lr() << "\n" << net << "\n" << net->seq[0]->buffers()[0] << "\n";
    torch::save(net, out + "/libtorch_net.pt");
    torch::save(adam, out + "/libtorch_adamw.pt");
    torch::save(sgd, out + "/libtorch_sgd.pt");
    std::stringstream stream;
    torch::save(std::vector<torch::Tensor>{torch::ones({2, 12}) / 3, torch::tensor({1e-3, 1e9}), torch::tensor(0.1f)}, stream);
    std::vector<torch::Tensor> list;
    torch::load(list, stream);
    for (const auto &x : list) std::cout << x << "\n";
    std::cout << torch::arange(8).view({2, 2, 2}) * 100000.5 << "\n" << torch::zeros({0, 2}) << torch::Tensor() << "\n";
    auto y = (net->extra + 1) * 2;
    std::cout << y.grad_fn()->name() << " " << y.grad_fn()->next_edge(0).function->name() << " " << !net->extra.grad_fn() << "\n";
    try {
        nn::Linear other(3, 3);
        torch::load(other, out + "/libtorch_net.pt");
    } catch (const c10::Error &e) {
        std::cout << e.what_without_backtrace() << "\n";
    }
}
