"""Gather what lies on the node: our folders and hook, the scheduler's and the kubelet's sockets."""

import os
import stat
from pathlib import Path, PurePath

from adapters.kubelet.rpc import RpcError
from contract.errors import ContractError
from contract.words import names, paths
from deviceplugin.core.doctor.facts import KubeletFacts, OurFacts
from deviceplugin.kubelet.pod_resources import KubeletPods
from deviceplugin.node.kind import read_head
from deviceplugin.node.load import ask_for_load
from deviceplugin.settings import Settings


def look_at_ours(settings: Settings) -> OurFacts:
    """Return how our folders, the hook and the scheduler's socket are."""
    layout = settings.layout
    return OurFacts(
        root=str(layout.root),
        root_is_writable=_is_writable(layout.root),
        cdi_folder=str(layout.cdi),
        cdi_is_writable=_is_writable(layout.cdi),
        image_hook=read_head(settings.hook_file),
        hook=read_head(layout.hook),
        names_hook=layout.preload_file.is_file(),
        scheduler_answers=_scheduler_answers(settings.control_socket),
        control_socket=str(settings.control_socket),
    )


def look_at_kubelet(settings: Settings) -> KubeletFacts:
    """Return how the kubelet's sockets are, and which GPUs other plugins offer."""
    socket = settings.kubelet_folder / PurePath(paths.KUBELET_SOCKET).name
    try:
        foreign = KubeletPods(settings.pod_resources_socket, names.RESOURCE).foreign()
    except RpcError:
        foreign = None
    return KubeletFacts(
        folder=str(settings.kubelet_folder),
        registers=_is_socket(socket),
        pod_resources=foreign is not None,
        foreign=foreign,
    )


def _is_writable(folder: Path) -> bool:
    return folder.is_dir() and os.access(folder, os.W_OK | os.X_OK)


def _is_socket(path: Path) -> bool:
    try:
        return stat.S_ISSOCK(path.stat().st_mode)
    except OSError:
        return False


def _scheduler_answers(socket: Path) -> bool:
    try:
        ask_for_load(socket)
    except (OSError, ContractError):
        return False
    return True
