"""The dashboard for `gallop-server --metrics`: its queries, asked of a real Prometheus."""

import json
import os
import re
import shutil
import socket
import subprocess
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
TARGET = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")) / "release"
PROMETHEUS = shutil.which("prometheus")
_PATIENCE_S = 60.0


def queries() -> list[str]:
    """The queries of all panels."""
    dashboard = json.loads((ROOT / "interop/grafana/gallop-server.json").read_text())
    return [target["expr"] for panel in dashboard["panels"] for target in panel["targets"]]


def test_the_dashboard_asks_for_documented_metrics() -> None:
    text = (ROOT / "docs/server.md").read_text()
    table = text[text.index("| `gallop_…` | |") :]
    known = set(re.findall(r"`(\w+)`", table[: table.index("\n\n")]))
    asked = {name for query in queries() for name in re.findall(r"\bgallop_(\w+)", query)}
    assert {name.removesuffix("_bucket") for name in asked} <= known
    # Nothing that the server tells is left out but what it has received.
    assert known - {name.removesuffix("_bucket") for name in asked} == {
        "controller", "phase", "received_bytes_total",
    } & known  # fmt: skip


def _missing() -> str:
    if PROMETHEUS is None:
        return "there is no Prometheus (Debian's package prometheus)"
    if not all((TARGET / name).exists() for name in ("gallop-server", "gallop-client")):
        return "gallop-server and gallop-client are not built"
    return ""


def _port(kind: socket.SocketKind) -> int:
    with socket.socket(socket.AF_INET, kind) as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


@contextmanager
def started(*command: str | Path) -> Iterator[None]:
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        yield
    finally:
        process.terminate()
        process.wait()


def _ask(port: int, query: str) -> Any:
    url = f"http://127.0.0.1:{port}/api/v1/query?" + urllib.parse.urlencode({"query": query})
    try:
        with urllib.request.urlopen(url, timeout=10) as answer:
            return json.load(answer)
    except urllib.error.HTTPError as error:
        return json.load(error)
    except OSError:
        # It does not listen yet.
        return {"status": "starting"}


@pytest.mark.skipif(bool(_missing()), reason=_missing())
def test_prometheus_answers_every_query(tmp_path: Path) -> None:
    assert PROMETHEUS
    (tmp_path / "file").write_bytes(bytes(2_000_000))
    quic, http, web = _port(socket.SOCK_DGRAM), _port(socket.SOCK_STREAM), _port(socket.SOCK_STREAM)
    configuration = tmp_path / "prometheus.yml"
    configuration.write_text(
        "global: {scrape_interval: 250ms, scrape_timeout: 200ms}\n"
        "scrape_configs:\n"
        f"- {{job_name: gallop, static_configs: [{{targets: ['127.0.0.1:{http}']}}]}}\n"
    )
    with ExitStack() as programs:
        programs.enter_context(
            started(
                TARGET / "gallop-server", "--listen", f"127.0.0.1:{quic}", "--root", tmp_path,
                "--cert-dir", tmp_path / "cert", "--metrics", f"127.0.0.1:{http}", "--cc", "vegas",
            )
        )  # fmt: skip
        programs.enter_context(
            started(
                PROMETHEUS, f"--config.file={configuration}",
                f"--storage.tsdb.path={tmp_path / 'data'}", f"--web.listen-address=127.0.0.1:{web}",
            )
        )  # fmt: skip
        programs.enter_context(
            started(
                TARGET / "gallop-client", "--insecure", "--repeat", "100000",
                f"https://127.0.0.1:{quic}/file",
            )
        )  # fmt: skip
        wanted = [
            query.replace("$__rate_interval", "5s")
            .replace("$instance", ".*")
            .replace("$controller", ".*")
            for query in queries()
        ]
        end = time.monotonic() + _PATIENCE_S
        while wanted:
            answers = {query: _ask(web, query) for query in wanted}
            for query, answer in answers.items():
                assert answer["status"] != "error", (query, answer)
            wanted = [
                query
                for query, answer in answers.items()
                if answer["status"] == "starting" or not answer["data"]["result"]
            ]
            assert time.monotonic() < end, f"no answer to {wanted}"
            time.sleep(0.25)
