"""torch.testing: comparing tensors and making them for tests."""
from rushlight.testing._comparison import assert_allclose, assert_close
from rushlight.testing._creation import make_tensor

__all__ = ["assert_close", "make_tensor", "assert_allclose", "FileCheck"]


class FileCheck:
    """Checks that pieces of text occur in order: FileCheck().check("a").check("b").run(text)."""

    def __init__(self):
        self.steps = []

    def _add(self, kind, text, count=1):
        self.steps.append((kind, text, count))
        return self

    def check(self, text):
        return self._add("check", text)

    def check_not(self, text):
        return self._add("not", text)

    def check_count(self, text, count, exactly=False):
        return self._add("exactly" if exactly else "count", text, count)

    def check_same(self, text):
        return self._add("check", text)

    check_next = check_dag = check_same

    def run(self, test_file):
        at, forbidden = 0, []
        text = str(test_file)
        for kind, piece, count in self.steps:
            if kind == "not":
                forbidden.append(piece)
                continue
            start = at
            for _ in range(count):
                found = text.find(piece, at)
                if found < 0:
                    raise RuntimeError('Expected to find "%s" but did not find it\nSearched string:\n%s' % (piece, text[start:]))
                at = found + len(piece)
            if kind == "exactly" and text.find(piece, at) >= 0:
                raise RuntimeError('Expected to not find "%s" but found it' % piece)
            for banned in forbidden:
                if banned in text[start:at - len(piece)]:
                    raise RuntimeError('Expected to not find "%s" but found it' % banned)
            forbidden = []
        for banned in forbidden:
            if banned in text[at:]:
                raise RuntimeError('Expected to not find "%s" but found it' % banned)
