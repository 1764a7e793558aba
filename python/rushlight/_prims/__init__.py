"""torch._prims: primitive operations of the compiler."""
