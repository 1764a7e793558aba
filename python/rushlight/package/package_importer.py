"""Reading a package: its modules live beside those of the process, under mangled names, and import each other from the package.

A module of a package is made with builtins of its own, whose __import__ asks the package first. What the package lists as
external comes from the process; whatever it calls torch is this package, by whichever name the program knows it.
"""
import builtins
import importlib.machinery
import importlib.util
import io
import itertools
import linecache
import os
import pickle
import types

import rushlight as torch
from rushlight._C import PyTorchFileReader

from ..serialization._loading import as_text, checked_count, dtype_of, open_archive
from ..serialization._locations import _get_restore_location
from .file_structure_representation import directory_of
from .importer import Importer, process_name

__all__ = ["PackageImporter"]
_numbers = itertools.count()
IMPORTER = "torch_package_importer"  # by this name a module of a package finds who imported it


class PackageImporter(Importer):
    """The modules, pickles and files of a package. Loading a pickle runs the code in it: open only packages that you trust."""

    def __init__(self, file_or_buffer, module_allowed=lambda module_name: True):
        self._shown = str(file_or_buffer)
        if isinstance(file_or_buffer, (str, os.PathLike)):
            self.filename = os.fspath(file_or_buffer)
            self._archive = _Folder(self.filename) if os.path.isdir(self.filename) else PyTorchFileReader(self.filename)
        else:
            self.filename, self._archive = "<binary>", open_archive(file_or_buffer)
        self._id = f"<torch_package_{next(_numbers)}>"
        self._records = self._archive.get_all_records()
        self.extern_modules = self._archive.get_record(".data/extern_modules").decode().split()
        for name in self.extern_modules:
            if not module_allowed(name):
                raise ImportError(f"package '{self._shown}' needs the external module '{name}' but that module has been disallowed")
        self.modules = {}
        self._sources, self._packages = {}, set()  # module -> record; folders with modules below them
        for record in self._records:
            *above, last = record.split("/")
            if last.endswith(".py"):
                self._sources[".".join(above if last == "__init__.py" else [*above, last[:-3]])] = record
            self._packages.update(_above([*above, last]))
        for name in self.extern_modules:
            self._packages.update(_above(name.split(".")))
        self._builtins = {**vars(builtins), "__import__": self._import}

    # ---- files ----

    def load_binary(self, package, resource):
        """The bytes of a resource."""
        return self._archive.get_record(_path(package, resource))

    def load_text(self, package, resource, encoding="utf-8", errors="strict"):
        """The text of a resource."""
        return self.load_binary(package, resource).decode(encoding, errors)

    def load_pickle(self, package, resource, map_location=None):
        """The object that save_pickle wrote there; map_location as for torch.load."""
        reader = _Unpickler(self, self.load_binary(package, resource), _get_restore_location(map_location))
        result = reader.load()
        torch._utils._validate_loaded_sparse_tensors()
        return result

    def id(self):
        """The mark in the names of this importer's modules."""
        return self._id

    def file_structure(self, *, include="**", exclude=()):
        """The files as a Directory, which can be printed."""
        return directory_of(self.filename, self._records, include, exclude)

    def python_version(self):
        """The version of Python that made the package; None where it does not say."""
        name = ".data/python_version"
        return self._archive.get_record(name).decode().strip() if self._archive.has_record(name) else None

    def get_resource_reader(self, fullname):
        """A reader for importlib.resources over one package's folder."""
        return _Resources(self, fullname) if fullname in self._packages else None

    # ---- modules ----

    def import_module(self, name, package=None):
        """A module of the package, or one of the process if the package calls it external."""
        return self._load(importlib.util.resolve_name(name, package) if name.startswith(".") else name)

    def whichmodule(self, obj, name):
        for module_name, module in self.modules.items():
            if getattr(module, name.partition(".")[0], None) is obj and module_name != "__main__":
                return module.__name__
        return super().whichmodule(obj, name)

    def get_source(self, module_name):
        """The source of a module of the package."""
        name = module_name[len(self._id) + 1:] if module_name.startswith(self._id) else module_name
        return self._archive.get_record(self._sources[name]).decode("utf-8") if name in self._sources else ""  # a folder alone

    def is_package(self, module_name):
        return module_name in self._packages

    def _is_external(self, name):
        parts = name.split(".")
        return any(".".join(parts[:n]) in self.extern_modules for n in range(1, len(parts) + 1))

    def _load(self, name):
        if name in self.modules:
            return self.modules[name]
        parent, _, last = name.rpartition(".")
        if name == IMPORTER:
            return self
        if self._is_external(name):
            module = importlib.import_module(process_name(name))
            if parent in self._packages and not self._is_external(parent):
                setattr(self._load(parent), last, module)
            return module
        if name not in self._sources and name not in self._packages:
            raise ModuleNotFoundError(f'No module named "{name}" in self-contained archive "{self._shown}" and the module is also not in the list '
                                      f"of allowed external modules: {self.extern_modules}", name=name)
        if parent:
            above = self._load(parent)
            if name in self.modules:  # the parent imported it
                return self.modules[name]
        module = self._run(name)
        if parent:
            setattr(above, last, module)
        return module

    def _run(self, name):
        """Makes a module and runs its source, if it has one."""
        mangled, is_package = f"{self._id}.{name}", name in self._packages
        module = self.modules[name] = types.ModuleType(mangled)
        module.__spec__ = importlib.machinery.ModuleSpec(name, self, origin="<package_importer>", is_package=is_package)
        module.__loader__, module.__builtins__, module.__torch_package__, module.__file__ = self, self._builtins, True, None
        module.__package__ = name if is_package else name.rpartition(".")[0]
        if is_package:
            module.__path__ = []
        if name in self._sources:
            source, module.__file__ = self.get_source(name), f"{self._id}.{self._sources[name]}"
            linecache.cache[module.__file__] = len(source), None, source.splitlines(True), module.__file__
            try:
                exec(compile(source, module.__file__, "exec", dont_inherit=True), module.__dict__)
            except BaseException:
                del self.modules[name]
                raise
        return module

    def _import(self, name, globals=None, locals=None, fromlist=(), level=0):
        """__import__ of the package's modules."""
        absolute = importlib.util.resolve_name("." * level + name, globals["__package__"]) if level else name
        top = absolute.partition(".")[0]
        if self._is_external(absolute):
            self._load(absolute)
            if not fromlist and not self._is_external(top):
                return self._load(top)
            return builtins.__import__(process_name(absolute), globals, locals, fromlist, 0)
        module = self._load(absolute)
        if not fromlist:
            return self._load(top)
        for wanted in getattr(module, "__all__", ()) if "*" in fromlist else fromlist:
            below = f"{absolute}.{wanted}"
            if not hasattr(module, wanted) and (below in self._sources or below in self._packages or self._is_external(below)):
                setattr(module, wanted, self._load(below))
        return module


