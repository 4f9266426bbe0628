"""One table of options: where a value comes from, what is refused, and what Kubernetes may add to the environment."""

import argparse
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import deviceplugin.settings
import schedulerd.settings
import webhook.certs.options
import webhook.settings
from adapters.options import ABSOLUTE_PATH, PORT, TEXT, Kind, Option, Table, number, one_of, whole

ROOT = Path(__file__).parents[2]


class Refused(Exception):
    """The error of a room."""


TABLE = Table(
    "NVSHARE_TEST_",
    (
        Option("port", PORT, "8443", "where it listens"),
        Option("some_seconds", number(0, 60, "seconds"), "2", "100% of the wait"),
        Option("mode", one_of(("auto", "off")), "auto", "how"),
        Option("folder", ABSOLUTE_PATH, "/var", "where files are"),
        Option("node", TEXT, "", "this node", variable="NODE_NAME"),
        Option("env", TEXT, "", "variables to add", many=True),
        Option("size", whole(1, 10), "3", "how many"),
    ),
    Refused,
)
DEFAULTS = {
    "port": 8443,
    "some_seconds": 2.0,
    "mode": "auto",
    "folder": Path("/var"),
    "node": "",
    "env": (),
    "size": 3,
}


def read(*flags: str, environ: dict[str, str] | None = None, file: dict[Any, object] | None = None) -> dict[str, Any]:
    parser = argparse.ArgumentParser()
    TABLE.add_flags(parser)
    return TABLE.read(vars(parser.parse_args(flags)), environ or {}, file or {})


def test_without_any_setting_the_defaults_are_read() -> None:
    assert read() == DEFAULTS


@pytest.mark.parametrize(
    ("flags", "environ", "file", "port"),
    [
        pytest.param((), {}, {"port": 1}, 1, id="the file"),
        pytest.param((), {"NVSHARE_TEST_PORT": "2"}, {"port": 1}, 2, id="a variable goes before the file"),
        pytest.param(("--port=3",), {"NVSHARE_TEST_PORT": "2"}, {"port": 1}, 3, id="a flag goes before both"),
        pytest.param((), {}, {"port": None}, 8443, id="a key without a value is not set"),
        pytest.param((), {"NVSHARE_OTHER_PORT": "2"}, {}, 8443, id="another program's variable"),
    ],
)
def test_where_a_value_comes_from(
    flags: tuple[str, ...], environ: dict[str, str], file: dict[Any, object], port: int
) -> None:
    assert read(*flags, environ=environ, file=file) == DEFAULTS | {"port": port}


@pytest.mark.parametrize(
    ("flags", "environ", "file"),
    [
        pytest.param(("--env=A=1,2", "--env=B=3"), {}, {}, id="a flag twice"),
        pytest.param((), {"NVSHARE_TEST_ENV": "A=1,2\nB=3"}, {}, id="a line each"),
        pytest.param((), {}, {"env": ["A=1,2", "B=3"]}, id="a list"),
        pytest.param((), {}, {"env": "A=1,2\nB=3\n"}, id="a block of text"),
    ],
)
def test_several_values_are_given_each_way(
    flags: tuple[str, ...], environ: dict[str, str], file: dict[Any, object]
) -> None:
    assert read(*flags, environ=environ, file=file)["env"] == ("A=1,2", "B=3")


def test_an_option_may_have_a_variable_that_operators_know() -> None:
    assert read(environ={"NODE_NAME": "n1"})["node"] == "n1"
    with pytest.raises(Refused, match="NVSHARE_TEST_NODE is no setting"):
        read(environ={"NVSHARE_TEST_NODE": "n1"})


@pytest.mark.parametrize(
    ("flags", "environ", "file", "says"),
    [
        (("--port=x",), {}, {}, "--port='x' is not allowed. It must be a port from 0 to 65535."),
        (("--port=65536",), {}, {}, "--port='65536' is not allowed"),
        (("--port=٣",), {}, {}, "--port='٣' is not allowed"),
        (("--size=0",), {}, {}, "It must be a whole number from 1 to 10."),
        (("--size=1.5",), {}, {}, "--size='1.5' is not allowed"),
        (("--some-seconds=nan",), {}, {}, "It must be seconds from 0 to 60."),
        (("--mode=of",), {}, {}, "It must be auto or off."),
        (("--folder=var",), {}, {}, "It must be an absolute path"),
        ((), {"NVSHARE_TEST_PORT": ""}, {}, "NVSHARE_TEST_PORT='' is not allowed"),
        ((), {"NVSHARE_TEST_PROT": "1"}, {}, "NVSHARE_TEST_PROT is no setting. Unset it, or use one of: NODE_NAME, NV"),
        ((), {}, {"prot": None, 5: 1}, "'5', which is no setting. Use: env, folder, mode, node, port, size, some_seco"),
        ((), {}, {"port": [1]}, "port in the settings file is [1], which is no text to YAML"),
        ((), {}, {"mode": False}, "mode in the settings file is False, which is no text to YAML. Write auto or off in"),
        ((), {}, {"env": [{"A": 1}]}, "env in the settings file is {'A': 1}"),
        ((), {"NVSHARE_TEST_PORT": "9" * 5000}, {}, "9' is not allowed"),
    ],
)
def test_a_bad_value_is_refused_with_the_allowed_form(
    flags: tuple[str, ...], environ: dict[str, str], file: dict[Any, object], says: str
) -> None:
    with pytest.raises(Refused) as caught:
        read(*flags, environ=environ, file=file)

    assert says in str(caught.value)
    assert len(str(caught.value)) < 300


