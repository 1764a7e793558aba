"""The transformer of "Attention is all you need": encoder, decoder, and their layers."""
import copy
import warnings

import rushlight as torch
from rushlight.nn import functional as F
from rushlight.nn.init import xavier_uniform_
from rushlight.nn.modules.activation import MultiheadAttention
from rushlight.nn.modules.container import ModuleList
from rushlight.nn.modules.dropout import Dropout
from rushlight.nn.modules.linear import Linear
from rushlight.nn.modules.module import Module
from rushlight.nn.modules.normalization import LayerNorm

__all__ = ["Transformer", "TransformerEncoder", "TransformerDecoder", "TransformerEncoderLayer",
           "TransformerDecoderLayer"]


def _generate_square_subsequent_mask(sz, device=None, dtype=None):
    """A mask that keeps every position from what comes after it."""
    return torch.triu(torch.full((sz, sz), float("-inf"), dtype=dtype, device=device), diagonal=1)


def _get_seq_len(src, batch_first):
    if src.is_nested:
        return None
    sizes = src.size()
    if len(sizes) == 2:
        return sizes[0]
    return sizes[1 if batch_first else 0]


def _get_clones(module, N):
    return ModuleList([copy.deepcopy(module) for _ in range(N)])


def _get_activation_fn(activation):
    if activation == "relu":
        return F.relu
    if activation == "gelu":
        return F.gelu
    raise RuntimeError(f"activation should be relu/gelu, not {activation}")


def _detect_is_causal_mask(mask, is_causal=None, size=None):
    """Whether a mask is the causal one, or what the caller says about it."""
    if is_causal is not None:
        return is_causal
    if mask is None:
        return False
    extent = size if size is not None else mask.size(-2)
    causal = _generate_square_subsequent_mask(extent, device=mask.device, dtype=mask.dtype)
    return mask.size() == causal.size() and bool((mask == causal).all())


class Transformer(Module):
    """Encoder and decoder.

    num_encoder_layers, num_decoder_layers: how many layers; custom_encoder, custom_decoder: modules in their place. d_model: E, the size of an
    element; nhead: heads of attention, a divisor of it; dim_feedforward: the inner size of the feed-forward network; dropout: while training;
    activation: "relu", "gelu" or a function; layer_norm_eps: eps of normalisations; batch_first: (N, L, E) instead of (L, N, E); norm_first:
    normalise before each part instead of after; bias: of linear layers and normalisations.
    Shapes: src (S, N, E), tgt (T, N, E); result like tgt.

    >>> nn.Transformer(d_model=8, nhead=2, num_encoder_layers=1, num_decoder_layers=1)(torch.zeros(5, 3, 8), torch.zeros(4, 3, 8)).shape
    torch.Size([4, 3, 8])
    """

    def __init__(self, d_model=512, nhead=8, num_encoder_layers=6, num_decoder_layers=6, dim_feedforward=2048,
                 dropout=0.1, activation=F.relu, custom_encoder=None, custom_decoder=None, layer_norm_eps=1e-5,
                 batch_first=False, norm_first=False, bias=True, device=None, dtype=None):
        super().__init__()
        made = {"device": device, "dtype": dtype}
        common = (d_model, nhead, dim_feedforward, dropout, activation, layer_norm_eps, batch_first, norm_first, bias)
        if custom_encoder is not None:
            self.encoder = custom_encoder
        else:
            layer = TransformerEncoderLayer(*common, **made)
            self.encoder = TransformerEncoder(layer, num_encoder_layers,
                                              LayerNorm(d_model, eps=layer_norm_eps, bias=bias, **made))
        if custom_decoder is not None:
            self.decoder = custom_decoder
        else:
            layer = TransformerDecoderLayer(*common, **made)
            self.decoder = TransformerDecoder(layer, num_decoder_layers,
                                              LayerNorm(d_model, eps=layer_norm_eps, bias=bias, **made))
        self._reset_parameters()
        self.d_model = d_model
        self.nhead = nhead
        self.batch_first = batch_first

    def forward(self, src, tgt, src_mask=None, tgt_mask=None, memory_mask=None, src_key_padding_mask=None,
                tgt_key_padding_mask=None, memory_key_padding_mask=None, src_is_causal=None, tgt_is_causal=None,
                memory_is_causal=False):
        batched = src.dim() == 3
        if batched and src.size(0 if self.batch_first else 1) != tgt.size(0 if self.batch_first else 1):
            raise RuntimeError("the batch number of src and tgt must be equal")
        if src.size(-1) != self.d_model or tgt.size(-1) != self.d_model:
            raise RuntimeError("the feature number of src and tgt must be equal to d_model")
        memory = self.encoder(src, mask=src_mask, src_key_padding_mask=src_key_padding_mask, is_causal=src_is_causal)
        return self.decoder(tgt, memory, tgt_mask=tgt_mask, memory_mask=memory_mask,
                            tgt_key_padding_mask=tgt_key_padding_mask,
                            memory_key_padding_mask=memory_key_padding_mask, tgt_is_causal=tgt_is_causal,
                            memory_is_causal=memory_is_causal)

    @staticmethod
    def generate_square_subsequent_mask(sz, device=None, dtype=None):
        """A mask that keeps every position from what comes after it."""
        return _generate_square_subsequent_mask(sz, dtype=dtype, device=device)

    def _reset_parameters(self):
        for p in self.parameters():
            if p.dim() > 1:
                xavier_uniform_(p)


