"""The decorator that keeps the compiler away from a function: there is none to keep away."""


def _disable_dynamo(fn=None, recursive=True):
    """fn itself; a decorator when called without one."""
    return (lambda f: f) if fn is None else fn
