"""The manifests that are generated from the table of rules, as paths and contents.

`nvshare-webhook policies` writes the files; a test finds stale ones.
"""

from collections.abc import Iterable
from pathlib import PurePosixPath
from typing import Any

from adapters.kubernetes.manifests import write_documents
from webhook.admission.json_fields import Json
from webhook.admission.rule import Rule
from webhook.admission.rules import CHANGE_RULES, NAMESPACE_RULES, POD_RULES
from webhook.apiserver import hide_gpus
from webhook.apiserver.validating_policies import validating_policies, webhook_configurations

_NOTE = "# Written by `nvshare-webhook policies` from the table in webhook/admission/rules: change it there.\n"


def manifests() -> dict[PurePosixPath, str]:
    """Return each generated file below `manifests/`, and its content."""
    return {
        PurePosixPath("base/policies.yaml"): _yaml(validating_policies()),
        PurePosixPath("base/webhooks.yaml"): _yaml(webhook_configurations()),
        PurePosixPath("components/hide-gpus/policy.yaml"): _yaml(hide_gpus.policy()),
    }


def _yaml(objects: list[Json]) -> str:
    return _NOTE + write_documents(objects)


def all_rules() -> Iterable[Rule[Any]]:
    """Return every rule, in the order of docs/refusals.md."""
    return (*POD_RULES, *CHANGE_RULES, *NAMESPACE_RULES)
