"""A character RNN from scratch that classifies names, then one that generates them."""
import string
import unicodedata

import torch
import torch.nn as nn

torch.manual_seed(15)
letters = string.ascii_letters + " .,;'"
names = {"Irish": ["O'Neal", "Ryan", "Byrne"], "Italian": ["Rossi", "Bellini", "Conti"], "Czech": ["Novák", "Svoboda", "Dvořák"]}
plain = lambda s: "".join(c for c in unicodedata.normalize("NFD", s) if unicodedata.category(c) != "Mn" and c in letters)


def line_to_tensor(line):
    tensor = torch.zeros(len(line), 1, len(letters))
    for i, letter in enumerate(line):
        tensor[i][0][letters.find(letter)] = 1
    return tensor


class RNN(nn.Module):
    def __init__(self, input_size, hidden_size, output_size):
        super().__init__()
        self.hidden_size = hidden_size
        self.i2h, self.h2h, self.h2o = nn.Linear(input_size, hidden_size), nn.Linear(hidden_size, hidden_size), nn.Linear(hidden_size, output_size)
        self.softmax = nn.LogSoftmax(dim=1)

    def forward(self, input, hidden):
        hidden = torch.tanh(self.i2h(input) + self.h2h(hidden))
        return self.softmax(self.h2o(hidden)), hidden

    def initHidden(self):
        return torch.zeros(1, self.hidden_size)


rnn, criterion, total = RNN(len(letters), 16, 3), nn.NLLLoss(), 0.0
for epoch in range(20):
    total = 0.0
    for k, (language, people) in enumerate(names.items()):
        for person in people:
            hidden = rnn.initHidden()
            rnn.zero_grad()
            x = line_to_tensor(plain(person))
            for i in range(x.size()[0]):
                output, hidden = rnn(x[i], hidden)
            loss = criterion(output, torch.tensor([k]))
            loss.backward()
            for p in rnn.parameters():
                p.data.add_(p.grad.data, alpha=-0.02)
            total += loss.item()
    if epoch % 5 == 4:
        print(epoch, round(total / 9, 4))
topv, topi = output.topk(2, 1, True)
print(topi, topv)
cell = nn.GRUCell(len(letters), 12)
out = nn.Linear(12, len(letters))
opt = torch.optim.Adam([*cell.parameters(), *out.parameters()], lr=0.01)
for step in range(10):
    h, loss = torch.zeros(1, 12), 0
    x = line_to_tensor("Rossi")
    for i in range(4):
        h = cell(x[i], h)
        loss = loss + nn.functional.cross_entropy(out(h), x[i + 1].argmax(1))
    opt.zero_grad()
    loss.backward()
    opt.step()
print("%.4f" % loss.item())
with torch.no_grad():
    h, c, said = torch.zeros(1, 12), "R", "R"
    for _ in range(5):
        h = cell(line_to_tensor(c)[0], h)
        c = letters[int(torch.multinomial(out(h).softmax(1), 1))]
        said += c
print(said)
