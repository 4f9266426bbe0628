#!/bin/sh
# Makes the virtual environment named in $1 from the hashed lock file. Says what is missing instead of failing half-way.
set -eu
venv=$1
python=${PYTHON:-python3}

missing() {
    echo "nvshare-guard: $1" >&2
    echo "  fix: $2" >&2
    exit 1
}

command -v "$python" >/dev/null || missing "there is no $python" "apt-get install python3 python3-venv"
"$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' ||
    missing "$("$python" --version) is too old: 3.11 or newer is needed" "make PYTHON=python3.11 …"
"$python" -c 'import venv, ensurepip' 2>/dev/null || missing "$python has no venv module" "apt-get install python3-venv"
command -v gcc >/dev/null || missing "there is no C compiler (gcc)" "apt-get install gcc libc6-dev"
command -v make >/dev/null || missing "there is no make" "apt-get install make"
echo 'int main(void) { return 0; }' | gcc -x c -o /dev/null - 2>/dev/null ||
    missing "gcc cannot link a program: the C library's headers are not here" "apt-get install libc6-dev"
[ -w . ] || missing "this folder is read-only: $(pwd)" "clone into a folder that you may write"

echo "setup: installing the locked requirements into $venv (about a minute the first time)"
"$python" -m venv "$venv"
"$venv/bin/python" -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements/dev.txt
"$venv/bin/python" -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
