# Three commands do everything: `make demo`, `make test` and `make test-all`. They find or start a
# Postgres by themselves and say which; see internal/pgserver. So does `make bench`.

GO ?= go
# The library and the doors to it, which `make test` tests, and the other modules of the workspace. The
# campaigns of proof, which take longest, begin first.
LIBRARY := . ./connectdedup ./gormdedup ./grpcdedup ./internal/rpc ./mcpdedup ./oteldedup ./riverdedup
OTHERS := ./proof ./cmd/dedup ./dedupvet ./examples
MODULES := $(LIBRARY) $(OTHERS)
PACKAGES := $(MODULES:%=%/...)
# Packages of the root module that test what tests, operators and documents are made of.
WORKSHOP := ./dedupweb ./docs ./external/model ./internal/citusdb ./internal/exit ./internal/inspect ./internal/npm ./internal/pgbouncer ./internal/pgserver ./internal/pgtest ./internal/process ./internal/promtool ./internal/recording ./internal/scratchdb
# Packages of the library that start no goroutine. The race detector makes their tests take
# ten times as long; those of internal/contract run their code under it.
PLAIN := ./internal/canon ./internal/sqllex
GOLANGCI := github.com/golangci/golangci-lint/v2/cmd/golangci-lint@v2.15.0
# gotestsum runs go test and says at the end what failed, with its output, and what was skipped.
GOTESTSUM := gotest.tools/gotestsum@v1.13.0
FUZZTIME ?= 30s
# More flags for `make chaos`, such as --seed 7 or --short.
CHAOSFLAGS ?=
# More flags for `make bench`, such as --json FILE.
BENCHFLAGS ?=
# dedupvet type-checks programs, with no goroutine of its own, and the long tests of tool are short ones with more
# arguments and schemas: the race detector would find nothing and cost them most of their time.
SEQUENTIAL := ./dedupvet/...
LONG_SEQUENTIAL := ./tool
# A binary of tests is linked anew each time. Without debugging information that takes two thirds
# of the time; stack traces do not need it.
LINK := -ldflags='-s -w'
# The race detector waits a second at the end of a process for reports of others.
export GORACE ?= atexit_sleep_ms=0
# The race detector needs a C compiler.
RACE := $(if $(shell command -v $${CC:-cc} 2>/dev/null),-race)

.PHONY: help
help: ## Show what there is to make
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: demo
demo: ## Watch recorded agent sessions run under faults, without dedup and with it
	$(GO) run ./proof replay --compare --html demo.html

.PHONY: bench
bench: redis ## Measure what a call costs, beside the bare transaction and the rivals
	$(GO) run ./proof/bench run --redis "$(REDIS)" $(BENCHFLAGS)

.PHONY: bench-check
bench-check: ## Measure shortly and fail if a bound of proof/bench/internal/run/bounds.go is broken
	$(GO) run ./proof/bench run --check

# Takes half an hour and 25 GB below TMPDIR: growth fills tables of 20 million records.
MEASURED := .cache/bench
.PHONY: bench-charts
bench-charts: ## Measure anew what the charts in docs/ show, and draw them
	@mkdir -p $(MEASURED)
	$(GO) run ./proof/bench run --delays 0 --clients 1,2,4,8,16,32 --ways textbook,do,look-first,statement --rounds 9 --json $(MEASURED)/clients.json
	$(GO) run ./proof/bench growth --json $(MEASURED)/growth.json
	$(GO) run ./proof/bench chart --growth $(MEASURED)/growth.json --clients $(MEASURED)/clients.json --out docs

# The long form takes about two and a half hours on two cores, and no load beside it. The
# matrix is tried on PostgreSQL 13 to 18 where their programs can be had.
.PHONY: chaos
chaos: pgbouncer ## Try to break the promise: the long form of every campaign
	@mkdir -p .cache/chaos
	$(GO) build -o .cache/chaos/proof ./proof
	DEDUP_PGBOUNCER="$${DEDUP_PGBOUNCER:-$(PGBOUNCER)}" .cache/chaos/proof chaos all $$(scripts/postgres-versions .cache/postgres | sed 's/^/--bin-dir /') $(CHAOSFLAGS)

.PHONY: model
model: ## Check the protocol of package external with spin: every order of its steps
	$(GO) test -count 1 -v -timeout 60m ./external/model

GOTEST = DEDUP_PGBOUNCER="$${DEDUP_PGBOUNCER:-$(PGBOUNCER)}" DEDUP_PROMTOOL="$${DEDUP_PROMTOOL:-$(PROMTOOL)}" $(GO) run ./internal/pgserver/share $(GO) run $(GOTESTSUM) --format pkgname -- $(LINK) $(RACE) -parallel 8 -timeout 25m

