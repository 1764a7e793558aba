"""Packages of AOTInductor: a program as a shared object in a .pt2 file, which runs here by PyTorch's stable C symbols."""
import os
import shutil
import tempfile
import weakref
import zipfile


class InterpretedModel:
    """A program that aoti_compile_and_package wrote here: the library runs its graph as it is, without gradients."""

    def __init__(self, path):
        from rushlight import export
        self._module = export.load(path).module()

    def __call__(self, *args, **kwargs):
        from rushlight import no_grad
        with no_grad():
            return self._module(*args, **kwargs)


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
    if hasattr(path, "seek"):
        path.seek(0)
    with zipfile.ZipFile(path) as file:
        graph = any("/models/" in name for name in file.namelist()) and not any("/aotinductor/" in name for name in file.namelist())
    if hasattr(path, "seek"):
        path.seek(0)
    return InterpretedModel(path) if graph else AOTICompiledModel(path, model_name)


def aoti_compile_and_package(exported_program, _deprecated_unused_args=None, _deprecated_unused_kwargs=None, *, package_path=None, inductor_configs=None):
    """Writes an exported program where aoti_load_package() and rush_program_load() read it, and returns the path.

    exported_program: of torch.export.export; package_path: a file's name that ends with .pt2 (one in the folder for temporary files if not given), or a file
    that is open; inductor_configs: settings of a code generator, which the library does not need. The package holds the program's graph and weights, and no
    code of a machine: PyTorch reads it by torch.export.load. `rushlight compile` writes C.
    """
    from rushlight import export
    if not isinstance(exported_program, export.ExportedProgram):
        raise ValueError("Only ExportedProgram is supported")
    if package_path is None:
        handle, package_path = tempfile.mkstemp(".pt2")
        os.close(handle)
    elif not hasattr(package_path, "write") and not os.fspath(package_path).endswith(".pt2"):
        raise AssertionError("Expect package path to be a file ending in .pt2, is None, or is a buffer. Instead got %s" % package_path)
    export.save(exported_program, package_path)
    return package_path


def aoti_load_package(path, run_single_threaded=False, device_index=-1):
    """The program of a package that torch._inductor.aoti_compile_and_package wrote."""
    return load_package(path)
