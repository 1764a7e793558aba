"""Where nodes came from: metadata kept while graphs are transformed."""
import contextlib
import copy
import enum
import functools

_current_meta = {}
_preserve = False


class NodeSourceAction(enum.Enum):
    """What a pass did."""
    CREATE = "create"
    REPLACE = "replace"


class NodeSource:
    """The node that a pass made or replaced another by: its name, operator and graph, and where it came from itself."""

    def __init__(self, node, pass_name="", action=None):
        self.pass_name = pass_name
        self.action = list(action) if isinstance(action, list) else [] if action is None else [action]
        self.name = node.name if node is not None else ""
        self.target = str(node.target) if node is not None else ""
        self.graph_id = id(node.graph) if node is not None else -1
        self.from_node = list(node.meta.get("from_node", ())) if node is not None else []

    def _action_string(self):
        return "+".join(action.name.lower() for action in self.action)

    def print_readable(self, indent=0):
        """A line for it, and one for each that it came from."""
        line = " " * indent + "(name=%s, pass_name=%s, action=%s, graph_id=%s)\n" % (self.name, self.pass_name, self._action_string(), self.graph_id)
        return line + "".join(source.print_readable(indent + 4) for source in self.from_node)

    def __repr__(self):
        return self.print_readable()

    def to_dict(self):
        """All of it as plain values."""
        return {"name": self.name, "target": self.target, "graph_id": self.graph_id, "pass_name": self.pass_name, "action": self._action_string(),
                "from_node": [source.to_dict() for source in self.from_node]}

    def __eq__(self, other):
        return isinstance(other, NodeSource) and self.to_dict() == other.to_dict()

    def __hash__(self):
        return hash((self.name, self.target, self.graph_id, self.pass_name, self._action_string()))

    @classmethod
    def _from_dict(cls, d):
        if not isinstance(d, dict):
            return None
        made = cls(None, d.get("pass_name", ""), [NodeSourceAction(word) for word in d.get("action", "").split("+") if word])
        made.name, made.target, made.graph_id = d.get("name", ""), d.get("target", ""), d.get("graph_id", -1)
        made.from_node = [cls._from_dict(source) for source in d.get("from_node", ())]
        return made


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


def annotate_fn(annotation_dict):
    """A decorator: the function runs within annotate(annotation_dict)."""
    def decorate(fn):
        @functools.wraps(fn)
        def annotated(*args, **kwargs):
            with annotate(annotation_dict):
                return fn(*args, **kwargs)
        return annotated
    return decorate


@contextlib.contextmanager
def set_current_meta(node, pass_name=""):
    before = dict(_current_meta)
    _current_meta.update(node.meta)
    if node.meta:
        _current_meta["from_node"] = [NodeSource(node, pass_name, NodeSourceAction.CREATE)]
    try:
        yield
    finally:
        _current_meta.clear()
        _current_meta.update(before)


# What a node made while another is looked at takes over from it.
_HANDED_ON = ("nn_module_stack", "source_fn_stack", "stack_trace", "torch_fn", "original_aten", "recompute", "ac_graph_id", "has_backward_hook", "quantization_tag",
              "partitioner_tag", "_numeric_debug_handle", "custom", "from_node")


def hand_on(node):
    """The metadata that is kept, for a new node; inside preserve_node_meta() only."""
    if _preserve:
        node.meta.update((name, copy.copy(_current_meta[name])) for name in _HANDED_ON if name in _current_meta)


def get_current_meta():
    return _current_meta


def set_stack_trace(stack):
    if _preserve and stack:
        _current_meta["stack_trace"] = "".join(stack)


def format_stack():
    import traceback
    return traceback.format_list(traceback.extract_stack()[:-1])
