"""Operations on tensors spread over processes: value and gradient are those of the whole tensors.

    dtensor_cases.py URL RANK SIZE     prints what differs, then how many were compared
"""
import datetime
import itertools
import sys

import rushlight as torch
import rushlight.distributed as dist
from rushlight.distributed.tensor import DTensor, Replicate, Shard, distribute_tensor

F = torch.nn.functional
torch.manual_seed(0)
X, Y, B, S, Q, V = (torch.randn(*shape) for shape in ((5, 6), (5, 6), (2, 4, 6), (6, 6), (2, 4, 4, 6), (6,)))
I, C5, C, W = torch.tensor([0, 4, 2, 2]), torch.tensor([0, 3, 1, 2, 2]), torch.randn(5, 3, 8, 8), torch.randn(4, 3, 3, 3)


def like(numbers, x):
    """For DTensors a DTensor."""
    return distribute_tensor(numbers, x.device_mesh) if isinstance(x, DTensor) else numbers


CASES = [
    (lambda x, y: x + y, X, Y),
    (lambda x, y: x * y + 1, X, V),
    (lambda x, y: (x - y) / 3, X, Y),
    (lambda x, y: x / (y * y + 1), X, Y),
    (lambda x: x.relu().exp(), X),
    (lambda x: F.gelu(x), X),
    (F.silu, X),
    (lambda x: x.sum(), X),
    (lambda x: x.sum(0) * 2, X),
    (lambda x: x.sum(1, keepdim=True) * x, X),
    (lambda x: x.mean(), X),
    (lambda x: x.mean(-1) + 1, X),
    (lambda x: x.amax(0) + 1, X),
    (lambda x: x.max(), X),
    (lambda x: x.max(1)[0], X),
    (lambda x: x.var(0), X),
    (lambda x: x.std(1), X),
    (lambda x: x.logsumexp(1), X),
    (lambda x: x.norm(), X),
    (lambda x: x.prod(1), X),
    (lambda x: x.softmax(-1), X),
    (lambda x: x.log_softmax(0), X),
    (lambda x, y: x @ y, X, S),
    (lambda x, y: x @ y.t(), X, Y),
    (lambda x, y: x @ y, B, S),
    (lambda x: x @ x.transpose(1, 2), B),
    (lambda x, w, b: F.linear(x, w, b), X, S, V),
    (lambda x, w, b: F.linear(x, w, b), B, S, V),
    (lambda x, w: F.linear(x, w).relu().sum(), Q, S),
    (lambda x: x.view(5, 2, 3).relu(), X),
    (lambda x: x.view(30) * 2, X),
    (lambda x: x.reshape(10, 3) + 1, X),
    (lambda x: x.flatten(1) * 2, B),
    (lambda x: x.transpose(0, 1) * 2, B),
    (lambda x: x.permute(2, 0, 1).relu(), B),
    (lambda x: x.unsqueeze(1) * 2, X),
    (lambda x: x.unsqueeze(0).squeeze(0) * 2, X),
    (lambda x: x[1] * 2, X),
    (lambda x: x[1:4] * 2, X),
    (lambda x: x[:, ::2] * 2, X),
    (lambda x: x[[0, 2]] * 2, X),
    (lambda x: x.unsqueeze(0).expand(3, 5, 6) * 2, X),
    (lambda x, y: torch.cat([x, y], 0) * 2, X, Y),
    (lambda x, y: torch.cat([x, y], 1) * 2, X, Y),
    (lambda x, y: torch.stack([x, y]) * 2, X, Y),
    (lambda x: x.split(2, 0)[1] * 2, X),
    (lambda x: x.chunk(2, 1)[1] * 2, X),
    (lambda x: x.unbind(0)[1] * 2, X),
    (lambda x: x.tril() * 2, X),
    (lambda x: x.cumsum(0), X),
    (lambda x: x.sort(1)[0], X),
    (lambda x: x.topk(2)[0], X),
    (lambda x, w, b: F.layer_norm(x, (6,), w, b), B, V, V + 1),
    (lambda x, w: F.rms_norm(x, (6,), w), B, V),
    (lambda w: F.embedding(like(I, w), w) * 2, X),
    (lambda q, k, v: F.scaled_dot_product_attention(q, k, v), Q, Q + 1, Q * 2),
    (lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True), Q, Q + 1, Q * 2),
    (lambda x, w: F.conv2d(x, w), C, W),
    (lambda x, w, b: F.conv2d(x, w, b, padding=1), C, W, V[:4]),
    (lambda x: F.batch_norm(x, None, None, training=True), C),
    (lambda x: F.max_pool2d(x, 2), C),
    (lambda x: F.adaptive_avg_pool2d(x, 1), C),
    (lambda x: F.cross_entropy(x, like(C5, x)), X),
    (lambda x, y: torch.where(x > 0, x, y), X, Y),
    (lambda x: x.clamp(-1, 1), X),
    (lambda x: x.pow(2).mean(), X),
    (lambda x: F.group_norm(x.unsqueeze(-1), 2), X),
    (lambda x, y: torch.einsum('ij,kj->ik', x, y), X, Y),
    (lambda x, y: x.lerp(y, 0.3), X, Y),
    (lambda x: x * x.sum(), X),
    (lambda x: x.mean() * x.sum(0), X),
    (lambda x: F.normalize(x), X),
    (lambda x: torch.outer(x, x), V),
    (lambda x: F.dropout(x, 0.0), X),
    (lambda x: F.glu(x), X),
    (lambda x: F.binary_cross_entropy_with_logits(x, torch.zeros_like(x)), X),
    (lambda x, y: F.mse_loss(x, y), X, Y),
    (lambda x: F.pad(x, (1, 1)), X),
    (lambda x: x.t().contiguous() * 2, X),
    (lambda x: x.double().sum(1), X),
    (lambda x: (x.sum(0) + x.sum(0)).relu(), X),
    (lambda x: x.roll(1, 0), X),
]


def spread(tensors):
    """Which placements are tried: one tensor cut, or all alike."""
    for placements in itertools.product(*([Replicate()] + [Shard(d) for d in range(t.dim())] for t in tensors)):
        cut = [p for p in placements if p.is_shard()]
        if len(cut) == 1 or len(cut) == len(placements) and len(set(cut)) == 1:
            yield placements


def gap(a, b):
    assert a.shape == b.shape, (a.shape, b.shape)
    return (a - b).abs().max().item()


def main():
    url, rank, size = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    dist.init_process_group("gloo", init_method=url, rank=rank, world_size=size, timeout=datetime.timedelta(seconds=120))
    mesh, compared = dist.init_device_mesh("cpu", (size,)), 0
    for number, (f, *tensors) in enumerate(CASES):
        leaves = [t.clone().requires_grad_() for t in tensors]
        want = f(*leaves)
        weights = torch.randn(want.shape, generator=torch.Generator().manual_seed(3)).to(want.dtype)
        (want * weights).sum().backward()
        for placements in spread(tensors):
            parts = [distribute_tensor(t, mesh, [p], src_data_rank=None).requires_grad_() for t, p in zip(tensors, placements)]
            got = f(*parts)
            (got * distribute_tensor(weights, mesh, src_data_rank=None)).sum().backward()
            worst = max([gap(got.full_tensor(), want)] + [gap(p.grad.full_tensor(), leaf.grad) for p, leaf in zip(parts, leaves)])
            compared += 1
            if not worst < 1e-4:
                print("case", number, placements, worst)
    print(compared)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
