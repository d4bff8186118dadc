"""Deriving all rows again, from the sources and the archive, into a file that takes the old place.

What no bytes are left of is carried over from the old database.
"""
