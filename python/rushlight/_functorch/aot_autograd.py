"""Graphs of operators for those who write backends: forward and backward of a function, captured before it runs.

The function and the gradients of its results are traced together, without memory (make_fx), and taken apart (partitioners.py); each part goes to a
compiler: a function of (GraphModule, example inputs) that returns what runs in its place.
"""
import functools

import rushlight as torch
from rushlight.fx.experimental.proxy_tensor import make_fx
from rushlight.utils import _pytree as pytree

from .functional import functionalize
from .partitioners import _changes, default_partition


def make_boxed_func(f):
    """f of a list of arguments."""
    def g(args):
        return f(*args)
    g._boxed_call = True
    return g


def make_boxed_compiler(compiler):
    """compiler, whose results take a list."""
    @functools.wraps(compiler)
    def f(fx_g, inps):
        return make_boxed_func(compiler(fx_g, inps))
    return f


def _called(made):
    return made if getattr(made, "_boxed_call", False) else lambda args: made(*args)


def _listed(x):
    return [x] if isinstance(x, torch.Tensor) else list(x)


class _Compilers:
    def __init__(self, fw_compiler, bw_compiler=None, partition_fn=default_partition, decompositions=None, inference_compiler=None, **more):
        self.forward, self.backward, self.partition = fw_compiler, bw_compiler or fw_compiler, partition_fn
        self.inference, self.decompositions = inference_compiler or fw_compiler, decompositions


def _traced(f, decompositions, *args):
    """The graph of f, pure but for what it makes of its arguments at its end."""
    module = make_fx(f, decompositions, tracing_mode="fake")(*args)
    if any(_changes(n) for n in module.graph.nodes):
        def again(*args):
            return module(*args)
        with torch.no_grad():
            module = make_fx(functionalize(functools.wraps(f)(again)), decompositions, tracing_mode="fake")(*args)
    return module


def _compile_inference(flat, args, compilers):
    with torch.no_grad():
        plain = [a.detach() for a in args]
        module = _traced(lambda *xs: tuple(flat(*xs)), compilers.decompositions, *plain)
        run = _called(compilers.inference(module, plain))

    def call(args):
        with torch.no_grad():
            return _listed(run(list(args)))
    return call


def _joint(flat, args, compilers):
    """(the joint graph, its example inputs, which results and inputs have gradients)"""
    from rushlight._subclasses.fake_tensor import FakeTensorMode
    wanted = [i for i, a in enumerate(args) if a.requires_grad]
    fresh = [a.detach().requires_grad_(a.requires_grad) for a in args]
    with FakeTensorMode(allow_non_fake_inputs=True) as shapes:
        results = flat(*map(shapes.from_tensor, fresh))
    graded = [i for i, r in enumerate(results) if r.requires_grad]
    tangents = [torch.zeros(results[i].shape, dtype=results[i].dtype, device=results[i].device) for i in graded]

    def joint(primals, tangents):
        made = flat(*primals)
        grads = torch.autograd.grad([made[i] for i in graded], [primals[i] for i in wanted], tangents, allow_unused=True)
        return [*made, *grads]
    module = _traced(joint, compilers.decompositions, fresh, tangents)
    module.graph.set_codegen(torch.fx.graph.CodeGen())
    module.recompile()
    return module, fresh, tangents, graded, wanted, len(results)


def _compile_training(flat, args, compilers):
    module, fresh, tangents, graded, wanted, count = _joint(flat, args, compilers)
    forward, backward = compilers.partition(module, [*fresh, *tangents], num_fwd_outputs=count)
    with torch.no_grad():
        run = _called(compilers.forward(forward, [a.detach() for a in fresh]))
    late = []  # the backward part, compiled when it is needed first

    class CompiledFunction(torch.autograd.Function):
        @staticmethod
        def forward(ctx, *args):
            made = _listed(run([a.detach() for a in args]))
            results, saved = made[:count], made[count:]
            ctx.save_for_backward(*saved)
            ctx.mark_non_differentiable(*(r for i, r in enumerate(results) if i not in graded))
            return tuple(results)

        @staticmethod
        def backward(ctx, *grads):
            inputs = [*ctx.saved_tensors, *(grads[i].contiguous() for i in graded)]
            with torch.no_grad():
                if not late:
                    late.append(_called(compilers.backward(backward, inputs)))
                made = iter(_listed(late[0](inputs)))
            return tuple(next(made) if i in wanted else None for i in range(len(fresh)))
    return lambda args: list(CompiledFunction.apply(*args))


def _create(flat, args, compilers):
    if torch.is_grad_enabled() and any(a.requires_grad for a in args):
        return _compile_training(flat, args, compilers)
    return _compile_inference(flat, args, compilers)


def aot_module_simplified(mod, args, fw_compiler, bw_compiler=None, partition_fn=default_partition, decompositions=None, inference_compiler=None, **more):
    """A function of flat tensors that stands for the module, its forward and backward compiled. Parameters of the module are inputs of the graphs."""
    named = {**dict(mod.named_parameters(remove_duplicate=False)), **dict(mod.named_buffers(remove_duplicate=False))} if isinstance(mod, torch.nn.Module) else {}
    names, state = list(named), list(named.values())

    def flat(*xs):
        if not names:
            return _listed(mod(*xs))
        return _listed(torch.func.functional_call(mod, dict(zip(names, xs)), xs[len(names):]))
    run = _create(flat, [*state, *args], _Compilers(fw_compiler, bw_compiler, partition_fn, decompositions, inference_compiler))

    def forward(*xs):
        return tuple(run([*state, *xs]))
    forward.zero_grad = getattr(mod, "zero_grad", None)
    return forward


def aot_function(fn, fw_compiler, bw_compiler=None, partition_fn=default_partition, decompositions=None, num_params_buffers=0, inference_compiler=None, **more):
    """fn, compiled at its first call; arguments and results may be nested."""
    compilers, known = _Compilers(fw_compiler, bw_compiler, partition_fn, decompositions, inference_compiler), {}

    @functools.wraps(fn)
    def call(*args, **kwargs):
        leaves, spec = pytree.tree_flatten((args, kwargs))
        at = [i for i, x in enumerate(leaves) if isinstance(x, torch.Tensor)]
        tensors = [leaves[i] for i in at]
        key = (torch.is_grad_enabled(), str(spec), tuple((t.shape, t.stride(), t.dtype, t.device, t.requires_grad) for t in tensors),
               tuple(repr(x) for x in leaves if not isinstance(x, torch.Tensor)))
        if key not in known:
            shape = []

            def flat(*xs):
                filled = list(leaves)
                for i, x in zip(at, xs):
                    filled[i] = x
                inner, kw = pytree.tree_unflatten(filled, spec)
                made, out = pytree.tree_flatten(fn(*inner, **kw))
                shape[:] = [out]
                return made
            known[key] = _create(flat, tensors, compilers), shape
        run, shape = known[key]
        return pytree.tree_unflatten(run(tensors), shape[0])
    return call


def aot_module(mod, *args, **kwargs):
    """The module, compiled at its first call: its parameters and buffers are inputs of the graphs."""
    def functional(params, buffers, args, kwargs):
        return torch.func.functional_call(mod, {**params, **buffers}, args, kwargs)
    compiled = aot_function(functional, *args, **kwargs)

    class AOTModule(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.orig_module = mod

        def forward(self, *args, **kwargs):
            return compiled(dict(mod.named_parameters()), dict(mod.named_buffers()), args, kwargs)
    return AOTModule()
