"""The completion of a pod with vGPUs: a list of steps; each returns patch operations on the raw JSON.

To add a step, write it and list it in STEPS.  The rule it owns: a step that sees its own output returns nothing.
A step sees only pods that no rule refused.
"""

from collections.abc import Callable, Iterator
from dataclasses import replace

from contract.words import names, node
from webhook.admission.injected import HIDDEN, MOUNTS, SHADOWED, VOLUMES, preload_with_hook
from webhook.admission.json_fields import Json, read_map, read_maps
from webhook.admission.patch import Operation, append_all, escape, prepend_all, put, put_members, remove
from webhook.admission.pod import Container, count_vgpus
from webhook.admission.rule import Facts

_FORMAT = "v1"
"""The version of the summary in the annotation `nvshare.com/injected`."""
_FORMS = {True: "volumes", False: "no-volumes"}
"""The last word of the summary: it says whether hook and socket are volumes of the pod."""


def _environment(facts: Facts) -> Iterator[Operation]:
    for container in facts.sharing:
        yield from _entries(container, facts.expected_mode(container).value)


def _entries(container: Container, mode: str) -> list[Operation]:
    path, present = f"{container.path}/env", {entry["name"] for _, entry in container.steering}
    ours = [{"name": names.ENV_PRELOAD, "value": preload_with_hook("")}, {"name": names.ENV_MODE, "value": mode}]
    if container.has_env_from:
        ours += [{"name": name, "value": value} for name, value in SHADOWED.items()]
    missing = [entry for entry in ours if entry["name"] not in present] if present else ours
    preloads = [place for place, entry in container.steering if entry["name"] == names.ENV_PRELOAD]
    changes = _preload(path, container.env, preloads) if preloads else []
    return [*changes, *prepend_all(path, container.env, missing)]


def _preload(path: str, env: list[Json], places: list[int]) -> list[Operation]:
    """Put our hook in front of the user's LD_PRELOAD; of several entries only the last counts, so only it stays."""
    value = env[places[-1]].get("value") or ""
    wanted = preload_with_hook(value)
    changes = [put(f"{path}/{places[-1]}/value", wanted)] if wanted != value else []
    if any(f"$({names.ENV_PRELOAD})" in (entry.get("value") or "") for entry in env):
        return changes  # a later value refers to an earlier one
    return changes + [remove(f"{path}/{place}") for place in reversed(places[:-1])]


def _volumes(facts: Facts) -> Iterator[Operation]:
    if not facts.with_volumes:
        return
    volumes = facts.pod.volumes
    yield from append_all("/spec/volumes", volumes, [item for item in VOLUMES if item not in volumes])
    for container in facts.sharing:
        missing = [mount for mount in MOUNTS if mount not in container.mounts]
        yield from append_all(f"{container.path}/volumeMounts", container.mounts, missing)


def _reduction(facts: Facts) -> Iterator[Operation]:
    for container in reduced_containers(facts):
        resources = read_map(container.raw, "resources")
        for kind in ("limits", "requests"):
            if names.RESOURCE in read_map(resources, kind):
                yield put(f"{container.path}/resources/{kind}/{escape(names.RESOURCE)}", "1")


def reduced_containers(facts: Facts) -> tuple[Container, ...]:
    """Return the containers that get one vGPU instead of several."""
    if not facts.reduces:
        return ()
    return tuple(container for container in facts.sharing if container.vgpus > 1)


def _node_affinity(facts: Facts) -> Iterator[Operation]:
    """Require a node with as many GPUs as the container with most vGPUs; the user's own terms stay in force."""
    most = 1 if facts.reduces else max(container.vgpus for container in facts.sharing)
    if most < 2:
        return
    wanted = {"key": node.COUNT, "operator": "Gt", "values": [str(most - 1)]}
    affinity = read_map(facts.pod.spec, "affinity")
    node_affinity = read_map(affinity, "nodeAffinity")
    required = read_map(node_affinity, _REQUIRED)
    if required:
        yield from _with_expression(read_maps(required, "nodeSelectorTerms"), wanted)
        return
    rule = {_REQUIRED: {"nodeSelectorTerms": [{"matchExpressions": [wanted]}]}}
    if not affinity:
        yield put("/spec/affinity", {"nodeAffinity": rule})
    else:
        yield from put_members("/spec/affinity/nodeAffinity", node_affinity, rule)


_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_TERMS = f"/spec/affinity/nodeAffinity/{_REQUIRED}/nodeSelectorTerms"


