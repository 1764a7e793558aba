"""For PyInstaller, which finds this folder by an entry point of the package: programs frozen with it find all of rushlight."""
import os


def get_hook_dirs():
    return [os.path.dirname(__file__)]
