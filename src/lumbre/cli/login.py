"""Says who moves a switch or chooses a policy at this shell."""


def login_name() -> str | None:
    """The user's login name; None if the system knows none, as in a container that runs with a bare number."""
    import getpass

    try:
        return getpass.getuser()
    except (OSError, KeyError, ImportError):
        return None
