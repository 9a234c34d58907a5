# Teak's commands; `make help` lists them.

SHELL := /bin/bash
.DEFAULT_GOAL := help
MAKEFLAGS += --no-builtin-rules
JOBS ?= $(shell nproc)
COMMA := ,

BUILD := build
# MariaDB's source: unpacked by scripts/setup.sh, or MARIADB_SOURCE=DIR.
SOURCE := $(or $(MARIADB_SOURCE),$(BUILD)/mariadb-source)
SERVER_HEADERS ?= /usr/include/mariadb/server
TARGET_DIR := $(or $(CARGO_TARGET_DIR),target)

# ---- the plugin ------------------------------------------------------------------------------------------------------

# The plugin is compiled in OBJECTS: FLAVOUR is release, or asan for AddressSanitizer.
FLAVOUR ?= release
OBJECTS := $(BUILD)/plugin-$(FLAVOUR)
ifeq ($(FLAVOUR),asan)
PLUGIN := $(BUILD)/asan/ha_teak.so
# The sanitizer must see the core's allocations.
CORE_FEATURES ?=
# The server is built without the sanitizer, so its headers must not see it: they would change layouts and poison memory.
FLAVOUR_FLAGS := -fsanitize=address -U__SANITIZE_ADDRESS__ -fno-omit-frame-pointer -O1 -g
else
PLUGIN := $(BUILD)/ha_teak.so
FLAVOUR_FLAGS := -O2 -g
endif
# The plugin's core has an allocator of its own.
CORE_FEATURES ?= --features allocator

GENERATED := $(BUILD)/include
SERVER_STAMP := $(BUILD)/mariadb-version
include plugin/objects.mk
CORE := $(TARGET_DIR)/release/libteak_c_api.a
SYSTEM_LIBRARIES := -lmysqlservices -lpthread -ldl -lm -lrt

.PHONY: help setup build core plugin install deb deb-test demo test bench bench-rollback bench-tables bench-checkpoint bench-recovery bench-space bench-resident bench-load bench-memory bench-rivals bench-tpch bench-costs sysbench group-commit publish suites clients kill-test kill-loads ddl-kill isolation online-ddl flip replication spider compare full-disk-test backup-test increments-test restore-test migrate-test soak monitoring simulate schedules miri asan sanitize-core fuzz lint tidy mtr clean

help: ## list these commands; VARIABLE=value is a default, BEFORE= another build of the plugin to compare with
	@printf 'Teak, a storage engine for MariaDB. Commands:\n\n'
	@sed -nE 's/^([a-z-]+):.*## (.*)/  make \1\t\2/p' Makefile | expand -t 24

setup: ## install MariaDB, its headers, its source and the tools (only what is missing)
	@scripts/setup.sh

build: setup ## build the plugin, build/ha_teak.so
	@$(MAKE) --no-print-directory -j$(JOBS) plugin

plugin: $(PLUGIN)

# Cargo optimises across crates at link time only if no Rust library is among the crate types.
CORE_TYPES ?= staticlib

# CORE_LIBRARY=FILE is a core that was built elsewhere, for a system without Rust.
ifdef CORE_LIBRARY
CORE := $(CORE_LIBRARY)
else
core:
	@printf -- '-- building the core (cargo, release)\n'
	@cargo rustc --quiet --release -p teak-c-api $(CORE_FEATURES) --lib --crate-type $(CORE_TYPES)

$(CORE): core ;
endif

$(BUILD)/mariadb-version:
	@scripts/setup.sh

# Debug information is split off into ha_teak.so.debug, where debuggers look for it by the link that the plugin carries.
# The version script keeps the core's symbols (and its codecs') out of the server's namespace, which has its own.
# A running server has the plugin mapped, so the new one replaces the file and is not written into it.
$(PLUGIN): $(PLUGIN_OBJECTS) $(CORE) plugin/ha_teak.map
	@mkdir -p $(@D)
	@printf -- '-- linking %s\n' $@
	@$(CXX) $(FLAVOUR_FLAGS) -shared -Wl,-Bsymbolic -Wl,--version-script=plugin/ha_teak.map -Wl,-z,nodelete \
		-Wl,--gc-sections -o $@.new $(PLUGIN_OBJECTS) $(CORE) $(SYSTEM_LIBRARIES)
	@objcopy --only-keep-debug $@.new $@.debug
	@objcopy --strip-unneeded --add-gnu-debuglink=$@.debug $@.new
	@mv $@.new $@

