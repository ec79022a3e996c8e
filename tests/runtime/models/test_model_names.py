"""What a model's name means."""

import pytest

from lumbre.core.errors import OperatorError
from lumbre.runtime.models import HubRef, ModelRef, PathRef, RegistryRef, alias_of, parse


@pytest.mark.parametrize(
    ("name", "ref", "alias"),
    [
        ("smollm2-135m-instruct", RegistryRef("smollm2-135m-instruct"), "smollm2-135m-instruct"),
        ("gemma-3-270m", RegistryRef("gemma-3-270m"), "gemma-3-270m"),
        ("hf:org/some.repo/m.gguf", HubRef("org/some.repo", "m.gguf"), "m"),
        ("hf:org/repo/q4/m-1.5b.gguf@v1.0", HubRef("org/repo", "q4/m-1.5b.gguf", "v1.0"), "m-1.5b"),
        ("hf:org/repo/m.gguf@refs/pr/1", HubRef("org/repo", "m.gguf", "refs/pr/1"), "m"),
        ("/models/big.gguf", PathRef("/models/big.gguf"), "big"),
        ("~/big.gguf", PathRef("~/big.gguf"), "big"),
        ("big.v2.gguf", PathRef("big.v2.gguf"), "big.v2"),
        ("./no-ending", PathRef("./no-ending"), "no-ending"),
    ],
)
def test_a_name_is_a_registry_entry_a_hub_file_or_a_path(name: str, ref: ModelRef, alias: str) -> None:
    assert parse(name) == ref
    assert alias_of(name) == alias
    assert ref.name == name


def test_an_unknown_name_is_refused_with_every_form_that_would_do() -> None:
    with pytest.raises(OperatorError) as failure:
        parse("smollm3")

    assert failure.value.valid == ("smollm2-135m-instruct", "gemma-3-270m")
    for form in ("smollm2-135m-instruct, gemma-3-270m", "hf:owner/repo/path/file.gguf", "./model.gguf"):
        assert form in failure.value.message


@pytest.mark.parametrize(
    "name",
    [
        "hf:",
        "hf:repo/m.gguf",
        "hf:org/repo",
        "hf:org/repo/readme.md",
        "hf:org/repo/../../m.gguf",
        "hf:org/repo//m.gguf",
        "hf:../repo/m.gguf",
        "hf:org/repo/m.gguf@../main",
        "hf:org/repo/m.gguf@",
        "hf:org/repo/a\nb.gguf",
    ],
)
def test_a_hub_name_that_is_not_whole_or_leaves_its_folder_is_refused(name: str) -> None:
    with pytest.raises(OperatorError, match="is no file on a hub"):
        parse(name)


def test_one_piece_of_a_model_in_several_files_is_refused() -> None:
    with pytest.raises(OperatorError, match="one piece of a model in several"):
        parse("hf:org/repo/big-00001-of-00003.gguf")


def test_two_revisions_of_one_file_lie_in_two_folders() -> None:
    assert HubRef("org/repo", "m.gguf").folder == "hf--org--repo"
    assert HubRef("org/repo", "m.gguf", "refs/pr/1").folder == "hf--org--repo@refs%2Fpr%2F1"
