# The main commands are `make demo`, `make test` and `make test-all`. They and `make bench` find or
# start a Postgres server and print which one; see internal/pgserver.

GO ?= go
# `make test` tests LIBRARY, the library and its doors. OTHERS are the other modules of the workspace;
# proof takes longest and comes first.
LIBRARY := . ./connectdedup ./gormdedup ./grpcdedup ./internal/rpc ./mcpdedup ./oteldedup ./riverdedup
OTHERS := ./proof ./cmd/dedup ./dedupvet ./examples
MODULES := $(LIBRARY) $(OTHERS)
PACKAGES := $(MODULES:%=%/...)
# A module for each framework for agents, outside go.work: no one set of versions builds them all.
AGENTS := $(patsubst %/go.mod,./%,$(wildcard examples/agents/*/go.mod))
# Packages of the root module for tests, operators and documents. `make test-all` tests them.
WORKSHOP := ./dedupweb ./docs ./external/model ./internal/agentkill ./internal/citusdb ./internal/exit ./internal/inspect ./internal/npm ./internal/pgbouncer ./internal/pgserver ./internal/pgtest ./internal/process ./internal/promtool ./internal/recording ./internal/scratchdb
# Packages of the library that start no goroutine. The race detector makes their tests ten times
# slower; the tests of internal/contract run the same code under it.
PLAIN := ./internal/canon ./internal/sqllex
GOLANGCI := github.com/golangci/golangci-lint/v2/cmd/golangci-lint@v2.15.0
GOVULNCHECK := golang.org/x/vuln/cmd/govulncheck@v1.9.0
# gotestsum runs go test and lists failed and skipped tests at the end.
GOTESTSUM := gotest.tools/gotestsum@v1.13.0
FUZZTIME ?= 30s
# More flags for `make chaos`, such as --seed 7 or --short.
CHAOSFLAGS ?=
# More flags for `make bench`, such as --json FILE.
BENCHFLAGS ?=
# The tests of `make agents`. -run ^TestLong kills each agent 1,000 times.
AGENTSFLAGS ?= -skip ^TestLong
# $(call test-agents,FLAGS) runs the tests of every agent, without the race detector: the SDKs take
# minutes to compile.
test-agents = $(GO) run ./internal/pgserver/share sh -ec "for m in $(AGENTS); do GOWORK=off $(GO) -C \$$m test $(LINK) $(VETTED) -v -timeout 60m $1 ./...; done"
# These run without the race detector, which would take most of their time and find nothing: dedupvet
# starts no goroutine, and the long tests of tool are its short ones with more inputs.
SEQUENTIAL := ./dedupvet/...
LONG_SEQUENTIAL := ./tool
# `make lint` vets the tests too.
VETTED := -vet=off
# Every run links the test binaries again. Without debugging information that takes a third less
# time; stack traces do not need it.
LINK := -ldflags='-s -w'
# By default the race detector makes a process wait one second before it exits.
export GORACE ?= atexit_sleep_ms=0
# The race detector needs a C compiler.
RACE := $(if $(shell command -v $${CC:-cc} 2>/dev/null),-race)

.PHONY: help
help: ## List the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: demo
demo: ## Watch recorded agent sessions run under faults, without dedup and with it
	$(GO) run ./proof replay --compare --html demo.html

.PHONY: bench
bench: redis ## Measure what a call costs, beside the bare transaction and the rivals
	$(GO) run ./proof/bench run --redis "$(REDIS)" $(BENCHFLAGS)

.PHONY: bench-check
bench-check: ## Measure briefly and fail if a bound of proof/bench/internal/run/bounds.go is broken
	$(GO) run ./proof/bench run --check

# Takes half an hour and 25 GB below TMPDIR: growth fills tables of 20 million records.
MEASURED := .cache/bench
.PHONY: bench-charts
bench-charts: ## Measure again for the charts in docs/, and draw them
	@mkdir -p $(MEASURED)
	$(GO) run ./proof/bench run --delays 0 --clients 1,2,4,8,16,32 --ways textbook,do,look-first,statement --rounds 9 --json $(MEASURED)/clients.json
	$(GO) run ./proof/bench growth --json $(MEASURED)/growth.json
	$(GO) run ./proof/bench chart --growth $(MEASURED)/growth.json --clients $(MEASURED)/clients.json --out docs

# Takes about two hours on two idle cores.
.PHONY: chaos
chaos: ## Try to break the promise: the long form of every campaign
	@mkdir -p .cache/chaos
	$(GO) build -o .cache/chaos/proof ./proof
	.cache/chaos/proof chaos all $(CHAOSFLAGS)

.PHONY: model
model: ## Check the protocol of package external with spin: every order of its steps
	$(GO) test -count 1 -v -timeout 60m ./external/model

GOTEST = DEDUP_PGBOUNCER="$${DEDUP_PGBOUNCER:-$(PGBOUNCER)}" DEDUP_PROMTOOL="$${DEDUP_PROMTOOL:-$(PROMTOOL)}" $(GO) run ./internal/pgserver/share $(GO) run $(GOTESTSUM) --format pkgname -- $(LINK) $(RACE) $(VETTED) -parallel 8 -timeout 60m

.PHONY: test
test: pgbouncer promtool ## Run the tests of the library and its doors on a real Postgres
	$(if $(RACE),,@echo "no C compiler: running without the race detector")
	@$(GO) test $(LINK) $(VETTED) $(PLAIN:%=%/...)
	@$(GOTEST) -skip '^TestLong' $$($(GO) list $(LIBRARY:%=%/...) | grep -vxF "$$($(GO) list $(WORKSHOP:%=%/...) $(PLAIN:%=%/...))")

# Slow tests are named TestLong…. Those of external/model depend only on the model, which seldom
# changes, and take four minutes; `make model` runs them.
LONG = $(filter-out $(LONG_SEQUENTIAL) $(OTHERS:%=%%) $(WORKSHOP:%=%%) $(PLAIN:%=%%),$(shell grep -rl --include=*_test.go '^func TestLong' . | xargs -n 1 dirname | sort -u))
.PHONY: test-all
test-all: test redis ## Run all tests, including the slow ones, and list the skipped ones
	@$(MAKE) --no-print-directory -j 2 test-campaigns test-rest test-agents

# The campaigns in their short forms. They mostly wait for leases, servers and processes, so the other
# tests run beside them. internal/contract makes the same calls under the race detector.
CAMPAIGNS := ./proof/internal/chaos
.PHONY: test-campaigns
test-campaigns:
	$(subst $(RACE),,$(GOTEST)) $(CAMPAIGNS)

# Packages that wait come first, and then the longest.
.PHONY: test-rest
test-rest:
	$(GO) test $(LINK) $(VETTED) $(SEQUENTIAL)
	$(GOTEST) -run '^TestLong' ./riverdedup ./internal/contract $(LONG)
	$(subst $(RACE),,$(GOTEST)) -run '^TestLong' $(LONG_SEQUENTIAL)
	$(GOTEST) -skip '^TestLong' ./external/model
	$(GOTEST) ./cmd/dedup $$($(GO) list $(filter-out $(SEQUENTIAL),$(OTHERS:%=%/...)) $(filter-out ./external/model/...,$(WORKSHOP:%=%/...)) | grep -vxF "$$($(GO) list $(CAMPAIGNS))")

.PHONY: test-agents
test-agents:
	@$(call test-agents,-skip ^TestLong)

.PHONY: test-versions
test-versions: pgbouncer ## Run all tests of the contract on PostgreSQL 13 to 18
	set -e; for programs in $$(scripts/postgres-versions .cache/postgres); do \
		$(subst pgserver/share,pgserver/share -programs "$$programs",$(GOTEST)) ./internal/contract; done

.PHONY: agents
agents: ## Lint the agents of examples/agents, and kill each at every step
	@GO="$(GO)" scripts/tidy -diff $(AGENTS)
	@set -e; for m in $(AGENTS); do (cd $$m && GOWORK=off $(GO) run $(GOLANGCI) run --allow-parallel-runners ./...); done
	$(call test-agents,$(AGENTSFLAGS))

.PHONY: test-citus
test-citus: ## Run the tests of Citus on the cluster whose nodes DEDUP_CITUS_URLS names
	@test -n "$$DEDUP_CITUS_URLS" || { echo "DEDUP_CITUS_URLS names no Citus cluster; docs/sharded.md describes the cluster"; exit 1; }
	$(GO) test $(LINK) $(RACE) -count 1 -parallel 4 -timeout 25m -run '^Test(Long)?Citus' ./internal/contract ./external ./cmd/dedup/internal/doctor

# Some tests need PgBouncer. If it is not installed, scripts/unpack unpacks Debian's package and its
# libraries into .cache. If that fails too, those tests are skipped with a message.
PGBOUNCER := $(CURDIR)/.cache/pgbouncer
.PHONY: pgbouncer
pgbouncer:
	@scripts/unpack pgbouncer "$(PGBOUNCER)" pgbouncer libc-ares2 libevent-2.1-7

# The benchmark compares with Redis, which is found in the same way.
REDIS := $(CURDIR)/.cache/redis
.PHONY: redis
redis:
	@scripts/unpack redis-server "$(REDIS)" redis-server redis-tools libatomic1 libjemalloc2 liblzf1

# promtool tests the alert rules. It is found in the same way.
PROMTOOL := $(CURDIR)/.cache/prometheus
.PHONY: promtool
promtool:
	@scripts/unpack promtool "$(PROMTOOL)" prometheus

.PHONY: screenshots
screenshots: ## Make the screenshots of the console in docs/
	DEDUP_SCREENSHOTS="$(CURDIR)/docs" $(GO) test -count 1 -v -run TestLongConsole/Screenshots ./proof/browsertest

.PHONY: lint
lint: ## Check formatting, the house rules, vet among them, and the modules' files
	@test -z "$$(gofmt -l .)" || { gofmt -l . ; echo "run gofmt -w on these"; exit 1; }
	@mkdir -p .cache && cp go.work.sum .cache/go.work.sum && $(GO) doc . >/dev/null && cmp go.work.sum .cache/go.work.sum || { echo "go doc changed go.work.sum: commit the change"; exit 1; }
	$(GO) run $(GOLANGCI) run --allow-parallel-runners $(PACKAGES)
	@GO="$(GO)" scripts/tidy -diff $(MODULES)

.PHONY: vulns
vulns: ## Look for known vulnerabilities in what each module calls
	@failed=; for m in $(MODULES); do $(GO) -C $$m run $(GOVULNCHECK) ./... || failed="$$failed $$m"; done; test -z "$$failed" || { echo "govulncheck failed in$$failed"; exit 1; }

# scripts/release has the list of platforms.
PLATFORMS = $(shell sed -n 's/^for platform in \(.*\); do$$/\1/p' scripts/release)
.PHONY: platforms
platforms: ## Build the programs of a release for every platform
	$(if $(PLATFORMS),,$(error scripts/release lists no platforms))
	set -e; for platform in $(PLATFORMS); do for program in cmd/dedup dedupvet; do \
		CGO_ENABLED=0 GOOS=$${platform%/*} GOARCH=$${platform#*/} $(GO) -C $$program build -o /dev/null .; done; done

.PHONY: tidy
tidy: ## Tidy the go.mod and go.sum of every module
	@GO="$(GO)" scripts/tidy $(MODULES) $(AGENTS)

.PHONY: fuzz
fuzz: ## Fuzz every target for FUZZTIME (30s)
	@scripts/fuzz $(FUZZTIME)

.PHONY: clean
clean: ## Remove the files that these commands make
	rm -rf .cache bin dist demo.html
