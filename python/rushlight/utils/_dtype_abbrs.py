"""The short names of dtypes, which annotations of shapes and types print: `f32`, `i64`, `b8`."""
import rushlight as torch

dtype_abbrs = {d: d.abbr for d in {str(v): v for v in vars(torch).values() if isinstance(v, torch.dtype)}.values() if str(d) != "torch." + d.abbr}
