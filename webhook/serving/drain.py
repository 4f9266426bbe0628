"""A flag that master and worker share: it is set after SIGTERM, so that readiness fails before serving ends."""

import mmap


class DrainFlag:
    """One byte of shared memory: it is made before the fork and seen by both processes."""

    def __init__(self) -> None:
        self._memory = mmap.mmap(-1, 1)

    def set(self) -> None:
        self._memory[0] = 1

    @property
    def is_up(self) -> bool:
        return self._memory[0] == 1
