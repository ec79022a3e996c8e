"""What nodes say of themselves: what is believed, and what is refused by the name of its field."""

import json
import re
from math import inf, nan
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from lumbre.core.errors import LumbreError
from lumbre.mesh import (
    InvalidTelemetry,
    NodeState,
    NoRouteAvailable,
    Route,
    RouteSnapshot,
    RouteWeights,
    RoutingRequest,
    score_route,
    states_from,
)

SEED: dict[str, Any] = {
    "node_id": "mini",
    "latency_ms": 6.4,
    "current_load": 0.2,
    "capacity_score": 13.0,
    "served_layers": [[7, 9]],
    "alive": True,
}
NUMBERS = ("latency_ms", "current_load", "capacity_score")
FIELDS = (*SEED, "model")

texts = st.text(st.characters(exclude_categories=()), max_size=12)  # lone surrogates among them
huge = st.just(4299).map(lambda digits: 10**digits)
"""Numbers of as many digits as Python writes out, so that a failing example can be shown."""
numbers = st.one_of(
    st.integers(),
    st.sampled_from((10**9, 10**9 + 1, 10**400, -1, -0.0, 0, True, False, nan, inf, -inf, 1e9, 1.5, "7")),
    st.floats(),
    huge,
)
json_values: st.SearchStrategy[Any] = st.recursive(
    st.one_of(st.none(), st.booleans(), numbers, texts),
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(texts, inner, max_size=4)),
    max_leaves=8,
)
layers = st.integers(0, 12) | st.sampled_from((1.5, 7.0, -1, True, nan, "0", None, 10**9, 10**9 + 1)) | huge
fragments = st.lists(layers, min_size=2, max_size=2) | st.lists(layers, max_size=3) | json_values
good: dict[str, st.SearchStrategy[Any]] = {
    "node_id": texts.filter(bool),
    "latency_ms": st.integers(0, 10**9) | st.floats(0, 1e9),
    "current_load": st.integers(0, 10**9) | st.floats(0, 1e9),
    "capacity_score": st.integers(0, 10**9) | st.floats(0, 1e9),
    "served_layers": st.lists(st.lists(st.integers(0, 12), min_size=2, max_size=2).map(sorted), max_size=3),
    "alive": st.booleans(),
    "model": st.none() | texts,
}
odd: dict[str, st.SearchStrategy[Any]] = {
    "node_id": json_values,
    **dict.fromkeys(NUMBERS, numbers | json_values),
    "served_layers": st.lists(fragments, max_size=3) | json_values,
    "alive": json_values,
    "model": json_values,
}
believable = st.fixed_dictionaries(good)


@st.composite
def replies(draw: st.DrawFn) -> dict[str, Any]:
    """Health replies with at most a few fields that are odd or not there, and with keys that nobody knows."""
    said: dict[str, Any] = draw(st.dictionaries(texts.filter(lambda key: key not in FIELDS), json_values, max_size=2))
    said.update(draw(believable))
    for name in draw(st.lists(st.sampled_from(FIELDS), max_size=3)):
        said[name] = draw(odd[name])
    if (gone := draw(st.sampled_from((None, None, None, *SEED)))) is not None:
        said.pop(gone, None)
    return said


def is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= 10**9


def is_layer(value: Any) -> bool:
    return isinstance(value, int) and is_number(value)


def is_fragment(value: Any) -> bool:
    return isinstance(value, list) and len(value) == 2 and all(map(is_layer, value)) and value[0] <= value[1]


def is_good(name: str, value: Any) -> bool:
    """Whether a field's value can be believed, as the project's contract has it."""
    if name in NUMBERS:
        return is_number(value)
    if name == "served_layers":
        return isinstance(value, list) and all(map(is_fragment, value))
    if name == "alive":
        return isinstance(value, bool)
    return (isinstance(value, str) and value != "") if name == "node_id" else value is None or isinstance(value, str)


def check_named(error: InvalidTelemetry, said: Any) -> None:
    """The error names the field that is at fault, down to the fragment and its end; and it can be shown."""
    assert error.field in str(error)
    assert len(error.message.encode()) < 500
    assert isinstance(error, LumbreError)
    if not isinstance(said, dict):
        assert error.field == "(the node)"
        return
    path = re.fullmatch(r"(\w+)(?:\[(\d+)\])?(?:\[(\d+)\])?", error.field)
    assert path is not None
    name, number, end = path.groups()
    assert name in FIELDS
    if name not in said:
        assert number is None
        assert "missing" in error.why
        return
    value = said[name]
    assert not is_good(name, value)
    if number is not None:
        assert not is_fragment(value[int(number)])
        assert end is None or not is_layer(value[int(number)][int(end)])


