"""The log: one line a decision, as JSON or text.

The rule it owns: a line is ASCII and never holds the content of an object.  The line of a decision is built by hand,
not by a log record and its formatter, since every review pays for it.
"""

import functools
import json
import logging
import sys
import time
from collections.abc import Callable
from typing import TextIO

from webhook.admission.review import Answer
from webhook.errors import WebhookError
from webhook.settings import Format


def _stamp(seconds: float) -> str:
    whole = int(seconds)
    return f"{_stamp_of(whole)}.{int((seconds - whole) * 1000):03d}Z"


@functools.lru_cache(maxsize=4)
def _stamp_of(second: int) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(second))


class _JsonFormatter(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        line = {"time": _stamp(record.created), "level": record.levelname.lower(), "message": record.getMessage()}
        if record.exc_info:
            line["trace"] = self.formatException(record.exc_info)
        return json.dumps(line)


def configure(form: Format) -> None:
    """Send every log line to standard error, in one form."""
    handler = logging.StreamHandler(sys.stderr)
    text = logging.Formatter("%(asctime)s %(levelname)s %(message)s")
    handler.setFormatter(_JsonFormatter() if form is Format.JSON else text)
    logging.basicConfig(level=logging.INFO, handlers=[handler], force=True)


class DecisionLog:
    """The lines of reviews.  They are written together a moment later: one by one they cost more than the decisions."""

    def __init__(self, form: Format, stream: TextIO, *, later: Callable[[Callable[[], None]], object]) -> None:
        self._as_line = _json_line if form is Format.JSON else _text_line
        self._stream, self._later = stream, later
        self._waiting: list[str] = []

    def write(self, path: str, result: Answer | WebhookError, *, seconds: float, now: float) -> None:
        """Add the line of one review."""
        if not self._waiting:
            self._later(self.flush)
        self._waiting.append(self._as_line(_words(path, result, seconds=seconds, now=now)))

    def flush(self) -> None:
        """Write the lines that wait."""
        waiting, self._waiting = self._waiting, []
        self._stream.write("".join(waiting))
        self._stream.flush()


def _words(path: str, result: Answer | WebhookError, *, seconds: float, now: float) -> dict[str, object]:
    words: dict[str, object] = {"time": _stamp(now), "path": path}
    if isinstance(result, Answer):
        words["namespace"] = result.request.namespace[:_LONGEST_NAME]
        words["pod"] = result.request.pod_name[:_LONGEST_NAME]
        words["verdict"] = result.decision.verdict.value
        if result.decision.refusals:
            words["codes"] = ",".join(result.decision.codes)
        if result.request.is_dry_run:
            words["dry_run"] = True
        words["uid"] = result.request.uid[:_LONGEST_NAME]
    else:
        words["verdict"] = "error"
        words["status"] = result.status
        words["error"] = str(result)[:400]
    words["ms"] = round(seconds * 1000, 3)
    return words


_LONGEST_NAME = 253


def _json_line(words: dict[str, object]) -> str:
    return json.dumps(words) + "\n"


def _text_line(words: dict[str, object]) -> str:
    """Return the line as text; a newline in the name of a pod is escaped, so that a line stays one line."""
    line = " ".join(f"{key}={value}" for key, value in words.items())
    return line.encode("unicode_escape").decode("ascii") + "\n"
