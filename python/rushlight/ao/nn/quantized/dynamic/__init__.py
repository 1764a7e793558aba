"""Layers whose weights are quantized, and whose inputs are quantized by their own range each time."""
import rushlight as torch
from rushlight import nn
from rushlight.ao.nn import quantized as nnq
from rushlight.ao.nn.quantized.layers import LinearPackedParams, quantized_weight

__all__ = ["Linear", "LSTM", "GRU", "LSTMCell", "RNNCell", "GRUCell", "Conv1d", "Conv2d", "Conv3d", "ConvTranspose1d", "ConvTranspose2d", "ConvTranspose3d"]


def _weight_observer(mod):
    from rushlight.ao.quantization.qconfig import default_dynamic_qconfig
    config = getattr(mod, "qconfig", None)
    return (config.weight if config is not None and config.weight is not None else default_dynamic_qconfig.weight)()


def _quantized_or_plain(weight, observer):
    """A weight as its observer says: on a grid, or as it is for float16."""
    if observer.dtype == torch.float16:
        return weight.float()
    return quantized_weight(weight, observer)


class Linear(nnq.Linear):
    """A linear layer of float inputs."""

    _version = 4

    def __init__(self, in_features, out_features, bias_=True, dtype=torch.qint8):
        super().__init__(in_features, out_features, bias_, dtype=dtype)
        self.version = self._version

    def forward(self, x):
        ops, packed = torch.ops.quantized, self._packed_params._packed_params
        if self._packed_params.dtype == torch.float16:
            return ops.linear_dynamic_fp16(x, packed)
        return ops.linear_dynamic(x, packed) if self.version is None or self.version < 4 else ops.linear_dynamic(x, packed, reduce_range=True)

    def _get_name(self):
        return "DynamicQuantizedLinear"

    def extra_repr(self):
        text = "in_features=%s, out_features=%s, dtype=%s" % (self.in_features, self.out_features, self._packed_params.dtype)
        return text + (", qscheme=%s" % self.weight().qscheme() if self._packed_params.dtype == torch.qint8 else "")

    def _load_from_state_dict(self, state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs):
        self.version = local_metadata.get("version")
        super()._load_from_state_dict(state_dict, prefix, local_metadata, False, missing_keys, unexpected_keys, error_msgs)

    @classmethod
    def from_float(cls, mod, use_precomputed_fake_quant=False):
        """The quantized layer of a float one."""
        if not hasattr(mod, "qconfig"):
            raise AssertionError("Input float module must have qconfig defined")
        config = mod.qconfig
        if isinstance(mod, nn.Sequential):  # with relu behind it
            mod = mod[0]
        if config is not None and config.weight is not None:
            observer = config.weight()
        else:
            observer = _weight_observer(mod)
        if observer.dtype not in (torch.qint8, torch.float16):
            raise AssertionError("The only supported dtypes for dynamic quantized linear are qint8 and float16 got: %s" % observer.dtype)
        observer(mod.weight)
        made = cls(mod.in_features, mod.out_features, dtype=observer.dtype)
        made.set_weight_bias(_quantized_or_plain(mod.weight, observer), mod.bias)
        return made

    @classmethod
    def from_reference(cls, ref_qlinear):
        """The quantized layer of a reference one."""
        made = cls(ref_qlinear.in_features, ref_qlinear.out_features, dtype=ref_qlinear.weight_dtype)
        made.set_weight_bias(ref_qlinear.get_quantized_weight(), ref_qlinear.bias)
        return made


def _conv(base, name):
    def forward(self, input, reduce_range=True):
        return getattr(torch.ops.quantized, "conv%s%dd_dynamic" % ("_transpose" if self._transposed else "", self._dims))(input, self._packed_params, reduce_range)
    return type(name, (base,), {"__module__": __name__, "__doc__": base.__doc__, "forward": forward, "_get_name": lambda self: "DynamicQuantized" + name})


Conv1d, Conv2d, Conv3d = (_conv(getattr(nnq, "Conv%dd" % n), "Conv%dd" % n) for n in (1, 2, 3))
ConvTranspose1d, ConvTranspose2d, ConvTranspose3d = (_conv(getattr(nnq, "ConvTranspose%dd" % n), "ConvTranspose%dd" % n) for n in (1, 2, 3))


