"""What an operator has said with `nvsharectl`, kept for the next daemon: policy, quantum, drained and paused GPUs.

Owns the file's form and its life: replaced whole at each change, gone when there is nothing to say, one that cannot be
read is named and passed over.  A setting that was changed since goes before what was said of it.
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
    """One file, and the turns it speaks of."""

    def __init__(self, path: Path, turns: Turns) -> None:
        self._path = path
        self._turns = turns
        self._set = turns.rules
        """As the settings have it: only what differs was said by somebody."""

    def keep(self) -> None:
        """After each change."""
        said = self._said()
        try:
            if said:
                coming = self._path.with_name(f".{self._path.name}")
                coming.write_text(json.dumps({"version": _VERSION, **said}))
                coming.replace(self._path)
            else:
                self._path.unlink(missing_ok=True)
        except OSError as error:
            log.warning("cannot keep what was said in %s: %s; the next daemon will not know of it", self._path, error)

    def bring_back(self, now: Seconds) -> None:
        """Before the first client: what was said to the daemon before this one."""
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
        log.info("as an operator said to an earlier daemon: %s", text)

    def _pass_over(self, error: Exception) -> None:
        log.warning("%s cannot be read (%r): it is passed over; say again what should hold", self._path, error)

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
    """What is to be done; nothing of it has been, should a part be wrong."""
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
