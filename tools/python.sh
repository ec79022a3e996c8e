#!/bin/sh
# Decides which interpreter makes `.venv`, and prints its path. Driven by the Makefile.
# Takes $PYTHON if it is set, else the first of a few usual names that runs, is new enough and can make environments.

# A name on PATH proves nothing: it may be a shim for a version that is not chosen, and Debian ships python3
# without the part that puts pip into an environment. So each candidate is asked to do the work.
probe='
import sys
if sys.version_info < (3, 11):
    print("is Python " + ".".join(map(str, sys.version_info[:3])) + "; Lumbre needs 3.11 or newer")
    sys.exit(3)
try:
    import ensurepip, venv
except ImportError as error:
    print("has no " + str(error.name) + " (on Debian and Ubuntu: apt install python%d.%d-venv)" % sys.version_info[:2])
    sys.exit(3)
print(sys.executable)
'

tried=''
for name in ${PYTHON:-python3 python3.13 python3.12 python3.11}; do
    if ! command -v "$name" >/dev/null 2>&1; then
        tried="$tried
  $name: not found"
        continue
    fi
    { answer=$("$name" -I -c "$probe"); } 2>/dev/null
    case $? in
    0)
        printf '%s\n' "$answer"
        exit 0
        ;;
    3) tried="$tried
  $name $answer" ;;
    *) tried="$tried
  $name does not run" ;;
    esac
done

cat >&2 <<EOF
No Python here can make Lumbre's environment. Tried:$tried

The way out: install Python 3.11, 3.12 or 3.13 with its venv module
(on Debian and Ubuntu: apt install python3 python3-venv), or name one yourself:
  make setup PYTHON=/path/to/python3.12
EOF
exit 1
