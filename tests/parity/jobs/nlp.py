"""Stands for the package nlp and the texts that it downloads: load_dataset of some made-up pairs of a text and its headline."""
import random


class Pairs:
    def __init__(self, rows):
        self.rows, self.shape = rows, (len(rows), 2)

    def __getitem__(self, i):
        return self.rows[i]

    def select(self, indices):
        return Pairs([self.rows[i] for i in indices if i < len(self.rows)])


def load_dataset(name, part, data_dir, split=None):
    rng = random.Random(3)
    with open("text") as lines:
        texts = [line.strip() for line in lines]
    rows = [{"text": " ".join(rng.choices(texts, k=20)), "headline": rng.choice(texts)} for _ in range(48)]
    parts = {"train": Pairs(rows[:32]), "validation": Pairs(rows[32:])}
    return parts[split] if split else parts
