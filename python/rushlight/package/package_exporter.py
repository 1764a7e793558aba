"""Writing a package: pickles, files, and the sources of the modules that they need.

What becomes of a module (its source taken in, left to the reader's process, replaced by a mock, refused) is decided by the
first pattern that matches its name; torch and Python's own modules are always left outside. What went wrong on the way is
told when the package is closed, all at once.
"""
import collections
import importlib.machinery
import io
import linecache
import os
import pickle
import platform
import sys
import types
import zlib

import rushlight as torch
from rushlight import _C
from rushlight._alias import ALIAS

from ..serialization._locations import location_tag
from ..serialization._saving import _Pickler, _StorageClass
from ..utils.hooks import RemovableHandle
from . import find_file_dependencies
from .glob_group import GlobGroup
from .importer import Importer, ObjMismatchError, ObjNotFoundError, OrderedImporter, is_from_package, process_name, split_mangled, sys_importer
from .package_importer import IMPORTER

__all__ = ["PackagingError", "EmptyMatchError", "PackageExporter"]

NO_ACTION = "Module did not match against any action pattern. Extern, mock, or intern it."
DENIED = "Module was denied by a pattern."
NO_FILE = "Module had no __file__ defined."
EXTENSION = "Module is a C extension module. torch.package supports Python modules only."
NOT_FOUND = "Module had a __file__, but we could not find it in your filesystem."
UNREADABLE = "Dependency resolution failed."
STILL_USED = ("Module was mocked out, but is still being used in the package. Please intern or extern the mocked modules if "
              "objects are supposed to be in the package.")
MOCK = 'from _mock import MockedObject\n\n\ndef __getattr__(name):\n    if name.startswith("__"):\n        raise AttributeError(name)\n    return MockedObject(__name__ + "." + name)\n'


class PackagingError(Exception):
    """Modules that could not be packaged, by what is wrong with them."""

    def __init__(self, dependency_graph, debug=False):
        lines = []
        for reason in dict.fromkeys(node.error for node in dependency_graph.values() if node.error):
            lines.append(f"* {reason}")
            for name, node in dependency_graph.items():
                if node.error == reason:
                    lines += [f"    {name}", *([f"      {node.context}"] if node.context else [])]
        self.dependency_graph = dependency_graph
        end = _drawn(dependency_graph, dependency_graph) if debug else "Set debug=True when invoking PackageExporter for a visualization of where broken modules are coming from!"
        super().__init__("\n" + "\n".join(lines) + "\n\n" + end + "\n")


class EmptyMatchError(Exception):
    """A pattern that had to match something has not."""


class _Node:
    """A module or a pickle of the package: what becomes of it, and what it needs."""

    def __init__(self, action=None):
        self.action, self.needs, self.error, self.context = action, {}, None, None
        self.source, self.is_package = None, False


def _drawn(nodes, graph):
    """Nodes and the edges between them, for Graphviz."""
    edges = "\n".join(f'"{a}" -> "{b}";' for a in nodes for b in graph[a].needs if b in nodes)
    return f"digraph G {{\nrankdir = LR;\nnode [shape=box];\n{edges}\n}}\n"


