"""Patterns of calls as other packages write them down for PyTorch's code generator.

A pattern says what it is of; it is never looked for, for there is no code generator here whose passes would: match() says so. To find
patterns in graphs there is torch.fx.passes.utils.matcher_utils.SubgraphMatcher.
"""
__all__ = ["PatternExpr", "Arg", "Ignored", "KeywordArg", "ExclusiveKeywordArg", "CallFunction", "CallFunctionVarArgs", "ListOf", "MULTIPLE", "Match", "filter_nodes"]


class _Multiple:
    """However many users."""

    def __repr__(self):
        return "MULTIPLE"


MULTIPLE = _Multiple()


class PatternExpr:
    """A pattern, or part of one."""

    def match(self, node):
        raise NotImplementedError("torch._inductor.pattern_matcher: patterns are kept, but there is no code generator whose passes look for them")

    def __repr__(self):
        return "%s()" % type(self).__name__


class Arg(PatternExpr):
    """Any argument, which is handed on."""


class Ignored(PatternExpr):
    """Any argument."""


class KeywordArg(PatternExpr):
    """Any argument, which is handed on by a name."""

    def __init__(self, name):
        self.name = name

    def __repr__(self):
        return "%s(%r)" % (type(self).__name__, self.name)


class ExclusiveKeywordArg(KeywordArg):
    """The same, of a value that nothing else uses."""


class ListOf(PatternExpr):
    """A list of what another pattern says."""

    def __init__(self, pattern, partial=False):
        self.pattern, self.partial = pattern, partial


class CallFunction(PatternExpr):
    """A call of one of these functions with these arguments, whose result so many nodes use."""

    def __init__(self, fns, *args, _users=1, **kwargs):
        self.fns, self.args, self.kwargs, self.users = list(fns) if isinstance(fns, (list, tuple)) else [fns], args, kwargs, _users

    def __repr__(self):
        parts = [", ".join(getattr(f, "__name__", str(f)) for f in self.fns), *map(repr, self.args), *("%s=%r" % pair for pair in self.kwargs.items())]
        return "%s(%s)" % (type(self).__name__, ", ".join(parts))


class CallFunctionVarArgs(CallFunction):
    """A call of one of these functions with any arguments."""


class Match:
    """A place where a pattern was found: its nodes, and what was handed on."""

    def __init__(self, ctx=None, pattern=None, args=None, kwargs=None):
        self.ctx, self.pattern, self.args, self.kwargs, self.nodes = ctx, pattern, list(args or []), dict(kwargs or {}), []

    def output_nodes(self):
        """Nodes whose values are used outside."""
        return [n for n in self.nodes if any(user not in self.nodes for user in n.users)]

    def output_node(self):
        return next(iter(self.output_nodes()))

    def erase_nodes(self):
        """Takes out those that nothing uses any more."""
        for node in reversed(self.nodes):
            if not node.users and not node._erased:
                node.graph.erase_node(node)


def filter_nodes(nodes, fn):
    """The calls of a function (of any overload of it) among nodes."""
    wanted = [fn]
    if hasattr(fn, "overloads"):
        wanted += [getattr(fn, name) for name in fn.overloads()]
    return [n for n in nodes if n.target in wanted]
