"""Ports and stores."""
import contextlib
import datetime

import rushlight.distributed as dist

from .api import get_socket_with_port

__all__ = ["create_c10d_store", "get_free_port", "get_socket_with_port"]


def get_free_port():
    """A port that was free just now."""
    with contextlib.closing(get_socket_with_port()) as sock:
        return sock.getsockname()[1]


def create_c10d_store(is_server, server_addr, server_port=-1, world_size=1, timeout=10 * 60, wait_for_workers=True, retries=3, use_libuv=None):
    """A TCPStore; its server on any free port, where server_port is -1, and again on another if that was taken meanwhile."""
    if server_port == -1 and world_size > 1:
        raise ValueError(f"server_port must be specified when world_size > 1, got server_port={server_port}, world_size={world_size}")
    for left in reversed(range(retries)):
        port = get_free_port() if server_port == -1 else server_port
        try:
            return dist.TCPStore(server_addr, port, world_size, is_server, timeout=datetime.timedelta(seconds=timeout), wait_for_workers=wait_for_workers)
        except RuntimeError as error:
            if server_port != -1 or not left or "in use" not in str(error).lower():
                raise
