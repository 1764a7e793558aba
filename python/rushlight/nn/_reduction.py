"""Names and numbers of the three ways in which losses are reduced, and the two old flags."""
import warnings

_NUMBER = {"none": 0, "mean": 1, "sum": 2}


def get_enum(reduction):
    """The number by which operators know `reduction`."""
    number = _NUMBER.get(reduction)
    if number is None:
        if reduction == "elementwise_mean":
            warnings.warn("reduction='elementwise_mean' is deprecated. Please use reduction='mean' instead.",
                          stacklevel=2)
            return 1
        raise ValueError(f"{reduction} is not a valid value for reduction")
    return number


def legacy_get_string(size_average, reduce, emit_warning=True):
    """The name that the flags `size_average` and `reduce` stood for."""
    average = True if size_average is None else size_average
    wanted = True if reduce is None else reduce
    name = "none" if not wanted else ("mean" if average else "sum")
    if emit_warning:
        warnings.warn(f"size_average and reduce args will be deprecated, please use reduction='{name}' instead.",
                      stacklevel=2)
    return name


def legacy_get_enum(size_average, reduce, emit_warning=True):
    """As `legacy_get_string`, as a number."""
    return get_enum(legacy_get_string(size_average, reduce, emit_warning))
