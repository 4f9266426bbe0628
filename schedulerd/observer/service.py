"""The observer: follow the turn process, tell it what the node knows, and serve its metrics over HTTP.

The rule it owns: which thread does what.  One reads the link, one looks at the cards every second, requests have their
own.  A card that never answers stops the looks and nothing else.  Whatever fails here, turns go on.
"""

import logging
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from adapters.errors import NoCluster
from adapters.pages.health import HEALTHZ, health_page
from adapters.pages.renderer import Page
from adapters.pages.request import Answer
from contract.errors import ContractError
from contract.wire.control import (
    Beat,
    CardReport,
    Happened,
    Observe,
    ObserverRequest,
    PodFacts,
    PodReport,
    Who,
    decode_to_observer,
    encode_request,
)
from contract.wire.line import Line
from contract.wire.status import State, Status
from schedulerd.control.client import ControlClient
from schedulerd.errors import Unusable
from schedulerd.observer.cards import Cards
from schedulerd.observer.exposition import CONTENT_TYPE, Snapshot, expose
from schedulerd.observer.fairness import Fairness
from schedulerd.observer.kubelet import Kubelet
from schedulerd.observer.pod_facts import Owner, facts
from schedulerd.observer.watchdog import Pulse
from schedulerd.settings import Settings

if TYPE_CHECKING:
    from schedulerd.observer.cluster import Cluster

log = logging.getLogger(__name__)

_LOOK_EVERY = 1.0
_PROCESSES_EVERY = 5
"""Every so many looks the processes on the cards are listed too."""
_RETRY = 0.2
_BEAT_EVERY = 5.0
_PAGE_PATIENCE = 5.0
"""Less than a page may take, so that a scraper hears of a turn process that has frozen."""
_ANSWER_WITHIN = 1.8
"""Less than a welcome waits."""
_SENTENCES = {
    "overdue": ("GpuTurnOverdue", "did not yield {gpus} in time and was shut out; its next turn comes by itself"),
    "above-cap": ("GpuMemoryAboveCap", "says that it has more memory on {gpus} than its cap; only the cap is counted"),
    "jam": ("GpuJam", "waited across {gpus} for a container that waited for it; both now get all their GPUs at once"),
}