# ---- recurrent layers

class PackedParameter(nn.Module):
    """Packed parameters of one direction of a layer."""

    def __init__(self, param):
        super().__init__()
        self.param = param

    def _save_to_state_dict(self, destination, prefix, keep_vars):
        super()._save_to_state_dict(destination, prefix, keep_vars)
        destination[prefix + "param"] = self.param

    def _load_from_state_dict(self, state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs):
        self.param = state_dict.pop(prefix + "param")
        super()._load_from_state_dict(state_dict, prefix, local_metadata, False, missing_keys, unexpected_keys, error_msgs)


class RNNBase(nn.Module):
    """A recurrent layer of float inputs with quantized weights."""

    _FLOAT_MODULE = nn.RNNBase
    _version = 2

    def __init__(self, mode, input_size, hidden_size, num_layers=1, bias=True, batch_first=False, dropout=0.0, bidirectional=False, dtype=torch.qint8):
        super().__init__()
        self.mode, self.input_size, self.hidden_size, self.num_layers, self.bias, self.batch_first = mode, input_size, hidden_size, num_layers, bias, batch_first
        self.dropout, self.bidirectional, self.dtype, self.version, self.training = float(dropout), bidirectional, dtype, 2, False
        if mode not in ("LSTM", "GRU"):
            raise ValueError("Unrecognized RNN mode: " + mode)
        gates, ways = {"LSTM": 4, "GRU": 3}[mode] * hidden_size, 2 if bidirectional else 1
        cells = []
        for layer in range(num_layers):
            for _ in range(ways):
                shapes = (gates, input_size if layer == 0 else hidden_size * ways), (gates, hidden_size)
                cells.append(PackedParameter(self._cell([torch.zeros(shape) for shape in shapes], [torch.zeros(gates), torch.zeros(gates)], None)))
        self._all_weight_values = nn.ModuleList(cells)

    def _cell(self, weights, biases, observers):
        ops = torch.ops.quantized
        if self.dtype == torch.float16:
            return ops.make_quantized_cell_params_fp16(*(ops.linear_prepack_fp16(w, b) for w, b in zip(weights, biases)))
        quantized = [torch.quantize_per_tensor(w, 1.0, 0, torch.qint8) if observers is None else quantized_weight(w, o)
                     for w, o in zip(weights, observers or (None, None))]
        return ops.make_quantized_cell_params_dynamic(*(ops.linear_prepack(w, b) for w, b in zip(quantized, biases)), *biases, True)

    def _get_name(self):
        return "DynamicQuantizedRNN"

    def extra_repr(self):
        s = "{input_size}, {hidden_size}"
        for name, usual in (("num_layers", 1), ("bias", True), ("batch_first", False), ("dropout", 0), ("bidirectional", False)):
            if getattr(self, name) != usual:
                s += ", %s={%s}" % (name, name)
        return s.format(**self.__dict__)

    def __repr__(self):
        return "%s(%s)" % (self._get_name(), self.extra_repr())

    def check_input(self, input, batch_sizes):
        """Is the input of the layer's size?"""
        wanted = 2 if batch_sizes is not None else 3
        if input.dim() != wanted:
            raise RuntimeError("input must have %d dimensions, got %d" % (wanted, input.dim()))
        if self.input_size != input.size(-1):
            raise RuntimeError("input.size(-1) must be equal to input_size. Expected %d, got %d" % (self.input_size, input.size(-1)))

    def _zeros(self, batch):
        return torch.zeros(self.num_layers * (2 if self.bidirectional else 1), batch, self.hidden_size)

    def _params(self):
        return [m.param for m in self._all_weight_values]

    def set_weight_bias(self, weight_bias_dict):
        """Packs other quantized weights and biases, by name."""
        for number, (layer, suffix) in enumerate((layer, "l%d%s" % (layer, way)) for layer in range(self.num_layers)
                                                 for way in (("", "_reverse") if self.bidirectional else ("",))):
            ops, at = torch.ops.quantized, "{}_{}_" + suffix
            pair = [ops.linear_prepack(weight_bias_dict[at.format("weight", which)], weight_bias_dict[at.format("bias", which)]) for which in ("ih", "hh")]
            self._all_weight_values[number].param = ops.make_quantized_cell_params_dynamic(*pair, *(p.bias() for p in pair), True)

    @classmethod
    def from_float(cls, mod, use_precomputed_fake_quant=False):
        """The quantized layer of a float one."""
        if not hasattr(mod, "qconfig"):
            raise AssertionError("Input float module must have qconfig defined")
        dtype = _weight_observer(mod).dtype
        if dtype not in (torch.qint8, torch.float16):
            raise RuntimeError("Unsupported dtype for dynamic RNN quantization: %s" % dtype)
        made = cls(mod.input_size, mod.hidden_size, mod.num_layers, mod.bias, mod.batch_first, mod.dropout, mod.bidirectional, dtype=dtype)
        if not mod.bias:
            raise AssertionError("Bias is required to be True")
        cells = []
        for layer in range(mod.num_layers):
            for way in ("", "_reverse") if mod.bidirectional else ("",):
                weights, biases = ([getattr(mod, "%s_%s_l%d%s" % (kind, which, layer, way)) for which in ("ih", "hh")] for kind in ("weight", "bias"))
                observers = [_weight_observer(mod) for _ in weights]
                for weight, observer in zip(weights, observers):
                    observer(weight)
                cells.append(PackedParameter(made._cell(weights, biases, observers)))
        made._all_weight_values = nn.ModuleList(cells)
        return made