class TransformerEncoder(Module):
    """A stack of encoder layers.

    encoder_layer: the layer that is copied num_layers times; norm: a module applied at the end, or None; enable_nested_tensor, mask_check:
    whether padded batches may be computed without their padding.
    Shapes: src (L, N, E), mask (L, L), src_key_padding_mask (N, L); result like src.

    >>> nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2, batch_first=True), 2)(torch.zeros(3, 5, 8)).shape
    torch.Size([3, 5, 8])
    """

    __constants__ = ["norm"]

    def __init__(self, encoder_layer, num_layers, norm=None, enable_nested_tensor=True, mask_check=True):
        super().__init__()
        self.layers = _get_clones(encoder_layer, num_layers)
        self.num_layers = num_layers
        self.norm = norm
        self.enable_nested_tensor = enable_nested_tensor
        # Whether padding is left out in inference. Here it is computed like the rest, and then made the zeros that PyTorch returns for it.
        self.use_nested_tensor = enable_nested_tensor
        self.mask_check = mask_check
        if enable_nested_tensor:
            reason = self._why_no_nested_tensors(encoder_layer)
            if reason:
                self.use_nested_tensor = False
                warnings.warn(f"enable_nested_tensor is True, but self.use_nested_tensor is False because {reason}",
                              stacklevel=2)

    @staticmethod
    def _why_no_nested_tensors(layer):
        if not isinstance(layer, TransformerEncoderLayer):
            return "encoder_layer is not TransformerEncoderLayer"
        if layer.norm_first:
            return "encoder_layer.norm_first was True"
        if not layer.self_attn.batch_first:
            return ("encoder_layer.self_attn.batch_first was not True"
                    "(use batch_first for better inference performance)")
        if not layer.self_attn._qkv_same_embed_dim:
            return "encoder_layer.self_attn._qkv_same_embed_dim was not True"
        if layer.self_attn.in_proj_bias is None:
            return "encoder_layer.self_attn was passed bias=False"
        if not layer.activation_relu_or_gelu:
            return "encoder_layer.activation_relu_or_gelu was not True"
        if layer.norm1.eps != layer.norm2.eps:
            return "encoder_layer.norm1.eps was not equal to encoder_layer.norm2.eps"
        if layer.self_attn.num_heads % 2 == 1:
            return "encoder_layer.self_attn.num_heads is odd"
        return ""

    def forward(self, src, mask=None, src_key_padding_mask=None, is_causal=None):
        src_key_padding_mask = F._canonical_mask(src_key_padding_mask, "src_key_padding_mask", F._none_or_dtype(mask),
                                                 "mask", src.dtype)
        mask = F._canonical_mask(mask, "mask", None, "", src.dtype, False)
        output = src
        batch_first = self.layers[0].self_attn.batch_first
        is_causal = _detect_is_causal_mask(mask, is_causal, _get_seq_len(src, batch_first))
        for layer in self.layers:
            output = layer(output, src_mask=mask, is_causal=is_causal, src_key_padding_mask=src_key_padding_mask)
        if self._leaves_out_padding(src, mask, src_key_padding_mask):
            output = output.masked_fill(src_key_padding_mask.bool().unsqueeze(-1), 0)
        return output if self.norm is None else self.norm(output)

    def _leaves_out_padding(self, src, mask, padding):
        if padding is None or mask is not None or not self.use_nested_tensor or self.layers[0].training or src.dim() != 3:
            return False
        if torch.is_autocast_enabled() or torch.is_grad_enabled() and (
                src.requires_grad or any(p.requires_grad for p in self.layers[0].parameters())):
            return False
        return not (padding.bool()[:, :-1] > padding.bool()[:, 1:]).any()  # padding stands behind