class Observer:
    """What the node knows beside the turns, and the threads that find it out."""

    def __init__(self, settings: Settings, clock: Callable[[], float] = time.monotonic) -> None:
        self.settings = settings
        self.cards = Cards(settings.driver_root)
        self.kubelet = Kubelet(settings.pod_resources)
        self.fairness = Fairness()
        self.owners: dict[str, Owner] = {}
        self.strangers: dict[str, int] = {}
        self._unknown: dict[str, set[int]] = {}
        self.cluster = _join_cluster(settings.node)
        self._link: ControlClient | None = None
        self._sending = threading.Lock()
        self._lookups = ThreadPoolExecutor(max_workers=8, thread_name_prefix="who")
        self._shutting = threading.Event()
        self._look_now = threading.Event()
        self._looking = Pulse("no look at the cards has come to an end", clock)
        self._pulses = [self._looking, *([self.cluster.following] if self.cluster else [])]

    # ------------------------------------------------------------------ the link

    def follow(self) -> None:
        """Read what the turn process says until told to stop; find it again whenever it is lost."""
        while not self._shutting.is_set():
            try:
                with ControlClient(self.settings.control, patience=None) as link:
                    log.info("following %s", self.settings.control)
                    self._link = link
                    link.send(encode_request(Observe()))
                    self._look_now.set()
                    while True:
                        self._heard(link.read())
            except (Unusable, ContractError) as error:
                log.info("%s", error)
            finally:
                self._link = None
            self._shutting.wait(_RETRY)

    def stop(self) -> None:
        """Stop following."""
        self._shutting.set()
        self._look_now.set()
        if self.cluster is not None:
            self.cluster.stop()

    def beat_for_ever(self) -> None:
        """Tell the turn process every few seconds that this process runs, whatever hangs in other threads of it."""
        while not self._shutting.wait(_BEAT_EVERY):
            self._say(Beat())

    def _heard(self, line: Line) -> None:
        if line.verb == "error":
            log.warning("the turn process refuses: %s", line.words.get("message"))
            return
        said = decode_to_observer(line)
        if isinstance(said, Who):
            self._lookups.submit(self._answer_who, said)
        elif isinstance(said, Happened):
            self._lookups.submit(self._tell_cluster, said)
        else:
            self.owners.pop(said.key, None)

    def _say(self, request: ObserverRequest) -> None:
        link = self._link
        if link is None:
            return
        try:
            with self._sending:
                link.send(encode_request(request))
        except Unusable as error:
            log.info("%s", error)

    # ------------------------------------------------------------------ who and what happened

    def _answer_who(self, asked: Who) -> None:
        try:
            self._say(PodReport(asked.key, self._who(asked.key, frozenset(asked.devices), asked.uid)))
        except Exception:  # a thread pool would keep it to itself
            log.exception("cannot tell which pod has %s", asked.key)

    def _who(self, key: str, devices: frozenset[str], uid: str) -> PodFacts:
        """Return what is known of an allocation; without a uid it is not all, and the turn process asks again."""
        owner = self.owners.get(key) or self._ask_kubelet(devices)
        if owner is None:
            return PodFacts()
        pod = self.cluster.pod(owner, uid) if self.cluster else None
        if pod is None or uid in ("", pod.uid):
            self.owners[key] = owner
        else:
            self.owners.pop(key, None)  # the process is of another pod: the kubelet's list may have been old too
        return facts(owner, pod)

    def _ask_kubelet(self, devices: frozenset[str]) -> Owner | None:
        self.kubelet.forget(devices)
        return self.kubelet.owner(devices, give_up_at=time.monotonic() + _ANSWER_WITHIN)

    def _tell_cluster(self, happened: Happened) -> None:
        reason, sentence = _SENTENCES[happened.kind]
        owner = self.owners.get(happened.key)
        if self.cluster is None or owner is None:
            return
        message = f"Container {owner.container} " + sentence.format(gpus=",".join(happened.gpus))
        self.cluster.tell(owner, reason=reason, message=message)

    # ------------------------------------------------------------------ the cards

    def look_for_ever(self) -> None:
        """Look at the cards every second, and as soon as the turn process is there."""
        rounds = 0
        while not self._shutting.is_set():
            try:
                self.look(with_processes=rounds % _PROCESSES_EVERY == 0)
            except Exception:  # the next look may do
                log.exception("cannot look at the cards")
            self._looking.beat()
            rounds += 1
            self._look_now.wait(_LOOK_EVERY)
            self._look_now.clear()

    def look(self, *, with_processes: bool) -> None:
        """Tell the turn process what NVML says, and look for processes that take no turns."""
        for uuid, figures in self.cards.read().items():
            self._say(CardReport(uuid, figures))
        if with_processes and self._link is not None:
            self._look_for_strangers()

    def _look_for_strangers(self) -> None:
        """Report a process only if it was unknown twice in a row: a client may just come or go."""
        computing = self.cards.processes()
        known = self._known_pids() if any(computing.values()) else set()
        if known is None:
            return
        unknown = {uuid: pids - known for uuid, pids in computing.items()}
        strangers = {uuid: pids & self._unknown.get(uuid, set()) for uuid, pids in unknown.items()}
        for uuid, pids in strangers.items():
            if pids and not self.strangers.get(uuid):
                self._tell_of_strangers(uuid, pids)
        self._unknown = unknown
        self.strangers = {uuid: len(pids) for uuid, pids in strangers.items()}

    def _tell_of_strangers(self, uuid: str, pids: set[int]) -> None:
        some = ", ".join(map(str, sorted(pids)[:5]))
        message = f"{uuid} is used by processes that do not take turns: {some}"
        log.warning("%s", message)
        if self.cluster is not None:
            self.cluster.tell_node(reason="GpuUsedWithoutTurns", message=message, topic=uuid)

    def _known_pids(self) -> set[int] | None:
        """Return our clients' processes; None where the kernel does not show them to the turn process."""
        with ControlClient(self.settings.control) as asking:
            containers = asking.read_status().containers
        pids = {pid for container in containers for pid in container.pids}
        return pids if pids or not containers else None

    # ------------------------------------------------------------------ HTTP

    def pages(self) -> Mapping[str, Page]:
        """Return what is served over HTTP."""
        return {
            "/metrics": lambda _accept: Answer(200, CONTENT_TYPE, _as_text(self.metrics())),
            HEALTHZ: health_page(self.healthy, lambda: self.ailment() or f"ok. {self.cards.told}"),
        }

    def metrics(self) -> Iterator[str]:
        """Return the page's lines; without a turn process they say so."""
        try:
            with ControlClient(self.settings.control, patience=_PAGE_PATIENCE) as asking:
                status = asking.read_status()
        except (Unusable, ContractError) as error:
            log.info("%s", error)
            status = Status()
        return expose(
            Snapshot(
                status=status,
                fairness=self._fairness(status),
                strangers=self.strangers,
                kubelet_failures=self.kubelet.failures,
                stalled=bool(self.ailment()),
                watching=None if self.cluster is None else self.cluster.watching,
                dropped_events=None if self.cluster is None else self.cluster.dropped_events,
            )
        )

    def _fairness(self, status: Status) -> dict[str, float]:
        weights = {container.key: container.weight for container in status.containers}
        held = {(place.key, place.gpu): place.held_us / weights[place.key] for place in status.places}
        self.fairness.add(time.monotonic(), held)
        wanting: dict[str, list[str]] = {}
        for place in status.places:
            if place.state is not State.RESTS:
                wanting.setdefault(place.gpu, []).append(place.key)
        return self.fairness.index(wanting)

    def healthy(self) -> str:
        """Return why the observer is not healthy; empty when it is."""
        if self._link is None:
            return "the turn process does not answer"
        return ""

    def ailment(self) -> str:
        """Return which of its threads hangs; empty when none does.

        It is no reason to end the observer: a restart does not bring back a call that hangs in the driver.
        """
        return next(filter(None, (one.complaint() for one in self._pulses)), "")


def _join_cluster(node: str) -> "Cluster | None":
    if not node:
        log.info("no --node: the API is not asked; weights and caps are the defaults")
        return None
    from schedulerd.observer.cluster import Cluster  # its client takes 33 MB, which stand-alone nobody needs

    try:
        cluster = Cluster(node)
    except NoCluster as error:
        remedy = "Run in a pod with a service account, set KUBECONFIG, or leave --node out."
        raise Unusable(f"cannot reach the API: {error.cause}. {remedy}") from None
    cluster.start()
    return cluster


def _as_text(lines: Iterator[str]) -> bytes:
    return "".join(f"{line}\n" for line in lines).encode()
