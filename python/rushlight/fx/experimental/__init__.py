"""Experimental parts of fx: names that programs look up."""
