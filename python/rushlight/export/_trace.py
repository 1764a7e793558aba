"""Private parts of export."""
