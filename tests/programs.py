#!/usr/bin/env python3
"""Programs written for PyTorch, unchanged, under PyTorch and under rushlight: the same printed numbers?

    tests/programs.py CHECKOUTS [--keep FILE] [NAME...]

CHECKOUTS holds the repositories as owner+name (pytorch+examples, karpathy+nanoGPT, karpathy+minGPT, ...). The
Python that runs this has PyTorch, torchvision and whatever the programs import. Every program works in a private
copy of its folder, on made-up data of the shape it expects; a program that sets no seed gets one. Its output is
compared number by number: "same" is the same text, "close" numbers within 1e-3 of each other (with the largest
relative difference). For what differs more PyTorch runs once more, with its kernels for any processor, which round
differently: where the two outputs of PyTorch differ as much and from as early a line, the program is
"unstable": it amplifies the last bit, and PyTorch does not keep its numbers either. Anything else "differs".
--keep remembers PyTorch's outputs from one run to the next.
"""
import argparse
import gzip
import hashlib
import json
import os
import pathlib
import re
import shutil
import struct
import subprocess
import sys
import tarfile
import tempfile
import time

import numpy as np

ROOT = pathlib.Path(__file__).resolve().parent.parent
NUMBER = re.compile(r"(?<![\w.])[-+]?(?:\d+\.?\d*(?:e[-+]?\d+)?|nan|inf)(?![\w.])", re.I)
PLAIN = {"ATEN_CPU_CAPABILITY": "default", "ONEDNN_MAX_CPU_ISA": "SSE41", "MKL_CBWR": "COMPATIBLE"}  # PyTorch's kernels for any processor
TIMES = r"[\d.]+ ?ms|[\d.]+s\b|\d+:\d\d:\d\d|time: +[\d.]+|ms/batch +[\d.]+|Time +[\d.]+ \( *[\d.]+\)|Data +[\d.]+ \( *[\d.]+\)|SPS: \d+|mfu -?[\d.]+%"


# ---- made-up data, of the shape the programs expect ----

def mnist(home, where="data", train=1280, test=256):
    """MNIST's four files, with a bar whose height tells the digit, below ../data and data."""
    raw = home / where / "MNIST" / "raw"
    raw.mkdir(parents=True, exist_ok=True)
    for name, n in (("train", train), ("t10k", test)):
        rng = np.random.RandomState(n)
        labels = rng.randint(0, 10, n)
        pixels = rng.randint(0, 60, (n, 28, 28))
        for i, digit in enumerate(labels):
            pixels[i, 4 + digit * 2:8 + digit * 2, 4:24] += 180
        (raw / f"{name}-images-idx3-ubyte").write_bytes(struct.pack(">4i", 2051, n, 28, 28) + pixels.astype(np.uint8).tobytes())
        (raw / f"{name}-labels-idx1-ubyte").write_bytes(struct.pack(">2i", 2049, n) + labels.astype(np.uint8).tobytes())
        for kind in ("images-idx3", "labels-idx1"):  # the loaders look for either form
            with gzip.open(raw / f"{name}-{kind}-ubyte.gz", "wb") as f:
                f.write((raw / f"{name}-{kind}-ubyte").read_bytes())


def mnist_at(where):
    return lambda home: mnist(home, where, train=640)