PREFIX ?= /usr/local
LIBDIR ?= $(PREFIX)/lib

install: ## install the C library: headers, libteak.so, libteak.a, teak.pc (PREFIX=, DESTDIR=, LIBDIR=)
	@$(MAKE) --no-print-directory core CORE_FEATURES= CORE_TYPES=staticlib,cdylib
	@printf -- '-- installing into %s\n' $(DESTDIR)$(PREFIX)
	@crates/c_api/install.sh $(TARGET_DIR)/release $(PREFIX) '$(DESTDIR)' $(LIBDIR)

deb: setup ## build Debian packages into build/deb (SERVER_RELEASES= releases of MariaDB, default: that of `make setup`)
	@scripts/deb/build.sh

tools: ## build the command teak
	@cargo build --quiet --locked --release -p teak-tools
	@printf -- '-- built %s\n' $(TARGET_DIR)/release/teak

# ---- run -------------------------------------------------------------------------------------------------------------

demo: build ## load real data into Teak and InnoDB, compare, and leave the server running
	@python3 -m demo.demo

bench: build ## SQL benchmarks, Teak against InnoDB (ROWS=2000000 REPEAT=3 ENGINES= WORKLOADS= BEFORE=)
	@cargo build --quiet --release -p teak-bench
	@python3 -m bench.sql.run $(if $(ROWS),--rows=$(ROWS)) $(if $(REPEAT),--repeat=$(REPEAT)) \
		$(if $(ENGINES),--engines=$(ENGINES)) $(if $(WORKLOADS),--workloads=$(WORKLOADS)) $(if $(BEFORE),--before=$(BEFORE))

sysbench: build ## sysbench's OLTP tests (ROWS=500000 ENGINES=InnoDB,Teak THREADS=2,8 REPEAT=3 BEFORE=)
	@python3 -m bench.sql.sysbench $(if $(ROWS),--rows=$(ROWS)) $(if $(REPEAT),--repeat=$(REPEAT)) \
		$(if $(ENGINES),--engines=$(ENGINES)) $(if $(THREADS),--threads=$(THREADS)) $(if $(BEFORE),--before=$(BEFORE))

group-commit: build ## single-row inserts of 16 clients with a synced binary log (REPEAT=3 ENGINES=)
	@python3 -m bench.sql.sysbench --tests=oltp_insert --threads=16 --server-option=--log-bin=binlog --server-option=--sync-binlog=1 \
		--server-option=--server-id=1 $(if $(REPEAT),--repeat=$(REPEAT)) $(if $(ENGINES),--engines=$(ENGINES))

bench-rollback: build ## time the rollback of ROWS=1000000 updated rows, against InnoDB (ENGINES=)
	@python3 -m bench.sql.rollback $(if $(ROWS),--rows=$(ROWS)) $(if $(ENGINES),--engines=$(ENGINES))

bench-tables: build ## time INFORMATION_SCHEMA.TABLES with TABLES=10000 tables, against InnoDB (ENGINES=)
	@python3 -m bench.sql.tables $(if $(TABLES),--tables=$(TABLES)) $(if $(ENGINES),--engines=$(ENGINES))

bench-checkpoint: build ## write the changes of 3 indexes of TABLES=5000 tables during insertions, against InnoDB (ENGINES=, BEFORE=)
	@python3 -m bench.sql.checkpoint $(if $(TABLES),--tables=$(TABLES)) $(if $(ENGINES),--engines=$(ENGINES)) $(if $(BEFORE),--before=$(BEFORE))

bench-recovery: build ## time the start after kill -9 with LOG=0.25,1 GiB of log, against InnoDB (ENGINES=, BEFORE=)
	@python3 -m bench.sql.recovery $(if $(LOG),--log=$(LOG)) $(if $(ENGINES),--engines=$(ENGINES)) $(if $(BEFORE),--before=$(BEFORE))

