"""A tape in a file kept in git: one JSON line a step, each message once.

``load_cassette`` reads and verifies one, :class:`Recording` writes one.
"""

from pytest_agentreplay.cassette.files import continuation_path, is_continuation, is_partial, partial_path
from pytest_agentreplay.cassette.lines import is_conflict_marker
from pytest_agentreplay.cassette.loading import Cassette, load_cassette, read_cassette, what_records
from pytest_agentreplay.cassette.order import canonical_order
from pytest_agentreplay.cassette.recording import Recording, lock_cassette, write_cassette

__all__ = [
    "Cassette",
    "Recording",
    "canonical_order",
    "continuation_path",
    "is_conflict_marker",
    "is_continuation",
    "is_partial",
    "load_cassette",
    "lock_cassette",
    "partial_path",
    "read_cassette",
    "what_records",
    "write_cassette",
]
