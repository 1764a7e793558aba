"""OrderedSet: a set that is walked in the order in which things were added."""
from collections.abc import MutableSet

__all__ = ["OrderedSet"]


class OrderedSet(MutableSet):
    """Like set, in the order of a dict's keys."""
    __slots__ = ("_dict",)

    def __init__(self, iterable=None):
        self._dict = dict.fromkeys(iterable) if iterable is not None else {}

    def __contains__(self, elem):
        return elem in self._dict

    def __iter__(self):
        return iter(self._dict)

    def __reversed__(self):
        return reversed(self._dict)

    def __len__(self):
        return len(self._dict)

    def __repr__(self):
        return "%s(%r)" % (type(self).__name__, list(self))

    def __copy__(self):
        return OrderedSet(self)

    copy = __copy__

    def __getstate__(self):
        return list(self)

    def __setstate__(self, state):
        self._dict = dict.fromkeys(state)

    def add(self, elem):
        self._dict[elem] = None

    def discard(self, elem):
        self._dict.pop(elem, None)

    def clear(self):
        self._dict.clear()

    def pop(self):
        if not self:
            raise KeyError("pop from an empty set")
        return self._dict.popitem()[0]

    def update(self, *others):
        for other in others:
            self._dict.update(dict.fromkeys(other))

    def union(self, *others):
        made = OrderedSet(self)
        made.update(*others)
        return made

    def intersection(self, *others):
        return OrderedSet(x for x in self if all(x in other for other in map(OrderedSet, others)))

    def intersection_update(self, *others):
        self._dict = self.intersection(*others)._dict

    def difference(self, *others):
        gone = set().union(*others)
        return OrderedSet(x for x in self if x not in gone)

    def difference_update(self, *others):
        for x in set().union(*others):
            self.discard(x)

    def symmetric_difference(self, other):
        other = OrderedSet(other)
        return self.difference(other).union(other.difference(self))

    def symmetric_difference_update(self, other):
        self._dict = self.symmetric_difference(other)._dict

    def issubset(self, other):
        other = set(other)
        return all(x in other for x in self)

    def issuperset(self, other):
        return all(x in self for x in other)
