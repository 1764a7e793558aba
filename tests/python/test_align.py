"""Labels along sound under torchaudio's names: numbers are those of torchaudio 2.11 on PyTorch 2.13."""
import pytest
import rushlight as torch

ops = torch.ops.torchaudio


def numbers(n, scale=1.):
    return torch.frac(torch.arange(n, dtype=torch.float64) * 0.61803398875).float() * scale


def told(t, step):
    return [round(v, 4) for v in t.double().flatten()[::step].tolist()]


def transducer(logits, fused, clamp):
    targets, steps = torch.tensor([[1, 2, 2], [6, 0, 0], [3, 5, 0]], dtype=torch.int32), torch.tensor([6, 4, 5], dtype=torch.int32)
    return ops.rnnt_loss_forward(logits, targets, steps, torch.tensor([3, 1, 2], dtype=torch.int32), 4, clamp, fused)


def logits():
    return numbers(3 * 6 * 4 * 7, 3.).view(3, 6, 4, 7)


@pytest.mark.parametrize("fused,clamp,costs,gradient", [
    (True, -1.0, [13.9482, 9.2692, 14.2969], [0.0276, 0.0117, 0.0003, -0.0968, 0.0012, -0.0434, 0.0041, 0.0077, 0.0544, 0.0017, -0.0969, 0.0, -0.1025, 0.0795, 0.0, 0.0, 0.1034, 0.0, 0.1279, 0.0, 0.1765, 0.0, 0.0, 0.0, 0.0, 0.0, 0.3426, 0.0067, 0.213, 0.2786, 0.0, -0.3046, 0.0, 0.0125, 0.0, 0.0013, 0.0703, 0.0, 0.0]),
    (True, 0.25, [13.9482, 9.2692, 14.2969], [0.0276, 0.0117, 0.0003, -0.0968, 0.0012, -0.0434, 0.0041, 0.0077, 0.0544, 0.0017, -0.0969, 0.0, -0.1025, 0.0795, 0.0, 0.0, 0.1034, 0.0, 0.1279, 0.0, 0.1765, 0.0, 0.0, 0.0, 0.0, 0.0, 0.25, 0.0067, 0.213, 0.25, 0.0, -0.25, 0.0, 0.0125, 0.0, 0.0013, 0.0703, 0.0, 0.0]),
    (False, -1.0, [13.9482, 9.2692, 14.2969], [0.0, 0.0, 0.0, -0.1255, 0.0, -0.0503, 0.0, 0.0, 0.0, 0.0, -0.108, 0.0, -0.1121, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, -0.332, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0])])
def test_transducer(fused, clamp, costs, gradient):
    c, g = transducer(logits() if fused else logits().log_softmax(-1), fused, clamp)
    assert told(c, 1) == pytest.approx(costs, abs=2e-4) and told(g, 13) == pytest.approx(gradient, abs=2e-4)
    c, _ = transducer((logits() if fused else logits().log_softmax(-1)).half(), fused, clamp)
    assert c.dtype == torch.float16 and told(c, 1) == pytest.approx(costs, abs=2e-2)


def test_the_gradient_is_the_costs_own():
    x, d = logits().double(), 1e-3
    _, g = transducer(x.float(), True, -1.)
    for at in ((0, 0, 0, 4), (0, 2, 1, 2), (1, 3, 1, 4), (2, 1, 0, 3)):
        high, low = x.clone(), x.clone()
        high[at] += d
        low[at] -= d
        slope = (transducer(high.float(), True, -1.)[0].sum() - transducer(low.float(), True, -1.)[0].sum()) / (2 * d)
        assert slope.item() == pytest.approx(g[at].item(), abs=5e-3)


def path(p, t, blank=0):
    return ops.forced_align(p, torch.tensor([t]), torch.tensor([p.shape[1]]), torch.tensor([len(t)]), blank)[0][0].tolist()


def test_forced_alignment():
    p = numbers(12 * 5, 4.).view(1, 12, 5).log_softmax(-1)
    got = [path(p, [1, 2, 2, 4]), path(p.double(), [3, 3, 3]), path(p, [4, 1, 2, 3, 4, 1]), path(torch.zeros(1, 7, 5), [1, 1, 2]), path(p[:, :5], [1, 2, 2, 4])]
    assert got == [[1, 1, 1, 1, 1, 2, 0, 2, 2, 0, 0, 4], [3, 3, 0, 0, 3, 0, 0, 0, 0, 0, 0, 3], [4, 1, 1, 1, 1, 2, 2, 2, 2, 3, 4, 1], [1, 0, 1, 2, 2, 2, 2], [1, 2, 0, 2, 4]]
    assert ops.forced_align(p, torch.zeros(1, 0, dtype=torch.int32), torch.tensor([12]), torch.tensor([0]), 2)[0].tolist() == [[2] * 12]


@pytest.mark.parametrize("call,says", [
    (lambda p: path(p[:, :4], [1, 2, 2, 4]), "too long for CTC"), (lambda p: path(p, [1, 9]), "less than the CTC dimension"), (lambda p: path(p, [1], 5), "blank must be within"),
    (lambda p: path(p.int(), [1]), "log_probs must be"), (lambda p: path(p.expand(2, -1, -1), [1]), "batch dimension for log_probs"),
    (lambda p: ops.forced_align(p, torch.tensor([[1]]), torch.tensor([9]), torch.tensor([1]), 0), "input length mismatch"),
    (lambda p: ops.forced_align(p, torch.tensor([[1]]), torch.tensor([12]), torch.tensor([2**40]), 0), "target length mismatch"),
    (lambda p: transducer(logits()[:2], True, -1.), "batch dimension mismatch"), (lambda p: transducer(logits()[:, :5], True, -1.), "length mismatch"),
    (lambda p: transducer(logits().double(), True, -1.), "logits must be float32"), (lambda p: transducer(logits()[..., :5].contiguous(), True, -1.), "length mismatch")])
def test_refused(call, says):
    with pytest.raises(RuntimeError, match=says):
        call(numbers(12 * 5, 4.).view(1, 12, 5).log_softmax(-1))
