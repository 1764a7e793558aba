"""Draw, and say how likely it was."""
import torch
from torch.distributions import Categorical, Normal, kl_divergence

normal = Normal(loc=torch.zeros(3), scale=torch.ones(3))
sample = normal.rsample(torch.Size([2]))
assert normal.log_prob(sample).shape == (2, 3)
policy = Categorical(logits=torch.zeros(4))
action = policy.sample()
assert 0 <= int(action) < 4 and policy.entropy().item() > 1
assert kl_divergence(normal, normal).sum().item() == 0
