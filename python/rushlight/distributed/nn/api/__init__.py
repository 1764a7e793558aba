"""Modules that live at other workers."""
