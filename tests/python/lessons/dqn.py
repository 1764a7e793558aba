"""Q-learning with a replay memory and a target network on a corridor; no gym needed."""
import random
from collections import deque, namedtuple

import torch
import torch.nn as nn
import torch.optim as optim

Transition = namedtuple("Transition", ("state", "action", "next_state", "reward"))
random.seed(0)
torch.manual_seed(5)
N = 6


class Corridor:
    def reset(self):
        self.at = 0
        return self.observe()

    def observe(self):
        return torch.nn.functional.one_hot(torch.tensor(self.at), N).float()

    def step(self, action):
        self.at = max(0, min(N - 1, self.at + (1 if action else -1)))
        done = self.at == N - 1
        return (None if done else self.observe()), float(done) - 0.01, done


policy, target = nn.Sequential(nn.Linear(N, 16), nn.ReLU(), nn.Linear(16, 2)), nn.Sequential(nn.Linear(N, 16), nn.ReLU(), nn.Linear(16, 2))
target.load_state_dict(policy.state_dict())
optimizer = optim.AdamW(policy.parameters(), lr=1e-2, amsgrad=True)
memory, env, lengths = deque([], maxlen=500), Corridor(), []


def optimize():
    if len(memory) < 16:
        return
    batch = Transition(*zip(*random.sample(memory, 16)))
    non_final = torch.tensor([s is not None for s in batch.next_state], dtype=torch.bool)
    values = policy(torch.stack(batch.state)).gather(1, torch.cat(batch.action))
    after = torch.zeros(16)
    with torch.no_grad():
        after[non_final] = target(torch.stack([s for s in batch.next_state if s is not None])).max(1).values
    expected = after * 0.9 + torch.cat(batch.reward)
    loss = nn.SmoothL1Loss()(values, expected.unsqueeze(1))
    optimizer.zero_grad()
    loss.backward()
    torch.nn.utils.clip_grad_value_(policy.parameters(), 100)
    optimizer.step()


for episode in range(12):
    state = env.reset()
    for t in range(60):
        if random.random() > max(0.05, 0.9 - 0.1 * episode):
            with torch.no_grad():
                action = policy(state).argmax().view(1, 1)
        else:
            action = torch.tensor([[random.randrange(2)]], dtype=torch.long)
        after, reward, done = env.step(action.item())
        memory.append(Transition(state, action, after, torch.tensor([reward])))
        state = after
        optimize()
        weights, kept = policy.state_dict(), target.state_dict()
        for key in weights:
            kept[key] = weights[key] * 0.05 + kept[key] * 0.95
        target.load_state_dict(kept)
        if done:
            break
    lengths.append(t + 1)
print(lengths)
with torch.no_grad():
    print(policy(torch.eye(N)).argmax(1), "%.3f" % policy(torch.eye(N)).max().item())
