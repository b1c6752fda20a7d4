"""Names of files and programs in a form that every page, picture and table can hold."""

import re

# Bytes of a file name that are not UTF-8 (PEP 383), and control characters, which XML cannot hold.
_UNSHOWABLE = re.compile(r"[\x00-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]")


def showable(text: str) -> str:
    """The text with U+FFFD for each character that cannot be shown."""
    return _UNSHOWABLE.sub("\N{REPLACEMENT CHARACTER}", text)
