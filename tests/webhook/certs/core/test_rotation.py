"""A rotation in a simulated cluster: whatever happens to it, no pod is refused that would have been created before."""

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta

import pytest

from tests.fakes.rotating_cluster import ENTRIES, SETTINGS, START, FakeWorld, Killed
from tests.webhook.certs.core import strange
from webhook.certs.core import issue, secret
from webhook.certs.core.errors import StandsStill
from webhook.certs.core.phases import Act, Asked, Step
from webhook.certs.core.rotation import mend, rotate
from webhook.certs.core.secret import Material, Phase


def installed() -> FakeWorld:
    """Return a cluster after its first minute; from now on a refused pod fails the test."""
    world = FakeWorld()
    run(world, Asked.DUE)
    world.pass_time(60)
    world.guarded = True
    return world


def run(world: FakeWorld, asked: Asked, done: Callable[[Step], None] = lambda _: None) -> None:
    rotate(world, asked, SETTINGS, world.around(done))


def parts(world: FakeWorld) -> Material:
    return world.read(now=world.now)[0]


def is_whole(world: FakeWorld) -> bool:
    """Tell whether the phase is settled, every replica serves the pair, and exactly its CA is trusted."""
    found = parts(world)
    assert found.serving is not None
    leaf = secret.to_der(found.serving.certificate)
    return (
        found.phase is Phase.SETTLED
        and not found.previous
        and all(bundle == found.trusted() for bundle in world.bundles.values())
        and all(shown == leaf for shown in world.replicas.values())
    )


def test_a_fresh_cluster_gets_its_first_certificate_without_waiting() -> None:
    world = FakeWorld()

    run(world, Asked.DUE)

    assert world.now - START < timedelta(seconds=5)
    assert parts(world).phase is Phase.SETTLED
    assert set(world.bundles.values()) == {parts(world).trusted()}


def test_with_nothing_due_a_run_changes_nothing() -> None:
    world = installed()
    before = (world.version, dict(world.bundles))

    run(world, Asked.DUE)

    assert (world.version, world.bundles) == before


@pytest.mark.parametrize(
    ("asked", "same_authority"),
    [
        pytest.param(Asked.LEAF, True, id="a new serving certificate under the same CA"),
        pytest.param(Asked.AUTHORITY, False, id="a new CA"),
    ],
)
def test_a_rotation_refuses_no_pod_and_ends_whole(asked: Asked, same_authority: bool) -> None:
    world = installed()
    before = parts(world)

    run(world, asked)

    after = parts(world)
    assert world.refused == []
    assert is_whole(world)
    assert after.serving != before.serving
    assert (after.authority == before.authority) is same_authority


@pytest.mark.parametrize("asked", [Asked.LEAF, Asked.AUTHORITY])
@pytest.mark.parametrize("asked_again", [Asked.DUE, Asked.AUTHORITY, Asked.NOTHING])
def test_killed_after_any_step_the_next_run_finishes_it(asked: Asked, asked_again: Asked) -> None:
    for deadly in range(1, 12):
        world = installed()
        before = parts(world).authority
        if not _dies_after(world, asked, deadly):
            assert deadly > 2
            return
        world.pass_time(300)

        run(world, asked_again)

        assert world.refused == [], f"killed after step {deadly}"
        assert is_whole(world)
        if asked is Asked.AUTHORITY:
            assert parts(world).authority != before
    raise AssertionError("a rotation has more steps than expected")


def _dies_after(world: FakeWorld, asked: Asked, deadly: int) -> bool:
    steps: list[Step] = []

    def die(step: Step) -> None:
        steps.append(step)
        if len(steps) == deadly:
            raise Killed

    try:
        run(world, asked, die)
    except Killed:
        return True
    return False


def test_killed_between_the_two_configurations_the_next_run_finishes_it() -> None:
    world = installed()
    world.half_published = True
    with pytest.raises(Killed):
        run(world, Asked.AUTHORITY)
    assert len(set(world.bundles.values())) == 2

    run(world, Asked.AUTHORITY)

    assert world.refused == []
    assert is_whole(world)


