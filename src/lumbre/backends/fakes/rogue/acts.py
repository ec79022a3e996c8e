"""Everything the rogue can do to a client, one act each; `ACTS` is the table. Driven by `rogue.server`."""

import gzip
import json
from collections.abc import Awaitable, Callable
from dataclasses import replace

from lumbre.backends.fakes.rogue.exchange import EVENTS, JSON, Exchange
from lumbre.backends.fakes.rogue.message_script import (
    write_message,
    write_message_error,
    write_message_error_event,
    write_message_script,
)
from lumbre.backends.fakes.rogue.obedience import deed_of, last_words, write_deed, write_deed_events
from lumbre.backends.fakes.rogue.script import (
    Script,
    write_error,
    write_error_event,
    write_reply,
    write_script,
)
from lumbre.backends.fakes.rogue.vectors import write_vectors

HTML = "text/html; charset=utf-8"
PAGE = b"<html><head><title>502 Bad Gateway</title></head><body>nginx</body></html>"
RATE_HEADERS = {
    "x-ratelimit-limit-requests": "60",
    "x-ratelimit-remaining-requests": "0",
    "x-ratelimit-reset-requests": "1s",
}

Act = Callable[[Exchange], Awaitable[None]]


def _script(play: Exchange) -> Script:
    return write_message_script(play.ask) if play.messages else write_script(play.ask, play.chat)


def _reply(play: Exchange) -> bytes:
    if play.path.endswith("/embeddings"):
        return write_vectors(play.wish, play.given)
    return write_message(play.ask) if play.messages else write_reply(play.ask, play.chat)


def _begun(play: Exchange, script: Script) -> tuple[bytes, ...]:
    return () if play.wish.bare else script.opening + script.contents


async def _stream(play: Exchange) -> None:
    await play.head(200, EVENTS)
    await play.write_events(_script(play).events)
    await play.end()


async def _json(play: Exchange) -> None:
    await play.reply(200, JSON, _reply(play))


async def answer(play: Exchange) -> None:
    """Behave: a stream or a JSON reply, as asked."""
    await play.pause(play.wish.silent_s) if play.wish.silent_s else None
    await (_stream(play) if play.ask.stream else _json(play))


async def recite(play: Exchange) -> None:
    """Send `text` as the whole reply, to the letter: a stream of events, or one JSON object, as asked."""
    text = play.wish.text.encode()
    if not play.ask.stream:
        await play.reply(200, JSON, text)
        return
    await play.head(200, EVENTS)
    await play.write_events(event + b"\n\n" for event in text.split(b"\n\n") if event)
    await play.end()


async def obey(play: Exchange) -> None:
    """Do what the conversation says; see `rogue.obedience`."""
    deed = deed_of(json.loads(play.given))
    if not play.ask.stream:
        await play.reply(200, JSON, write_deed(deed))
        return
    await play.head(200, EVENTS)
    await play.write_events(write_deed_events(deed, usage=play.ask.include_usage))
    await play.end()


async def echo(play: Exchange) -> None:
    """Say the conversation's last turn as it came; with `tool_arguments`, as the argument `said` of a call."""
    said = last_words(json.loads(play.given))
    if play.wish.tool_arguments:
        wish = replace(play.wish, tool_arguments=json.dumps({"said": said}, ensure_ascii=False))
    else:
        wish = replace(play.wish, text=said)
    play.ask = replace(play.ask, wish=wish)
    await answer(play)


async def no_header(play: Exchange) -> None:
    """Take the request and say nothing at all."""
    await play.until_gone()


async def silent(play: Exchange) -> None:
    """Send the head at once, then nothing for `silent_s` (0: for ever), then the answer: a long prefill."""
    body = _reply(play)
    await (play.head(200, EVENTS) if play.ask.stream else play.head(200, JSON, len(body)))
    await (play.pause(play.wish.silent_s) if play.wish.silent_s else play.until_gone())
    await (play.write_events(_script(play).events) if play.ask.stream else play.write(body))
    await play.end()


