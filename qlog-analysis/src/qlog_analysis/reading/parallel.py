"""Work on many traces, on all cores.

Traces are large and independent of each other, so each is read and reduced in a process of its
own pool, and only the reduced form comes back.
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
"""Told of bytes read."""


class Task(Protocol):
    """A trace and what to make of it; it is sent to another process, and so is what it makes."""

    @property
    def trace(self) -> Path:
        """The file."""

    def run(self, on_bytes: Count) -> Any:
        """Reads and reduces it."""


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
    """Runs tasks on all cores; gives their results in the order of the tasks.

    Raises:
        Exception: what the first task that failed raised.
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
        # The longest first, so that no core is left with it at the end.
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
    """The size of a file in bytes; 0 if there is none."""
    return path.stat().st_size if path.is_file() else 0


def _cores() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _until_done(futures: Iterable[Future[_Result]], counter: "Synchronized[int]") -> Iterator[int]:
    """Yields the bytes that were read since the last time; stops early when a future fails."""
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
    """Has the processes started meanwhile run polars on one thread: there is one per core."""
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
