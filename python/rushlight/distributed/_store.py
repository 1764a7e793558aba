"""Key-value stores that processes meet in: TCPStore, FileStore, HashStore, PrefixStore."""
import datetime
import socket
import struct
import threading
import time
import weakref

_DEFAULT = datetime.timedelta(seconds=300)
_MAX_FIELD = 1 << 30


class DistError(RuntimeError):
    """An error of torch.distributed."""


class DistBackendError(DistError):
    """A backend failed."""


class DistNetworkError(DistError):
    """A connection failed."""


class DistStoreError(DistError):
    """A store failed, or a wait in one took too long."""


def _bytes(value):
    if isinstance(value, str):
        return value.encode()
    if isinstance(value, (bytes, bytearray)):
        return bytes(value)
    raise TypeError("set(): incompatible function arguments: a store holds str and bytes, not %s" % type(value).__name__)


def _key(key):
    if not isinstance(key, str):
        raise TypeError("set(): incompatible function arguments: a key is a str, not %s" % type(key).__name__)
    return key


def _keys(keys):
    return [keys] if isinstance(keys, str) else [_key(key) for key in keys]


class _Table:
    """The keys and values, and the operations on them; the same for a process's own store and for a server's."""

    def __init__(self):
        self.values, self.changed = {}, threading.Condition()

    def set(self, key, value):
        with self.changed:
            self.values[key] = value
            self.changed.notify_all()

    def add(self, key, amount):
        with self.changed:
            total = int(self.values.get(key, b"0")) + amount
            self.values[key] = b"%d" % total
            self.changed.notify_all()
            return total

    def append(self, key, value):
        with self.changed:
            self.values[key] = self.values.get(key, b"") + value
            self.changed.notify_all()

    def compare_set(self, key, expected, desired):
        with self.changed:
            if self.values.get(key, b"") != expected:
                return self.values.get(key, expected)
            self.values[key] = desired
            self.changed.notify_all()
            return desired

    def delete(self, key):
        with self.changed:
            return self.values.pop(key, None) is not None

    def wait(self, keys, seconds):
        with self.changed:
            return self.changed.wait_for(lambda: all(key in self.values for key in keys), seconds)

    def get(self, key):
        with self.changed:
            return self.values.get(key)

    def keys(self):
        with self.changed:
            return list(self.values)


class Store:
    """What all stores can do."""

    _timeout = _DEFAULT

    def _run(self, name, *args):
        raise RuntimeError("Not implemented.")

    def _late(self, keys, timeout):
        return DistStoreError("Wait timeout")

    @property
    def timeout(self):
        return self._timeout

    def set_timeout(self, timeout):
        self._timeout = timeout

    def set(self, key, value):
        self._run("set", _key(key), _bytes(value))

    def wait(self, keys, timeout=None):
        keys, timeout = _keys(keys), self._timeout if timeout is None else timeout
        if not self._run("wait", keys, timeout.total_seconds()):
            raise self._late(keys, timeout)

    def get(self, key):
        self.wait([key])
        return self._run("get", key)

    def add(self, key, amount):
        return self._run("add", _key(key), int(amount))

    def append(self, key, value):
        self._run("append", _key(key), _bytes(value))

    def check(self, keys):
        return bool(self._run("wait", _keys(keys), 0))

    def compare_set(self, key, expected_value, desired_value):
        return self._run("compare_set", _key(key), _bytes(expected_value), _bytes(desired_value))

    def delete_key(self, key):
        return bool(self._run("delete", _key(key)))

    def num_keys(self):
        return len(self._run("keys"))

    def list_keys(self):
        return [key for key in self._run("keys") if key != _INIT]

    def multi_set(self, keys, values):
        for key, value in zip(keys, values):
            self.set(key, value)

    def multi_get(self, keys):
        return [self.get(key) for key in keys]

    def has_extended_api(self):
        return True

    def clone(self):
        return self

    def __reduce_ex__(self, protocol):
        raise TypeError("cannot pickle 'torch._C._distributed_c10d.%s' object" % type(self).__name__)


class HashStore(Store):
    """A store within one process."""

    def __init__(self):
        self._table = _Table()

    def _run(self, name, *args):
        return getattr(self._table, name)(*args)


class PrefixStore(Store):
    """Another store with a prefix before each key."""

    def __init__(self, prefix, store):
        self.prefix, self.underlying_store = prefix, store

    @property
    def timeout(self):
        return self.underlying_store.timeout

    def set_timeout(self, timeout):
        self.underlying_store.set_timeout(timeout)

    def wait(self, keys, timeout=None):
        self.underlying_store.wait([self.prefix + "/" + key for key in _keys(keys)], timeout)

    def _run(self, name, *args):
        if name == "keys":
            return self.underlying_store._run(name)
        first = [self.prefix + "/" + key for key in args[0]] if name == "wait" else self.prefix + "/" + args[0]
        return self.underlying_store._run(name, first, *args[1:])


# ---- over a network: a frame is a count and that many fields, each after its length ----

_INIT = "init/"


def _send(connection, fields):
    connection.sendall(struct.pack("!I", len(fields)) + b"".join(struct.pack("!I", len(f)) + f for f in fields))


def _exactly(connection, n):
    parts = []
    while n:
        part = connection.recv(min(n, 1 << 20))
        if not part:
            raise ConnectionError("the other end closed the connection")
        parts.append(part)
        n -= len(part)
    return b"".join(parts)


def _receive(connection):
    fields = []
    for _ in range(min(struct.unpack("!I", _exactly(connection, 4))[0], 1 << 20)):
        size, = struct.unpack("!I", _exactly(connection, 4))
        if size > _MAX_FIELD:
            raise ConnectionError("a field of %d bytes" % size)
        fields.append(_exactly(connection, size))
    return fields


