"""Every in-place form, of a tensor with a history and of a view of one: first and second derivatives by differences."""
import warnings

import pytest

import rushlight as torch

F = torch.nn.functional

# What the derivative of is not there, or is none: geometry, storages, random numbers, integers, flags.
SKIP = set("""apply_ map_ map2_ set_ resize_ resize_as_ resize_as_sparse_ share_memory_ requires_grad_ detach_ retain_grad_ rename_ random_ normal_ uniform_
    exponential_ cauchy_ log_normal_ geometric_ bernoulli_ sparse_resize_ sparse_resize_and_clear_ coalesce_ _coalesced_ __ior__
    floor_divide_ bitwise_and_ bitwise_or_ bitwise_xor_ bitwise_not_ bitwise_left_shift_ bitwise_right_shift_ gcd_ lcm_ logical_not_ t_ swapaxes_
    swapdims_ transpose_ squeeze_ unsqueeze_ as_strided_ igamma_ igammac_ heaviside_ erfinv_ polygamma_ mvlgamma_ nextafter_""".split())
SKIP |= set("eq_ ne_ lt_ le_ gt_ ge_ not_equal_ less_ less_equal_ greater_ greater_equal_ logical_and_ logical_or_ logical_xor_".split())
INDEX = torch.tensor([1, 0])
MASK = torch.tensor([[True, False], [False, True]])
ARGUMENTS = {  # where neither nothing, nor another tensor, nor a number is what it takes
    "addmm_": lambda x, b: (b, b), "sspaddmm_": None, "addbmm_": lambda x, b: (b[None], b[None]), "addmv_": None, "addr_": lambda x, b: (b[0], b[1]),
    "baddbmm_": None, "addcmul_": lambda x, b: (b, b), "addcdiv_": lambda x, b: (b, b), "lerp_": lambda x, b: (b, 0.3),
    "clamp_": lambda x, b: (0.3, 0.6), "clip_": lambda x, b: (0.3, 0.6), "hardshrink_": None, "cumsum_": lambda x, b: (0,), "cumprod_": lambda x, b: (0,),
    "index_add_": lambda x, b: (0, INDEX, b), "index_copy_": lambda x, b: (0, INDEX, b), "index_fill_": lambda x, b: (0, INDEX[:1], 0.7),
    "index_put_": lambda x, b: ((INDEX,), b), "index_reduce_": lambda x, b: (0, INDEX, b, "prod"), "scatter_": lambda x, b: (0, INDEX.view(1, 2), b),
    "scatter_add_": lambda x, b: (0, INDEX.view(1, 2), b), "scatter_reduce_": lambda x, b: (0, INDEX.view(1, 2), b, "prod"),
    "masked_fill_": lambda x, b: (MASK, 0.4), "masked_scatter_": lambda x, b: (MASK, b), "put_": lambda x, b: (INDEX, b[0]),
    "renorm_": lambda x, b: (2, 0, 0.5), "copy_": lambda x, b: (b,), "fill_": lambda x, b: (b[0, 0],), "fill_diagonal_": lambda x, b: (0.4,),
    "ldexp_": lambda x, b: (b,), "xlogy_": lambda x, b: (b,), "float_power_": lambda x, b: (b,), "logit_": lambda x, b: (0.01,),
}
METHODS = sorted(n for n in dir(torch.Tensor) if n.endswith("_") and not n.endswith("__") and not n.startswith("_") and n not in SKIP
                 and ARGUMENTS.get(n, 0) is not None)
FUNCTIONS = {"relu": F.relu, "relu6": F.relu6, "elu": F.elu, "celu": F.celu, "selu": F.selu, "silu": F.silu, "mish": F.mish, "leaky_relu": F.leaky_relu,
             "hardtanh": F.hardtanh, "hardswish": F.hardswish, "hardsigmoid": F.hardsigmoid}


def base(x):
    return x * 1


def view(x):
    return (x * 1).t()


def part(x):
    return torch.cat([x, x])[1:3]


def tensors():
    torch.manual_seed(1)
    return [(torch.rand(2, 2, dtype=torch.float64) * 0.6 + 0.2).requires_grad_() for _ in range(2)]


