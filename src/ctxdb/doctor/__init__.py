"""Checks of the database and what it depends on, each with advice.

A check is a function that takes a `Patient` and returns findings. `checks.CHECKS` lists them all.
"""
