"""Parameters of Triton's kernels for sparse matrices, by operation, device and key: a table that programs fill and read. There are no such kernels here."""

_parameters = {}


def _device(name):
    if name is None:
        from rushlight import cuda
        name = cuda.get_device_name() if cuda.is_available() else ""
    return name


def update(op, device_name, version, key, value):
    """Puts a row in the table, or takes one out (value None)."""
    rows = _parameters.setdefault((op, device_name, version), {})
    if value is None:
        rows.pop(key, None)
    else:
        rows[key] = value


def get_meta(op, key, device_name=None, version=(0, None, 0), exact=False):
    """The row of a key, or None; keys with "*" in them stand for all that match, and give a dict of keys and rows unless it has to be exact."""
    rows = _parameters.get((op, _device(device_name), version), {})
    if exact or "*" not in key:
        return rows.get(key)
    return {k: row for k, row in rows.items() if all(a in ("*", b) for a, b in zip(key, k))} or None


def minimize(target_func, initial_parameters, reference_parameters, step_func, **options):
    """Would time kernels: there are none."""
    raise NotImplementedError("parameters of Triton's kernels cannot be tuned: there are none on this machine's devices")
