"""python -m torch.utils.collect_env: what to put into a bug report."""
import os
import platform
import re
import subprocess
import sys
from collections import namedtuple

SystemEnv = namedtuple("SystemEnv", [
    "torch_version", "is_debug_build", "cuda_compiled_version", "gcc_version", "clang_version", "cmake_version", "os",
    "libc_version", "python_version", "python_platform", "is_cuda_available", "cuda_runtime_version",
    "nvidia_gpu_models", "cpu_info", "pip_packages"])


def run(command):
    """(exit status, output, errors) of a command."""
    shell = isinstance(command, str)
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, shell=shell)
    return done.returncode, done.stdout.decode(errors="replace").strip(), done.stderr.decode(errors="replace").strip()


def _first_match(command, pattern):
    status, output, _ = run(command)
    found = re.search(pattern, output)
    return found.group(1) if status == 0 and found else None


def get_pip_packages():
    from importlib import metadata
    wanted = ("torch", "numpy", "rushlight", "onnx", "lightning", "triton")
    names = sorted({(d.metadata["Name"] or "", d.version) for d in metadata.distributions()})
    return "\n".join("%s==%s" % item for item in names if any(w in item[0].lower() for w in wanted))


def get_env_info():
    import rushlight as torch
    cpu = _first_match("lscpu", r"Model name:\s*(.*)") or platform.processor()
    return SystemEnv(
        torch_version="%s (rushlight %s)" % (torch.version.__version__, torch.version.rushlight),
        is_debug_build="False", cuda_compiled_version=torch.version.cuda,
        gcc_version=_first_match("gcc --version", r"gcc (.*)"), clang_version=_first_match("clang --version", r"(.*)"),
        cmake_version=_first_match("cmake --version", r"cmake (.*)"), os=platform.platform(),
        libc_version="-".join(platform.libc_ver()), python_version=sys.version.replace("\n", " "),
        python_platform=platform.platform(), is_cuda_available=str(torch.cuda.is_available()),
        cuda_runtime_version=None, nvidia_gpu_models=None, cpu_info="%s x %s" % (os.cpu_count(), cpu),
        pip_packages=get_pip_packages())


def get_pretty_env_info():
    info = get_env_info()
    return "\n".join("%s: %s" % (name.replace("_", " "), value) for name, value in zip(info._fields, info))


def main():
    print("Collecting environment information...")
    print(get_pretty_env_info())


if __name__ == "__main__":
    main()
