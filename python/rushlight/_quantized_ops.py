"""Operators of torch.ops.quantized that take packed parameters: a weight and a bias in one object.

The arithmetic is that of operations on quantized tensors (_quantized_linear, _quantized_conv, ...). A weight is used as it
lies, so that packing is no more than keeping it with the bias and the geometry.
"""
import sys

import rushlight as torch

_DIMS = (1, 2, 3)


class PackedParams:
    """What the operators of a layer are given in place of a weight and a bias."""

    def __init__(self, weight, bias=None, **geometry):
        self._weight, self._bias, self._geometry = weight, bias, geometry

    def unpack(self):
        """The weight and the bias."""
        return self._weight, self._bias

    def weight(self):
        return self._weight

    def bias(self):
        return self._bias

    def set_bias(self, bias):
        self._bias = bias

    def __repr__(self):
        return "<torch.ScriptObject of %s>" % type(self).__name__


class LinearPackedParamsBase(PackedParams):
    """Of linear layers."""

    def __init__(self, weight, bias=None, half=False):
        super().__init__(weight, bias)
        self._half = half


class EmbeddingPackedParamsBase(PackedParams):
    """Of embeddings."""

    def unpack(self):
        return self._weight


class ConvPackedParamsBase(PackedParams):
    """Of convolutions."""

    def stride(self):
        return list(self._geometry["stride"])

    def padding(self):
        return list(self._geometry["padding"])

    def output_padding(self):
        return list(self._geometry["output_padding"])

    def dilation(self):
        return list(self._geometry["dilation"])

    def groups(self):
        return self._geometry["groups"]

    def transpose(self):
        return self._geometry["transposed"]

    def _arguments(self, x):
        g = self._geometry
        return x, self._weight, self._bias, g["stride"], g["padding"], g["dilation"], g["transposed"], g["output_padding"], g["groups"]


class CellParamsBase(PackedParams):
    """Of one direction of a recurrent layer: weights and biases of the input and of the state."""

    def __init__(self, ih, hh, bias_ih=None, bias_hh=None, reduce_range=True):
        self.ih, self.hh, self.bias_ih, self.bias_hh, self.reduce_range = ih, hh, bias_ih, bias_hh, reduce_range

    def linear_ih(self, x):
        return linear_dynamic(x, self.ih, self.reduce_range)

    def linear_hh(self, h):
        return linear_dynamic(h, self.hh, self.reduce_range)


# ---- linear

def linear_prepack(W, B=None):
    """A weight (qint8) and a bias for linear()."""
    if W.dtype is not torch.qint8:
        raise RuntimeError("quantized::linear_prepack: the weight must be qint8, not %s" % W.dtype)
    return LinearPackedParamsBase(W, B)


def linear_prepack_fp16(W, B=None):
    """A float weight, kept in float16, and a bias for linear_dynamic_fp16()."""
    return LinearPackedParamsBase(W.to(torch.float16), B, half=True)


def linear_unpack(W_prepack):
    """The weight and the bias."""
    return W_prepack.unpack()


def linear_unpack_fp16(W_prepack):
    """The weight, in float32, and the bias."""
    return W_prepack._weight.to(torch.float32), W_prepack._bias


def linear(X, W_prepack, Y_scale_i, Y_zero_point_i):
    """A linear layer of quantized X."""
    return torch._quantized_linear(X, W_prepack._weight, W_prepack._bias, Y_scale_i, Y_zero_point_i, False)


def linear_relu(X, W_prepack, Y_scale_i, Y_zero_point_i):
    """relu of linear()."""
    return torch._quantized_linear(X, W_prepack._weight, W_prepack._bias, Y_scale_i, Y_zero_point_i, True)


def linear_leaky_relu(X, W_prepack, Y_scale_i, Y_zero_point_i, negative_slope):
    """leaky_relu of linear()."""
    y = torch._quantized_linear(X, W_prepack._weight, W_prepack._bias, False)
    return torch.quantize_per_tensor(torch.nn.functional.leaky_relu(y, negative_slope), Y_scale_i, Y_zero_point_i, X.dtype)


