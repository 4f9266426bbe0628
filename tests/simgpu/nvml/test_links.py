"""What NCCL, XLA and PyTorch ask NVML at their start, and how nvml.h says that an ordinary card answers."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

import pytest

from tests.fakes.gpu_machine import Machine

nv: Any = pytest.importorskip("pynvml")

UNSUPPORTED = "NVMLError_NotSupported"


def said(ask: Callable[..., Any], *arguments: Any) -> Any:
    try:
        return ask(*arguments)
    except nv.NVMLError as error:
        return type(error).__name__


def links() -> dict[str, Any]:
    nv.nvmlInit()
    card = nv.nvmlDeviceGetHandleByIndex(0)
    fields = nv.nvmlDeviceGetFieldValues(card, [nv.NVML_FI_DEV_NVLINK_LINK_COUNT, nv.NVML_FI_DEV_NVLINK_SPEED_MBPS_L0])
    return {
        "state": said(nv.nvmlDeviceGetNvLinkState, card, 0),
        "version": said(nv.nvmlDeviceGetNvLinkVersion, card, 0),
        "capability": said(nv.nvmlDeviceGetNvLinkCapability, card, 0, 0),
        "remote": said(nv.nvmlDeviceGetNvLinkRemotePciInfo, card, 0),
        "type": said(nv.nvmlDeviceGetNvLinkRemoteDeviceType, card, 17),
        "no such link": said(nv.nvmlDeviceGetNvLinkRemoteDeviceType, card, 36),
        "fabric": said(nv.nvmlDeviceGetGpuFabricInfoV, card, nv.c_nvmlGpuFabricInfoV_t()),
        "fields": [field.nvmlReturn for field in fields],
        "ecc": said(nv.nvmlDeviceGetTotalEccErrors, card, 0, 0),
    }


def test_a_card_without_nvlink_says_so_for_each_question(make_machine: Callable[..., Machine]) -> None:
    """Hold to nvml.h: NOT_SUPPORTED "if NVLink is not supported", INVALID_ARGUMENT for a wrong link."""
    with make_machine("1xA100-40GB").client() as client:
        assert client.call(links) == {
            **dict.fromkeys(("state", "version", "capability", "remote", "type", "fabric", "ecc"), UNSUPPORTED),
            "no such link": "NVMLError_InvalidArgument",
            "fields": [nv.NVML_ERROR_NOT_SUPPORTED] * 2,
        }


def buses() -> list[tuple[int, ...]]:
    nv.nvmlInit()
    cards = [nv.nvmlDeviceGetHandleByIndex(index) for index in range(nv.nvmlDeviceGetCount())]
    asks = (nv.nvmlDeviceGetMaxPcieLinkGeneration, nv.nvmlDeviceGetCurrPcieLinkWidth, nv.nvmlDeviceGetPcieSpeed)
    return [tuple(ask(card) for ask in asks) for card in cards]


def test_each_card_has_the_bus_of_its_generation(make_machine: Callable[..., Machine]) -> None:
    """Hold to nvmlDeviceGetPcieSpeed: in Mbps; T4 is PCIe 3, A100 PCIe 4, H100 PCIe 5, each with 16 lanes."""
    with make_machine("1xT4-16GB,1xA100-40GB,1xH100-80GB").client() as client:
        assert client.call(buses) == [(3, 16, 8000), (4, 16, 16000), (5, 16, 32000)]


def confidential() -> tuple[int, int]:
    nv.nvmlInit()
    settings = nv.c_nvmlSystemConfComputeSettings_v1_t()
    assert nv.nvmlSystemGetConfComputeSettings(ctypes.byref(settings)) == nv.NVML_SUCCESS
    return nv.nvmlSystemGetConfComputeState().ccFeature, settings.ccFeature


def test_confidential_computing_is_off(machine: Machine) -> None:
    """Answer as a plain machine: NCCL ends its start when nvmlSystemGetConfCompute… fails."""
    with machine.client() as client:
        assert client.call(confidential) == (0, 0)
