"""Sequence to sequence with packed sequences of several lengths, teacher forcing and greedy decoding."""
import torch
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence, pad_sequence, pack_sequence

torch.manual_seed(1)
PAD, START = 0, 1


class Encoder(nn.Module):
    def __init__(self, vocabulary, hidden):
        super().__init__()
        self.embed = nn.Embedding(vocabulary, hidden, padding_idx=PAD)
        self.rnn = nn.GRU(hidden, hidden, bidirectional=True)
        self.join = nn.Linear(2 * hidden, hidden)

    def forward(self, x, lengths):
        packed = pack_padded_sequence(self.embed(x), lengths, enforce_sorted=False)
        out, state = self.rnn(packed)
        out, back = pad_packed_sequence(out)
        return out, torch.tanh(self.join(torch.cat([state[0], state[1]], 1))).unsqueeze(0), back


class Decoder(nn.Module):
    def __init__(self, vocabulary, hidden):
        super().__init__()
        self.embed, self.rnn = nn.Embedding(vocabulary, hidden), nn.GRU(hidden, hidden)
        self.out = nn.Linear(hidden, vocabulary)

    def forward(self, token, state):
        y, state = self.rnn(self.embed(token).unsqueeze(0), state)
        return self.out(y.squeeze(0)), state


encoder, decoder = Encoder(10, 12), Decoder(10, 12)
optimizer = torch.optim.RMSprop([*encoder.parameters(), *decoder.parameters()], lr=5e-3)
criterion = nn.CrossEntropyLoss(ignore_index=PAD)
data = [torch.randint(2, 10, (n,)) for n in (3, 6, 4, 5)]
x, lengths = pad_sequence(data), torch.tensor([len(d) for d in data])
print(x.t(), lengths)
for epoch in range(20):
    optimizer.zero_grad()
    outputs, state, back = encoder(x, lengths)
    assert torch.equal(back, lengths)
    token, loss = torch.full((4,), START), 0.0
    for t in range(x.size(0)):
        logits, state = decoder(token, state)
        loss = loss + criterion(logits, x[t])
        token = x[t]
    loss.backward()
    optimizer.step()
    if epoch % 4 == 3:
        print(epoch, "%.4f" % loss.item())
with torch.no_grad():
    _, state, _ = encoder(x, lengths)
    token, said = torch.full((4,), START), []
    for t in range(6):
        logits, state = decoder(token, state)
        token = logits.argmax(1)
        said.append(token)
    print(torch.stack(said, 1))
packed = pack_sequence(sorted(data, key=len, reverse=True))
print(packed.batch_sizes, packed.data.tolist(), packed.sorted_indices)
lstm = nn.LSTM(2, 3, num_layers=2, batch_first=True, proj_size=2)
y, (h, c) = lstm(torch.ones(2, 4, 2))
print(y.shape, h.shape, c.shape, y.sum().item().__format__(".4f"))
