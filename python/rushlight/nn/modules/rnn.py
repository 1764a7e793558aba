"""Recurrent layers and cells.

A layer is one call of the operator of its kind with all weights in one flat list, ordered by layer,
direction, and then (w_ih, w_hh, b_ih, b_hh, w_hr).  Batches are plain or packed; plain ones may lack
the batch dimension.
"""
import math
import numbers
import warnings

import rushlight as torch
from rushlight.nn import init
from rushlight.nn.modules.module import Module
from rushlight.nn.parameter import Parameter, maybe_parameter
from rushlight.nn.utils.rnn import PackedSequence

__all__ = ["RNNBase", "RNN", "LSTM", "GRU", "RNNCellBase", "RNNCell", "LSTMCell", "GRUCell"]

# Rows of the weights per hidden unit.
_GATES = {"RNN_TANH": 1, "RNN_RELU": 1, "GRU": 3, "LSTM": 4}


def _apply_permutation(tensor, permutation, dim=1):
    return tensor.index_select(dim, permutation)


def apply_permutation(tensor, permutation, dim=1):
    """The old name of `tensor.index_select(dim, permutation)`."""
    warnings.warn("`apply_permutation` is deprecated, please use `tensor.index_select(dim, permutation)` instead",
                  FutureWarning, stacklevel=2)
    return _apply_permutation(tensor, permutation, dim)


def _layers_and_batch(layer, input, batch_sizes):
    """batch_sizes: of a packed batch, or the first of them; None for a padded one. The batch of a packed one is a tensor."""
    if batch_sizes is not None:
        batch = batch_sizes[0] if batch_sizes.dim() else batch_sizes
    else:
        batch = input.size(0) if layer.batch_first else input.size(1)
    return layer.num_layers * (2 if layer.bidirectional else 1), batch


def _state_shape(layer, input, batch_sizes, width):
    layers, batch = _layers_and_batch(layer, input, batch_sizes)
    return layers, int(batch), width


def _prepare(layer, input):
    """(data, batch sizes, sorted order, original order, whether a batch dimension was added)."""
    layer._update_flat_weights()
    if isinstance(input, PackedSequence):
        return (*input, False)
    if input.dim() not in (2, 3):
        raise ValueError(f"{layer._get_name()}: Expected input to be 2D or 3D, got {input.dim()}D instead")
    if input.dim() == 3:
        return input, None, None, None, False
    return input.unsqueeze(0 if layer.batch_first else 1), None, None, None, True


def _zero_states(layer, input, batch_sizes, *widths):
    layers, batch = _layers_and_batch(layer, input, batch_sizes)
    return tuple(torch.zeros(layers, batch, width, dtype=input.dtype, device=input.device) for width in widths)


def _finish(layer, output, batch_sizes, order, original, unbatched):
    if batch_sizes is not None:
        return PackedSequence(output, batch_sizes, order, original)
    return output.squeeze(0 if layer.batch_first else 1) if unbatched else output


def _run(layer, op, input, state, batch_sizes):
    options = (layer.bias, layer.num_layers, layer.dropout, layer.training, layer.bidirectional)
    if batch_sizes is None:
        return op(input, state, layer._flat_weights, *options, layer.batch_first)
    return op(input, batch_sizes, state, layer._flat_weights, *options)


