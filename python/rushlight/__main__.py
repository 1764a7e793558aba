"""python -m rushlight: run a script, a module (-m) or a command (-c) with `torch` meaning rushlight."""
import os
import runpy
import sys

from rushlight import _alias

HOME = os.path.dirname(os.path.dirname(_alias.FOLDER))
USAGE = """usage: python -m rushlight [script.py | -m module | -c command | -] [arguments...]

Runs the program with `import torch` resolving to rushlight, in child processes too.
Without a program: an interactive interpreter."""


def main(argv):
    if argv and argv[0] in ("-h", "--help"):
        print(USAGE)
        return 0
    if argv and argv[0] in ("-V", "--version"):
        from rushlight import version
        print("rushlight " + version.rushlight)
        return 0
    # Without its content so far (see __init__.py): the program's own import fills it.
    if not hasattr(sys.modules["rushlight"], "Tensor"):
        del sys.modules["rushlight"]
    _alias.prepare()
    if HOME not in sys.path:
        sys.path.append(HOME)
    # What `python script.py` puts first: for -m and -c the current folder, already set by python -m. It stays first, with
    # the alias behind it: programs change sys.path[0].
    if sys.path[:1] == [_alias.FOLDER]:
        sys.path[:] = [sys.path[1] if len(sys.path) > 1 else os.getcwd(), _alias.FOLDER] + sys.path[2:]
    if not argv:
        import code
        own = _alias.activate()
        sys.argv = [""]
        code.interact(banner="rushlight as torch " + str(own.__version__), local={"torch": own, "rushlight": own})
        return 0
    if argv[0] == "-m":
        if len(argv) < 2:
            raise SystemExit("python -m rushlight -m: a module name is missing\n" + USAGE)
        sys.argv = argv[1:]
        runpy.run_module(argv[1], run_name="__main__", alter_sys=True)
    elif argv[0] == "-c":
        if len(argv) < 2:
            raise SystemExit("python -m rushlight -c: a command is missing\n" + USAGE)
        sys.argv = ["-c"] + argv[2:]
        space = _main_namespace(None)
        exec(compile(argv[1], "<string>", "exec"), space)
    elif argv[0] == "-":
        sys.argv = list(argv)
        exec(compile(sys.stdin.read(), "<stdin>", "exec"), _main_namespace(None))
    elif argv[0].startswith("-"):
        raise SystemExit("python -m rushlight: unknown option " + argv[0] + "\n" + USAGE)
    else:
        script = argv[0]
        sys.argv = list(argv)
        if os.path.isdir(script) or script.endswith((".zip", ".pyz")):
            runpy.run_path(script, run_name="__main__")
        else:
            folder = os.path.dirname(os.path.realpath(script))
            # python -m put the current folder first; a script sees its own folder there instead.
            if sys.path and sys.path[0] in ("", os.getcwd()):
                sys.path[0] = folder
            else:
                sys.path.insert(0, folder)
            if sys.path[1:2] != [_alias.FOLDER]:
                sys.path[:] = [sys.path[0], _alias.FOLDER] + [p for p in sys.path[1:] if p != _alias.FOLDER]
            with open(script, "rb") as f:
                source = f.read()
            exec(compile(source, script, "exec"), _main_namespace(script))
    return 0


def _main_namespace(path):
    """A fresh __main__ module: pickles, spawned workers and inspect look the script's names up there."""
    import types
    module = types.ModuleType("__main__")
    module.__builtins__ = __builtins__
    if path is not None:
        module.__file__ = path
    module.__spec__ = None
    # runpy holds the old __main__; keep it alive, since clearing it would empty this function's globals.
    sys.modules["__rushlight_main__"] = sys.modules["__main__"]
    sys.modules["__main__"] = module
    return module.__dict__


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
