"""The layout of the two files that daemon and hook share: the gate and the ledger.

`schedulerd/PROTOCOL.md` explains them; here are the numbers, which the hook's header repeats.
"""

GATE_MAGIC = b"NVSGATE1"
LEDGER_MAGIC = b"NVSLEDG1"
MOST_GPUS = 63
LEDGER_SLOTS = 256
LINE = 64
"""A cache line: every word that one side writes and another reads has a line of its own."""


def gate_size(gpus: int) -> int:
    """Bytes of a gate file."""
    return LINE * (1 + gpus)


def gate_word(gpu: int) -> int:
    """Where the word of a GPU stands: its place in the welcome's list."""
    return LINE * (1 + gpu)


def ledger_slot_size(gpus: int) -> int:
    """Bytes of one process's slot."""
    return LINE * (1 + gpus)


def ledger_size(gpus: int) -> int:
    """Bytes of a ledger file."""
    return LINE + LEDGER_SLOTS * ledger_slot_size(gpus)


def ledger_slot(gpus: int, slot: int) -> int:
    """Where a slot begins: its owner, then a line a GPU."""
    return LINE + slot * ledger_slot_size(gpus)