class RNNBase(Module):
    """What RNN, LSTM and GRU share.

    mode: "LSTM", "GRU", "RNN_TANH" or "RNN_RELU"; input_size, hidden_size, num_layers, bias, batch_first, dropout, bidirectional, proj_size: as
    of LSTM.

    >>> isinstance(nn.LSTM(10, 20), nn.RNNBase)
    True
    """

    __constants__ = ["mode", "input_size", "hidden_size", "num_layers", "bias", "batch_first", "dropout",
                     "bidirectional", "proj_size"]
    __jit_unused_properties__ = ["all_weights"]

    def __init__(self, mode, input_size, hidden_size, num_layers=1, bias=True, batch_first=False, dropout=0.0,
                 bidirectional=False, proj_size=0, device=None, dtype=None):
        super().__init__()
        self.mode, self.num_layers, self.bidirectional = mode, num_layers, bidirectional
        self.input_size, self.hidden_size, self.proj_size = input_size, hidden_size, proj_size
        self.bias, self.batch_first, self.dropout = bias, batch_first, float(dropout)
        self._flat_weight_refs = []
        if not isinstance(dropout, numbers.Number) or isinstance(dropout, bool) or not 0 <= dropout <= 1:
            raise ValueError("dropout should be a number in range [0, 1] representing the probability of an element "
                             "being zeroed")
        if dropout > 0 and num_layers == 1:
            warnings.warn("dropout option adds dropout after all but last recurrent layer, so non-zero dropout "
                          f"expects num_layers greater than 1, but got dropout={dropout} and num_layers={num_layers}",
                          stacklevel=2)
        for name, size in (("input_size", input_size), ("hidden_size", hidden_size)):
            if not isinstance(size, int):
                raise TypeError(f"{name} should be of type int, got: {type(size).__name__}")
            if size <= 0:
                raise ValueError(f"{name} must be greater than zero")
        if num_layers <= 0:
            raise ValueError("num_layers must be greater than zero")
        if proj_size < 0:
            raise ValueError("proj_size should be a positive integer or zero to disable projections")
        if proj_size >= hidden_size:
            raise ValueError("proj_size has to be smaller than hidden_size")
        if mode not in _GATES:
            raise ValueError("Unrecognized RNN mode: " + mode)
        self._flat_weights_names = []
        self._all_weights = []
        rows = _GATES[mode] * hidden_size
        output = proj_size if proj_size > 0 else hidden_size
        directions = 2 if bidirectional else 1
        for layer in range(num_layers):
            width = input_size if layer == 0 else output * directions
            for suffix in ("", "_reverse")[:directions]:
                shapes = [("weight_ih", (rows, width)), ("weight_hh", (rows, output))]
                if bias:
                    shapes += [("bias_ih", (rows,)), ("bias_hh", (rows,))]
                if proj_size > 0:
                    shapes.append(("weight_hr", (proj_size, hidden_size)))
                names = [f"{kind}_l{layer}{suffix}" for kind, _ in shapes]
                for name, (_, shape) in zip(names, shapes):
                    setattr(self, name, Parameter(torch.empty(shape, device=device, dtype=dtype)))
                self._flat_weights_names.extend(names)
                self._all_weights.append(names)
        self._init_flat_weights()
        self.reset_parameters()

    def _init_flat_weights(self):
        self._flat_weights = [getattr(self, name, None) for name in self._flat_weights_names]

    def _update_flat_weights(self):
        """The list anew where it must be: functional calls put others in place of the parameters, parametrised weights are none."""
        if self._weights_have_changed():
            self._init_flat_weights()

    def _weights_have_changed(self):
        return any(held is not self._parameters.get(name) for held, name in zip(self._flat_weights, self._flat_weights_names))

    def __setattr__(self, attr, value):
        # A weight that is replaced must be in the flat list too.
        names = self.__dict__.get("_flat_weights_names")
        if names and attr in names and "_flat_weights" in self.__dict__:
            self._flat_weights[names.index(attr)] = value
        super().__setattr__(attr, value)

    def flatten_parameters(self):
        """Lay all weights out in one block; on the CPU there is nothing to win, so nothing happens."""

    def _apply(self, fn, recurse=True):
        self._flat_weight_refs = []
        result = super()._apply(fn, recurse)
        self._init_flat_weights()
        return result

    def reset_parameters(self):
        """Fill all weights uniformly within 1 / sqrt(hidden_size)."""
        bound = 1.0 / math.sqrt(self.hidden_size) if self.hidden_size > 0 else 0
        for weight in self.parameters():
            init.uniform_(weight, -bound, bound)

    def check_input(self, input, batch_sizes):
        """Complain unless the input fits the weights."""
        wanted = 2 if batch_sizes is not None else 3
        kind = input.device.type
        if input.dtype != self._flat_weights[0].dtype and not (torch.amp.is_autocast_available(kind) and torch.is_autocast_enabled(kind)):
            raise ValueError(f"RNN input dtype ({input.dtype}) does not match weight dtype "
                             f"({self._flat_weights[0].dtype}). Convert input: input.to({self._flat_weights[0].dtype}), "
                             f"or convert model: model.to({input.dtype})")
        if input.dim() != wanted:
            raise RuntimeError(f"input must have {wanted} dimensions, got {input.dim()}")
        if self.input_size != input.size(-1):
            raise RuntimeError("input.size(-1) must be equal to input_size. Expected "
                               f"{self.input_size}, got {input.size(-1)}")

    def get_expected_hidden_size(self, input, batch_sizes):
        """The shape that the hidden state must have for this input."""
        return _state_shape(self, input, batch_sizes, self.proj_size if self.proj_size > 0 else self.hidden_size)

    def check_hidden_size(self, hx, expected_hidden_size, msg="Expected hidden size {}, got {}"):
        """Complain unless `hx` has the shape expected."""
        if hx.size() != torch.Size(expected_hidden_size):
            raise RuntimeError(msg.format(expected_hidden_size, list(hx.size())))

    def check_forward_args(self, input, hidden, batch_sizes):
        """Complain unless input and hidden state fit."""
        self.check_input(input, batch_sizes)
        self.check_hidden_size(hidden, self.get_expected_hidden_size(input, batch_sizes))

    def permute_hidden(self, hx, permutation):
        """The hidden state with its batch in another order."""
        return hx if permutation is None else _apply_permutation(hx, permutation)

    def extra_repr(self):
        text = f"{self.input_size}, {self.hidden_size}"
        if self.proj_size != 0:
            text += f", proj_size={self.proj_size}"
        if self.num_layers != 1:
            text += f", num_layers={self.num_layers}"
        if self.bias is not True:
            text += f", bias={self.bias}"
        if self.batch_first is not False:
            text += f", batch_first={self.batch_first}"
        if self.dropout != 0:
            text += f", dropout={self.dropout}"
        if self.bidirectional is not False:
            text += f", bidirectional={self.bidirectional}"
        return text

    def __getstate__(self):
        state = super().__getstate__().copy()
        # The list repeats the parameters; it is made again on arrival.
        for name in ("_flat_weights", "_flat_weight_refs"):
            state.pop(name, None)
        return state

    def __setstate__(self, state):
        super().__setstate__(state)
        if "all_weights" in state:
            self._all_weights = state["all_weights"]
        self.__dict__.setdefault("proj_size", 0)
        if not isinstance(self._all_weights[0][0], str):
            per_direction = 4 if self.bias else 2
            kinds = ["weight_ih", "weight_hh", "bias_ih", "bias_hh"][:per_direction]
            self._all_weights = [[f"{kind}_l{layer}{suffix}" for kind in kinds]
                                 for layer in range(self.num_layers)
                                 for suffix in ("", "_reverse")[:2 if self.bidirectional else 1]]
        self._flat_weights_names = [name for names in self._all_weights for name in names]
        self._flat_weight_refs = []
        self._init_flat_weights()

    @property
    def all_weights(self):
        """The weights, a list for each layer and direction."""
        return [[getattr(self, name) for name in names] for names in self._all_weights]

    def _replicate_for_data_parallel(self):
        replica = super()._replicate_for_data_parallel()
        replica._flat_weights = replica._flat_weights[:]
        replica._flat_weights_names = replica._flat_weights_names[:]
        return replica

    def _one_state_forward(self, op, input, hx):
        """The forward of the kinds whose state is one tensor."""
        input, batch_sizes, order, original, unbatched = _prepare(self, input)
        if unbatched and hx is not None:
            if hx.dim() != 2:
                raise RuntimeError(f"For unbatched 2-D input, hx should also be 2-D but got {hx.dim()}-D tensor")
            hx = hx.unsqueeze(1)
        elif hx is not None and batch_sizes is None and hx.dim() != 3:
            raise RuntimeError(f"For batched 3-D input, hx should also be 3-D but got {hx.dim()}-D tensor")
        if hx is None:
            hx, = _zero_states(self, input, batch_sizes, self.hidden_size)
        else:
            hx = self.permute_hidden(hx, order)
        self.check_forward_args(input, hx, batch_sizes)
        output, hidden = _run(self, op, input, hx, batch_sizes)
        output = _finish(self, output, batch_sizes, order, original, unbatched)
        return output, hidden.squeeze(1) if unbatched else self.permute_hidden(hidden, original)


