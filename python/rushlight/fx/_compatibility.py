"""The decorator that marks which functions of fx are stable; it changes nothing."""
_BACK_COMPAT_OBJECTS, _MARKED_WITH_COMPATIBILITY = {}, {}


def compatibility(is_backward_compatible):
    def mark(fn):
        return fn
    return mark