class PackageExporter:
    """Writes a package to a path or a binary file; a context that closes it unless something failed."""

    def __init__(self, f, importer=sys_importer, debug=False):
        self.debug, self.patterns, self._nodes = debug, [], {}
        self._hooks = {"extern": collections.OrderedDict(), "mock": collections.OrderedDict(), "intern": collections.OrderedDict()}
        self._storages, self._count, self._written = {}, 0, set()
        self.importer = importer if isinstance(importer, Importer) else OrderedImporter(*importer)
        root = "archive"
        if isinstance(f, (str, os.PathLike)):
            f = os.fspath(f)
            root = os.path.splitext(os.path.basename(f))[0]
        self._file, self._writer = f, _C.PyTorchFileWriter(f, True, 64, root)

    def __enter__(self):
        return self

    def __exit__(self, kind, value, traceback):
        if kind is not None:
            self._writer.discard()
        else:
            self.close()

    # ---- what becomes of modules ----

    def intern(self, include, *, exclude=(), allow_empty=True):
        """The sources of these modules come into the package."""
        self._add_pattern("intern", include, exclude, allow_empty)

    def extern(self, include, *, exclude=(), allow_empty=True):
        """These modules are the reader's."""
        self._add_pattern("extern", include, exclude, allow_empty)

    def mock(self, include, *, exclude=(), allow_empty=True):
        """These modules are replaced by ones that can be imported, but not used."""
        self._add_pattern("mock", include, exclude, allow_empty)

    def deny(self, include, *, exclude=()):
        """These modules must not be needed."""
        self._add_pattern("deny", include, exclude, True)

    def _add_pattern(self, action, include, exclude, allow_empty):
        self.patterns.append([GlobGroup(include, exclude=exclude), action, allow_empty, False])

    def register_extern_hook(self, hook):
        """hook(exporter, module name) is called of each external module."""
        return self._register("extern", hook)

    def register_mock_hook(self, hook):
        return self._register("mock", hook)

    def register_intern_hook(self, hook):
        return self._register("intern", hook)

    def _register(self, action, hook):
        handle = RemovableHandle(self._hooks[action])
        self._hooks[action][handle.id] = hook
        return handle

    def add_dependency(self, module_name, dependencies=True):
        """Decides what becomes of a module that the package needs."""
        if self._nodes.get(module_name) is not None and (self._nodes[module_name].action or self._nodes[module_name].error):
            return
        if module_name == "_mock" or self._is_standard(module_name):
            self._nodes[module_name] = _Node("intern" if module_name == "_mock" else "extern")
            return
        for entry in self.patterns:
            pattern, action, _, _ = entry
            if pattern.matches(module_name):
                entry[3] = True
                if action == "intern":
                    self._intern(module_name, dependencies)
                else:
                    self._fail(module_name, DENIED, action) if action == "deny" else self._set(module_name, action)
                return
        self._fail(module_name, NO_ACTION)

    def _is_standard(self, module_name):
        top = module_name.partition(".")[0]
        return top == ALIAS or top in sys.stdlib_module_names and top != "sys"

    def _set(self, module_name, action):
        node = self._nodes.setdefault(module_name, _Node())
        node.action = action
        for hook in list(self._hooks.get(action, {}).values()):
            hook(self, module_name)
        return node

    def _fail(self, module_name, error, action=None, context=None):
        node = self._nodes.setdefault(module_name, _Node())
        node.action, node.error, node.context = action, error, context

    def _intern(self, module_name, dependencies):
        module = self._module(module_name)
        source = self._source(module_name, module)
        if source is not None:
            self._intern_source(module_name, source, hasattr(module, "__path__"), dependencies)

    def _module(self, module_name):
        try:
            return self.importer.import_module(module_name)
        except ModuleNotFoundError:
            raise ModuleNotFoundError(f"No module named '{module_name}'", name=module_name) from None

    def _source(self, module_name, module):
        """The text of a module; None, with the reason noted, of one that has none."""
        if is_from_package(module):
            return module.__loader__.get_source(split_mangled(module.__name__)[1])
        path = getattr(module, "__file__", None)
        if path is None:
            note = (f"Note: While we usually use modules in the python standard library from the local environment, `{module_name}` has a lot of system "
                    "level access and therefore can pose a security risk. We heavily recommend removing "
                    f"`{module_name}` from your packaged code. However, if that is not possible, add it to the extern list by calling "
                    f'PackageExporter.extern("`{module_name}`")') if module_name == "sys" else None
            return self._fail(module_name, NO_FILE, context=note)
        if path.endswith(tuple(importlib.machinery.EXTENSION_SUFFIXES)):
            return self._fail(module_name, EXTENSION)
        if not os.path.exists(path):
            return self._fail(module_name, NOT_FOUND)
        return "".join(linecache.getlines(path))

    def _intern_source(self, module_name, source, is_package, dependencies):
        node = self._set(module_name, "intern")
        node.source, node.is_package = source, is_package
        if not dependencies:
            return
        try:
            found = find_file_dependencies.find_files_source_depends_on(source, module_name if is_package else module_name.rpartition(".")[0])
        except (SyntaxError, ImportError, ValueError) as error:
            self._fail(module_name, UNREADABLE, context=f"Context: {error}")
            return
        for name, part in found:
            if name == IMPORTER:
                continue
            for wanted in ([f"{name}.{part}"] if part else []) + [name]:
                if self._exists(wanted):
                    node.needs[wanted] = None
                    self.add_dependency(wanted)
                    break

    def _exists(self, module_name):
        if module_name in self._nodes:
            return True
        try:
            self.importer.import_module(module_name)
            return True
        except ImportError:
            return False

    # ---- what is written ----

    def save_module(self, module_name, dependencies=True):
        """The source of a module, whatever the patterns say of it."""
        if not isinstance(module_name, str):
            raise TypeError("save_module() expects a string input, did you perhaps mean to pass `__name__`?")
        module_name = split_mangled(module_name)[1]
        self._match(module_name)
        self._intern(module_name, dependencies)

    def save_source_string(self, module_name, src, is_package=False, dependencies=True):
        """A module of this source."""
        self._match(module_name)
        self._intern_source(module_name, src, is_package, dependencies)

    def save_source_file(self, module_name, file_or_directory, dependencies=True):
        """A module from a file, or a package from a folder."""
        if not os.path.isdir(file_or_directory):
            with open(file_or_directory, encoding="utf-8") as f:
                return self.save_source_string(module_name, f.read(), dependencies=dependencies)
        for folder, _, names in sorted(os.walk(file_or_directory)):
            below = os.path.relpath(folder, file_or_directory)
            parts = [module_name, *(below.split(os.sep) if below != "." else [])]
            for name in sorted(names):
                if name.endswith(".py"):
                    is_package = name == "__init__.py"
                    with open(os.path.join(folder, name), encoding="utf-8") as f:
                        self.save_source_string(".".join(parts if is_package else [*parts, name[:-3]]), f.read(), is_package, dependencies)

    def _match(self, module_name):
        for entry in self.patterns:
            entry[3] = entry[3] or entry[0].matches(module_name)

    def save_text(self, package, resource, text):
        self.save_binary(package, resource, text.encode("utf-8"))

    def save_binary(self, package, resource, binary):
        self._write(f"{package.replace('.', '/')}/{resource}", binary)

    def save_pickle(self, package, resource, obj, dependencies=True, pickle_protocol=3):
        """An object as a pickle, and the modules of the names in it."""
        data = io.BytesIO()
        pickler = _PackagePickler(self, data, pickle_protocol)
        pickler.dump(obj)
        if dependencies:
            node = self._nodes[f"<{package}.{resource}>"] = _Node("pickle")
            for name, objects in pickler.used.items():
                node.needs[name] = None
                self.add_dependency(name)
                if self._nodes[name].action == "mock":
                    self._fail(name, STILL_USED, "mock", f"Context: Object(s) '{objects}' from module `{name}` was mocked out during packaging but is being "
                               f"used in resource - `{resource}` in package `{package}`. ")
        self.save_binary(package, resource, data.getvalue())

    def get_unique_id(self):
        """A text that no other resource of this package was given."""
        self._count += 1
        return str(self._count - 1)

    def _write(self, name, data):
        if name in self._written:
            raise AssertionError(f"Tried to write file '{name}', but it already exists in this archive. Please file a bug.")
        self._written.add(name)
        self._writer.write_record(name, data)

    def _persistent_id(self, obj):
        if torch.is_storage(obj):
            untyped = getattr(obj, "_untyped_storage", obj)
            typed = untyped is not obj
            key = self._storages.get(untyped._cdata, (None,))[0]
            if key is None:
                key = len(self._storages)
                self._storages[untyped._cdata] = key, untyped  # kept, so that no other gets its address
                self._write(f".data/{key}.storage", untyped.cpu() if untyped.device.type != "cpu" else untyped)
            kind = _StorageClass(obj._pickle_storage_type() if typed else "ByteStorage")
            return "storage", kind, key, location_tag(untyped), obj._size() if typed else untyped.nbytes()
        if hasattr(obj, "__reduce_package__") and not isinstance(obj, type):
            return "reduce_package", id(obj), *obj.__reduce_package__(self)
        return None

    def close(self):
        """Writes what is missing; the package is valid only after it."""
        for pattern, _, allow_empty, matched in self.patterns:
            if not allow_empty and not matched:
                self._writer.discard()
                raise EmptyMatchError(f"Exporter did not match any modules to {pattern}, which was marked as allow_empty=False")
        if any(node.error for node in self._nodes.values()):
            self._writer.discard()
            raise PackagingError(self._nodes, debug=self.debug)
        for name, node in self._nodes.items():
            path = name.replace(".", "/")
            if node.action == "intern" and node.source is not None:
                self._write(f"{path}/__init__.py" if node.is_package else f"{path}.py", node.source.encode("utf-8"))
            elif node.action == "mock":
                self._write(f"{path}/__init__.py" if self._is_package(name) else f"{path}.py", MOCK.encode())
        if "_mock" in self._nodes or self.mocked_modules():
            with open(os.path.join(os.path.dirname(__file__), "_mock.py"), "rb") as f:
                self._write("_mock.py", f.read())
        self._write(".data/extern_modules", "".join(name + "\n" for name in self.externed_modules()).encode())
        self._write(".data/python_version", platform.python_version().encode())
        self._write("byteorder", sys.byteorder.encode())
        self._write(".data/version", b"6\n")
        self._write(".data/serialization_id", b"%040d" % zlib.crc32("".join(sorted(self._written)).encode()))
        self._writer.write_end_of_file()
        if hasattr(self._file, "flush"):
            self._file.flush()

    def _is_package(self, module_name):
        return any(other.startswith(module_name + ".") for other in self._nodes) or hasattr(sys.modules.get(process_name(module_name)), "__path__")

    # ---- what was decided ----

    def _of(self, action):
        return sorted(name for name, node in self._nodes.items() if node.action == action)

    def interned_modules(self):
        return self._of("intern")

    def externed_modules(self):
        return self._of("extern")

    def mocked_modules(self):
        return self._of("mock")

    def denied_modules(self):
        return self._of("deny")

    def get_rdeps(self, module_name):
        """The modules that need this one directly."""
        return [name for name, node in self._nodes.items() if module_name in node.needs] if module_name in self._nodes else []

    def dependency_graph_string(self):
        """What needs what, for Graphviz."""
        return _drawn(self._nodes, self._nodes)

    def all_paths(self, src, dst):
        """The part of the graph that leads from one module to another, for Graphviz."""
        def reachable(start, step):
            seen, todo = {start: None}, [start]
            while todo:
                for name in step(todo.pop()):
                    if name not in seen:
                        seen[name] = None
                        todo.append(name)
            return seen
        for name in (src, dst):
            if name not in self._nodes:
                raise ValueError(f"The node {name} is not in the digraph.")
        after, before = reachable(src, lambda name: self._nodes[name].needs), reachable(dst, self.get_rdeps)
        return _drawn([name for name in after if name in before], self._nodes)


