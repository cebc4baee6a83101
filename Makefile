# SPDX-License-Identifier: Apache-2.0
# attc: `make demo` and `make test` do everything, also on a fresh Debian 12 machine.
#
#   make          build/attc and the runtime library
#   make demo     install what is missing, build, train a language model, run an encoder block
#   make test     all tests; ends with "N passed, N failed"
#   make lint     house rules (STYLE): includes, sizes, formatting
#   make bench    attc against PyTorch, JAX, NumPy; CASES=th-*,.. THREADS=1 PEERS=sdpa QUICK=1 GRAD=1
#   make tuning   what attc tune finds, and how good defaults are; CASES=, THREADS=, EFFORT=, SEARCHES=
#   make lengths   how even one library is over 50 lengths; CASES=, THREADS=
#   make training  steps of training a language model against PyTorch; THREADS=, PEERS=
#   make parity    the first losses of training programs against PyTorch's
#   make experiments   small experiments with heads, in about an hour; EXPERIMENTS='rank sizes'
#   make random-long   110,000 random programs, oracle against compiled code
#   make mutations     10,000 examples and variants with tokens changed: what attc says of them
#   make fuzz     an hour of fuzzing the parser and the readers of files (FUZZ_SECONDS=3600)
#   make unit golden numeric variants commands products random accuracy lint   one suite of the tests
#
# Variables: BUILD=dir, SAN=1 (clang, address and undefined-behaviour sanitizers), LLVM=19 (or later).

LLVM    ?= 19
BUILD   ?= build
PYTHON  ?= python3
OPT     ?= -O2

SANITIZERS ?= address,undefined
ifdef SAN
CC      := clang-$(LLVM)
# The check of function types reads in front of a function, where compiled kernels have no memory.
SANFLAGS := -fsanitize=$(SANITIZERS) -fno-sanitize=function -fno-sanitize-recover=undefined \
            -fno-omit-frame-pointer
# Lines of reports, without what debuggers want: a sixth of the time of compiling.
CFLAGS  ?= -g1
else
CC      := gcc
endif
AR      := ar
# V=1 shows the commands.
ifdef V
say      = @:
Q       :=
else
say      = @printf '  %-6s %s\n' $(1) $(2)
Q       := @
endif

LLVM_CONFIG ?= llvm-config-$(LLVM)
LLVM_CFLAGS  = $(shell $(LLVM_CONFIG) --cflags 2>/dev/null | tr ' ' '\n' | grep '^-I')
LLVM_LIBS    = $(shell $(LLVM_CONFIG) --ldflags --libs core 2>/dev/null)
# The compiler has its part of LLVM inside of it, where the archives are: loading the shared library
# takes 15 ms of every start. Moving its tables to another address took 3 ms of it.
LLVM_PARTS   = core passes orcjit x86
LLVM_STATIC  = $(or $(shell $(LLVM_CONFIG) --ldflags --link-static --libs $(LLVM_PARTS) 2>/dev/null), \
                    $(LLVM_LIBS)) -lstdc++ -lz -lzstd

WARN    := -Wall -Wextra -Wshadow -Wstrict-prototypes -Wvla -Werror
CFLAGS  ?= -g
ALL_CFLAGS = -std=gnu11 $(OPT) $(CFLAGS) $(WARN) -fPIC -D_GNU_SOURCE $(SANFLAGS) \
             -Icompiler -Itargets -Iruntime -I$(BUILD)/gen -MMD -MP
LIBS     = -lsqlite3 -ljansson -lxxhash -lm -lpthread

# ---- levels, lowest first; each is one archive, of the sources at any depth of its folder ----------
# A test of lower levels alone: make LEVELS="base ast graph" build/unit/graph_test
LEVELS  := base ast graph tile emit targets product tune driver
folder   = $(if $(filter targets,$(1)),targets,compiler/$(1))
GEN_ast := $(BUILD)/gen/parse.o $(BUILD)/gen/scan.o

