"""annotate(val, type): say the type of a traced value."""
from rushlight.fx.proxy import Proxy


def annotate(val, type):
    if isinstance(val, Proxy):
        if val.node.type:
            raise RuntimeError("Tried to annotate a value that already had a type on it! Existing type is %s and new type is "
                               "%s. This could happen if you tried to annotate a function parameter value (in which case you "
                               "should use the type slot on the function signature) or you called annotate on the same value "
                               "twice" % (val.node.type, type))
        val.node.type = type
    return val