@pytest.mark.parametrize(
    "content",
    [b"- 1", b"a: [", b"port: \xff", b"[" * 5000, b""],
    ids=["a list", "no YAML", "no text", "too deep", "empty"],
)
def test_a_file_that_is_no_mapping_is_refused_by_name(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "s.yaml").write_bytes(content)
    with pytest.raises(Refused, match=r"s\.yaml"):
        TABLE.read_file(str(tmp_path / "s.yaml"))


def test_a_file_is_read_and_none_is_nothing(tmp_path: Path) -> None:
    (tmp_path / "s.yaml").write_text("port: 1\nmode: 'off'\n")

    assert TABLE.read({}, {}, TABLE.read_file(str(tmp_path / "s.yaml"))) == DEFAULTS | {"port": 1, "mode": "off"}
    assert TABLE.read_file(None) == TABLE.read_file("") == {}


def test_the_help_names_every_option_with_form_and_default() -> None:
    parser = argparse.ArgumentParser(formatter_class=lambda prog: argparse.HelpFormatter(prog, width=200))
    TABLE.add_flags(parser)
    shown = parser.format_help()

    for line in (
        "where it listens; a port from 0 to 65535 (default: 8443)",
        "100% of the wait; seconds from 0 to 60 (default: 2)",
        "variables to add; may be repeated",
        "this node (default: none)",
    ):
        assert line in shown


def test_every_value_is_described_by_name() -> None:
    values = read("--env=A=1", "--env=B=2", "--port=7")

    assert TABLE.describe(values) == "port=7 some_seconds=2.0 mode=auto folder=/var node= env=A=1,B=2 size=3"


def test_an_error_of_a_reader_that_is_no_valueerror_is_not_hidden() -> None:
    def broken(_text: str) -> None:
        raise KeyError("ours")

    with pytest.raises(KeyError):
        Table("P_", (Option("a", Kind("a thing", broken), "", "it"),), Refused).read({}, {}, {})


ROOMS = {
    "webhook": webhook.settings.TABLE,
    "certs": webhook.certs.options.TABLE,
    "scheduler": schedulerd.settings.TABLE,
    "device plugin": deviceplugin.settings.TABLE,
}
SERVICE_LINKS = {
    "SERVICE_HOST": "10.96.0.7",
    "SERVICE_PORT": "443",
    "SERVICE_PORT_METRICS": "9090",
    "PORT": "tcp://10.96.0.7:443",
    "PORT_9090_TCP": "tcp://10.96.0.7:9090",
    "PORT_9090_TCP_PROTO": "tcp",
    "PORT_9090_TCP_PORT": "9090",
    "PORT_9090_TCP_ADDR": "10.96.0.7",
    "METRICS_SERVICE_HOST": "10.96.0.8",
    "METRICS_PORT": "tcp://10.96.0.8:9090",
    "METRICS_PORT_9090_UDP": "udp://10.96.0.8:9090",
}


@pytest.mark.parametrize("room", ROOMS)
def test_variables_that_kubernetes_adds_for_our_services_are_no_settings(room: str) -> None:
    """Cover a pod with enableServiceLinks, beside the Services nvshare-… and nvshare-…-metrics."""
    table = ROOMS[room]
    told = {f"{table.prefix}{name}": text for name, text in SERVICE_LINKS.items()}

    assert table.read({}, told, {}) == table.read({}, {}, {})


@pytest.mark.parametrize("room", ROOMS)
def test_a_variable_that_only_looks_like_a_services_is_refused(room: str) -> None:
    table = ROOMS[room]
    with pytest.raises(table.error, match=f"{table.prefix}PORT_443 is no setting"):
        table.read({}, {f"{table.prefix}PORT_443": "1"}, {})


@pytest.mark.parametrize("room", ROOMS)
def test_every_option_of_a_room_has_a_default_that_it_may_have(room: str) -> None:
    assert set(ROOMS[room].read({}, {}, {})) == {option.name for option in ROOMS[room].options}


SLOW = "yaml grpc pynvml kubernetes google http logging threading asyncio socket ssl subprocess"


def test_the_module_imports_nothing_slow() -> None:
    code = f"import sys, adapters.options; print(*set({SLOW!r}.split()) & set(sys.modules))"
    ended = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)

    assert ended.stdout.split() == []
