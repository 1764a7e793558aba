"""Activations behind products, as patterns: what each is of elementary calls."""
import math

import rushlight as torch
from rushlight._inductor.pattern_matcher import CallFunction, KeywordArg

aten = torch.ops.aten


def _gelu_fusion_1(computation_call):
    """x / 2 * (1 + erf(x / sqrt(2)))."""
    half = CallFunction(aten.mul, computation_call, 0.5)
    error = CallFunction(aten.erf, CallFunction(aten.mul, computation_call, math.sqrt(0.5)))
    return CallFunction(aten.mul, half, CallFunction(aten.add, error, 1))


def _gelu_fusion_2(computation_call):
    """x / 2 * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 x^3)))."""
    cube = CallFunction(aten.mul, CallFunction(aten.mul, computation_call, computation_call), computation_call)
    inner = CallFunction(aten.add, computation_call, CallFunction(aten.mul, cube, 0.044715))
    tanh = CallFunction(aten.tanh, CallFunction(aten.mul, inner, math.sqrt(2 / math.pi)))
    return CallFunction(aten.mul, CallFunction(aten.mul, computation_call, 0.5), CallFunction(aten.add, tanh, 1))


def _hardswish_fusion(computation_call):
    """x * min(max(x + 3, 0), 6) / 6."""
    clamped = CallFunction(aten.clamp_max, CallFunction(aten.clamp_min, CallFunction(aten.add, computation_call, 3), 0), 6)
    return CallFunction(aten.div, CallFunction(aten.mul, computation_call, clamped), 6)


def _silu_fusion(computation_call):
    """x * sigmoid(x)."""
    return CallFunction(aten.mul, computation_call, CallFunction(aten.sigmoid, computation_call))


def _hardtanh_fusion(computation_call):
    """min(max(x, least), most)."""
    return CallFunction(aten.clamp_max, CallFunction(aten.clamp_min, computation_call, KeywordArg("min_value")), KeywordArg("max_value"))


def _get_remaining_users(extra_input_node, compute_node):
    """Users of a value that come behind a node."""
    behind = {n: i for i, n in enumerate(compute_node.graph.nodes)}
    return [user for user in extra_input_node.users if user is not compute_node and behind[user] > behind[compute_node]]