class RNN(RNNBase):
    """h' = tanh or relu of (W_ih x + b_ih + W_hh h + b_hh).

    input_size, hidden_size: sizes of an input and of a state; num_layers: layers stacked; nonlinearity: "tanh" or "relu"; bias: whether b is
    added; batch_first: (N, L, *) instead of (L, N, *); dropout: between layers, while training; bidirectional: a second set of layers reads
    backwards.
    Shapes: input (L, N, input_size) or (L, input_size); D = 2 if bidirectional, else 1. h0 (D num_layers, N, hidden_size), zeros by default.
    Result (L, N, D hidden_size) and the last state, like h0.

    >>> y, h = nn.RNN(10, 20, num_layers=2)(torch.zeros(5, 3, 10))
    >>> y.shape, h.shape
    (torch.Size([5, 3, 20]), torch.Size([2, 3, 20]))
    """

    def __init__(self, *args, **kwargs):
        if "proj_size" in kwargs:
            raise ValueError("proj_size argument is only supported for LSTM, not RNN or GRU")
        args = list(args)
        # The fourth argument is the nonlinearity, which the base class does not know.
        nonlinearity = args.pop(3) if len(args) > 3 else kwargs.pop("nonlinearity", "tanh")
        if nonlinearity not in ("tanh", "relu"):
            raise ValueError(f"Unknown nonlinearity '{nonlinearity}'. Select from 'tanh' or 'relu'.")
        self.nonlinearity = nonlinearity
        super().__init__("RNN_TANH" if nonlinearity == "tanh" else "RNN_RELU", *args, **kwargs)

    def forward(self, input, hx=None):
        op = torch.rnn_tanh if self.mode == "RNN_TANH" else torch.rnn_relu
        return self._one_state_forward(op, input, hx)


