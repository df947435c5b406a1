"""Run the corpus's agent on Bedrock, plain and streamed, and keep how many connections each made."""

import argparse
import importlib
import json
import os
from pathlib import Path

import pytest
from count_connects import connects  # written beside this module

HERE = Path(__file__).parent


@pytest.mark.agent_cassette
@pytest.mark.parametrize("stream", [False, True], ids=["plain", "streamed"])
def test_bedrock(stream, agent_run, request):
    program = importlib.import_module("bedrock_boto3")
    before = len(connects)

    said = program.run(argparse.Namespace(base=os.environ["FAKE_BASE"], stream=stream))

    seen = {"said": said, "connects": len(connects) - before, "requests": len(agent_run.hash_chain)}
    (HERE / f"{os.environ['SEEN']}-{request.node.callspec.id}.json").write_text(json.dumps(seen))
    program.client.close()
    program.client = None