def test_asking_again_after_a_kill_does_not_begin_a_second_rotation() -> None:
    world = installed()
    assert _dies_after(world, Asked.AUTHORITY, 2)
    chosen = parts(world).next_authority

    run(world, Asked.AUTHORITY)

    assert parts(world).authority == chosen


Breakage = Callable[[dict[str, bytes]], dict[str, bytes] | None]
BREAKAGES: dict[str, Breakage] = {
    "the Secret is deleted": lambda _: None,
    "every value is garbage": lambda data: dict.fromkeys(data, b"\x00garbage"),
    "the CA's key is lost": lambda data: {key: value for key, value in data.items() if key != "ca.key"},
    "the serving key is another's": lambda data: {**data, "tls.key": data["ca.key"]},
    "the serving certificate is cut off": lambda data: {**data, "tls.crt": data["tls.crt"][:80]},
    "the CA is a serving certificate": lambda data: {**data, "ca.crt": data["tls.crt"], "ca.key": data["tls.key"]},
    "the phase is a word nobody knows": lambda data: {**data, "phase": b"waxing"},
    "the phase says publish, but there is nothing to publish": lambda data: {**data, "phase": b"publish"},
    "the Secret is empty": lambda _: {},
    "the serving certificate is on a curve that nobody knows": lambda data: {
        **data,
        "tls.crt": strange.on_no_curve(data["tls.crt"]),
    },
    "the serving key is, too": lambda data: {**data, "tls.key": strange.on_no_curve(data["tls.key"])},
    "the CA's certificate is on a curve that nobody knows": lambda data: {
        **data,
        "ca.crt": strange.on_no_curve(data["ca.crt"]),
    },
    "the serving certificate's names are of a kind that nobody reads": lambda data: {
        **data,
        **_as_parts("tls", strange.with_strange_names(now=START)),
    },
    "the CA's are": lambda data: {**data, **_as_parts("ca", strange.with_strange_names(now=START))},
}


def _as_parts(key: str, pair: issue.Pair) -> dict[str, bytes]:
    return {f"{key}.crt": pair.certificate, f"{key}.key": pair.key}


@pytest.mark.parametrize("breakage", BREAKAGES.values(), ids=BREAKAGES.keys())
def test_a_broken_secret_is_repaired_while_the_replicas_serve_what_they_have(breakage: Breakage) -> None:
    world = installed()
    assert world.data is not None
    world.put(breakage(world.data))
    world.pass_time(30)

    run(world, Asked.NOTHING)
    world.pass_time(30)

    assert world.refused == []
    assert is_whole(world)


@pytest.mark.parametrize("days", [SETTINGS.leaf_days + 1, SETTINGS.authority_days + 1], ids=["serving", "CA"])
def test_an_expired_certificate_is_replaced_at_once(days: int) -> None:
    world = installed()
    world.guarded = False
    world.now += timedelta(days=days)
    began = world.now

    while mend(world, SETTINGS, world.around()) is not None:
        world.pass_time(1)

    assert world.now - began < timedelta(seconds=30)
    world.pass_time(10)
    assert is_whole(world)


def test_a_ca_near_its_end_is_replaced_without_a_cronjob() -> None:
    world = installed()
    old = issue.new_authority(now=world.now, days=0.3)
    leaf = issue.new_leaf(old, SETTINGS.server_names, now=world.now, days=30)
    world.bundles = dict.fromkeys(ENTRIES, secret.read_bundle(old.certificate))
    world.guarded = False
    world.put(secret.write(Material(old, leaf)))
    world.replicas = dict.fromkeys(world.replicas, secret.to_der(leaf.certificate))
    world.pass_time(60)
    world.guarded = True

    while (seconds := mend(world, SETTINGS, world.around())) is not None:
        world.pass_time(seconds)

    assert parts(world).authority != old
    assert world.refused == []
    assert is_whole(world)


