"""The program that fetches one file from a Hugging Face hub. Impure; `hub` starts and ends it.

It says what it finds in lines that begin with `MARK`; any failure that is not named here ends it with a
traceback, whose last line tells the reason. HF_ENDPOINT, HF_TOKEN and the like work by themselves.
"""

import json
import sys

from lumbre.runtime.models import leash

MARK = "lumbre: "
STEP_BYTES = 1 << 20


def main(repo: str, path: str, revision: str, folder: str) -> int:
    """Fetch `path` of `repo` into `folder`; 0, or 1 after saying which known failure it was."""
    leash.hold()
    # Slow to import, and wanted by nobody else.
    from huggingface_hub import constants, errors, get_hf_file_metadata, hf_hub_download, hf_hub_url

    # Bytes reach the disk, where `hub` watches them grow, in steps of this; 10 MiB would look like a stall.
    constants.DOWNLOAD_CHUNK_SIZE = STEP_BYTES
    try:
        facts = get_hf_file_metadata(hf_hub_url(repo, path, revision=revision))
        _say({"size": facts.size, "etag": facts.etag, "commit": facts.commit_hash})
        hf_hub_download(repo, path, revision=facts.commit_hash, local_dir=folder)
    except errors.GatedRepoError:  # before its parent, RepositoryNotFoundError
        return _fail("gated")
    except errors.DisabledRepoError:
        return _fail("disabled")
    except errors.RepositoryNotFoundError:
        return _fail("no_repository")
    except errors.RevisionNotFoundError:
        return _fail("no_revision")
    except errors.RemoteEntryNotFoundError:
        return _fail("no_file")
    except errors.OfflineModeIsEnabled:
        return _fail("offline")
    return 0


def _fail(word: str) -> int:
    _say({"failed": word})
    return 1


def _say(facts: dict[str, object]) -> None:
    sys.stdout.write(f"{MARK}{json.dumps(facts)}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
