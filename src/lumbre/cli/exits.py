"""Decides what the shell gets as exit status. Pure; every command of the cli asks."""

from lumbre.core.errors import LumbreError, OperatorError

OK = 0
FAILED = 1
USAGE = 2
UNREACHABLE = 4
NO_ROUTE = 5
INTERRUPTED = 130


def exit_of(error: LumbreError) -> int:
    """The status for an error that nobody mended."""
    if error.code == "no_route":
        return NO_ROUTE
    return error.exit_code if isinstance(error, OperatorError) else FAILED


class GatewayUnreachableError(OperatorError):
    """No gateway answers at the address."""

    code = "gateway_unreachable"
    exit_code = UNREACHABLE


class RequestFailedError(OperatorError):
    """The gateway answered with an error, or its answer broke off."""

    code = "request_failed"