@settings(max_examples=500)
@given(replies() | json_values)
@example({**SEED, "latency_ms": 10**4299})
@example({**SEED, "served_layers": [[10**4299, 0]]})
@example({**SEED, "served_layers": [[3, 2]]})
@example({**SEED, "node_id": "\ud800"})
@example({**SEED, "capacity_score": nan})
@example({**SEED, "current_load": True})
@example({**SEED, "alive": 1})
def test_any_json_value_is_a_node_or_an_error_that_names_the_field(said: Any) -> None:
    try:
        state = NodeState.from_dict(said)
    except InvalidTelemetry as error:
        check_named(error, said)
        return
    assert isinstance(said, dict)
    assert all(is_good(name, said.get(name)) for name in (*FIELDS,) if name != "alive" or name in said)
    assert (state.node_id, state.latency_ms, state.current_load, state.capacity_score) == tuple(
        said[name] for name in ("node_id", *NUMBERS)
    )
    assert state.served_layers == tuple(map(tuple, said["served_layers"]))
    assert state.model == said.get("model")
    assert state.alive is said.get("alive", True)
    assert set(state.diagnostics) == set(said) - set(FIELDS)
    assert all(state.diagnostics[key] is said[key] for key in state.diagnostics)


@given(believable)
def test_everything_that_is_believed_can_be_routed_over(said: dict[str, Any]) -> None:
    snapshot = RouteSnapshot([NodeState.from_dict(said)], RouteWeights(), "m")
    snapshot.digest().encode()
    try:
        route = snapshot.route(100)
    except NoRouteAvailable as error:
        error.message.encode()
    else:
        assert 0 <= route.cost < inf
        assert route.nodes == (said["node_id"],)


@pytest.mark.parametrize("field", [*FIELDS, "served_layers[0]", "served_layers[0][1]"])
def test_a_number_of_more_digits_than_python_writes_is_refused_by_the_name(field: str) -> None:
    number = 10**5000
    nested: dict[str, Any] = {"served_layers[0]": [number], "served_layers[0][1]": [[0, number]]}
    with pytest.raises(InvalidTelemetry) as caught:
        NodeState.from_dict({**SEED, field.partition("[")[0]: nested.get(field, number)})
    assert caught.value.field == field


def test_lists_nested_a_thousand_deep_are_an_error_that_names_the_field() -> None:
    deep: Any = []
    for _ in range(5000):
        deep = [deep]
    for name in FIELDS:
        with pytest.raises(InvalidTelemetry) as caught:
            NodeState.from_dict({**SEED, name: deep})
        assert caught.value.field.startswith(name)
    with pytest.raises(InvalidTelemetry):
        NodeState.from_dict(deep)
    assert NodeState.from_dict({**SEED, "trace": deep}).node_id == "mini"


def test_the_seeds_own_reply_is_a_node() -> None:
    state = NodeState.from_dict(json.loads(json.dumps(SEED)))
    assert state == NodeState("mini", 6.4, 0.2, 13.0, ((7, 9),), alive=True)
    assert state.model is None
    assert not state.diagnostics


@pytest.mark.parametrize("name", list(SEED))
def test_each_of_the_seeds_six_fields_must_be_there(name: str) -> None:
    with pytest.raises(InvalidTelemetry) as caught:
        NodeState.from_dict({key: value for key, value in SEED.items() if key != name})
    assert caught.value.field == name


def test_the_model_may_be_left_out_or_null_or_said() -> None:
    assert NodeState.from_dict({**SEED, "model": None}).model is None
    assert NodeState.from_dict({**SEED, "model": "smollm2"}).model == "smollm2"


@pytest.mark.parametrize(
    ("name", "value", "field"),
    [
        ("node_id", "", "node_id"),
        ("node_id", 7, "node_id"),
        ("latency_ms", nan, "latency_ms"),
        ("latency_ms", -0.1, "latency_ms"),
        ("current_load", inf, "current_load"),
        ("current_load", False, "current_load"),
        ("capacity_score", 1.1e9, "capacity_score"),
        ("capacity_score", "13", "capacity_score"),
        ("served_layers", {"7": 9}, "served_layers"),
        ("served_layers", "79", "served_layers"),
        ("served_layers", [[0, 3], [7]], "served_layers[1]"),
        ("served_layers", [[7, 9, 11]], "served_layers[0]"),
        ("served_layers", [7, 9], "served_layers[0]"),
        ("served_layers", [[9, 7]], "served_layers[0]"),
        ("served_layers", [[7, 9.5]], "served_layers[0][1]"),
        ("served_layers", [[-1, 9]], "served_layers[0][0]"),
        ("served_layers", [[0, 3], [True, 9]], "served_layers[1][0]"),
        ("alive", 1, "alive"),
        ("alive", "true", "alive"),
        ("alive", None, "alive"),
        ("model", 7, "model"),
    ],
)
def test_what_cannot_be_believed_is_refused_by_its_place(name: str, value: Any, field: str) -> None:
    with pytest.raises(InvalidTelemetry) as caught:
        NodeState.from_dict({**SEED, name: value})
    assert caught.value.field == caught.value.param == field


