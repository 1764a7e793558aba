"""How processes find one another."""
import os
import urllib.parse

from rushlight._C import FileStore, PrefixStore, TCPStore

from .constants import default_pg_timeout

_handlers = {}


def register_rendezvous_handler(scheme, handler):
    """Make handler(url, timeout=...) the one that finds the others by urls of this scheme."""
    if scheme in _handlers:
        raise RuntimeError(f"Rendezvous handler for {scheme}:// already registered")
    _handlers[scheme] = handler


def rendezvous(url, rank=-1, world_size=-1, **kwargs):
    """An iterator of (store, rank, world size) by the registered handler of a url's scheme."""
    if not isinstance(url, (str, bytes)):
        raise RuntimeError(f"`url` must be a string. {type(url)}: {url}")
    parts = urllib.parse.urlparse(url)
    if rank != -1 or world_size != -1:  # as if the address said it
        query = dict(urllib.parse.parse_qsl(parts.query))
        if rank != -1:
            query["rank"] = str(rank)
        if world_size != -1:
            query["world_size"] = str(world_size)
        parts = parts._replace(query=urllib.parse.urlencode(query))
        url = urllib.parse.urlunparse(parts)
    if parts.scheme not in _handlers:
        raise RuntimeError(f"No rendezvous handler for {parts.scheme}://")
    return _handlers[parts.scheme](url, **kwargs)


def _query(url):
    parts = urllib.parse.urlparse(url)
    return parts, dict(urllib.parse.parse_qsl(parts.query))


def _needed(query, name, url):
    if name not in query:
        raise ValueError(f"Error initializing torch.distributed using {url.partition('://')[0]}:// rendezvous: {name.replace('_', ' ')} parameter missing")
    return int(query[name])


def _tcp(url, timeout=default_pg_timeout, **kwargs):
    parts, query = _query(url)
    if parts.port is None:
        raise ValueError("Error initializing torch.distributed using tcp:// rendezvous: port number missing")
    rank, world_size = _needed(query, "rank", url), _needed(query, "world_size", url)
    yield TCPStore(parts.hostname, parts.port, world_size, rank == 0, timeout, multi_tenant=True), rank, world_size
    raise RuntimeError("Unable to perform re-rendezvous using tcp:// method")


def _env(url, timeout=default_pg_timeout, **kwargs):
    def value(name):
        if name not in os.environ:
            raise ValueError(f"Error initializing torch.distributed using env:// rendezvous: environment variable {name} expected, but not set")
        return os.environ[name]
    _, query = _query(url)
    rank = int(query["rank"]) if "rank" in query else int(value("RANK"))
    world_size = int(query["world_size"]) if "world_size" in query else int(value("WORLD_SIZE"))
    host, port = value("MASTER_ADDR"), int(value("MASTER_PORT"))
    if os.environ.get("TORCHELASTIC_USE_AGENT_STORE") == "True":  # the launcher serves it
        store = TCPStore(host, port, world_size, False, timeout)
        attempt = os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")
        if attempt != "0":  # our launcher's store lives on; before, ranks of PyTorch, which know of no prefix, can be in the job
            store = PrefixStore("/worker/attempt_" + attempt, store)
    else:
        store = TCPStore(host, port, world_size, rank == 0, timeout, multi_tenant=True)
    yield store, rank, world_size
    raise RuntimeError("Unable to perform re-rendezvous using env:// method")


def _file(url, **kwargs):
    parts, query = _query(url)
    if not parts.path:
        raise ValueError("Error initializing torch.distributed using file:// rendezvous: path missing")
    rank, world_size = _needed(query, "rank", url), _needed(query, "world_size", url)
    yield FileStore(parts.path, world_size), rank, world_size
    raise RuntimeError("Unable to perform rerendezvous using file:// method")


for _scheme, _handler in (("tcp", _tcp), ("env", _env), ("file", _file)):
    register_rendezvous_handler(_scheme, _handler)
