"""Decides whether the project's Python keeps to the shape rules of CONTRIBUTING.md. Driven by `make check`.

Only `main` reads files. A rule is a pure function from a module to its findings. A line that says
`# shape: reason` is excused; a reader judges the reason.
"""

import ast
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from files import project_files

MODULE_LINES = 400
FUNCTION_LINES = 60
PARAMETERS = 8

FOLDERS = ("src", "tests", "tools")
PURE_ROOMS = ("core", "wire", "gateway", "mesh")
PURE_MODULES = (PurePosixPath("src/lumbre/ledger/records.py"),)
"""The pure part of a room that also has a driver."""
READS_ENVIRONMENT = PurePosixPath("src/lumbre/runtime/settings.py")
MODULE_NAMES = {"utils", "util", "helpers", "helper", "common", "manager", "base", "misc"}
WORDS = {"shard": "fragment", "toggle": "switch", "gate": "switch"}
PURE_STDLIB = {
    *("__future__", "abc", "base64", "binascii", "bisect", "codecs", "collections", "contextlib", "copy"),
    *("dataclasses", "datetime", "decimal", "difflib", "email", "enum", "fnmatch", "fractions", "functools"),
    *("hashlib", "heapq", "hmac", "html", "http", "inspect", "ipaddress", "itertools", "json", "keyword"),
    *(
        "math",
        "operator",
        "re",
        "statistics",
        "string",
        "struct",
        "textwrap",
        "types",
        "typing",
        "unicodedata",
    ),
    *("urllib", "zlib"),
}
IMPURE_PARTS = {"urllib.request", "http.client", "http.server", "http.cookiejar"}
IMPURE_CALLS = {"open", "print", "input"}
CLOCK_CALLS = {"now", "utcnow", "today"}
EXCUSE = re.compile(r"#\s*shape:\s*\w+")
UNFINISHED = re.compile(r"#.*\b(?:TO" r"DO|FIX" r"ME|X" r"XX)\b")

Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True)
class Module:
    """One parsed file; `path` is relative to the project."""

    path: PurePosixPath
    lines: list[str]
    tree: ast.Module

    @property
    def room(self) -> str:
        """The room of `src/lumbre` it stands in, or the folder outside it."""
        parts = self.path.parts
        return parts[2] if parts[:2] == ("src", "lumbre") and len(parts) > 3 else parts[0]

    @property
    def is_product(self) -> bool:
        return self.path.parts[0] == "src"


@dataclass(frozen=True)
class Finding:
    """A broken rule. Any of the lines `first` to `last` may carry the excuse."""

    first: int
    last: int
    message: str


def at(node: ast.stmt | ast.expr | ast.excepthandler, message: str) -> Finding:
    return Finding(node.lineno, node.lineno, message)


def sizes(module: Module) -> Iterator[Finding]:
    count = len(module.lines)
    if count > MODULE_LINES:
        yield Finding(1, 1, f"module of {count} lines; at most {MODULE_LINES}")
    for node in ast.walk(module.tree):
        if not isinstance(node, Function):
            continue
        last_of_head = max(node.lineno, node.body[0].lineno - 1)
        length = (node.end_lineno or node.lineno) - node.lineno + 1
        if length > FUNCTION_LINES:
            yield Finding(node.lineno, last_of_head, f"{node.name}: {length} lines; at most {FUNCTION_LINES}")
        given = parameters(node)
        if given > PARAMETERS:
            yield Finding(node.lineno, last_of_head, f"{node.name}: {given} parameters; at most {PARAMETERS}")


def parameters(node: Function) -> int:
    spec = node.args
    plain = [argument.arg for argument in (*spec.posonlyargs, *spec.args)]
    receiver = 1 if plain[:1] in (["self"], ["cls"]) else 0
    return len(plain) - receiver + len(spec.kwonlyargs) + sum(star is not None for star in (spec.vararg, spec.kwarg))


def docstring(module: Module) -> Iterator[Finding]:
    if module.tree.body and ast.get_docstring(module.tree) is None:
        yield Finding(1, 1, "module without a docstring that says what it decides")


def names(module: Module) -> Iterator[Finding]:
    if module.path.stem in MODULE_NAMES:
        yield Finding(1, 1, f"module named {module.path.stem!r}, which says nothing about it")
    for node in ast.walk(module.tree):
        name, line = defined_name(node)
        for word in re.findall(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])", name):
            if better := WORDS.get(word.lower()):
                yield Finding(line, line, f"{name}: this house says {better!r}, not {word.lower()!r}")


def defined_name(node: ast.AST) -> tuple[str, int]:
    match node:
        case ast.ClassDef() | ast.FunctionDef() | ast.AsyncFunctionDef():
            return node.name, node.lineno
        case ast.arg():
            return node.arg, node.lineno
        case ast.Name(ctx=ast.Store()):
            return node.id, node.lineno
        case _:
            return "", 0