def linear_tanh(X, W_prepack, Y_scale_i, Y_zero_point_i):
    """tanh of linear()."""
    y = torch._quantized_linear(X, W_prepack._weight, W_prepack._bias, False)
    return torch.quantize_per_tensor(torch.tanh(y), Y_scale_i, Y_zero_point_i, X.dtype)


def linear_with_input_q_dq_qweight_dq_output_fp32(X, X_scale, X_zero_point, W_prepack):
    """linear() of X put on a grid, as numbers."""
    x = torch.quantize_per_tensor(X, X_scale, X_zero_point, torch.quint8)
    return torch._quantized_linear(x, W_prepack._weight, W_prepack._bias, False)


def linear_with_input_q_dq_qweight_dq_relu_output_fp32(X, X_scale, X_zero_point, W_prepack):
    """relu of the same."""
    x = torch.quantize_per_tensor(X, X_scale, X_zero_point, torch.quint8)
    return torch._quantized_linear(x, W_prepack._weight, W_prepack._bias, True)


def linear_dynamic(X, W_prepack, reduce_range=False):
    """A linear layer of float X, which is quantized by its own range."""
    if W_prepack._half:
        return linear_dynamic_fp16(X, W_prepack)
    return torch._quantized_linear(X, W_prepack._weight, W_prepack._bias, False, reduce_range)


def linear_relu_dynamic(X, W_prepack, reduce_range=False):
    """relu of linear_dynamic()."""
    return torch._quantized_linear(X, W_prepack._weight, W_prepack._bias, True, reduce_range)


def linear_dynamic_fp16(X, W_prepack):
    """A linear layer of float X with a weight kept in float16."""
    return torch.nn.functional.linear(X, W_prepack._weight.to(torch.float32), W_prepack._bias)


def linear_relu_dynamic_fp16(X, W_prepack):
    """relu of linear_dynamic_fp16()."""
    return torch.relu(linear_dynamic_fp16(X, W_prepack))


# ---- convolution

def _raised(x, dims):
    """One dimension more than in `dims`, which weights of one dimension are kept with."""
    return list(x) if len(x) == dims else list(x) * dims


def _prepack(dims, transposed):
    def plain(weight, bias, stride, padding, dilation, groups):
        return ConvPackedParamsBase(weight, bias, stride=_raised(stride, dims), padding=_raised(padding, dims), dilation=_raised(dilation, dims),
                                    output_padding=[0] * dims, groups=groups, transposed=False)

    def turned(weight, bias, stride, padding, output_padding, dilation, groups):
        return ConvPackedParamsBase(weight, bias, stride=_raised(stride, dims), padding=_raised(padding, dims), dilation=_raised(dilation, dims),
                                    output_padding=_raised(output_padding, dims), groups=groups, transposed=True)
    return turned if transposed else plain


def _conv(relu):
    def conv(qx, packed_weight, output_scale, output_zero_point):
        return torch._quantized_conv(*packed_weight._arguments(qx), output_scale, output_zero_point, relu)
    return conv


def _conv_add(relu):
    def conv_add(qx, qaccum, packed_weight, output_scale, output_zero_point):
        return torch._quantized_conv(*packed_weight._arguments(qx), output_scale, output_zero_point, relu, qaccum)
    return conv_add


def _conv_dynamic(qx, packed_weight, reduce_range=False):
    return torch._quantized_conv(*packed_weight._arguments(qx), False, reduce_range)


def _teller(name):
    return lambda packed_weight: getattr(packed_weight, name)()


def _make_convolutions():
    made = {}
    for dims in _DIMS:
        for base, transposed in (("conv%dd" % dims, False), ("conv_transpose%dd" % dims, True)):
            made[base], made[base + "_dynamic"] = _conv(False), _conv_dynamic
            made[base + "_prepack"] = _prepack(dims, transposed)
            for name in ("unpack", "stride", "padding", "output_padding", "dilation", "groups", "transpose"):
                made["%s_%s" % (base, name)] = _teller(name)
        made["conv%dd_relu" % dims] = _conv(True)
        made["conv%dd_add" % dims], made["conv%dd_add_relu" % dims] = _conv_add(False), _conv_add(True)
    return made


