"""How hypothesis searches here."""

from __future__ import annotations

from hypothesis import HealthCheck, settings

# One seed, so that a failure somewhere else is a failure here; `--hypothesis-profile=search` looks further.
settings.register_profile(
    "suite",
    max_examples=40,
    derandomize=True,
    database=None,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.register_profile(
    "search", max_examples=1500, database=None, deadline=None, suppress_health_check=list(HealthCheck)
)
if settings.get_current_profile_name() in ("default", "ci"):
    settings.load_profile("suite")
