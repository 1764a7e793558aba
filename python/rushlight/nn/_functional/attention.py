"""Multi-head attention as one function: check, project, attend, project back."""
import math
import warnings

import rushlight as torch
from rushlight.nn._override import handle, overridden


def _none_or_dtype(input):
    if input is None:
        return None
    if isinstance(input, torch.Tensor):
        return input.dtype
    raise RuntimeError("input to _none_or_dtype() must be None or torch.Tensor")


def _canonical_mask(mask, mask_name, other_type, other_name, target_type, check_other=True):
    """A mask as something to add to the scores: True becomes -inf."""
    if mask is None:
        return None
    is_bool = mask.dtype == torch.bool
    if not is_bool and not mask.is_floating_point():
        raise AssertionError(f"only bool and floating types of {mask_name} are supported")
    if check_other and other_type is not None and mask.dtype != other_type:
        warnings.warn(f"Support for mismatched {mask_name} and {other_name} is deprecated. Use same type for both "
                      "instead.", stacklevel=2)
    if not is_bool:
        return mask
    return torch.zeros_like(mask, dtype=target_type).masked_fill_(mask, float("-inf"))


def _check_key_padding_mask(key_padding_mask, src_len, bsz):
    if key_padding_mask.shape[0] != bsz or key_padding_mask.shape[1] != src_len:
        raise AssertionError(f"Expected key padded mask of shape {(bsz, src_len)}, but got "
                             f"{tuple(key_padding_mask.shape)}")


def _mha_shape_check(query, key, value, key_padding_mask, attn_mask, num_heads):
    """Whether the query is batched; complains when the others do not go with it."""
    if query.dim() not in (2, 3):
        raise AssertionError("query should be unbatched 2D or batched 3D tensor but received "
                             f"{query.dim()}-D query tensor")
    batched = query.dim() == 3
    kind, rank = ("batched", 3) if batched else ("unbatched", 2)
    if key.dim() != rank or value.dim() != rank:
        raise AssertionError(f"For {kind} ({rank}-D) `query`, expected `key` and `value` to be {rank}-D but found "
                             f"{key.dim()}-D and {value.dim()}-D tensors respectively")
    if key_padding_mask is not None and key_padding_mask.dim() != rank - 1:
        raise AssertionError(f"For {kind} ({rank}-D) `query`, expected `key_padding_mask` to be `None` or {rank - 1}-D "
                             f"but found {key_padding_mask.dim()}-D tensor instead")
    if attn_mask is not None:
        if attn_mask.dim() not in (2, 3):
            raise AssertionError(f"For {kind} ({rank}-D) `query`, expected `attn_mask` to be `None`, 2-D or 3-D but "
                                 f"found {attn_mask.dim()}-D tensor instead")
        if not batched and attn_mask.dim() == 3:
            wanted = (num_heads, query.shape[0], key.shape[0])
            if attn_mask.shape != wanted:
                raise AssertionError(f"Expected `attn_mask` shape to be {wanted} but got {tuple(attn_mask.shape)}")
    return batched


def _in_projection_packed(q, k, v, w, b=None):
    """Queries, keys and values from one packed weight, in as few products as the inputs allow."""
    linear = torch._C._nn.linear
    embed = q.size(-1)
    if k is v:
        if q is k:
            joint = linear(q, w, b)
            joint = joint.unflatten(-1, (3, embed)).unsqueeze(0).transpose(0, -2).squeeze(-2).contiguous()
            return joint[0], joint[1], joint[2]
        w_q, w_kv = w.split([embed, embed * 2])
        b_q, b_kv = (None, None) if b is None else b.split([embed, embed * 2])
        queries = linear(q, w_q, b_q)
        joint = linear(k, w_kv, b_kv)
        joint = joint.unflatten(-1, (2, embed)).unsqueeze(0).transpose(0, -2).squeeze(-2).contiguous()
        return queries, joint[0], joint[1]
    w_q, w_k, w_v = w.chunk(3)
    b_q, b_k, b_v = (None, None, None) if b is None else b.chunk(3)
    return linear(q, w_q, b_q), linear(k, w_k, b_k), linear(v, w_v, b_v)


