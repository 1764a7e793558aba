"""Where a code generator keeps what it made: there is nothing, so there is nothing to clear."""


class FxGraphCache:
    """Compiled graphs."""

    @staticmethod
    def clear():
        """Forgets them."""


class PyCodeCache:
    """Modules that were written for graphs."""

    @staticmethod
    def cache_clear(purge=False):
        """Forgets them; purge: and removes their files."""
