"""NVIDIA's own libcuda.so.1 of several releases, for tests without a card.

The rule: it is proprietary.  It is fetched into the cache from a distribution's mirror where that has it, by name and
checksum, and never committed, copied into an image or shipped.  Where it cannot be had, tests are skipped and counted.
"""
