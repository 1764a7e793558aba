"""TorchVersion: a string that compares as a version number, with strings, tuples and Version objects."""
import re
from typing import Any

from rushlight import version as _version

__all__ = ["TorchVersion"]

_PART = re.compile(r"(\d+)|(a|b|rc|dev|post|alpha|beta|c|pre|preview)|\+([a-z0-9.]+)", re.IGNORECASE)
_RANK = {"dev": -4, "a": -3, "alpha": -3, "b": -2, "beta": -2, "c": -1, "rc": -1, "pre": -1, "preview": -1, "post": 1}


def _packaging_version():
    try:
        from packaging.version import InvalidVersion, Version
    except ModuleNotFoundError:
        return None, None
    return Version, InvalidVersion


def _plain_key(text):
    """Ordering key used where the packaging library is not installed: release, then pre/post/dev, then local part."""
    text = text.lower().lstrip("v")
    if not re.match(r"\d", text):
        raise ValueError("Invalid version: '%s'" % text)
    release, tail, local = [], [], ()
    for number, word, rest in _PART.findall(text):
        if rest:
            local = tuple((1, int(p), "") if p.isdigit() else (0, 0, p) for p in rest.split("."))
        elif word:
            tail.append(_RANK[word])
        elif tail:
            tail.append(int(number))
        else:
            release.append(int(number))
    while release and release[-1] == 0:
        release.pop()
    return tuple(release), tuple(tail) or (0,), local


def _key(other: Any):
    Version, _ = _packaging_version()
    if isinstance(other, (tuple, list)):
        other = ".".join(str(part) for part in other)
    if Version is not None:
        return other if isinstance(other, Version) else Version(str(other))
    return _plain_key(str(other))


class TorchVersion(str):
    """`torch.__version__`: prints as text, compares as a version ("2.9" < "2.13")."""

    def _compare(self, other, decide, by_text):
        try:
            return decide(_key(str(self)), _key(other))
        except ValueError:
            # Not a version: both are compared as the strings they are.
            if isinstance(other, (tuple, list)):
                other = ".".join(str(part) for part in other)
            return by_text(str(self), str(other))

    def __lt__(self, other):
        return self._compare(other, lambda a, b: a < b, lambda a, b: a < b)

    def __le__(self, other):
        return self._compare(other, lambda a, b: a <= b, lambda a, b: a <= b)

    def __gt__(self, other):
        return self._compare(other, lambda a, b: a > b, lambda a, b: a > b)

    def __ge__(self, other):
        return self._compare(other, lambda a, b: a >= b, lambda a, b: a >= b)

    def __eq__(self, other):
        return self._compare(other, lambda a, b: a == b, lambda a, b: a == b)

    def __ne__(self, other):
        return not self.__eq__(other)

    __hash__ = str.__hash__


__version__ = TorchVersion(_version.__version__)