bench-space: build ## sizes of eleven data sets in all engines and as Parquet, with rates of loads and scans; hours (ROWS=2000000 SCALE=0.3 REPEAT=3 MEMORY=8G CACHE=256M ENGINES= CASES= BEFORE=)
	@cargo build --quiet --release -p teak-bench
	@python3 -m bench.space $(if $(ROWS),--rows=$(ROWS)) $(if $(SCALE),--scale=$(SCALE)) $(if $(REPEAT),--repeat=$(REPEAT)) \
		$(if $(MEMORY),--memory=$(MEMORY)) $(if $(CACHE),--cache=$(CACHE)) $(if $(ENGINES),--engines="$(ENGINES)") \
		$(if $(CASES),--cases=$(CASES)) $(if $(BEFORE),--before=$(BEFORE))

bench-resident: build ## resident memory under five loads, compared with BLACKHOLE (CASES= SCALE=1)
	@python3 -m bench.sql.resident $(if $(CASES),--cases=$(CASES)) $(if $(SCALE),--scale=$(SCALE))

bench-load: build ## LOAD DATA of many shapes, against all engines, on one and two processors; hours (ROWS=2000000 KEY_ROWS= SCALE=1 CORES=1,2 REPEAT=3 MEMORY=1G CACHE=256M ENGINES= CASES= BEFORE=)
	@cargo build --quiet --release -p teak-bench
	@python3 -m bench.load $(if $(ROWS),--rows=$(ROWS)) $(if $(KEY_ROWS),--key-rows=$(KEY_ROWS)) $(if $(SCALE),--scale=$(SCALE)) --cores=$(or $(CORES),1,2) \
		$(if $(REPEAT),--repeat=$(REPEAT)) $(if $(MEMORY),--memory=$(MEMORY)) $(if $(CACHE),--cache=$(CACHE)) $(if $(ENGINES),--engines="$(ENGINES)") \
		$(if $(CASES),--cases=$(CASES)) $(if $(BEFORE),--before=$(BEFORE))

bench-memory: build ## tables of 5 times the memory, against InnoDB and RocksDB; hours (MEMORY=1G CACHE=256M ROWS= REPEAT=1 SLOW=1 ENGINES= WORKLOADS= BEFORE=)
	@python3 -m bench.memory $(if $(MEMORY),--memory=$(MEMORY)) $(if $(CACHE),--cache=$(CACHE)) $(if $(ROWS),--rows=$(ROWS)) \
		$(if $(REPEAT),--repeat=$(REPEAT)) $(if $(filter-out 0,$(SLOW)),--slow) $(if $(ENGINES),--engines=$(ENGINES)) \
		$(if $(WORKLOADS),--workloads=$(WORKLOADS)) $(if $(BEFORE),--before=$(BEFORE))

bench-rivals: ## Teak's engine against RocksDB, LMDB, redb and fjall (ROWS=2000000 CACHE=256M MEMORY=512M REPEAT=1 ENGINES= WORKLOADS=)
	@scripts/setup_rivals.sh
	@cargo build --quiet --locked --release --manifest-path bench/rivals/Cargo.toml --target-dir $(BUILD)/target-rivals
	@python3 -m bench.rivals.run $(if $(ROWS),--rows=$(ROWS)) $(if $(CACHE),--cache=$(CACHE)) $(if $(MEMORY),--memory=$(MEMORY)) \
		$(if $(REPEAT),--repeat=$(REPEAT)) $(if $(ENGINES),--engines=$(ENGINES)) $(if $(WORKLOADS),--workloads=$(WORKLOADS))

bench-tpch: build ## TPC-H: loads, sizes, 22 queries cold and warm, against InnoDB (SCALE=0.3 REPEAT=3 ENGINES= QUERIES= BEFORE=)
	@python3 -m bench.sql.tpch $(if $(SCALE),--scale=$(SCALE)) $(if $(REPEAT),--repeat=$(REPEAT)) $(if $(ENGINES),--engines=$(ENGINES)) \
		$(if $(QUERIES),--queries=$(QUERIES)) $(if $(BEFORE),--before=$(BEFORE))

