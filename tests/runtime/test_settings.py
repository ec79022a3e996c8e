"""Which settings hold, where each came from, and how a wrong one is told."""

import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from lumbre.core.errors import SettingsError
from lumbre.runtime import settings
from lumbre.runtime.schema import Settings
from lumbre.runtime.settings import Loaded

ROOT = Path(__file__).parents[2]
IN_COMMENTS = {
    *("tier_a.upstreams", "tier_a.tools", "tier_a.images", "tier_a.json_schema"),
    *("tier_b.nodes", "tier_b.daily_budget_usd", "tier_c.daily_budget_usd"),
    *(f"tier_c.{field}" for field in ("base_url", "model", "api_key_env", "api_key_file")),
    *("tier_c.tools", "tier_c.images", "tier_c.json_schema"),
    "embeddings.upstreams",
}
"""What the example can only show in a comment: to leave it out means something."""


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def load(text: str | None = None, environ: Mapping[str, str] | None = None, lang: str = "en", **flags: Any) -> Loaded:
    if text is not None:
        Path("lumbre.toml").write_text(text, encoding="utf-8")
    overrides = {name.replace("__", "."): value for name, value in flags.items()}
    return settings.load(config=None, overrides=overrides, environ={"HOME": "/home/x", **(environ or {})}, lang=lang)


def wrong(text: str | None = None, environ: Mapping[str, str] | None = None, lang: str = "en") -> str:
    with pytest.raises(SettingsError) as caught:
        load(text, environ, lang)
    assert caught.value.exit_code == 3
    return caught.value.message


def test_without_a_file_the_defaults_hold() -> None:
    loaded = load()
    assert loaded.path is None
    assert set(loaded.sources.values()) == {"default"}
    assert loaded.settings.gateway.state_dir == Path("/home/x/.local/state/lumbre")
    assert loaded.settings.models.cache_dir == Path("/home/x/.cache/lumbre/models")


def test_a_variable_wins_over_the_file_and_a_flag_over_both() -> None:
    text = "[gateway]\nport = 1\n[tier_a]\n\nslots = 3\nthreads = 5\n"
    environ = {"LUMBRE_GATEWAY_PORT": "2", "LUMBRE_TIER_A_SLOTS": "4"}
    loaded = load(text, environ, gateway__port=3, tier_a__model=None)
    assert loaded.settings.gateway.port == 3
    assert loaded.settings.tier_a.slots == 4
    assert loaded.settings.tier_a.threads == 5
    assert loaded.sources["gateway.port"] == "--port"
    assert loaded.sources["tier_a.slots"] == "LUMBRE_TIER_A_SLOTS"
    assert loaded.sources["tier_a.threads"] == "lumbre.toml:6"
    assert loaded.sources["tier_a.model"] == "default"


def test_every_setting_has_a_source_and_a_variable() -> None:
    fields = {f"{s}.{f}" for s, section in Settings().model_dump().items() for f in section}
    assert load().sources.keys() == fields
    # Lists, which the next test has, and what holds only together with its neighbours.
    others = {f"tier_c.{field}" for field in ("base_url", "model", "api_key_env", "api_key_file")}
    for name in fields - others - {"tier_a.upstreams", "tier_a.command"}:
        variable = "LUMBRE_" + name.replace(".", "_").upper()
        section, _, field = name.partition(".")
        value = getattr(getattr(load().settings, section), field)
        none = "1.5" if name.endswith("_usd") else "true"
        text = {"None": none, "()": "[]", "True": "true", "False": "false"}.get(str(value), str(value))
        assert load(environ={variable: text}).sources[name] == variable


def test_lists_in_variables_are_toml_or_json() -> None:
    upstreams = '[{"id": "a", "base_url": "http://127.0.0.1:1/v1"}]'
    environ = {"LUMBRE_TIER_A_UPSTREAMS": upstreams, "LUMBRE_TIER_A_COMMAND": "['x', '{port}']"}
    tier = load(environ=environ).settings.tier_a
    assert [upstream.id for upstream in tier.upstreams] == ["a"]
    assert tier.command == ("x", "{port}")


