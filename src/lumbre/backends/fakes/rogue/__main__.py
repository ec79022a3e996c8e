"""Starts the rogue on loopback and prints its address as one JSON line; `--leash` ends it with its stdin."""

import argparse
import asyncio
import json
import sys

from lumbre.backends.fakes.rogue.server import Rogue


async def serve(port: int, leash: bool) -> None:
    """Serve until cancelled, or until standard input ends when on a leash."""
    loop = asyncio.get_running_loop()
    server = await loop.create_server(Rogue().new_connection, "127.0.0.1", port, backlog=512)
    port = server.sockets[0].getsockname()[1]
    sys.stdout.write(json.dumps({"event": "listening", "url": f"http://127.0.0.1:{port}", "port": port}) + "\n")
    sys.stdout.flush()
    if leash:
        await loop.run_in_executor(None, sys.stdin.read)
        server.close()
        return
    await server.serve_forever()


def main() -> None:
    parser = argparse.ArgumentParser(prog="rogue", description="An OpenAI-like server that misbehaves on purpose.")
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--leash", action="store_true", help="end when standard input ends")
    asked = parser.parse_args()
    try:
        asyncio.run(serve(asked.port, asked.leash))
    except KeyboardInterrupt:
        sys.exit(130)


if __name__ == "__main__":
    main()