def _with_expression(terms: list[Json], wanted: Json) -> Iterator[Operation]:
    """Add the expression to each term, since terms are alternatives.

    An empty term matches no node.  It gets no expression, since it would match nodes then.
    """
    for index, term in enumerate(terms):
        expressions = read_maps(term, "matchExpressions")
        if (expressions or term.get("matchFields")) and wanted not in expressions:
            yield from append_all(f"{_TERMS}/{index}/matchExpressions", expressions, [wanted])


def _annotations(facts: Facts) -> Iterator[Operation]:
    present = facts.pod.annotations
    is_over = facts.completed_as is not None  # the defaults were written at that moment; later ones do not count
    wanted = {} if is_over else {key: text for key, text in facts.namespace.defaults.items() if key not in present}
    wanted[names.INJECTED] = summarize(facts)
    reduced = reduced_containers(facts)
    if reduced:
        wanted[names.REDUCED_FROM] = ",".join(f"{container.name}={container.vgpus}" for container in reduced)
    elif names.REDUCED_FROM in present and not _was_reduced(facts):
        yield remove(f"/metadata/annotations/{escape(names.REDUCED_FROM)}")
    changed = {key: value for key, value in wanted.items() if present.get(key) != value}
    if not facts.pod.raw.get("metadata"):
        yield put("/metadata", {"annotations": changed})
    else:
        yield from put_members("/metadata/annotations", present, changed)


def _label(facts: Facts) -> Iterator[Operation]:
    present = facts.pod.labels
    if present.get(names.VGPU_LABEL) != names.VGPU_LABEL_VALUE:
        yield from put_members("/metadata/labels", present, {names.VGPU_LABEL: names.VGPU_LABEL_VALUE})


def _was_reduced(facts: Facts) -> bool:
    """Tell whether the note of a reduction fits: each container in it has one vGPU, and the namespace reduces."""
    counts = {container.name: container.vgpus for container in facts.sharing}
    entries = [entry.partition("=") for entry in facts.pod.annotations[names.REDUCED_FROM].split(",")]
    fits = all(counts.get(name) == 1 and amount.isascii() and amount.isdigit() for name, _, amount in entries)
    return fits and (facts.reduces or facts.completed_as is not None)


def summarize(facts: Facts) -> str:
    """Return the text of `nvshare.com/injected`: the mode of each container, and how hook and socket come."""
    modes = [f"{container.name}={facts.expected_mode(container)}" for container in facts.sharing]
    return " ".join((_FORMAT, *modes, _FORMS[facts.with_volumes]))


def was_given_volumes(facts: Facts) -> bool:
    """Tell whether the replica that completed the pod wrote volumes.

    While replicas are exchanged, that replica may have other settings than this one.
    """
    last = facts.pod.annotations.get(names.INJECTED, "").rpartition(" ")[2]
    return {word: given for given, word in _FORMS.items()}.get(last, facts.with_volumes)


STEPS: tuple[Callable[[Facts], Iterator[Operation]], ...] = (
    _reduction,
    _environment,
    _volumes,
    _node_affinity,
    _annotations,
    _label,
)


def complete(facts: Facts) -> tuple[Operation, ...]:
    """Return the operations that complete the pod; a complete pod needs none."""
    return tuple(operation for step in STEPS for operation in step(facts))


def as_completed(facts: Facts) -> Facts:
    """Return the facts on a completed pod as the replica saw them that completed it.

    That replica may have other settings than this one, and may know other words of the namespace: replicas are
    exchanged one by one, and hear of a change one after the other.
    """
    return replace(
        facts,
        with_volumes=was_given_volumes(facts),
        completed_as=facts.pod.annotations.get(names.INJECTED, ""),
        reduces=False,
        vgpus=count_vgpus(facts.pod.containers) if facts.reduces else facts.vgpus,
    )


def undone(facts: Facts) -> tuple[Operation, ...]:
    """Return the operations that a completed pod still needs: the ones that somebody undid."""
    return complete(facts if facts.completed_as is not None else as_completed(facts))


def hide_gpus_from_debuggers(containers: tuple[Container, ...]) -> tuple[Operation, ...]:
    """Return the operations that hide all GPUs from new debug containers on a pod with vGPUs."""
    void = {"name": names.ENV_VISIBLE_DEVICES, "value": HIDDEN}
    return tuple(
        operation
        for container in containers
        if not any(entry["name"] == names.ENV_VISIBLE_DEVICES for _, entry in container.steering)
        for operation in prepend_all(f"{container.path}/env", container.env, [void])
    )