def arguments(name, x, b):
    if name in ARGUMENTS:
        return ARGUMENTS[name]
    for make in (lambda x, b: (), lambda x, b: (b,), lambda x, b: (0.7,)):
        try:
            with torch.no_grad():
                getattr(x.detach().clone(), name)(*make(x, b))
            return make
        except (TypeError, RuntimeError):
            continue
    raise AssertionError("what does %s take?" % name)


def check(change, inputs):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for start in (base, view, part):
            def changed(x, b):  # the tensor that is changed, and what its base has become
                z = start(x)
                y = change(z, b)
                return (y, z._base) if z._is_view() else y
            assert torch.autograd.gradcheck(changed, inputs)
            assert torch.autograd.gradgradcheck(changed, inputs)


@pytest.mark.parametrize("name", METHODS)
def test_method(name):
    x, b = tensors()
    make = arguments(name, x, b)
    least = 1 if name in ("acosh_", "arccosh_") else 0
    check(lambda z, other: getattr(z.add_(least), name)(*make(z, other)), (x, b))


@pytest.mark.parametrize("name", FUNCTIONS)
def test_function(name):
    x, b = tensors()
    check(lambda z, other: FUNCTIONS[name](z - 0.5 if name == "relu6" else z, inplace=True), (x, b))


def test_index_assignment():
    def change(z, b, index, value):
        z[index] = value(b)
        return z
    for index, value in ((0, lambda b: b[1]), ((slice(None), 1), lambda b: 2.0), (MASK, lambda b: b[0]), ((INDEX, INDEX), lambda b: b[1]), (Ellipsis, lambda b: b)):
        check(lambda z, b: change(z, b, index, value), tuple(tensors()))


COMPLEX_VIEWS = {
    "view_as_real": lambda z: torch.view_as_real(z)[..., 0].mul_(2), "real": lambda z: z.real.pow_(2), "imag": lambda z: z.imag[1:].exp_(),
    "conj": lambda z: z.conj().mul_(2j), "conj_imag": lambda z: z.conj().imag[:, 1].sin_(), "slice_real": lambda z: z[1].real.mul_(z[0].imag.clone()),
    "real_of_view": lambda z: z.t()[1].view(-1).real.mul_(3), "round_trip": lambda z: torch.view_as_complex(torch.view_as_real(z))[0].mul_(1 + 2j),
}
REAL_VIEWS = {
    "view_as_complex": lambda z: torch.view_as_complex(z)[1:].mul_(2j), "of_view": lambda z: torch.view_as_complex(z.view(2, 1, 2))[0].pow_(2),
    "imag": lambda z: torch.view_as_complex(z).imag.mul_(3), "conj": lambda z: torch.view_as_complex(z).conj().mul_(1j),
    "neg": lambda z: z._neg_view()[0].exp_(), "view_of_view": lambda z: z.view(-1)[1:].view(3)[::2].sin_(),
}


@pytest.mark.parametrize("name", list(COMPLEX_VIEWS) + ["r_" + n for n in REAL_VIEWS])
def test_view_of_another_dtype(name):
    complex_one = name in COMPLEX_VIEWS
    change = COMPLEX_VIEWS[name] if complex_one else REAL_VIEWS[name[2:]]
    torch.manual_seed(2)
    x = torch.rand(2, 2, dtype=torch.complex128 if complex_one else torch.float64, requires_grad=True)

    def changed(x):
        z = x * 1
        y = change(z)
        return z, y, z * z
    assert torch.autograd.gradcheck(changed, (x,))
    assert torch.autograd.gradgradcheck(changed, (x,))


def test_views_of_inference_tensors_have_no_history():
    with torch.inference_mode():
        x, y = torch.ones(2, 3, requires_grad=True), torch.ones(2, 3)
    for f in (lambda t: t.view(-1), lambda t: t[0], lambda t: t.mT, lambda t: t.split(1)[0], lambda t: t.reshape(-1), lambda t: t.expand(4, 2, 3)):
        for z in (f(x), f(y)):
            assert z.is_inference() and not z.requires_grad and z.is_leaf and not z._is_view()
    assert (x * 2).requires_grad and not (x * 2).is_inference()
