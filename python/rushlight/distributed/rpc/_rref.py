"""References to values that live at one worker, their owner, and are kept there as long as any worker refers to them.

References are counted by weights: the first one gets a batch of weight and gives half of it away with each copy; what is left of a reference goes
back to the owner when it ends. A value goes when all its weight has come back. So no copy needs a message of its own; only a reference whose
weight is 1 makes a new batch, and tells the owner before.
"""
from rushlight.futures import Future

from ._agent import ASYNC, agent, running
from .constants import UNSET_RPC_TIMEOUT

WHOLE = 1 << 60


class Entry:
    """A value at its owner: a future, and the weight of each batch that is elsewhere."""

    def __init__(self):
        self.future, self.out = Future(), {}


def entry(me, id):
    with me.lock:
        return me.values.setdefault(id, Entry())


def count(id, weights):
    """At the owner: weight that has gone out (positive) or come back."""
    me = running()
    if me is None:
        return
    with me.lock:
        out = entry(me, id).out
        for batch, weight in weights:
            out[batch] = out.get(batch, 0) + weight
            if not out[batch]:
                del out[batch]
        if not out:
            me.values.pop(id, None)


def make(id, weights, function, args, kwargs):
    """At the owner: the value of a remote(). Its reference may have gone already; the weights are counted in the end."""
    own = entry(agent(), id)
    try:
        value = function(*args, **kwargs)
        value = value.wait() if hasattr(function, ASYNC) else value
    except Exception as error:
        own.future.set_exception(_told(error))
    else:
        own.future.set_result(value)
    count(id, weights)


def _told(error):
    from ._agent import exception, failure
    return exception(*failure(agent().me, error))


def fetch(id):
    """At the owner: a future of the value."""
    return entry(agent(), id).future


def invoke(rref, name, args, kwargs):
    """At the owner: a future of what a method of the value returns."""
    method = getattr(rref.local_value(), name)
    result = method(*args, **kwargs)
    if hasattr(method, ASYNC):
        return result
    done = Future()
    done.set_result(result)
    return done


setattr(fetch, ASYNC, fetch)
setattr(invoke, ASYNC, invoke)


def opened(owner, id, batch, weight):
    """A reference that has come in a message."""
    me, x = agent(), RRef.__new__(RRef)
    x._owner, x._id, x._made, x._weights, x._entry = me.workers[owner], id, None, [], None
    if owner == me.rank:
        x._entry = entry(me, id)
        count(id, [(batch, -weight)])
    else:
        x._weights = [[batch, weight]]
    return x


class Calls:
    """rref.rpc_sync() and the like: its methods are the value's, called where it lives."""

    def __init__(self, rref, how, timeout):
        self._rref, self._how, self._timeout = rref, how, timeout

    def __getattr__(self, name):
        def method(*args, **kwargs):
            return self._how(self._rref.owner(), invoke, (self._rref, name, args, kwargs), timeout=self._timeout)
        return method


class RRef:
    """A reference to a value at some worker; of a value of this one: RRef(value)."""

    def __init__(self, value, type_hint=None):
        me = agent()
        self._owner, self._id, self._made, self._weights = me.me, (me.rank, next(me.numbers)), None, []
        self._entry = Entry()
        self._entry.future.set_result(value)

    @classmethod
    def _of_remote(cls, worker, function, args, kwargs, timeout):
        me, x = agent(), cls.__new__(cls)
        x._owner, x._id, x._weights, x._entry = worker, (me.rank, next(me.numbers)), [], None
        here, batch = worker.id == me.rank, (me.rank, next(me.numbers))
        if here:  # what makes the value refers to it
            x._entry = entry(me, x._id)
            count(x._id, [(batch, WHOLE)])
        else:
            x._weights = [[batch, WHOLE]]
        x._made = me.call(worker.id, make, (x._id, [(batch, -WHOLE if here else WHOLE)], function, tuple(args or ()), dict(kwargs or {})), timeout=timeout)
        return x

    def owner(self):
        return self._owner

    def owner_name(self):
        return self._owner.name

    def is_owner(self):
        return self._entry is not None

    def confirmed_by_owner(self):
        return self._made is None or self._made.done()

    def local_value(self):
        """The value, at its owner."""
        if self._entry is None:
            raise RuntimeError(f"For {self}, can't call localValue() on user {agent().me}. Call it on owner {self._owner}")
        return self._entry.future.wait()

    def to_here(self, timeout=UNSET_RPC_TIMEOUT):
        """A copy of the value; waits until there is one."""
        if self._entry is not None:
            return self._entry.future.wait()
        if self._made is not None and self._made.done():
            self._made.value()  # why there is none
        return agent().call(self._owner.id, fetch, (self._id,), timeout=timeout).wait()

    def rpc_sync(self, timeout=UNSET_RPC_TIMEOUT):
        from .api import rpc_sync
        return Calls(self, rpc_sync, timeout)

    def rpc_async(self, timeout=UNSET_RPC_TIMEOUT):
        from .api import rpc_async
        return Calls(self, rpc_async, timeout)

    def remote(self, timeout=UNSET_RPC_TIMEOUT):
        from .api import remote
        return Calls(self, _waiting(remote), timeout)

    def backward(self, dist_autograd_ctx_id=-1, retain_graph=False):
        """The gradients of the value, a scalar, at its owner."""
        if dist_autograd_ctx_id == -1:
            self.local_value().backward(retain_graph=retain_graph)
        else:
            from ..autograd import backward
            backward(dist_autograd_ctx_id, [self.local_value()], retain_graph)

    def _share(self):
        """What goes into a message for a copy."""
        me = agent()
        with me.lock:
            if self._entry is not None:
                me.values[self._id] = self._entry
                batch = (me.rank, next(me.numbers))
                count(self._id, [(batch, WHOLE)])
                return self._owner.id, self._id, batch, WHOLE
            if self._weights[-1][1] == 1:
                self._weights.append([(me.rank, next(me.numbers)), WHOLE])
                me.note(self._owner.id, count, self._id, [tuple(self._weights[-1])])
            last = self._weights[-1]
            half = last[1] // 2
            last[1] -= half
            return self._owner.id, self._id, last[0], half

    def __del__(self):
        me = running()
        if me is not None and getattr(self, "_weights", None):  # sent by the clock's thread: this may be any, in the midst of anything
            me.garbage.put((self._owner.id, count, self._id, [(batch, -weight) for batch, weight in self._weights]))

    def _reduce_for_workers(self):
        return opened, self._share()

    def __reduce__(self):
        raise RuntimeError("Can not pickle rref in python pickler, rref can only be pickled when using RPC")

    def __repr__(self):
        number = f"GloballyUniqueId(created_on={self._id[0]}, local_id={self._id[1]})"
        return f"OwnerRRef({number})" if self._entry is not None else f"UserRRef(RRefId = {number})"

    def __class_getitem__(cls, item):
        return cls


def _waiting(remote):
    """remote() of a function that returns a future of the value."""
    return lambda to, function, args, timeout: remote(to, function, args, timeout=timeout)
