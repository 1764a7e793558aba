"""The command `rushlight`: `rushlight run` starts a program under the alias, the rest is the C program of that name."""
import os
import sys

USAGE = """usage: rushlight run [script.py | -m module | -c command | -] [arguments...]
                               a program with `import torch` meaning rushlight
       rushlight flags         what compiling and linking against the library takes
"""


def main():
    arguments = sys.argv[1:]
    if arguments[:1] == ["run"] and not any(a.endswith(".pt2") for a in arguments[1:2]):
        os.execv(sys.executable, [sys.executable, "-m", "rushlight"] + arguments[1:])
    if arguments == ["flags"]:
        from rushlight.utils import cpp_extension
        print(" ".join(cpp_extension.flags()))
        return 0
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
