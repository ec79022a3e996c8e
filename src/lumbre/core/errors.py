"""The one error tree, split by who is to blame. Pure; every door shapes these for its own API.

    LumbreError
    ├── CallerError      the request is at fault: 4xx
    ├── OperatorError    settings, keys, the state folder: the one who runs Lumbre can mend it
    ├── CapacityError    nothing is wrong, but it cannot be served now: 429, 503
    │   └── SwitchClosed
    └── UpstreamError    an engine failed us: 502, 504
        ├── NoConnection, UpstreamCut, BrokenPromise
        └── DeadlineError
            └── ConnectExpired

What is none of these is a fault of ours: a 500 that says so and no more.
"""

from collections.abc import Mapping, Sequence


class LumbreError(Exception):
    """A failure with a stable code.

    Attributes:
        message: what happened and the way out, for a person.
        code: a stable word for programs, such as `model_not_found`.
        status: the HTTP status a door answers with, 400 to 599.
        param: the field of the request that is at fault, such as `messages[0].role`.
        valid: the values that would have been accepted.
        retry_after_s: seconds after which trying again makes sense; whole, at least 1.
        headers: further reply headers, such as `Allow`.
        switch: the kill switch that stands in the way.
    """

    status = 500
    code = "internal"
    kind = "server_error"

    def __init__(
        self,
        message: str,
        *,
        code: str | None = None,
        status: int | None = None,
        param: str | None = None,
        valid: Sequence[str] | None = None,
        retry_after_s: int | None = None,
        headers: Mapping[str, str] | None = None,
        switch: str | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.code = code or self.code
        self.status = status or self.status
        self.param = param
        self.valid = None if valid is None else tuple(valid)
        self.retry_after_s = retry_after_s
        self.headers = dict(headers or {})
        self.switch = switch


class CallerError(LumbreError):
    """The request is at fault; sending it again unchanged cannot help."""

    status = 400
    code = "invalid_request"
    kind = "invalid_request_error"

    def told_by(self, field: str) -> "CallerError":
        """The same about a field that is called otherwise where it is told; this one where it names none, or that."""
        if self.param is None or self.param == field:
            return self
        return CallerError(
            self.message.replace(self.param, field),
            code=self.code,
            status=self.status,
            param=field,
            valid=self.valid,
            retry_after_s=self.retry_after_s,
            headers=self.headers,
        )


class OperatorError(LumbreError):
    """Something that the person who runs Lumbre has to mend.

    Attributes:
        exit_code: what the shell gets: 1 refused or failed, 3 bad settings or input file.
    """

    status = 503
    code = "misconfigured"
    exit_code = 1


class SettingsError(OperatorError):
    """A setting is wrong; the message names the file and line, variable or flag it came from."""

    code = "bad_settings"
    exit_code = 3


class CapacityError(LumbreError):
    """Nothing is wrong with the request, but nobody can serve it now."""

    status = 503
    code = "no_tier"


class SwitchClosed(CapacityError):
    """A kill switch stops all new dispatch to where the request would have gone."""

    code = "switch_closed"


class UpstreamError(LumbreError):
    """An engine failed, was cut, or did not do what it was asked."""

    status = 502
    code = "engine_failed"
    kind = "upstream_error"


class NoConnection(UpstreamError):
    """No connection came about, so nothing was sent, and another attempt is safe."""


class UpstreamCut(UpstreamError):
    """The engine's reply ended before the engine said that it was finished."""

    code = "upstream_cut"


class BrokenPromise(UpstreamError):
    """The engine ignored something that the request asked of it, such as a schema."""

    code = "engine_ignored_request"


class DeadlineError(UpstreamError):
    """One of the five deadlines passed; the code is `deadline_` and its name."""

    status = 504

    def __init__(self, name: str, limit_s: float, message: str) -> None:
        super().__init__(f"{message} within {limit_s:g} s ([deadlines] {name}_s)", code=f"deadline_{name}")
        self.name = name
        self.limit_s = limit_s


class ConnectExpired(DeadlineError):
    """The connect deadline passed; nothing was sent, so another attempt is safe."""