def test_fragments_may_overlap_repeat_and_stand_in_any_order() -> None:
    state = NodeState.from_dict({**SEED, "served_layers": [[4, 7], [0, 5], [4, 7]]})
    assert state.served_layers == ((4, 7), (0, 5), (4, 7))


def routed(states: tuple[NodeState, ...]) -> Route:
    return score_route(RoutingRequest(), states, RouteWeights(), "m")


@given(st.integers() | st.floats(), st.integers() | st.floats(), json_values, json_values)
def test_what_a_worker_says_besides_is_kept_and_never_changes_the_cost(
    served: float, failed: float, load: Any, other: Any
) -> None:
    besides = {"served_requests": served, "failed_requests": failed, "load": load, "chains": other, "diagnostics": {}}
    state = NodeState.from_dict({**SEED, **besides})
    plain = NodeState.from_dict(SEED)
    assert state.diagnostics.keys() == besides.keys()
    assert all(state.diagnostics[key] is value for key, value in besides.items())
    assert state == plain
    assert routed((state,)).cost == routed((plain,)).cost
    ahead = NodeState("zz", 6.4, 0.2, 13.0, ((7, 9),))
    assert routed((ahead, state)).nodes == ("mini",)


def test_only_current_load_is_the_load() -> None:
    idle = NodeState.from_dict({**SEED, "current_load": 0, "load": 5.0})
    assert routed((idle,)).cost == pytest.approx(6.4 + 100 / 13)
    assert routed((NodeState.from_dict({**SEED, "current_load": 1}),)).cost == pytest.approx(126.4 + 100 / 13)


def test_what_is_read_does_not_change_with_what_was_said() -> None:
    said = json.loads(json.dumps({**SEED, "served_requests": 3}))
    state = NodeState.from_dict(said)
    said["served_layers"][0][0] = 0
    said["served_requests"] = 4
    assert state.served_layers == ((7, 9),)
    assert state.diagnostics == {"served_requests": 3}


def test_a_list_of_replies_or_an_object_with_one_is_read_in_its_order() -> None:
    said = [{**SEED, "node_id": name} for name in ("b", "a", "c")]
    assert [each.node_id for each in states_from(said)] == ["b", "a", "c"]
    assert states_from({"nodes": said, "at": "noon"}) == states_from(said)
    assert states_from([]) == ()


@pytest.mark.parametrize(
    ("said", "field"),
    [
        (None, "(the file)"),
        ("nodes", "(the file)"),
        (7, "(the file)"),
        ({}, "nodes"),
        ({"nodes": {}}, "nodes"),
        ({"nodes": "mini"}, "nodes"),
        ([None], "[0]"),
        ([SEED, [SEED]], "[1]"),
        ({"nodes": [SEED, "mini"]}, "nodes[1]"),
        ([{**SEED, "latency_ms": -1}], "[0].latency_ms"),
        ({"nodes": [SEED, {**SEED, "node_id": "b", "served_layers": [[0, 3], [2, 1]]}]}, "nodes[1].served_layers[1]"),
        ([SEED, {"node_id": "b"}], "[1].latency_ms"),
        ([SEED, {**SEED, "node_id": "b"}, SEED], "[2].node_id"),
        ({"nodes": [SEED, {**SEED, "alive": False}]}, "nodes[1].node_id"),
    ],
)
def test_a_bad_list_is_refused_by_the_place_in_it(said: object, field: str) -> None:
    with pytest.raises(InvalidTelemetry) as caught:
        states_from(said)
    assert caught.value.field == field


@given(
    json_values | st.lists(replies(), max_size=3) | st.fixed_dictionaries({"nodes": st.lists(replies(), max_size=3)})
)
def test_any_json_value_is_nodes_or_an_error_that_names_the_place(said: Any) -> None:
    listed = said["nodes"] if isinstance(said, dict) and "nodes" in said else said
    try:
        states = states_from(said)
    except InvalidTelemetry as error:
        error.message.encode()
        if (path := re.fullmatch(r"(?:nodes)?\[(\d+)\](?:\.(.+))?", error.field)) is None:
            assert not isinstance(listed, list)
            return
        reply = listed[int(path[1])]
        if not isinstance(reply, dict):
            assert path[2] is None
        elif path[2] == "node_id" and is_good("node_id", reply.get("node_id")):
            assert [each.get("node_id") for each in listed[: int(path[1])]].count(reply["node_id"]) == 1
        else:
            check_named(InvalidTelemetry(path[2], error.why), reply)
        return
    assert len(states) == len(listed) == len({each.node_id for each in states})


def test_a_node_of_more_fragments_than_any_model_has_layers_is_refused() -> None:
    most = [[layer, layer] for layer in range(4_096)]
    assert len(NodeState.from_dict({**SEED, "served_layers": most}).served_layers) == 4_096
    with pytest.raises(InvalidTelemetry, match="4096") as caught:
        NodeState.from_dict({**SEED, "served_layers": [*most, [0, 0]]})
    assert caught.value.field == "served_layers"
