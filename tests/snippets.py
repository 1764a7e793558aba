#!/usr/bin/env python3
"""The snippets of tests/python/*.tsv under PyTorch and under rushlight: where do they differ?

    tests/snippets.py ORACLE [--write] [TABLE...]

ORACLE is a Python that has PyTorch and NumPy; TABLE behaviour, autograd, callers, unseen or quantized. A snippet that ends its process is one
that differs. --write stores PyTorch's answers in the tables: of an error whose words differ here, its class alone.
Ends with 1 if one differs in more than words.
"""
import argparse
import importlib
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent / "python"))
TABLES = ["behaviour", "autograd", "callers", "unseen", "quantized"]
SECONDS = 60  # for one snippet


def answer_some(torch, given):
    """In a child: the answers of one snippet after the other, as far as it gets."""
    import snippets
    with tempfile.TemporaryFile("w+") as f:  # no pipe: processes that a snippet leaves behind would hold it open
        child = os.fork()
        if not child:
            os.dup2(os.open(os.devnull, os.O_RDWR), 1)
            for snippet in given:
                signal.alarm(SECONDS)
                f.write(json.dumps(snippets.answer(torch, snippet)) + "\n")
                f.flush()
            os._exit(0)
        status = os.waitpid(child, 0)[1]
        f.seek(0)
        return [json.loads(line) for line in f], status


def answers(name):
    """Reads a list of snippets, writes the list of their answers."""
    torch, given, done = importlib.import_module(name), json.load(sys.stdin), []
    torch.set_num_threads(1)
    while len(done) < len(given):
        some, status = answer_some(torch, given[len(done):])
        done += some
        if len(done) < len(given):
            done.append("the process ended with %d" % status)
    json.dump(done, sys.stdout)


def run(python, name, given):
    path = os.pathsep.join([str(pathlib.Path(__file__).resolve().parent.parent / "python"), os.environ.get("PYTHONPATH", "")])
    env = {**os.environ, **({"PYTHONPATH": path} if name == "rushlight" else {})}
    with tempfile.TemporaryFile("w+") as f:
        subprocess.run([python, __file__, "--answers", name], input=json.dumps(given), stdout=f, text=True, check=True, env=env)
        f.seek(0)
        return json.load(f)


def write(table, theirs, ours):
    import snippets
    lines, at = [], 0
    for line in (snippets.FOLDER / (table + ".tsv")).read_text().splitlines():
        if not line.startswith("#"):
            same = snippets.agrees(ours[at], theirs[at]) or snippets.kind(theirs[at]) is None
            line = line.split("\t")[0] + "\t" + (theirs[at] if same else snippets.kind(theirs[at]) + ": ")
            at += 1
        lines.append(line)
    (snippets.FOLDER / (table + ".tsv")).write_text("\n".join(lines) + "\n")


def main():
    if sys.argv[1:2] == ["--answers"]:
        return answers(sys.argv[2])
    import snippets
    cli = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    cli.add_argument("oracle")
    cli.add_argument("tables", nargs="*", default=TABLES)
    cli.add_argument("--write", action="store_true")
    args, wrong = cli.parse_args(), 0
    for table in args.tables:
        given = [row[0] for row in snippets.rows(table)]
        theirs, ours = run(args.oracle, "torch", given), run(sys.executable, "rushlight", given)
        differ = [i for i in range(len(given)) if not snippets.agrees(ours[i], theirs[i])]
        words = [i for i in differ if snippets.kind(theirs[i]) and snippets.kind(theirs[i]) == snippets.kind(ours[i])]
        for i in differ:
            if i not in words:
                print("%s\n  PyTorch:   %s\n  rushlight: %s" % (given[i].replace("@@", "\n"), theirs[i][:500], ours[i][:500]))
        print("%s: %d snippets, %d differ, %d more in an error's words" % (table, len(given), len(differ) - len(words), len(words)), flush=True)
        wrong += len(differ) - len(words)
        if args.write:
            write(table, theirs, ours)
    return wrong > 0


if __name__ == "__main__":
    sys.exit(main())
