"""Parts of passes."""
