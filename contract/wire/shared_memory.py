"""The layout of the two files that daemon and hook share: the gate and the ledger.

`schedulerd/PROTOCOL.md` explains them.  This module holds the numbers, and the hook's header repeats them.
"""

GATE_MAGIC = b"NVSGATE1"
LEDGER_MAGIC = b"NVSLEDG1"
MOST_GPUS = 63
LEDGER_SLOTS = 256
LEDGER_IN_FLIGHT = 40
"""In a GPU's line of a slot: for how many nanoseconds the process has had work in flight there (8 bytes)."""
LEDGER_LONGEST = 48
"""In a GPU's line of a slot: the longest launch that the process has learned there, in nanoseconds (8 bytes)."""
LEDGER_OWN_MANAGED = 56
"""In a GPU's line of a slot: the pageable bytes that the program asked for as managed memory (8 bytes)."""
LINE = 64
"""A cache line.  Every word that one side writes and the other reads has a line of its own."""


def gate_size(gpus: int) -> int:
    """Return the bytes of a gate file."""
    return LINE * (1 + gpus)


def gate_word(gpu: int) -> int:
    """Return the offset of a GPU's word; `gpu` is the GPU's place in the welcome's list."""
    return LINE * (1 + gpu)


def ledger_slot_size(gpus: int) -> int:
    """Return the bytes of one process's slot."""
    return LINE * (1 + gpus)


def ledger_size(gpus: int) -> int:
    """Return the bytes of a ledger file."""
    return LINE + LEDGER_SLOTS * ledger_slot_size(gpus)


def ledger_slot(gpus: int, slot: int) -> int:
    """Return the offset of a slot: its owner comes first, then a line a GPU."""
    return LINE + slot * ledger_slot_size(gpus)


def ledger_line(gpus: int, slot: int, gpu: int) -> int:
    """Return the offset of a GPU's line in a slot; `gpu` is the GPU's place in the welcome's list."""
    return ledger_slot(gpus, slot) + LINE * (1 + gpu)
