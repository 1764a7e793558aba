"""Where modules come from: this process (sys_importer), a package, or several of them in order."""
import importlib
import pickle
import re
import types

from rushlight._alias import ALIAS, own_name, torch_name

_MANGLED = re.compile(r"<torch_package_\d+>")


class ObjNotFoundError(Exception):
    """No module of an importer has the object."""


class ObjMismatchError(Exception):
    """An importer finds another object of that name."""


def split_mangled(name):
    """("<torch_package_0>", "a.b") of the name of a module of a package; ("", name) of others."""
    found = _MANGLED.match(name)
    return (found.group(), name[found.end() + 1:]) if found else ("", name)


def is_from_package(obj):
    """Whether a module, or the class of an object, was loaded from a package."""
    name = obj.__name__ if isinstance(obj, types.ModuleType) else getattr(type(obj), "__module__", None)
    return bool(split_mangled(name or "")[0])


def process_name(name):
    """What a module that a package calls `name` is called in this process."""
    return own_name(name) if name == ALIAS or name.startswith(ALIAS + ".") else name


class Importer:
    """Finds modules by name, and the names of objects."""

    def import_module(self, module_name):
        raise NotImplementedError(f"{type(self).__name__}.import_module")

    def whichmodule(self, obj, name):
        return torch_name(getattr(obj, "__module__", None) or pickle.whichmodule(obj, name))  # the latter imports what it finds, from Python 3.14 on

    def get_name(self, obj, name=None):
        """(module, qualified name) under which this importer finds the object."""
        name = name or getattr(obj, "__qualname__", None) or obj.__name__
        owner = self.whichmodule(obj, name)
        package, module_name = split_mangled(owner)
        try:
            found = module = self.import_module(module_name)
            for part in name.split("."):
                found = getattr(found, part)
        except (ImportError, KeyError, AttributeError):
            raise ObjNotFoundError(f"{obj} was not found as {module_name}.{name}") from None
        if found is obj:
            return module_name, name
        here, there = (_place(package), _place(split_mangled(module.__name__)[0]))
        first, then = _listing(package), _listing(split_mangled(module.__name__)[0])
        raise ObjMismatchError(f"\n\nThe object provided is from '{owner}', which is coming from {here}.\nHowever, when we import '{torch_name(module.__name__)}', "
                               f"it's coming from {there}.\nTo fix this, make sure this 'PackageExporter's importer lists {first} before {then}.")


def _place(package):
    return package or "the current Python environment"


def _listing(package):
    return f"the importer for {package}" if package else "'sys_importer'"


class _SysImporter(Importer):
    def import_module(self, module_name):
        return importlib.import_module(process_name(module_name))


sys_importer = _SysImporter()


class OrderedImporter(Importer):
    """Asks one importer after the other."""

    def __init__(self, *importers):
        self._importers = list(importers)

    def import_module(self, module_name):
        last = None
        for importer in self._importers:
            try:
                return importer.import_module(module_name)
            except ModuleNotFoundError as error:
                last = error
        raise last or ModuleNotFoundError(f"No module named '{module_name}'")

    def get_name(self, obj, name=None):
        for importer in self._importers:
            try:
                return importer.get_name(obj, name)
            except (ObjNotFoundError, ObjMismatchError):
                pass  # the next may know it
        raise ObjNotFoundError(f"Could not find obj {obj} and name {name} in any of the importers {self._importers}")

    def whichmodule(self, obj, name):
        for importer in self._importers:
            found = importer.whichmodule(obj, name)
            if found != "__main__":
                return found
        return "__main__"
