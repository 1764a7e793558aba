#!/usr/bin/env python3
"""The C++ programs of pytorch/examples, compiled by their own CMake files against libtorch and against rushlight: the same printed numbers?

    tests/cpp_examples.py CHECKOUTS --prefix FOLDER [--work FOLDER] [NAME...]

CHECKOUTS holds pytorch+examples and p-ranav+argparse. The Python that runs this has PyTorch (its wheel has libtorch), torchvision, NumPy and
Pillow; the machine CMake and OpenCV's headers. The sources are as they come, but that the folder of the author's pictures becomes one that is
here. MNIST and the pictures are drawn, a header in front sets the seed, std::random_device answers 1, one thread computes, and a program that
goes on is ended after the lines that are compared. The verdicts are those of tests/programs.py. Ends with 1 if one differs.
"""
import argparse
import os
import pathlib
import shutil
import subprocess
import sys
import time

import numpy as np
import torch
from PIL import Image

import programs

ROOT = pathlib.Path(__file__).resolve().parent.parent
PICTURES = "/Users/krshrimali/Documents/krshrimali-blogs/dataset/train"
# name: (program, lines compared)
EXAMPLES = {"autograd": ("autograd", None), "regression": ("regression", None), "mnist": ("mnist", 96), "dcgan": ("dcgan", 6), "custom-dataset": ("custom-dataset", 12), "transfer-learning": ("example", 20)}
SEED = "#if __has_include(<torch/torch.h>)     // not in what CMake compiles to know the compiler\n#include <torch/torch.h>\nstatic const bool seeded = (torch::manual_seed(1), true);\n#endif\n"
RANDOM = "unsigned _ZNSt13random_device9_M_getvalEv(void *device)\n{\n    (void)device;\n    return 1;\n}\n"


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
    programs.mnist(work, train=60000, test=10000)
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
    (source / "build" / "data").symlink_to(made / "data" / "MNIST" / "raw")
    (source / "build" / "dataset").symlink_to(made / "dataset")
    return source / "build"


def printed(folder, command, count, made, **more):
    """The first lines that a program prints, and the seconds that they took."""
    env = {**os.environ, **more, "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "LD_PRELOAD": str(made / "random.so")}
    start, lines = time.time(), []
    with subprocess.Popen(["stdbuf", "-oL", *map(str, command)], cwd=folder, env=env, stdout=subprocess.PIPE, text=True) as child:
        for line in child.stdout:
            lines += [part.rstrip() for part in line.split("\r") if part.strip()]
            if count and len(lines) >= count:
                child.kill()
                break
    if not count and child.returncode:
        raise SystemExit("%s ended with %d" % (command[0], child.returncode))
    return "\n".join(lines[:count]), time.time() - start


def judged(name, ours, theirs, plain):
    """Prints the verdict; plain() runs libtorch with its kernels for any processor, slowly, and is asked only where numbers differ."""
    (here, took), (there, took_there) = ours, theirs
    verdict, off, line = programs.compare(here, there)
    if verdict.startswith("differs"):
        own = programs.compare(plain()[0], there)
        if programs.unstable(off, line, own):
            verdict = "unstable" + verdict[7:]
        verdict += "; libtorch from itself: " + own[0]
    print("%-28s %6.1f s %6.1f s  %s" % (name, took_there, took, verdict), flush=True)
    return not verdict.startswith(("same", "close", "unstable"))


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
        runs = [printed(folder, [folder / program, *more], lines, made) for folder in folders.values()]
        wrong += judged(name, *runs, lambda: printed(folders["torch"], [folders["torch"] / program, *more], lines, made, **programs.PLAIN))
        if name == "transfer-learning":  # each library reads what each has saved
            picture = sorted((made / "pictures" / "cat_test").iterdir())[0]
            for saved, folder in folders.items():
                command = ["./classify", picture, folder / "model.pt", folder / "model_linear.pt"]
                runs = [printed(f, command, None, made) for f in folders.values()]
                wrong += judged("classify, files of " + saved, *runs, lambda: printed(folders["torch"], command, None, made, **programs.PLAIN))
    return wrong > 0


if __name__ == "__main__":
    sys.exit(main())
