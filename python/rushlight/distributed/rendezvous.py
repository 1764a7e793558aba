"""How processes find one another."""
from rushlight.distributed._absent import absent

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
    scheme = url.partition("://")[0]
    if scheme in _handlers:
        return _handlers[scheme](url, **kwargs)
    if scheme in ("tcp", "env", "file"):
        return absent("", "rendezvous")["rendezvous"](url)
    raise RuntimeError(f"No rendezvous handler for {scheme}://")