# ---- embeddings

def embedding_prepack(weight):
    """A quantized weight for the operators of embeddings."""
    return EmbeddingPackedParamsBase(weight)


embedding_bag_prepack = embedding_prepack


def embedding_unpack(W_prepack):
    """The weight."""
    return W_prepack.unpack()


embedding_bag_unpack = embedding_unpack


def embedding_byte(weight, indices, pruned_weights=False):
    """Rows of the weight as numbers."""
    return torch._quantized_embedding(weight._weight, indices)


embedding_4bit = embedding_byte


def _bag(rows, indices, offsets, mode, per_sample_weights, include_last_offset):
    places = torch.arange(indices.numel()).reshape(indices.shape)
    return torch.nn.functional.embedding_bag(places, rows.reshape(-1, rows.shape[-1]), offsets if indices.ndim == 1 else None, mode=("sum", "mean", "max")[mode],
                                             per_sample_weights=per_sample_weights, include_last_offset=include_last_offset)


def embedding_bag_byte(weight, indices, offsets=None, scale_grad_by_freq=False, mode=0, pruned_weights=False, per_sample_weights=None,
                       compressed_indices_mapping=None, include_last_offset=False):
    """Sums of rows of the weight."""
    if pruned_weights or compressed_indices_mapping is not None:
        raise NotImplementedError("quantized embeddings with pruned weights are not supported")
    return _bag(torch._quantized_embedding(weight._weight, indices), indices, offsets, mode, per_sample_weights, include_last_offset)


embedding_bag_4bit = embedding_bag_byte


def embedding_bag_byte_prepack(weight):
    """Rows as bytes, each with its own scale and least value behind it (float32)."""
    low, high = weight.float().amin(-1, keepdim=True), weight.float().amax(-1, keepdim=True)
    scale = (high - low) / 255.0
    bytes_ = torch.round((weight.float() - low) * (255.0 / (high - low + 1e-8))).to(torch.uint8)
    return torch.cat([bytes_, torch.cat([scale, low], -1).contiguous().view(torch.uint8)], -1)


def embedding_bag_byte_unpack(weight):
    """The numbers of embedding_bag_byte_prepack()."""
    tail = weight[..., -8:].contiguous().view(torch.float32)
    return weight[..., :-8].float() * tail[..., :1] + tail[..., 1:]


def embedding_bag_byte_rowwise_offsets(weight, indices, offsets=None, scale_grad_by_freq=False, mode=0, pruned_weights=False, per_sample_weights=None,
                                       compressed_indices_mapping=None, include_last_offset=False):
    """Sums of rows of a weight of embedding_bag_byte_prepack()."""
    if pruned_weights or compressed_indices_mapping is not None:
        raise NotImplementedError("quantized embeddings with pruned weights are not supported")
    rows = embedding_bag_byte_unpack(weight.index_select(0, indices.reshape(-1)))
    return _bag(rows, indices, offsets, mode, per_sample_weights, include_last_offset)


# ---- recurrent layers

def make_quantized_cell_params_dynamic(w_ih, w_hh, bias_ih, bias_hh, reduce_range=False):
    """Packed weights of one direction."""
    return CellParamsBase(w_ih, w_hh, bias_ih, bias_hh, reduce_range)


def make_quantized_cell_params_fp16(w_ih, w_hh):
    """The same of weights kept in float16."""
    return CellParamsBase(w_ih, w_hh, w_ih._bias, w_hh._bias, False)


def _lstm_step(gates, state):
    i, f, g, o = gates.chunk(4, 1)
    c = torch.sigmoid(f) * state[1] + torch.sigmoid(i) * torch.tanh(g)
    h = torch.sigmoid(o) * torch.tanh(c)
    return h, c


