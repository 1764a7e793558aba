"""Elastic launching."""
from .._absent import absent

globals().update(absent(
    "",
    "", "elastic."))