class TransformerDecoder(Module):
    """A stack of decoder layers.

    decoder_layer: the layer that is copied num_layers times; norm: a module applied at the end, or None.
    Shapes: tgt (T, N, E), memory (S, N, E); result like tgt.

    >>> nn.TransformerDecoder(nn.TransformerDecoderLayer(8, 2), 2)(torch.zeros(4, 3, 8), torch.zeros(5, 3, 8)).shape
    torch.Size([4, 3, 8])
    """

    __constants__ = ["norm"]

    def __init__(self, decoder_layer, num_layers, norm=None):
        super().__init__()
        self.layers = _get_clones(decoder_layer, num_layers)
        self.num_layers = num_layers
        self.norm = norm

    def forward(self, tgt, memory, tgt_mask=None, memory_mask=None, tgt_key_padding_mask=None,
                memory_key_padding_mask=None, tgt_is_causal=None, memory_is_causal=False):
        output = tgt
        seq_len = _get_seq_len(tgt, self.layers[0].self_attn.batch_first)
        tgt_is_causal = _detect_is_causal_mask(tgt_mask, tgt_is_causal, seq_len)
        for layer in self.layers:
            output = layer(output, memory, tgt_mask=tgt_mask, memory_mask=memory_mask,
                           tgt_key_padding_mask=tgt_key_padding_mask,
                           memory_key_padding_mask=memory_key_padding_mask, tgt_is_causal=tgt_is_causal,
                           memory_is_causal=memory_is_causal)
        return output if self.norm is None else self.norm(output)


class _Layer(Module):
    """The feed-forward half that encoder and decoder layers share."""

    __constants__ = ["norm_first"]

    def _ff_block(self, x):
        x = self.linear2(self.dropout(self.activation(self.linear1(x))))
        return self._last_dropout(x)

    def __setstate__(self, state):
        super().__setstate__(state)
        if not hasattr(self, "activation"):
            self.activation = F.relu


class TransformerEncoderLayer(_Layer):
    """Self-attention and a feed-forward network, each with a shortcut and a normalisation.

    d_model: E, the size of an element; nhead: heads of attention, a divisor of it; dim_feedforward: the inner size of the feed-forward network;
    dropout: while training; activation: "relu", "gelu" or a function; layer_norm_eps: eps of normalisations; batch_first: (N, L, E) instead of
    (L, N, E); norm_first: normalise before each part instead of after; bias: of linear layers and normalisations.
    Shapes: src (L, N, E), src_mask (L, L), src_key_padding_mask (N, L); result like src.

    >>> nn.TransformerEncoderLayer(8, 2)(torch.zeros(5, 3, 8)).shape
    torch.Size([5, 3, 8])
    """

    def __init__(self, d_model, nhead, dim_feedforward=2048, dropout=0.1, activation=F.relu, layer_norm_eps=1e-5,
                 batch_first=False, norm_first=False, bias=True, device=None, dtype=None):
        super().__init__()
        made = {"device": device, "dtype": dtype}
        self.self_attn = MultiheadAttention(d_model, nhead, dropout=dropout, bias=bias, batch_first=batch_first,
                                            **made)
        self.linear1 = Linear(d_model, dim_feedforward, bias=bias, **made)
        self.dropout = Dropout(dropout)
        self.linear2 = Linear(dim_feedforward, d_model, bias=bias, **made)
        self.norm_first = norm_first
        self.norm1 = LayerNorm(d_model, eps=layer_norm_eps, bias=bias, **made)
        self.norm2 = LayerNorm(d_model, eps=layer_norm_eps, bias=bias, **made)
        self.dropout1 = Dropout(dropout)
        self.dropout2 = Dropout(dropout)
        if isinstance(activation, str):
            activation = _get_activation_fn(activation)
        # 1 relu, 2 gelu, 0 anything else.
        name = getattr(activation, "__name__", type(activation).__name__).lower()
        self.activation_relu_or_gelu = 1 if name == "relu" else 2 if name == "gelu" else 0
        self.activation = activation

    def _last_dropout(self, x):
        return self.dropout2(x)

    def forward(self, src, src_mask=None, src_key_padding_mask=None, is_causal=False):
        src_key_padding_mask = F._canonical_mask(src_key_padding_mask, "src_key_padding_mask",
                                                 F._none_or_dtype(src_mask), "src_mask", src.dtype)
        src_mask = F._canonical_mask(src_mask, "src_mask", None, "", src.dtype, False)
        x = src
        if self.norm_first:
            x = x + self._attended(self.norm1(x), src_mask, src_key_padding_mask, is_causal)
            return x + self._ff_block(self.norm2(x))
        x = self.norm1(x + self._attended(x, src_mask, src_key_padding_mask, is_causal))
        return self.norm2(x + self._ff_block(x))

    def _attended(self, x, src_mask, src_key_padding_mask, is_causal):
        out = self._sa_block(x, src_mask, src_key_padding_mask, is_causal=is_causal)
        if (src_mask is None and src_key_padding_mask is None) or x.dim() != 3 or not self.activation_relu_or_gelu:
            return out
        attention = self.self_attn
        fused = type(attention) is MultiheadAttention and not attention._why_not_fused(x, x, x)
        return attention._unseeing(out, src_key_padding_mask, src_mask) if fused else out

    def _sa_block(self, x, attn_mask, key_padding_mask, is_causal=False):
        x = self.self_attn(x, x, x, attn_mask=attn_mask, key_padding_mask=key_padding_mask, need_weights=False,
                           is_causal=is_causal)[0]
        return self.dropout1(x)