class GRU(RNNBase):
    """The gated recurrent unit.

    input_size, hidden_size: sizes of an input and of a state; num_layers: layers stacked; bias: whether b is added; batch_first: (N, L, *)
    instead of (L, N, *); dropout: between layers, while training; bidirectional: a second set of layers reads backwards.
    Shapes: input (L, N, input_size) or (L, input_size); D = 2 if bidirectional, else 1. h0 (D num_layers, N, hidden_size), zeros by default.
    Result (L, N, D hidden_size) and the last state, like h0.

    >>> y, h = nn.GRU(10, 20, bidirectional=True)(torch.zeros(5, 3, 10))
    >>> y.shape, h.shape
    (torch.Size([5, 3, 40]), torch.Size([2, 3, 20]))
    """

    def __init__(self, *args, **kwargs):
        if "proj_size" in kwargs:
            raise ValueError("proj_size argument is only supported for LSTM, not RNN or GRU")
        super().__init__("GRU", *args, **kwargs)

    def forward(self, input, hx=None):
        return self._one_state_forward(torch.gru, input, hx)


class LSTM(RNNBase):
    """Long short-term memory; the state is a pair (h, c).

    input_size, hidden_size: sizes of an input and of a state; num_layers: layers stacked; bias: whether b is added; batch_first: (N, L, *)
    instead of (L, N, *); dropout: between layers, while training; bidirectional: a second set of layers reads backwards; proj_size: h is
    projected to this size.
    Shapes: input (L, N, input_size) or (L, input_size); D = 2 if bidirectional, else 1. h0 (D num_layers, N, H) and c0 (D num_layers, N,
    hidden_size), zeros by default, H = proj_size or hidden_size. Result (L, N, D H) and the last (h, c).

    >>> y, (h, c) = nn.LSTM(10, 20, batch_first=True)(torch.zeros(3, 5, 10))
    >>> y.shape, h.shape, c.shape
    (torch.Size([3, 5, 20]), torch.Size([1, 3, 20]), torch.Size([1, 3, 20]))
    """

    def __init__(self, *args, **kwargs):
        super().__init__("LSTM", *args, **kwargs)

    def get_expected_cell_size(self, input, batch_sizes):
        """The shape that the cell state must have for this input."""
        return _state_shape(self, input, batch_sizes, self.hidden_size)

    def check_forward_args(self, input, hidden, batch_sizes):
        self.check_input(input, batch_sizes)
        self.check_hidden_size(hidden[0], self.get_expected_hidden_size(input, batch_sizes),
                               "Expected hidden[0] size {}, got {}")
        self.check_hidden_size(hidden[1], self.get_expected_cell_size(input, batch_sizes),
                               "Expected hidden[1] size {}, got {}")

    def permute_hidden(self, hx, permutation):
        if permutation is None:
            return hx
        return _apply_permutation(hx[0], permutation), _apply_permutation(hx[1], permutation)

    def forward(self, input, hx=None):
        input, batch_sizes, order, original, unbatched = _prepare(self, input)
        if hx is None:
            self.check_input(input, batch_sizes)
            hx = _zero_states(self, input, batch_sizes, self.proj_size or self.hidden_size, self.hidden_size)
        else:
            wanted = 2 if unbatched else 3
            if batch_sizes is None and (hx[0].dim() != wanted or hx[1].dim() != wanted):
                kind = "unbatched 2-D" if unbatched else "batched 3-D"
                raise RuntimeError(f"For {kind} input, hx and cx should also be {wanted}-D but got "
                                   f"({hx[0].dim()}-D, {hx[1].dim()}-D) tensors")
            if unbatched:
                hx = (hx[0].unsqueeze(1), hx[1].unsqueeze(1))
            hx = self.permute_hidden(hx, order)
            self.check_forward_args(input, hx, batch_sizes)
        output, h, c = _run(self, torch.lstm, input, hx, batch_sizes)
        output = _finish(self, output, batch_sizes, order, original, unbatched)
        if unbatched:
            return output, (h.squeeze(1), c.squeeze(1))
        return output, self.permute_hidden((h, c), original)


