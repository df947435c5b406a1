"""What a model call costs.  The only importer of genai-prices, which the extra ``prices`` brings.

Prices are looked up when they are asked for and not written to cassettes: they change, and a recording does not.
"""

from __future__ import annotations

import functools
import importlib
import importlib.util
from typing import Any

from pytest_agentreplay.dialects import Dialects
from pytest_agentreplay.normalize import media_type_of
from pytest_agentreplay.records import JsonBody, ModelStep, Usage

__all__ = ["price_of"]

# genai-prices' names of providers, where OpenTelemetry has others.
_PROVIDERS = {"azure.ai.openai": "azure", "mistral_ai": "mistral", "x_ai": "x-ai"}


def price_of(step: ModelStep, dialects: Dialects) -> float | None:
    """Return what a model call cost, in dollars; ``None`` where the price is unknown, or prices are not installed.

    A call that failed cost nothing.  An answer that names no tokens has no known price.
    """
    if step.cost_usd is not None:
        return step.cost_usd
    if step.response is None or step.response.status >= 400:
        return 0.0
    if step.usage is None or not _is_installed():
        return None
    models = (_model_of_answer(step, dialects), _model_asked_for(step))
    provider = _PROVIDERS.get(step.provider, step.provider)
    prices = (_look_up(step.usage, model=model, provider=provider) for model in models if model)
    return next((price for price in prices if price is not None), None)


@functools.cache
def _is_installed() -> bool:
    return importlib.util.find_spec("genai_prices") is not None


def _look_up(usage: Usage, *, model: str, provider: str) -> float | None:
    prices = importlib.import_module("genai_prices")
    tokens: dict[str, Any] = {
        "input_tokens": usage.input_tokens,
        "output_tokens": usage.output_tokens,
        "cache_read_tokens": usage.cache_read_input_tokens,
        "cache_write_tokens": usage.cache_creation_input_tokens,
    }
    try:
        found = prices.calc_price(prices.Usage(**tokens), model_ref=model, provider_id=provider)
    except (LookupError, ValueError):
        return None
    return float(found.total_price)


def _model_of_answer(step: ModelStep, dialects: Dialects) -> str | None:
    dialect = dialects.named(step.provider, step.operation)
    if dialect is None or step.response is None:
        return None
    reply = dialect.read_reply(step.response.content, media_type_of(step.response.headers))
    return reply.model if reply else None


def _model_asked_for(step: ModelStep) -> str | None:
    body = step.request.body
    model = body.fields.get("model") if isinstance(body, JsonBody) else None
    return model if isinstance(model, str) else None