def test_text_in_variables_stays_text_even_if_it_looks_like_a_number() -> None:
    assert load(environ={"LUMBRE_TIER_A_MODEL": "123"}).settings.tier_a.model == "123"


def test_the_file_is_looked_for_in_the_order_that_is_promised(tmp_path: Path) -> None:
    def put(name: str, slots: int) -> str:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"[tier_a]\nslots = {slots}\n")
        return str(path)

    environ = {"HOME": str(tmp_path), "LUMBRE_CONFIG": ""}

    def slots(config: Path | None = None) -> int:
        return settings.load(config=config, overrides={}, environ=environ).settings.tier_a.slots

    put(".config/lumbre/lumbre.toml", 3)
    assert slots() == 3
    put("xdg/lumbre/lumbre.toml", 4)
    environ["XDG_CONFIG_HOME"] = str(tmp_path / "xdg")
    assert slots() == 4
    put("lumbre.toml", 5)
    assert slots() == 5
    environ["LUMBRE_CONFIG"] = put("by_variable.toml", 6)
    assert slots() == 6
    assert slots(Path(put("by_flag.toml", 7))) == 7


@pytest.mark.parametrize("source", ["--config", "LUMBRE_CONFIG"])
def test_a_file_that_was_named_must_be_there(source: str) -> None:
    named = Path("gone.toml")
    config = named if source == "--config" else None
    with pytest.raises(SettingsError, match=rf"{source}: there is no settings file gone\.toml"):
        settings.load(config=config, overrides={}, environ={"LUMBRE_CONFIG": str(named)})


def test_folders_follow_home_xdg_and_the_file(tmp_path: Path) -> None:
    xdg = {"XDG_STATE_HOME": "/s", "XDG_CACHE_HOME": "relative is ignored"}
    assert load(environ=xdg).settings.gateway.state_dir == Path("/s/lumbre")
    assert load(environ=xdg).settings.models.cache_dir == Path("/home/x/.cache/lumbre/models")
    assert load('[gateway]\nstate_dir = "~/s"\n').settings.gateway.state_dir == Path("/home/x/s")
    folder = tmp_path / "conf"
    folder.mkdir()
    (folder / "l.toml").write_text('[gateway]\nstate_dir = "state"\n')
    environ = {"LUMBRE_CONFIG": str(folder / "l.toml"), "LUMBRE_MODELS_CACHE_DIR": "cache"}
    loaded = load(environ=environ)
    assert loaded.settings.gateway.state_dir == folder / "state"
    assert loaded.settings.models.cache_dir == tmp_path / "cache"


def test_everything_that_is_wrong_is_told_at_once_with_its_line() -> None:
    text = (
        "[gateway]\n"
        "prt = 8484\n"
        'port = "x"\n'
        "[tier_a]\n"
        "slots = true\n"
        "command = [\n"
        '  "a", # ]\n'
        "]\n"
        "context_tokens = 1\n"
        "[[tier_a.upstreams]]\n"
        'id = "a"\n'
        'base_url = "nothing"\n'
        "[[tier_a.upstreams]]\n"
        'id = "b c"\n'
        "[deadlines]\n"
        "total_s = -1\n"
    )
    assert wrong(text, {"LUMBRE_TIER_A_SLOT": "3"}).splitlines() == [
        "9 settings are wrong:",
        "LUMBRE_TIER_A_SLOT: there is no such variable; did you mean LUMBRE_TIER_A_SLOTS?",
        "lumbre.toml:2: gateway.prt: there is no such setting; did you mean port?",
        'lumbre.toml:3: gateway.port: found "x", but it must be a whole number',
        "lumbre.toml:5: tier_a.slots: found true, but it must be a whole number",
        "lumbre.toml:9: tier_a.context_tokens: found 1, but it must be at least 64",
        'lumbre.toml:12: tier_a.upstreams[0].base_url: found "nothing", '
        'but it must be an address such as "http://127.0.0.1:8000/v1"',
        "lumbre.toml:13: tier_a.upstreams[1].base_url: is missing",
        'lumbre.toml:14: tier_a.upstreams[1].id: found "b c", but it must match ^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$',
        "lumbre.toml:16: deadlines.total_s: found -1, but it must be more than 0.0",
    ]


