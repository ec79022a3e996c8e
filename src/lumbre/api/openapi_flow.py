"""What `/openapi.json` says of the operator's pages: the flow and the ledger. Pure tables."""

from typing import Any

from lumbre.gateway.policy import POLICIES
from lumbre.ledger.records import KEYS, KINDS

Schema = dict[str, Any]

_TEXT: Schema = {"type": "string"}
_MAYBE: Schema = {"type": ["string", "null"]}
_WHOLE: Schema = {"type": ["integer", "null"]}


def _object(**properties: Schema) -> Schema:
    return {"type": "object", "required": list(properties), "properties": properties}


def _list(of: Schema) -> Schema:
    return {"type": "array", "items": of}


_SHOWN = _object(state=_TEXT, shown=_TEXT)
_SWITCH = _object(
    name=_TEXT,
    kind={"enum": ["tier", "label", "node", "global"]},
    state={"enum": ["open", "closed"]},
    shown=_TEXT,
    reason=_MAYBE,
    by=_MAYBE,
    at=_MAYBE,
)
_POLICY = _object(policy={"enum": list(POLICIES)}, until=_MAYBE, default={"enum": list(POLICIES)})
_UPSTREAM = _object(id=_TEXT, state=_TEXT, breaker=_SHOWN, in_flight={"type": "integer"}, waiting={"type": "integer"})
_TIER = _object(available={"type": "boolean"}, reasons=_list(_TEXT), upstreams=_list(_UPSTREAM))
_NODE = _object(
    id=_TEXT,
    labels=_list(_TEXT),
    state=_TEXT,
    breaker=_SHOWN,
    in_flight={"type": "integer"},
    why=_TEXT,
    stops_at=_MAYBE,
    cost_microusd={"type": "integer"},
)
_FLOW = _object(
    policy=_POLICY,
    switches=_list(_SWITCH),
    tiers=_object(A=_TIER, B=_TIER, C=_TIER),
    budget=_object(limit_microusd=_WHOLE, spent_microusd=_WHOLE, reserved_microusd=_WHOLE),
    problems=_list(_TEXT),
)
_ATTEMPT = _object(tier=_TEXT, label=_MAYBE, node=_MAYBE)
_STEP = _object(
    step={"type": "integer", "minimum": 1, "maximum": 4},
    tier=_MAYBE,
    verdict={"enum": ["pass", "take", "fall", "refuse"]},
    reason=_TEXT,
    text=_TEXT,
)
DECISION = _object(
    outcome={"enum": ["dispatch", "start", "wait", "reject"]},
    status={"type": "integer"},
    code=_MAYBE,
    message=_MAYBE,
    tier=_MAYBE,
    label=_MAYBE,
    node=_MAYBE,
    policy={"enum": list(POLICIES)},
    complexity=_TEXT,
    **{"class": _TEXT},
    strict_json={"type": "boolean"},
    affinity=_MAYBE,
    steps=_list(_STEP),
    attempts=_list(_ATTEMPT),
)
_RECORD = {"type": "object", "required": list(KEYS)}

_ERROR = {"$ref": "#/components/schemas/Error"}


def _path(name: str) -> Schema:
    return {"name": name, "in": "path", "required": True, "schema": _TEXT}


def _query(name: str, schema: Schema) -> Schema:
    return {"name": name, "in": "query", "required": False, "schema": schema}


def _reply(text: str, schema: Schema) -> Schema:
    return {"description": text, "content": {"application/json": {"schema": schema}}}


def _page(
    summary: str, gives: Schema, *parameters: Schema, body: Schema | None = None, errors: dict[str, str] | None = None
) -> Schema:
    refused = {status: _reply(text, _ERROR) for status, text in (errors or {}).items()}
    told: Schema = {
        "summary": summary,
        "parameters": list(parameters),
        "responses": {"200": _reply("Here it is.", gives), **refused},
    }
    if body is not None:
        told["requestBody"] = {"required": True, "content": {"application/json": {"schema": body}}}
    return told


_WRONG = "A field is at fault; `error.param` names it."
_NO_SWITCH = "No such switch; `error.lumbre.valid` lists them."
_MOVE: Schema = {
    "type": "object",
    "required": ["state"],
    "properties": {"state": {"enum": ["open", "closed"]}, "reason": _MAYBE, "by": _MAYBE},
    "additionalProperties": False,
}
_CHOOSE: Schema = {
    "type": "object",
    "required": ["policy"],
    "properties": {
        "policy": {"enum": list(POLICIES)},
        "for": {"type": ["string", "null"], "pattern": "^[0-9]+[smhd]$"},
        "reason": _MAYBE,
        "by": _MAYBE,
    },
    "additionalProperties": False,
}
_NOT_MOVED: Schema = {
    "summary": "Refused: somebody else keeps a static node up",
    "parameters": [_path("id")],
    "responses": {"404": _reply("No such node.", _ERROR), "409": _reply("It is static.", _ERROR)},
}

FLOW: Schema = {
    "/v1/flow": {"get": _page("Policy, switches, tiers, breakers and the day's money", _FLOW)},
    "/v1/flow/policy": {
        "get": _page("The routing policy", _POLICY),
        "post": _page(
            "Choose the policy; the next request goes by it",
            _POLICY,
            body=_CHOOSE,
            errors={"400": _WRONG, "503": "It could not be kept, and the one of before holds."},
        ),
    },
    "/v1/flow/switches": {"get": _page("The kill switches", _object(switches=_list(_SWITCH)))},
    "/v1/flow/switches/{name}": {
        "get": _page("One kill switch", _SWITCH, _path("name"), errors={"404": _NO_SWITCH}),
        "post": _page(
            "Close or open a kill switch",
            _SWITCH,
            _path("name"),
            body=_MOVE,
            errors={
                "400": _WRONG,
                "404": _NO_SWITCH,
                "503": "It could not be kept: a switch that was to be closed is closed until the next start, one that "
                "was to be opened stays closed.",
            },
        ),
    },
    "/v1/flow/nodes": {"get": _page("The burst nodes", _object(nodes=_list(_NODE)))},
    "/v1/flow/nodes/{id}/start": {"post": _NOT_MOVED},
    "/v1/flow/nodes/{id}/stop": {"post": _NOT_MOVED},
    "/v1/ledger": {
        "get": _page(
            "What ran where, and what it cost: of one decision, or page by page, the newest first",
            _object(records=_list(_RECORD), next=_MAYBE),
            _query("decision", _TEXT),
            _query("kind", {"enum": list(KINDS)}),
            _query("limit", {"type": "integer", "minimum": 1, "maximum": 1000, "default": 100}),
            _query("after", _TEXT),
            errors={"400": "A parameter is at fault.", "503": "The ledger cannot be read."},
        )
    },
}
