"""Writes figures as SVG that is small, follows a page's colours and has no ids that could clash."""

import io
import re
import xml.etree.ElementTree as ET
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import matplotlib as mpl
from markupsafe import Markup
from matplotlib.figure import Figure

from qlog_analysis.drawing.style import PALETTE, style
from qlog_analysis.names import showable

_NAMESPACE = "{http://www.w3.org/2000/svg}"
_HREF = "{http://www.w3.org/1999/xlink}href"

_VARIABLES = {light: f"var(--{name})" for name, (light, _) in PALETTE.items()}


@dataclass(frozen=True, slots=True)
class Picture:
    """A figure as SVG, `width` by `height` points large."""

    width: float
    height: float
    content: str

    def document(self) -> str:
        """The text of a file of its own."""
        width, height = short(self.width), short(self.height)
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}pt" height="{height}pt" '
            f'viewBox="0 0 {width} {height}" font-family="sans-serif" '
            f'stroke-linejoin="round">{self.content}</svg>\n'
        )

    def inline(self, label: str, attributes: Mapping[str, str] | None = None) -> Markup:
        """An element for a page, with its colours as the page's variables.

        Args:
            label: a description of the picture for people who do not see it.
            attributes: more attributes of the element.
        """
        more = Markup("").join(
            Markup(' {}="{}"').format(name, value) for name, value in (attributes or {}).items()
        )
        # The content was serialised from a tree, which escapes its texts.
        content = Markup(re.sub(r"((?:fill|stroke):)(#\w{6})", _variable, self.content))
        return Markup(
            '<svg viewBox="0 0 {} {}" role="img" aria-label="{}" stroke-linejoin="round"{}>{}</svg>'
        ).format(short(self.width), short(self.height), label, more, content)


def _variable(match: re.Match[str]) -> str:
    return match[1] + _VARIABLES.get(match[2], match[2])


def picture(figure: Figure, key: str) -> Picture:
    """Saves a figure.

    Groups whose artists have a gid get it as their title, which browsers show under the pointer.

    Args:
        figure: the figure.
        key: tells its picture from others on the same page.
    """
    out = io.BytesIO()
    gids = {gid for artist in figure.findobj() if (gid := artist.get_gid())}
    with style(), mpl.rc_context({"svg.hashsalt": f"qlog-analysis {showable(key)}"}):
        figure.savefig(out, format="svg", metadata={"Date": None})
    root = ET.fromstring(out.getvalue())
    _, _, width, height = map(float, root.attrib["viewBox"].split())
    definitions = {
        name: path.get("style", "")
        for path in root.iter(f"{_NAMESPACE}path")
        if (name := path.get("id"))
    }
    parts = [part for child in root for part in _slimmed(child, gids, definitions, inside=False)]
    content = "".join(ET.tostring(part, encoding="unicode") for part in parts)
    return Picture(width, height, content)


def _slimmed(
    element: ET.Element, gids: set[str], definitions: Mapping[str, str], inside: bool
) -> list[ET.Element]:
    """The element without invisible parts; groups without meaning become their content.

    Args:
        element: the element.
        gids: names of groups that are kept, as titles.
        definitions: the style of each path that has a name.
        inside: true within definitions.
    """
    tag = element.tag.removeprefix(_NAMESPACE)
    if tag in ("metadata", "style"):
        return []
    inside = inside or tag == "defs"
    children = [part for child in element for part in _slimmed(child, gids, definitions, inside)]
    name = element.get("id", "")
    slim = ET.Element(tag, _attributes(element, definitions, inside))
    if tag == "g":
        slim.attrib.pop("id", None)
        if name in gids:
            title = ET.SubElement(slim, "title")
            title.text = name
        elif not slim.attrib:
            return children
    elif tag == "defs" and not children:
        return []
    if tag == "text":
        slim.text = element.text
    slim.extend(children)
    return [slim]


def _attributes(
    element: ET.Element, definitions: Mapping[str, str], inside: bool
) -> dict[str, str]:
    out = {}
    for key, value in element.attrib.items():
        if key == _HREF:
            out["href"] = value
        elif key == "d":
            # Markers are small, so that a hundredth of a point is visible in them.
            out[key] = _path(value, 100 if inside else 10)
        elif key == "style":
            # A use of a named path inherits its style.
            known = definitions.get(element.get(_HREF, "").removeprefix("#"))
            if value != known:
                out[key] = _style(value)
        elif key in ("x", "y", "width", "height"):
            out[key] = short(float(value))
        elif key != "transform" or not value.startswith("rotate(-0 "):
            out[key] = value
    return out


def _style(text: str) -> str:
    """Declarations without blanks, and without the font, which is the page's."""
    pairs = [pair.strip().split(": ", 1) for pair in text.split(";") if pair.strip()]
    return ";".join(
        f"{name}:{value}" for name, value in pairs if name not in ("font-family", "stroke-linejoin")
    )


def short(value: float, scale: int = 10) -> str:
    """A number rounded to a tenth, or another part, without superfluous zeros."""
    text = f"{round(value * scale) / scale:g}" if abs(value) < 1e5 else f"{value:.0f}"
    return text.replace("0.", ".", 1) if text.startswith(("0.", "-0.")) else text


_COMMAND = re.compile(r"([MLQCz])([^MLQCz]*)")


def _path(text: str, scale: int) -> str:
    """The same path in steps from point to point, which are short to write.

    Args:
        text: a path as matplotlib writes it, of absolute commands.
        scale: parts of a point to which coordinates are rounded.
    """
    out = []
    at: tuple[int, int] | None = None
    for command, numbers in _COMMAND.findall(text):
        whole = [round(float(number) * scale) for number in numbers.split()]
        if command == "L" and at is not None:
            out.append(_line(whole[0] - at[0], whole[1] - at[1], scale))
        else:
            out.append(command + " ".join(short(number / scale, scale) for number in whole))
        if whole:
            at = (whole[-2], whole[-1])
    return "".join(out)


def _line(x: int, y: int, scale: int) -> str:
    if x == 0 and y == 0:
        return ""
    if y == 0:
        return f"h{short(x / scale, scale)}"
    if x == 0:
        return f"v{short(y / scale, scale)}"
    return f"l{short(x / scale, scale)} {short(y / scale, scale)}"


def polyline(points: Iterable[tuple[float, float]]) -> str:
    """The path through points, to a tenth of a unit."""
    return _path("M" + "L".join(f"{x:.1f} {y:.1f}" for x, y in points), 10)
