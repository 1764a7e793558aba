"""What run_decompositions() makes of each operation of PyTorch's operator database (tests/golden): the operations that are left.

    python tests/python/decomposed.py torch > tests/python/decomposed.txt     # PyTorch's, with a Python that has it
    python tests/python/decomposed.py rushlight [OPERATION...]                # where ours differ from decomposed.txt

test_decompositions.py compares ours with the file. What is left out: assertions, of which PyTorch writes more.
"""
import importlib
import pathlib
import sys
from unittest import mock

HERE = pathlib.Path(__file__).resolve().parent
GOLDEN = HERE / "decomposed.txt"
sys.path[:0] = [str(HERE), str(HERE.parent / "golden")]
NOT_COMPARED = {"_assert_tensor_metadata.default", "_assert_scalar.default", "sym_size.int", "<built-in function le>", "<built-in function ge>", "with_effects"}


def cases():
    """name -> case: two calls of each operation with floating numbers, one with whole ones."""
    import golden
    found, counts = {}, {}
    for case in golden.read("database"):
        dtypes = set(_dtypes(case["args"]))
        kind = "float" if dtypes & {"float32", "float64"} else "int" if not any("complex" in d or "float" in d for d in dtypes) else None
        n = counts.get((case["op"], kind), 0)
        if kind and n < (2 if kind == "float" else 1):
            counts[case["op"], kind] = n + 1
            found["%s/%s%d" % (case["op"], kind, n)] = case
    return found


def _dtypes(node):
    if isinstance(node, dict):
        return [node["T"]] if "T" in node else [d for x in node.values() for d in _dtypes(x)]
    return [d for x in node for d in _dtypes(x)] if isinstance(node, list) else []


def program(torch, case):
    """(a module that makes the call, the tensors that it is given)"""
    from test_golden import Call, named

    class Given(Call):
        def __init__(self, tensors):
            self.given = iter(tensors)
            super().__init__(case)

        def build(self, node):
            if isinstance(node, dict) and "T" in node:
                self.tensors.append(next(self.given))
                return self.tensors[-1]
            return super().build(node)

    class Module(torch.nn.Module):
        def forward(self, *tensors):
            call = Given(tensors)
            return named(None, case["op"])(*call.args, **call.kwargs)
    return Module(), tuple(t.detach().clone() for t in Call(case).tensors)


def targets(program):
    """The operations of a program, as words in order."""
    called = {str(n.target).removeprefix("aten.") for n in program.graph.nodes if n.op == "call_function"}
    return " ".join(sorted(t.replace("<built-in function getitem>", "getitem") for t in called - NOT_COMPARED))


def golden_targets():
    return dict(line.rstrip("\n").split(": ", 1) for line in GOLDEN.read_text().splitlines())


def main():
    torch = importlib.import_module(sys.argv[1])
    sys.modules.setdefault("rushlight", torch)
    if sys.argv[1] == "torch":
        sys.modules.setdefault("pytest", mock.MagicMock())      # of test_golden only the building of calls is used
    torch.set_num_threads(1)
    want = golden_targets() if sys.argv[1] != "torch" else {}
    same = 0
    for name, case in cases().items():
        if len(sys.argv) > 2 and not any(word in name for word in sys.argv[2:]):
            continue
        try:
            module, given = program(torch, case)
            made = targets(torch.export.export(module, given).run_decompositions())
        except Exception as error:
            if sys.argv[1] != "torch" and name in want:
                print("%s: %s: %s" % (name, type(error).__name__, error))
            continue
        if sys.argv[1] == "torch":
            print("%s: %s" % (name, made), flush=True)
        elif name in want:
            same += made == want[name]
            if made != want[name]:
                print("%s:\n    %s\n    %s" % (name, made, want[name]))
    if want:
        print("%d of %d are the same" % (same, len(want)))


if __name__ == "__main__":
    main()
