"""The page of health, and how a probe asks for it: through a socket file, where strangers cannot come.

A kubelet's exec probe costs a start of Python: this module imports little.
"""

import socket
from collections.abc import Callable
from pathlib import Path

from adapters.pages.request import Answer, sentence_answer

HEALTHZ = "/healthz"
_LONGEST_ANSWER = 65536


def health_page(why_not: Callable[[], str], well: Callable[[], str]) -> Callable[[str], Answer]:
    """Return a page that says 503 and why not, or 200 and what is well."""

    def page(_accept: str) -> Answer:
        reason = why_not()
        return sentence_answer(503, reason) if reason else sentence_answer(200, well())

    return page


def ask_health(path: Path, *, within: float) -> tuple[bool, str]:
    """Return whether the process behind a socket file is well, and its sentence."""
    try:
        answer = _exchange(path, within)
    except OSError as error:
        return False, f"{path} does not answer: {error.strerror or error}. Is it running, and are you root?"
    head, _, sentence = answer.partition(b"\r\n\r\n")
    return b" 200 " in head.split(b"\r\n", 1)[0], sentence.decode(errors="replace").strip()


def _exchange(path: Path, within: float) -> bytes:
    answer = b""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as asking:
        asking.settimeout(within)
        asking.connect(str(path))
        asking.sendall(f"GET {HEALTHZ} HTTP/1.1\r\n\r\n".encode())
        while len(answer) < _LONGEST_ANSWER and (more := asking.recv(_LONGEST_ANSWER)):
            answer += more
    return answer
