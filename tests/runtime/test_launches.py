"""How an engine is started: its line, its order, its key, and what of the gateway's environment it sees."""

import json
import sys
from pathlib import Path

from lumbre.runtime.launches import command_launch, embedded_launch, embeddings_launch
from lumbre.runtime.schema import EmbeddingsSection, Settings, TierASection, UpstreamSection

ENVIRON = {
    "PATH": "/usr/bin",
    "CUDA_VISIBLE_DEVICES": "0",
    "LUMBRE_KEY": "gateway-secret",
    "OTHER_API_KEY": "cloud-secret",
    "HF_TOKEN": "the-operators-own",
}


def command(*words: str) -> TierASection:
    return TierASection(backend="command", command=words, slots=3, context_tokens=1000, model="smol")


def said_after_dashes(argv: tuple[str, ...]) -> tuple[str, ...]:
    return argv[argv.index("--") + 1 :]


def test_placeholders_are_filled_and_other_braces_stay() -> None:
    settings = command(
        "srv", "--port={port}", "{host}", "{key}", "{model}", "{slots}", "{context_tokens}", "{all_context_tokens}",
        '{"a": {}}', "{0}", "{{port}}",
    )  # fmt: skip
    launch = command_launch(settings, environ={})
    assert launch.address is not None
    port = launch.address.rpartition(":")[2]
    assert said_after_dashes(launch.argv) == (
        "srv", f"--port={port}", "127.0.0.1", launch.api_key, "smol", "3", "1000", "3000",
        '{"a": {}}', "{0}", f"{{{port}}}",
    )  # fmt: skip


def test_a_model_file_takes_the_place_of_the_models_name() -> None:
    launch = command_launch(command("{model}", "{port}"), environ={}, model_path=Path("/models/smol.gguf"))
    assert said_after_dashes(launch.argv)[0] == "/models/smol.gguf"


def test_a_command_runs_under_the_guard_with_the_key_where_nobody_else_can_read_it() -> None:
    launch = command_launch(command("srv", "{port}"), environ=ENVIRON)
    assert launch.argv[:4] == (sys.executable, "-P", "-m", "lumbre.backends.guard")
    assert launch.env["LLAMA_API_KEY"] == launch.api_key
    assert not any(launch.api_key in word for word in launch.argv)
    assert (launch.announces, launch.stdin_order) == (False, None)


def test_a_command_sees_the_operators_variables_but_no_key_of_lumbre() -> None:
    upstream = UpstreamSection.model_validate(
        {"id": "cloud", "base_url": "http://127.0.0.1:1/v1", "api_key_env": "OTHER_API_KEY"}
    )
    settings = command("srv", "{port}").model_copy(update={"upstreams": (upstream,)})
    env = command_launch(settings, environ=ENVIRON).env
    assert env["HF_TOKEN"] == "the-operators-own"
    assert env["PATH"] == "/usr/bin"
    assert "secret" not in str(env)
    others = command_launch(command("srv", "{port}"), environ=ENVIRON, withheld=["OTHER_API_KEY"]).env
    assert "secret" not in str(others)


def test_the_embedded_engine_gets_its_key_on_stdin_and_no_secret_of_the_environment() -> None:
    settings = TierASection(slots=3, context_tokens=1000, threads=5, batch_tokens=7)
    launch = embedded_launch(settings, Path("/models/smol.gguf"), alias="smol", environ=ENVIRON)
    assert launch.stdin_order is not None
    assert launch.stdin_order.endswith(b"\n")
    assert json.loads(launch.stdin_order) == {
        "model_path": "/models/smol.gguf",
        "alias": "smol",
        "context_tokens": 1000,
        "slots": 3,
        "threads": 5,
        "batch_tokens": 7,
        "api_key": launch.api_key,
        "embedding": False,
    }
    assert not any(launch.api_key in word for word in launch.argv)
    assert launch.env == {"PATH": "/usr/bin", "CUDA_VISIBLE_DEVICES": "0"}
    assert (launch.announces, launch.address) == (True, None)


def test_the_engine_for_embeddings_has_one_slot_and_a_context_of_its_own() -> None:
    tier_a = TierASection(slots=3, context_tokens=1000, threads=5, batch_tokens=7)
    settings = Settings(tier_a=tier_a, embeddings=EmbeddingsSection(context_tokens=500))
    launch = embeddings_launch(settings, Path("/models/smol.gguf"), alias="smol", environ=ENVIRON)
    assert launch.stdin_order is not None
    assert json.loads(launch.stdin_order) == {
        "model_path": "/models/smol.gguf",
        "alias": "smol",
        "context_tokens": 500,
        "slots": 1,
        "threads": 5,
        "batch_tokens": 0,
        "api_key": launch.api_key,
        "embedding": True,
    }
    assert launch.env == {"PATH": "/usr/bin", "CUDA_VISIBLE_DEVICES": "0"}
    assert launch.context_tokens == 500


def test_every_start_has_a_key_and_a_port_of_its_own() -> None:
    first, second = (command_launch(command("srv", "{port}"), environ={}) for _ in range(2))
    assert first.api_key != second.api_key
    assert len(first.api_key) >= 40
    assert first.address != second.address
    embedded = [embedded_launch(TierASection(), Path("x"), alias="smol", environ={}) for _ in range(2)]
    assert embedded[0].api_key != embedded[1].api_key


def test_the_key_does_not_show_when_a_launch_is_printed() -> None:
    launch = embedded_launch(TierASection(), Path("x"), alias="smol", environ={})
    assert launch.api_key not in repr(launch)
