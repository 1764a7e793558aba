"""The command `rushlight`: `rushlight run` starts a program under the alias, the rest is the C program of that name."""
import os
import sys

USAGE = """usage: rushlight run [script.py | -m module | -c command | -] [arguments...]
                               a program with `import torch` meaning rushlight
       rushlight flags         what compiling and linking against the library takes
       rushlight extension NAME FILES...   compiles C, C++ and CUDA files (.cu) to NAME.so here, for torch.ops.load_library or import
       rushlight stubs FOLDER  types for programs that say `import torch`: pyright finds them in `typings`, mypy by MYPYPATH=FOLDER
"""


def write_stubs(folder):
    """FOLDER/torch gets a file for each of the package's stubs, that has the same names."""
    package = os.path.dirname(os.path.abspath(__file__))
    found = [os.path.relpath(os.path.join(home, name), package) for home, _, names in os.walk(package) for name in names if name.endswith(".pyi")]
    if not found:
        print("rushlight: this installation has no type stubs; `pip install` makes them", file=sys.stderr)
        return 1
    for path in found:
        parts = ["rushlight"] + path[:-len(".pyi")].split(os.sep)
        module = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        target = os.path.join(folder, "torch", path)
        os.makedirs(os.path.dirname(target), exist_ok=True)
        with open(target, "w", encoding="utf-8") as file:
            file.write("from %s import *\n" % module)
    return 0


def main():
    arguments = sys.argv[1:]
    if arguments[:1] == ["run"] and not any(a.endswith((".pt2", ".onnx", ".pt")) for a in arguments[1:2]):
        os.execv(sys.executable, [sys.executable, "-m", "rushlight"] + arguments[1:])
    if arguments == ["flags"]:
        from rushlight.utils import cpp_extension
        print(" ".join(cpp_extension.flags()))
        return 0
    if arguments[:1] == ["extension"] and len(arguments) > 2:
        from rushlight.utils import cpp_extension
        return cpp_extension.build(arguments[1], arguments[2:])
    if arguments[:1] == ["stubs"] and len(arguments) == 2:
        return write_stubs(arguments[1])
    if not arguments or arguments[0] in ("-h", "--help"):
        sys.stdout.write(USAGE)
        sys.stdout.flush()
    program = os.path.join(os.path.dirname(os.path.abspath(__file__)), "bin", "rushlight")
    if not os.path.exists(program):
        print("rushlight: %s is not installed" % program, file=sys.stderr)
        return 1
    os.execv(program, [program] + arguments)


if __name__ == "__main__":
    sys.exit(main())
