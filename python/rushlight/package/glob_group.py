"""Patterns of dotted names: `*` is any text within one segment, `**` any number of whole segments."""
import re


class GlobGroup:
    """Names that match one of the patterns to include, and none of those to exclude."""

    def __init__(self, include, *, exclude=(), separator="."):
        self.include, self.exclude, self.separator = include, exclude, separator
        self._wanted = [_compiled(pattern, separator) for pattern in _listed(include)]
        self._unwanted = [_compiled(pattern, separator) for pattern in _listed(exclude)]

    def matches(self, candidate):
        text = self.separator + candidate
        return any(p.fullmatch(text) for p in self._wanted) and not any(p.fullmatch(text) for p in self._unwanted)

    def __repr__(self):
        return f"GlobGroup(include={self.include}, exclude={self.exclude})"

    __str__ = __repr__


def _listed(patterns):
    return [patterns] if isinstance(patterns, str) else list(patterns)


def _compiled(pattern, separator):
    stop = re.escape(separator)

    def segment(text):
        if text == "**":
            return f"(?:{stop}[^{stop}]+)*"
        if "**" in text:
            raise ValueError("** can only appear as an entire path segment")
        return stop + f"[^{stop}]*".join(map(re.escape, text.split("*")))
    return re.compile("".join(map(segment, pattern.split(separator))))
