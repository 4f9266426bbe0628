"""Fixtures of the software GPU's tests: each test gets a machine of its own."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.fakes.gpu_machine import BUILD, Machine


@pytest.fixture(scope="session", autouse=True)
def _libraries_are_built() -> None:
    if not (BUILD / "libcuda.so.1").exists():
        pytest.fail("the software GPU is not built; fix: make native")


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    """Return a machine with one T4 of 16 GB."""
    return Machine(tmp_path)


@pytest.fixture
def make_machine(tmp_path: Path) -> Callable[..., Machine]:
    """Return a function that makes a machine with these devices and settings."""

    def make(devices: str = "1xT4-16GB", **settings: str) -> Machine:
        return Machine(tmp_path, devices, settings)

    return make