def test_a_setting_in_the_wrong_section_is_sent_to_its_own() -> None:
    assert "did you mean [tier_a] slots?" in wrong("[deadlines]\nslots = 3\n")
    assert "did you mean [gateway] port?" in wrong("port = 3\n")


def test_an_unknown_name_that_is_like_nothing_lists_what_there_is() -> None:
    assert wrong("[breaker]\nzzz = 1\n").endswith("known here: failures, most_open_s, open_s, probe_s")
    assert "did you mean deadlines?" in wrong("[deadline]\n")


@pytest.mark.parametrize("section", ["memory", "mesh", "queue"])
def test_a_section_of_later_versions_is_refused_with_that_reason(section: str) -> None:
    assert wrong(f"\n[{section}]\nx = 1\n") == (
        f"lumbre.toml:2: {section}: this version does not have [{section}] yet; take it out"
    )
    variable = f"LUMBRE_{section.upper()}_X"
    assert f"{variable}: this version does not have [{section}]" in wrong("", {variable: "1"})


def test_a_rule_between_fields_points_at_the_field_it_speaks_of() -> None:
    assert wrong('\n[tier_a]\nbackend = "openai"\n').startswith("lumbre.toml:3: tier_a: ")
    assert wrong("[tier_a]\nslots = 1\n", {"LUMBRE_TIER_A_BACKEND": "openai"}).startswith(
        "LUMBRE_TIER_A_BACKEND: tier_a: "
    )


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("[gateway]\nport = \n", "lumbre.toml:2:8:"),
        ("[gateway]\nport = 1\nport = 2\n", "lumbre.toml:3:"),
        ("[a\n", "lumbre.toml:1:"),
    ],
)
def test_broken_toml_is_told_with_line_and_column(text: str, place: str) -> None:
    message = wrong(text)
    assert message.startswith(place)
    assert "not valid TOML" in message


def test_a_file_that_is_not_utf_8_is_told_with_its_line(tmp_path: Path) -> None:
    (tmp_path / "lumbre.toml").write_bytes(b"[gateway]\n# caf\xe9\n")
    assert wrong() == "lumbre.toml:2: not UTF-8 text: byte 0xe9"


def test_a_section_that_is_a_value_is_told() -> None:
    assert wrong("tier_a = 5\n", {"LUMBRE_TIER_A_SLOTS": "2"}).startswith("lumbre.toml:1: tier_a: found 5")


def test_an_empty_folder_is_told() -> None:
    assert wrong('[gateway]\nstate_dir = ""\n').startswith("lumbre.toml:2: gateway.state_dir: is empty")


def test_complaints_come_in_spanish() -> None:
    assert wrong("[tier_a]\nslot = 1\n", lang="es") == (
        "lumbre.toml:2: tier_a.slot: no existe ese ajuste; ¿querías decir slots?"
    )
    assert "uno de 'embedded', 'openai' o 'command'" in wrong('[tier_a]\nbackend = "x"\n', lang="es")


def test_a_complaint_shows_no_password_and_no_key() -> None:
    text = '[[tier_a.upstreams]]\nid = "a"\nbase_url = "ftp://me:sk-one@h/v1"\napi_key = "sk-two"\n'
    assert "sk-" not in wrong(text)


def test_variables_that_are_no_settings_are_let_be() -> None:
    load(environ={"LUMBRE_URL": "x", "LUMBRE_KEY": "x", "LUMBRE_LANG": "es", "LUMBREX": "1"})


