/* rnn.hpp - recurrent layers: torch::nn::RNN, LSTM, GRU, and one step of each. */
#ifndef RUSHLIGHT_AT_RNN_HPP
#define RUSHLIGHT_AT_RNN_HPP

#include "functional.hpp"

namespace torch::nn {

using Nonlinearity = std::variant<enumtype::kTanh, enumtype::kReLU>;
#define AT_RECURRENT_(Name)                                                                                 \
    Name##Options(int64_t in, int64_t hidden) : input_size_(in), hidden_size_(hidden) {}                    \
    TORCH_ARG(int64_t, input_size);                                                                         \
    TORCH_ARG(int64_t, hidden_size);                                                                        \
    TORCH_ARG(int64_t, num_layers) = 1;                                                                     \
    TORCH_ARG(bool, bias) = true;                                                                           \
    TORCH_ARG(bool, batch_first) = false;                                                                   \
    TORCH_ARG(double, dropout) = 0;                                                                         \
    TORCH_ARG(bool, bidirectional) = false
struct RNNOptions {
    AT_RECURRENT_(RNN);
    TORCH_ARG(Nonlinearity, nonlinearity) = kTanh;
};
struct GRUOptions {
    AT_RECURRENT_(GRU);
};
struct LSTMOptions {
    AT_RECURRENT_(LSTM);
    TORCH_ARG(int64_t, proj_size) = 0;
};
#undef AT_RECURRENT_

/* Weights of all layers and directions; a layer has `gates` rows for each number of its state. */
template <class Options> class RecurrentBase : public Module {
    std::vector<Tensor> weights;

protected:
    RecurrentBase(const Options &o, int64_t gates, int64_t projected) : options(o)
    {
        int64_t seen = projected ? projected : o.hidden_size();
        for (int64_t layer = 0; layer < o.num_layers(); ++layer)
            for (int direction = 0; direction <= o.bidirectional(); ++direction) {
                int64_t in = layer ? seen * (o.bidirectional() ? 2 : 1) : o.input_size(), rows = gates * o.hidden_size();
                std::string suffix = "_l" + std::to_string(layer) + (direction ? "_reverse" : "");
                weights.push_back(register_parameter("weight_ih" + suffix, at::empty({rows, in})));
                weights.push_back(register_parameter("weight_hh" + suffix, at::empty({rows, seen})));
                if (o.bias()) {
                    weights.push_back(register_parameter("bias_ih" + suffix, at::empty({rows})));
                    weights.push_back(register_parameter("bias_hh" + suffix, at::empty({rows})));
                }
                if (projected) weights.push_back(register_parameter("weight_hr" + suffix, at::empty({projected, o.hidden_size()})));
            }
        reset_parameters();
    }
    /* Do the input and the state that was given fit? */
    void check(const Tensor &x, const Tensor &state, int64_t width, const char *name) const
    {
        TORCH_CHECK(x.size(-1) == options.input_size(), "input.size(-1) must be equal to input_size. Expected ", options.input_size(), ", got ", x.size(-1));
        int64_t layers = options.num_layers() * (options.bidirectional() ? 2 : 1), batch = x.dim() == 3 ? x.size(options.batch_first() ? 0 : 1) : 0;
        if (state.defined() && x.dim() == 3)
            TORCH_CHECK(state.sizes().equals({layers, batch, width}), "Expected ", name, " size ", layers, " ", batch, " ", width, ", got ", state.sizes());
    }
    Tensor start(const Tensor &x, int64_t width) const
    {
        int64_t layers = options.num_layers() * (options.bidirectional() ? 2 : 1);
        std::vector<int64_t> size = {layers, x.size(options.batch_first() ? 0 : 1), width};
        if (x.dim() == 2) size.erase(size.begin() + 1);
        return at::zeros(size, x.options());
    }
    void print_options(std::ostream &out, const char *name) const
    {
        auto &o = options;
        out << "torch::nn::" << name << "(input_size=" << o.input_size() << ", hidden_size=" << o.hidden_size() << ", num_layers=" << o.num_layers() << ", bias=" << std::boolalpha << o.bias()
            << ", batch_first=" << o.batch_first() << ", dropout=" << o.dropout() << ", bidirectional=" << o.bidirectional();
    }

public:
    Options options;
    void reset_parameters()
    {
        double bound = options.hidden_size() > 0 ? 1 / std::sqrt(static_cast<double>(options.hidden_size())) : 0;
        for (auto &w : weights) init::uniform_(w, -bound, bound);
    }
    void flatten_parameters() {}
    std::vector<Tensor> all_weights() const { return parameters(); }
    void pretty_print(std::ostream &out) const override
    {
        print_options(out, std::is_same_v<Options, RNNOptions> ? "RNN" : std::is_same_v<Options, GRUOptions> ? "GRU" : "LSTM");
        out << ")";
    }
};

class RNNImpl : public RecurrentBase<RNNOptions> {
public:
    RNNImpl(int64_t in, int64_t hidden) : RNNImpl(RNNOptions(in, hidden)) {}
    explicit RNNImpl(const RNNOptions &o) : RecurrentBase(o, 1, 0) {}
    std::tuple<Tensor, Tensor> forward(const Tensor &x, Tensor hx = {})
    {
        auto &o = options;
        check(x, hx, o.hidden_size(), "hidden");
        if (!hx.defined()) hx = start(x, o.hidden_size());
        auto run = [&](auto &&f) { return f(x, hx, parameters(), o.bias(), o.num_layers(), o.dropout(), is_training(), o.bidirectional(), o.batch_first()); };
        if (std::holds_alternative<enumtype::kReLU>(o.nonlinearity())) return run([](auto &&...a) { return at::rnn_relu(a...); });
        return run([](auto &&...a) { return at::rnn_tanh(a...); });
    }
};
TORCH_MODULE(RNN);

class GRUImpl : public RecurrentBase<GRUOptions> {
public:
    GRUImpl(int64_t in, int64_t hidden) : GRUImpl(GRUOptions(in, hidden)) {}
    explicit GRUImpl(const GRUOptions &o) : RecurrentBase(o, 3, 0) {}
    std::tuple<Tensor, Tensor> forward(const Tensor &x, Tensor hx = {})
    {
        auto &o = options;
        check(x, hx, o.hidden_size(), "hidden");
        if (!hx.defined()) hx = start(x, o.hidden_size());
        return at::gru(x, hx, parameters(), o.bias(), o.num_layers(), o.dropout(), is_training(), o.bidirectional(), o.batch_first());
    }
};
TORCH_MODULE(GRU);

class LSTMImpl : public RecurrentBase<LSTMOptions> {
public:
    using State = std::tuple<Tensor, Tensor>;
    LSTMImpl(int64_t in, int64_t hidden) : LSTMImpl(LSTMOptions(in, hidden)) {}
    explicit LSTMImpl(const LSTMOptions &o) : RecurrentBase(o, 4, o.proj_size()) {}
    std::tuple<Tensor, State> forward(const Tensor &x, std::optional<State> hx = {})
    {
        auto &o = options;
        int64_t width = o.proj_size() ? o.proj_size() : o.hidden_size();
        check(x, hx ? std::get<0>(*hx) : Tensor(), width, "hidden[0]");
        check(x, hx ? std::get<1>(*hx) : Tensor(), o.hidden_size(), "hidden[1]");
        if (!hx) hx = State(start(x, width), start(x, o.hidden_size()));
        std::vector<Tensor> state = {std::get<0>(*hx), std::get<1>(*hx)};
        auto [y, h, c] = at::lstm(x, state, parameters(), o.bias(), o.num_layers(), o.dropout(), is_training(), o.bidirectional(), o.batch_first());
        return {y, State(h, c)};
    }
};
TORCH_MODULE(LSTM);

/* ---- one step ---- */

#define AT_CELL_(Name)                                                                                      \
    Name##Options(int64_t in, int64_t hidden) : input_size_(in), hidden_size_(hidden) {}                    \
    TORCH_ARG(int64_t, input_size);                                                                         \
    TORCH_ARG(int64_t, hidden_size);                                                                        \
    TORCH_ARG(bool, bias) = true
struct RNNCellOptions {
    AT_CELL_(RNNCell);
    TORCH_ARG(Nonlinearity, nonlinearity) = kTanh;
};
struct GRUCellOptions {
    AT_CELL_(GRUCell);
};
struct LSTMCellOptions {
    AT_CELL_(LSTMCell);
};
#undef AT_CELL_

template <class Options> class CellBase : public Module {
protected:
    CellBase(const Options &o, int64_t gates) : options(o)
    {
        int64_t rows = gates * o.hidden_size();
        weight_ih = register_parameter("weight_ih", at::empty({rows, o.input_size()}));
        weight_hh = register_parameter("weight_hh", at::empty({rows, o.hidden_size()}));
        if (o.bias()) {
            bias_ih = register_parameter("bias_ih", at::empty({rows}));
            bias_hh = register_parameter("bias_hh", at::empty({rows}));
        }
        reset_parameters();
    }
    Tensor start(const Tensor &x) const { return x.dim() == 2 ? at::zeros({x.size(0), options.hidden_size()}, x.options()) : at::zeros({options.hidden_size()}, x.options()); }

public:
    Options options;
    Tensor weight_ih, weight_hh, bias_ih, bias_hh;
    void reset_parameters()
    {
        double bound = 1 / std::sqrt(static_cast<double>(options.hidden_size()));
        for (auto &w : parameters()) init::uniform_(w, -bound, bound);
    }
};

class RNNCellImpl : public CellBase<RNNCellOptions> {
public:
    RNNCellImpl(int64_t in, int64_t hidden) : RNNCellImpl(RNNCellOptions(in, hidden)) {}
    explicit RNNCellImpl(const RNNCellOptions &o) : CellBase(o, 1) {}
    Tensor forward(const Tensor &x, Tensor hx = {})
    {
        if (!hx.defined()) hx = start(x);
        bool relu = std::holds_alternative<enumtype::kReLU>(options.nonlinearity());
        return relu ? at::rnn_relu_cell(x, hx, weight_ih, weight_hh, given(bias_ih), given(bias_hh)) : at::rnn_tanh_cell(x, hx, weight_ih, weight_hh, given(bias_ih), given(bias_hh));
    }
};
TORCH_MODULE(RNNCell);

class GRUCellImpl : public CellBase<GRUCellOptions> {
public:
    GRUCellImpl(int64_t in, int64_t hidden) : GRUCellImpl(GRUCellOptions(in, hidden)) {}
    explicit GRUCellImpl(const GRUCellOptions &o) : CellBase(o, 3) {}
    Tensor forward(const Tensor &x, Tensor hx = {}) { return at::gru_cell(x, hx.defined() ? hx : start(x), weight_ih, weight_hh, given(bias_ih), given(bias_hh)); }
};
TORCH_MODULE(GRUCell);

class LSTMCellImpl : public CellBase<LSTMCellOptions> {
public:
    using State = std::tuple<Tensor, Tensor>;
    LSTMCellImpl(int64_t in, int64_t hidden) : LSTMCellImpl(LSTMCellOptions(in, hidden)) {}
    explicit LSTMCellImpl(const LSTMCellOptions &o) : CellBase(o, 4) {}
    State forward(const Tensor &x, std::optional<State> hx = {})
    {
        if (!hx) hx = State(start(x), start(x));
        std::vector<Tensor> state = {std::get<0>(*hx), std::get<1>(*hx)};
        return at::lstm_cell(x, state, weight_ih, weight_hh, given(bias_ih), given(bias_hh));
    }
};
TORCH_MODULE(LSTMCell);

} // namespace torch::nn
#endif
