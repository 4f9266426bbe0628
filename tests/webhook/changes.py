"""Changes of a pod that is running, and what must come of them: in Python, and on a real API server.

Each change is one of metadata alone.  `None` takes a key away, as in a merge patch.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

LABEL = "nvshare.com/vgpu"
MARKED = {LABEL: "true"}
Keys = Mapping[str, str]
Edits = Mapping[str, str | None]


@dataclass(frozen=True, kw_only=True)
class PodChange:
    """A pod's metadata before the change, the edits, and the code of the refusal with a text of it."""

    what: str
    labels: Keys = field(default_factory=lambda: MARKED)
    annotations: Keys = field(default_factory=dict)
    vgpus: int | None = 1
    edit_labels: Edits = field(default_factory=dict)
    edit_annotations: Edits = field(default_factory=dict)
    code: str | None = None
    says: str = ""


def keys(number: int) -> dict[str, str]:
    """Return so many keys that are none of ours."""
    return {f"example.com/k{index}": "" for index in range(number)}


_WEIGHT = {"nvshare.com/weight": "10"}
_CHANGED = "AnnotationChanged"
CHANGES = (
    PodChange(what="nothing of ours is changed", annotations=_WEIGHT, edit_annotations={"example.com/x": "2"}),
    PodChange(what="another label comes", edit_labels={"team": "research"}),
    PodChange(
        what="a weight is raised",
        annotations=_WEIGHT,
        edit_annotations={"nvshare.com/weight": "900"},
        code=_CHANGED,
        says="this change touches nvshare.com/weight. ",
    ),
    PodChange(
        what="a weight is taken away",
        annotations=_WEIGHT,
        edit_annotations={"nvshare.com/weight": None},
        code=_CHANGED,
        says="touches nvshare.com/weight. ",
    ),
    PodChange(
        what="a weight is raised and a memory cap comes",
        annotations=_WEIGHT,
        edit_annotations={"nvshare.com/weight": "900", "nvshare.com/memory": "1Gi"},
        code=_CHANGED,
        says="touches nvshare.com/memory, nvshare.com/weight. ",
    ),
    PodChange(
        what="a memory cap comes",
        edit_annotations={"nvshare.com/memory": "1Gi"},
        code=_CHANGED,
        says="touches nvshare.com/memory. ",
    ),
    PodChange(
        what="the summary is forged",
        edit_annotations={"nvshare.com/injected": "v1 main=gang volumes"},
        code=_CHANGED,
        says="touches nvshare.com/injected. ",
    ),
    PodChange(
        what="a key of ours comes that no program reads",
        edit_annotations={"nvshare.com/wieght": "1"},
        code=_CHANGED,
        says="touches nvshare.com/wieght. ",
    ),
    PodChange(
        what="the label is taken away",
        edit_labels={LABEL: None},
        code=_CHANGED,
        says="touches label nvshare.com/vgpu. ",
    ),
    PodChange(
        what="the label is taken away together with a new weight",
        annotations=_WEIGHT,
        edit_labels={LABEL: None},
        edit_annotations={"nvshare.com/weight": "900"},
        code=_CHANGED,
        says="touches nvshare.com/weight, label nvshare.com/vgpu. ",
    ),
    PodChange(
        what="the label gets another value",
        edit_labels={LABEL: ""},
        code=_CHANGED,
        says="touches label nvshare.com/vgpu. ",
    ),
    PodChange(what="a pod with a vGPU is marked later", labels={}, edit_labels=MARKED),
    PodChange(
        what="a pod with a vGPU is marked later with another value",
        labels={},
        edit_labels={LABEL: "yes"},
        code=_CHANGED,
        says="touches label nvshare.com/vgpu. ",
    ),
    PodChange(
        what="a pod is marked later, and gets a weight at once",
        labels={},
        edit_labels=MARKED,
        edit_annotations=_WEIGHT,
        code=_CHANGED,
        says="touches nvshare.com/weight. ",
    ),
    PodChange(
        what="a pod without a vGPU is marked",
        labels={},
        vgpus=None,
        edit_labels=MARKED,
        code=_CHANGED,
        says="touches label nvshare.com/vgpu. ",
    ),
    PodChange(what="a pod without our label is not looked at", labels={}, vgpus=None, edit_annotations=_WEIGHT),
    PodChange(what="1,000 annotations are enough", edit_annotations=keys(1000)),
    PodChange(
        what="1,001 annotations are too many",
        edit_annotations=keys(1001),
        code="PodOutgrown",
        says="it has 1001 annotations (at most 1000). ",
    ),
    PodChange(
        what="1,001 labels are too many",
        edit_labels=keys(1000),
        code="PodOutgrown",
        says="it has 1001 labels (at most 1000). ",
    ),
)
