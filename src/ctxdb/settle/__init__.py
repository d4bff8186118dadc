"""Settle what needs more than one chunk of lines, from stored rows."""
