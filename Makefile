# The commands for people; `make` alone lists them.

# Tools of this project alone are installed here.
TOOLS := $(CURDIR)/.local/tools
export PATH := $(TOOLS)/bin:$(PATH)

LOCAL = "$${CARGO_TARGET_DIR:-target}/debug/local"
# Tests wait for programs to answer in time, so they come before what else the machine does, if this
# user may decide that, and their stack before them (scripts/test.sh).
AHEAD := $(shell nice -n -15 true 2>&1 | grep -q . || echo nice -n -15)

.PHONY: help run test versions newest bench contract clients console soak fuzz mqi deployment stop lint advisories preflight release smoke cargo nextest
.DEFAULT_GOAL := help

help: ## List the targets
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-11s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

run: cargo ## Start everything locally, show a demonstration, serve until Ctrl-C (PORT=8080; FRONT=rest makes it a REST API; DEMO=0 skips the demonstration; RABBITMQ=4.3 POSTGRESQL=17 choose other versions, KAFKA=1 sends chunks through Kafka; TARGETS=directory adds target profiles, IBM_MQ_LIBRARY=/path/libmqm_r.so loads IBM's client)
	@cargo build --workspace --lib --bins
	@exec $(LOCAL) run

# One build of everything unifies features, so the test run compiles nothing.
test: cargo nextest newest ## Run all tests against a stack of their own, and name the slowest (NEXTEST='-E "package(mq)"' selects some; CONTRACT_SECONDS=45 then runs `make contract`, `make clients` and the short steps of `make console` on the same stack)
	@cargo build --workspace --bins --tests
	@exec $(AHEAD) $(LOCAL) test -- scripts/test.sh $(NEXTEST)

versions: cargo nextest ## Repeat the tests of brokers and database on other versions (VERSIONS="rabbitmq-4.3 postgresql-17", BROKERS_REQUIRED=1 if none may be skipped)
	@cargo build --workspace --bins --tests
	@exec $(AHEAD) scripts/versions.sh $(NEXTEST)

# What differs there is a test like any other.
newest:
	@scripts/brokers.sh make rabbitmq-4.3 || echo "SKIPPED: what differs on RabbitMQ 4.3, which cannot be had here"

# All contenders are optimised as for a release. The stack is the one that tests use.
bench: cargo ## Measure starts, clients, warm requests, idempotency, limits, the ingest and its morning peak, and load tests (ONLY=startup,clients,mq,warm,idempotency,limits,ingest,load,peak,tests or some of them, ROUNDS=4 MESSAGES=100000 STARTS=40 REQUESTS=1000 ITEMS=100000, PEAK_TENANTS=8 WINDOW=30 PEAK_FLOOD=100 PEAK_CHUNKS=200 PEAK_SLOW_MS=2000, BENCH_TEST_SECONDS=20, LIMIT_SECONDS=40; SMOKE=1 only checks that every part runs)
	@scripts/bench.sh $(ONLY)

contract: cargo ## Check responses against openapi.yaml with generated requests (CONTRACT_SECONDS=90 SEED=1, SEED=random)
	@scripts/schemathesis.sh

clients: cargo ## Generate clients from openapi.yaml with other people's generators, and run programs on them (GENERATORS=1 generates with all of them and runs nothing)
	@scripts/clients.sh $(if $(GENERATORS),generators)

console: cargo ## Drive the console in a browser, and check each screen with axe (UPDATE_PICTURES=1 writes the pictures in docs/images anew)
	@UPDATE_PICTURES=$(UPDATE_PICTURES) scripts/console.sh

soak: cargo ## Mix well-behaved and hostile callers; check responses, times and memory (SOAK_SECONDS=1200 SOAK_CALLERS=2 SOAK_HOSTILE=1)
	@cargo build --workspace --bins --tests
	@exec $(LOCAL) test -- "$${CARGO_TARGET_DIR:-target}/debug/benches" soak

fuzz: cargo ## Search for input that the splitter, a parser or the filter of RabbitMQ's frames handles wrongly (ONLY=splitter|item|json|request|frames, TIME=60 seconds each)
	@TIME=$(TIME) scripts/fuzz.sh $(ONLY)

mqi: cargo ## Test the stand-in for IBM MQ with IBM's own client for Python (PYTEST='-k browse' selects some)
	@scripts/mqi.sh $(PYTEST)

deployment: ## Test the template with SAM, CloudFormation's schemas, SAM CLI and the AWS stand-in (PYTEST='-k alarms' selects some)
	@scripts/deployment.sh $(PYTEST)

stop: ## Stop the stacks of this directory, and the processes that a killed stack left running
	@if [ -x $(LOCAL) ]; then exec $(LOCAL) stop; else echo "No stack was ever started in this directory."; fi

lint: cargo ## Check format, clippy, documentation, the template and its security, the contract, the docs, workflows, unused dependencies, licences and sources (ONLY=texts what compiles nothing, ONLY=code the rest)
	@scripts/lint.sh $(ONLY)

advisories: cargo ## Check dependencies for known vulnerabilities, if the database can be fetched
	@scripts/advisories.sh

preflight: ## Check that this machine has the tools to build and deploy
	@scripts/preflight.sh

release: cargo ## Build a release that deploys without a compiler: zips for both architectures, template, checksums, components (FUNCTIONS="status depth")
	@scripts/release.sh

smoke: ## Check a deployment: make smoke API=https://… API_KEY=…
	@scripts/smoke.sh "$(API)" "$(API_KEY)"

# A clone that has compiled nothing begins with what another one of this machine has kept.
cargo:
	@command -v cargo >/dev/null || { echo "cargo is missing: install Rust with rustup (https://rustup.rs)."; exit 1; }
	@scripts/dependencies.sh restore

nextest:
	@scripts/tool.sh cargo-nextest
