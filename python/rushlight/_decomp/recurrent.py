"""Rules of recurrent layers: the products of all steps' inputs first, then a step after the other."""
import rushlight as torch

from . import rule
from .products import linear

aten = torch.ops.aten


def _gates(x, n):
    return x.chunk(n, 1)


def _lstm_step(x, state, w, b):
    h, c = state
    i, f, g, o = _gates(linear(h, w, b) + x, 4)
    c = f.sigmoid() * c + i.sigmoid() * g.tanh()
    return o.sigmoid() * c.tanh(), c


def _gru_step(x, state, w, b):
    h, = state
    (xr, xz, xn), (hr, hz, hn) = _gates(x, 3), _gates(linear(h, w, b), 3)
    r, z = (hr + xr).sigmoid(), (hz + xz).sigmoid()
    n = (xn + hn * r).tanh()
    return (h - n) * z + n,


def _elman_step(activation):
    return lambda x, state, w, b: (activation(linear(state[0], w, b) + x),)


def _one_direction(step, input, state, weights, has_biases, reverse):
    w, u, *biases = weights
    b, d = biases[:2] if has_biases else (None, None)
    outputs = []
    for x in linear(input.flip(0) if reverse else input, w, b).unbind(0):
        state = step(x, state, u, d)
        outputs.append(state[0])
    outputs = torch.stack(outputs, 0)
    return outputs.flip(0) if reverse else outputs, state


def _layers(step, input, states, params, has_biases, num_layers, dropout, train, bidirectional, batch_first):
    """`states`: (layers * directions, batch, hidden) each. Projections of hidden states are left to the library."""
    each = 4 if has_biases else 2
    directions = 2 if bidirectional else 1
    if len(params) != each * num_layers * directions or input.dim() != 3 or not input.shape[0 if not batch_first else 1]:
        return NotImplemented
    x = input.transpose(0, 1) if batch_first else input
    states, last = list(zip(*(s.unbind(0) for s in states))), []
    for layer in range(num_layers):
        outputs = []
        for k in range(directions):
            at = layer * directions + k
            out, state = _one_direction(step, x, states[at], params[each * at:each * at + each], has_biases, k == 1)
            outputs.append(out)
            last.append(state)
        x = torch.cat(outputs, 2) if bidirectional else outputs[0]
        if dropout and train and layer < num_layers - 1:
            x = aten.native_dropout.default(x, dropout, True)[0]
    last = [torch.cat([h.unsqueeze(0) for h in kind], 0) for kind in zip(*last)]
    return (x.transpose(0, 1) if batch_first else x, *last)


@rule("lstm.input")
def lstm(input, hx, params, has_biases, num_layers, dropout, train, bidirectional, batch_first):
    return _layers(_lstm_step, input, hx, params, has_biases, num_layers, dropout, train, bidirectional, batch_first)


def _of_one_state(step):
    def layer(input, hx, params, has_biases, num_layers, dropout, train, bidirectional, batch_first):
        return _layers(step, input, [hx], params, has_biases, num_layers, dropout, train, bidirectional, batch_first)
    return layer


rule("gru.input")(_of_one_state(_gru_step))
rule("rnn_tanh.input")(_of_one_state(_elman_step(torch.tanh)))
rule("rnn_relu.input")(_of_one_state(_elman_step(torch.relu)))


@rule("lstm_cell")
def lstm_cell(input, hx, w_ih, w_hh, b_ih=None, b_hh=None):
    return _lstm_step(linear(input, w_ih, b_ih), hx, w_hh, b_hh)


def _cell(step):
    return lambda input, hx, w_ih, w_hh, b_ih=None, b_hh=None: step(linear(input, w_ih, b_ih), [hx], w_hh, b_hh)[0]


rule("gru_cell")(_cell(_gru_step))
rule("rnn_tanh_cell")(_cell(_elman_step(torch.tanh)))
rule("rnn_relu_cell")(_cell(_elman_step(torch.relu)))