def _gru_step(inputs, hidden, h):
    (ri, zi, ni), (rh, zh, nh) = inputs.chunk(3, 1), hidden.chunk(3, 1)
    reset, update = torch.sigmoid(ri + rh), torch.sigmoid(zi + zh)
    new = torch.tanh(ni + reset * nh)
    return (h - new) * update + new


def _direction(params, x, state, lstm, reverse):
    """One direction of one layer over x (time, batch, features): outputs and the last state."""
    inputs, outputs = params.linear_ih(x).unbind(0), []
    for gates in reversed(inputs) if reverse else inputs:
        if lstm:
            state = _lstm_step(gates + params.linear_hh(state[0]), state)
        else:
            state = (_gru_step(gates, params.linear_hh(state[0]), state[0]),)
        outputs.append(state[0])
    return torch.stack(outputs[::-1] if reverse else outputs), state


def _recurrent(x, states, params, layers, dropout, train, bidirectional, lstm):
    ways = 2 if bidirectional else 1
    last = []
    for layer in range(layers):
        outputs = []
        for way in range(ways):
            at = layer * ways + way
            y, state = _direction(params[at], x, tuple(s[at] for s in states), lstm, way == 1)
            outputs.append(y)
            last.append(state)
        x = torch.cat(outputs, -1) if ways > 1 else outputs[0]
        if dropout and train and layer + 1 < layers:
            x = torch.nn.functional.dropout(x, dropout, True)
    return (x, *(torch.stack(part) for part in zip(*last)))


def _run(lstm):
    def packed(data, batch_sizes, states, params, has_biases, layers, dropout, train, bidirectional):
        raise NotImplementedError("quantized recurrent layers of packed sequences are not supported: pad them")

    def padded(input, hx, params, has_biases, num_layers, dropout, train, bidirectional, batch_first=False, dtype=None, use_dynamic=False):
        if not isinstance(has_biases, bool):
            return packed(input, hx, params, has_biases, num_layers, dropout, train, bidirectional, batch_first)
        x = input.transpose(0, 1) if batch_first else input
        y, *last = _recurrent(x, hx if lstm else (hx,), params, num_layers, dropout, train, bidirectional, lstm)
        return (y.transpose(0, 1) if batch_first else y, *last)
    return padded


quantized_lstm, quantized_gru = _run(True), _run(False)


def quantized_lstm_cell_dynamic(input, hx, w_ih, w_hh, b_ih=None, b_hh=None):
    """One step of an LSTM with packed weights."""
    return _lstm_step(linear_dynamic(input, w_ih, True) + linear_dynamic(hx[0], w_hh, True), hx)


def quantized_gru_cell_dynamic(input, hx, w_ih, w_hh, b_ih=None, b_hh=None):
    """One step of a GRU with packed weights."""
    return _gru_step(linear_dynamic(input, w_ih, True), linear_dynamic(hx, w_hh, True), hx)


def quantized_rnn_tanh_cell_dynamic(input, hx, w_ih, w_hh, b_ih=None, b_hh=None):
    """One step of a plain recurrent layer with tanh."""
    return torch.tanh(linear_dynamic(input, w_ih, True) + linear_dynamic(hx, w_hh, True))


def quantized_rnn_relu_cell_dynamic(input, hx, w_ih, w_hh, b_ih=None, b_hh=None):
    """One step of a plain recurrent layer with relu."""
    return torch.relu(linear_dynamic(input, w_ih, True) + linear_dynamic(hx, w_hh, True))


OPERATORS = {name: value for name, value in vars(sys.modules[__name__]).items()
             if callable(value) and not name.startswith("_") and not isinstance(value, type)}
OPERATORS.update(_make_convolutions())
del OPERATORS["quantized_lstm"], OPERATORS["quantized_gru"]
for _name, _function in OPERATORS.items():
    if _function.__module__ == __name__ and _function.__name__ not in OPERATORS:
        _function.__name__ = _function.__qualname__ = _name
    _function.__module__ = "torch.ops.quantized"