class RNNCellBase(Module):
    """What the cells share.

    input_size, hidden_size, bias: as of RNNCell; num_chunks: how many gates there are, by which weights (num_chunks hidden_size, *) are longer.

    >>> nn.LSTMCell(10, 20).weight_ih.shape
    torch.Size([80, 10])
    """

    __constants__ = ["input_size", "hidden_size", "bias"]

    def __init__(self, input_size, hidden_size, bias, num_chunks, device=None, dtype=None):
        super().__init__()
        made = {"device": device, "dtype": dtype}
        rows = num_chunks * hidden_size
        self.input_size = input_size
        self.hidden_size = hidden_size
        self.bias = bias
        self.weight_ih = Parameter(torch.empty((rows, input_size), **made))
        self.weight_hh = Parameter(torch.empty((rows, hidden_size), **made))
        maybe_parameter(self, "bias_ih", bias, rows, **made)
        maybe_parameter(self, "bias_hh", bias, rows, **made)
        self.reset_parameters()

    def reset_parameters(self):
        """Fill all weights uniformly within 1 / sqrt(hidden_size)."""
        bound = 1.0 / math.sqrt(self.hidden_size) if self.hidden_size > 0 else 0
        for weight in self.parameters():
            init.uniform_(weight, -bound, bound)

    def extra_repr(self):
        text = f"{self.input_size}, {self.hidden_size}"
        if self.bias is not True:
            text += f", bias={self.bias}"
        if getattr(self, "nonlinearity", "tanh") != "tanh":
            text += f", nonlinearity={self.nonlinearity}"
        return text

    def _check_dims(self, what, tensor):
        if tensor.dim() not in (1, 2):
            raise ValueError(f"{type(self).__name__}: Expected {what} to be 1D or 2D, got {tensor.dim()}D instead")

    def _step(self, op, input, hx):
        """One step of a cell whose state is one tensor."""
        self._check_dims("input", input)
        if hx is not None:
            self._check_dims("hidden", hx)
        batched = input.dim() == 2
        if not batched:
            input = input.unsqueeze(0)
        if hx is None:
            hx = torch.zeros(input.size(0), self.hidden_size, dtype=input.dtype, device=input.device)
        elif not batched:
            hx = hx.unsqueeze(0)
        out = op(input, hx, self.weight_ih, self.weight_hh, self.bias_ih, self.bias_hh)
        return out if batched else out.squeeze(0)


