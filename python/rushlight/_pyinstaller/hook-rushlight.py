"""What PyInstaller takes along: parts that are imported when they are first asked for, and libraries, headers and sources."""
from PyInstaller.utils.hooks import collect_data_files, collect_dynamic_libs, collect_submodules

hiddenimports = collect_submodules("rushlight")
binaries = collect_dynamic_libs("rushlight")
datas = collect_data_files("rushlight")
module_collection_mode = "pyz+py"  # torch.jit.script reads sources
