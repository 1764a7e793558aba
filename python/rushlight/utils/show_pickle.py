"""python -m torch.utils.show_pickle FILE: what is in a pickle or checkpoint, without running it."""
import pickletools
import sys
import zipfile


def main(argv, output_stream=None):
    output_stream = output_stream or sys.stdout
    if len(argv) != 2:
        output_stream.write("usage: show_pickle FILE | FILE.pt@*/data.pkl\n")
        return 2
    name, _, member = argv[1].partition("@")
    if zipfile.is_zipfile(name):
        with zipfile.ZipFile(name) as archive:
            members = [n for n in archive.namelist() if n.endswith((member or "data.pkl").lstrip("*"))]
            for n in members:
                output_stream.write("# %s\n" % n)
                pickletools.dis(archive.read(n), out=output_stream)
    else:
        with open(name, "rb") as f:
            pickletools.dis(f, out=output_stream)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv))
