"""Settings of a program as one table: each row is a flag, a variable and a key of a settings file.

A flag goes before the variable, the variable before the file, the file before the default.  What no row names is
refused, and so is a value outside its kind.  All ways give text, which one place reads and refuses alike.
The scheduler's turn process imports this module, so it must stay cheap: YAML is imported only when a file is given.
"""

import re
from argparse import ArgumentParser
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

T = TypeVar("T")
_LONGEST_SHOWN = 80
_WHOLE = re.compile(r"-?[0-9]{1,9}", re.ASCII)
_SERVICE_VARIABLE = re.compile(r".*_(SERVICE_HOST|SERVICE_PORT(_.+)?|PORT_[0-9]+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?)")
_SERVICE_URL = re.compile(r"(tcp|udp|sctp)://")


@dataclass(frozen=True, slots=True)
class Kind:
    """What a value may be: the form, as a sentence goes on after "It must be", and how its text is read."""

    form: str
    read: Callable[[str], Any]
    """Raises ValueError for a text outside the form."""


@dataclass(frozen=True, slots=True)
class Option:
    """One row: `idle_seconds` is the flag `--idle-seconds`, the variable `PREFIX_IDLE_SECONDS` and the file's key."""

    name: str
    kind: Kind
    default: str
    help: str
    many: bool = False
    """The flag may be repeated; a variable has one value a line, a file a list; the setting is a tuple."""
    variable: str = ""
    """A variable of another name, where Kubernetes' users expect one."""

    @property
    def flag(self) -> str:
        return "--" + self.name.replace("_", "-")

    def add_flag(self, parser: ArgumentParser) -> None:
        """Add the flag; it stays None where it is not given."""
        action = "append" if self.many else "store"
        parser.add_argument(self.flag, dest=self.name, action=action, metavar="VALUE", help=_help(self))


@dataclass(frozen=True, slots=True)
class Table:
    """All options of one program."""

    prefix: str
    """What its variables begin with, as `NVSHARE_WEBHOOK_`."""
    options: tuple[Option, ...]
    error: type[Exception]
    """What is raised, with one sentence of what is wrong and one of the remedy."""

    def add_flags(self, parser: ArgumentParser) -> None:
        """Add a flag for every option, and one for the settings file."""
        parser.add_argument("--settings", metavar="FILE", help="YAML file with any of the settings below, by name")
        for option in self.options:
            option.add_flag(parser)

    def variable(self, option: Option) -> str:
        """Return the name of an option's variable."""
        return option.variable or self.prefix + option.name.upper()

    def read(self, flags: Mapping[str, Any], environ: Mapping[str, str], file: Mapping[str, Any]) -> dict[str, Any]:
        """Return every option's value by its name; flags may hold other arguments too."""
        self._refuse_unknown_keys(file)
        self._refuse_unknown_variables(environ)
        return {option.name: self.read_one(option, flags, environ, file) for option in self.options}

    def read_file(self, path: str | None) -> Mapping[str, Any]:
        """Return what a settings file says; nothing where no file is named."""
        if not path:
            return {}
        import yaml

        try:
            content = yaml.safe_load(Path(path).read_text())
        except (OSError, UnicodeDecodeError, RecursionError, yaml.YAMLError) as error:
            reason = (str(error).splitlines() or [type(error).__name__])[0]
            raise self.error(f"the settings file {path} cannot be read ({reason}). Name a YAML file.") from None
        if not isinstance(content, dict):
            raise self.error(f"the settings file {path} is no YAML mapping. Write one `name: value` a line.")
        return content

    def describe(self, values: Mapping[str, Any]) -> str:
        """Return `name=value` for every option, for the log; secrets have no options, only the files that hold them."""
        return " ".join(f"{option.name}={_shown(values[option.name])}" for option in self.options)

    def _refuse_unknown_keys(self, file: Mapping[str, Any]) -> None:
        known = {option.name for option in self.options}
        unknown = sorted(str(name) for name in file if name not in known)
        if unknown:
            names = ", ".join(sorted(known))
            raise self.error(f"the settings file has {unknown[0]!r}, which is no setting. Use: {names}.")

    def _refuse_unknown_variables(self, environ: Mapping[str, str]) -> None:
        known = {self.variable(option) for option in self.options}
        ours = {name for name, text in environ.items() if name.startswith(self.prefix) and not is_service(name, text)}
        unknown = sorted(ours - known)
        if unknown:
            names = ", ".join(sorted(known))
            raise self.error(f"the variable {unknown[0]} is no setting. Unset it, or use one of: {names}.")

    def read_one(
        self, option: Option, flags: Mapping[str, Any], environ: Mapping[str, str], file: Mapping[str, Any]
    ) -> Any:
        """Return one option's value, whatever else is said: for a command that needs no other."""
        given, way = self._given(option, flags, environ, file)
        texts = self._texts(option, given, way)
        values = tuple(read_text(option.kind, text, way=way, error=self.error) for text in texts)
        return values if option.many else values[0]

    def _given(
        self, option: Option, flags: Mapping[str, Any], environ: Mapping[str, str], file: Mapping[str, Any]
    ) -> tuple[Any, str]:
        variable = self.variable(option)
        text = environ.get(variable)
        ways = (
            (flags.get(option.name), option.flag),
            (None if text is None or is_service(variable, text) else text, variable),
            (file.get(option.name), f"{option.name} in the settings file"),
        )
        return next((way for way in ways if way[0] is not None), (option.default, f"the default of {option.flag}"))

    def _texts(self, option: Option, given: Any, way: str) -> list[str]:
        if option.many and isinstance(given, str):
            return given.splitlines()
        entries = given if option.many and isinstance(given, list) else [given]
        for entry in entries:
            if isinstance(entry, bool | list | dict) or entry is None:
                raise self.error(
                    f"{way} is {_cut(entry)}, which is no text to YAML. Write {option.kind.form} in quotes."
                )
        return [str(entry) for entry in entries]


