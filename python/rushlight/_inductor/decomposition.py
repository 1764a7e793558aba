"""What programs would have the code generator put in the place of operators: a table that is kept, and that nothing here reads."""

decompositions = {}


def register_decomposition(ops):
    """A decorator: the function stands in the table for each of the operators."""
    def register(fn):
        for op in ops if isinstance(ops, (list, tuple)) else [ops]:
            decompositions[op] = fn
        return fn
    return register
