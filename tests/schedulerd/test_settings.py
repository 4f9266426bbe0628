"""The scheduler's settings: a flag, a variable and a file mean the same."""

from pathlib import Path

import pytest

from schedulerd.errors import Unusable
from schedulerd.settings import Settings, build_parser, read_settings


def read(*flags: str, **environ: str) -> Settings:
    return read_settings(build_parser().parse_args(flags), environ)


def written(folder: Path, text: str) -> str:
    (folder / "settings.yaml").write_text(text)
    return f"--settings={folder}/settings.yaml"


def test_a_flag_goes_before_a_variable_and_a_variable_before_the_file(tmp_path: Path) -> None:
    file = written(tmp_path, "policy: rr\ngrace: 3s\nkeep: 7ms\nmetrics_port: 1\n")
    settings = read(file, "--grace=1s", NVSHARE_SCHEDULERD_GRACE="2s", NVSHARE_SCHEDULERD_KEEP="6ms")

    assert (settings.policy, settings.grace, settings.keep, settings.metrics_port) == ("rr", 1.0, 0.006, 1)


def test_a_key_that_is_no_setting_is_refused_with_those_there_are(tmp_path: Path) -> None:
    with pytest.raises(Unusable, match=r"'polcy', which is no setting\. Use: allocations, alone_flight, announce"):
        read(written(tmp_path, "polcy: rr\n"))


@pytest.mark.parametrize(
    ("flag", "value"),
    [
        ("--quantum=auto", None),
        ("--quantum=30s", 30.0),
        ("--switching-share=2.5%", 0.025),
        ("--card-reserve=0", 0),
        ("--paging-rate=5G", 5e9),
        ("--side-by-side=never", "never"),
    ],
)
def test_a_value_is_read_in_its_unit(flag: str, value: object) -> None:
    name = flag.partition("=")[0].strip("-").replace("-", "_")

    assert getattr(read(flag), name) == value


@pytest.mark.parametrize(
    "flag",
    [
        *("--quantum=0s", "--quantum=30", "--switching-share=0%", "--switching-share=51%", "--switching-share=2"),
        *("--card-reserve=1.5", "--paging-rate=fast", "--side-by-side=maybe", "--log-level=loud", "--observer=yes"),
        *("--identity=names", "--metrics-port=65536", "--grace=3601s"),
    ],
)
def test_an_odd_value_is_refused_by_its_flag(flag: str) -> None:
    with pytest.raises(Unusable, match=f"{flag.partition('=')[0]}=.* is not allowed. It must be "):
        read(flag)
