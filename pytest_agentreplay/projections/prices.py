"""What a model call costs.  The only importer of genai-prices, which the extra ``prices`` brings.

Prices are looked up when they are asked for and not written to cassettes: they change, and a recording does not.
"""

from __future__ import annotations

import functools
import importlib
import importlib.util
from collections.abc import Mapping
from typing import Any

from pytest_agentreplay.dialects import Dialect, Dialects
from pytest_agentreplay.records import JsonBody, ModelStep, Usage

__all__ = ["price_of"]

# genai-prices' names of providers, where OpenTelemetry has others.
_PROVIDERS = {"azure.ai.openai": "azure", "mistral_ai": "mistral", "x_ai": "x-ai"}
# Formats whose ``input_tokens`` leave out what was read from a cache or written to one.
_COUNTED_APART = frozenset({"anthropic"})


def price_of(step: ModelStep, dialects: Dialects) -> float | None:
    """Return what a model call cost, in dollars; ``None`` where the price is unknown, or prices are not installed.

    A call that failed cost nothing.  An answer that names no tokens has no known price.
    """
    if step.cost_usd is not None:
        return step.cost_usd
    if step.response is None or step.response.status >= 400:
        return 0.0
    dialect = dialects.named(step.provider, step.operation)
    tokens = _tokens_of(step.usage, dialect) if step.usage else {}
    if not tokens or not _is_installed():
        return None
    models = (_model_of_answer(step, dialect), _model_asked_for(step))
    provider = _PROVIDERS.get(step.provider, step.provider)
    prices = (_look_up(tokens, model=model, provider=provider) for model in models if model)
    return next((price for price in prices if price is not None), None)


@functools.cache
def _is_installed() -> bool:
    return importlib.util.find_spec("genai_prices") is not None


def _tokens_of(usage: Usage, dialect: Dialect | None) -> dict[str, int]:
    """Return the tokens of a call as genai-prices counts them: all that went in, and how many of those by a cache."""
    cached = {
        "cache_read_tokens": usage.cache_read_input_tokens,
        "cache_write_tokens": usage.cache_creation_input_tokens,
    }
    named = {"input_tokens": usage.input_tokens, "output_tokens": usage.output_tokens, **cached}
    tokens = {name: count for name, count in named.items() if count is not None}
    if dialect is not None and dialect.name in _COUNTED_APART:
        tokens["input_tokens"] = sum(tokens.get(name, 0) for name in ("input_tokens", *cached))
    return tokens if {"input_tokens", "output_tokens"} & {name for name in named if named[name] is not None} else {}


def _look_up(tokens: Mapping[str, Any], *, model: str, provider: str) -> float | None:
    prices = importlib.import_module("genai_prices")
    try:
        found = prices.calc_price(prices.Usage(**tokens), model_ref=model, provider_id=provider)
    except (LookupError, ValueError):
        return None
    return float(found.total_price)


def _model_of_answer(step: ModelStep, dialect: Dialect | None) -> str | None:
    if dialect is None or step.response is None:
        return None
    reply = dialect.reply_in(step.response)
    return reply.model if reply else None


def _model_asked_for(step: ModelStep) -> str | None:
    body = step.request.body
    model = body.fields.get("model") if isinstance(body, JsonBody) else None
    return model if isinstance(model, str) else None
