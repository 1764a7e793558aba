"""`import torch` resolving to rushlight, in this process's children."""
import subprocess
import sys
import textwrap


def run(*args, text=None):
    done = subprocess.run([sys.executable] + list(args), input=text, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    return done.stdout


PROGRAM = textwrap.dedent("""
    import importlib.metadata, importlib.util, sys
    import torch, torch.nn.functional as F
    from torch.utils.data import DataLoader
    import torch.multiprocessing as mp
    import rushlight.nn.functional

    def child(i, q):
        import torch
        q.put((torch.ones(2) * i).sum().item())

    if __name__ == "__main__":
        assert F is rushlight.nn.functional and sys.modules["torch"] is rushlight
        assert torch.__version__ >= "2.13" and torch.__version__ < (2, 14)
        assert importlib.metadata.version("torch") == "2.13.0"
        assert importlib.util.find_spec("torch") is not None and importlib.util.find_spec("torch.nothing") is None
        assert torch.jit.__name__ == "torch.jit" and torch.jit._script.__spec__.name == "rushlight.jit._script"
        from torch.multiprocessing.spawn import ProcessContext
        assert callable(mp.spawn)
        q = mp.get_context("spawn").SimpleQueue()
        mp.spawn(child, args=(q,), nprocs=2)
        print(sorted(q.get() for _ in range(2)), sys.argv[1:])
""")


def test_script(tmp_path):
    path = tmp_path / "program.py"
    path.write_text(PROGRAM)
    assert run("-m", "rushlight", str(path), "a", "b") == "[0.0, 2.0] ['a', 'b']\n"


def test_command_and_import():
    assert run("-m", "rushlight", "-c", "import torch; print(torch.ones(1).item())") == "1.0\n"
    assert run("-c", "import rushlight.as_torch, torch; print(torch.Tensor.__module__)") in ("torch\n", "rushlight._tensor\n",
                                                                                          "torch._tensor\n")
    code = ("import rushlight.as_torch, subprocess, sys; "
            "print(subprocess.check_output([sys.executable, '-c', 'import torch; print(torch.__path__)'], text=True))")
    assert "rushlight" in run("-c", code)


def test_nothing_is_loaded_before_the_program_asks():
    code = "import sys; before = 'rushlight' in sys.modules or 'torch' in sys.modules; import torch; print(before, torch.__name__)"
    assert run("-m", "rushlight", "-c", code) == "False torch\n"
    assert run("-m", "rushlight", "-c", "import sys; print(any(name.startswith('rushlight._C') for name in sys.modules))") == "False\n"


def test_functions_are_pickled_as_pytorch_does(tmp_path):
    """Modules that hold a function as their activation: what PyTorch wrote is read, and what is written names PyTorch's places."""
    path = tmp_path / "program.py"
    path.write_text(textwrap.dedent("""
        import pickle, re, torch, torch.nn.functional as F
        def theirs(cls, name):
            return b"c__builtin__\\ngetattr\\n(ctorch._C\\n%s\\nV%s\\ntR." % (cls.encode(), name.encode())
        assert pickle.loads(theirs("_VariableFunctionsClass", "relu")) is torch.relu and pickle.loads(theirs("_VariableFunctionsClass", "tensor")) is torch.tensor
        assert pickle.loads(theirs("TensorBase", "add")) is torch.Tensor.add and pickle.loads(b"ctorch.nn.functional\\n_threshold\\n.") is F.threshold
        for f in (torch.relu, torch.tensor, torch.from_numpy, torch.is_tensor, torch.get_default_dtype, torch.save, torch.load, torch.sparse_csr_tensor, F.gelu,
                  torch.fft.fft, torch.set_default_device):
            data = pickle.dumps(f, protocol=0)
            assert pickle.loads(data) is f and data.startswith((b"ctorch\\n", b"ctorch._C\\n", b"ctorch._C._nn\\n", b"ctorch._C._fft\\n", b"ctorch.serialization\\n")), data
        assert re.fullmatch("<built-in method flatten of type object at 0x[0-9a-f]+>", repr(torch.flatten)) and repr(F.gelu) == "<built-in function gelu>"
        print(torch.add.__qualname__, torch.add.__name__, torch.tensor.__module__, torch.is_tensor.__module__, F.linear.__qualname__)
    """))
    assert run("-m", "rushlight", str(path)) == "_VariableFunctionsClass.add add torch torch linear\n"


def test_classes_say_their_torch_names():
    code = ("import torch, pickle, torch.distributions as d; m = torch.nn.Sequential(torch.nn.Linear(2, 1), torch.nn.ReLU()); b = pickle.dumps(m); "
            "print(type(m[0]), torch.optim.SGD, d.Normal, torch.nn.functional.relu.__module__, torch.Tensor, b'rushlight' in b, "
            "torch.equal(pickle.loads(b)[0].weight, m[0].weight))")
    names = ("<class 'torch.nn.modules.linear.Linear'> <class 'torch.optim.sgd.SGD'> <class 'torch.distributions.normal.Normal'> "
             "torch.nn.functional <class 'torch.Tensor'> False True\n")
    assert run("-m", "rushlight", "-c", code) == names
    assert run("-m", "rushlight", "-c", "import rushlight.nn; " + code) == names


def test_functorch():
    code = textwrap.dedent("""
        import warnings
        warnings.simplefilter("ignore", FutureWarning)
        from functorch import combine_state_for_ensemble, jacrev, make_functional, make_functional_with_buffers, vmap
        from functorch.experimental import chunk_vmap
        import torch
        x = torch.ones(4, 3)
        net = torch.nn.Linear(3, 3)
        net.bias = torch.nn.Parameter(net.weight[0].detach())
        f, params = make_functional(net)
        assert torch.equal(f([torch.eye(3), torch.zeros(3)], x), x) and len(params) == 2
        f, params, buffers = make_functional_with_buffers(torch.nn.BatchNorm1d(3))
        assert f(params, buffers, x).shape == x.shape and len(buffers) == 3
        f, params, buffers = combine_state_for_ensemble([torch.nn.Linear(3, 2) for _ in range(5)])
        assert vmap(f, (0, 0, None))(params, buffers, x).shape == (5, 4, 2)
        print(jacrev(torch.sin)(x[0]).shape, chunk_vmap(torch.sin, chunks=3)(x).shape)
    """)
    assert run("-m", "rushlight", "-c", code) == "torch.Size([3, 3]) torch.Size([4, 3])\n"


def test_every_class_has_a_source():
    """inspect, typing and others look for the module of a class under its torch name, though nobody has imported it under that."""
    code = """
        import inspect, sys, torch
        classes = (*torch.nn.TransformerEncoderLayer.__mro__[:-1], torch.nn.LSTM, torch.optim.Adam, torch.utils.data.DataLoader, torch.distributions.Normal)
        print({inspect.getsource(c).lstrip()[:6] for c in classes}, all(c.__module__.startswith("torch.") and c.__module__ in sys.modules for c in classes))
    """
    assert run("-m", "rushlight", "-c", textwrap.dedent(code)) == "{'class '} True\n"