def _in_projection(q, k, v, w_q, w_k, w_v, b_q=None, b_k=None, b_v=None):
    """Queries, keys and values from three weights."""
    e_q, e_k, e_v = q.size(-1), k.size(-1), v.size(-1)
    for name, w, wanted in (("query", w_q, (e_q, e_q)), ("key", w_k, (e_q, e_k)), ("value", w_v, (e_q, e_v))):
        if w.shape != wanted:
            raise AssertionError(f"expecting {name} weights shape of {wanted}, but got {w.shape}")
    for name, b in (("query", b_q), ("key", b_k), ("value", b_v)):
        if b is not None and b.shape != (e_q,):
            raise AssertionError(f"expecting {name} bias shape of {(e_q,)}, but got {b.shape}")
    linear = torch._C._nn.linear
    return linear(q, w_q, b_q), linear(k, w_k, b_k), linear(v, w_v, b_v)


def _projected(query, key, value, separate, in_proj_weight, q_proj_weight, k_proj_weight, v_proj_weight, in_proj_bias):
    """q, k and v: by weights of their own, or by the parts of one."""
    if not separate:
        if key.shape != value.shape:
            raise AssertionError(f"key shape {key.shape} does not match value shape {value.shape}")
        if in_proj_weight is None:
            raise AssertionError("use_separate_proj_weight is False but in_proj_weight is None")
        return _in_projection_packed(query, key, value, in_proj_weight, in_proj_bias)
    if key.shape[:2] != value.shape[:2]:
        raise AssertionError(f"key's sequence and batch dims {key.shape[:2]} do not match value's "
                             f"{value.shape[:2]}")
    for name, w in (("q", q_proj_weight), ("k", k_proj_weight), ("v", v_proj_weight)):
        if w is None:
            raise AssertionError(f"use_separate_proj_weight is True but {name}_proj_weight is None")
    biases = (None, None, None) if in_proj_bias is None else in_proj_bias.chunk(3)
    return _in_projection(query, key, value, q_proj_weight, k_proj_weight, v_proj_weight, *biases)


def _mask_per_head(mask, heads, tgt_len, src_len):
    """A mask (tgt_len, src_len) as one of three dims; one of (heads, tgt_len, src_len) as it is."""
    if mask is None or mask.dim() != 2:
        if mask is not None and mask.shape != (heads, tgt_len, src_len):
            raise RuntimeError(f"The shape of the 3D attn_mask is {mask.shape}, but should be {(heads, tgt_len, src_len)}.")
        return mask
    if mask.shape != (tgt_len, src_len):
        raise RuntimeError(f"The shape of the 2D attn_mask is {mask.shape}, but should be {(tgt_len, src_len)}.")
    return mask.unsqueeze(0)


def _given_heads(name, static, heads, head_dim):
    for dim, want in ((0, heads), (2, head_dim)):
        if static.size(dim) != want:
            raise AssertionError(f"expecting {name}.size({dim}) of {want}, but got {static.size(dim)}")
    return static


def _lengthened(k, v, more_k, more_v, dim, *masks):
    """Keys and values with one more, from which no mask keeps anybody, and the masks."""
    return torch.cat([k, more_k], dim), torch.cat([v, more_v], dim), *(None if m is None else torch._C._nn.pad(m, (0, 1)) for m in masks)


def _attended(q, k, v, mask, dropout_p):
    """The result (heads, L, E) and the weights (heads, L, S)."""
    scaled = q * math.sqrt(1.0 / float(q.size(-1)))
    keys = k.transpose(-2, -1)
    scores = torch.bmm(scaled, keys) if mask is None else torch.baddbmm(mask, scaled, keys)
    weights = scores.softmax(-1)
    if dropout_p > 0.0:
        weights = torch.dropout(weights, dropout_p, True)
    return torch.bmm(weights, v), weights