def test_renewal_comes_before_the_end_without_being_asked_for() -> None:
    world = installed()
    first = parts(world)
    for _ in range(170):
        world.now += timedelta(days=9)
        run(world, Asked.DUE)
    last = parts(world)

    assert world.refused == []
    assert last.authority != first.authority
    assert last.serving is not None
    assert secret.ends_at(last.serving.certificate) - world.now > timedelta(days=SETTINGS.leaf_renew_days - 9)


def test_it_stands_still_with_a_sentence_while_a_replica_serves_the_old_certificate() -> None:
    world = installed()
    world.replicas["10.0.0.9:8443"] = "does not finish a TLS handshake (timed out)"

    with pytest.raises(StandsStill) as stands:
        run(world, Asked.AUTHORITY)

    assert "10.0.0.9:8443 does not finish a TLS handshake" in str(stands.value)
    assert parts(world).phase is Phase.SERVE
    assert world.refused == []
    del world.replicas["10.0.0.9:8443"]
    run(world, Asked.DUE)
    assert is_whole(world)


def test_it_stands_still_with_a_sentence_while_no_replica_is_ready() -> None:
    world = installed()
    world.replicas.clear()

    with pytest.raises(StandsStill, match="no replica of the webhook is ready"):
        run(world, Asked.LEAF)


def test_a_replica_that_falls_back_while_the_old_ca_lingers_is_waited_for_again() -> None:
    world = installed()
    old = world.replicas["10.0.0.1:8443"]
    fell_back: list[str] = []

    def fall_back(step: Step) -> None:
        if step.phase is Phase.LINGER and not fell_back:
            fell_back.append("once")
            world.replicas["10.0.0.1:8443"] = old
            world.replica_lag = 30

    run(world, Asked.AUTHORITY, fall_back)

    assert fell_back
    assert any("mark: not every replica serves the new certificate" in line for line in world.log)
    assert world.refused == []
    assert is_whole(world)


@pytest.mark.parametrize("asked", [Asked.NOTHING, Asked.DUE])
def test_a_bundle_that_somebody_emptied_is_written_again(asked: Asked) -> None:
    world = installed()
    world.bundles[ENTRIES[1]] = secret.Bundle()

    run(world, asked)

    assert is_whole(world)


def test_a_ca_that_somebody_added_to_a_bundle_is_removed() -> None:
    world = installed()
    stranger = issue.new_authority(now=world.now, days=10)
    world.bundles[ENTRIES[0]] |= secret.read_bundle(stranger.certificate)

    run(world, Asked.DUE)

    assert is_whole(world)


def test_a_run_waits_for_another_one_and_says_who() -> None:
    world = installed()
    world.held_by = "rotator-7"

    with pytest.raises(StandsStill, match="rotator-7 rotates the certificates just now"):
        run(world, Asked.AUTHORITY)

    assert parts(world).phase is Phase.SETTLED


def test_a_serving_certificate_for_another_service_is_replaced() -> None:
    world = installed()
    found = parts(world)
    assert found.authority is not None
    wrong = issue.new_leaf(found.authority, ["other.example.svc"], now=world.now, days=30)
    world.put(secret.write(replace(found, serving=wrong)))

    run(world, Asked.NOTHING)
    world.pass_time(10)

    assert is_whole(world)


def test_a_wait_whose_beginning_is_lost_or_in_the_future_begins_anew() -> None:
    for since in (b"", b"soon", b"2999-01-01T00:00:00+00:00"):
        world = installed()
        assert _dies_after(world, Asked.AUTHORITY, 3)
        assert parts(world).phase is Phase.TRUST
        world.put({**(world.data or {}), "since": since})

        run(world, Asked.DUE)

        assert world.refused == []
        assert is_whole(world)


def test_every_act_is_told_with_its_reason() -> None:
    world = installed()

    run(world, Asked.AUTHORITY)

    said = [line.split(":")[0] for line in world.log]
    for act in (Act.START, Act.PUBLISH, Act.MARK, Act.SWAP, Act.FINISH, Act.DONE):
        assert act.name.lower() in said
