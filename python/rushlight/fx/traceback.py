"""Where nodes came from: metadata kept while graphs are transformed."""
import contextlib

_current_meta = {}
_preserve = False


def has_preserved_node_meta():
    return _preserve


@contextlib.contextmanager
def preserve_node_meta(enable=True):
    global _preserve
    before, _preserve = _preserve, enable
    try:
        yield
    finally:
        _preserve = before


@contextlib.contextmanager
def annotate(annotation_dict):
    """Nodes made inside get these entries in meta["custom"]."""
    before = dict(_current_meta)
    _current_meta["custom"] = {**_current_meta.get("custom", {}), **annotation_dict}
    try:
        yield
    finally:
        _current_meta.clear()
        _current_meta.update(before)


@contextlib.contextmanager
def set_current_meta(node, pass_name=""):
    before = dict(_current_meta)
    _current_meta.update(node.meta)
    try:
        yield
    finally:
        _current_meta.clear()
        _current_meta.update(before)


def get_current_meta():
    return _current_meta


def set_stack_trace(stack):
    if _preserve and stack:
        _current_meta["stack_trace"] = "".join(stack)


def format_stack():
    import traceback
    return traceback.format_list(traceback.extract_stack()[:-1])
