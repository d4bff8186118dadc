"""The rules that give rows their meaning: pure functions over rows, each rule once.

They run on the rows of a chunk before these are stored, and on stored rows when more is known.
"""