def multi_head_attention_forward(query, key, value, embed_dim_to_check, num_heads, in_proj_weight, in_proj_bias,
                                 bias_k, bias_v, add_zero_attn, dropout_p, out_proj_weight, out_proj_bias,
                                 training=True, key_padding_mask=None, need_weights=True, attn_mask=None,
                                 use_separate_proj_weight=False, q_proj_weight=None, k_proj_weight=None,
                                 v_proj_weight=None, static_k=None, static_v=None, average_attn_weights=True,
                                 is_causal=False):
    """The forward of `nn.MultiheadAttention`; sequence first, batch second.

    query, key, value, key_padding_mask, need_weights, attn_mask, average_attn_weights, is_causal: what the module is called with;
    embed_dim_to_check: query's size; num_heads, bias_k, bias_v, add_zero_attn, in_proj_weight, in_proj_bias, out_proj_weight, out_proj_bias:
    the module's; dropout_p: applied when training; use_separate_proj_weight: take q_proj_weight, k_proj_weight, v_proj_weight in place of
    in_proj_weight; static_k, static_v: keys and values that are projected already.
    Shapes: query (L, N, E), key and value (S, N, E), in_proj_weight (3 E, E), out_proj_weight (E, E); result (L, N, E) and weights (N, L, S).

    >>> x, w = torch.ones(2, 1, 4), torch.cat([torch.eye(4)] * 3)
    >>> F.multi_head_attention_forward(x, x, x, 4, 2, w, torch.zeros(12), None, None, False, 0., torch.eye(4), torch.zeros(4))[0][0]
    tensor([[1., 1., 1., 1.]])
    """
    tensors = (query, key, value, in_proj_weight, in_proj_bias, bias_k, bias_v, out_proj_weight, out_proj_bias)
    if overridden(*tensors):
        return handle(multi_head_attention_forward, tensors, query, key, value, embed_dim_to_check, num_heads,
                      in_proj_weight, in_proj_bias, bias_k, bias_v, add_zero_attn, dropout_p, out_proj_weight,
                      out_proj_bias, training=training, key_padding_mask=key_padding_mask,
                      need_weights=need_weights, attn_mask=attn_mask, is_causal=is_causal,
                      use_separate_proj_weight=use_separate_proj_weight, q_proj_weight=q_proj_weight,
                      k_proj_weight=k_proj_weight, v_proj_weight=v_proj_weight, static_k=static_k,
                      static_v=static_v, average_attn_weights=average_attn_weights)
    batched = _mha_shape_check(query, key, value, key_padding_mask, attn_mask, num_heads)
    if not batched:
        query, key, value = query.unsqueeze(1), key.unsqueeze(1), value.unsqueeze(1)
        if key_padding_mask is not None:
            key_padding_mask = key_padding_mask.unsqueeze(0)
    (tgt_len, bsz, embed_dim), src_len = query.shape, key.shape[0]
    key_padding_mask = _canonical_mask(key_padding_mask, "key_padding_mask", _none_or_dtype(attn_mask), "attn_mask",
                                       query.dtype)
    if is_causal and attn_mask is None:
        raise RuntimeError("Need attn_mask if specifying the is_causal hint. You may use the Transformer module method "
                           "`generate_square_subsequent_mask` to create this mask.")
    if is_causal and key_padding_mask is None and not need_weights:
        # Nothing but the causal structure is asked for: the kernel makes the mask itself.
        attn_mask = None
    else:
        attn_mask = _canonical_mask(attn_mask, "attn_mask", None, "", query.dtype, False)
        if key_padding_mask is not None:
            is_causal = False
    if embed_dim != embed_dim_to_check:
        raise AssertionError(f"was expecting embedding dimension of {embed_dim_to_check}, but got {embed_dim}")
    head_dim = embed_dim.div(num_heads, rounding_mode="trunc") if isinstance(embed_dim, torch.Tensor) else embed_dim // num_heads  # in traces sizes are tensors
    if head_dim * num_heads != embed_dim:
        raise AssertionError(f"embed_dim {embed_dim} not divisible by num_heads {num_heads}")
    q, k, v = _projected(query, key, value, use_separate_proj_weight, in_proj_weight, q_proj_weight, k_proj_weight, v_proj_weight, in_proj_bias)
    attn_mask = _mask_per_head(attn_mask, bsz * num_heads, tgt_len, src_len)

    if bias_k is not None and bias_v is not None:
        if static_k is not None or static_v is not None:
            raise AssertionError("bias cannot be added to static " + ("key." if static_k is not None else "value."))
        k, v, attn_mask, key_padding_mask = _lengthened(k, v, bias_k.repeat(1, bsz, 1), bias_v.repeat(1, bsz, 1), 0, attn_mask, key_padding_mask)
    elif bias_k is not None or bias_v is not None:
        raise AssertionError("bias_k and bias_v must be given together")

    def split_heads(x, length):
        return x.view(length, bsz * num_heads, head_dim).transpose(0, 1)

    q = split_heads(q, tgt_len)
    k = split_heads(k, k.shape[0]) if static_k is None else _given_heads("static_k", static_k, bsz * num_heads, head_dim)
    v = split_heads(v, v.shape[0]) if static_v is None else _given_heads("static_v", static_v, bsz * num_heads, head_dim)
    if add_zero_attn:
        zeros = (torch.zeros(bsz * num_heads, 1, head_dim, dtype=x.dtype, device=x.device) for x in (k, v))
        k, v, attn_mask, key_padding_mask = _lengthened(k, v, *zeros, 1, attn_mask, key_padding_mask)
    src_len = k.size(1)
    if key_padding_mask is not None:
        _check_key_padding_mask(key_padding_mask, src_len, bsz)
        per_head = key_padding_mask.view(bsz, 1, 1, src_len).expand(-1, num_heads, -1, -1).reshape(bsz * num_heads, 1, src_len)
        attn_mask = per_head if attn_mask is None else attn_mask + per_head
    if not training:
        dropout_p = 0.0

    if need_weights:
        if is_causal and attn_mask is None:
            raise AssertionError("FIXME: is_causal not implemented for need_weights")
        out, weights = _attended(q, k, v, attn_mask, dropout_p)
        out = torch._C._nn.linear(out.transpose(0, 1).reshape(tgt_len * bsz, embed_dim), out_proj_weight, out_proj_bias)
        out = out.view(tgt_len, bsz, out.size(1))
        weights = weights.view(bsz, num_heads, tgt_len, src_len)
        if average_attn_weights:
            weights = weights.mean(dim=1)
        if not batched:
            out, weights = out.squeeze(1), weights.squeeze(0)
        return out, weights

    if attn_mask is not None:
        attn_mask = (attn_mask.unsqueeze(0) if attn_mask.size(0) == 1 and attn_mask.dim() == 3
                     else attn_mask.view(bsz, num_heads, attn_mask.size(1), src_len))
    q = q.view(bsz, num_heads, tgt_len, head_dim)
    k = k.view(bsz, num_heads, src_len, head_dim)
    v = v.view(bsz, num_heads, src_len, head_dim)
    out = torch._C._nn.scaled_dot_product_attention(q, k, v, attn_mask, dropout_p, is_causal)
    out = torch._C._nn.linear(out.permute(2, 0, 1, 3).reshape(bsz * tgt_len, embed_dim), out_proj_weight, out_proj_bias)
    out = out.view(tgt_len, bsz, out.size(1))
    return (out if batched else out.squeeze(1)), None
