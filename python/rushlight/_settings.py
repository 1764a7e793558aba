"""Modules that are a tree of settings: they can be set, read, patched for a while, saved and loaded.

What they set is a compiler that is not there, so nothing reads them but programs. A name that is not listed can be set,
as a program may know more of them than the list; reading one that was never set is an AttributeError.
"""
import contextlib
import pickle
import sys
import types


class _Group:
    """The settings below a prefix: config.triton of triton.cudagraphs."""

    def __init__(self, owner, path):
        vars(self).update(_owner=owner, _path=path)

    def __getattr__(self, name):
        return self._owner._read(self._path + "." + name)

    def __setattr__(self, name, value):
        self._owner._values[self._path + "." + name] = value

    def __delattr__(self, name):
        self._owner._erase(self._path + "." + name)

    def __dir__(self):
        return [key[len(self._path) + 1:] for key in self._owner._values if key.startswith(self._path + ".")]


class _Patch(contextlib.ContextDecorator):
    """Settings for as long as a context, or the call of a function that it decorates, lasts."""

    def __init__(self, owner, changes):
        self._owner, self._changes, self._before = owner, changes, []

    def __enter__(self):
        self._before.append(dict(self._owner._values))
        for name, value in self._changes.items():
            self._owner._write(name, value)

    def __exit__(self, *error):
        self._owner._values.clear()
        self._owner._values.update(self._before.pop())


class Settings(types.ModuleType):
    def _read(self, name):
        name = self._aliases.get(name, name)
        if name in self._values:
            return self._values[name]
        if any(key.startswith(name + ".") for key in self._values):
            return _Group(self, name)
        raise AttributeError("%s.%s does not exist" % (self.__name__.replace("rushlight", "torch", 1), name))

    def _write(self, name, value):
        self._values[self._aliases.get(name, name)] = value

    def _erase(self, name):
        """unittest.mock.patch deletes what it changed, then writes what was there."""
        self._read(name)
        self._values.pop(self._aliases.get(name, name), None)

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return self._read(name)

    def __setattr__(self, name, value):
        if name.startswith("__"):
            super().__setattr__(name, value)
        else:
            self._write(name, value)

    def __delattr__(self, name):
        self._erase(name)

    def __dir__(self):
        return sorted({key.partition(".")[0] for key in self._values} | set(dir(Settings)))

    def patch(self, changes=None, value=None, /, **more):
        """These settings while the context, or the decorated function, lasts: patch(name=...), patch({...}), patch("name", value)."""
        given = {changes: value} if isinstance(changes, str) else dict(changes or {})
        return _Patch(self, {**given, **more})

    def shallow_copy_dict(self):
        """All settings, those of groups under dotted names."""
        return dict(self._values)

    get_config_copy = to_dict = shallow_copy_dict

    def save_config(self):
        return pickle.dumps(self._values, 2)

    def load_config(self, saved):
        self._values.update(pickle.loads(saved) if isinstance(saved, bytes) else saved)


def settings(module, defaults, aliases=None):
    """Make a module a tree of settings: {"name": default, "group.name": default}, and other names of some."""
    module = sys.modules[module]
    vars(module).update(_values=dict(defaults), _aliases=dict(aliases or {}))
    module.__class__ = Settings
