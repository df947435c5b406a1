"""An agent on boto3, recorded against a fake Bedrock and replayed when that is gone."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from tests.corpus.running import lay_out, run_pytest
from tests.corpus.test_real_agents import RESULT, fake_provider

pytestmark = pytest.mark.corpus


def test_an_agent_on_boto3_is_recorded_and_replayed_without_a_connection(corpus: Path, tmp_path: Path) -> None:
    folder = lay_out(
        tmp_path / "bedrock", {"test_it.py": "bedrock_program.py", "count_connects.py": "count_connects.py"}
    )
    search = os.pathsep.join([str(corpus / "agents"), str(folder)])

    with fake_provider(corpus / "agents", folder) as base:
        recording = run_pytest(folder, "--record-mode=once", SEEN="live", FAKE_BASE=base, PYTHONPATH=search)
    replaying = run_pytest(folder, SEEN="replayed", FAKE_BASE=base, PYTHONPATH=search)

    assert "2 recorded (6 requests)" in recording.text
    assert "2 replayed (6 requests)" in replaying.text
    for way in ("plain", "streamed"):
        live, replayed = (json.loads((folder / f"{run}-{way}.json").read_text()) for run in ("live", "replayed"))
        assert live["connects"] > 0
        assert replayed == live | {"connects": 0}
        assert live["said"] == RESULT
