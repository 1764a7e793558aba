"""The default backend as a function of a graph: its code, with elementwise work put off while it runs."""
from .registry import register_backend


@register_backend
def inductor(gm, example_inputs, **options):
    from rushlight._inductor.compile_fx import compile_fx
    return compile_fx(gm, example_inputs)
