"""REINFORCE and actor-critic on a bandit walk, with Categorical policies and discounted returns."""
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch.optim as optim
from torch.distributions import Categorical

torch.manual_seed(17)


class Policy(nn.Module):
    def __init__(self):
        super().__init__()
        self.affine1, self.dropout = nn.Linear(3, 12), nn.Dropout(p=0.6)
        self.action_head, self.value_head = nn.Linear(12, 2), nn.Linear(12, 1)
        self.saved, self.rewards = [], []

    def forward(self, x):
        x = F.relu(self.dropout(self.affine1(x)))
        return F.softmax(self.action_head(x), dim=-1), self.value_head(x)


policy = Policy()
optimizer = optim.Adam(policy.parameters(), lr=1e-2)
eps = torch.finfo(torch.float32).eps
for episode in range(10):
    state, total = torch.zeros(3), 0.0
    for t in range(12):
        probs, value = policy(state)
        m = Categorical(probs)
        action = m.sample()
        policy.saved.append((m.log_prob(action), value))
        reward = float(action.item() == (t % 2))
        policy.rewards.append(reward)
        total += reward
        state = torch.tensor([t % 2, float(action), t / 12])
    R, returns = 0, []
    for r in policy.rewards[::-1]:
        R = r + 0.9 * R
        returns.insert(0, R)
    returns = torch.tensor(returns)
    returns = (returns - returns.mean()) / (returns.std() + eps)
    policy_losses, value_losses = [], []
    for (log_prob, value), R in zip(policy.saved, returns):
        policy_losses.append(-log_prob * (R - value.item()))
        value_losses.append(F.smooth_l1_loss(value, torch.tensor([R])))
    optimizer.zero_grad()
    loss = torch.stack(policy_losses).sum() + torch.stack(value_losses).sum()
    loss.backward()
    optimizer.step()
    del policy.rewards[:], policy.saved[:]
    print(f"Episode {episode}\tReward: {total:.0f}\tLoss: {loss.item():.3f}")
