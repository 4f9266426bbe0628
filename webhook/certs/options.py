"""The table of the certificates' settings: a row for each field of `core.settings`."""

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from adapters.options import TEXT, Option, Table, number
from webhook.certs.core.errors import BadSetting
from webhook.certs.core.settings import Settings, check

_NUMBER = number(0, 1_000_000)
OPTIONS = tuple(
    Option(item.name, TEXT if isinstance(item.default, str) else _NUMBER, str(item.default), item.metadata["help"])
    for item in fields(Settings)
)
TABLE = Table("NVSHARE_CERTS_", OPTIONS, BadSetting)


def read_settings(flags: Mapping[str, Any], environ: Mapping[str, str]) -> Settings:
    """Return the settings: a flag beats the environment, which beats the file."""
    return check(Settings(**TABLE.read(flags, environ, TABLE.read_file(flags["settings"]))))
