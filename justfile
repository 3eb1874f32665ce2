# `just --list` is the table of contents; CI calls the same recipes.
export PATH := justfile_directory() / ".venv/bin:" + env("PATH")
# Tests start hundreds of Python processes, each of which takes twice as long without compiled modules: those are kept
# whatever the environment says.
export PYTHONDONTWRITEBYTECODE := ""
members := "libs/joulie-core libs/joulie-api libs/joulie-actuator libs/joulie-cli libs/joulie-devcluster libs/joulie-sim libs/joulie-testing services/operator services/agent services/containers services/extender services/outofband services/ven"

api_tests := "tests/e2e/test_resources.py tests/e2e/test_scheduling.py tests/e2e/test_draining.py tests/e2e/test_planning.py tests/e2e/test_claims.py tests/e2e/test_agent_pod.py tests/e2e/test_kind_files.py libs/joulie-devcluster/tests/test_e2e_cluster.py libs/joulie-devcluster/tests/test_e2e_real_node.py"

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
    uv export --frozen --only-group build --no-emit-workspace --no-header --quiet -o requirements/build.txt
    for s in operator agent containers extender outofband ven; do uv export --frozen --package joulie-$s --no-dev --no-emit-workspace --no-header --quiet -o requirements/$s.txt; done

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

# unit and integration tests on in-process fakes
test *ARGS:
    pytest -n 2 -m "not e2e and not docker and not soak and not long" {{ARGS}}

# the tests that state properties, with 1,000 random examples of each in place of the 100 fixed ones
search *ARGS:
    pytest -n 2 -m "not e2e and not docker and not soak and not long" --hypothesis-profile search --timeout 900 {{ARGS}}

# the end-to-end suite on a real control plane; mostly it waits, so that three processes share the files of tests
e2e *ARGS:
    pytest -n 3 --dist loadfile --no-loadscope-reorder -m "e2e and not long" --timeout 300 --durations 20 {{ARGS}}

# the end-to-end tests that depend on Kubernetes, on the other releases that a cluster can run
e2e-matrix *ARGS:
    for minor in 1.36 1.35 1.34; do \
        JOULIE_KUBERNETES=$minor pytest -n 2 --dist loadfile -m e2e --timeout 300 {{api_tests}} {{ARGS}} || exit; \
    done

# build, start and use the images of the services, on DOCKER_HOST or, as root, on a private engine
docker *ARGS:
    pytest -m docker --timeout 600 {{ARGS}}

# energy by pod on simulated nodes: coverage and width of the bounds, error of the points
attribution *ARGS:
    pytest -s libs/joulie-core/tests/attribution/test_hidden_truth.py {{ARGS}}

# readings of this machine's GPU drivers; changes nothing, skipped without a GPU
gpu *ARGS:
    pytest -s -rs libs/joulie-actuator/tests/hardware/gpu/test_real_driver.py {{ARGS}}
    joulie-agent doctor

# the tests that CI leaves out for their length: kind clusters, cuts of a utility, hours of a demo
long *ARGS:
    pytest -n 3 --dist loadfile --no-loadscope-reorder -m long --timeout 300 --durations 20 {{ARGS}}

# tests that take minutes: thousands of nodes on a real control plane
soak *ARGS:
    pytest -m soak -s --timeout 900 {{ARGS}}

# random faults around a power budget, until a sum of limits is exceeded or the steps (1,000,000) are done
budget-soak *ARGS:
    python -m tools.budget_soak.run {{ARGS}}

# everything that must pass before a change lands
ci: sync lint test (mutants "--changed" "--within" "120") docker e2e

# build the image of a service (operator, agent, containers, extender, outofband, ven) on docker's engine; without one, save it as an archive
image SERVICE:
    python -m joulie_devcluster.containers.images {{SERVICE}}

# build the images of all services, and print their sizes
images:
    python -m joulie_devcluster.containers.images operator agent containers extender outofband ven

# the bill of materials of each image (CycloneDX), in out/sbom; builds images that are not in the cache
sbom:
    python -m tools.sbom out/sbom

# what a user installs, of the commit that is checked out, in out/release: images, chart, wheels, notes, checksums
release *ARGS:
    python -m tools.release {{ARGS}}

# three hours of 40 simulated nodes that sleep and wake, in three minutes on a control plane, with a live table
demo *ARGS: sync
    joulie-demo {{ARGS}}

# what would Joulie save? a day of 20 nodes without any cluster, or of yours: --recording DIR
try *ARGS: sync
    joulie-sim try {{ARGS}}

# a kind cluster whose kube-scheduler calls Joulie's extender, on docker's engine or, as root, without one; --kubernetes MINOR
kind-up *ARGS:
    python -m joulie_devcluster.kind up {{ARGS}}

# 40 simulated nodes on the kind cluster, steered by Joulie, with a live table
kind-demo *ARGS:
    joulie-demo --kind {{ARGS}}

# build the images of the services and load them into the nodes of the kind cluster
kind-load:
    python -m joulie_devcluster.kind load

# delete the kind cluster
kind-down:
    python -m joulie_devcluster.kind down

# custom resource definitions, from the models
crds:
    python -m tools.crds helm/joulie/crds

# the reference pages under docs, from the code
docs:
    python -m tools.settings_page
    python -m tools.policy_page
    python -m tools.score_page
    python -m tools.crd_page
    python -m tools.metrics_page
    python -m tools.kubectl_page
    python -m tools.mutants_page
    python -m tools.placement_drawings

# screenshots of the live page, by Debian's chromium
screenshots:
    python -m tests.live_page.screenshots docs/img

# the modules of protocol buffers
protos:
    python -m tools.protos

# the rules of the chart's roles, from the table of permissions
rbac:
    python -m tools.chart_rules

# the Grafana dashboards of the chart
dashboards:
    python -m tools.dashboards

# the chart's schema of values and its presets, from the settings
schema:
    python -m tools.chart_schema
    python -m tools.chart_presets

# run an experiment (a directory of experiments/) and summarize it; minutes to hours
experiment NAME:
    python -m experiments.run {{NAME}}
    python -m experiments.report {{NAME}}
    python -m experiments.presets

# benchmarks of the services, against limits
bench WHAT *ARGS:
    python bench/{{WHAT}}/run.py {{ARGS}}

# mutated requests, raw sockets and slow clients against a running extender; --bodies N --seed N
fuzz *ARGS:
    python -m tools.fuzz.run {{ARGS}}

# poison in everything that the services watch or read, among 50 good ones; --cases N --seed N --forged --without SERVICE:BULKHEAD
hostile *ARGS:
    python -m tools.hostile.run {{ARGS}}

# sleeping nodes under pods, people, outages and clocks, in virtual time; --seed N --hours H --without KIND
sleep-campaign *ARGS:
    python -m tools.sleep_campaign.run {{ARGS}}

# mutation testing of a module, for example joulie_core.transition: which small changes do its tests not notice?
mutants *ARGS:
    python tools/mutants/run.py {{ARGS}}
