"""torch.package: objects, files and the Python code that they need, in one archive. docs/io.md tells what is in it."""
from . import find_file_dependencies, glob_group, importer, package_exporter, package_importer
from .file_structure_representation import Directory
from .glob_group import GlobGroup
from .importer import Importer, ObjMismatchError, ObjNotFoundError, OrderedImporter, is_from_package, sys_importer
from .package_exporter import EmptyMatchError, PackageExporter, PackagingError
from .package_importer import PackageImporter
