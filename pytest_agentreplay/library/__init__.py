"""A tape outside pytest: record and replay a block of code, replay a run, go on with one that was cut short."""

from pytest_agentreplay.library.block import CassetteBlock, use_cassette
from pytest_agentreplay.library.model import ReplayModel
from pytest_agentreplay.library.plan import RunPlan
from pytest_agentreplay.library.result import Result
from pytest_agentreplay.library.runs import areplay, aresume, replay, resume
from pytest_agentreplay.library.transport import ReplayTransport

__all__ = [
    "CassetteBlock",
    "ReplayModel",
    "ReplayTransport",
    "Result",
    "RunPlan",
    "areplay",
    "aresume",
    "replay",
    "resume",
    "use_cassette",
]
