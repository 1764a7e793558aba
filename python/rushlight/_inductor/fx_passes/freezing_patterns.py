"""Patterns that are replaced where parameters are constants: taken in, and never looked for, as there is no code generator."""

__all__ = ["freezing_passes", "register_freezing_graph_pattern"]

_registered = []       # (pattern, check, number of the pass, what replaces it)


def register_freezing_graph_pattern(pattern, extra_check=lambda match: True, pass_number=0):
    """Decorator: what replaces a pattern."""
    def register(handler):
        _registered.append((pattern, extra_check, pass_number, handler))
        return handler
    return register


def freezing_passes(gm, aot_example_inputs):
    raise NotImplementedError("torch._inductor.fx_passes.freezing_patterns.freezing_passes: there is no code generator whose patterns would be replaced")
