"""Packages of AOTInductor: a program as a shared object in a .pt2 file, which runs here by PyTorch's stable C symbols."""
import os
import shutil
import tempfile
import weakref
import zipfile


class AOTICompiledModel:
    """A compiled program; called as the module was that it was made of."""

    def __init__(self, path, model_name="model"):
        from rushlight import _stable, ops
        from rushlight.utils._pytree import treespec_loads
        _stable.load()
        folder = tempfile.mkdtemp(prefix="aotinductor-")
        weakref.finalize(self, shutil.rmtree, folder, True)
        self._path = None
        with zipfile.ZipFile(path) as file:
            for name in file.namelist():
                if "/aotinductor/%s/" % model_name in name and not name.endswith("/"):
                    target = os.path.join(folder, os.path.basename(name))
                    with file.open(name) as data, open(target, "wb") as to:
                        shutil.copyfileobj(data, to)
                    if name.endswith(".so"):
                        self._path = target
        if self._path is None:
            raise RuntimeError("there is no program %r of AOTInductor in %s" % (model_name, path))
        self._in_spec, self._out_spec = map(treespec_loads, ops._stable.call_spec(self._path))

    def __call__(self, *args, **kwargs):
        from rushlight import Tensor, ops
        from rushlight.utils._pytree import tree_leaves, tree_unflatten
        order = self._in_spec.children()[1].context
        if set(kwargs) != set(order):
            raise TypeError("the program takes the keywords %s, and was given %s" % (list(order), list(kwargs)))
        leaves = tree_leaves((args, {name: kwargs[name] for name in order}))
        return tree_unflatten(ops._stable.run(self._path, [x for x in leaves if isinstance(x, Tensor)]), self._out_spec)


def load_package(path, model_name="model", run_single_threaded=False, num_runners=1, device_index=-1):
    """The program of a package; runners and devices are chosen by the library."""
    return AOTICompiledModel(path, model_name)


def aoti_load_package(path, run_single_threaded=False, device_index=-1):
    """The program of a package that torch._inductor.aoti_compile_and_package wrote."""
    return load_package(path)
