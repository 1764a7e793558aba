"""Modules without files (rushlight/_modules.py) are modules like others: imported in every way, loaded again, pickled by, looked into."""
import importlib
import importlib.util
import inspect
import pickle
import subprocess
import sys

import pytest

import rushlight
from rushlight import _modules

NAMES = sorted(name.rstrip(".") for name in _modules.TABLE)


@pytest.mark.parametrize("name", NAMES)
def test_module_holds_what_its_row_says(name):
    module = importlib.import_module("rushlight." + name)
    row = _modules.TABLE.get(name, _modules.TABLE.get(name + "."))
    assert module.__name__.split(".", 1)[1] == name and module.__doc__
    assert hasattr(module, "__path__") == (name + "." in _modules.TABLE)
    parent, _, last = ("rushlight." + name).rpartition(".")
    assert getattr(sys.modules[parent], last) is module or callable(getattr(sys.modules[parent], last))
    for part in row.split("; ") if row else ():
        if part[0] == "!":
            for function in part.rsplit(": ", 1)[1].split():
                with pytest.raises(NotImplementedError, match=function):
                    getattr(module, function)()
        elif part[0] not in "=?":
            home, names = part.split(": ")
            home = importlib.import_module("rushlight." + home)
            for word in names.split() if names != "*" else home.__all__:
                here, _, there = word.partition("=")
                assert getattr(module, here) is getattr(home, there or here)
    importlib.reload(module)
    assert inspect.getsourcefile(module) == _modules.__file__


def test_no_row_hides_a_file():
    folder = rushlight.__path__[0]
    for name in NAMES:
        spec = importlib.machinery.PathFinder.find_spec("rushlight." + name, [folder + "/" + "/".join(name.split(".")[:-1])])
        assert spec is None or spec.loader is None or spec.origin is None, f"{name} has a row and the file {spec.origin}"


def test_values_can_be_set():
    from rushlight.fx import config
    config.verbose_progress = True
    assert importlib.import_module("rushlight.fx.config").verbose_progress
    importlib.reload(config)
    assert config.verbose_progress is False


def test_what_is_asked_of_a_module_that_knows_no_names():
    from rushlight.onnx import symbolic_opset11
    with pytest.raises(NotImplementedError, match="symbolic_opset11.conv"):
        symbolic_opset11.conv()
    with pytest.raises(AttributeError):
        symbolic_opset11.__wrapped__
    with pytest.raises(NotImplementedError, match="quantizable"):
        importlib.import_module("rushlight.ao.nn.quantizable").LSTM(1, 2)


def test_modules_that_do_not_exist():
    for name in ("rushlight.ao.ns.nowhere", "rushlight.accelerator.memory.more", "rushlight.nowhere"):
        with pytest.raises(ModuleNotFoundError):
            importlib.import_module(name)


def test_names_of_torch():
    program = ("import rushlight.as_torch, pickle; import torch.accelerator.memory as m; from torch.utils.data.datapipes.iter.grouping import BatcherIterDataPipe as B;"
               "from torch.jit import _trace; from torch.ao import ns; import torch, sys; assert m is torch.accelerator.memory and sys.modules['rushlight.accelerator.memory'] is m;"
               "assert pickle.loads(pickle.dumps(m.memory_stats)) is torch.accelerator.memory_stats and pickle.loads(pickle.dumps(B)) is B; print(B.__module__)")
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("torch.utils.data.datapipes.iter")


@pytest.mark.parametrize("place", ["_namespace", "nn", "nn.utils", "ao.quantization", "distributed", "backends", "utils"])
def test_what_is_imported_later_is_there(place):
    module = importlib.import_module("rushlight." + place)
    for listed in ("_SUBMODULES", "_MODULES", "_LAZY", "_LATER"):
        for name in getattr(module, listed, ()):
            if name != "tensorboard" or importlib.util.find_spec("numpy"):
                assert hasattr(rushlight if place == "_namespace" else module, name)
