"""The operator's changes by `nvsharectl`, kept for the next daemon: policy, quantum, drained and paused GPUs.

The rule it owns: the file is replaced whole at each change, and removed when there is no change to keep.  One that
cannot be read is named in the log and left out.  A setting that was changed since counts more than the file.
"""

import json
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

from schedulerd.core import operator
from schedulerd.core.model import Gpu, Rules
from schedulerd.core.turns import Turns
from schedulerd.policies import POLICIES, Seconds

log = logging.getLogger(__name__)

_VERSION = 1
_STATES = (None, operator.PAUSED, operator.DRAINED)


class SteeringFile:
    """The file, and the turns that it changes."""

    def __init__(self, path: Path, turns: Turns) -> None:
        self._path = path
        self._turns = turns
        self._set = turns.rules
        """The rules by the settings: a rule that differs was changed by an operator."""

    def keep(self) -> None:
        """Write the file; called after each change."""
        said = self._said()
        try:
            if said:
                coming = self._path.with_name(f".{self._path.name}")
                coming.write_text(json.dumps({"version": _VERSION, **said}))
                coming.replace(self._path)
            else:
                self._path.unlink(missing_ok=True)
        except OSError as error:
            log.warning(
                "cannot write the operator's changes to %s: %s; the next daemon will not know them", self._path, error
            )

    def bring_back(self, now: Seconds) -> None:
        """Make the changes that an earlier daemon was told; called before the first client."""
        try:
            text = self._path.read_text()
        except FileNotFoundError:
            return
        except (OSError, UnicodeDecodeError) as error:
            self._pass_over(error)
            return
        try:
            changes = _read(json.loads(text), self._turns, self._set, now)
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            self._pass_over(error)
            return
        for change in changes:
            change()
        self.keep()  # without what does not hold any more
        log.info("changes that an operator made to an earlier daemon: %s", text)

    def _pass_over(self, error: Exception) -> None:
        log.warning("%s cannot be read (%r): it is left out; repeat your nvsharectl commands", self._path, error)

    def _said(self) -> dict[str, Any]:
        rules, was = self._turns.rules, self._set
        said: dict[str, Any] = {}
        if rules.policy is not was.policy:
            said["policy"] = {"set": was.policy.name, "said": rules.policy.name}
        if rules.fixed_quantum != was.fixed_quantum:
            said["quantum"] = {"set": was.fixed_quantum, "said": rules.fixed_quantum}
        gpus = {gpu.uuid: words for gpu in self._turns.grants.gpus.values() if (words := _words_of(gpu))}
        return {**said, "gpus": gpus} if gpus else said


def _words_of(gpu: Gpu) -> dict[str, Any]:
    words = {"drained": gpu.drained, "paused": gpu.paused, "quantum": gpu.fixed_quantum}
    return {key: value for key, value in words.items() if value not in (None, False)}


def _read(said: Any, turns: Turns, was: Rules, now: Seconds) -> list[Callable[[], None]]:
    """Return the changes to make; raise before any is made where a part of the file is wrong."""
    if said["version"] != _VERSION:
        raise ValueError(f"version {said['version']!r}")
    changes: list[Callable[[], None]] = []
    policy, quantum = said.get("policy"), said.get("quantum")
    if policy is not None:
        meant = POLICIES[policy["said"]]
        if policy["set"] == was.policy.name:
            changes.append(lambda: operator.set_policy(turns, meant, now))
    if quantum is not None:
        seconds = _seconds(quantum["said"])
        if quantum["set"] == was.fixed_quantum:
            changes.append(lambda: operator.set_quantum(turns, None, seconds, now))
    for uuid, words in said.get("gpus", {}).items():
        changes += _read_gpu(uuid, words, turns, now)
    return changes


def _read_gpu(uuid: str, words: dict[str, Any], turns: Turns, now: Seconds) -> list[Callable[[], None]]:
    drained, why, seconds = words.get("drained", False), words.get("paused"), _seconds(words.get("quantum"))
    if not isinstance(drained, bool) or why not in _STATES:
        raise ValueError(f"{uuid}: {words}")
    changes: list[Callable[[], None]] = []
    if seconds is not None:
        changes.append(lambda: operator.set_quantum(turns, [turns.add_gpu(uuid)], seconds, now))
    if drained:
        changes.append(lambda: operator.drain(turns, [turns.add_gpu(uuid)], now, at_once=False))
    if why is not None:
        changes.append(lambda: operator.pause(turns, [turns.add_gpu(uuid)], now, why=why))
    return changes


def _seconds(value: Any) -> Seconds | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0.001 <= value <= 3600:
        raise ValueError(f"{value!r} is no turn")
    return float(value)
