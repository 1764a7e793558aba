"""torch.package: importable; packages of code are not made or run."""


class _Absent:
    def __init__(self, *args, **kwargs):
        raise NotImplementedError(f"torch.package.{type(self).__name__}: packages of code are not supported")


class PackageExporter(_Absent):
    pass


class PackageImporter(_Absent):
    pass


def is_from_package(obj):
    return False
