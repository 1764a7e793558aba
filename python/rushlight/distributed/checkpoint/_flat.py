"""State dicts of one level: a nested key is the keys on its way joined by dots, with {joined: (key, key, ...)} to find the way back."""
import rushlight as torch


def _whole(value):
    """Is it kept as one entry? Dicts are not, nor are lists with tensors, dicts, or such lists."""
    if isinstance(value, dict):
        return False
    return not isinstance(value, list) or all(_whole(v) and not isinstance(v, torch.Tensor) for v in value)


def flatten(state):
    """({joined key: entry}, {joined key: path})"""
    flat, paths = {}, {}

    def visit(path, value):
        if _whole(value):
            name = ".".join(map(str, path))
            if name in flat:
                raise ValueError(f"duplicated flatten key {name}")
            flat[name], paths[name] = value, path
            return
        for key, v in ((str(k), v) for k, v in value.items()) if isinstance(value, dict) else enumerate(value):
            visit((*path, key), v)

    for key, value in state.items():
        visit((str(key),), value)
    return flat, paths


def put(state, path, value):
    """Set the entry at a path; what is missing on the way is made."""
    at = state
    for key, after in zip(path, (*path[1:], None)):
        if isinstance(at, list):
            at.extend([None] * (key + 1 - len(at)))
        elif key not in at:  # keys are text in the file
            key = next((k for k in at if str(k) == key), key)
        if after is None:
            at[key] = value
            return
        if (at[key] if isinstance(at, list) else at.get(key)) is None:
            at[key] = [] if isinstance(after, int) else {}
        at = at[key]


def unflatten(flat, paths):
    state = {}
    for name, value in flat.items():
        put(state, paths.get(name, (name,)), value)
    return state
