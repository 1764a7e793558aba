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
    "nvidia_gpu_models", "cpu_info", "cpu_flags", "cgroup_cpus", "threads", "engines", "pip_packages"])


def run(command):
    """(exit status, output, errors) of a command."""
    shell = isinstance(command, str)
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, shell=shell)
    return done.returncode, done.stdout.decode(errors="replace").strip(), done.stderr.decode(errors="replace").strip()


# ---- what packages ask for by themselves; run_lambda is run(), or does what it does ----

def run_and_read_all(run_lambda, command):
    """What a command prints; None if it fails."""
    status, output, _ = run_lambda(command)
    return output if status == 0 else None


def run_and_parse_first_match(run_lambda, command, regex):
    found = re.search(regex, run_and_read_all(run_lambda, command) or "")
    return found.group(1) if found else None


def run_and_return_first_line(run_lambda, command):
    output = run_and_read_all(run_lambda, command)
    return None if output is None else output.split("\n")[0]


def get_platform():
    return "linux" if sys.platform.startswith("linux") else sys.platform


def get_cpu_info(run_lambda):
    """What the system says about its processors, a line for each thing."""
    status, output, errors = run_lambda("lscpu" if get_platform() == "linux" else "sysctl -n machdep.cpu.brand_string")
    return output if status == 0 else errors


def get_gcc_version(run_lambda):
    return run_and_parse_first_match(run_lambda, "gcc --version", r"gcc (.*)")


def get_clang_version(run_lambda):
    return run_and_parse_first_match(run_lambda, "clang --version", r"clang version (.*)")


def get_cmake_version(run_lambda):
    return run_and_parse_first_match(run_lambda, "cmake --version", r"cmake (.*)")


def get_nvidia_driver_version(run_lambda):
    return run_and_parse_first_match(run_lambda, "nvidia-smi", r"Driver Version: (.*?) ")


def get_gpu_info(run_lambda):
    """The graphics cards, a line for each; None: there are none, or they cannot be asked."""
    return re.sub(r" \(UUID: .*?\)", "", run_and_read_all(run_lambda, "nvidia-smi -L") or "") or None


def get_pip_packages():
    from importlib import metadata
    wanted = ("torch", "numpy", "rushlight", "onnx", "lightning", "triton")
    names = sorted({(d.metadata["Name"] or "", d.version) for d in metadata.distributions()})
    return "\n".join("%s==%s" % item for item in names if any(w in item[0].lower() for w in wanted))


def get_cpu_flags():
    """Of the processor's instruction sets those that matter for arithmetic."""
    try:
        with open("/proc/cpuinfo") as f:
            flags = set(re.search(r"^(?:flags|Features)\s*:(.*)$", f.read(), re.M).group(1).split())
    except (OSError, AttributeError):
        return None
    return " ".join(sorted(n for n in flags if n.startswith(("avx", "fma", "sse4", "amx", "f16c", "asimd", "sve", "neon", "bf16"))))


def get_cgroup_cpus():
    """How many processors the container's quota amounts to; None: there is no quota."""
    for path in ("/sys/fs/cgroup/cpu.max", "/sys/fs/cgroup/cpu/cpu.cfs_quota_us"):
        try:
            with open(path) as f:
                words = f.read().split()
            if len(words) == 1:
                with open("/sys/fs/cgroup/cpu/cpu.cfs_period_us") as f:
                    words += f.read().split()
            return None if words[0] in ("max", "-1") else "%.2f" % (int(words[0]) / int(words[1]))
        except (OSError, ValueError, IndexError):
            continue
    return None


def get_engines():
    """The libraries and the instruction set that the arithmetic uses."""
    import rushlight as torch
    return " ".join(torch.__config__.show().split())


def get_env_info():
    import rushlight as torch
    cpu = run_and_parse_first_match(run, "lscpu", r"Model name:\s*(.*)") or platform.processor()
    return SystemEnv(
        torch_version="%s (rushlight %s)" % (torch.version.__version__, torch.version.rushlight),
        is_debug_build="False", cuda_compiled_version=torch.version.cuda,
        gcc_version=get_gcc_version(run), clang_version=get_clang_version(run),
        cmake_version=get_cmake_version(run), os=platform.platform(),
        libc_version="-".join(platform.libc_ver()), python_version=sys.version.replace("\n", " "),
        python_platform=platform.platform(), is_cuda_available=str(torch.cuda.is_available()),
        cuda_runtime_version=None, nvidia_gpu_models=None, cpu_info="%s x %s" % (os.cpu_count(), cpu),
        cpu_flags=get_cpu_flags(), cgroup_cpus=get_cgroup_cpus(), threads="%d (%d processors may be used)" % (
            torch.get_num_threads(), len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()),
        engines=get_engines(), pip_packages=get_pip_packages())


def get_pretty_env_info():
    info = get_env_info()
    return "\n".join("%s: %s" % (name.replace("_", " "), value) for name, value in zip(info._fields, info))


def main():
    print("Collecting environment information...")
    print(get_pretty_env_info())


if __name__ == "__main__":
    main()