class RNNCell(RNNCellBase):
    """One step of an RNN.

    input_size, hidden_size: sizes of an input and of a state; bias: whether b is added; nonlinearity: "tanh" or "relu".
    Shapes: input (N, input_size) or (input_size); state and result (N, hidden_size).

    >>> nn.RNNCell(10, 20)(torch.zeros(3, 10), torch.zeros(3, 20)).shape
    torch.Size([3, 20])
    """

    __constants__ = ["input_size", "hidden_size", "bias", "nonlinearity"]

    def __init__(self, input_size, hidden_size, bias=True, nonlinearity="tanh", device=None, dtype=None):
        super().__init__(input_size, hidden_size, bias, num_chunks=1, device=device, dtype=dtype)
        self.nonlinearity = nonlinearity

    def forward(self, input, hx=None):
        if self.nonlinearity not in ("tanh", "relu"):
            raise RuntimeError(f"Unknown nonlinearity: {self.nonlinearity}")
        op = torch.rnn_tanh_cell if self.nonlinearity == "tanh" else torch.rnn_relu_cell
        return self._step(op, input, hx)


class GRUCell(RNNCellBase):
    """One step of a GRU.

    input_size, hidden_size: sizes of an input and of a state; bias: whether b is added.
    Shapes: input (N, input_size) or (input_size); state and result (N, hidden_size).

    >>> nn.GRUCell(10, 20)(torch.zeros(3, 10)).shape
    torch.Size([3, 20])
    """

    def __init__(self, input_size, hidden_size, bias=True, device=None, dtype=None):
        super().__init__(input_size, hidden_size, bias, num_chunks=3, device=device, dtype=dtype)

    def forward(self, input, hx=None):
        return self._step(torch.gru_cell, input, hx)


class LSTMCell(RNNCellBase):
    """One step of an LSTM.

    input_size, hidden_size: sizes of an input and of a state; bias: whether b is added.
    Shapes: input (N, input_size) or (input_size); state and result are pairs (h, c) of (N, hidden_size).

    >>> h, c = nn.LSTMCell(10, 20)(torch.zeros(3, 10))
    >>> h.shape, c.shape
    (torch.Size([3, 20]), torch.Size([3, 20]))
    """

    def __init__(self, input_size, hidden_size, bias=True, device=None, dtype=None):
        super().__init__(input_size, hidden_size, bias, num_chunks=4, device=device, dtype=dtype)

    def forward(self, input, hx=None):
        self._check_dims("input", input)
        if hx is not None:
            for place, value in enumerate(hx):
                if value.dim() not in (1, 2):
                    raise ValueError(f"LSTMCell: Expected hx[{place}] to be 1D or 2D, got {value.dim()}D instead")
        batched = input.dim() == 2
        if not batched:
            input = input.unsqueeze(0)
        if hx is None:
            zeros = torch.zeros(input.size(0), self.hidden_size, dtype=input.dtype, device=input.device)
            hx = (zeros, zeros)
        elif not batched:
            hx = (hx[0].unsqueeze(0), hx[1].unsqueeze(0))
        h, c = torch.lstm_cell(input, hx, self.weight_ih, self.weight_hh, self.bias_ih, self.bias_hh)
        return (h, c) if batched else (h.squeeze(0), c.squeeze(0))
