"""Causal masks for queries and keys of different number, which need not be written out."""
from enum import IntEnum, auto
from warnings import warn

import rushlight as torch

__all__ = ["causal_upper_left", "causal_lower_right", "CausalVariant", "CausalBias"]


class CausalVariant(IntEnum):
    """Which corner the triangle is aligned with."""
    UPPER_LEFT = auto()
    LOWER_RIGHT = auto()


class CausalBias(torch.Tensor):
    """A causal mask that attention recognises; elsewhere it is a tensor without data."""

    def __new__(cls, variant, seq_len_q, seq_len_kv):
        return torch.Tensor._make_subclass(cls, torch.empty(0), False)

    def __init__(self, variant, seq_len_q, seq_len_kv):
        if not isinstance(variant, CausalVariant):
            raise AssertionError("variant must be an instance of CausalVariant")
        self.variant = variant
        self.seq_len_q = seq_len_q
        self.seq_len_kv = seq_len_kv
        if seq_len_q > seq_len_kv and variant == CausalVariant.LOWER_RIGHT:
            warn("Lower right causal bias will produce NaNs in the output when seq_len_q > seq_len_kv!", stacklevel=2)

    def _upper_left(self, device):
        return torch.tril(torch.ones(self.seq_len_q, self.seq_len_kv, device=device, dtype=torch.bool))

    def _lower_right(self, device):
        shift = self.seq_len_kv - self.seq_len_q
        return torch.tril(torch.ones(self.seq_len_q, self.seq_len_kv, device=device, dtype=torch.bool),
                          diagonal=shift)

    def _materialize(self, device=None):
        if device is None:
            device = torch.device("cpu")
        return self._upper_left(device) if self.variant == CausalVariant.UPPER_LEFT else self._lower_right(device)

    @staticmethod
    def _dispatch(query, key, value, attn_mask, dropout_p=0.0, is_causal=False, scale=None, enable_gqa=False):
        if is_causal:
            raise ValueError("CausalBias should not be used with causal=True")
        attend = torch._C._nn.scaled_dot_product_attention
        plain = attn_mask.seq_len_q == attn_mask.seq_len_kv or attn_mask.variant == CausalVariant.UPPER_LEFT
        if plain:
            return attend(query, key, value, None, dropout_p, True, scale=scale, enable_gqa=enable_gqa)
        return attend(query, key, value, attn_mask._materialize(query.device), dropout_p, False, scale=scale,
                      enable_gqa=enable_gqa)

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        if func is torch._C._nn.scaled_dot_product_attention:
            return cls._dispatch(*args, **(kwargs or {}))
        return super().__torch_function__(func, types, args, kwargs or {})

    def __repr__(self, *, tensor_contents=None):
        return self._materialize().__repr__()


def _two(size, name):
    if len(size) != 2:
        raise AssertionError(f"{name} only supports 2D tensors")
    return size


def causal_upper_left(*size):
    """The mask whose triangle starts in the upper left corner."""
    return CausalBias(CausalVariant.UPPER_LEFT, *_two(size, "causal_upper_left"))


def causal_lower_right(*size):
    """The mask whose triangle ends in the lower right corner."""
    return CausalBias(CausalVariant.LOWER_RIGHT, *_two(size, "causal_lower_right"))