bench-costs: build ## measure the constants of the optimiser's costs, plugin/handler/cost_constants.h
	@python3 -m bench.sql.costs $(if $(REPEAT),--repeat=$(REPEAT))

publish: ## rewrite tables and plots of docs/performance.md (TAKE=1: from the newest results of bench and sysbench, TAKE=space: of bench-space)
	@[ -x $(BUILD)/venv/bin/python ] || python3 -m venv $(BUILD)/venv
	@$(BUILD)/venv/bin/python -c 'import matplotlib' 2>/dev/null || $(BUILD)/venv/bin/pip install --quiet --disable-pip-version-check matplotlib
	@$(BUILD)/venv/bin/python -m bench.sql.publish $(if $(TAKE),--take=$(if $(filter 1,$(TAKE)),bench$(COMMA)sysbench,$(TAKE)))

# ---- tests -----------------------------------------------------------------------------------------------------------

KILLS ?= 20
REPLICATION_KILLS ?= 10
SEEDS ?= 1000
STATEMENTS ?= 100000
ROUNDS ?= 40
FUZZ_SECONDS ?= 60
SCHEDULES ?= 20000

test: ## run all tests; docs/testing.md describes each (SERVER=11.8: a part of them with this series, as root)
	@$(if $(SERVER),python3 -m tests.series.run $(SERVER),scripts/test.sh)

mtr: build ## run the SQL test suite `teak` in MariaDB's test runner (TESTS=, RECORD=1)
	@mtr/run.sh $(TESTS)

suites: build ## run the server's own suites on InnoDB and Teak; hours (SUITES=, TESTS=)
	@python3 -m tests.server_suites.run $(foreach suite,$(SUITES),--suite $(suite)) $(TESTS)

clients: build ## run stock clients and tools on Teak and InnoDB (CLIENTS= some of them)
	@python3 -m tests.clients.run $(CLIENTS)

kill-test: build ## kill -9 the server KILLS=20 times under writers (SEED=, ENGINE=)
	@python3 -m tests.crash.run --kills=$(KILLS) $(if $(SEED),--seed=$(SEED)) $(if $(ENGINE),--engine=$(ENGINE))

kill-loads: build ## kill -9 the server KILLS=20 times during LOAD DATA (SEED=)
	@python3 -m tests.crash.loads --kills=$(KILLS) $(if $(SEED),--seed=$(SEED))

migrate-test: build tools ## convert tables of InnoDB, MyISAM and Aria with `teak migrate`
	@python3 -m tests.migrate.run

backup-test: build tools ## hot backups of a server under load, restored and compared (ROUNDS=4 MARIADB_BACKUP=)
	@python3 -m tests.backup.run $(if $(ROUNDS),--rounds=$(ROUNDS))

increments-test: build tools ## a full backup and increments of a server under load, each restored (INCREMENTS=5)
	@python3 -m tests.backup.increments --increments=$(or $(INCREMENTS),5) --every --seconds=2

restore-test: build tools ## restore a backup to transactions of the binary log, by GTID, position and time (TARGETS=3)
	@python3 -m tests.backup.restore $(if $(TARGETS),--targets=$(TARGETS))

full-disk-test: build ## run every kind of statement on a full file system
	@python3 -m tests.full_disk.run

ddl-kill: build ## kill -9 the server KILLS=20 times during random DDL (SEED=)
	@python3 -m tests.ddl_crash.run --kills=$(KILLS) $(if $(SEED),--seed=$(SEED))

online-ddl: build ## ALTER and OPTIMIZE TABLE with LOCK=NONE while sessions write (ROUNDS=20 SEED=)
	@python3 -m tests.online_ddl.run --rounds=$(or $(ROUNDS),20) $(if $(SEED),--seed=$(SEED))