@pytest.mark.parametrize(
    ("chosen", "environ", "expected"),
    [
        ("es", {"LANG": "en_US.UTF-8"}, "es"),
        ("en", {"LANG": "es_ES.UTF-8"}, "en"),
        (None, {"LANG": "es_ES.UTF-8"}, "es"),
        (None, {"LC_ALL": "C", "LANG": "es_ES.UTF-8"}, "en"),
        (None, {"LC_MESSAGES": "es", "LANG": "en_US"}, "es"),
        (None, {"LUMBRE_LANG": "es", "LC_ALL": "en_US"}, "es"),
        (None, {"LC_ALL": "", "LANG": "es_MX"}, "es"),
        (None, {"LANG": "est_EE"}, "en"),
        (None, {}, "en"),
    ],
)
def test_the_language_is_the_flags_then_the_environments(
    chosen: str | None, environ: dict[str, str], expected: str
) -> None:
    assert settings.language(chosen, environ) == expected


def test_a_secret_is_read_by_the_name_of_its_variable() -> None:
    assert settings.secret("A_KEY", {"A_KEY": " k \n"}) == "k"
    for environ in ({}, {"A_KEY": " "}):
        with pytest.raises(SettingsError, match="A_KEY"):
            settings.secret("A_KEY", environ)


@pytest.mark.parametrize(("lang", "words"), [("en", "printable ASCII"), ("es", "ASCII imprimible")])
def test_a_secret_that_cannot_stand_in_a_header_is_refused(lang: str, words: str) -> None:
    for value in ("k\nHost: evil", "k\rx", "k\x00", "clé", "k\tx"):
        with pytest.raises(SettingsError, match=f"A_KEY.*{words}"):
            settings.secret("A_KEY", {"A_KEY": value}, lang)


def test_the_example_is_well_and_says_every_default() -> None:
    example = ROOT / "lumbre.example.toml"
    environ = {"HOME": "/home/x"}
    loaded = settings.load(config=example, overrides={}, environ=environ)
    assert loaded.settings == settings.load(config=None, overrides={}, environ=environ).settings
    assert {name for name, source in loaded.sources.items() if source == "default"} == IN_COMMENTS


def test_the_examples_comments_are_well_too(tmp_path: Path) -> None:
    text = (ROOT / "lumbre.example.toml").read_text(encoding="utf-8")
    path = tmp_path / "shown.toml"
    path.write_text(re.sub(r"^# (?=\[\[|\w+ = |\")", "", text, flags=re.MULTILINE))
    loaded = settings.load(config=path, overrides={}, environ={})
    assert "default" not in loaded.sources.values()
    upstream = loaded.settings.tier_a.upstreams[0]
    assert set(upstream.model_fields_set) == set(type(upstream).model_fields)
    assert len(loaded.settings.models.alias) == 4


def test_importing_settings_brings_neither_pydantic_nor_asyncio() -> None:
    code = "import sys, lumbre.runtime.settings; print({'pydantic', 'asyncio', 'aiohttp'} & sys.modules.keys())"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"


@pytest.mark.parametrize(
    ("text", "line", "field"),
    [
        (
            '[tier_a]\nbackend = "openai"\n[[tier_a.upstreams]]\nid = "a"\nbase_url = "http://h/v1"\n'
            '[[tier_a.upstreams]]\nbase_url = "http://h/v1"\nid = "a"\n',
            8,
            "tier_a.upstreams[1].id",
        ),
        ('[tier_a]\nbackend = "command"\ncommand = ["llama-server"]\n', 3, "tier_a"),
        ('[tier_a]\nslots = 2\nbackend = "openai"\n', 3, "tier_a"),
    ],
)
def test_a_rule_between_settings_names_the_line_that_breaks_it(
    tmp_path: Path, text: str, line: int, field: str
) -> None:
    path = tmp_path / "lumbre.toml"
    path.write_text(text)
    with pytest.raises(SettingsError, match=re.escape(f"{path}:{line}: {field}")):
        settings.load(config=path, overrides={}, environ={})


