"""Containers that wait for each other: found as cycles of holders that wait for what another of them holds.

Two per-device containers whose kernels need a partner on the other GPU would wait for ever.  A cycle that lasts is
asked to yield; whose kernels do not end then, can only end together.  Pure functions.
May import the model only.
"""

from collections.abc import Iterable

from schedulerd.core.model import Tenant, Turn


def waits_for(tenant: Tenant) -> list[Turn]:
    """The turns of others that this one waits for, while it has GPUs of its own."""
    if tenant.gang or not tenant.turns or not tenant.wishes:
        return []
    holders = (turn for wish in tenant.wishes.values() for gpu in wish.gpus for turn in gpu.holders)
    return [turn for turn in holders if turn.tenant is not tenant and not turn.tenant.gang]


def could_jam(tenant: Tenant) -> bool:
    """Whether it holds a GPU while it waits for another."""
    return not tenant.gang and bool(tenant.turns) and bool(tenant.wishes)


def cycles(tenants: Iterable[Tenant]) -> list[tuple[Tenant, ...]]:
    """The groups that wait for each other, directly or around a ring; each tenant in one at most."""
    edges = {id(one): [turn.tenant for turn in waits_for(one)] for one in tenants}
    found: list[tuple[Tenant, ...]] = []
    taken: set[int] = set()
    for one in tenants:
        if id(one) in taken or not edges[id(one)]:
            continue
        ring = _ring_through(one, edges)
        if ring and not taken.intersection(map(id, ring)):
            found.append(ring)
            taken.update(map(id, ring))
    return found


def _ring_through(start: Tenant, edges: dict[int, list[Tenant]]) -> tuple[Tenant, ...]:
    """The shortest way from a tenant back to itself, by breadth; empty where there is none."""
    ways: list[tuple[Tenant, ...]] = [(start,)]
    seen: set[int] = set()
    for way in ways:  # grows while the search goes on
        for follower in edges.get(id(way[-1]), ()):
            if follower is start:
                return way
            if id(follower) not in seen:
                seen.add(id(follower))
                ways.append((*way, follower))
    return ()


def turns_between(ring: tuple[Tenant, ...]) -> list[Turn]:
    """The turns within a ring that another of it waits for."""
    members = set(map(id, ring))
    every = (turn for one in ring for turn in waits_for(one))
    return list(dict.fromkeys(turn for turn in every if id(turn.tenant) in members))
