"""The composition root: settings, tape, player and reader of one test or one block of code."""

from pytest_agentreplay.session.opening import open_replay, open_session
from pytest_agentreplay.session.session import Outcome, Session, shown_path
from pytest_agentreplay.session.start import About

__all__ = ["About", "Outcome", "Session", "open_replay", "open_session", "shown_path"]