async def stall(play: Exchange) -> None:
    """Say `chunks` pieces (JSON: half the body) and then nothing more."""
    if play.ask.stream:
        script = _script(play)
        await play.head(200, EVENTS)
        await play.write_events(script.opening + script.contents)
    else:
        body = _reply(play)
        await play.head(200, JSON, len(body))
        await play.write(body[: len(body) // 2])
    await play.until_gone()


async def hum(play: Exchange) -> None:
    """Open a stream and send nothing but a comment every `pause_s`: alive, and without a token."""
    await play.head(200, EVENTS)
    while True:
        await play.write(b": the rogue hums" + play.wish.newline.encode() * 2)
        await play.pause(play.wish.pause_s or 0.05)


async def drip(play: Exchange) -> None:
    """Never come to an end: one piece (JSON: one space) every `pause_s`."""
    script = _script(play)
    await (play.head(200, EVENTS) if play.ask.stream else play.head(200, JSON))
    if play.ask.stream:
        await play.write_events(script.opening)
    while True:
        for piece in script.contents if play.ask.stream else (b" ",):
            await play.write(piece)
            await play.pause(play.wish.pause_s or 0.05)


async def cut(play: Exchange) -> None:
    """Close the connection after `chunks` pieces, before or after the finish is told; JSON: midway."""
    if play.ask.stream:
        script = _script(play)
        await play.head(200, EVENTS)
        await play.write_events(_begun(play, script) + ((script.finish,) if play.wish.finished else ()))
    else:
        body = _reply(play)
        await play.head(200, JSON)
        await play.write(body[: len(body) // 2])
    play.cut(play.wish.reset)


async def cut_before_head(play: Exchange) -> None:
    """Close the connection without a word."""
    play.cut(play.wish.reset)


async def cut_in_head(play: Exchange) -> None:
    """Close the connection in the middle of a header line."""
    await play.write_raw(b"HTTP/1.1 200 OK\r\nContent-Ty")
    play.cut(play.wish.reset)


async def cut_in_event(play: Exchange) -> None:
    """End the chunked body in good order, in the middle of an event."""
    script = _script(play)
    await play.head(200, EVENTS)
    await play.write_events((*script.opening, *script.contents, script.finish[:-20]))
    await play.end()


async def end_unfinished(play: Exchange) -> None:
    """End the stream in good order without having said that the answer is finished."""
    script = _script(play)
    await play.head(200, EVENTS)
    await play.write_events(script.opening + script.contents)
    await play.end()


async def done_unfinished(play: Exchange) -> None:
    """Send [DONE] without any finish_reason."""
    script = _script(play)
    await play.head(200, EVENTS)
    await play.write_events((*script.opening, *script.contents, script.done))
    await play.end()


async def no_done(play: Exchange) -> None:
    """Finish the answer but leave [DONE] out."""
    script = _script(play)
    await play.head(200, EVENTS)
    await play.write_events((*script.opening, *script.contents, script.finish))
    await play.end()


async def truncated(play: Exchange) -> None:
    """Send half a JSON body, with a length that is honest about it or not, and close after a pause."""
    body = _reply(play)
    half = body[: len(body) // 2]
    await play.head(200, JSON, len(half) if play.wish.honest else len(body))
    await play.write(half)
    if play.wish.pause_s:
        await play.pause(play.wish.pause_s)
    play.cut()


async def not_json(play: Exchange) -> None:
    """Call something JSON that is none."""
    await play.reply(200, JSON, b"I am a teapot, short and stout")


async def wrong_json(play: Exchange) -> None:
    """Send JSON that is no answer."""
    await play.reply(200, JSON, b'{"status": "fine"}')


async def html(play: Exchange) -> None:
    """Answer with a proxy's error page."""
    await play.reply(play.wish.status, HTML, PAGE)


async def empty(play: Exchange) -> None:
    """Answer 200 with nothing."""
    await play.reply(200, JSON, b"")


async def empty_stream(play: Exchange) -> None:
    """Open a stream and end it without an event."""
    await play.head(200, EVENTS)
    await play.end()


async def redirect(play: Exchange) -> None:
    """Send the client somewhere else; `/rogue/trap` records whoever follows."""
    await play.reply(302, JSON, b"{}", {"Location": "/rogue/trap"})


async def refuse(play: Exchange) -> None:
    """Answer with `status` and an error in the API's shape; 429 and 503 with rate-limit headers."""
    extra = RATE_HEADERS if play.wish.status in {429, 503} else {}
    if play.wish.retry_after:
        extra = {**extra, "Retry-After": play.wish.retry_after}
    error = write_message_error(play.wish.status) if play.messages else write_error(play.wish.status)
    await play.reply(play.wish.status, JSON, error, extra)


async def error_event(play: Exchange) -> None:
    """Break in the middle of a stream, as vendors do: an error event, then the end."""
    script = _script(play)
    await play.head(200, EVENTS)
    last = write_message_error_event(play.wish) if play.messages else write_error_event(play.wish)
    await play.write_events((*_begun(play, script), last))
    await play.end()


async def garbage(play: Exchange) -> None:
    """Answer with bytes that are not HTTP."""
    await play.write_raw(b"\x00\xffSSH-2.0-rogue\r\n\r\n")
    play.cut()


async def bad_framing(play: Exchange) -> None:
    """Break the chunked framing in the middle of a stream."""
    script = _script(play)
    await play.head(200, EVENTS)
    await play.write_events(script.opening + script.contents)
    await play.write_raw(b"zz\r\nno chunk\r\n")
    await play.until_gone()


async def huge(play: Exchange) -> None:
    """Send a reply of `size_bytes`: JSON, or one endless line of a stream."""
    opening = b"data: {" if play.ask.stream else b'{"filler": "'
    await (play.head(200, EVENTS) if play.ask.stream else play.head(200, JSON, play.wish.size_bytes))
    await play.write(opening)
    left = play.wish.size_bytes - len(opening)
    while left > 0:
        await play.write(b"x" * min(left, 65_536))
        left -= 65_536
    await play.end()


async def zipped(play: Exchange) -> None:
    """Compress the JSON reply whether or not that was asked for."""
    await play.reply(200, JSON, gzip.compress(_reply(play), mtime=0), {"Content-Encoding": "gzip"})


ACTS: dict[str, Act] = {
    "answer": answer,
    "recite": recite,
    "obey": obey,
    "echo": echo,
    "no_header": no_header,
    "silent": silent,
    "stall": stall,
    "hum": hum,
    "drip": drip,
    "cut": cut,
    "cut_before_head": cut_before_head,
    "cut_in_head": cut_in_head,
    "cut_in_event": cut_in_event,
    "end_unfinished": end_unfinished,
    "done_unfinished": done_unfinished,
    "no_done": no_done,
    "truncated": truncated,
    "not_json": not_json,
    "wrong_json": wrong_json,
    "html": html,
    "empty": empty,
    "empty_stream": empty_stream,
    "redirect": redirect,
    "refuse": refuse,
    "error_event": error_event,
    "json_for_stream": _json,
    "stream_for_json": _stream,
    "garbage": garbage,
    "bad_framing": bad_framing,
    "huge": huge,
    "zipped": zipped,
}
