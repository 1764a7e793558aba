"""What torch.compile makes of a module: a module around it, which runs it as it is.

Nothing is compiled, but programs see the wrapping: `_orig_mod`, the prefix of names in a state_dict, isinstance.
"""
import rushlight as torch


class OptimizedModule(torch.nn.Module):
    """A module that calls another and shows its attributes as its own."""

    def __init__(self, mod, dynamo_ctx=None):
        super().__init__()
        self._modules["_orig_mod"] = mod
        self.__dict__["dynamo_ctx"] = dynamo_ctx

    def forward(self, *args, **kwargs):
        return self._modules["_orig_mod"](*args, **kwargs)

    @property
    def training(self):
        return self._modules["_orig_mod"].training

    @training.setter
    def training(self, mode):
        self._modules["_orig_mod"].training = mode

    def _within(self, name):
        """Whether an attribute is the other module's to hold."""
        own = self.__dict__
        return "_orig_mod" in own.get("_modules", ()) and name not in own and name != "_orig_mod" and not hasattr(type(self), name)

    def __getattr__(self, name):
        if self._within(name):
            return getattr(self._modules["_orig_mod"], name)
        return super().__getattr__(name)

    def __setattr__(self, name, value):
        if self._within(name):
            setattr(self._modules["_orig_mod"], name, value)
        else:
            super().__setattr__(name, value)

    def __delattr__(self, name):
        if self._within(name):
            delattr(self._modules["_orig_mod"], name)
        else:
            super().__delattr__(name)

    def __dir__(self):
        return sorted({*super().__dir__(), *dir(self._modules["_orig_mod"])})


def is_dynamo_supported():
    return False


def innermost_fn(fn):
    return fn
