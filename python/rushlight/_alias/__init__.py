"""Makes the name `torch` mean rushlight, in this process and in the ones it starts.

Three parts, each useless alone.  A meta path finder answers every import of `torch` or `torch.X` with the
module object of `rushlight` or `rushlight.X`, so that a class exists once whichever name it was reached by.
This folder, first on sys.path, holds `torch-2.13.0.dist-info` for importlib.metadata and a top-level `torch`
that switches the alias on.  The environment (PYTHONPATH, RUSHLIGHT_AS_TORCH) hands both to child processes.
"""
import importlib
import importlib.machinery
import importlib.util
import os
import sys
import types

OWN = __name__.rpartition(".")[0]
ALIAS = "torch"
FOLDER = os.path.dirname(os.path.abspath(__file__))


class _SameModule:
    """Loads `torch.X` by importing `rushlight.X` and handing out that very object."""

    def create_module(self, spec):
        module = importlib.import_module(own_name(spec.name))
        self.kept = getattr(module, "__spec__", None)
        return module

    def exec_module(self, module):
        # importlib wrote the alias's spec into the shared module: put the module's own one back.
        module.__spec__ = self.kept
        if hasattr(module, "__path__"):
            # Its submodules get their torch names now: importing one later would make importlib set it as an
            # attribute again, over a function of the same name (multiprocessing.spawn is both).
            share(own_name(torch_name(module.__name__)) + ".")

    def is_package(self, fullname):
        spec = importlib.util.find_spec(own_name(fullname))
        return spec is not None and spec.submodule_search_locations is not None

    def get_code(self, fullname):
        # runpy (python -m torch.X) asks for the code of the module it is going to run.
        spec = importlib.util.find_spec(own_name(fullname))
        return spec.loader.get_code(spec.name)

    def get_source(self, fullname):
        spec = importlib.util.find_spec(own_name(fullname))
        return spec.loader.get_source(spec.name)


class AliasFinder:
    """Answers for `torch` and everything below it; looks on when modules of rushlight are loaded, and for nothing else."""

    def find_spec(self, fullname, path=None, target=None):
        if fullname.startswith(OWN + "."):
            from rushlight import _modules
            spec = _modules.Finder.find_spec(fullname)
            if spec is not None:
                return spec
            spec = importlib.machinery.PathFinder.find_spec(fullname, path)
            if spec is not None and spec.loader is not None:
                run = spec.loader.exec_module
                spec.loader.exec_module = lambda module: (run(module), rename(module))
            return spec
        if fullname != ALIAS and not fullname.startswith(ALIAS + "."):
            return None
        own = own_name(fullname)
        if own.startswith(OWN + "._C.") and own not in sys.modules:
            # Parts of the extension are attributes of it; PyTorch's are modules that can be imported.
            part = getattr(sys.modules[OWN + "._C"], own[len(OWN) + 4:], None)
            if part is None:
                return None
            sys.modules[own] = part
        if own in sys.modules:
            found = getattr(sys.modules[own], "__spec__", None)
            places = getattr(sys.modules[own], "__path__", None)
        else:
            try:
                found = importlib.util.find_spec(own)
            except (ModuleNotFoundError, ValueError):
                found = None
            if found is None:
                return None
            places = found.submodule_search_locations
        spec = importlib.machinery.ModuleSpec(fullname, _SameModule(), is_package=places is not None,
                                              origin=getattr(found, "origin", None))
        if places is not None:
            spec.submodule_search_locations = list(places)
        spec.has_location = spec.origin is not None
        return spec


def own_name(name):
    """rushlight's module name for a torch one."""
    return OWN + name[len(ALIAS):]


def torch_name(name):
    """The name PyTorch gives to a module of rushlight (other names pass through)."""
    if name == OWN or name.startswith(OWN + "."):
        return ALIAS + name[len(OWN):]
    return name


def share(prefix):
    """All modules of rushlight whose names begin so are there under their torch names too."""
    for name in [name for name in sys.modules if name.startswith(prefix)]:
        sys.modules.setdefault(torch_name(name), sys.modules[name])


# Modules of which PyTorch has none, and where it has what is in them.
ELSEWHERE = {OWN + "._basics": OWN, OWN + "._streams": OWN, OWN + ".sparse._construct": OWN, OWN + ".serialization._saving": OWN + ".serialization",
             OWN + ".serialization._loading": OWN + ".serialization"}


# Modules that say their torch names themselves: programs take them for the names of backends (torch.jit.__name__).
NAMED = {OWN + ".jit"}


def rename(module):
    """Classes and functions made in a module say its torch name, under which it is then found: they are printed and pickled with it."""
    name = module.__name__
    sys.modules.setdefault(torch_name(name), module)  # inspect and typing ask for the module of a class
    for thing in list(vars(module).values()):
        if isinstance(thing, (type, types.FunctionType)) and thing.__module__ == name:
            line = vars(thing).get("__firstlineno__") if isinstance(thing, type) else None
            thing.__module__ = torch_name(ELSEWHERE.get(name, name))
            if line is not None:  # since 3.13 where its source is, which goes with the old name
                thing.__firstlineno__ = line
    if name in NAMED:
        module.__name__ = torch_name(name)


def is_active():
    """True when `import torch` resolves to rushlight in this process."""
    return any(isinstance(finder, AliasFinder) for finder in sys.meta_path)


def prepare(children=True):
    """The first `import torch` from here on will switch the alias on; nothing is imported before that."""
    if FOLDER not in sys.path:
        sys.path.insert(0, FOLDER)
    if children:
        os.environ["RUSHLIGHT_AS_TORCH"] = "1"
        paths = [p for p in os.environ.get("PYTHONPATH", "").split(os.pathsep) if p]
        home = os.path.dirname(os.path.dirname(FOLDER))
        # The package's own folder goes last: it is only needed where rushlight is not installed.
        wanted = [FOLDER] + [p for p in paths if p not in (FOLDER, home)] + [home]
        os.environ["PYTHONPATH"] = os.pathsep.join(wanted)


def activate(children=True):
    """Switch the alias on; with children also for processes started from here."""
    loaded = sys.modules.get(ALIAS)
    own = importlib.import_module(OWN)
    if loaded is not None and loaded is not own and os.path.dirname(getattr(loaded, "__file__", None) or "") != \
            os.path.join(FOLDER, ALIAS):
        raise ImportError("the real torch is already imported in this process; "
                          "import rushlight.as_torch before anything that imports torch")
    if not is_active():
        sys.meta_path.insert(0, AliasFinder())
    prepare(children)
    sys.modules[ALIAS] = own
    own.__name__ = ALIAS  # packages compare it
    own._C._set_public_name(ALIAS)
    share(OWN + ".")
    for module in [module for name, module in sys.modules.items() if name.startswith(OWN + ".") and isinstance(module, types.ModuleType)]:
        rename(module)
    own.__version__ = importlib.import_module(OWN + ".torch_version").__version__
    return own
