"""The files of a package as a tree that prints itself."""
from .glob_group import GlobGroup

__all__ = ["Directory"]


class Directory:
    """A folder or a file; children by name."""

    def __init__(self, name, is_dir):
        self.name, self.is_dir, self.children = name, is_dir, {}

    def _add(self, path):
        *folders, last = path.split("/")
        for folder in folders:
            self = self.children.setdefault(folder, Directory(folder, True))
        self.children.setdefault(last, Directory(last, False))

    def has_file(self, filename):
        """Whether there is a file or folder of this path."""
        for part in filename.split("/"):
            self = self.children.get(part)
            if self is None:
                return False
        return True

    def __str__(self):
        return "".join(self._lines("", "─── "))

    def _lines(self, indent, mark):
        yield f"{indent}{mark}{self.name}\n"
        inner = indent + ("│   " if mark == "├── " else "    ")
        below = sorted(self.children.values(), key=lambda child: (not child.is_dir, child.name))
        for child in below:
            yield from child._lines(inner, "└── " if child is below[-1] else "├── ")


def directory_of(name, paths, include="**", exclude=()):
    wanted, root = GlobGroup(include, exclude=exclude, separator="/"), Directory(name, True)
    for path in paths:
        if wanted.matches(path):
            root._add(path)
    return root
