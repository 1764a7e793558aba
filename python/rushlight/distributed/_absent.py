"""Names of torch.distributed that packages import: what is not there says so when it is used, not when it is imported."""


def _say(name):
    raise NotImplementedError(f"torch.distributed.{name} is not supported")


class _AbsentType(type):
    def __call__(cls, *args, **kwargs):
        _say(cls._path)


def absent_class(path):
    """A class for isinstance and annotations that cannot be instantiated."""
    name = path.rpartition(".")[2]
    return _AbsentType(name, (), {"_path": path, "__doc__": "Not available in this build.", "__module__": "torch.distributed"})


def absent_function(path):
    def function(*args, **kwargs):
        _say(path)
    function.__name__ = function.__qualname__ = path.rpartition(".")[2]
    function.__doc__ = "Not available in this build."
    return function


def absent(classes="", functions="", prefix=""):
    """{name: placeholder} for a module's globals()."""
    names = {n: absent_class(prefix + n) for n in classes.split()}
    names.update({n: absent_function(prefix + n) for n in functions.split()})
    return names
