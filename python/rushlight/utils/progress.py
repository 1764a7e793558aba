"""progress(iterable): the same items, with a bar on the terminal while they are gone through.

Silent when standard error is no terminal, so programs need not ask.
"""
import sys
import time

__all__ = ["progress"]


class progress:
    """for batch in progress(loader, "epoch 1"): ...; .note("loss 0.3") shows words behind the bar."""

    def __init__(self, items, title="", total=None, file=None, every=0.1):
        self.items, self.title, self.every = items, title, every
        self.file = sys.stderr if file is None else file
        self.total = total
        if total is None and hasattr(items, "__len__"):
            try:
                self.total = len(items)
            except TypeError:
                self.total = None   # a loader over a stream has no length
        self.words = ""

    def __len__(self):
        if self.total is None:
            raise TypeError("progress over something without a length")
        return self.total

    def note(self, words):
        self.words = str(words)

    def __iter__(self):
        if not self.file.isatty():
            yield from self.items
            return
        start = shown = time.monotonic()
        count = 0
        for item in self.items:
            yield item
            count += 1
            now = time.monotonic()
            if now - shown >= self.every:
                shown = now
                self._show(count, now - start)
        self._show(count, time.monotonic() - start)
        self.file.write("\n")

    def _show(self, count, seconds):
        rate = count / seconds if seconds else 0
        if self.total:
            filled = int(20 * min(count / self.total, 1))
            left = (self.total - count) / rate if rate else 0
            text = "[%s%s] %d/%d, %.1f/s, %d s left" % ("#" * filled, "." * (20 - filled), count, self.total, rate, left)
        else:
            text = "%d, %.1f/s" % (count, rate)
        self.file.write("\r%s %s %s\x1b[K" % (self.title, text, self.words))
        self.file.flush()