def _above(parts):
    """The packages that the parts of a name lie in."""
    return (".".join(parts[:n]) for n in range(1, len(parts)))


def _path(package, resource):
    return f"{package.replace('.', '/')}/{resource}"


class _Unpickler(pickle.Unpickler):
    """Names are the package's; storages are entries beside the pickle."""

    def __init__(self, package, data, restore):
        super().__init__(io.BytesIO(data))
        self._package, self._restore, self._loaded = package, restore, {}

    def find_class(self, module, name):
        if module == "torch" and name.endswith("Storage") and hasattr(torch.storage, name):
            return torch.serialization.StorageType(name)
        found = self._package.import_module(module)
        for part in name.split("."):
            found = getattr(found, part)
        return found

    def persistent_load(self, saved):
        if isinstance(saved, tuple) and len(saved) == 5 and saved[0] == "storage":
            _, kind, key, location, numel = saved
            return self._storage(dtype_of(kind), as_text(str(key) if type(key) is int else key), as_text(location), checked_count(numel))
        if isinstance(saved, tuple) and len(saved) == 4 and saved[0] == "reduce_package":
            _, key, build, args = saved
            if key not in self._loaded:
                self._loaded[key] = build(self._package, *args)
            return self._loaded[key]
        raise pickle.UnpicklingError(f"a persistent id that is neither a storage nor a reduction: {saved!r:.100}")

    def _storage(self, dtype, key, location, numel):
        if key not in self._loaded:
            untyped = self._package._archive._read_storage(f".data/{key}.storage", numel * dtype.itemsize)
            self._loaded[key] = torch.storage.TypedStorage(wrap_storage=self._restore(untyped, location), dtype=dtype, _internal=True)
        return self._loaded[key]


class _Folder:
    """A package that was unpacked: files are its records."""

    def __init__(self, path):
        self._path = path

    def get_all_records(self):
        return sorted(os.path.relpath(os.path.join(folder, name), self._path).replace(os.sep, "/") for folder, _, names in os.walk(self._path) for name in names)

    def has_record(self, name):
        return os.path.isfile(os.path.join(self._path, name))

    def get_record(self, name):
        with open(os.path.join(self._path, name), "rb") as f:
            return f.read()

    def _read_storage(self, name, nbytes):
        data = bytearray(self.get_record(name))
        if len(data) != nbytes:
            raise RuntimeError(f"{name} has {len(data)} bytes, not {nbytes}")
        return torch.frombuffer(data, dtype=torch.uint8).untyped_storage() if data else torch.UntypedStorage(0)


class _Resources:
    """The files of one folder of a package."""

    def __init__(self, importer, fullname):
        self._importer, self._folder = importer, fullname.replace(".", "/") + "/"

    def open_resource(self, resource):
        if not self.is_resource(resource):
            raise FileNotFoundError(self._folder + resource)
        return io.BytesIO(self._importer._archive.get_record(self._folder + resource))

    def resource_path(self, resource):
        if isinstance(self._importer._archive, _Folder) and self.is_resource(resource):
            return os.path.join(self._importer.filename, self._folder, resource)
        raise FileNotFoundError(f"{self._folder}{resource} is inside of {self._importer.filename}")

    def is_resource(self, name):
        return self._folder + name in self._importer._records

    def contents(self):
        below = [record[len(self._folder):].partition("/")[0] for record in self._importer._records if record.startswith(self._folder)]
        return iter(dict.fromkeys(below))
