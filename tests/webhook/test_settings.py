"""Settings: a flag beats the environment, which beats the file; a bad value is refused with a remedy."""

from typing import Any

import pytest

from webhook.errors import StartError
from webhook.settings import OPTIONS, describe, read_settings


@pytest.mark.parametrize(
    ("flags", "environ", "file", "port"),
    [
        ({}, {}, {}, 8443),
        ({}, {}, {"port": 1}, 1),
        ({}, {"NVSHARE_WEBHOOK_PORT": "2"}, {"port": 1}, 2),
        ({"port": "3"}, {"NVSHARE_WEBHOOK_PORT": "2"}, {"port": 1}, 3),
    ],
    ids=["the default", "the file", "the environment beats it", "a flag beats both"],
)
def test_where_a_setting_comes_from(
    flags: dict[str, str | None], environ: dict[str, str], file: dict[str, object], port: int
) -> None:
    assert read_settings(flags, environ, file).port == port


@pytest.mark.parametrize(
    ("flags", "environ", "file", "says"),
    [
        ({"port": "x"}, {}, {}, "--port='x' is not allowed"),
        ({}, {"NVSHARE_WEBHOOK_IDLE_SECONDS": "5"}, {}, "NVSHARE_WEBHOOK_IDLE_SECONDS='5' is not allowed"),
        ({}, {}, {"prot": 1}, "'prot', which is no setting"),
        ({}, {}, {"prot": None, 5: None}, "'5', which is no setting"),
        ({}, {"NVSHARE_WEBHOOK_PROT": "1"}, {}, "NVSHARE_WEBHOOK_PROT is no setting"),
        ({}, {"NVSHARE_WEBHOOK_PORT_443": "1"}, {}, "NVSHARE_WEBHOOK_PORT_443 is no setting"),
        ({}, {}, {"log_format": "xml"}, "log_format in the settings file='xml' is not allowed"),
    ],
    ids=str,
)
def test_a_setting_with_a_bad_value_is_refused(
    flags: dict[str, str | None], environ: dict[str, str], file: dict[Any, object], says: str
) -> None:
    with pytest.raises(StartError, match=says.replace("'", ".")):
        read_settings(flags, environ, file)


def test_variables_of_a_service_of_our_name_are_no_settings() -> None:
    """Ignore the variables that a pod with enableServiceLinks gets beside the Service nvshare-webhook."""
    told = {
        "SERVICE_HOST": "10.96.0.7",
        "SERVICE_PORT": "443",
        "SERVICE_PORT_WEBHOOK": "443",
        "PORT": "tcp://10.96.0.7:443",
        "PORT_443_TCP": "tcp://10.96.0.7:443",
        "PORT_443_TCP_PROTO": "tcp",
        "PORT_443_TCP_PORT": "443",
        "PORT_443_TCP_ADDR": "10.96.0.7",
        "METRICS_SERVICE_HOST": "10.96.0.8",
        "METRICS_PORT": "tcp://10.96.0.8:9090",
        "METRICS_PORT_9090_TCP": "tcp://10.96.0.8:9090",
    }
    environ = {f"NVSHARE_WEBHOOK_{name}": value for name, value in told.items()}

    assert read_settings({}, environ, {}) == read_settings({}, {}, {})


def test_every_setting_is_printed() -> None:
    shown = describe(read_settings({}, {}, {})).split()
    assert [word.partition("=")[0] for word in shown] == [option.name for option in OPTIONS]
