# Teak's commands. `make help` lists them; each says what it does while it does it.

SHELL := /bin/bash
.DEFAULT_GOAL := help
MAKEFLAGS += --no-builtin-rules
JOBS ?= $(shell nproc)

BUILD := build
# MariaDB's source: what scripts/setup.sh unpacked, or MARIADB_SOURCE=DIR.
SOURCE := $(or $(MARIADB_SOURCE),$(BUILD)/mariadb-source)
SERVER_HEADERS ?= /usr/include/mariadb/server
TARGET_DIR := $(or $(CARGO_TARGET_DIR),target)

# ---- the plugin ------------------------------------------------------------------------------------------------------

# OBJECTS is where one flavour of the plugin is compiled: the ordinary one, or the one for AddressSanitizer.
FLAVOUR ?= release
OBJECTS := $(BUILD)/plugin-$(FLAVOUR)
ifeq ($(FLAVOUR),asan)
PLUGIN := $(BUILD)/asan/ha_teak.so
# The server was built without the sanitizer: what its headers change for one (layouts, poisoned memory) must not be.
FLAVOUR_FLAGS := -fsanitize=address -U__SANITIZE_ADDRESS__ -fno-omit-frame-pointer -O1 -g
else
PLUGIN := $(BUILD)/ha_teak.so
FLAVOUR_FLAGS := -O2 -g
endif

CXX ?= g++
CXXFLAGS ?=
PLUGIN_FLAGS := -std=gnu++17 -fPIC $(FLAVOUR_FLAGS) -Wall -Wextra -Werror -fno-strict-aliasing \
	-DMYSQL_DYNAMIC_PLUGIN -DMYSQL_SERVER -DHAVE_CONFIG_H -DDBUG_OFF
# The server's headers are system headers: their warnings are not ours.
PLUGIN_INCLUDES := -Iplugin -Icrates/c_api/include -isystem $(SERVER_HEADERS) -isystem $(SOURCE)/sql -isystem $(SOURCE)/include \
	-isystem $(BUILD)/include -isystem $(SOURCE)/wsrep-lib/include -isystem $(SOURCE)/wsrep-lib/wsrep-API/v26
