"""Stand-ins for symbolic functions: importable, and clear errors when an export would call them."""


def missing(module, name):
    """A function of that name that says it is not there."""
    if name.startswith("__"):
        raise AttributeError(name)

    def symbolic(*args, **kwargs):
        raise NotImplementedError("torch.%s.%s: this build has no exporter of symbolic functions" % (module, name))
    symbolic.__name__ = name
    return symbolic