def _answer(table, request):
    name, args = request[0].decode(), request[1:]
    if name == "wait":
        return [b"1" if table.wait([key.decode() for key in args[1:]], float(args[0])) else b""]
    if name == "keys":
        return [key.encode() for key in table.keys()]
    key = args[0].decode()
    if name == "add":
        return [b"%d" % table.add(key, int(args[1]))]
    if name == "delete":
        return [b"1" if table.delete(key) else b""]
    if name not in ("set", "append", "compare_set", "get"):
        raise ConnectionError("unknown request")
    value = getattr(table, name)(key, *args[1:])
    return [] if value is None else [value]


def _serve(connection, table):
    with connection:
        try:
            while True:
                _send(connection, _answer(table, _receive(connection)))
        except (OSError, ValueError, IndexError):
            return  # the client is gone, or speaks something else


def _accept(listener, table):
    while True:
        try:
            connection, _ = listener.accept()
        except OSError:
            return  # the store is gone
        threading.Thread(target=_serve, args=(connection, table), daemon=True).start()


def _listen(port):
    try:
        listener = socket.create_server(("", port))
    except OSError as error:
        raise DistNetworkError("The server socket has failed to listen on any local network address. port: %d, message: %s"
                               % (port, error.strerror)) from None
    threading.Thread(target=_accept, args=(listener, _Table()), daemon=True).start()
    return listener


def _close(listener):
    try:
        listener.shutdown(socket.SHUT_RDWR)  # wakes the thread that accepts
    finally:
        listener.close()


class TCPStore(Store):
    """A store that one process, the master, serves to the others."""

    def __init__(self, host_name, port, world_size=None, is_master=False, timeout=_DEFAULT, wait_for_workers=True,
                 multi_tenant=False, master_listen_fd=None, use_libuv=True):
        self.host, self.port, self._timeout, self._lock = host_name, port, timeout, threading.Lock()
        if is_master:
            listener = _listen(port)
            self.port = listener.getsockname()[1]
            weakref.finalize(self, _close, listener)
        self._connection = self._connect()
        weakref.finalize(self, self._connection.close)
        self.add(_INIT, 1)
        if is_master and wait_for_workers and world_size:
            self._wait_for(world_size)

    def _connect(self):
        end = time.monotonic() + self._timeout.total_seconds()
        while True:
            try:
                connection = socket.create_connection((self.host, self.port), max(0.01, end - time.monotonic()))
                connection.settimeout(None)
                return connection
            except OSError:
                if time.monotonic() >= end:
                    raise DistNetworkError("The client socket has timed out after %dms while trying to connect to (%s, %d)."
                                           % (self._timeout.total_seconds() * 1000, self.host, self.port)) from None
                time.sleep(0.02)

    def _wait_for(self, world_size):
        end = time.monotonic() + self._timeout.total_seconds()
        while (here := self.add(_INIT, 0)) < world_size:
            if time.monotonic() >= end:
                raise DistStoreError("Timed out after %d seconds waiting for clients. %d/%d clients joined."
                                     % (self._timeout.total_seconds(), here, world_size))
            time.sleep(0.01)

    def _late(self, keys, timeout):
        return DistStoreError("wait timeout after %dms, keys: %s" % (timeout.total_seconds() * 1000, ", ".join("/" + key for key in keys)))

    def _run(self, name, *args):
        if name == "wait":
            return self._wait(*args)
        return self._request(name, *args)

    def _wait(self, keys, seconds):
        end = time.monotonic() + seconds
        while True:  # in short turns: between them other threads have the connection
            left = end - time.monotonic()
            found = self._request("wait", max(0.0, min(left, 0.1)), *keys)
            if found or left <= 0:
                return found

    def _request(self, name, *args):
        fields = [name.encode()] + [a if isinstance(a, bytes) else str(a).encode() for a in args]
        try:
            with self._lock:
                _send(self._connection, fields)
                answer = _receive(self._connection)
        except OSError as error:
            raise DistNetworkError("the store at (%s, %d): %s" % (self.host, self.port, error)) from None
        if name == "keys":
            return [key.decode() for key in answer]
        return int(answer[0]) if name == "add" else answer[0] if answer else None


class FileStore(Store):
    """A store in a file, of frames that are appended under a lock: set, add, ..., the last one of a key counts."""

    def __init__(self, file_name, world_size=-1):
        self.path = file_name
        self.add(_INIT, 1)

    def _run(self, name, *args):
        import fcntl
        if name == "wait":
            end = time.monotonic() + args[1]
            while not (done := self._locked(fcntl, lambda table: table.wait(args[0], 0))) and time.monotonic() < end:
                time.sleep(0.01)
            return done
        return self._locked(fcntl, lambda table: getattr(table, name)(*args))

    def _locked(self, fcntl, act):
        with open(self.path, "a+b") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            file.seek(0)
            table, frames = _Table(), file.read()
            at = 0
            while at < len(frames):
                nkey, nvalue = struct.unpack_from("!Ii", frames, at)
                key, at = frames[at + 8:at + 8 + nkey].decode(), at + 8 + nkey
                if nvalue < 0:
                    table.values.pop(key, None)
                else:
                    table.values[key], at = frames[at:at + nvalue], at + nvalue
            before = dict(table.values)
            result = act(table)
            for key in {**before, **table.values}:
                value = table.values.get(key)
                if value != before.get(key):
                    file.write(struct.pack("!Ii", len(key.encode()), -1 if value is None else len(value)) + key.encode() + (value or b""))
            return result