class TransformerDecoderLayer(_Layer):
    """Self-attention, attention to the encoder's output, and a feed-forward network.

    d_model: E, the size of an element; nhead: heads of attention, a divisor of it; dim_feedforward: the inner size of the feed-forward network;
    dropout: while training; activation: "relu", "gelu" or a function; layer_norm_eps: eps of normalisations; batch_first: (N, L, E) instead of
    (L, N, E); norm_first: normalise before each part instead of after; bias: of linear layers and normalisations.
    Shapes: tgt (T, N, E), memory (S, N, E), tgt_mask (T, T), memory_mask (T, S); result like tgt.

    >>> nn.TransformerDecoderLayer(8, 2)(torch.zeros(4, 3, 8), torch.zeros(5, 3, 8)).shape
    torch.Size([4, 3, 8])
    """

    def __init__(self, d_model, nhead, dim_feedforward=2048, dropout=0.1, activation=F.relu, layer_norm_eps=1e-5,
                 batch_first=False, norm_first=False, bias=True, device=None, dtype=None):
        super().__init__()
        made = {"device": device, "dtype": dtype}
        self.self_attn = MultiheadAttention(d_model, nhead, dropout=dropout, batch_first=batch_first, bias=bias,
                                            **made)
        self.multihead_attn = MultiheadAttention(d_model, nhead, dropout=dropout, batch_first=batch_first, bias=bias,
                                                 **made)
        self.linear1 = Linear(d_model, dim_feedforward, bias=bias, **made)
        self.dropout = Dropout(dropout)
        self.linear2 = Linear(dim_feedforward, d_model, bias=bias, **made)
        self.norm_first = norm_first
        self.norm1 = LayerNorm(d_model, eps=layer_norm_eps, bias=bias, **made)
        self.norm2 = LayerNorm(d_model, eps=layer_norm_eps, bias=bias, **made)
        self.norm3 = LayerNorm(d_model, eps=layer_norm_eps, bias=bias, **made)
        self.dropout1 = Dropout(dropout)
        self.dropout2 = Dropout(dropout)
        self.dropout3 = Dropout(dropout)
        self.activation = _get_activation_fn(activation) if isinstance(activation, str) else activation

    def _last_dropout(self, x):
        return self.dropout3(x)

    def forward(self, tgt, memory, tgt_mask=None, memory_mask=None, tgt_key_padding_mask=None,
                memory_key_padding_mask=None, tgt_is_causal=False, memory_is_causal=False):
        x = tgt
        own = (tgt_mask, tgt_key_padding_mask, tgt_is_causal)
        other = (memory, memory_mask, memory_key_padding_mask, memory_is_causal)
        if self.norm_first:
            x = x + self._sa_block(self.norm1(x), *own)
            x = x + self._mha_block(self.norm2(x), *other)
            return x + self._ff_block(self.norm3(x))
        x = self.norm1(x + self._sa_block(x, *own))
        x = self.norm2(x + self._mha_block(x, *other))
        return self.norm3(x + self._ff_block(x))

    def _sa_block(self, x, attn_mask, key_padding_mask, is_causal=False):
        x = self.self_attn(x, x, x, attn_mask=attn_mask, key_padding_mask=key_padding_mask, is_causal=is_causal,
                           need_weights=False)[0]
        return self.dropout1(x)

    def _mha_block(self, x, mem, attn_mask, key_padding_mask, is_causal=False):
        x = self.multihead_attn(x, mem, mem, attn_mask=attn_mask, key_padding_mask=key_padding_mask,
                                is_causal=is_causal, need_weights=False)[0]
        return self.dropout2(x)
