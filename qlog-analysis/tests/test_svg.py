import re
import xml.etree.ElementTree as ET

import pytest
from matplotlib.figure import Figure

from qlog_analysis.drawing.style import COLOURS, PALETTE, style
from qlog_analysis.drawing.svg import Picture, picture


def figure(label: str = "a line") -> Figure:
    out = Figure(figsize=(5, 2))
    axes = out.add_axes((0.1, 0.1, 0.8, 0.8))
    axes.set_xlim(0, 10)
    axes.set_ylim(0, 10)
    axes.step([0, 2, 4, 10], [1, 1, 5, 5], where="post", color=COLOURS[1], gid=label)
    axes.plot([1, 2], [3, 4], color=COLOURS[1], marker="o", gid="dots")
    axes.set_title(label)
    return out


def drawn(label: str = "a line", key: str = "key") -> Picture:
    with style():
        return picture(figure(label), key)


def test_the_same_figure_gives_the_same_bytes() -> None:
    assert drawn() == drawn()


def test_pictures_of_a_page_share_no_name() -> None:
    names = [set(re.findall(r' id="([^"]+)"', drawn(key=key).content)) for key in ("a", "b")]
    assert names[0]
    assert not names[0] & names[1]


def test_every_line_keeps_its_colour() -> None:
    root = ET.fromstring(drawn().document())
    paths = [path for path in root.iter("{http://www.w3.org/2000/svg}path") if not path.get("id")]
    assert all("fill:" in path.attrib["style"] for path in paths)
    assert sum(COLOURS[1] in path.attrib["style"] for path in paths) == 2


def test_a_step_is_written_as_steps() -> None:
    # 360 by 144 points; the axes are 288 by 115.2 of them.
    assert 'd="M36 118.1h57.6h57.6v-46.1h172.8"' in drawn().content


def test_marks_are_where_their_values_are() -> None:
    uses = re.findall(r'<use href="#\w+" x="([\d.]+)" y="([\d.]+)"', drawn().content)
    assert uses == [("64.8", "95"), ("93.6", "83.5")]


def test_within_a_page_colours_are_its_variables() -> None:
    out = drawn().inline("a <label>", {"data-x": '"'})
    assert "stroke:var(--c1)" in out
    assert "fill:var(--paper)" in out
    assert not re.findall(r"(?:fill|stroke):#", out)
    assert 'aria-label="a &lt;label&gt;"' in out
    assert 'data-x="&#34;"' in out
    assert ET.fromstring(out).tag == "svg"


def test_groups_say_what_they_are() -> None:
    root = ET.fromstring(drawn("<b>").inline("x"))
    assert {"<b>", "dots"} <= {title.text for title in root.iter("title")}


@pytest.mark.parametrize("label", [r"$\frac{$", "_hidden $x$", "100 % & <more>", "%s {0} {}"])
def test_any_text_is_drawn_as_it_is(label: str) -> None:
    root = ET.fromstring(drawn(label).inline(label))
    assert label in {text.text for text in root.iter("text")}
    assert root.get("aria-label") == label


def test_light_and_dark_have_the_same_names_and_differ() -> None:
    assert len(set(COLOURS)) == len(COLOURS) == 7
    for light, dark in PALETTE.values():
        assert re.fullmatch(r"#[0-9a-f]{6}", light)
        assert re.fullmatch(r"#[0-9a-f]{6}", dark)
        assert light != dark
    lights = [light for light, _ in PALETTE.values()]
    assert len(set(lights)) == len(lights)