def read_text(kind: Kind, text: str, *, way: str, error: type[Exception]) -> Any:
    """Return the value of a text that was given this way; raises the error with what would be right."""
    try:
        return kind.read(text)
    except ValueError:
        raise error(f"{way}={_cut(text)} is not allowed. It must be {kind.form}.") from None


def is_service(name: str, text: str) -> bool:
    """Say whether Kubernetes set this variable to tell of a Service.

    In the namespace of a Service `nvshare-webhook`, pods get `NVSHARE_WEBHOOK_PORT=tcp://…` and more, beside our own
    variables.  Our manifests switch that off (`enableServiceLinks: false`); manifests of others may not.
    """
    return bool(_SERVICE_VARIABLE.fullmatch(name) or (name.endswith("_PORT") and _SERVICE_URL.match(text)))


def _cut(value: object) -> str:
    return repr(value)[:_LONGEST_SHOWN] if not isinstance(value, str) else repr(value[:_LONGEST_SHOWN])


def _shown(value: object) -> str:
    return ",".join(map(str, value)) if isinstance(value, tuple) else str(value)


def _help(option: Option) -> str:
    form = "" if option.kind is TEXT else f"; {option.kind.form}"
    times = "; may be repeated" if option.many else f" (default: {option.default or 'none'})"
    return f"{option.help}{form}{times}".replace("%", "%%")


def whole(least: int, most: int, what: str = "a whole number") -> Kind:
    """Return the kind of whole numbers within bounds."""

    def read(text: str) -> int:
        if not _WHOLE.fullmatch(text):
            raise ValueError(text)
        return within(int(text), least, most)

    return Kind(f"{what} from {least} to {most}", read)


def number(least: float, most: float, what: str = "a number") -> Kind:
    """Return the kind of numbers within bounds, such as 0.5."""
    return Kind(f"{what} from {least:g} to {most:g}", lambda text: within(float(text), least, most))


def within(value: T, least: Any, most: Any) -> T:
    """Return the value; ValueError where it is outside the bounds, or not a number at all."""
    if not least <= value <= most:
        raise ValueError(value)
    return value


def one_of(words: Sequence[str], read: Callable[[str], Any] = str) -> Kind:
    """Return the kind of a few words, read by the enum that they belong to."""

    def read_word(text: str) -> Any:
        if text not in words:
            raise ValueError(text)
        return read(text)

    *others, last = words
    return Kind(f"{', '.join(others)} or {last}", read_word)


def _absolute(text: str) -> Path:
    if not text.startswith("/"):
        raise ValueError(text)
    return Path(text)


TEXT = Kind("text", str)
PATH = Kind("a path", Path)
ABSOLUTE_PATH = Kind("an absolute path, such as /var/lib/nvshare", _absolute)
AUTO_OR_PATH = Kind(f"auto, or {ABSOLUTE_PATH.form}", lambda text: None if text == "auto" else _absolute(text))
PORT = whole(0, 65535, "a port")
