"""rushlight: PyTorch's system, small.  `import rushlight as torch`.

The extension rushlight._C does the work; the modules here give it PyTorch's names. _namespace.py fills this module.
"""
import sys


def _only_main():
    """True when `python -m rushlight` looks for __main__ in here: the program that it runs imports the package itself."""
    frame = sys._getframe(2)
    while frame is not None and "importlib" in frame.f_code.co_filename:
        frame = frame.f_back
    return frame is not None and frame.f_globals.get("__name__") == "runpy" and frame.f_locals.get("mod_name") == __name__ + ".__main__"


if not _only_main():
    from rushlight import _namespace  # noqa: F401
