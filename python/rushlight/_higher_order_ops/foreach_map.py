"""foreach_map: a function over lists of tensors."""
import itertools


def foreach_map(op, *operands, unused=None, **kwargs):
    """[op(a, b, ...) for a, b, ... of the lists among the operands]; what is no list goes to each call. Without a list: op(*operands).

    >>> from rushlight._higher_order_ops.foreach_map import foreach_map
    >>> foreach_map(lambda x, y: x + y, [1, 2], 10)
    [11, 12]
    """
    lists = [isinstance(operand, (list, tuple)) for operand in operands]
    if not any(lists):
        return op(*operands, **kwargs)
    return [op(*each, **kwargs) for each in zip(*(operand if many else itertools.repeat(operand) for operand, many in zip(operands, lists)))]
