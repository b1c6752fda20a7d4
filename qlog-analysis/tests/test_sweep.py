"""Sweeps on a cluster of Dask come to the same bytes as on one machine."""

import os
import shutil
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest
from test_dashboard import ROOT, TARGET

from qlog_analysis.commands import sweep
from qlog_analysis.commands.cli import main
from qlog_analysis.errors import UsageError

SIMULATOR = TARGET / "gallop-sim"
BUILT = pytest.mark.skipif(not SIMULATOR.exists(), reason="gallop-sim is not built")

EXPERIMENT = """\
title = "A sweep"
duration = "2s"
measure-from = "1s"
seeds = 3
[[run]]
id = "vegas"
cc = "vegas"
[[run]]
id = "cubic"
cc = "cubic"
[dumbbell]
rate = "4mbit"
rtt = "40ms"
queue = "20p"
[[flow]]
name = "flow"
"""


def on_start(_: int) -> Any:
    return lambda _: None


@pytest.fixture
def job(tmp_path: Path) -> sweep.Job:
    (tmp_path / "experiment.toml").write_text(EXPERIMENT)
    arguments = ("sweep", "experiment.toml")
    return sweep.job_of(str(SIMULATOR), arguments, tmp_path / "out", 6, tmp_path)


def tables(folder: Path) -> dict[str, bytes]:
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in sorted(folder.rglob("*.parquet"))
    }


@BUILT
@pytest.mark.filterwarnings("ignore")
def test_a_worker_that_is_killed_loses_nothing(job: sweep.Job, tmp_path: Path) -> None:
    from distributed import Client, LocalCluster

    subprocess.run(job.command(tmp_path / "whole"), cwd=tmp_path, check=True, capture_output=True)
    # The first attempt at any part stands still, until its worker is killed.
    slow = tmp_path / "slow"
    slow.write_text(
        f"#!/bin/sh\nif mkdir '{tmp_path}/stood' 2>/dev/null; then\n"
        f"  cd '{tmp_path}'; echo $PPID > unfinished; mv unfinished worker\n"
        f'  exec sleep 60\nfi\nexec "{SIMULATOR}" "$@"\n'
    )
    slow.chmod(0o755)
    killed = sweep.Job(str(slow), job.arguments, job.folder, job.out, job.parts)
    with (
        LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster,
        Client(cluster) as client,
    ):

        def kill(_: int) -> None:
            worker = tmp_path / "worker"
            while not worker.exists():
                time.sleep(0.05)
            if not (tmp_path / "dead").exists():
                (tmp_path / "dead").touch()
                os.kill(int(worker.read_text()), signal.SIGKILL)

        # It is told when the first of the other worker's parts is done.
        sweep.finish(killed, client, lambda _: kill)
    assert (tmp_path / "dead").exists()
    assert sweep.merge(job) == 0
    assert tables(job.out) == tables(tmp_path / "whole")
    assert not (job.out / "parts").exists()


@BUILT
def test_parts_that_are_done_are_not_done_again(job: sweep.Job) -> None:
    assert sweep.run_part(job, 1) == ""
    broken = sweep.Job("/bin/false", job.arguments, job.folder, job.out, job.parts)
    assert sweep.run_part(broken, 1) == ""
    assert "part 2 of 6" in sweep.run_part(broken, 2)
    # An attempt leaves something, from which the next one goes on.
    attempt = next(job.part(2).parent.glob("2-of-6.*"))
    shutil.copytree(job.part(1), attempt, dirs_exist_ok=True)
    assert sweep.run_part(job, 2) == ""


@pytest.mark.parametrize(
    ("arguments", "part"),
    [
        (("soak",), "expected a command of gallop-sim"),
        (("sweep", "a.toml", "--shard=1/2"), "--shard: is set by this command"),
        (("sweep", "a.toml", "--out", "x"), "--out: is set by this command"),
    ],
)
def test_wrong_usage_is_said(arguments: tuple[str, ...], part: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=part):
        sweep.job_of("sh", arguments, tmp_path, 2, ROOT)


def test_a_program_that_is_missing_is_an_error(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["sweep", "--simulator", "no-such-program", "--out", str(tmp_path), "--", "sweep"]
    assert main(arguments) == 1
    assert "there is no such program" in capsys.readouterr().err
