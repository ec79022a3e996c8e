"""How a Lumbre error looks to a client of the OpenAI API. Pure; the doors and the relay send it."""

import orjson

from lumbre.core.errors import LumbreError
from lumbre.wire.sse import data_event


def error_body(error: LumbreError, decision: str | None) -> bytes:
    """The JSON body of an error: OpenAI's four keys, and `lumbre` with what only this gateway knows."""
    return orjson.dumps(
        {
            "error": {
                "message": error.message,
                "type": error.kind,
                "param": error.param,
                "code": error.code,
                "lumbre": {"decision": decision, "switch": error.switch, "valid": error.valid},
            }
        }
    )


def error_event(error: LumbreError, decision: str | None) -> bytes:
    """The same error inside a stream that has already begun; nothing but the end may follow it."""
    return data_event(error_body(error, decision))
