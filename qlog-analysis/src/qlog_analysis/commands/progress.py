"""Progress bars."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from tqdm import tqdm


@contextmanager
def bar(title: str, unit: str) -> Iterator[Callable[[int], Callable[[int], None]]]:
    """Shows a progress bar on stderr if that is a terminal.

    Yields a function that is given the total and returns one that is told of each step.
    """
    with tqdm(
        desc=title,
        unit=unit,
        unit_scale=unit == "B",
        leave=False,
        disable=None,
        file=sys.stderr,
    ) as shown:

        def start(total: int) -> Callable[[int], None]:
            shown.reset(total)
            return count

        def count(amount: int) -> None:
            shown.update(amount)

        yield start
