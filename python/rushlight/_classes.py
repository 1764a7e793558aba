"""torch.classes: classes registered by C++ extensions of libtorch, of which there are none."""
import types


class _ClassNamespace(types.ModuleType):
    def __init__(self, name):
        super().__init__("torch.classes." + name)
        self.name = name

    def __getattr__(self, attr):
        if attr.startswith("__"):
            raise AttributeError(attr)
        raise RuntimeError("Class %s.%s not registered!" % (self.__dict__["name"], attr))


class _Classes(types.ModuleType):
    """torch.classes"""

    __file__ = "_classes.py"

    def __init__(self):
        super().__init__("torch.classes")

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        namespace = _ClassNamespace(name)
        setattr(self, name, namespace)
        return namespace

    @property
    def loaded_libraries(self):
        return set()

    def load_library(self, path):
        raise OSError("Could not load this library: %s (it is compiled against libtorch)" % path)


classes = _Classes()
