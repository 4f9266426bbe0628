#!/bin/sh
# Writes run.txt and dev.txt from pyproject.toml: every version, every hash, no registry's name. Called by `make lock`.
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install --quiet uv
compile() {
    env -u PIP_FIND_LINKS "$work/venv/bin/uv" pip compile --quiet --universal --python-version 3.11 \
        --generate-hashes --no-annotate --no-header pyproject.toml "$@"
}
compile -o requirements/run.txt
compile --extra dev -c requirements/run.txt -o requirements/dev.txt
