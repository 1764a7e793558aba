"""Environment variables, ports, and what stands in arguments for a process's number."""
import os
import socket
import string

__all__ = ["get_env_variable_or_raise", "get_socket_with_port", "macros"]


def get_env_variable_or_raise(env_name):
    value = os.environ.get(env_name)
    if value is None:
        raise ValueError(f"Environment variable {env_name} expected, but not set")
    return value


def get_socket_with_port():
    """A socket that holds a free port of this machine until it is closed."""
    return socket.create_server(("localhost", 0))


class macros:
    """${local_rank} in arguments of a program that is started several times."""

    local_rank = "${local_rank}"

    @staticmethod
    def substitute(args, local_rank):
        return [string.Template(arg).safe_substitute(local_rank=local_rank) for arg in args]
