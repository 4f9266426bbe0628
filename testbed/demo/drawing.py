"""Pictures for a terminal: a pod before and after, and which pod used which GPU when.

Pure: text in, text out.
"""

import difflib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum


class Ink(StrEnum):
    """The terminal's code before a piece of text."""

    RED = "\x1b[31m"
    GREEN = "\x1b[32m"
    YELLOW = "\x1b[33m"
    BLUE = "\x1b[34m"
    MAGENTA = "\x1b[35m"
    CYAN = "\x1b[36m"
    BOLD = "\x1b[1m"
    DIM = "\x1b[2m"


PLAIN = "\x1b[0m"
_LINE_INKS = {"+": Ink.GREEN, "-": Ink.RED}
_BAR_INKS = (Ink.CYAN, Ink.YELLOW, Ink.MAGENTA, Ink.GREEN, Ink.BLUE, Ink.RED)


@dataclass(frozen=True, slots=True)
class Bar:
    """One stretch of time in which a pod used a GPU, in seconds."""

    gpu: str
    who: str
    start: float
    end: float


@dataclass(frozen=True, slots=True)
class Brush:
    """Colours, or none where the output is not a terminal."""

    coloured: bool

    def paint(self, text: str, ink: Ink) -> str:
        return f"{ink}{text}{PLAIN}" if self.coloured and text else text


def draw_diff(before: str, after: str, brush: Brush, *, context: int = 2) -> Iterator[str]:
    """Draw the lines of `after`; mark lines that `before` lacks with `+`, and leave out equal lines far from them."""
    changes = difflib.unified_diff(before.splitlines(), after.splitlines(), lineterm="", n=context)
    for number, line in enumerate(changes):
        if number < 2:  # the two file headers
            continue
        if line.startswith("@@"):
            yield brush.paint("  ···", Ink.DIM)
            continue
        ink = _LINE_INKS.get(line[0])
        yield brush.paint(line, ink) if ink else line


def draw_turns(bars: Sequence[Bar], brush: Brush, *, width: int = 72) -> Iterator[str]:
    """Draw a line a GPU.

    Each cell is a slice of time, with the letter of the pod that used it most.
    """
    if not bars:
        return
    begin, end = min(bar.start for bar in bars), max(bar.end for bar in bars)
    letters = name_letters(bar.who for bar in bars)
    cell = max(end - begin, 1e-9) / width
    for gpu in sorted({bar.gpu for bar in bars}):
        own = [bar for bar in bars if bar.gpu == gpu]
        cells = (_cell(own, begin + index * cell, begin + (index + 1) * cell, letters) for index in range(width))
        yield f"  {gpu:<7} " + "".join(_paint_cell(letter, letters, brush) for letter in cells)
    yield f"  {'':<7} 0 s{end - begin:>{max(1, width - 5)}.1f} s"
    yield "          " + "   ".join(_paint_cell(letter, letters, brush) + f" {who}" for who, letter in letters.items())


def name_letters(names: Iterable[str]) -> dict[str, str]:
    """Give each name a letter, in the order of the names."""
    return {who: chr(ord("A") + index % 26) for index, who in enumerate(sorted(set(names)))}


def _cell(bars: Sequence[Bar], start: float, end: float, letters: dict[str, str]) -> str:
    shares: dict[str, float] = {}
    for bar in bars:
        share = min(bar.end, end) - max(bar.start, start)
        if share > 0:
            shares[bar.who] = shares.get(bar.who, 0.0) + share
    if not shares:
        return "·"
    return letters[max(shares, key=shares.__getitem__)]


def _paint_cell(letter: str, letters: dict[str, str], brush: Brush) -> str:
    if letter not in letters.values():
        return brush.paint(letter, Ink.DIM)
    return brush.paint(letter, _BAR_INKS[(ord(letter) - ord("A")) % len(_BAR_INKS)])


def overlap_seconds(bars: Sequence[Bar]) -> float:
    """Return for how long two different pods were on one GPU at once."""
    total = 0.0
    for gpu in {bar.gpu for bar in bars}:
        last_end: dict[str, float] = {}
        for bar in sorted((bar for bar in bars if bar.gpu == gpu), key=lambda bar: bar.start):
            others = [end for who, end in last_end.items() if who != bar.who]
            total += max(0.0, min(max(others, default=0.0), bar.end) - bar.start)
            last_end[bar.who] = max(bar.end, last_end.get(bar.who, 0.0))
    return total


def busy_share(bars: Sequence[Bar]) -> float:
    """Return the share of time, from the first start to the last end, in which a GPU was in use; over all GPUs."""
    if not bars:
        return 0.0
    span = max(bar.end for bar in bars) - min(bar.start for bar in bars)
    gpus = {bar.gpu for bar in bars}
    used = sum(_union([bar for bar in bars if bar.gpu == gpu]) for gpu in gpus)
    return used / (span * len(gpus)) if span else 0.0


def _union(bars: Sequence[Bar]) -> float:
    total, reached = 0.0, float("-inf")
    for bar in sorted(bars, key=lambda bar: bar.start):
        total += max(0.0, bar.end - max(bar.start, reached))
        reached = max(reached, bar.end)
    return total
