#!/usr/bin/env python3
"""Forward-mode derivatives and vmap of every operation beside PyTorch's: transforms.py ORACLE [options of opinfo.py]

ORACLE is the folder of opinfo.py, whose supervisor runs the checks that are made here; what it prints as samples are
forward-mode derivatives, what it prints as gradients are results of vmap. What PyTorch itself refuses is left out.
"""
import sys

oracle = sys.argv.pop(1)
sys.path.insert(0, oracle)

import opinfo  # noqa: E402
import sides  # noqa: E402
import torch  # noqa: E402


def mapped(f, x):
    """x with f applied to what is neither list, tuple nor dict."""
    if isinstance(x, (list, tuple)) and not hasattr(x, "_fields"):
        return type(x)(mapped(f, y) for y in x)
    return {k: mapped(f, y) for k, y in x.items()} if isinstance(x, dict) else f(x)


def outputs(side, sample, out):
    return sides.tensors_in(side.swap(sample.output_process_fn_grad)(out), side.module.Tensor)


def tangents_of(leaves, draw):
    return [torch.randn(x.shape, dtype=torch.promote_types(x.dtype, torch.float64), generator=draw).to(x.dtype) for x in leaves]


def forward(side, op, sample, tangents):
    """The tangents of the results, the inputs moving along `tangents`."""
    m, leaves, ad = side.module, [], side.module.autograd.forward_ad
    function = side.operator(op)
    args, kwargs = side.give(([sample.input, *sample.args], sample.kwargs), leaves)
    places = {id(x): k for k, x in enumerate(leaves)}
    with ad.dual_level():
        duals = {}

        def dual(x):
            if id(x) not in places:
                return x
            if id(x) not in duals:
                duals[id(x)] = ad.make_dual(x.detach(), side.give(tangents[places[id(x)]]))
            return duals[id(x)]

        out = function(*mapped(dual, args), **mapped(dual, kwargs))
        pairs = [ad.unpack_dual(y) for y in outputs(side, sample, out)]
        return [side.take(m.zeros_like(y.primal) if y.tangent is None else y.tangent) for y in pairs]


def batched(side, op, sample):
    """The results for two sets of inputs at once."""
    m, function, tensors = side.module, side.operator(op), []
    args, kwargs = side.give(([sample.input, *sample.args], sample.kwargs))

    def collect(x):
        if isinstance(x, m.Tensor):
            tensors.append(x)
        return x

    mapped(collect, (args, kwargs))
    places = {id(x): k for k, x in enumerate(tensors)}

    def run(*given):
        put = lambda x: given[places[id(x)]] if id(x) in places else x
        return tuple(outputs(side, sample, function(*mapped(put, args), **mapped(put, kwargs))))

    both = [m.stack([x, x * 0.9 if x.is_floating_point() or x.is_complex() else x]) for x in tensors]
    return [side.take(y) for y in m.vmap(run)(*both)]


def agreement(cand, op, want, run):
    opinfo.compare(want, run(cand), op)


def checks(op, ref, cand, options, note):
    if op.name in opinfo.UNDEFINED:
        return
    for dtype in options.dtypes:
        for kind, grad in (("samples", True), ("gradients", False)):
            supported = op.supported_backward_dtypes("cpu") if grad else op.supported_dtypes("cpu")
            if dtype not in supported or grad and not op.supports_forward_ad:
                continue
            torch.manual_seed(0)
            samples = list(op.sample_inputs("cpu", dtype, requires_grad=grad))
            n = min(len(samples), options.max_samples)
            for i in [k * (len(samples) - 1) // max(n - 1, 1) for k in range(n)]:
                sample = samples[i]
                if grad:
                    leaves = []
                    ref.give(([sample.input, *sample.args], sample.kwargs), leaves)
                    moves = tangents_of(leaves, torch.Generator().manual_seed(0))
                    run = lambda side, sample=sample, moves=moves: forward(side, op, sample, moves)
                else:
                    run = lambda side, sample=sample: batched(side, op, sample)
                where = opinfo.describe(f"{sides.last(dtype)} {'forward' if grad else 'vmap'} {i}", sample)
                state = torch.get_rng_state()
                try:
                    want = run(ref)
                except Exception as e:
                    note(f"{where}: torch itself: {opinfo.one_line(e)}")
                    continue
                if torch.equal(state, torch.get_rng_state()):  # nothing random
                    yield kind, where, lambda run=run, want=want: agreement(cand, op, want, run)


opinfo.checks = checks

if __name__ == "__main__":
    sys.exit(opinfo.main())
