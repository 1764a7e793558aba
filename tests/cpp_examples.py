#!/usr/bin/env python3
"""The C++ programs of pytorch/examples, compiled by their own CMake files against libtorch and against rushlight: the same printed numbers?

    tests/cpp_examples.py CHECKOUTS [--work FOLDER] [--prefix FOLDER] [NAME...]

CHECKOUTS holds pytorch+examples and p-ranav+argparse. The Python that runs this has PyTorch (its wheel has libtorch), torchvision, NumPy and
Pillow; the machine CMake and OpenCV's headers. The sources are as they come, but that the folder of the author's pictures becomes one that is
here. MNIST and the pictures are drawn (noise in shapes that depend on the class), a header in front sets the seed, std::random_device
answers 1, one thread computes, and a program that goes on is ended after the lines that are compared. Prints how many lines are equal, and of the first
and the last that is not how far its numbers lie apart, and those of libtorch itself without vector instructions: what rounding makes of the program.
"""
import argparse
import os
import pathlib
import re
import shutil
import struct
import subprocess
import sys
import time

import numpy as np
import torch
from PIL import Image

ROOT = pathlib.Path(__file__).resolve().parent.parent
PICTURES = "/Users/krshrimali/Documents/krshrimali-blogs/dataset/train"
# name: (program, lines compared, packages that CMake is told of)
EXAMPLES = {"autograd": ("autograd", None), "regression": ("regression", None), "mnist": ("mnist", 96), "dcgan": ("dcgan", 6), "custom-dataset": ("custom-dataset", 12), "transfer-learning": ("example", 20)}
PLAIN = {"ATEN_CPU_CAPABILITY": "default", "MKL_CBWR": "COMPATIBLE", "ONEDNN_MAX_CPU_ISA": "SSE41"}
SEED = "#if __has_include(<torch/torch.h>)     // not in what CMake compiles to know the compiler\n#include <torch/torch.h>\nstatic const bool seeded = (torch::manual_seed(1), true);\n#endif\n"
RANDOM = "unsigned _ZNSt13random_device9_M_getvalEv(void *device)\n{\n    (void)device;\n    return 1;\n}\n"


def mnist(folder):
    rng = np.random.default_rng(0)
    folder.mkdir()
    shapes = rng.integers(0, 256, (10, 28, 28)) * (rng.random((10, 28, 28)) < .3)
    for kind, n in (("train", 60000), ("t10k", 10000)):
        labels = rng.integers(0, 10, n)
        images = np.clip(shapes[labels] * .6 + rng.integers(0, 120, (n, 28, 28)), 0, 255).astype(np.uint8)
        (folder / (kind + "-images-idx3-ubyte")).write_bytes(struct.pack(">4i", 2051, n, 28, 28) + images.tobytes())
        (folder / (kind + "-labels-idx1-ubyte")).write_bytes(struct.pack(">2i", 2049, n) + labels.astype(np.uint8).tobytes())


