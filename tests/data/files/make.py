#!/usr/bin/env python3
"""Make the files beside this one, with PyTorch, safetensors, NumPy and Pillow installed: make.py"""
import pathlib

import numpy as np
import torch

HERE = pathlib.Path(__file__).resolve().parent
DTYPES = ("bool uint8 int8 int16 int32 int64 uint16 uint32 uint64 float16 bfloat16 float32 float64 complex64 complex128 "
          "float8_e4m3fn float8_e5m2 float8_e4m3fnuz float8_e5m2fnuz").split()


def main():
    six = torch.arange(6)
    torch.save({name: six.to(getattr(torch, name)) for name in DTYPES}, HERE / "dtypes.pt")
    a = torch.arange(12.0).reshape(3, 4)
    torch.save({"whole": a, "row": a[1], "turned": a.t(), "step": a[:, ::2], "expanded": a[0, 0].expand(2, 2),
                "empty": torch.empty(0, 3), "scalar": torch.tensor(7)}, HERE / "views.pt")
    torch.manual_seed(0)
    net = torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.BatchNorm1d(3))
    adam = torch.optim.Adam(net.parameters(), lr=0.5)
    net(torch.ones(4, 2)).sum().backward()
    adam.step()
    torch.save({"net": net.state_dict(), "adam": adam.state_dict(), "parameter": net[0].bias}, HERE / "training.pt")
    torch.save({"net": net.state_dict(), "whole": a, "row": a[1]}, HERE / "old.legacy", _use_new_zipfile_serialization=False)
    torch.save({"list": [1, -2.5, None, True, "text", b"\x00\xff"], "tuple": (1, (2, 3)), "set": {1, 2}, "big": 10 ** 30, "negative": -(2 ** 40),
                "complex": 1 + 2j, "size": torch.Size([2, 3]), "dtype": torch.bfloat16, "device": torch.device("cpu"), 5: {6: [7]}}, HERE / "values.pt")
    torch.save(torch.sparse_coo_tensor([[0, 1], [1, 2]], [3.0, 4.0], (2, 3)).coalesce(), HERE / "sparse.pt")
    torch.jit.script(net.eval()).save(str(HERE / "script.pt"))
    from safetensors.torch import save_file
    save_file({name: six.to(getattr(torch, name)) for name in DTYPES if name != "complex128"}, HERE / "dtypes.safetensors", {"by": "safetensors"})
    np.save(HERE / "big_endian.npy", np.arange(6, dtype=">i4").reshape(2, 3, order="F"))
    np.savez_compressed(HERE / "arrays.npz", a=np.arange(6).reshape(2, 3), b=np.asfortranarray(np.arange(6.0, dtype=">f8").reshape(2, 3)))
    package()
    pictures()


def package():
    """A network with the modules that it is made of, which are in tests/python/test_package.py."""
    import ast
    import sys
    import tempfile
    text = (HERE.parent.parent / "python" / "test_package.py").read_text()
    sources = ast.literal_eval(text[text.index("SOURCES = ") + 10:text.index("\n}\n") + 2])
    with tempfile.TemporaryDirectory() as folder, torch.no_grad(), torch.package.PackageExporter(HERE / "package.pt") as to:
        for name, source in sources.items():
            path = pathlib.Path(folder, name)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(source)
        sys.path.insert(0, folder)
        import boxed.net
        net = boxed.net.Net()
        net.linear.weight.copy_(torch.tensor([[1., 2], [-3, 4]]))
        net.linear.bias.zero_()
        to.intern("boxed.**")
        to.extern("numpy")
        to.save_pickle("models", "net.pkl", (net, net(torch.ones(1, 2)).tolist()))
        to.save_text("words", "a.txt", "hello")
        sys.path.pop(0)


def pictures():
    """19 by 13 pixels; blank.png is a page of one colour, a thousand times larger than its file."""
    from PIL import Image
    colours = Image.new("RGB", (19, 13))
    colours.putdata([(x * 13 % 256, y * 17 % 256, x * y % 256) for y in range(13) for x in range(19)])
    turned = Image.Exif()
    turned[0x112] = 6   # to be shown a quarter to the right
    for name, mode, options in [("grey", "L", {}), ("progressive", "RGB", {"progressive": True, "subsampling": 0, "quality": 60}),
                                ("printed", "CMYK", {"quality": 60}), ("turned", "RGB", {"exif": turned, "quality": 40}),
                                ("restarts", "RGB", {"restart_marker_blocks": 1, "subsampling": 1, "quality": 50})]:
        colours.convert(mode).save(HERE / (name + ".jpg"), "JPEG", **options)
    Image.new("1", (1240, 1754), 1).save(HERE / "blank.png", optimize=True)


if __name__ == "__main__":
    main()
