"""Random numbers that come again."""
import torch

generator = torch.Generator(device="cpu")
generator.manual_seed(3)
a = torch.rand(2, 3, generator=generator)
state = torch.get_rng_state()
b = torch.randperm(5)
torch.set_rng_state(state)
assert torch.equal(b, torch.randperm(5)) and a.max() < 1
with torch.random.fork_rng():
    torch.manual_seed(1)
c = torch.empty(3).uniform_(-1, 1).to(torch.float64)
assert c.dtype == torch.float64 and torch.bernoulli(torch.full((4,), 1.0)).sum() == 4