class LSTM(RNNBase):
    """LSTM of float inputs with quantized weights."""

    _FLOAT_MODULE = nn.LSTM

    def __init__(self, *args, **kwargs):
        super().__init__("LSTM", *args, **kwargs)

    def _get_name(self):
        return "DynamicQuantizedLSTM"

    def forward(self, input, hx=None):
        """Outputs and the last states."""
        self.check_input(input, None)
        if hx is None:
            zeros = self._zeros(input.size(0 if self.batch_first else 1))
            hx = (zeros, zeros)
        y, h, c = torch.quantized_lstm(input, hx, self._params(), self.bias, self.num_layers, self.dropout, self.training, self.bidirectional, self.batch_first,
                                       dtype=self.dtype, use_dynamic=True)
        return y, (h, c)


class GRU(RNNBase):
    """GRU of float inputs with quantized weights."""

    _FLOAT_MODULE = nn.GRU

    def __init__(self, *args, **kwargs):
        super().__init__("GRU", *args, **kwargs)

    def _get_name(self):
        return "DynamicQuantizedGRU"

    def forward(self, input, hx=None):
        """Outputs and the last state."""
        self.check_input(input, None)
        if hx is None:
            hx = self._zeros(input.size(0 if self.batch_first else 1))
        return torch.quantized_gru(input, hx, self._params(), self.bias, self.num_layers, self.dropout, self.training, self.bidirectional, self.batch_first)


