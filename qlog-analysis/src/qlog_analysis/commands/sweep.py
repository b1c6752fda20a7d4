"""Runs sweeps and evaluations of gallop-sim on a cluster of Dask.

The runs are cut into parts, as `--shard` has it, and each part is a task that runs gallop-sim on a
worker and writes into a folder that all workers and this process share. What finished is in the
part's journal. If a worker is lost, Dask gives its part to another one, which goes on from there.
In the end the journals are put together, and gallop-sim writes the tables from them without
running anything again, so that they have the same bytes as on one machine.
"""

import shutil
import subprocess
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from qlog_analysis.errors import AnalysisError, UsageError

if TYPE_CHECKING:
    from distributed import Client

LOCAL = "local"
"""The address that stands for workers on this machine."""

JOURNAL = "journal.ndjson"
_PARTS = "parts"


@dataclass(frozen=True, slots=True)
class Job:
    """Work for gallop-sim.

    Attributes:
        simulator: the program, at the same path on all workers.
        arguments: its command, as "sweep", with all arguments but --out, --shard and --threads.
        folder: the folder in which it runs, at the same path on all workers.
        out: the folder for results, at the same path on all workers.
        parts: the number of parts that the runs are cut into.
    """

    simulator: str
    arguments: tuple[str, ...]
    folder: Path
    out: Path
    parts: int

    def command(self, out: Path, *more: str) -> list[str]:
        """A command line that writes into a folder."""
        return [self.simulator, *self.arguments, "--out", str(out), *more]

    def part(self, number: int) -> Path:
        """The folder of a part, counted from 1."""
        return self.out / _PARTS / f"{number}-of-{self.parts}"


OnStart = Callable[[int], Callable[[int], None]]


def run_part(job: Job, number: int) -> str:
    """Runs a part on a worker; returns what went wrong, or nothing."""
    final = job.part(number)
    if final.is_dir():
        return ""
    # A worker that was given up may still write: each attempt has a folder of its own, and begins
    # with what the one that came furthest has in its journals.
    before = final.parent.glob(f"{final.name}.*")
    furthest = max(before, key=_journal_bytes, default=None)
    attempt = final.with_name(f"{final.name}.{uuid.uuid4().hex}")
    if furthest is None:
        attempt.mkdir(parents=True)
    else:
        shutil.copytree(furthest, attempt)
    command = job.command(attempt, "--threads", "1", "--shard", f"{number}/{job.parts}")
    done = subprocess.run(command, cwd=job.folder, capture_output=True, text=True, check=False)
    # A run that fails is a result, and 1 is the exit code; the last sweep tells of it again.
    if done.returncode not in (0, 1) or not any(attempt.rglob(JOURNAL)):
        return f"part {number} of {job.parts}: {done.stderr.strip()[-500:] or done.returncode}"
    try:
        attempt.rename(final)
    except OSError:
        # Another worker was done first.
        shutil.rmtree(attempt, ignore_errors=True)
    return ""


def _journal_bytes(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob(JOURNAL))


def run(job: Job, address: str, workers: int, on_start: OnStart) -> int:
    """Runs all parts on a cluster, puts them together, and returns gallop-sim's exit code.

    Args:
        job: the work.
        address: that of a cluster's scheduler, such as tcp://10.0.0.1:8786, or `LOCAL`.
        workers: the number of workers on this machine, if the address is `LOCAL`.
        on_start: given the number of parts; returns a function that is told of each.

    Raises:
        UsageError: Dask is missing, or the cluster cannot be reached.
        AnalysisError: a part could not be run.
    """
    with _client(address, workers) as client:
        finish(job, client, on_start)
    return merge(job)


def _client(address: str, workers: int) -> Any:
    try:
        from distributed import Client, LocalCluster
    except ImportError as error:
        raise UsageError(
            "--dask: Dask is not installed: pip install 'qlog-analysis[dask]'"
        ) from error
    try:
        if address == LOCAL:
            cluster = LocalCluster(n_workers=workers, threads_per_worker=1, dashboard_address=None)
            return Client(cluster)
        return Client(address, timeout=10)
    except (OSError, ValueError) as error:
        raise UsageError(f"--dask {address}: no scheduler answers there: {error}") from error


def finish(job: Job, client: "Client", on_start: OnStart) -> None:
    """Runs all parts on a cluster.

    Raises:
        AnalysisError: a part could not be run.
    """
    from distributed import as_completed

    on_part = on_start(job.parts)
    # The results depend on the folder, so that they are not taken from memory.
    futures = [
        client.submit(run_part, job, number, pure=False, retries=2)
        for number in range(1, job.parts + 1)
    ]
    wrong = []
    for future in as_completed(futures):
        problem = future.result()
        on_part(1)
        if problem:
            wrong.append(problem)
    if wrong:
        raise AnalysisError(f"{job.simulator}: {'; '.join(sorted(wrong)[:3])}")


def merge(job: Job) -> int:
    """Puts the journals and traces of all parts together and has the tables written."""
    for number in range(1, job.parts + 1):
        part = job.part(number)
        for journal in sorted(part.rglob(JOURNAL)):
            name = journal.parent.relative_to(part)
            whole = job.out / name / JOURNAL
            lines = journal.read_text(encoding="utf-8").splitlines(keepends=True)
            if number == 1:
                whole.parent.mkdir(parents=True, exist_ok=True)
                whole.write_text("".join(lines), encoding="utf-8")
            else:
                with whole.open("a", encoding="utf-8") as file:
                    file.writelines(lines[1:])
            traces = journal.parent / "traces"
            if traces.is_dir():
                shutil.copytree(traces, whole.parent / "traces", dirs_exist_ok=True)
    done = subprocess.run(job.command(job.out), cwd=job.folder, check=False)
    if done.returncode in (0, 1):
        shutil.rmtree(job.out / _PARTS)
    return done.returncode


def job_of(simulator: str, arguments: Sequence[str], out: Path, parts: int, folder: Path) -> Job:
    """The work of a command line.

    Raises:
        UsageError: there is no such program, or an argument is set by this command.
    """
    program = shutil.which(simulator)
    if program is None:
        raise UsageError(f"--simulator {simulator}: there is no such program; expected gallop-sim")
    if not arguments or arguments[0] not in {"sweep", "evaluate"}:
        raise UsageError("expected a command of gallop-sim after --, such as: -- sweep FILE.toml")
    for flag in ("--out", "--shard", "--threads"):
        if any(one.partition("=")[0] == flag for one in arguments):
            raise UsageError(f"{flag}: is set by this command; leave it out after --")
    return Job(
        str(Path(program).absolute()), tuple(arguments), folder.absolute(), out.absolute(), parts
    )
