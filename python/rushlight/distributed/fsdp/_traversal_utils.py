"""Walks over sharded modules."""
from .._absent import absent


def own_modules(root, ends):
    """The module and those below it, each once, without those below for which `ends` is true and what is below these."""
    out, seen = [], set()

    def visit(module):
        if module in seen or module is not root and ends(module):
            return
        seen.add(module)
        out.append(module)
        for child in module.children():
            visit(child)
    visit(root)
    return out


globals().update(absent(
    "",
    "_get_fsdp_states _get_fsdp_handles", "fsdp._traversal_utils."))
