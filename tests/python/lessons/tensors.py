"""The tensor tutorial: making, indexing, broadcasting, NumPy, views, in-place, reductions, sorting."""
import numpy as np
import torch

torch.manual_seed(0)
data = [[1, 2], [3, 4]]
x_data = torch.tensor(data)
print(x_data, torch.from_numpy(np.array(data)), torch.ones_like(x_data), torch.rand_like(x_data, dtype=torch.float))
tensor = torch.ones(4, 4)
tensor[:, 1] = 0
print(tensor, f"First row: {tensor[0]}", f"First column: {tensor[:, 0]}", f"Last column: {tensor[..., -1]}")
print(torch.cat([tensor, tensor, tensor], dim=1).shape, tensor @ tensor.T, tensor.sum().item(), type(tensor.sum().item()))
print(tensor.dtype, tensor.device, tensor.is_contiguous(), tensor.t().is_contiguous(), tensor.numpy().dtype)
n = np.ones(5)
t = torch.from_numpy(n)
np.add(n, 1, out=n)
print(t, n, t.add_(1), n)
x = torch.arange(24).reshape(2, 3, 4)
print(x[1, :, ::2], x[..., 0], x[:, [0, 2]], x[x > 20], x[0].argmax(), x.float().mean((0, 2)), x.sum(-1, keepdim=True).shape)
print(x.permute(2, 0, 1).shape, x.unsqueeze(0).squeeze().shape, x.view(-1)[-3:], x.flatten(1).shape, torch.movedim(x, 0, -1).shape)
y = torch.zeros(3, 3)
y[torch.arange(3), torch.arange(3)] = torch.tensor([1.0, 2.0, 3.0])
y[1] += 10
y[y == 0] = -1
print(y, y.clamp(0, 5), y.masked_fill(y < 0, 0), torch.where(y > 0, y, y.abs() * 100))
print(torch.arange(3)[:, None] * torch.arange(4), (torch.ones(5, 1, 4) + torch.zeros(3, 1)).shape)
v, i = torch.tensor([3.0, 1.0, 2.0]).sort(descending=True)
print(v, i, torch.topk(torch.tensor([3, 1, 2]), 2), torch.argsort(torch.tensor([3, 1, 2])), torch.unique(torch.tensor([3, 1, 3]), return_counts=True))
print(torch.tensor([1, 2, 3]) / 2, torch.tensor([1, 2, 3]) // 2, 7 % torch.tensor([2, 3]), 2 ** torch.arange(4), -torch.arange(3), torch.tensor([True]) | False)
print(torch.tensor([1], dtype=torch.int8) + torch.tensor([1.5]), torch.tensor([200], dtype=torch.uint8) + 100, torch.tensor(3) + 1.5, (torch.ones(2).half() + torch.ones(2)).dtype)
print(torch.linspace(0, 1, 5), torch.logspace(0, 2, 3), torch.eye(2), torch.full((2, 2), 7), torch.empty(0).shape, torch.arange(0, 1, 0.25))
print(torch.einsum("bij,bjk->bik", torch.ones(2, 2, 3), torch.ones(2, 3, 2)), torch.einsum("ii", torch.eye(3)), torch.tensordot(torch.ones(2, 3), torch.ones(3, 2), 1))
print(torch.stack([torch.zeros(2), torch.ones(2)]), torch.chunk(torch.arange(7), 3), torch.split(torch.arange(5), [2, 3]), torch.meshgrid(torch.arange(2), torch.arange(3), indexing="ij")[1])
print(torch.gather(torch.tensor([[1, 2], [3, 4]]), 1, torch.tensor([[0, 0], [1, 0]])), torch.zeros(3, 5).scatter_(0, torch.tensor([[0, 1, 2, 0, 0]]), torch.arange(1.0, 6)[None]))
print(torch.zeros(4).index_add_(0, torch.tensor([0, 0, 3]), torch.ones(3)), torch.bincount(torch.tensor([1, 1, 3])), torch.histc(torch.arange(10.0), 5), torch.cumsum(torch.arange(4), 0))
print(torch.all(torch.tensor([True, False])), torch.isnan(torch.tensor([float("nan"), 1])), torch.allclose(torch.ones(1), torch.ones(1) + 1e-9), torch.equal(torch.ones(2), torch.ones(2)))
print(x.storage_offset(), x[1].storage_offset(), x.stride(), x.element_size(), x.nelement(), x.numpy()[0, 0], x.tolist()[1][2], len(x), [r.sum().item() for r in x])
a = torch.arange(4)
b = a.view(2, 2)
b[0, 0] = 100
print(a, a.data_ptr() == b.data_ptr(), a.clone().data_ptr() == a.data_ptr(), (a == b.reshape(-1)).all(), a.new_zeros(2), a.roll(1), a.flip(0), torch.rot90(b))
print(torch.randn(2, 2), torch.randint(10, (3,)), torch.randperm(5), torch.bernoulli(torch.full((4,), 0.5)), torch.normal(0.0, 1.0, (2,)), torch.multinomial(torch.tensor([0.1, 0.9]), 3, replacement=True))
print(torch.quantile(torch.arange(5.0), torch.tensor([0.25, 0.5])), torch.median(torch.tensor([3, 1, 2])), torch.std(torch.arange(5.0)), torch.var_mean(torch.arange(4.0)), torch.mode(torch.tensor([1, 1, 2])))
print(torch.bitwise_and(torch.tensor(6), 3), torch.tensor(6) ^ 3, torch.tensor(1) << 3, ~torch.tensor([True, False]), torch.logical_xor(torch.tensor(True), torch.tensor(False)))
print(torch.complex(torch.tensor(1.0), torch.tensor(2.0)), torch.view_as_real(torch.tensor([1 + 2j])), torch.tensor([3 + 4j]).abs(), torch.tensor([1j]).conj(), torch.polar(torch.tensor(1.0), torch.tensor(0.0)))
print(torch.get_default_dtype(), torch.promote_types(torch.int8, torch.uint8), torch.result_type(torch.ones(1, dtype=torch.int32), 1.0), torch.can_cast(torch.float, torch.int), torch.is_tensor(1), torch.numel(x))