class RNNCellBase(nn.Module):
    """One step of a recurrent layer, of float inputs with quantized weights."""

    def __init__(self, input_size, hidden_size, bias=True, num_chunks=4, dtype=torch.qint8):
        super().__init__()
        self.input_size, self.hidden_size, self.bias, self.weight_dtype = input_size, hidden_size, bias, dtype
        self.bias_ih, self.bias_hh = (torch.zeros(num_chunks * hidden_size) if bias else None for _ in range(2))
        weights = (torch.quantize_per_tensor(torch.zeros(num_chunks * hidden_size, size), 1.0, 0, torch.qint8) for size in (input_size, hidden_size))
        self._packed_weight_ih, self._packed_weight_hh = map(torch.ops.quantized.linear_prepack, weights, (self.bias_ih, self.bias_hh))

    def _get_name(self):
        return "DynamicQuantizedRNNBase"

    def extra_repr(self):
        s = "{input_size}, {hidden_size}"
        if self.bias is not True:
            s += ", bias={bias}"
        if getattr(self, "nonlinearity", "tanh") != "tanh":
            s += ", nonlinearity={nonlinearity}"
        return s.format(**self.__dict__)

    def get_weight(self):
        """The quantized weights."""
        return {"weight_ih": self._packed_weight_ih.unpack()[0], "weight_hh": self._packed_weight_hh.unpack()[0]}

    def get_bias(self):
        """The biases."""
        return {"bias_ih": self._packed_weight_ih.unpack()[1], "bias_hh": self._packed_weight_hh.unpack()[1]}

    def _more(self):
        return ()

    @classmethod
    def from_float(cls, mod, use_precomputed_fake_quant=False):
        """The quantized cell of a float one."""
        if not mod.bias:
            raise AssertionError("Bias is required to be True")
        made = cls(mod.input_size, mod.hidden_size, mod.bias, *((mod.nonlinearity,) if hasattr(mod, "nonlinearity") else ()), dtype=_weight_observer(mod).dtype)
        for which in ("ih", "hh"):
            weight, bias, observer = getattr(mod, "weight_" + which), getattr(mod, "bias_" + which), _weight_observer(mod)
            observer(weight)
            prepack = torch.ops.quantized.linear_prepack_fp16 if observer.dtype == torch.float16 else torch.ops.quantized.linear_prepack
            setattr(made, "_packed_weight_" + which, prepack(_quantized_or_plain(weight, observer), bias))
        return made

    def _save_to_state_dict(self, destination, prefix, keep_vars):
        super()._save_to_state_dict(destination, prefix, keep_vars)
        destination[prefix + "_packed_weight_ih"], destination[prefix + "_packed_weight_hh"] = self._packed_weight_ih, self._packed_weight_hh

    def _load_from_state_dict(self, state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs):
        self._packed_weight_ih = state_dict.pop(prefix + "_packed_weight_ih")
        self._packed_weight_hh = state_dict.pop(prefix + "_packed_weight_hh")
        super()._load_from_state_dict(state_dict, prefix, local_metadata, False, missing_keys, unexpected_keys, error_msgs)


class LSTMCell(RNNCellBase):
    """One step of an LSTM."""

    def __init__(self, *args, **kwargs):
        super().__init__(*args, num_chunks=4, **kwargs)

    def _get_name(self):
        return "DynamicQuantizedLSTMCell"

    def forward(self, input, hx=None):
        """The next states."""
        if hx is None:
            zeros = torch.zeros(input.size(0), self.hidden_size)
            hx = (zeros, zeros)
        return torch.ops.quantized.quantized_lstm_cell_dynamic(input, hx, self._packed_weight_ih, self._packed_weight_hh, self.bias_ih, self.bias_hh)


class GRUCell(RNNCellBase):
    """One step of a GRU."""

    def __init__(self, input_size, hidden_size, bias=True, dtype=torch.qint8):
        super().__init__(input_size, hidden_size, bias, num_chunks=3, dtype=dtype)

    def _get_name(self):
        return "DynamicQuantizedGRUCell"

    def forward(self, input, hx=None):
        """The next state."""
        if hx is None:
            hx = torch.zeros(input.size(0), self.hidden_size)
        return torch.ops.quantized.quantized_gru_cell_dynamic(input, hx, self._packed_weight_ih, self._packed_weight_hh, self.bias_ih, self.bias_hh)


class RNNCell(RNNCellBase):
    """One step of a plain recurrent layer."""

    def __init__(self, input_size, hidden_size, bias=True, nonlinearity="tanh", dtype=torch.qint8):
        super().__init__(input_size, hidden_size, bias, num_chunks=1, dtype=dtype)
        self.nonlinearity = nonlinearity

    def _get_name(self):
        return "DynamicQuantizedRNNCell"

    def forward(self, input, hx=None):
        """The next state."""
        if hx is None:
            hx = torch.zeros(input.size(0), self.hidden_size)
        if self.nonlinearity not in ("tanh", "relu"):
            raise RuntimeError("Unknown nonlinearity: %s" % self.nonlinearity)
        step = getattr(torch.ops.quantized, "quantized_rnn_%s_cell_dynamic" % self.nonlinearity)
        return step(input, hx, self._packed_weight_ih, self._packed_weight_hh, self.bias_ih, self.bias_hh)