def environment(module: Module) -> Iterator[Finding]:
    if not module.is_product or module.path == READS_ENVIRONMENT:
        return
    for node in ast.walk(module.tree):
        for name in uses_of(node, "os"):
            if name in {"environ", "environb", "getenv", "getenvb", "putenv"}:
                yield at_line(node, f"os.{name}: only runtime/settings.py reads the environment")


def sleeps(module: Module) -> Iterator[Finding]:
    for node in ast.walk(module.tree):
        if "sleep" in uses_of(node, "time"):
            yield at_line(node, "time.sleep: wait for the event, with a deadline")


def uses_of(node: ast.AST, library: str) -> list[str]:
    """The names that this node takes from a library: `library.name` or `from library import name`."""
    match node:
        case ast.Attribute(value=ast.Name(id=owner), attr=name) if owner == library:
            return [name]
        case ast.ImportFrom(module=owner, level=0) if owner == library:
            return [alias.name for alias in node.names]
        case _:
            return []


def at_line(node: ast.AST, message: str) -> Finding:
    line = getattr(node, "lineno", 1)
    return Finding(line, line, message)


def blind_excepts(module: Module) -> Iterator[Finding]:
    for node in ast.walk(module.tree):
        if not isinstance(node, ast.ExceptHandler):
            continue
        # What ends in a bare `raise` tidies up and hides nothing.
        passes_on = isinstance(node.body[-1], ast.Raise) and node.body[-1].exc is None
        caught = node.type.elts if isinstance(node.type, ast.Tuple) else [node.type]
        blind = any(
            kind is None or (isinstance(kind, ast.Name) and kind.id in {"Exception", "BaseException"})
            for kind in caught
        )
        if blind and not passes_on:
            yield at(node, "blind except: name the errors")


def unfinished(module: Module) -> Iterator[Finding]:
    for number, line in enumerate(module.lines, start=1):
        if UNFINISHED.search(line):
            yield Finding(number, number, "a note of unfinished work; file an issue")
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Raise) and "NotImplementedError" in ast.dump(node):
            yield at(node, "NotImplementedError: build it or leave it out")


def state(module: Module) -> Iterator[Finding]:
    """No globals that change, and nothing done by being imported."""
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Global):
            yield at(node, "global: give the state an owner")
    for statement in module.tree.body if module.is_product else ():
        if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call):
            yield at(statement, "a call at import; nothing happens at import")


def purity(module: Module) -> Iterator[Finding]:
    if module.room not in PURE_ROOMS and module.path not in PURE_MODULES:
        return
    for node in ast.walk(module.tree):
        match node:
            case ast.Import():
                for alias in node.names:
                    yield from impure_import(node, alias.name)
            case ast.ImportFrom(module=str(owner), level=0):
                yield from impure_import(node, owner, [alias.name for alias in node.names])
            case ast.AsyncFunctionDef() | ast.Await() | ast.AsyncFor() | ast.AsyncWith():
                yield at(node, f"{module.room} is pure: it never awaits")
            case ast.Call(func=ast.Name(id=name)) if name in IMPURE_CALLS:
                yield at(node, f"{module.room} is pure: it never calls {name}()")
            case ast.Call(func=ast.Attribute(attr=name)) if name in CLOCK_CALLS:
                yield at(node, f"{module.room} is pure: the time comes in as an argument, not from .{name}()")


def impure_import(node: ast.stmt, owner: str, taken: list[str] | None = None) -> Iterator[Finding]:
    top = owner.split(".")[0]
    parts = {owner, *(f"{owner}.{name}" for name in taken or ())}
    if (top in sys.stdlib_module_names and top not in PURE_STDLIB) or parts & IMPURE_PARTS:
        yield at(
            node,
            f"import of {owner} in a pure room: no clock, disk, socket, thread, randomness, logging or await",
        )


RULES = (sizes, docstring, names, environment, sleeps, blind_excepts, unfinished, state, purity)


def findings(module: Module) -> Iterator[Finding]:
    for rule in RULES:
        for finding in rule(module):
            if not any(EXCUSE.search(line) for line in module.lines[finding.first - 1 : finding.last]):
                yield finding


def main(arguments: list[str]) -> int:
    """Print `file:line: message` for each finding under the project given (default: this one); 1 if any."""
    root = Path(arguments[0]) if arguments else Path(__file__).resolve().parent.parent
    count = 0
    for path in project_files(root):
        name = PurePosixPath(path.relative_to(root).as_posix())
        if path.suffix != ".py" or name.parts[0] not in FOLDERS:
            continue
        text = path.read_text(encoding="utf-8")
        module = Module(name, text.splitlines(), ast.parse(text, filename=str(path)))
        for finding in sorted(findings(module), key=lambda finding: finding.first):
            count += 1
            sys.stdout.write(f"{name}:{finding.first}: {finding.message}\n")
    return 1 if count else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