def pictures(*folders, size=(64, 64), count=4):
    """PNG files of coloured noise in every folder."""
    def prepare(home):
        from PIL import Image
        for number, folder in enumerate(folders):
            (home / folder).mkdir(parents=True)
            for i in range(count):
                rng = np.random.RandomState(number * count + i)
                noise = rng.randint(0, 256, (size[0] // 8, size[1] // 8, 3)).astype(np.uint8)
                Image.fromarray(noise).resize(size[::-1]).save(home / folder / f"{i}.png")
    return prepare


def cora(home):
    """A citation graph in Cora's two files, and the archive that the programs would download."""
    rng, nodes, words = np.random.RandomState(0), 2708, 64
    shutil.rmtree(home / "cora", ignore_errors=True)
    (home / "cora").mkdir()
    topic = rng.randint(0, 7, nodes)
    with open(home / "cora" / "cora.content", "w") as f:
        for i in range(nodes):
            bits = (rng.rand(words) < 0.02 + 0.2 * (np.arange(words) % 7 == topic[i])).astype(int)
            print(1000 + i, *bits, f"topic{topic[i]}", sep="\t", file=f)
    with open(home / "cora" / "cora.cites", "w") as f:
        for _ in range(5000):
            a = rng.randint(nodes)
            same = np.flatnonzero(topic == topic[a])
            print(1000 + a, 1000 + same[rng.randint(len(same))], sep="\t", file=f)
    with tarfile.open(home / "cora.tgz", "w:gz") as archive:
        archive.add(home / "cora", "cora")


def text(home):
    """A small text of made-up sentences."""
    rng = np.random.RandomState(1)
    words = ["".join(chr(97 + c) for c in rng.randint(0, 26, rng.randint(2, 9))) for _ in range(200)]
    lines = [" ".join(words[min(int(w), 199)] for w in rng.exponential(30, 12)).capitalize() + "." for _ in range(400)]
    (home / "input.txt").write_text("O God, O God!\n" + "\n".join(lines))


def names(home):
    """A list of made-up names, one a line."""
    rng = np.random.RandomState(2)
    (home / "names.txt").write_text("\n".join("".join(chr(97 + int(c) % 26) for c in rng.exponential(6, rng.randint(3, 9))) for _ in range(600)))


def carvana(home):
    """Photographs and their masks, for a segmentation."""
    from PIL import Image
    for name in ("imgs", "masks"):
        (home / "data" / name).mkdir(parents=True, exist_ok=True)
    for i in range(12):
        rng = np.random.RandomState(i)
        picture = Image.fromarray(rng.randint(0, 256, (8, 12, 3)).astype(np.uint8)).resize((96, 64))
        picture.save(home / "data" / "imgs" / f"{i}.jpg")
        Image.fromarray((np.asarray(picture)[..., 0] > 128).astype(np.uint8)).save(home / "data" / "masks" / f"{i}_mask.gif")


def stories(home):
    """What llama2.c's tokenizer leaves of its stories: a file of token numbers per shard."""
    folder = home / "data" / "tok64"
    folder.mkdir(parents=True)
    for i in range(2):
        (np.random.RandomState(i).randint(0, 9, 6000).cumsum() % 64).astype(np.uint16).tofile(folder / f"{i}.bin")


def tokens(home):
    folder = home / "data" / "made_up"
    folder.mkdir(parents=True)
    for split, size in (("train", 4000), ("val", 800)):
        (np.random.RandomState(size).randint(0, 50, size).cumsum() % 50).astype(np.uint16).tofile(folder / f"{split}.bin")


def wikitext(home):
    lines = (home / "data" / "wikitext-2" / "valid.txt").read_text().splitlines(keepends=True)
    (home / "data" / "small").mkdir()
    for name, first, last in (("train", 0, 120), ("valid", 120, 150), ("test", 150, 180)):
        (home / "data" / "small" / f"{name}.txt").write_text("".join(lines[first:last]))


def torchtext(home):
    """What a translation needs of torchtext, which is no more: words between spaces, a vocabulary, made-up pairs of sentences."""
    parts = {"__init__": "", "data/__init__": "", "data/utils": "def get_tokenizer(name, language): return str.split\n",
             "vocab": """
class Vocab(dict):
    def set_default_index(self, index): self.default = index
    def __call__(self, words): return [self.get(w, self.default) for w in words]
def build_vocab_from_iterator(sentences, min_freq, specials, special_first):
    words = sorted({w for s in sentences for w in s})
    return Vocab((w, i) for i, w in enumerate(specials + words))
""", "datasets": """
import random
class multi30k: URL = {}
def Multi30k(split, language_pair):
    draw = random.Random(split)
    return [(" ".join(f"w{n % 20}" for n in s), " ".join(f"v{n % 17}" for n in reversed(s)))
            for s in ([draw.randrange(40) for _ in range(draw.randint(3, 9))] for _ in range(64))]
"""}
    for name, source in parts.items():
        file = home / "torchtext" / f"{name}.py"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(source)


def folder(name):
    return lambda home: (home / name).mkdir()


def style_model(home):
    """A style network with seeded weights, written by whichever torch `python` has."""
    code = ("import sys, torch; sys.path.insert(0, 'neural_style'); from transformer_net import TransformerNet; "
            "torch.manual_seed(0); torch.save(TransformerNet().state_dict(), 'seeded.pth')")
    subprocess.run([sys.executable, "-c", code], cwd=home, check=True)


def sines(home):
    subprocess.run([sys.executable, "generate_sine_wave.py"], cwd=home, check=True)


# Written before PyTorch 2.6 and Pillow 10: pickles are read whole, and a filter has its former name.
WHOLE_PICKLES = "import functools, torch; torch.load = functools.partial(torch.load, weights_only=False); "
FORMER_FILTER = "import PIL.Image; PIL.Image.ANTIALIAS = PIL.Image.LANCZOS; "
# What a program that downloads gets instead: `requests` that answers with the archive made above.
REQUESTS = ("import types, requests; requests.get = lambda *a, **k: type('R', (), {'__enter__': lambda s: s, "
            "'__exit__': lambda s, *e: None, 'content': open('cora.tgz', 'rb').read(), 'raw': open('cora.tgz', 'rb')})(); ")
# The checkout is not installed.
HERE = "sys.path.insert(0, os.getcwd()); "
# Packages that a program imports for what is not run here.
IDLE = "import unittest.mock; sys.modules['%s'] = unittest.mock.MagicMock(); "
SCALARS = ("from torch.utils.tensorboard import SummaryWriter; import re; "
           "SummaryWriter.add_scalar = lambda s, tag, value, *a, **k: "
           "None if re.search('SPS|time', tag) else print(tag, '%.4f' % float(value)); ")


class Program:
    def __init__(self, name, repo, folder, command, prepare=None, seed=False, before="", drop=None):
        self.name, self.repo, self.folder, self.prepare = name, repo, folder, prepare
        self.command = command.split() if isinstance(command, str) else command
        self.seed, self.before, self.drop = seed, before, drop

    def argv(self):
        if not (self.seed or self.before):
            return self.command
        code = "import sys, os, runpy; sys.argv = sys.argv[1:]; sys.path[0] = os.path.dirname(sys.argv[0]) or os.getcwd(); "
        if self.seed:
            code += "import random, numpy, torch; torch.manual_seed(0); random.seed(0); numpy.random.seed(0); "
        return ["-c", code + self.before + "runpy.run_path(sys.argv[0], run_name='__main__')", *self.command]


E, LANGUAGE = "pytorch+examples", "--data data/small --epochs 1 --emsize 32 --nhid 32 --lr 5 --log-interval 20"
CIFAR = ("import sys, torch, models; torch.manual_seed(0); m = eval('models.' + sys.argv[1]); "
         "x, y = torch.randn(4, 3, 32, 32), torch.randint(0, 10, (4,)); "
         "o = torch.optim.SGD(m.parameters(), lr=1e-3, momentum=0.9)\n"
         "for i in range(2):\n    l = torch.nn.functional.cross_entropy(m(x), y); o.zero_grad(); l.backward(); o.step(); print('%.4f' % l.item())\n")
MODELS = ("VGG('VGG11') DPN26() LeNet() SENet18() PNASNetA() DenseNet121() GoogLeNet() ShuffleNetV2(1) "
          "ResNet18() ResNeXt29_2x64d() PreActResNet18() MobileNet() MobileNetV2() EfficientNetB0() RegNetX_200MF() SimpleDLA() DLA()")
RL = "vwxyzjn+cleanrl"
YUNJEY, GANS = "yunjey+pytorch-tutorial", "eriklindernoren+PyTorch-GAN"

PROGRAMS = [
    Program("mnist", E, "mnist", "main.py --epochs 2 --no-accel --save-model", mnist),
    Program("mnist_rnn", E, "mnist_rnn", "main.py --epochs 2 --save-model", mnist),
    Program("mnist_forward_forward", E, "mnist_forward_forward",
            "main.py --epochs 3 --no_accel --train_size 500 --test_size 100", mnist),
    Program("mnist_hogwild", E, "mnist_hogwild", "main.py --epochs 2 --num-processes 1", mnist, drop=r"(?m)^\d+\t"),
    Program("siamese_network", E, "siamese_network", "main.py --epochs 1 --no-accel", mnist, seed=True),
    Program("vae", E, "vae", "main.py --epochs 2 --no-accel --log-interval 2", mnist),
    Program("dcgan", E, "dcgan", "main.py --dataset fake --dry-run --manualSeed 3 --batchSize 16 --imageSize 64 --workers 1"),
    Program("dcgan mnist", E, "dcgan", "main.py --dataset mnist --dataroot data --niter 1 --manualSeed 3 --batchSize 64 --ngf 8 --ndf 8", mnist),
    Program("regression", E, "regression", "main.py", seed=True),
    Program("sine waves", E, "time_sequence_prediction", "generate_sine_wave.py"),
    Program("time_sequence_prediction", E, "time_sequence_prediction", "train.py --steps 1", sines, before=WHOLE_PICKLES),
    *(Program("word_language_model " + m, E, "word_language_model", f"main.py --model {m} {LANGUAGE}", wikitext)
      for m in ("LSTM", "GRU", "RNN_TANH", "RNN_RELU", "Transformer")),
    Program("word_language_model tied", E, "word_language_model",
            f"main.py --model LSTM --tied --use-optimizer --dropout 0 {LANGUAGE} --lr 0.002", wikitext),
    Program("super_resolution", E, "super_resolution",
            "main.py --upscale_factor 4 --batchSize 2 --testBatchSize 4 --nEpochs 2 --lr 0.001 --threads 1",
            pictures("dataset/BSDS300/images/train", "dataset/BSDS300/images/test", size=(288, 320))),
    Program("fast_neural_style", E, "fast_neural_style", "neural_style/neural_style.py eval --content-image images/content-images/amber.jpg "
            "--content-scale 4 --model seeded.pth --output-image out.png", style_model, before=FORMER_FILTER),
    Program("imagenet", E, "imagenet", "main.py train --epochs 1 -b 4 -p 1 --seed 1 -j 1 --no-accel -a resnet18",
            pictures(*("train/%s/%s" % (s, c) for s in ("train", "val") for c in "ab"), size=(240, 260)), drop=r"=> .*"),
    Program("language_translation", E, "language_translation", "main.py --epochs 3 --batch 16 --lr 0.001 --attn_heads 2 --enc_layers 2 "
            "--dec_layers 2 --embed_size 32 --dim_feedforward 48", torchtext, seed=True, before="sys.stderr = sys.stdout; ",
            drop="(?:Epoch time|ETA) = .*"),
    Program("reinforce", E, "reinforcement_learning", "reinforce.py --log-interval 5"),
    Program("actor_critic", E, "reinforcement_learning", "actor_critic.py"),
    Program("gcn", E, "gcn", "main.py --epochs 20 --no-accel --val-every 10 --dropout-p 0", cora, before=REQUESTS),
    Program("gat", E, "gat", "main.py --epochs 2 --no-accel --val-every 1 --hidden-dim 8 --num-heads 2", cora),
    *(Program("fx " + f, E, "fx", f + ".py", seed=True, drop=r"0x[0-9a-f]+") for f in
      ("invert", "module_tracer", "primitive_library", "replace_op", "subgraph_rewriter_basic_use",
       "wrap_output_dynamically", "inline_function", "proxy_based_graph_creation", "custom_tracer")),
    Program("nanoGPT", "karpathy+nanoGPT", ".", "train.py --dataset=made_up --device=cpu --compile=False --dtype='float32' "
            "--eval_interval=10 --eval_iters=4 --log_interval=1 --block_size=32 --batch_size=8 --n_layer=2 --n_head=2 --n_embd=64 "
            "--max_iters=30 --lr_decay_iters=30 --warmup_iters=2 --gradient_accumulation_steps=2 --dropout=0.0", tokens),
    Program("nanoGPT bfloat16", "karpathy+nanoGPT", ".", "train.py --dataset=made_up --device=cpu --compile=False --dtype='bfloat16' "
            "--eval_interval=10 --eval_iters=4 --log_interval=1 --block_size=32 --batch_size=8 --n_layer=2 --n_head=2 --n_embd=64 "
            "--max_iters=5 --lr_decay_iters=5 --warmup_iters=2 --gradient_accumulation_steps=2 --dropout=0.0", tokens),
    Program("minGPT chargpt", "karpathy+minGPT", ".", "projects/chargpt/chargpt.py --model.model_type=gpt-nano --trainer.max_iters=30 "
            "--trainer.batch_size=8 --trainer.num_workers=0 --data.block_size=32 --model.attn_pdrop=0.0 --model.resid_pdrop=0.0 "
            "--model.embd_pdrop=0.0", text, before=HERE),
    Program("minGPT chargpt dropout", "karpathy+minGPT", ".", "projects/chargpt/chargpt.py --model.model_type=gpt-micro "
            "--trainer.max_iters=20 --trainer.batch_size=8 --trainer.num_workers=1", text, before=HERE),
    Program("minGPT adder", "karpathy+minGPT", ".", "projects/adder/adder.py --trainer.max_iters=60 --trainer.num_workers=0",
            before=HERE),
    *(Program("two_layer " + f.split("/")[1], "jcjohnson+pytorch-examples", ".", f + ".py", seed=True) for f in
      ("tensor/two_layer_net_tensor", "autograd/two_layer_net_autograd", "autograd/two_layer_net_custom_function",
       "nn/two_layer_net_nn", "nn/two_layer_net_optim", "nn/two_layer_net_module", "nn/dynamic_net")),
    *(Program("makemore " + kind, "karpathy+makemore", ".", f"makemore.py --type {kind} --max-steps 60 --num-workers {kind == 'mlp':d} --n-layer 2 "
              "-b 16 --learning-rate 5e-3", names) for kind in ("transformer", "bigram", "mlp", "rnn", "gru", "bow")),
    Program("ng-video-lecture bigram", "karpathy+ng-video-lecture", ".", "bigram.py", text),
    Program("llama2.c", "karpathy+llama2.c", ".", "train.py --device=cpu --compile=False --dtype=float32 --vocab_source=custom --vocab_size=64 "
            "--max_seq_len=32 --batch_size=4 --dim=32 --n_layers=2 --n_heads=2 --n_kv_heads=2 --gradient_accumulation_steps=2 --max_iters=12 "
            "--eval_interval=6 --eval_iters=2 --warmup_iters=2", stories, before=IDLE % "sentencepiece"),
    *(Program("yunjey " + f.split("/")[-1], YUNJEY, "tutorials/" + f, "main.py", mnist_at("../../data"), seed=True) for f in
      ("01-basics/linear_regression", "01-basics/logistic_regression", "01-basics/feedforward_neural_network",
       "02-intermediate/convolutional_neural_network", "02-intermediate/recurrent_neural_network",
       "02-intermediate/bidirectional_recurrent_neural_network", "03-advanced/variational_autoencoder")),
    *(Program("gan " + f, GANS, ".", f"implementations/{f}/{f}.py --n_epochs 1 --sample_interval 1000000", mnist_at("../../data/mnist"), seed=True) for f in
      ("gan", "dcgan", "wgan", "wgan_gp", "lsgan", "cgan", "acgan", "infogan", "aae", "ebgan", "sgan", "relativistic_gan",
       "wgan_div")),
    *(Program("zero to all " + f, "hunkim+PyTorchZeroToAll", ".", f + ".py", mnist_at("mnist_data" if f.startswith("09_2") else "data"), seed=True) for f in
      ("01_basics", "02_manual_gradient", "03_auto_gradient", "05_linear_regression", "06_logistic_regression", "07_diabets_logistic", "08_1_dataset_loader",
       "08_2_dataset_loade_logistic", "09_01_softmax_loss", "09_2_softmax_mnist", "10_1_cnn_mnist", "12_1_rnn_basics",
       "12_2_hello_rnn", "12_4_hello_rnn_emb", "13_1_rnn_classification_basics", "13_4_pack_pad")),
    *(Program("morvan " + f, "MorvanZhou+PyTorch-Tutorial", "tutorial-contents", f + ".py", mnist_at("mnist"), seed=True, before=WHOLE_PICKLES) for f in
      ("202_variable", "203_activation", "301_regression", "302_classification", "303_build_nn_quickly", "304_save_reload", "305_batch_train",
       "306_optimizer", "402_RNN_classifier", "403_RNN_regressor", "404_autoencoder", "406_GAN",
       "501_why_torch_dynamic_graph", "503_dropout", "504_batch_normalization")),
    Program("pygcn", "tkipf+pygcn", ".", "pygcn/train.py --no-cuda --epochs 20 --dropout 0", lambda home: cora(home / "data"), before=HERE),
    Program("tcn copy memory", "locuslab+TCN", ".", "TCN/copy_memory/copymem_test.py --cuda --blank_len 30 --epochs 1 --levels 3", seed=True, before=HERE),
    Program("unet", "milesial+Pytorch-UNet", ".", "train.py --epochs 1 --batch-size 2 --scale 0.5", carvana, seed=True, before=IDLE % "wandb" + "import logging; logging.basicConfig = lambda **k: None; "),
    *(Program("cifar " + m, "kuangliu+pytorch-cifar", ".", ["-c", CIFAR, m]) for m in MODELS.split()),
    Program("cleanrl dqn", RL, ".", "cleanrl/dqn.py --total-timesteps 600 --learning-starts 200 --no-cuda", before=HERE + SCALARS),
    Program("cleanrl c51", RL, ".", "cleanrl/c51.py --total-timesteps 400 --learning-starts 200 --no-cuda", before=HERE + SCALARS),
    Program("cleanrl pqn", RL, ".", "cleanrl/pqn.py --total-timesteps 1024 --num-envs 2 --no-cuda", before=SCALARS),
    Program("cleanrl ppo", RL, ".", "cleanrl/ppo.py --total-timesteps 1024 --no-cuda", before=SCALARS),
]


def run(program, checkouts, command, limit, plain=False):
    """(text, seconds, the last line of an error or None) of a program in a copy of its folder."""
    with tempfile.TemporaryDirectory() as scratch:
        home = pathlib.Path(scratch) / "work" / "copy"
        shutil.copytree(checkouts / program.repo / program.folder, home, ignore=shutil.ignore_patterns(".git", "*.gif", "*.pt"))
        if program.prepare:
            program.prepare(home)
            if (home / "data").is_dir():
                os.symlink(home / "data", home.parent / "data")
        env = {"OMP_NUM_THREADS": "1", **os.environ, "PYTHONHASHSEED": "0", "PYTHONWARNINGS": "ignore", "MPLBACKEND": "Agg",
               "TQDM_DISABLE": "1", "CUDA_VISIBLE_DEVICES": "", "COLUMNS": "100"}
        env["PYTHONPATH"] = os.pathsep.join(filter(None, [str(ROOT / "python"), env.get("PYTHONPATH")]))
        if plain:
            env.update(PLAIN)
        argv = list(program.argv())
        if argv[0] == "-c":
            argv[1] = f"import torch; assert ('rushlight' in torch.__file__) == {'rushlight' in command}; " + argv[1]
        begin = time.monotonic()
        try:
            done = subprocess.run([*command, *argv], cwd=home, env=env, capture_output=True, text=True, timeout=limit)
        except subprocess.TimeoutExpired:
            return "", limit, f"no end within {limit} s"
        took = time.monotonic() - begin
        out = done.stdout.replace(str(home), "HOME")
        out = re.sub(TIMES, "", out)
        if program.drop:
            out = re.sub(program.drop, "", out)
        pictures_made = sorted(home.glob("out*.png"))
        out += "".join(hashlib.sha256(p.read_bytes()).hexdigest() + "\n" for p in pictures_made)
        failure = (done.stderr.strip().splitlines() or [f"exit status {done.returncode}"]) if done.returncode else None
        return out, took, failure and " | ".join(failure[-int(os.environ.get("LINES_OF_ERROR", 1)):])


def compare(got, want):
    """The verdict over two outputs, the largest relative difference, and the line from which on they differ."""
    if got == want:
        return "same", 0.0, 0
    a, b = NUMBER.findall(got), NUMBER.findall(want)
    lines = list(zip(got.splitlines() + [""], want.splitlines() + [""]))
    first = next((i for i, (x, y) in enumerate(lines) if x != y), len(lines)) + 1
    if len(a) != len(b) or NUMBER.sub("#", got) != NUMBER.sub("#", want):
        for number, (x, y) in enumerate(lines):
            if NUMBER.sub("#", x).split() != NUMBER.sub("#", y).split():
                return f"differs from line {first}, other words in {number + 1}: {x[:70]!r}, not {y[:70]!r}", 1.0, first
    worst = 0.0
    for x, y in zip(map(float, a), map(float, b)):
        if x != y and not (x != x and y != y):
            worst = max(worst, abs(x - y) / (1e-5 + max(abs(x), abs(y))))
    if worst < 1e-3:
        return f"close ({worst:.0e})", worst, first
    return f"differs ({worst:.0e}) from line {first} of {len(lines) - 1}", worst, first


def unstable(off, line, own):
    """Whether PyTorch, whose kernels for any processor compare as `own`, keeps its numbers no better than what is `off` from that line on."""
    return own[1] > off / 3 and own[2] <= 2 * line + 5


def main():
    cli = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    cli.add_argument("checkouts", type=pathlib.Path)
    cli.add_argument("--keep", type=pathlib.Path)
    cli.add_argument("--limit", type=float, default=240, help="seconds that one program may take")
    cli.add_argument("--show", action="store_true", help="print both outputs where they differ")
    cli.add_argument("names", nargs="*")
    args = cli.parse_intermixed_args()
    kept = json.loads(args.keep.read_text()) if args.keep and args.keep.exists() else {}
    counts = {}
    for program in PROGRAMS:
        if args.names and not any(n in program.name for n in args.names):
            continue
        if not (args.checkouts / program.repo).is_dir():
            print(f"{program.name:28} skipped: no {program.repo}", flush=True)
            continue
        key = program.name + " " + hashlib.sha256(repr(program.argv()).encode()).hexdigest()[:12]
        if key not in kept:
            kept[key] = run(program, args.checkouts.resolve(), [sys.executable], args.limit)
            if args.keep:
                args.keep.write_text(json.dumps({k: v for k, v in kept.items() if not v[2]}, indent=0))
        want, slow, failure = kept[key]
        got, quick, error = run(program, args.checkouts.resolve(), [sys.executable, "-m", "rushlight"], args.limit)
        verdict, off, line = compare(got, want)
        if failure or error:
            verdict = f"PyTorch fails: {failure}" if failure else f"error: {error}"
        elif verdict.startswith("differs"):
            other = key + " plain"
            if other not in kept:
                kept[other] = run(program, args.checkouts.resolve(), [sys.executable], 3 * args.limit, plain=True)
                if args.keep:
                    args.keep.write_text(json.dumps({k: v for k, v in kept.items() if not v[2]}, indent=0))
            own = compare(kept[other][0], want)
            if not kept[other][2] and unstable(off, line, own):
                verdict = "unstable" + verdict[7:]
            verdict += f"; PyTorch from itself: {kept[other][2] or own[0]}"
        counts[verdict.split()[0]] = counts.get(verdict.split()[0], 0) + 1
        print(f"{program.name:28} {slow:6.1f} s {quick:6.1f} s  {verdict}", flush=True)
        if args.show and not verdict.startswith("same"):
            print("---- PyTorch\n" + want[-3000:] + "\n---- rushlight\n" + got[-3000:])
    print(", ".join(f"{n} {what}" for what, n in counts.items()))
    return any(not v.startswith(("same", "close", "unstable")) for v in counts)


if __name__ == "__main__":
    sys.exit(main())
