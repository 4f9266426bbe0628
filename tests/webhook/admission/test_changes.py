"""A change of a running pod, decided in Python; the same changes on a real API server are in `test_policies_real`."""

import pytest

from tests.webhook.changes import CHANGES, LABEL, MARKED, Edits, Keys, PodChange, keys
from webhook.admission.rule import Change, Metadata
from webhook.admission.rules import CHANGE_RULES


def _edited(before: Keys, edits: Edits) -> dict[str, str]:
    both = {**before, **edits}
    return {key: value for key, value in both.items() if value is not None}


def _is_looked_at(change: Change) -> bool:
    """Select as the API server does: by the labels before or after."""
    return LABEL in change.before.labels or LABEL in change.after.labels


def _refusals(change: Change) -> list[str]:
    if not _is_looked_at(change):
        return []
    found = ((rule, rule.find(change)) for rule in CHANGE_RULES)
    return [str(rule.refusal(offenders)) for rule, offenders in found if offenders]


@pytest.mark.parametrize("case", CHANGES, ids=lambda case: case.what)
def test_a_change_is_refused_where_the_table_says(case: PodChange) -> None:
    after = Metadata(_edited(case.annotations, case.edit_annotations), _edited(case.labels, case.edit_labels))

    refusals = _refusals(Change(Metadata(case.annotations, case.labels), after, asks=bool(case.vgpus)))

    assert [text.partition(":")[0] for text in refusals] == ([case.code] if case.code else [])
    assert case.says in "".join(refusals)


@pytest.mark.parametrize(("now", "is_refused"), [(2000, False), (1500, False), (2001, True)])
def test_a_pod_that_was_large_before_may_stay_so_but_not_grow(now: int, is_refused: bool) -> None:
    before = Metadata(keys(2000), MARKED)

    assert bool(_refusals(Change(before, Metadata(keys(now), MARKED), asks=True))) == is_refused
