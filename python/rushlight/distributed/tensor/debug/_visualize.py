"""Which process has which rows and columns of a DTensor, as a table."""
from .._utils import compute_local_shape_and_global_offset

__all__ = ["visualize_sharding"]


def _blocks(dtensor):
    """{((first row, last row), (first column, last column)): coordinates of the processes that have it}"""
    mesh, found = dtensor.device_mesh, {}
    for rank in mesh.mesh.flatten().tolist():
        at = (mesh.mesh == rank).nonzero()[0].tolist()
        shape, offset = compute_local_shape_and_global_offset(dtensor.shape, mesh, dtensor.placements, at)
        spans = [(first, first + n - 1) for n, first in zip(shape, offset)]
        rows, columns = spans if len(spans) == 2 else (spans[0], (0, 0))
        found.setdefault((rows, columns), []).append(rank)
    return found


def _table(blocks, device):
    """Rows and columns where blocks begin, in order."""
    rows, columns = sorted({r for r, _ in blocks}), sorted({c for _, c in blocks})
    cells = [[f"{device}:{','.join(map(str, blocks[r, c]))}" if (r, c) in blocks else "" for c in columns] for r in rows]
    return [f"Row {a}-{b}" for a, b in rows], [f"Col {a}-{b}" for a, b in columns], cells


def _plain(rows, columns, cells):
    """As the package tabulate has it."""
    lines = [["", *columns], *([row, *texts] for row, texts in zip(rows, cells))]
    widths = [max(len(line[k]) + 2 * (i == 0 and k > 0) for i, line in enumerate(lines)) for k in range(len(columns) + 1)]
    lines.insert(1, ["-" * width for width in widths])
    return "\n".join("  ".join(text.ljust(width) for text, width in zip(line, widths)).rstrip() for line in lines)


def _rich(rows, columns, cells):
    from rich.table import Table
    table = Table("", *columns)
    for row, texts in zip(rows, cells):
        table.add_row(row, *texts)
    return table


def visualize_sharding(dtensor, header="", use_rich=False):
    """Print, on the mesh's first process, which process has what of a DTensor of one or two dimensions; use_rich takes the package rich."""
    if not dtensor.numel():
        return
    if dtensor.dim() not in (1, 2):
        raise RuntimeError("visualize sharding supports only 1D or 2D DTensor")
    if any(dtensor.device_mesh.get_coordinate() or ()):
        return
    table = _table(_blocks(dtensor), dtensor.device_mesh.device_type)
    if header:
        print(header)
    if use_rich:
        import rich
        rich.print(_rich(*table))
    else:
        print(_plain(*table))
