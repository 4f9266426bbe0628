"""The words that all rooms share: names, paths, grammars and codecs.

Owns no decision and does no I/O; imports nothing but the standard library's plain types.  A word that two rooms must
agree on stands here or nowhere; `hook/nvshare_contract.h` repeats those that C needs, and a test holds the two equal.
"""
