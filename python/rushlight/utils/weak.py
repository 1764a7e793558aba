"""Dictionaries whose keys are held weakly and compared by identity: tensors compare by value otherwise."""
import collections.abc
import weakref
from _weakref import ref
from weakref import WeakKeyDictionary  # noqa: F401

WeakRef = ref

__all__ = ["TensorWeakRef", "WeakIdRef", "WeakIdKeyDictionary", "WeakTensorKeyDictionary"]


class WeakIdRef(weakref.ref):
    """A weak reference that hashes and compares by the identity of what it refers to."""

    __slots__ = ["_id"]

    def __new__(cls, key, callback=None):
        return super().__new__(cls, key, callback)

    def __init__(self, key, callback=None):
        self._id = id(key)
        super().__init__(key, callback)

    def __call__(self):
        return super().__call__()

    def __hash__(self):
        return self._id

    def __eq__(self, other):
        if not isinstance(other, WeakIdRef):
            return NotImplemented
        mine, theirs = self(), other()
        if mine is not None and theirs is not None:
            return mine is theirs
        return self is other


_WeakHashRef = weakref.ref


class WeakIdKeyDictionary(collections.abc.MutableMapping):
    """object (by identity, held weakly) -> value"""

    def __init__(self, dict=None, ref_type=WeakIdRef):
        self.ref_type = ref_type
        self.data = {}
        mine = weakref.ref(self)

        def remove(dead):
            owner = mine()
            if owner is not None:
                owner.data.pop(dead, None)
        self._remove = remove
        if dict is not None:
            self.update(dict)

    def __delitem__(self, key):
        del self.data[self.ref_type(key)]

    def __getitem__(self, key):
        return self.data[self.ref_type(key)]

    def __len__(self):
        return len(self.data)

    def __repr__(self):
        return "<%s at %#x>" % (type(self).__name__, id(self))

    def __setitem__(self, key, value):
        self.data[self.ref_type(key, self._remove)] = value

    def __contains__(self, key):
        try:
            return self.ref_type(key) in self.data
        except TypeError:
            return False

    def __iter__(self):
        for reference in list(self.data):
            key = reference()
            if key is not None:
                yield key

    def update(self, dict=(), **kwargs):
        """What has no items() is read to its end before anything is set."""
        for key, value in {**(dict if hasattr(dict, "items") else type(self.data)(dict)), **kwargs}.items():
            self[key] = value

    def keyrefs(self):
        return list(self.data)

    def copy(self):
        new = WeakIdKeyDictionary(ref_type=self.ref_type)
        for key, value in self.items():
            new[key] = value
        return new

    __copy__ = copy

    def __deepcopy__(self, memo):
        from copy import deepcopy
        new = type(self)()
        for key, value in self.items():
            new[key] = deepcopy(value, memo)
        return new

    def __ior__(self, other):
        self.update(other)
        return self

    def __or__(self, other):
        if not isinstance(other, collections.abc.Mapping):
            return NotImplemented
        new = self.copy()
        new.update(other)
        return new

    def __ror__(self, other):
        if not isinstance(other, collections.abc.Mapping):
            return NotImplemented
        new = type(self)(ref_type=self.ref_type)
        new.update(other)
        new.update(self)
        return new

    def __eq__(self, other):
        if not isinstance(other, collections.abc.Mapping):
            return NotImplemented
        return {id(k): v for k, v in self.items()} == {id(k): v for k, v in other.items()}


WeakTensorKeyDictionary = WeakIdKeyDictionary


class TensorWeakRef:
    """A weak reference to a tensor."""

    def __init__(self, tensor):
        import rushlight as torch
        if not isinstance(tensor, torch.Tensor):
            raise AssertionError("expected torch.Tensor, got %s" % type(tensor))
        self.ref = weakref.ref(tensor)

    def __call__(self):
        return self.ref()