isolation: build ## check TRANSACTIONS=20000 per level for anomalies (ENGINE=, SEED=)
	@python3 -m tests.isolation.run --transactions=$(or $(TRANSACTIONS),20000) $(if $(ENGINE),--engine=$(ENGINE) --report) $(if $(SEED),--seed=$(SEED))

flip: build ## damage files ROUNDS=40 times: reads must be right or fail (SEED=)
	@python3 -m tests.corruption.run --rounds=$(ROUNDS) $(if $(SEED),--seed=$(SEED))

replication: build ## primary and replica with Teak (SCENARIOS=, SEED=, REPLICATION_KILLS=10)
	@python3 -m tests.replication.run $(SCENARIOS) --kills=$(REPLICATION_KILLS) $(if $(SEED),--seed=$(SEED))

spider: build ## Spider over two servers with Teak: shards, XA, kills (SEED=)
	@python3 -m tests.spider.run $(if $(SEED),--seed=$(SEED))

compare: build ## compare STATEMENTS=100000 random statements with InnoDB (SEED=, WORLD=)
	@python3 -m tests.sql.run --statements=$(STATEMENTS) $(if $(SEED),--seed=$(SEED)) $(if $(WORLD),--world=$(WORLD))

soak: build ## mixed load for MINUTES=120 with kills: no bound may be crossed (STALL= maximum ms of a statement, PAUSE= ms between steps of a session, SEED=)
	@python3 -m tests.soak.run --minutes=$(or $(MINUTES),120) $(if $(STALL),--stall=$(STALL)) $(if $(PAUSE),--pause=$(PAUSE)) $(if $(SEED),--seed=$(SEED))

monitoring: build tools ## check status variables under load, the dashboard, the alarms and `teak top`
	@python3 -m tests.monitoring.run
	@python3 -m tests.monitoring.top

simulate: ## run the crash simulator on SEEDS=1000 seeds (FIRST=)
	@cargo run --quiet --release -p teak-simulator -- --seeds $(SEEDS) $(if $(FIRST),--first $(FIRST))

schedules: ## explore SCHEDULES=20000 interleavings per test: locks, commits, memtable
	@SCHEDULES=$(SCHEDULES) cargo test --release -p teak-transactions --features schedules --test schedules
	@SCHEDULES=$(SCHEDULES) cargo test --release -p teak-tree --features schedules --test schedules

miri: ## run the memtable's unit tests under Miri (MIRI_SEEDS=8)
	@scripts/miri.sh $(MIRI_SEEDS)

asan: setup ## run the suite `teak` with the plugin under AddressSanitizer (TESTS=)
	@$(MAKE) --no-print-directory -j$(JOBS) plugin FLAVOUR=asan
	@scripts/asan.sh $(TESTS)

sanitize-core: ## run the core's tests under the address and thread sanitizers
	@scripts/sanitize_core.sh

fuzz: ## run every fuzz target for FUZZ_SECONDS=60 (TARGETS=)
	@scripts/fuzz.sh $(FUZZ_SECONDS) $(TARGETS)

deb-test: ## install, use, upgrade and remove the packages of `make deb` in a new Debian system, as root
	@python3 -m tests.packages.run

lint: ## check formatting, clippy, licences, module cycles, sizes and wording
	@scripts/lint.sh

tidy:
	@python3 -m scripts.tidy

clean: ## remove what was built and the results of runs, except downloads and the demo's server
	@printf -- '-- removing the plugin, the cargo target directories and the results of runs\n'
	@rm -rf $(BUILD)/plugin-* $(BUILD)/asan $(BUILD)/ha_teak.so $(BUILD)/bench $(BUILD)/mtr-var $(BUILD)/mtr-root $(BUILD)/suites \
		$(BUILD)/plugins* $(BUILD)/target-* $(BUILD)/clients $(BUILD)/mtr-var-asan $(BUILD)/test $(BUILD)/run $(BUILD)/kill-test \
		$(BUILD)/replication $(BUILD)/spider-test $(BUILD)/isolation $(BUILD)/online-ddl $(BUILD)/soak $(BUILD)/deb $(BUILD)/deb-work $(BUILD)/deb-test
	@cargo clean --quiet
