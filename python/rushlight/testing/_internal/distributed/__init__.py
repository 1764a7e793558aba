"""Helpers of tests of several processes."""
