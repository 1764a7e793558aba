"""rearrange: axes split, moved and joined by a pattern of names, after einops (Rogozhnikov, ICLR 2022).

A side of a pattern is read into groups, one for each axis of a tensor: "a (b c) ..." is ("a",), ["b", "c"], ("...",).  The
left side says how to split the axes by a view, the right one how to order the pieces and which of them to join.
"""
import re

import rushlight as torch

_TOKEN = re.compile(r"\s+|(\.\.\.|[A-Za-z_]\w*|\d+|[()])|(.)")


def _read(side):
    """The groups of one side; 1 stands for no name at all."""
    groups, inner, seen = [], None, set()
    for match in _TOKEN.finditer(side):
        token, unknown = match.groups()
        if unknown:
            raise ValueError("Unknown character %r" % unknown)
        if token is None:
            continue
        if token == "(":
            if inner is not None:
                raise ValueError("brackets inside brackets are not allowed in %r" % side)
            inner = []
        elif token == ")":
            if inner is None:
                raise ValueError("brackets are not balanced in %r" % side)
            groups.append(inner)
            inner = None
        else:
            if token.isdigit() and token != "1":
                raise ValueError("the only number that may stand for an axis is 1, got %s" % token)
            if token in seen and token != "1":
                raise ValueError("Indexing expression contains duplicate dimension %r" % token)
            seen.add(token)
            names = [] if token == "1" else [token]
            groups.append(tuple(names)) if inner is None else inner.extend(names)
    if inner is not None:
        raise ValueError("brackets are not balanced in %r" % side)
    return groups


def _split(pattern):
    sides = pattern.split("->")
    if len(sides) != 2:
        raise ValueError("Pattern must contain a single '->' separator")
    left, right = map(_read, sides)
    if any("..." in group for group in left if isinstance(group, list)):
        raise ValueError("Ellipsis inside brackets on the left side of a pattern " + pattern)
    known, wanted = ({name for group in side for name in group} for side in (left, right))
    if "..." in wanted and "..." not in known:
        raise ValueError("Ellipsis found in right side, but not left side of a pattern " + pattern)
    if known != wanted:
        raise ValueError("Identifiers only on one side of rearrange expression (should be on both): %s" % (known ^ wanted))
    return left, right


def _sizes(left, shape, lengths):
    """{name: length} of all that the left side names; what stands for several axes has a tuple."""
    sizes, at = dict(lengths), 0
    rest = len(shape) - len(left) + 1
    if rest < 0 or (rest != 1 and ("...",) not in left):
        raise ValueError("Number of dimensions in pattern (%d) must be equal to the number of dimensions in the tensor (%d)" % (len(left), len(shape)))
    for group in left:
        if group == ("...",):
            sizes["..."] = tuple(shape[at:at + rest])
            at += rest
            continue
        open_names, product = [name for name in group if name not in sizes], 1
        for name in group:
            product *= sizes.get(name, 1)
        if len(open_names) > 1:
            raise ValueError("cannot infer the lengths of several axes at once: %s" % ", ".join(open_names))
        if open_names:
            if product == 0 or shape[at] % product:
                raise ValueError("axis %d has length %d, which (%s) does not divide evenly" % (at, shape[at], " ".join(group)))
            sizes[open_names[0]] = shape[at] // product
        elif product != shape[at]:
            raise ValueError("axis %d has length %d, but (%s) says %d" % (at, shape[at], " ".join(group), product))
        at += 1
    return sizes


def rearrange(tensor, pattern, **axes_lengths):
    """The elements of a tensor, or of a sequence of tensors stacked first, with axes split, moved and joined.

    "b (h s) (w t) c -> b h w (c s t)" names each axis; brackets hold those that are, or become, one axis, "..." any number
    of axes, 1 or () an axis of length 1.  Lengths that a split leaves open are given by keyword: s=2.

    >>> torch.func.rearrange(torch.zeros(32, 30, 40, 3), "b h w c -> b (c h w)").shape
    torch.Size([32, 3600])
    """
    if not isinstance(tensor, torch.Tensor):
        tensor = torch.stack(tuple(tensor))
    left, right = _split(pattern)
    strange = set(axes_lengths) - {name for group in left for name in group}
    if strange:
        raise ValueError("Identifiers not found in rearrange expression: %s" % strange)
    sizes = _sizes(left, tensor.shape, axes_lengths)
    pieces, place = [], {}  # the lengths of the split tensor, and where a name's axes are in it
    for name in (name for group in left for name in group):
        lengths = sizes[name] if name == "..." else (sizes[name],)
        place[name] = range(len(pieces), len(pieces) + len(lengths))
        pieces.extend(lengths)
    order, shape = [], []
    for group in right:
        axes = [axis for name in group for axis in place[name]]
        order.extend(axes)
        if group == ("...",):
            shape.extend(sizes["..."])
        else:
            length = 1
            for axis in axes:
                length *= pieces[axis]
            shape.append(length)
    return tensor.reshape(pieces).permute(order).reshape(shape)