sources = $(sort $(shell find $(call folder,$(1)) -name '*.c'))
objects = $(patsubst %.c,$(BUILD)/obj/%.o,$(call sources,$(1))) $(GEN_$(1))
ARCHIVES := $(patsubst %,$(BUILD)/lib/lib%.a,$(LEVELS))
RUNTIME_OBJECTS := $(patsubst %.c,$(BUILD)/obj/%.o,$(sort $(wildcard runtime/*.c)))
RUNTIME := $(BUILD)/lib/libattc_runtime.a
TRAIN_OBJECTS := $(patsubst %.c,$(BUILD)/obj/%.o,$(sort $(shell find runtime/train -name '*.c')))
TRAIN := $(BUILD)/lib/libattc_train.a
# Programs that train read JSON by jansson, which comes along: where they are linked none is needed.
JANSSON := $(shell $(CC) -print-file-name=libjansson.a)
# Each level calls lower ones only, so that one pass over the archives from the top is enough.
reverse  = $(if $(1),$(call reverse,$(wordlist 2,$(words $(1)),$(1))) $(firstword $(1)))
LINK    := $(call reverse,$(ARCHIVES)) $(TRAIN) $(RUNTIME)

.PHONY: all demo test unit units golden numeric variants commands products random random-long mutations accuracy lint deps \
        bench tuning lengths training parity experiments fuzz fuzzers replays clean format always
all: $(BUILD)/attc $(RUNTIME) $(TRAIN)

$(BUILD)/attc: $(BUILD)/obj/compiler/main.o $(BUILD)/obj/compiler/pipeline.o $(ARCHIVES) $(TRAIN) \
               $(RUNTIME)
	$(call say,LINK,$@)
	$(Q)$(CC) $(SANFLAGS) -no-pie -Wl,--gc-sections -o $@ $(filter %.o,$^) $(LINK) $(LLVM_STATIC) \
	    $(LIBS)

# `q`, not `r`: two folders of a level may have files of one name. Archives are made anew when the
# list of sources is another: one without a source that is gone is older than none of its objects.
define archive
$(BUILD)/lib/lib$(1).a: $(call objects,$(1)) $(BUILD)/gen/sources
	@mkdir -p $$(@D)
	@rm -f $$@
	$$(call say,AR,$$@)
	$(Q)$(AR) qcs $$@ $$(filter %.o,$$^)
endef
$(foreach level,$(LEVELS),$(eval $(call archive,$(level))))

$(RUNTIME): $(RUNTIME_OBJECTS) $(BUILD)/gen/sources
	@mkdir -p $(@D)
	@rm -f $@
	$(call say,AR,$@)
	$(Q)$(AR) rcs $@ $(filter %.o,$^)

$(TRAIN): $(TRAIN_OBJECTS) $(BUILD)/gen/sources
	@mkdir -p $(@D)
	$(call say,AR,$@)
	$(Q)cp $(JANSSON) $@
	$(Q)$(AR) qcs $@ $(filter %.o,$^)

# The runtime goes into shared libraries: only what is marked ATT_API leaves them.
$(BUILD)/obj/runtime/%.o: runtime/%.c
	@mkdir -p $(@D)
	$(call say,CC,$<)
	$(Q)$(CC) $(ALL_CFLAGS) -fvisibility=hidden -c -o $@ $<

$(BUILD)/gen/sources: always
	@mkdir -p $(@D)
	@find compiler grammar runtime targets -name '*.[cyl]' | LC_ALL=C sort >$@.new
	@cmp -s $@.new $@ && rm $@.new || mv $@.new $@

# Objects of one source tree never serve another: cached kernels are keyed by what the compiler is.
# The checksum is taken by every make, and written only when it is another.
$(BUILD)/gen/build_id.inc: always
	@mkdir -p $(@D)
	@find compiler targets runtime/module.h -name '*.[ch]' -o -name '*.def' | LC_ALL=C sort | \
		xargs cat | cksum | sed 's/\([0-9]*\).*/"\1"/' > $@.new
	@cmp -s $@.new $@ && rm $@.new || mv $@.new $@
$(BUILD)/obj/compiler/emit/cache.o: $(BUILD)/gen/build_id.inc
$(BUILD)/obj/compiler/driver/%.o: ALL_CFLAGS += -DATTC_RUNTIME_ARCHIVE='"$(abspath $(RUNTIME))"' \
                                               -DATTC_TRAIN_ARCHIVE='"$(abspath $(TRAIN))"'
$(BUILD)/obj/compiler/emit/%.o: ALL_CFLAGS += $(LLVM_CFLAGS)
$(BUILD)/obj/targets/%.o: ALL_CFLAGS += $(LLVM_CFLAGS)
$(BUILD)/obj/compiler/product/%.o: ALL_CFLAGS += $(LLVM_CFLAGS)
$(BUILD)/obj/compiler/main.o $(BUILD)/obj/compiler/pipeline.o: ALL_CFLAGS += $(LLVM_CFLAGS)
$(BUILD)/obj/compiler/driver/%.o: ALL_CFLAGS += $(LLVM_CFLAGS)

$(BUILD)/obj/%.o: %.c
	@mkdir -p $(@D)
	$(call say,CC,$<)
	$(Q)$(CC) $(ALL_CFLAGS) -c -o $@ $<

# ---- grammar ---------------------------------------------------------------------------------------
$(BUILD)/gen/parse.c $(BUILD)/gen/parse.h &: grammar/parse.y
	@mkdir -p $(@D)
	$(call say,BISON,$<)
	$(Q)bison -Wall -Werror -Wno-other --header=$(BUILD)/gen/parse.h \
		-o $(BUILD)/gen/parse.c $<
# blocks.c reads the token codes; the first build has no .d files to say so.
$(filter $(BUILD)/obj/%,$(call objects,ast)): | $(BUILD)/gen/parse.h
$(BUILD)/gen/scan.c: grammar/scan.l
	@mkdir -p $(@D)
	$(call say,FLEX,$<)
	$(Q)flex -Cf -o $@ $<
$(BUILD)/gen/%.o: $(BUILD)/gen/%.c $(BUILD)/gen/parse.h
	$(call say,CC,$<)
	$(Q)$(CC) $(ALL_CFLAGS) -Wno-unused-function -Wno-sign-compare \
		-Wno-unused-but-set-variable -Igrammar -c -o $@ $<

# ---- prelude: the language's own definitions, each line a C string -----------------------------------
$(BUILD)/gen/prelude.inc: compiler/ast/read/prelude.attn
	@mkdir -p $(@D)
	$(call say,TEXT,$<)
	$(Q)sed 's/\\/\\\\/g; s/"/\\"/g; s/.*/"&\\n"/' $< > $@
$(BUILD)/obj/compiler/ast/read/prelude.o: $(BUILD)/gen/prelude.inc

.SECONDARY:

# ---- tests -------------------------------------------------------------------------------------------
UNIT := $(patsubst tests/unit/%_test.c,$(BUILD)/unit/%_test,$(sort $(wildcard tests/unit/*_test.c)))
$(BUILD)/obj/tests/unit/%.o: ALL_CFLAGS += $(LLVM_CFLAGS)
$(BUILD)/unit/%_test: $(BUILD)/obj/tests/unit/%_test.o $(BUILD)/obj/tests/unit/support.o $(ARCHIVES) \
                      $(TRAIN) $(RUNTIME)
	@mkdir -p $(@D)
	$(call say,LINK,$@)
	$(Q)$(CC) $(SANFLAGS) -rdynamic -o $@ $(filter %.o,$^) $(LINK) -lcmocka $(LLVM_LIBS) $(LIBS)
$(BUILD)/unit/optimizer_test $(BUILD)/unit/winners_test $(BUILD)/unit/interrupts_test: \
    $(BUILD)/obj/compiler/pipeline.o
DATA_TESTS := data data_refused
$(DATA_TESTS:%=$(BUILD)/unit/%_test): $(BUILD)/obj/tests/unit/data_fixture.o
PARSE_TESTS := parse parse_errors parse_limits
$(PARSE_TESTS:%=$(BUILD)/unit/%_test): $(BUILD)/obj/tests/unit/parse_fixture.o
VMATH_TESTS := vmath vmath_widths
$(VMATH_TESTS:%=$(BUILD)/unit/%_test): $(BUILD)/obj/tests/unit/vmath_fixture.o
EMIT_TESTS := emit tables product
$(EMIT_TESTS:%=$(BUILD)/unit/%_test): $(BUILD)/obj/tests/unit/emit_fixture.o
CPU_TESTS := cost cost_measured cpu cpu_compute cpu_moves cpu_sums cpu_fused cpu_attention spill cpu_contract
$(CPU_TESTS:%=$(BUILD)/unit/%_test): $(BUILD)/obj/tests/unit/cpu_fixture.o
HAND_TESTS := tile_fused tile_verify cpu_fused cpu_attention
$(HAND_TESTS:%=$(BUILD)/unit/%_test): $(BUILD)/obj/tests/unit/hand_fixture.o
$(BUILD)/unit/spill_test: $(BUILD)/obj/tests/unit/spills.o
# Kernels against the peak, for choosing the numbers in targets/cpu/x86_64.c.
$(BUILD)/obj/tests/bench/%.o: ALL_CFLAGS += $(LLVM_CFLAGS)
$(BUILD)/bench/gemm_bench: $(BUILD)/obj/tests/bench/gemm_bench.o \
                           $(BUILD)/obj/tests/unit/cpu_fixture.o \
                           $(BUILD)/obj/tests/unit/support.o $(ARCHIVES) $(TRAIN) $(RUNTIME)
	@mkdir -p $(@D)
	$(call say,LINK,$@)
	$(Q)$(CC) $(SANFLAGS) -rdynamic -o $@ $(filter %.o,$^) $(LINK) -lcmocka $(LLVM_LIBS) $(LIBS)
EVAL_TESTS := eval eval_moves slope
$(EVAL_TESTS:%=$(BUILD)/unit/%_test): $(BUILD)/obj/tests/unit/eval_fixture.o
MODULE_TESTS := module program
$(MODULE_TESTS:%=$(BUILD)/unit/%_test): $(BUILD)/obj/tests/unit/module_fixture.o
PASSES_TESTS := choices rewrite grad decode heads training seams keep sweeps stored partition simplify contract expand fuse stream stages plan passes lower lower_attention pairs schedule search spaces alternatives
$(PASSES_TESTS:%=$(BUILD)/unit/%_test): $(BUILD)/obj/tests/unit/passes_fixture.o
$(BUILD)/unit/passes_test $(BUILD)/unit/lower_test: $(BUILD)/obj/tests/unit/random_graph.o
SEARCH_TESTS := pairs search spaces
$(SEARCH_TESTS:%=$(BUILD)/unit/%_test): $(BUILD)/obj/tests/unit/search_fixture.o
LOWER_TESTS := lower lower_attention schedule
$(LOWER_TESTS:%=$(BUILD)/unit/%_test): $(BUILD)/obj/tests/unit/lower_fixture.o

# A virtual environment of our own: lit for golden tests, pytest, and NumPy as the second opinion.
VENV := $(BUILD)/venv
$(VENV)/ready: tests/requirements.txt
	$(PYTHON) -m venv $(VENV)
	$(VENV)/bin/pip install --quiet --disable-pip-version-check -r $<
	touch $@

deps:
	@tests/tools/install_packages.sh $(LLVM)

# The sub-makes run after deps, when llvm-config and the compilers exist.
SAN_BUILD := $(BUILD)/san
test: deps
	$(MAKE) --no-print-directory -j2 all units replays $(VENV)/ready
	$(MAKE) --no-print-directory -j2 SAN=1 BUILD=$(SAN_BUILD) VENV=$(VENV) all units replays
	$(VENV)/bin/python tests/run_tests.py $(BUILD) --sanitized $(SAN_BUILD)

demo: deps
	$(MAKE) --no-print-directory -j2 all $(VENV)/ready
	$(VENV)/bin/python examples/demo/demo.py $(BUILD)/attc $(BUILD)/demo

units: $(UNIT)

unit golden numeric variants commands products random accuracy lint: all units replays $(VENV)/ready
	$(VENV)/bin/python tests/run_tests.py $(BUILD) $@

# ---- fuzzing: corpora are replayed by every test run; `make fuzz` searches for FUZZ_SECONDS ------------
FUZZ_SECONDS ?= 3600
FUZZ := parse npy safetensors shard
REPLAY := $(patsubst %,$(BUILD)/fuzz/%_replay,$(FUZZ))
$(BUILD)/fuzz/%_replay: $(BUILD)/obj/tests/fuzz/%_fuzz.o $(BUILD)/obj/tests/fuzz/replay_main.o \
                        $(BUILD)/lib/libast.a $(BUILD)/lib/libbase.a $(TRAIN) $(RUNTIME)
	@mkdir -p $(@D)
	$(call say,LINK,$@)
	$(Q)$(CC) $(SANFLAGS) -o $@ $^ -ljansson -lxxhash -lm -lpthread
replays: $(REPLAY)

# libFuzzer instruments everything but supplies main() to the harness alone.
$(BUILD)/fuzz/%_fuzz: $(BUILD)/obj/tests/fuzz/%_fuzz.o $(BUILD)/lib/libast.a $(BUILD)/lib/libbase.a \
                      $(TRAIN) $(RUNTIME)
	@mkdir -p $(@D)
	$(call say,LINK,$@)
	$(Q)$(CC) -fsanitize=fuzzer,$(SANITIZERS) -o $@ $^ -ljansson -lxxhash -lm -lpthread
fuzzers: $(patsubst %,$(BUILD)/fuzz/%_fuzz,$(FUZZ))
fuzz: deps
	$(MAKE) --no-print-directory -j2 SAN=1 SANITIZERS=fuzzer-no-link,address,undefined \
		BUILD=$(BUILD)/fuzzing fuzzers
	@for target in $(FUZZ); do mkdir -p $(BUILD)/fuzzing/$$target; \
	    $(BUILD)/fuzzing/fuzz/$${target}_fuzz -max_total_time=$(FUZZ_SECONDS) -timeout=10 \
	        -max_len=4096 -dict=tests/fuzz/$$target.dict -artifact_prefix=$(BUILD)/fuzzing/ \
	        $(BUILD)/fuzzing/$$target tests/fuzz/corpus/$$target \
	        >$(BUILD)/fuzzing/$$target.log 2>&1 & pids="$$pids $$!"; done; \
	status=0; for pid in $$pids; do wait $$pid || status=1; done; \
	tail -n 2 $(BUILD)/fuzzing/*.log; \
	! grep -l 'Is the code instrumented' $(BUILD)/fuzzing/*.log || status=1; exit $$status

# 100,000 random programs of all kinds, 10,000 attention programs.
random-long: all $(VENV)/ready
	ATTC_RANDOM=0:100000 ATTC_RANDOM_ATTENTION=0:10000 $(VENV)/bin/python tests/run_tests.py $(BUILD) random

# Numbers FIRST up to FIRST + COUNT; `tests/mutations/mutate.py --show N` prints one.
mutations: all
	ATTC=$(BUILD)/attc $(PYTHON) tests/mutations/mutate.py --first $(or $(FIRST),0) \
		--count $(or $(COUNT),10000)

# ---- benchmarks: an environment of their own, and the peak's loop as a library -----------------------
BENCH_VENV := $(BUILD)/bench-venv
$(BENCH_VENV)/ready: tests/bench/requirements.txt
	$(PYTHON) -m venv $(BENCH_VENV)
	$(BENCH_VENV)/bin/pip install --quiet --disable-pip-version-check -r $<
	touch $@
$(BUILD)/bench/libpeak.so: $(filter %/peak.o,$(TRAIN_OBJECTS)) $(RUNTIME)
	@mkdir -p $(@D)
	$(call say,LINK,$@)
	$(Q)$(CC) $(SANFLAGS) -shared -o $@ $^ -lm -lpthread
BENCH_OPTIONS = $(if $(CASES),--cases '$(CASES)') $(if $(THREADS),--threads $(THREADS)) \
                $(if $(PEERS),--peers $(PEERS)) $(if $(QUICK),--quick) \
                $(if $(GRAD),--grad) \
                $(if $(CLOCK),--clock $(CLOCK))
bench: all $(BENCH_VENV)/ready $(BUILD)/bench/libpeak.so
	$(BENCH_VENV)/bin/python tests/bench $(BUILD)/attc --peak $(BUILD)/bench/libpeak.so \
		--out $(BUILD)/bench $(BENCH_OPTIONS)

# What attc tune finds, and how good the default schedules are; CASES, THREADS, EFFORT, SEARCHES.
tuning: all $(VENV)/ready
	$(VENV)/bin/python tests/bench/tuning.py $(BUILD)/attc --out $(BUILD)/tuning.csv \
		$(if $(CASES),--cases '$(CASES)') $(if $(THREADS),--threads $(THREADS)) \
		$(if $(EFFORT),--effort $(EFFORT)) $(if $(SEARCHES),--searches $(SEARCHES))

# How even one library is over 50 lengths that it was not compiled for; CASES, THREADS.
lengths: all $(VENV)/ready
	$(VENV)/bin/python tests/bench/lengths.py $(BUILD)/attc --out $(BUILD)/lengths.csv \
		$(if $(CASES),--cases '$(CASES)') $(if $(THREADS),--threads $(THREADS))

# Steps of training against PyTorch's: how long they take (THREADS, PEERS), and the first losses.
training: all $(BENCH_VENV)/ready $(BUILD)/bench/libpeak.so
	$(BENCH_VENV)/bin/python tests/bench/training.py $(BUILD)/attc \
		--peak $(BUILD)/bench/libpeak.so $(if $(THREADS),--threads $(THREADS)) \
		$(if $(PEERS),--peers $(PEERS))
parity: all $(BENCH_VENV)/ready
	$(BENCH_VENV)/bin/python tests/bench/parity.py $(BUILD)/attc

# ---- experiments: charts want matplotlib, in an environment of their own ------------------------------
EXPERIMENTS_VENV := $(BUILD)/experiments-venv
$(EXPERIMENTS_VENV)/ready: examples/experiments/requirements.txt
	$(PYTHON) -m venv $(EXPERIMENTS_VENV)
	$(EXPERIMENTS_VENV)/bin/pip install --quiet --disable-pip-version-check -r $<
	touch $@
experiments: deps
	$(MAKE) --no-print-directory -j2 all $(EXPERIMENTS_VENV)/ready
	$(EXPERIMENTS_VENV)/bin/python examples/experiments $(BUILD)/attc $(EXPERIMENTS) \
		--out $(BUILD)/experiments

clean:
	rm -rf $(BUILD)

format:
	clang-format-$(LLVM) -i $$(git ls-files '*.c' '*.h')

-include $(shell find $(BUILD) -name '*.d' 2>/dev/null)
