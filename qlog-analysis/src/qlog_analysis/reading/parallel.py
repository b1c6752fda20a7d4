"""Work on many traces, on all cores.

Traces are large and independent of each other. Each is read and reduced in a process of a pool,
and only the reduced form comes back.
"""

import multiprocessing
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from contextlib import contextmanager
from multiprocessing.sharedctypes import Synchronized
from pathlib import Path
from typing import Any, Protocol, TypeVar

Count = Callable[[int], None]
"""Told the number of bytes after each part that was read."""


class Task(Protocol):
    """Work on a trace. It is sent to another process, and its result is sent back."""

    @property
    def trace(self) -> Path:
        """The file."""

    def run(self, on_bytes: Count) -> Any:
        """Reads and reduces the trace."""


_Result = TypeVar("_Result")

_read_bytes: "Synchronized[int] | None" = None


def _start_worker(counter: "Synchronized[int]") -> None:
    global _read_bytes
    _read_bytes = counter


def _count_bytes(count: int) -> None:
    if _read_bytes is not None:
        with _read_bytes.get_lock():
            _read_bytes.value += count


def _run_in_worker(task: Task) -> Any:
    return task.run(_count_bytes)


def run_all(tasks: Sequence[Task], on_bytes: Count) -> list[Any]:
    """Runs tasks on all cores; returns their results in the order of the tasks.

    Raises:
        Exception: the exception of the first task that failed.
    """
    workers = min(_cores(), len(tasks))
    if workers < 2:
        return [task.run(on_bytes) for task in tasks]
    # polars runs threads, which do not survive a fork.
    context = multiprocessing.get_context("spawn")
    counter: Synchronized[int] = context.Value("q", 0)
    with (
        _one_thread_each(),
        ProcessPoolExecutor(workers, context, _start_worker, (counter,)) as pool,
    ):
        # The largest come first, so that no core is left with one at the end.
        order = sorted(range(len(tasks)), key=lambda i: size(tasks[i].trace), reverse=True)
        futures = {i: pool.submit(_run_in_worker, tasks[i]) for i in order}
        try:
            for count in _until_done(futures.values(), counter):
                on_bytes(count)
            return [futures[i].result() for i in range(len(tasks))]
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def size(path: Path) -> int:
    """The size of a file in bytes, or 0 if there is none."""
    return path.stat().st_size if path.is_file() else 0


def _cores() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _until_done(futures: Iterable[Future[_Result]], counter: "Synchronized[int]") -> Iterator[int]:
    """Yields the bytes that were read since the last time, until all are done or one fails."""
    told = 0
    pending = set(futures)
    while pending:
        done, pending = wait(pending, timeout=0.2, return_when=FIRST_COMPLETED)
        for future in done:
            future.result()
        now = counter.value
        yield now - told
        told = now


@contextmanager
def _one_thread_each() -> Iterator[None]:
    """Makes processes started within it run polars on one thread, since each has a core."""
    name = "POLARS_MAX_THREADS"
    before = os.environ.get(name)
    os.environ[name] = "1"
    try:
        yield
    finally:
        if before is None:
            del os.environ[name]
        else:
            os.environ[name] = before
