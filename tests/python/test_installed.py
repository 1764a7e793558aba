"""What `make install` leaves: programs are built with pkg-config and with CMake, in C and in C++, shared and as one piece; the command suggests names."""
import os
import re
import shutil
import subprocess

import pytest
from places import BUILD, ROOT

PROGRAM = re.search(r"```c\n(.*?)```", (ROOT / "README.md").read_text(), re.S).group(1)
ANSWER = "tensor([2., 4., 6.])\n"
sanitized = (BUILD / "build.ninja").exists() and "-fsanitize=" in (BUILD / "build.ninja").read_text()
built = pytest.mark.skipif(not (BUILD / "rushlight").exists(), reason="there is no build folder")
needs = pytest.mark.skipif(sanitized or not shutil.which("pkg-config"), reason="pkg-config is not installed, or the library has sanitizers")


def run(*command, **env):
    done = subprocess.run([str(c) for c in command], env={**os.environ, **env}, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    return done.stdout


@pytest.fixture(scope="module")
def prefix(tmp_path_factory):
    if not (BUILD / "librushlight.a").exists() or not shutil.which("meson"):
        pytest.skip("the build folder is not complete")
    folder = tmp_path_factory.mktemp("installed")
    run("meson", "install", "-C", BUILD, "--no-rebuild", "--quiet", "--skip-subprojects", "--destdir", folder)
    return next(folder.rglob("include/rushlight.h")).parent.parent


def flags(prefix, package):
    pc = next(prefix.rglob("rushlight.pc")).parent
    # where everything is when it was not moved is in the file; here it was
    return run("pkg-config", "--define-variable=prefix=%s" % prefix, "--cflags", "--libs", package, PKG_CONFIG_PATH=str(pc)).split()


@needs
@pytest.mark.parametrize("compiler, name, package", [("cc", "prog.c", "rushlight"), ("c++", "prog.cpp", "rushlight"), ("cc", "prog.c", "rushlight-static")])
def test_pkg_config(prefix, tmp_path, compiler, name, package):
    (tmp_path / name).write_text(PROGRAM)
    run(compiler, tmp_path / name, *flags(prefix, package), "-o", tmp_path / "prog")
    assert run(tmp_path / "prog") == ANSWER
    assert ("librushlight" in run("ldd", tmp_path / "prog")) == (package == "rushlight")


@needs
def test_the_archive_is_linked_by_its_name(prefix, tmp_path):
    """All operations are there, though nothing refers to them."""
    (tmp_path / "prog.c").write_text(PROGRAM)
    libraries = [flag for flag in flags(prefix, "rushlight-static") if "librushlight" not in flag]
    run("cc", tmp_path / "prog.c", next(prefix.rglob("librushlight.a")), *libraries, "-o", tmp_path / "prog")
    assert run(tmp_path / "prog") == ANSWER


@needs
def test_cmake(prefix, tmp_path):
    if not shutil.which("cmake"):
        pytest.skip("cmake is not installed")
    (tmp_path / "prog.c").write_text(PROGRAM)
    (tmp_path / "CMakeLists.txt").write_text("cmake_minimum_required(VERSION 3.13)\nproject(prog C)\nfind_package(rushlight 0.1 REQUIRED)\n"
                                             "foreach(kind rushlight static)\n  add_executable(${kind} prog.c)\n"
                                             "  target_link_libraries(${kind} PRIVATE rushlight::${kind})\nendforeach()\n")
    run("cmake", "-S", tmp_path, "-B", tmp_path / "b", "-DCMAKE_PREFIX_PATH=%s" % prefix)
    run("cmake", "--build", tmp_path / "b")
    assert run(tmp_path / "b/rushlight") == ANSWER and run(tmp_path / "b/static") == ANSWER


@pytest.mark.parametrize("installed", [True, False])
@needs
def test_cmake_finds_torch(prefix, installed, tmp_path):
    if not shutil.which("cmake") or not shutil.which("g++"):
        pytest.skip("cmake or g++ is not installed")
    from rushlight.utils import cmake_prefix_path
    (tmp_path / "prog.cpp").write_text("#include <ATen/ATen.h>\n#include <iostream>\nint main() { std::cout << at::ones({3}).sum().item<int>() << '\\n'; }\n")
    (tmp_path / "CMakeLists.txt").write_text("cmake_minimum_required(VERSION 3.13)\nproject(prog CXX)\nfind_package(Torch 2.0 REQUIRED)\n"
                                             "add_executable(prog prog.cpp)\ntarget_link_libraries(prog \"${TORCH_LIBRARIES}\")\n")
    run("cmake", "-S", tmp_path, "-B", tmp_path / "b", "-DCMAKE_PREFIX_PATH=%s" % (prefix if installed else cmake_prefix_path))
    run("cmake", "--build", tmp_path / "b")
    assert run(tmp_path / "b/prog") == "3\n"


@needs
def test_the_installed_command_finds_its_library(prefix):
    assert "operations:" in run(prefix / "bin/rushlight", "info", LD_LIBRARY_PATH="")


@built
def test_names_can_be_found():
    asked = subprocess.run([BUILD / "rushlight", "ops", "conv"], capture_output=True, text=True)
    assert asked.returncode == 1 and re.search(r"conv2d +rush_conv2d\n", asked.stderr)
    assert "there are\n    relu " in subprocess.run([BUILD / "rushlight", "ops", "reluu"], capture_output=True, text=True).stderr
    told = run(BUILD / "rushlight", "ops", "rush_conv2d")
    assert ".stride = RUSH_INTS(1, 1)" in told and "torch.conv2d(input, weight)" in told


@built
def test_what_is_missing_is_said():
    told, header = run(BUILD / "rushlight", "info"), (BUILD / "config.h").read_text()
    for macro, name in (("ONEDNN", "oneDNN"), ("LAPACK", "LAPACK"), ("SNDFILE", "sndfile")):
        line = "engines" if f"RUSH_HAS_{macro} 1" in header else "without"
        assert re.search(rf"^{line}: .*{name}", told, re.M)


@pytest.mark.parametrize("there, code, said", [(["python3", "gcc", "meson", "ninja"], 0, "Building with what there is."), (["python3", "meson", "ninja"], 1, "A C compiler"),
                                               (["gcc", "meson", "ninja"], 1, "Python 3")])
def test_without_root(tmp_path, there, code, said):
    """Who may not install goes on with what there is, and hears what would help."""
    for name, text in {"id": "echo 1000", "apt-get": "exit 9", **{name: 'exec %s "$@"' % (shutil.which(name) or "true") for name in there}}.items():
        (tmp_path / name).write_text("#!/bin/sh\n" + text)
        (tmp_path / name).chmod(0o755)
    done = subprocess.run(["/bin/sh", ROOT / "tools/setup"], env={"PATH": str(tmp_path)}, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == code and said in done.stdout and " ccache " in done.stdout and "sudo apt-get install" in done.stdout, done.stdout + done.stderr


def test_an_old_meson_is_not_used(tmp_path):
    """Ubuntu 22.04 has 0.61; PyPI's goes where make looks first."""
    venv = "#!/bin/sh\n[ \"$2\" = venv ] || exit 0; mkdir -p build-tools/bin; printf '#!/bin/sh\\necho \"$@\" > asked' > build-tools/bin/python; chmod +x build-tools/bin/python"
    for name, text in {"id": "#!/bin/sh\necho 1000", "meson": "#!/bin/sh\necho 0.61.2", "ninja": "#!/bin/sh", "gcc": "#!/bin/sh", "python3": venv,
                       **{name: '#!/bin/sh\nexec %s "$@"' % shutil.which(name) for name in ("mkdir", "chmod")}}.items():
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(0o755)
    done = subprocess.run(["/bin/sh", ROOT / "tools/setup"], env={"PATH": str(tmp_path)}, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0 and "meson (1.0 or newer)" in done.stdout, done.stdout + done.stderr
    assert (tmp_path / "asked").read_text().split()[-2:] == ["meson", "ninja"]