def pictures(folder, classes, each):
    rng = np.random.default_rng(1)
    for k, name in enumerate(classes):
        (folder / name).mkdir(parents=True)
        for i in range(each):
            small = rng.integers(0, 256, (8, 8, 3), dtype=np.uint8)
            small[k % 8], small[:, k // 8 % 8] = 255, 0
            Image.fromarray(small).resize((300, 200), Image.BICUBIC).save(folder / name / ("image_%04d.jpg" % i), quality=90)


def data(work):
    """What the programs read, made once."""
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    mnist(work / "mnist")
    classes = ["kind%d" % k for k in range(4)]
    pictures(work / "dataset", classes, 20)
    lines = ["%s/image_%04d.jpg %d %s" % (name, i, k, "train" if i < 16 else "test") for k, name in enumerate(classes) for i in range(20)]
    (work / "info.txt").write_text("\n".join(lines))
    pictures(work / "pictures", ["cat_test", "dog_test"], 12)
    import torchvision
    torch.manual_seed(0)
    network = torchvision.models.resnet18()
    for p in network.parameters():
        p.requires_grad = False
    torch.jit.trace(torch.nn.Sequential(*list(network.children())[:-1]), torch.rand(1, 3, 224, 224)).save(work / "resnet18.pt")
    (work / "seed.h").write_text(SEED)
    (work / "random.c").write_text(RANDOM)
    subprocess.run(["cc", "-shared", "-fPIC", "-o", work / "random.so", work / "random.c"], check=True)


def built(name, checkouts, work, made, prefix):
    source = work / name
    shutil.rmtree(source, ignore_errors=True)
    shutil.copytree(checkouts / "pytorch+examples" / "cpp" / name, source)
    for file in source.glob("*.cpp"):
        file.write_text(file.read_text().replace(PICTURES, str(made / "pictures")))
    if name == "custom-dataset":
        shutil.copy(made / "info.txt", source / "info.txt")
    configure = ["cmake", "-S", source, "-B", source / "build", "-DCMAKE_PREFIX_PATH=%s" % prefix, "-DDOWNLOAD_MNIST=OFF",
                 "-DCMAKE_CXX_FLAGS=-I%s -include %s" % (checkouts / "p-ranav+argparse" / "include", made / "seed.h"),
                 "-DCMAKE_EXE_LINKER_FLAGS=-Wl,--unresolved-symbols=ignore-in-shared-libs"]     # PyTorch's wheel has NCCL in another package
    with open(work / (name + ".log"), "w") as log:
        for command in (configure, ["cmake", "--build", source / "build", "-j1"]):
            if subprocess.call(command, stdout=log, stderr=log):
                raise SystemExit("%s was not built: %s" % (name, log.name))
    (source / "build" / "data").symlink_to(made / "mnist")
    (source / "build" / "dataset").symlink_to(made / "dataset")
    return source / "build"


def printed(folder, command, count, made, **more):
    """The first lines that a program prints, and the seconds that they took."""
    env = {**os.environ, **more, "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "RUSHLIGHT_NUM_THREADS": "1", "LD_PRELOAD": str(made / "random.so")}
    start, lines = time.time(), []
    with subprocess.Popen(["stdbuf", "-oL", *map(str, command)], cwd=folder, env=env, stdout=subprocess.PIPE, text=True) as child:
        for line in child.stdout:
            lines += [part.rstrip() for part in line.split("\r") if part.strip()]
            if count and len(lines) >= count:
                child.kill()
                break
    if not count and child.returncode:
        raise SystemExit("%s ended with %d" % (command[0], child.returncode))
    return lines[:count], time.time() - start


def apart(a, b):
    numbers = [[float(n) for n in re.findall(r"-?\d+\.\d+(?:e[-+]\d+)?", line)] for line in (a, b)]
    return max((abs(x - y) / max(abs(x), abs(y), 1e-30) for x, y in zip(*numbers)), default=0) if len(numbers[0]) == len(numbers[1]) else float("inf")


def compare(name, ours, theirs, plain):
    (here, took), (there, took_there), (other, _) = ours, theirs, plain
    differ = [i for i in range(max(len(here), len(there))) if here[i:i + 1] != there[i:i + 1]]
    print("%s: %d of %d lines equal; %.1f s here, %.1f s with libtorch" % (name, max(len(here), len(there)) - len(differ), max(len(here), len(there)), took, took_there), flush=True)
    for i in differ[:1] + differ[1:][-1:]:
        a, b, c = ("".join(lines[i:i + 1]) for lines in (here, there, other))
        print("  line %d: rushlight is %.1e apart, libtorch with its kernels for any processor %.1e:\n    libtorch:  %s\n    rushlight: %s" % (i + 1, apart(a, b), apart(c, b), b, a), flush=True)
    return len(here) != len(there)


def main():
    cli = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    cli.add_argument("checkouts", type=pathlib.Path)
    cli.add_argument("names", nargs="*")
    cli.add_argument("--work", type=pathlib.Path, default=ROOT / "build" / "cpp_examples")
    cli.add_argument("--prefix", type=pathlib.Path, help="where rushlight is found: what torch.utils.cmake_prefix_path says, or the folder of make install", required=True)
    args, wrong = cli.parse_intermixed_args(), 0
    checkouts, work = args.checkouts.resolve(), args.work.resolve()
    made = work / "data"
    if not made.exists():
        data(made)
    prefixes = {"rushlight": args.prefix.resolve(), "torch": torch.utils.cmake_prefix_path}
    for name in args.names or EXAMPLES:
        program, lines = EXAMPLES[name]
        folders = {}
        for library, prefix in prefixes.items():
            (work / library).mkdir(exist_ok=True)
            folders[library] = built(name, checkouts, work / library, made, prefix)
        more = [made / "resnet18.pt"] if name == "transfer-learning" else []
        plain = printed(folders["torch"], [folders["torch"] / program, *more], lines, made, **PLAIN)    # first, since what it saves is not compared
        wrong += compare(name, *(printed(folder, [folder / program, *more], lines, made) for folder in folders.values()), plain)
        if name == "transfer-learning":  # each library reads what each has saved
            picture = sorted((made / "pictures" / "cat_test").iterdir())[0]
            for saved, folder in folders.items():
                files = [folder / "model.pt", folder / "model_linear.pt"]
                runs = [printed(f, [f / "classify", picture, *files], None, made) for f in folders.values()]
                wrong += compare("classify, files of " + saved, *runs, runs[1])
    return wrong > 0


if __name__ == "__main__":
    sys.exit(main())
