// layers.cpp - recurrent layers, torch::nn::functional and losses with options: it prints what libtorch prints.
#include <torch/torch.h>
#include <iostream>
#include <cstdio>
using namespace torch;
namespace F = torch::nn::functional;
static void p(const char *n, const Tensor &t) { std::printf("%s %.5f %.5f\n", n, t.sum().item<double>(), t.abs().mean().item<double>()); }
int main() {
    torch::manual_seed(4);
    nn::LSTM lstm(nn::LSTMOptions(3, 5).num_layers(2).bidirectional(true).batch_first(true));
    nn::GRU gru(3, 4);
    nn::RNN rnn(nn::RNNOptions(3, 4).nonlinearity(torch::kReLU));
    auto x = torch::randn({2, 7, 3});
    auto [y, state] = lstm->forward(x);
    y.sum().backward();
    p("lstm", y), p("c", std::get<1>(state)), p("grad", lstm->named_parameters()[5].value().grad());
    std::cout << lstm->named_parameters()[5].key() << " " << lstm << "\n";
    auto [z, h] = gru(x); p("gru", z), p("h", h);
    auto r = rnn->forward(x); p("rnn", std::get<0>(r));
    nn::LSTMCell cell(3, 4); auto s = cell(x[0]); s = cell(x[1], s); p("cell", std::get<0>(s));
    nn::GRUCell gcell(3, 4); p("gcell", gcell(x[0]));
    auto im = torch::randn({2, 3, 8, 8});
    p("conv", F::conv2d(im, torch::ones({4, 3, 3, 3}), F::Conv2dFuncOptions().stride(2).padding(1)));
    p("pool", F::max_pool2d(im, F::MaxPool2dFuncOptions(2))), p("avg", F::avg_pool2d(im, F::AvgPool2dFuncOptions({2, 3}).stride(1)));
    p("ada", F::adaptive_avg_pool2d(im, F::AdaptiveAvgPool2dFuncOptions(3)));
    p("up", F::interpolate(im, F::InterpolateFuncOptions().scale_factor(std::vector<double>({2, 2})).mode(torch::kBilinear).align_corners(false)));
    p("near", F::interpolate(im, F::InterpolateFuncOptions().size(std::vector<int64_t>({5, 9})).mode(torch::kNearest)));
    p("pad", F::pad(im, F::PadFuncOptions({1, 2, 0, 1}).mode(torch::kReflect))), p("pad0", F::pad(im, F::PadFuncOptions({1, 2}).value(3)));
    p("norm", F::normalize(im, F::NormalizeFuncOptions().p(2).dim(1))), p("drop", F::dropout(im, F::DropoutFuncOptions().p(0.3)));
    p("relu", F::relu(im)), p("leaky", F::leaky_relu(im, F::LeakyReLUFuncOptions().negative_slope(0.3))), p("elu", F::elu(im));
    auto l = torch::randn({6, 4}), t = torch::tensor({0, 1, 2, 3, 1, 1});
    p("ce", F::cross_entropy(l, t)), p("ce2", F::cross_entropy(l, t, F::CrossEntropyFuncOptions().reduction(torch::kSum).ignore_index(1).weight(torch::tensor({1.f, 2.f, 3.f, 4.f}))));
    p("ls", F::log_softmax(l, 1)), p("sm", F::softmax(l, F::SoftmaxFuncOptions(0))), p("nll", F::nll_loss(F::log_softmax(l, F::LogSoftmaxFuncOptions(1)), t, F::NLLLossFuncOptions().reduction(torch::kNone)));
    p("mse", F::mse_loss(l, l * 2)), p("msesum", nn::MSELoss(nn::MSELossOptions(torch::kSum))(l, l * 2)), p("bce", F::binary_cross_entropy_with_logits(l, torch::ones({6, 4})));
    p("kl", F::kl_div(F::log_softmax(l, 1), F::softmax(l * 2, 1), F::KLDivFuncOptions().reduction(torch::kBatchMean))), p("sl1", F::smooth_l1_loss(l, l * 2));
    p("cos", F::cosine_similarity(l, l + 1)), p("emb", F::embedding(t, l)), p("hot", F::one_hot(t, 5).to(torch::kFloat)), p("lin", F::linear(l, torch::ones({3, 4}), torch::ones({3})));
    p("bn", 1 + F::batch_norm(im, torch::zeros({3}), torch::ones({3}), F::BatchNormFuncOptions().training(true))), p("ln", 1 + F::layer_norm(im, F::LayerNormFuncOptions({8, 8})));
    auto smooth = nn::CrossEntropyLoss(nn::CrossEntropyLossOptions().label_smoothing(0.1)); p("smooth", smooth(l, t));
}