class _PackagePickler(_Pickler):
    """Names as the exporter's importer finds them; remembers of which modules."""

    def __init__(self, exporter, file, protocol):
        super().__init__(file, protocol, exporter._persistent_id)
        self._importer, self.used = exporter.importer, {}

    def save_global(self, obj, name=None):
        if isinstance(obj, (_StorageClass, torch.dtype)):
            self._use("torch", getattr(obj, "__name__", None) or str(obj).split(".")[-1])
            return super().save_global(obj, name)
        try:
            module, name = self._importer.get_name(obj, name)
        except (ObjNotFoundError, ObjMismatchError) as error:
            if self._importer is sys_importer:
                name = name or getattr(obj, "__qualname__", None) or obj.__name__
                error = f"it's not found as {sys_importer.whichmodule(obj, name)}.{name}"
            raise pickle.PicklingError(f"Can't pickle {obj}: {error}") from None
        self._use(module, name)
        if self.proto >= 4:
            self.save(module)
            self.save(name)
            self.write(pickle.STACK_GLOBAL)
        elif "." in name:
            holder, _, last = name.rpartition(".")
            found = self._importer.import_module(module)
            for part in holder.split("."):
                found = getattr(found, part)
            return self.save_reduce(getattr, (found, last), obj=obj)
        else:
            self.write(pickle.GLOBAL + f"{module}\n{name}\n".encode())
        self.memoize(obj)
        return None

    def _use(self, module, name):
        names = self.used.setdefault(module, [])
        if name not in names:
            names.append(name)

    def save_type(self, obj):
        if obj in (type(None), type(NotImplemented), type(...)):
            return super().save_type(obj)
        return self.save_global(obj)

    dispatch = {**_Pickler.dispatch, type: save_type, types.FunctionType: save_global, torch.dtype: save_global, _StorageClass: save_global}
