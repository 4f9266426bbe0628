"""The wheel and the image contain neither tests nor testbed."""

import tomllib
from pathlib import Path

import pytest
import setuptools

ROOT = Path(__file__).parents[3]
OURS_ALONE = {"tests", "testbed"}


def test_the_wheel_holds_neither_tests_nor_testbed() -> None:
    include = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["packages"]["find"]["include"]
    rooms = {name.partition(".")[0] for name in setuptools.find_packages(str(ROOT), include=include)}

    assert {"contract", "adapters", "webhook", "deviceplugin", "schedulerd"} <= rooms
    assert not rooms & OURS_ALONE


@pytest.mark.parametrize(
    ("file", "begin"),
    [
        pytest.param(".dockerignore", "!", id="nothing else reaches the builder"),
        pytest.param("Dockerfile", "COPY ", id="nothing else is copied"),
    ],
)
def test_the_image_is_built_without_tests_and_testbed(file: str, begin: str) -> None:
    lines = [line.removeprefix(begin) for line in (ROOT / file).read_text().splitlines() if line.startswith(begin)]

    assert any(line.startswith("contract") for line in lines)
    assert not [line for line in lines if line.startswith(tuple(OURS_ALONE))]
