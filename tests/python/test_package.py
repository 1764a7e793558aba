"""torch.package: what is written is read again, by modules of its own; tests/data/files/package.pt was written by PyTorch."""
import importlib
import io
import pathlib
import sys
import zipfile

import pytest
import rushlight as torch
from rushlight.package import (EmptyMatchError, GlobGroup, ObjMismatchError, PackageExporter, PackageImporter, PackagingError, is_from_package,
                               sys_importer)

SOURCES = {
    "boxed/__init__.py": "",
    "boxed/net.py": "import math\nimport torch\nimport torch.nn.functional as F\nfrom . import tools\nfrom boxed.deep.most import twice\n\n\n"
                    "class Net(torch.nn.Module):\n    def __init__(self):\n        super().__init__()\n        self.linear = torch.nn.Linear(2, 2)\n\n"
                    "    class Inner:\n        pass\n\n    def forward(self, x):\n        return twice(F.relu(self.linear(x))) * tools.ONE\n",
    "boxed/tools.py": "ONE = 1\n",
    "boxed/deep/__init__.py": "",
    "boxed/deep/most.py": "import numpy\n\n\ndef twice(x):\n    return x * 2\n",
}
FILE = pathlib.Path(__file__).parent.parent / "data" / "files" / "package.pt"


@pytest.fixture
def net(tmp_path, monkeypatch):
    for name, text in SOURCES.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    monkeypatch.syspath_prepend(str(tmp_path))
    importlib.invalidate_caches()
    for name in ("torch", "torch.nn", "torch.nn.functional"):  # what the module calls torch
        monkeypatch.setitem(sys.modules, name, importlib.import_module(name.replace("torch", "rushlight", 1)))
    yield importlib.import_module("boxed.net").Net()
    for name in [name for name in sys.modules if name.partition(".")[0] == "boxed"]:
        del sys.modules[name]


def packed(*calls, **options):
    """What these calls of an exporter write."""
    file = io.BytesIO()
    with PackageExporter(file, **options) as exporter:
        for name, *args in calls:
            getattr(exporter, name)(*args)
    file.seek(0)
    return file, exporter


@pytest.mark.parametrize("protocol", [2, 3, 4])
def test_module_comes_back_with_its_code(net, protocol):
    file, exporter = packed(("intern", "boxed.**"), ("extern", "numpy"), ("save_pickle", "models", "net.pkl", (net, net.linear.weight, type(net).Inner()), True, protocol),
                            ("save_text", "words", "a.txt", "hello"), ("save_binary", "words", "b", b"123"))
    assert exporter.interned_modules() == ["boxed.deep.most", "boxed.net", "boxed.tools"]
    assert {"numpy", "math", "torch", "torch.nn.functional", "torch.nn.modules.linear"} <= set(exporter.externed_modules())
    assert exporter.get_rdeps("boxed.tools") == ["boxed.net"] and '"boxed.net" -> "boxed.tools"' in exporter.all_paths("boxed.net", "boxed.tools")
    for name in [name for name in sys.modules if name.partition(".")[0] == "boxed"]:
        del sys.modules[name]
    sys.path.pop(0)
    package = PackageImporter(file)
    again, weight, _ = package.load_pickle("models", "net.pkl")
    x = torch.randn(3, 2)
    assert torch.equal(again(x), net(x)) and weight is again.linear.weight and isinstance(again, torch.nn.Module)
    assert type(again).__module__ == package.id() + ".boxed.net" and is_from_package(again) and not is_from_package(net) and "boxed" not in sys.modules
    assert package.load_text("words", "a.txt") == "hello" and package.load_binary("words", "b") == b"123"
    assert package.import_module("boxed.net").F is torch.nn.functional and package.file_structure(include="**/*.py").has_file("boxed/deep/most.py")
    with pytest.raises(ModuleNotFoundError, match="not in the list of allowed external modules"):
        package.import_module("nowhere")
    with pytest.raises(ImportError, match="disallowed"):
        PackageImporter(io.BytesIO(file.getvalue()), lambda name: name != "numpy")


def test_what_was_loaded_is_packaged_again(net):
    first, _ = packed(("intern", "boxed.**"), ("extern", "numpy"), ("save_pickle", "m", "m.pkl", net))
    package = PackageImporter(first)
    loaded = package.load_pickle("m", "m.pkl")
    second, _ = packed(("intern", "boxed.**"), ("extern", "numpy"), ("save_pickle", "m", "m.pkl", loaded), importer=(package, sys_importer))
    again = PackageImporter(second).load_pickle("m", "m.pkl")
    assert torch.equal(again.linear.weight, net.linear.weight) and type(again) is not type(loaded) is not type(net)
    with pytest.raises(ObjMismatchError, match="lists the importer for <torch_package_"):
        sys_importer.get_name(type(loaded))


@pytest.mark.parametrize("calls, error, text", [
    ([("intern", "boxed.**")], PackagingError, "did not match against any action pattern.*\n    numpy\n"),
    ([("deny", "boxed.deep.*"), ("intern", "boxed.**")], PackagingError, "denied by a pattern.\n    boxed.deep.most\n"),
    ([("intern", "boxed.**"), ("intern", "numpy._core._multiarray_umath"), ("save_module", "numpy._core._multiarray_umath"), ("extern", "numpy")], PackagingError, "C extension"),
    ([("mock", "boxed.net")], PackagingError, "mocked out, but is still being used.*\n    boxed.net\n      Context: Object"),
    ([("extern", "**"), ("save_source_string", "a", "imp x")], PackagingError, "Dependency resolution failed.\n    a\n      Context: invalid syntax"),
    ([("extern", "**"), ("save_text", "m", "m.pkl", "")], AssertionError, "already exists"),
    ([("save_module", "nowhere.to.be")], ModuleNotFoundError, "nowhere"),
    ([("extern", "**"), ("save_pickle", "l", "l", lambda: 1)], Exception, "not found as"),
])
def test_refusals(net, calls, error, text):
    with pytest.raises(error, match=text):
        packed(*calls, ("save_pickle", "m", "m.pkl", net))


