"""Logs: one line a decision, JSON or text, ASCII only, never an object's content.

The decision line is written by hand rather than through a record's formatting, since it is paid by every review.
May import the standard library's logging and the room's cores.
"""

import json
import logging
import sys
import time
from enum import StrEnum
from typing import TextIO

from webhook.errors import WebhookError
from webhook.review import Answer


class Format(StrEnum):
    """How a line looks."""

    JSON = "json"
    TEXT = "text"


def _stamp(seconds: float) -> str:
    whole = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds))
    return f"{whole}.{int(seconds % 1 * 1000):03d}Z"


class _JsonFormatter(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        line = {"time": _stamp(record.created), "level": record.levelname.lower(), "message": record.getMessage()}
        if record.exc_info:
            line["trace"] = self.formatException(record.exc_info)
        return json.dumps(line)


def configure(form: Format) -> None:
    """Everything that logs goes to standard error in one form."""
    handler = logging.StreamHandler(sys.stderr)
    text = logging.Formatter("%(asctime)s %(levelname)s %(message)s")
    handler.setFormatter(_JsonFormatter() if form is Format.JSON else text)
    logging.basicConfig(level=logging.INFO, handlers=[handler], force=True)


class DecisionLog:
    """One line a review."""

    def __init__(self, form: Format, stream: TextIO) -> None:
        self._write_line = self._as_json if form is Format.JSON else self._as_text
        self._stream = stream

    def write(self, path: str, result: Answer | WebhookError, *, seconds: float, now: float) -> None:
        """The line of one review."""
        words: dict[str, object] = {"time": _stamp(now), "path": path}
        if isinstance(result, Answer):
            words["namespace"] = result.namespace[:253]
            words["pod"] = result.pod[:253]
            words["verdict"] = result.decision.verdict.value
            if result.decision.refusals:
                words["codes"] = ",".join(result.decision.codes)
            if result.is_dry_run:
                words["dry_run"] = True
            words["uid"] = result.uid[:128]
        else:
            words["verdict"] = "error"
            words["status"] = result.status
            words["error"] = str(result)[:400]
        words["ms"] = round(seconds * 1000, 3)
        self._stream.write(self._write_line(words))
        self._stream.flush()

    @staticmethod
    def _as_json(words: dict[str, object]) -> str:
        return json.dumps(words) + "\n"

    @staticmethod
    def _as_text(words: dict[str, object]) -> str:
        return (
            " ".join(f"{key}={value}" for key, value in words.items()).encode("ascii", "backslashreplace").decode()
            + "\n"
        )
