"""The words and rules that all rooms share: names, paths, grammars, codecs, limits.

The room decides nothing about one room alone, and does no I/O.  A word that two rooms must agree on stands here and
nowhere else.  `hook/nvshare_contract.h` repeats the words that C needs, and a test compares the two.
"""