def test_patterns_that_match_nothing():
    exporter = PackageExporter(io.BytesIO())
    exporter.intern("nope.**", allow_empty=False)
    with pytest.raises(EmptyMatchError):
        exporter.close()
    assert GlobGroup("a.**").matches("a") and GlobGroup("a.**.c").matches("a.b.c") and not GlobGroup("a.*").matches("a.b.c")
    assert not GlobGroup(["a.**"], exclude="a.b").matches("a.b")
    with pytest.raises(ValueError):
        GlobGroup("a**")


def test_mocks_and_hooks(net):
    seen = []
    file = io.BytesIO()
    with PackageExporter(file) as exporter:
        exporter.mock("boxed.deep.**")
        exporter.intern("boxed.**")
        exporter.register_mock_hook(lambda which, name: seen.append(name))
        exporter.save_module("boxed.net")
    file.seek(0)
    twice = PackageImporter(file).import_module("boxed.net").twice
    assert seen == ["boxed.deep.most"] and "boxed.deep.most.twice" in repr(twice)
    with pytest.raises(NotImplementedError, match="was mocked out during packaging"):
        twice(1)


def test_mocks_are_packaged_again(net):
    file, _ = packed(("mock", "boxed.deep.**"), ("intern", "boxed.**"), ("save_module", "boxed.net"))
    package = PackageImporter(file)
    again, exporter = packed(("intern", "**"), ("save_module", "boxed.net"), importer=(package, sys_importer))
    assert "boxed.deep.most.twice" in repr(PackageImporter(again).import_module("boxed.net").twice)


def test_resources_and_who_imported(net, tmp_path):
    main = "from importlib import resources\nimport torch_package_importer as own\nimport words\n" \
           "texts = own.load_text('words', 'a.txt'), " + \
           ("resources.files(words).joinpath('a.txt').read_text()\n" if sys.version_info >= (3, 11) else "resources.read_text(words, 'a.txt')\n")
    file, exporter = packed(("extern", "numpy"), ("intern", "**"), ("save_text", "words", "a.txt", "hello"), ("save_source_string", "main", main),
                            ("save_pickle", "models", "net.pkl", net))
    assert not {"torch_package_importer", "words"} & {*exporter.externed_modules(), *exporter.interned_modules()}
    zipfile.ZipFile(file).extractall(tmp_path)
    file.seek(0)
    for package, unpacked in ((PackageImporter(file), False), (PackageImporter(next(tmp_path.glob("*/main.py")).parent), True)):
        assert package.import_module("main").texts == ("hello", "hello")
        reader = package.get_resource_reader("words")
        assert list(reader.contents()) == ["a.txt"] and reader.open_resource("a.txt").read() == b"hello"
        if unpacked:
            assert pathlib.Path(reader.resource_path("a.txt")).read_text() == "hello"
        else:
            with pytest.raises(FileNotFoundError):
                reader.resource_path("a.txt")
        assert torch.equal(package.load_pickle("models", "net.pkl").linear.weight, net.linear.weight)


def test_externals_below_packages_and_imports_by_call(net):
    file, exporter = packed(("extern", "boxed.tools"), ("intern", "**"), ("save_source_string", "main", "import boxed.tools\n"),
                            ("save_source_string", "boxed.more", "tools = __import__('tools', globals(), fromlist=['ONE'], level=1)\nlater = '__import__'\n"))
    assert exporter.externed_modules() == ["boxed.tools"]
    package = PackageImporter(file)
    assert package.import_module("boxed.more").tools is sys.modules["boxed.tools"]
    assert package.import_module("main").boxed is package.import_module("boxed") is not sys.modules["boxed"]
    assert package.import_module("boxed").tools is sys.modules["boxed.tools"]


def test_modules_of_packages_by_their_names(net):
    file, _ = packed(("extern", "numpy"), ("intern", "**"), ("save_pickle", "models", "net.pkl", net))
    package = PackageImporter(file)
    name = type(package.load_pickle("models", "net.pkl")).__module__
    assert name.endswith(".boxed.net") and name != "boxed.net"
    _, exporter = packed(("extern", "numpy"), ("intern", "**"), ("save_module", name), importer=(package, sys_importer))
    assert "boxed.net" in exporter.interned_modules()


def test_graph_modules():
    traced = torch.fx.symbolic_trace(torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.ReLU()))
    file, _ = packed(("save_pickle", "m", "m.pkl", traced))
    again, x = PackageImporter(file).load_pickle("m", "m.pkl"), torch.randn(1, 2)
    assert torch.equal(again(x), traced(x))


def test_file_of_pytorch():
    package = PackageImporter(FILE)
    net, numbers = package.load_pickle("models", "net.pkl")
    with torch.no_grad():
        assert net(torch.ones(1, 2)).tolist() == numbers and package.load_text("words", "a.txt") == "hello"
    assert str(package.file_structure(exclude="**/.data/**")).startswith("─── %s\n    ├── " % FILE)
