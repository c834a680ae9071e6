"""A real Label Studio imports our export, and we import its export. Opt-in: PAIRSIEVE_LABEL_STUDIO=1.

Its packages would disturb ours, so it lives in an environment of its own: PAIRSIEVE_LABEL_STUDIO_VENV names
one that has it; otherwise one is made and `pip install label-studio` is run in it.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pairsieve.pairs import pair_ids
from pairsieve.sources.exchange import AskedPairs, QuestionBatch, read_answers, write_batch

pytestmark = pytest.mark.skipif(
    os.environ.get("PAIRSIEVE_LABEL_STUDIO") != "1",
    reason="starts a real label-studio; set PAIRSIEVE_LABEL_STUDIO=1 to run it",
)
TOKEN = "0123456789abcdef0123456789abcdef01234567"
WAIT_SECONDS = 400  # its first start makes a database


class Server:
    """Just enough of Label Studio's HTTP interface."""

    def __init__(self, url: str) -> None:
        self.url = url

    def call(self, path: str, data: Any = None) -> Any:
        request = urllib.request.Request(
            self.url + path,
            data=None if data is None else json.dumps(data).encode(),
            headers={"Authorization": f"Token {TOKEN}", "Content-Type": "application/json"},
        )
        with urllib.request.urlopen(request, timeout=120) as answer:
            return json.loads(answer.read())


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("label-studio")
    venv = Path(os.environ.get("PAIRSIEVE_LABEL_STUDIO_VENV", folder / "venv"))
    if not (venv / "bin" / "label-studio").exists():
        subprocess.run([sys.executable, "-m", "venv", venv], check=True)
        subprocess.run([venv / "bin" / "pip", "install", "-q", "label-studio"], check=True)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    words = [venv / "bin" / "label-studio", "start", "--no-browser", "--port", str(port)]
    words += ["--internal-host", "127.0.0.1", "--data-dir", folder / "data", "--enable-legacy-api-token"]
    words += ["--username", "ann@example.org", "--password", "only-for-this-test", "--user-token", TOKEN]
    quiet = {"SENTRY_DSN": "", "FRONTEND_SENTRY_DSN": "", "COLLECT_ANALYTICS": "false"}
    quiet |= {"LATEST_VERSION_CHECK": "false", "FEATURE_FLAGS_OFFLINE": "true"}
    log = folder / "log"
    with log.open("w") as out:
        process = subprocess.Popen(
            words, stdout=out, stderr=out, env={**os.environ, **quiet}, start_new_session=True
        )
    try:
        made = Server(f"http://127.0.0.1:{port}")
        for _ in range(WAIT_SECONDS):
            try:
                made.call("/api/projects/")
                break
            except (OSError, ValueError):
                assert process.poll() is None, f"label-studio ended:\n{log.read_text()[-3000:]}"
                time.sleep(1)
        else:
            pytest.fail(f"label-studio did not answer in {WAIT_SECONDS} s:\n{log.read_text()[-3000:]}")
        yield made
    finally:
        os.killpg(process.pid, signal.SIGTERM)
        process.wait(timeout=60)


def test_a_real_label_studio_takes_our_tasks_and_gives_answers_back(server: Server, tmp_path: Path) -> None:
    keys, texts = ["007", "é", "x"], ["a red bicycle", '<b>rotes</b> & "Fahrrad"', "tea"]
    ids = pair_ids([0, 0, 1], [1, 2, 2])
    left, right = [0, 0, 1], [1, 2, 2]
    batch = QuestionBatch(
        ids, *([column[row] for row in rows] for column in (keys, texts) for rows in (left, right))
    )
    tasks, config = write_batch(tmp_path / "batch.json", batch, guideline='Same <thing> & "place"?')
    project = server.call("/api/projects/", {"title": "pairs", "label_config": config.read_text("utf-8")})[
        "id"
    ]
    told = server.call(f"/api/projects/{project}/import", json.loads(tasks.read_text("utf-8")))
    assert told["task_count"] == 3

    listed = server.call(f"/api/tasks?project={project}&fields=all")
    by_keys = {(task["data"]["left_key"], task["data"]["right_key"]): task["id"] for task in listed["tasks"]}
    assert set(by_keys) == {("007", "é"), ("007", "x"), ("é", "x")}
    for pair, choice, cancelled in ((("007", "é"), "match", False), (("é", "x"), "no match", True)):
        result = [
            {"from_name": "label", "to_name": "left", "type": "choices", "value": {"choices": [choice]}}
        ]
        result.append(
            {"from_name": "comment", "to_name": "left", "type": "textarea", "value": {"text": ["both red"]}}
        )
        annotation = {"result": result, "was_cancelled": cancelled}
        server.call(f"/api/tasks/{by_keys[pair]}/annotations/", annotation)

    asked = AskedPairs.of(ids, batch.left_keys, batch.right_keys, keys, keys, symmetric=True)
    names = set()
    for form, unanswered in (("JSON", 2), ("JSON_MIN", 0)):  # JSON-MIN leaves out what has no annotation
        export = server.call(f"/api/projects/{project}/export?exportType={form}&download_all_tasks=false")
        path = tmp_path / f"{form}.json"
        path.write_text(json.dumps(export), encoding="utf-8")
        found = read_answers(path, asked)
        (said,) = found.answers
        assert (said.id, said.label, said.comment) == (int(ids[0]), 1, "both red")
        names.add(said.who)
        assert found.unanswered <= unanswered
    assert len(names) == 1  # a person has the same name in every kind of export
