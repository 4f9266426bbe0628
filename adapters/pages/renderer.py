"""Make a page in a thread of its own, once for all clients that wait for it.

Owns what a flood of requests may cost: one page is made at a time, and every client that asked before it was begun gets
it.  A page that hangs keeps its own thread and no other.
"""

import logging
import threading
from collections.abc import Callable
from typing import Generic, TypeVar

from adapters.pages.request import Answer, sentence_answer

log = logging.getLogger(__name__)

Page = Callable[[str], Answer]
"""Makes a page; the argument is the `Accept` header of the request."""
Asker = TypeVar("Asker")


class Renderer(Generic[Asker]):
    """One page, its thread, and the askers that wait for it."""

    def __init__(self, path: str, page: Page, hand_over: Callable[[list[Asker], Answer], None]) -> None:
        self._path, self._page, self._hand_over = path, page, hand_over
        self._asking: dict[Asker, str] = {}
        self._changed = threading.Condition()
        self._ended = False
        threading.Thread(target=self._run, name=f"page {path}", daemon=True).start()

    def ask(self, asker: Asker, accept: str) -> None:
        """Have the page made in a form that this asker accepts."""
        with self._changed:
            self._asking[asker] = accept
            self._changed.notify()

    def forget(self, asker: Asker) -> None:
        """Drop an asker that has left."""
        with self._changed:
            self._asking.pop(asker, None)

    def end(self) -> None:
        """Let the thread end; one that hangs in its page ends with the process."""
        with self._changed:
            self._ended = True
            self._changed.notify()

    def _run(self) -> None:
        while (batch := self._next_batch()) is not None:
            askers, accept = batch
            self._hand_over(askers, self._make(accept))

    def _next_batch(self) -> tuple[list[Asker], str] | None:
        with self._changed:
            self._changed.wait_for(lambda: self._ended or self._asking)
            if self._ended:
                return None
            accept = next(iter(self._asking.values()))
            askers = [asker for asker, wanted in self._asking.items() if wanted == accept]
            for asker in askers:
                del self._asking[asker]
            return askers, accept

    def _make(self, accept: str) -> Answer:
        try:
            return self._page(accept)
        except Exception:  # whatever a page meets, the next request may do better
            log.exception("cannot make the page %s", self._path)
            return sentence_answer(500, "This page could not be made: see the log.")
