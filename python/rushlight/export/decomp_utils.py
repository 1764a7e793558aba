"""The table that run_decompositions() works by."""
from rushlight import _decomp


class CustomDecompTable(dict):
    """{OpOverload: rule}, at first all that are outside of the core operations. An operator that is deleted stays as it is."""

    def __init__(self):
        super().__init__(_decomp._core_table())

    def copy(self):
        made = CustomDecompTable.__new__(CustomDecompTable)
        made.update(self)
        return made

    def materialize(self):
        """The same as a plain dict."""
        return dict(self)
