"""An LSTM tagger and word embeddings (n-gram language model, continuous bag of words)."""
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch.optim as optim

torch.manual_seed(1)
training = [("The dog ate the apple".split(), ["DET", "NN", "V", "DET", "NN"]), ("Everybody read that book".split(), ["NN", "V", "DET", "NN"])]
words = {}
for sentence, tags in training:
    for word in sentence:
        words.setdefault(word, len(words))
tags_of = {"DET": 0, "NN": 1, "V": 2}


class LSTMTagger(nn.Module):
    def __init__(self, embedding_dim, hidden_dim, vocabulary, tagset):
        super(LSTMTagger, self).__init__()
        self.word_embeddings = nn.Embedding(vocabulary, embedding_dim)
        self.lstm = nn.LSTM(embedding_dim, hidden_dim)
        self.hidden2tag = nn.Linear(hidden_dim, tagset)

    def forward(self, sentence):
        embeds = self.word_embeddings(sentence)
        out, _ = self.lstm(embeds.view(len(sentence), 1, -1))
        return F.log_softmax(self.hidden2tag(out.view(len(sentence), -1)), dim=1)


model = LSTMTagger(6, 6, len(words), 3)
loss_function, optimizer = nn.NLLLoss(), optim.SGD(model.parameters(), lr=0.1)
prepare = lambda seq, to: torch.tensor([to[w] for w in seq], dtype=torch.long)
for epoch in range(40):
    for sentence, tags in training:
        model.zero_grad()
        loss = loss_function(model(prepare(sentence, words)), prepare(tags, tags_of))
        loss.backward()
        optimizer.step()
with torch.no_grad():
    print(model(prepare(training[0][0], words)))
    print(loss)

context = 2
text = "When forty winters shall besiege thy brow and dig deep trenches in thy beauty's field".split()
ngrams = [([text[i - j - 1] for j in range(context)], text[i]) for i in range(context, len(text))]
ix = {w: i for i, w in enumerate(sorted(set(text)))}
embed, one, two = nn.Embedding(len(ix), 5), nn.Linear(10, 16), nn.Linear(16, len(ix))
optimizer, losses = optim.SGD([*embed.parameters(), *one.parameters(), *two.parameters()], lr=0.01), []
for epoch in range(5):
    total = 0
    for before, after in ngrams:
        x = embed(torch.tensor([ix[w] for w in before])).view((1, -1))
        loss = F.nll_loss(F.log_softmax(two(F.relu(one(x))), dim=1), torch.tensor([ix[after]]))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        total += loss.item()
    losses.append(round(total, 3))
print(losses)
bag = nn.EmbeddingBag(len(ix), 4, mode="mean", sparse=False)
print(bag(torch.tensor([1, 2, 4, 5, 4, 3]), torch.tensor([0, 4])))
