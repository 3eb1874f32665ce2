# `just --list` is the table of contents; CI calls the same recipes.
export PATH := justfile_directory() / ".venv/bin:" + env("PATH")
members := "libs/joulie-core libs/joulie-api libs/joulie-devcluster libs/joulie-sim services/operator services/agent services/extender"

# show this list
default:
    @just --list --unsorted

# install every dependency and the workspace's own packages into .venv
sync:
    uv pip install --quiet --require-hashes -r requirements/dev.txt
    uv pip install --quiet --no-deps --no-build-isolation $(for m in {{members}}; do printf -- '-e %s ' $m; done)

# resolve the workspace again and write the pinned, hashed requirements
lock:
    uv lock
    uv export --frozen --all-packages --all-groups --no-emit-workspace --no-header --quiet -o requirements/dev.txt
    uv export --frozen --only-group tools --no-emit-workspace --no-header --quiet -o requirements/tools.txt
    for s in operator agent extender; do uv export --frozen --package joulie-$s --no-dev --no-emit-workspace --no-header --quiet -o requirements/$s.txt; done

# format the code
fmt:
    ruff format .
    ruff check --fix-only --quiet .

# style, types and the dependency directions
lint:
    ruff format --check .
    ruff check .
    mypy
    lint-imports --no-cache
