"""Values from JSON files, with errors that name the file and the key."""

import json
from pathlib import Path
from typing import Any

from qlog_analysis.errors import LayoutError


class Fields:
    """A JSON object whose values are taken out by key and kind.

    Every method raises LayoutError with the file and the key if the value is not as asked.
    """

    def __init__(self, where: str, value: Any) -> None:
        """Takes the object, and the file and place in which it is."""
        if not isinstance(value, dict):
            raise LayoutError(f"{where}: expected an object, not {brief(value)}")
        self.where = where
        self.raw: dict[str, Any] = value

    def _get(self, key: str, what: str, kinds: type | tuple[type, ...]) -> Any:
        if key not in self.raw:
            raise LayoutError(f"{self.where}: {key} is missing; expected {what}")
        value = self.raw[key]
        if not isinstance(value, kinds) or isinstance(value, bool):
            raise LayoutError(f"{self.where}: {key} must be {what}, not {brief(value)}")
        return value

    def text(self, key: str) -> str:
        """A string."""
        return str(self._get(key, "a string", str))

    def path(self, key: str) -> str:
        """A string that is also a path below a directory: plain names with "/" between them."""
        return self._checked_path(key, self.text(key))

    def paths(self, key: str) -> list[str]:
        """A list of such strings."""
        values = self._get(key, "a list", list)
        return [self._checked_path(key, value) for value in values]

    def _checked_path(self, key: str, value: Any) -> str:
        if not isinstance(value, str) or not is_path(value):
            raise LayoutError(f"{self.where}: {key} must be plain names joined by /, not {value!r}")
        return value

    def number(self, key: str, above: float | None = None) -> float:
        """A number, and more than `above` if that is given."""
        value = float(self._get(key, "a number", (int, float)))
        if above is not None and not value > above:
            raise LayoutError(f"{self.where}: {key} must be more than {above:g}, not {value:g}")
        return value

    def count(self, key: str, least: int = 0) -> int:
        """An integer of at least `least`."""
        value = int(self._get(key, "an integer", int))
        if value < least:
            raise LayoutError(f"{self.where}: {key} must be {least} or more, not {value}")
        return value

    def optional(self, key: str) -> float | None:
        """A number, or None where it is null or left out."""
        return None if self.raw.get(key) is None else self.number(key)

    def object(self, key: str) -> "Fields":
        """An object."""
        return Fields(f"{self.where}: {key}", self._get(key, "an object", dict))

    def objects(self, key: str) -> list["Fields"]:
        """A list of objects."""
        values = self._get(key, "a list", list)
        return [Fields(f"{self.where}: {key}[{i}]", value) for i, value in enumerate(values)]


def brief(value: Any) -> str:
    """A value as JSON, shortened to fit into an error."""
    text = json.dumps(value)
    return text if len(text) <= 60 else text[:57] + "..."


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is not a number in JSON")


def read_json(path: Path, whose: str) -> Fields:
    """Reads a file that holds one JSON object.

    Args:
        path: the file.
        whose: the owner of such a file, for the error if it is missing.
    """
    try:
        return Fields(str(path), json.loads(path.read_bytes(), parse_constant=_refuse))
    except FileNotFoundError as error:
        raise LayoutError(f"{path}: no such file; {whose} has one") from error
    except OSError as error:
        raise LayoutError(f"{path}: cannot be read: {error.strerror}") from error
    except ValueError as error:
        raise LayoutError(f"{path}: not JSON: {error}") from error


def is_path(text: str) -> bool:
    """True of a path below a directory: plain names with "/" between them."""
    return all(part not in {"", ".", ".."} and "\\" not in part for part in text.split("/"))