.PHONY: test
test: pgbouncer promtool ## Run the tests of the library and its doors on a real Postgres
	$(if $(RACE),,@echo "no C compiler: running without the race detector")
	@$(GO) test $(LINK) $(PLAIN:%=%/...)
	@$(GOTEST) -skip '^TestLong' $$($(GO) list $(LIBRARY:%=%/...) | grep -vxF "$$($(GO) list $(WORKSHOP:%=%/...) $(PLAIN:%=%/...))")

# Tests that take long are named TestLong…. Those of external/model read nothing but the
# model, which seldom changes, and take four minutes: `make model` runs them.
LONG = $(filter-out $(LONG_SEQUENTIAL) $(OTHERS:%=%%) $(WORKSHOP:%=%%) $(PLAIN:%=%%),$(shell grep -rl --include=*_test.go '^func TestLong' . | xargs -n 1 dirname | sort -u))
.PHONY: test-all
test-all: test redis bench-once ## Run all tests, those that take long too, and name what is skipped
	$(GO) test $(LINK) $(SEQUENTIAL)
	$(GOTEST) -run '^TestLong' $(LONG)
	$(subst -race,,$(GOTEST)) -run '^TestLong' $(LONG_SEQUENTIAL)
	$(GOTEST) -skip '^TestLong' ./external/model
	$(GOTEST) $(filter-out $(SEQUENTIAL),$(OTHERS:%=%/...)) $(filter-out ./external/model/...,$(WORKSHOP:%=%/...))

.PHONY: test-citus
test-citus: ## Run the tests of Citus on the cluster whose nodes DEDUP_CITUS_URLS names
	@test -n "$$DEDUP_CITUS_URLS" || { echo "DEDUP_CITUS_URLS names no Citus cluster; docs/sharded.md says what it is to be"; exit 1; }
	$(GO) test $(LINK) $(RACE) -count 1 -parallel 4 -timeout 25m -run '^TestCitus' ./internal/contract ./external ./cmd/dedup/internal/doctor ./proof/internal/replay

# Some tests run through PgBouncer. Where it is not installed, Debian's package
# is unpacked into .cache, with the libraries that a small system does not bring;
# where that does not work either, those tests say so.
PGBOUNCER := $(CURDIR)/.cache/pgbouncer
.PHONY: pgbouncer
pgbouncer:
	@scripts/unpack pgbouncer "$(PGBOUNCER)" pgbouncer libc-ares2 libevent-2.1-7

# Redis is one of the rivals that the benchmark measures, found in the same ways.
REDIS := $(CURDIR)/.cache/redis
.PHONY: redis
redis:
	@scripts/unpack redis-server "$(REDIS)" redis-server redis-tools libatomic1 libjemalloc2 liblzf1

# promtool tests the rules for alerts, found in the same ways.
PROMTOOL := $(CURDIR)/.cache/prometheus
.PHONY: promtool
promtool:
	@scripts/unpack promtool "$(PROMTOOL)" prometheus

.PHONY: screenshots
screenshots: ## Take the pictures of the console in docs/ anew
	DEDUP_SCREENSHOTS="$(CURDIR)/docs" $(GO) test -count 1 -v -run TestLongConsole/Screenshots ./proof/browsertest

.PHONY: figures
figures: ## Count the code and the way of a call, and compare with the goals
	@$(GO) run ./proof/bench figures

.PHONY: bench-once
bench-once: ## Run every Go benchmark once, so that none rots
	$(GO) test -run '^$$' -bench . -benchtime 1x . ./internal/contract

.PHONY: lint
lint: ## Check formatting, vet, the house rules and the modules' files
	@test -z "$$(gofmt -l .)" || { gofmt -l . ; echo "run gofmt -w on these"; exit 1; }
	$(GO) vet $(PACKAGES)
	@mkdir -p .cache && cp go.work.sum .cache/go.work.sum && $(GO) doc . >/dev/null && cmp go.work.sum .cache/go.work.sum || { echo "go doc changes go.work.sum: commit it as it is now"; exit 1; }
	$(GO) run $(GOLANGCI) run --allow-parallel-runners $(PACKAGES)
	@GO="$(GO)" scripts/tidy -diff $(MODULES)

.PHONY: tidy
tidy: ## Tidy the go.mod and go.sum of every module
	@GO="$(GO)" scripts/tidy $(MODULES)

.PHONY: fuzz
fuzz: ## Fuzz every target for FUZZTIME (30s)
	@scripts/fuzz $(FUZZTIME)

.PHONY: cover
cover: pgbouncer ## Run the tests of the library and show what they do not reach
	DEDUP_PGBOUNCER="$${DEDUP_PGBOUNCER:-$(PGBOUNCER)}" $(GO) test -coverpkg=.,./migrations -coverprofile=.cache/cover.out . ./migrations
	$(GO) tool cover -func=.cache/cover.out | sort -k3 -n | head -40

.PHONY: clean
clean: ## Remove what these commands left behind
	rm -rf .cache bin demo.html
