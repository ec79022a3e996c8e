"""Reads what engines say of what they can do. Pure; `runtime.capability` fetches, each engine in its own way.

Whatever is missing or of another shape is unknown, and refuses nothing. The shapes are those that the servers were
seen to send; the tests keep a copy of each.
"""

from collections.abc import Mapping
from typing import Any

from lumbre.gateway.capability import Capability

_GENERATING = frozenset({"chat/completions", "completions"})
_EMBEDDING = frozenset({"embeddings"})


def of_model_list(document: object) -> dict[str, Capability]:
    """What a model list says of each model, by id.

    llama.cpp tells the context of each slot (`meta.n_ctx`); vLLM and SGLang the longest prompt and answer together
    (`max_model_len`). Others list names only.
    """
    found = {}
    for entry in _entries(document):
        meta = entry.get("meta")
        said = entry.get("max_model_len", meta.get("n_ctx") if isinstance(meta, dict) else None)
        if (context_tokens := _count(said)) is not None:
            found[str(entry.get("id"))] = Capability(context_tokens=context_tokens)
    return found


def of_llama_cpp(document: object) -> Capability:
    """llama.cpp's `GET /props`, beside `/v1`: what its one model can do.

    Its grammar holds any answer to a schema. Tools are those that the chat template knows: one that does not is given
    them in vain, since they are left out of the prompt.
    """
    props = _object(document)
    if "default_generation_settings" not in props:
        return Capability()  # a router without a model of its own, or something else altogether
    caps = _object(props.get("chat_template_caps"))
    knows = (_known(caps.get("supports_tools")), _known(caps.get("supports_tool_calls")))
    return Capability(
        context_tokens=_count(_object(props["default_generation_settings"]).get("n_ctx")),
        tools=True if True in knows else False if False in knows else None,
        images=_known(_object(props.get("modalities")).get("vision")),
        json_schema=True,
    )


def of_lm_studio(document: object) -> dict[str, Capability]:
    """LM Studio's `GET /api/v0/models`, beside `/v1`: each model, by id.

    It gives tools to every model, with a prompt of its own where the template knows none.
    """
    found = {}
    for entry in _entries(document):
        kind = entry.get("type")
        found[str(entry.get("id"))] = Capability(
            context_tokens=_count(entry.get("max_context_length")),
            images={"vlm": True, "llm": False}.get(str(kind)),
            endpoints=_EMBEDDING if kind == "embeddings" else _GENERATING if kind in ("llm", "vlm") else None,
        )
    return found


def of_ollama(document: object) -> Capability:
    """Ollama's `POST /api/show`, beside `/v1`: one model.

    The length it tells is the model's own. Ollama runs it with less unless it is told otherwise (`num_ctx`) and cuts
    what does not fit, so this is an upper bound: beyond it nothing can fit. Any model embeds; one that only embeds
    does nothing else.
    """
    show = _object(document)
    lengths = (value for key, value in _object(show.get("model_info")).items() if key.endswith(".context_length"))
    context_tokens = _count(next(lengths, None))
    said = show.get("capabilities")
    if not isinstance(said, list):
        return Capability(context_tokens)
    return Capability(
        context_tokens,
        tools="tools" in said,
        images="vision" in said,
        endpoints=_EMBEDDING if "embedding" in said and "completion" not in said else None,
    )


def _entries(document: object) -> list[dict[str, Any]]:
    data = _object(document).get("data")
    return [entry for entry in data if isinstance(entry, dict)] if isinstance(data, list) else []


def _object(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _count(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else None


def _known(value: object) -> bool | None:
    return value if isinstance(value, bool) else None
