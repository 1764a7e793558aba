// program.cpp - PROGRAM: one that torch.jit.save wrote is run, trained and moved.
#include <torch/script.h>

#include <fstream>
#include <iostream>

int main(int, char **argv)
{
    torch::jit::script::Module net = torch::jit::load(argv[1]);
    std::vector<torch::jit::IValue> in;
    in.push_back(torch::arange(6).reshape({2, 3}).to(torch::kFloat));
    torch::Tensor y = net.forward(in).toTensor();
    y.sum().backward();
    {
        torch::NoGradGuard unrecorded;
        for (auto &p : net.parameters()) p.add_(1);
    }
    std::cout << y << "\n";
    for (const auto &p : net.named_parameters()) std::cout << p.name << " " << p.value.grad().sum().item<float>() << "\n";
    for (const auto &b : net.named_buffers()) std::cout << b.name << "\n";
    net.eval();
    std::cout << net.is_training() << " " << net.forward(in).toTensor().sum().item<float>() << "\n";
    std::ifstream stream(argv[1], std::ios::binary);
    torch::jit::Module other = torch::jit::load(stream);
    other.to(torch::kDouble);
    in[0] = in[0].toTensor().to(torch::kDouble);
    std::cout << other.parameters().size() << " " << (other.forward(in).toTensor().scalar_type() == torch::kDouble) << "\n";
    net.save(argv[2]); // as it was trained
    torch::jit::Module again = torch::jit::load(argv[2]);
    in[0] = in[0].toTensor().to(torch::kFloat);
    std::cout << again.is_training() << " " << torch::equal(again.forward(in).toTensor(), net.forward(in).toTensor()) << " " << again.parameters()[0].requires_grad() << "\n";
    try {
        torch::jit::load("/nonexistent.pt");
    } catch (const c10::Error &e) {
        std::cout << "thrown\n";
    }
}
