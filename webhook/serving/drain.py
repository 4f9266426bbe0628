"""One byte that master and worker share: set when SIGTERM has come, so that readiness fails before serving ends."""

import mmap


class DrainFlag:
    """Made before the fork, seen on both sides of it."""

    def __init__(self) -> None:
        self._memory = mmap.mmap(-1, 1)

    def raise_it(self) -> None:
        self._memory[0] = 1

    @property
    def is_up(self) -> bool:
        return self._memory[0] == 1