def test_an_alias_is_a_model_a_tier_or_a_model_for_each_tier() -> None:
    text = '[models.alias]\n"gpt-*" = "auto"\n"claude-*" = "tier-a"\n"x" = { A = "small", C = "large" }\n'
    loaded = load(text)
    assert loaded.settings.models.alias == {
        "gpt-*": "auto",
        "claude-*": "tier-a",
        "x": {"A": "small", "C": "large"},
    }
    assert loaded.sources["models.alias"] == "lumbre.toml:1"


def test_aliases_in_a_variable_take_the_place_of_the_files() -> None:
    environ = {"LUMBRE_MODELS_ALIAS": '{ "gpt-*" = "auto" }'}
    loaded = load('[models.alias]\n"claude-*" = "auto"\n', environ)
    assert loaded.settings.models.alias == {"gpt-*": "auto"}
    assert loaded.sources["models.alias"] == "LUMBRE_MODELS_ALIAS"


def test_each_wrong_alias_is_told_with_its_line() -> None:
    text = (
        "[models.alias]\n"
        '"" = "auto"\n'
        "number = 5\n"
        'a = "tier-d"\n'
        'b = { D = "x" }\n'
        'c = { A = "tier-b" }\n'
        "d = {}\n"
        '"gpt-*" = ""\n'
    )
    wants_a_target = 'but it must be a model, "auto", a tier, or a table such as { A = "a-model" }'
    assert wrong(text).splitlines() == [
        "7 settings are wrong:",
        'lumbre.toml:2: models.alias."": found "", but it must not be empty',
        f"lumbre.toml:3: models.alias.number: found 5, {wants_a_target}",
        'lumbre.toml:4: models.alias.a: found "tier-d", but there is no such tier; '
        "there are auto, tier-a, tier-b, tier-b/batch, tier-b/express, tier-c",
        "lumbre.toml:5: models.alias.b.D: there is no such tier; there are A, B, C",
        'lumbre.toml:6: models.alias.c.A: found "tier-b", but it must be the name of a model, or "auto"',
        f"lumbre.toml:7: models.alias.d: found {{}}, {wants_a_target}",
        f'lumbre.toml:8: models.alias."gpt-*": found "", {wants_a_target}',
    ]
    assert "no existe ese nivel" in wrong('[models.alias]\na = "tier-d"\n', lang="es")


def test_an_alias_section_that_is_a_value_is_told() -> None:
    assert wrong("[models]\nalias = 5\n").startswith("lumbre.toml:2: models.alias: found 5")


def test_what_an_engine_can_do_may_be_said_or_left_open() -> None:
    text = (
        '[tier_a]\nbackend = "openai"\ntools = true\n[[tier_a.upstreams]]\nid = "a"\n'
        'base_url = "http://127.0.0.1:1/v1"\nimages = false\nendpoints = ["messages"]\ncontext_tokens = 100\n'
    )
    tier_a = load(text).settings.tier_a
    upstream = tier_a.upstreams[0]
    assert (tier_a.tools, tier_a.images, tier_a.endpoints) == (True, None, ())
    assert (upstream.tools, upstream.images, upstream.endpoints) == (None, False, ("messages",))
    assert upstream.context_tokens == 100


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        ("tools = 1", "tier_a.tools: found 1, but it must be true or false"),
        ('endpoints = ["chat"]', "tier_a.endpoints[0]: found \"chat\", but it must be one of 'chat/completions'"),
    ],
)
def test_a_wrong_word_about_an_engine_is_told(line: str, complaint: str) -> None:
    assert wrong(f"[tier_a]\n{line}\n").startswith(f"lumbre.toml:2: {complaint}")


def test_embeddings_have_servers_of_their_own_or_none() -> None:
    assert wrong('[embeddings]\nbackend = "openai"\n').startswith("lumbre.toml:2: embeddings: backend =")
    twice = '[[embeddings.upstreams]]\nid = "a"\nbase_url = "http://127.0.0.1:1/v1"\n' * 2
    assert wrong(twice) == "lumbre.toml:5: embeddings.upstreams[1].id: found \"a\": the id 'a' is used twice"
    assert load('[embeddings]\nbackend = "off"\n').settings.embeddings.backend == "off"