PLUGIN_FOLDERS := base format monitor session statistics table alter handler
PLUGIN_SOURCES := $(sort $(wildcard plugin/*.cc $(PLUGIN_FOLDERS:%=plugin/%/*.cc)))
PLUGIN_OBJECTS := $(PLUGIN_SOURCES:plugin/%.cc=$(OBJECTS)/%.o)
CORE := $(TARGET_DIR)/release/libteak_c_api.a
SYSTEM_LIBRARIES := -lmysqlservices -lpthread -ldl -lm -lrt

.PHONY: help setup build core plugin demo test bench bench-rollback bench-tables sysbench group-commit suites clients kill-test ddl-kill isolation flip replication spider compare full-disk-test simulate schedules asan sanitize-core fuzz lint tidy mtr clean

help: ## this list
	@printf 'Teak, a storage engine for MariaDB. Commands:\n\n'
	@sed -nE 's/^([a-z-]+):.*## (.*)/  make \1\t\2/p' Makefile | expand -t 24

setup: ## install MariaDB, its headers and source, and the tools (does only what is missing)
	@scripts/setup.sh

build: setup ## the plugin, build/ha_teak.so
	@$(MAKE) --no-print-directory -j$(JOBS) plugin

plugin: $(PLUGIN)

core:
	@printf -- '-- building the core (cargo, release)\n'
	@cargo build --quiet --release -p teak-c-api

$(CORE): core ;

$(OBJECTS)/%.o: plugin/%.cc $(BUILD)/mariadb-version Makefile
	@mkdir -p $(@D)
	@printf -- '-- compiling %s\n' $<
	@$(CXX) $(PLUGIN_FLAGS) $(CXXFLAGS) $(PLUGIN_INCLUDES) -MMD -MP -c -o $@ $<

$(BUILD)/mariadb-version:
	@scripts/setup.sh

# The version script keeps the core's symbols (and its codecs') out of the server's namespace, which has its own.
# A running server maps the plugin: the new one replaces the file, it does not write into it.
$(PLUGIN): $(PLUGIN_OBJECTS) $(CORE) plugin/ha_teak.map
	@mkdir -p $(@D)
	@printf -- '-- linking %s\n' $@
	@$(CXX) $(FLAVOUR_FLAGS) -shared -Wl,-Bsymbolic -Wl,--version-script=plugin/ha_teak.map -Wl,-z,nodelete \
		-Wl,--gc-sections -o $@.new $(PLUGIN_OBJECTS) $(CORE) $(SYSTEM_LIBRARIES)
	@mv $@.new $@

-include $(PLUGIN_OBJECTS:.o=.d)

# ---- running it ------------------------------------------------------------------------------------------------------

demo: build ## real data into Teak and InnoDB side by side; leaves a server to play with
	@demo/demo.py

bench: build ## the SQL benchmarks (ROWS=, REPEAT=, ENGINES=, WORKLOADS=)
	@cargo build --quiet --release -p teak-bench
	@bench/sql/run.py $(if $(ROWS),--rows=$(ROWS)) $(if $(REPEAT),--repeat=$(REPEAT)) \
		$(if $(ENGINES),--engines=$(ENGINES)) $(if $(WORKLOADS),--workloads=$(WORKLOADS))

sysbench: build ## sysbench's OLTP tests on InnoDB and Teak in turns (ENGINES=InnoDB,Teak,RocksDB THREADS=2,8 REPEAT=3)
	@bench/sql/sysbench.py $(if $(ROWS),--rows=$(ROWS)) $(if $(REPEAT),--repeat=$(REPEAT)) \
		$(if $(ENGINES),--engines=$(ENGINES)) $(if $(THREADS),--threads=$(THREADS))

group-commit: build ## 16 clients' single-row inserts with a binary log that is synced, with the syncs per commit (REPEAT=3)
	@bench/sql/sysbench.py --tests=oltp_insert --threads=16 --server-option=--log-bin=binlog --server-option=--sync-binlog=1 \
		--server-option=--server-id=1 $(if $(REPEAT),--repeat=$(REPEAT)) $(if $(ENGINES),--engines=$(ENGINES))

bench-rollback: build ## the rollback of ROWS=1000000 updated rows, and reads before and after it, beside InnoDB
	@bench/sql/rollback.py $(if $(ROWS),--rows=$(ROWS)) $(if $(ENGINES),--engines=$(ENGINES))

bench-tables: build ## INFORMATION_SCHEMA.TABLES and SHOW TABLE STATUS with TABLES=10000 tables, beside InnoDB
	@bench/sql/tables.py $(if $(TABLES),--tables=$(TABLES)) $(if $(ENGINES),--engines=$(ENGINES))

# ---- tests -----------------------------------------------------------------------------------------------------------

KILLS ?= 20
REPLICATION_KILLS ?= 10
SEEDS ?= 1000
STATEMENTS ?= 100000
ROUNDS ?= 40
FUZZ_SECONDS ?= 60
SCHEDULES ?= 20000

test: ## everything that must hold, in about half an hour
	@scripts/test.sh

mtr: build ## the server's test runner on the suite `teak` (TESTS=, RECORD=1)
	@scripts/mtr.sh $(TESTS)

suites: build ## the server's own suites on InnoDB and on Teak, compared; hours (SUITES=, TESTS=, MTR_PARALLEL=)
	@scripts/suites.py $(foreach suite,$(SUITES),--suite $(suite)) $(TESTS)

clients: build ## stock clients and tools on Teak and InnoDB, all that they read compared (CLIENTS="jdbc rust")
	@tests/clients/run.sh $(CLIENTS)

kill-test: build ## KILLS=20 times kill -9 under writers, then compare with what was acknowledged (SEED=, ENGINE=)
	@scripts/kill_test.py --kills=$(KILLS) $(if $(SEED),--seed=$(SEED)) $(if $(ENGINE),--engine=$(ENGINE))

full-disk-test: build ## every kind of statement on a small file system that is full
	@scripts/full_disk_test.py

ddl-kill: build ## KILLS=20 times kill -9 during random DDL, then tables and files must agree (SEED=)
	@scripts/ddl_kill_test.py --kills=$(KILLS) $(if $(SEED),--seed=$(SEED))

isolation: build ## TRANSACTIONS=20000 concurrent transactions of each level, checked for anomalies (ENGINE=, SEED=)
	@scripts/isolation.py --transactions=$(or $(TRANSACTIONS),20000) $(if $(ENGINE),--engine=$(ENGINE) --report) $(if $(SEED),--seed=$(SEED))

flip: build ## ROUNDS=40 files damaged, stopped and running: an error or the right rows (SEED=)
	@scripts/flip_test.py --rounds=$(ROUNDS) $(if $(SEED),--seed=$(SEED))

replication: build ## primary and replica with Teak: all statements, parallel workers, kills, compared (SCENARIOS=, SEED=, REPLICATION_KILLS=10)
	@scripts/replication_test.py $(SCENARIOS) --kills=$(REPLICATION_KILLS) $(if $(SEED),--seed=$(SEED))

spider: build ## Spider over two servers with Teak: shards, joins, XA across them, kills (SEED=)
	@scripts/spider_test.py $(if $(SEED),--seed=$(SEED))

compare: build ## STATEMENTS=100000 random statements on Teak and InnoDB, answer by answer (SEED=, WORLD=)
	@scripts/compare_sql.py --statements=$(STATEMENTS) $(if $(SEED),--seed=$(SEED)) $(if $(WORLD),--world=$(WORLD))

simulate: ## SEEDS=1000 schedules of operations, faults and crashes against the oracle
	@scripts/simulate.sh $(SEEDS)

schedules: ## SCHEDULES=20000 interleavings per test of the lock manager and of commits
	@SCHEDULES=$(SCHEDULES) cargo test --release -p teak-transactions --features schedules --test schedules

asan: setup ## the plugin under AddressSanitizer, on the suite `teak`
	@$(MAKE) --no-print-directory -j$(JOBS) plugin FLAVOUR=asan
	@scripts/asan.sh $(TESTS)

sanitize-core: ## the core's tests under the address and thread sanitizers
	@scripts/sanitize_core.sh

fuzz: ## every fuzz target for FUZZ_SECONDS=60 (TARGETS=)
	@scripts/fuzz.sh $(FUZZ_SECONDS) $(TARGETS)

lint: ## formatting, clippy, licences (with cargo-deny, where it is installed), tidiness
	@scripts/lint.sh

tidy:
	@python3 -m scripts.tidy

clean: ## remove what was built (not the downloaded MariaDB source)
	@printf -- '-- removing the plugin, the cargo target directories and the results of runs\n'
	@rm -rf $(BUILD)/plugin-* $(BUILD)/asan $(BUILD)/ha_teak.so $(BUILD)/bench $(BUILD)/mtr-var $(BUILD)/mtr-root $(BUILD)/suites \
		$(BUILD)/plugins* $(BUILD)/target-* $(BUILD)/clients
	@cargo clean --quiet
