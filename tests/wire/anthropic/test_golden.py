"""The golden transcripts: what goes in and what must come out, written by hand, byte by byte where they are streams.

Each folder of `golden/anthropic` holds some of these pairs: `request.json` becomes `chat.json`, `chat.sse` becomes
`messages.sse`, `completion.json` becomes `message.json`. The right sides of the last two say the same.
"""

from pathlib import Path

import orjson
import pytest

from golden import Golden, objects, read
from lumbre.api.anthropic_schema import MESSAGES_REQUEST
from lumbre.api.openai_schema import check
from lumbre.wire.anthropic.fold import MessageFold
from lumbre.wire.anthropic.request import to_chat
from lumbre.wire.anthropic.translation import MessageTranslation
from lumbre.wire.openai.fold import Fold

GOLDEN = Golden("anthropic", stream="messages.sse", reply="message.json")


def translation(case: Path) -> MessageTranslation:
    sequences = read(case, "request.json").get("stop_sequences", ()) if (case / "request.json").exists() else ()
    return MessageTranslation("msg_golden", "small", sequences)


def test_the_transcripts_cover_what_they_should() -> None:
    GOLDEN.check_cover(
        *("plain_text", "system_as_text", "system_as_blocks", "image", "tool_loop", "streamed_tool_use"),
        *("interleaved_calls", "stop_sequence", "max_tokens", "reasoning", "nothing_said"),
    )


@pytest.mark.parametrize("case", GOLDEN.with_file("request.json"))
def test_a_request_becomes_the_chat_request(case: Path) -> None:
    body = read(case, "request.json")
    check(body, MESSAGES_REQUEST)
    assert to_chat(body) == read(case, "chat.json")


@pytest.mark.parametrize("case", GOLDEN.with_file("chat.sse"))
def test_a_chat_stream_becomes_the_stream_of_events(case: Path) -> None:
    told = translation(case)
    said = b"".join(told.chunk(chunk) for chunk in objects(case / "chat.sse")) + told.ending()
    assert said.decode() == (case / "messages.sse").read_text(encoding="utf-8")


@pytest.mark.parametrize("case", GOLDEN.with_file("completion.json"))
def test_a_chat_completion_becomes_the_message(case: Path) -> None:
    assert orjson.loads(translation(case).reply(read(case, "completion.json"))) == read(case, "message.json")


@pytest.mark.parametrize("case", GOLDEN.with_file("messages.sse"))
def test_both_forms_of_a_transcript_say_the_same(case: Path) -> None:
    chat, messages = Fold(), MessageFold()
    for chunk in objects(case / "chat.sse"):
        chat.add(chunk)
    for event in objects(case / "messages.sse"):
        messages.add(event)
    assert orjson.loads(chat.body()) == read(case, "completion.json")
    assert orjson.loads(messages.body()) == read(case, "message.json")
