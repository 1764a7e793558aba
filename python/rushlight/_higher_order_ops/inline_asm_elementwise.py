"""inline_asm_elementwise(): a GPU's instructions, written out, for each element."""


def inline_asm_elementwise(*inputs, asm_str, constraints, dtype, is_pure=True, pack=1):
    """Instructions of NVIDIA's GPUs are not run."""
    raise NotImplementedError("inline_asm_elementwise: instructions of a GPU that are written out are not supported: use operations")
