# Ringside's build.
#
#   make                 build all programs            make run       build, start, end in a first console
#   make deps            install what a build needs    make test      install what is missing, build, run every test
#   make check           the tests alone               make bench     figures as ratios  [BENCH=name]
#   make fuzz            fuzz each parser [FUZZ_SECONDS=20]            make lint      format and static analysis
#   make fresh           both README commands on a bare Debian         make install   [DESTDIR=] [PREFIX=]
#   make torture         programs that are hard to end, each proven gone  [ROUNDS=10000]
#   make compile_commands.json                         V=1 shows the commands
#
# VARIANT=release|debug|asan|tsan|fuzz picks flags and a tree of its own below BUILD (default: build). CC=clang works too; fuzz
# needs it. The tasks (run, test, deps, …) are in Makefile.tasks, the programs in what follows.

all:

VARIANT ?= release
BUILD   ?= build
PREFIX  ?= /usr/local
B := $(BUILD)/$(VARIANT)
Q := $(if $(V),,@)
VERSION := 0.1.0

# ---- The house: modules, programs and who may use whom. A folder that is not named here does not link. --------------
MODULES := ring wire consoles providers ledger sandboxes client cli
PROGS   := ringside-consoled ringsided ringside

DEPS_ringside-consoled := consoles wire ring
DEPS_ringsided         := sandboxes providers ledger wire ring
DEPS_ringside          := cli client wire ring

# What a module may use from outside. Only these get include paths; only a program's own modules get linked.
PKGS_wire      := libprotobuf-c libuv
PKGS_consoles  := libuv libprotobuf-c
PKGS_providers := libuv libprotobuf-c
PKGS_ledger    := sqlite3
PKGS_sandboxes := libuv libprotobuf-c
PKGS_client    := libprotobuf-c libpcre2-8
PKGS_cli       := libprotobuf-c jansson
PKGS_tests     := cmocka libuv libprotobuf-c libpcre2-8 sqlite3 jansson vterm

# ringside-consoled is static outside the sanitizers, so that it runs in any Linux sandbox; it never looks up names,
# so glibc's warnings about getaddrinfo and friends inside libuv do not apply.
comma := ,
STATIC_ringside-consoled := $(if $(filter release,$(VARIANT)),-static -Wl$(comma)--no-warnings)

# What each program links: the CLI carries no event loop, so that it starts in a millisecond.
LINK_ringside-consoled := $(if $(STATIC_ringside-consoled),libuv-static,libuv) libprotobuf-c
LINK_ringsided         := libuv libprotobuf-c sqlite3
LINK_ringside          := libprotobuf-c libpcre2-8 jansson

FLAGS_release := -O2 -D_FORTIFY_SOURCE=2
FLAGS_debug   := -O2
FLAGS_asan    := -DRINGSIDE_CRASH_POINTS -O1 -fsanitize=address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer
FLAGS_tsan    := -DRINGSIDE_CRASH_POINTS -O1 -fsanitize=thread -fno-omit-frame-pointer
FLAGS_fuzz    := -O1 -fsanitize=fuzzer-no-link,address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer
WERROR  ?= -Werror
CFLAGS  ?= -g
WARN    := -Wall -Wextra -Wshadow -Wconversion -Wvla -Wformat=2 -Wstrict-prototypes -Wmissing-prototypes \
           -Wpointer-arith -Wwrite-strings -Wundef \
           -Wno-missing-field-initializers $(WERROR)
BASE    := -std=gnu17 -D_GNU_SOURCE -DRINGSIDE_VERSION='"$(VERSION)"' -fPIC -I. -I$(B)/gen

# ---- Rules ----------------------------------------------------------------------------------------------------------
PROTOS := $(wildcard wire/*.proto)
GENC   := $(PROTOS:%.proto=$(B)/gen/%.pb-c.c)
GENH   := $(GENC:.c=.h)
# A module's sources: its folder and the folders below it (providers/host, …).
srcs    = $(wildcard $1/*.c $1/*/*.c)
objs    = $(patsubst %.c,$(B)/%.o,$(call srcs,$1)) $(if $(filter wire,$1),$(GENC:.c=.o))
pkgs    = $(if $(strip $2),$(shell pkg-config $1 $2))
module  = $(firstword $(subst /, ,$1))
compile = $(CC) $(BASE) $(call pkgs,--cflags,$(PKGS_$(call module,$1))) $(WARN) $(CFLAGS) $(FLAGS_$(VARIANT))
link    = $(CC) $(CFLAGS) $(FLAGS_$(VARIANT)) $(LDFLAGS) -o
LIBDIR := $(B)/lib
lib     = $(LIBDIR)/lib$1.a

all: $(PROGS:%=$(B)/bin/%) $(LIBDIR)/libringside.so.0
	@:

$(B)/gen/%.pb-c.c: %.proto
	@mkdir -p $(B)/gen && echo '  PROTO $<'
	$(Q)protoc-c --c_out=$(B)/gen $<
$(GENH): %.h: %.c ;
$(B)/gen/%.o: $(B)/gen/%.c Makefile | $(GENH)
	$(Q)$(CC) $(BASE) $(call pkgs,--cflags,libprotobuf-c) -w $(CFLAGS) $(FLAGS_$(VARIANT)) -MMD -MP -c -o $@ $<

$(B)/%.o: %.c Makefile | $(GENH)
	@mkdir -p $(@D) && echo '  CC    $<'
	$(Q)$(call compile,$<) -MMD -MP -c -o $@ $<

define module_rule
$(call lib,$1): $(call objs,$1)
	@mkdir -p $$(@D) && rm -f $$@ && echo '  AR    $$(@F)'
	$(Q)$(AR) rcsD $$@ $$^
endef
$(foreach m,$(MODULES),$(eval $(call module_rule,$m)))

# A program's main() is MODULE/main.c of its first module; the archives after it give only what is asked for.
define program_rule
$(B)/bin/$1: $(foreach m,$(DEPS_$1),$(call lib,$m))
	@mkdir -p $$(@D) && echo '  LINK  $$(@F)'
	$(Q)$(link) $$@ $$(STATIC_$1) $(B)/$(firstword $(DEPS_$1))/main.o $$^ $$(call pkgs,--libs $$(if $$(STATIC_$1),--static),$$(LINK_$1)) -lpthread
endef
$(foreach p,$(PROGS),$(eval $(call program_rule,$p)))

$(LIBDIR)/libringside.so.0: $(foreach m,client wire ring,$(call lib,$m)) client/ringside.map
	@echo '  LINK  $(@F)'
	$(Q)$(link) $@ -shared -Wl,-soname,libringside.so.0 -Wl,--version-script=client/ringside.map \
	  -Wl,--whole-archive $(call lib,client) -Wl,--no-whole-archive $(call lib,wire) $(call lib,ring) \
	  $(call pkgs,--libs,libprotobuf-c libpcre2-8) -lpthread
	$(Q)ln -sf libringside.so.0 $(LIBDIR)/libringside.so

# ---- Tests ----------------------------------------------------------------------------------------------------------
# tests/unit/MODULE/test_FILE.c links that module and what it may use, but no main(); tests/integration/test_*.c drive
# the built programs through tests/support and link libringside as any front end does.
unit_deps_ring      := ring
unit_deps_wire      := wire ring
unit_deps_consoles  := consoles wire ring
unit_deps_ledger    := ledger
unit_deps_providers := providers wire ring
unit_deps_sandboxes := sandboxes providers ledger wire ring
unit_deps_client    := client wire ring
unit_deps_cli       := cli client wire ring
unit_pkgs_ledger    := sqlite3
unit_pkgs_sandboxes := sqlite3
unit_pkgs_client    := libpcre2-8
unit_pkgs_cli       := libpcre2-8 jansson

UNIT := $(patsubst %.c,$(B)/%,$(wildcard tests/unit/*/test_*.c))
INTEGRATION := $(patsubst %.c,$(B)/%,$(wildcard tests/integration/test_*.c))
SUPPORT := $(patsubst %.c,$(B)/%.o,$(wildcard tests/support/*.c))
FUZZ    := $(patsubst %.c,$(B)/%,$(wildcard tests/fuzz/fuzz_*.c))
BENCHES := $(patsubst %.c,$(B)/%,$(wildcard tests/bench/bench_*.c))
BENCH_SUPPORT := $(patsubst %.c,$(B)/%.o,$(filter-out tests/bench/bench_%,$(wildcard tests/bench/*.c))) $(B)/tests/support/guard.o
.PRECIOUS: $(B)/%.o $(B)/gen/%.pb-c.c $(B)/gen/%.pb-c.h

unit_of = $(word 3,$(subst /, ,$1))
define unit_rule
$(B)/$1: $(B)/$1.o $(foreach m,$(unit_deps_$(call unit_of,$1)),$(call lib,$m))
	@echo '  LINK  $1'
	$(Q)$(link) $$@ $$^ $$(call pkgs,--libs,cmocka libuv libprotobuf-c $(unit_pkgs_$(call unit_of,$1))) -lpthread
endef
$(foreach t,$(UNIT:$(B)/%=%),$(eval $(call unit_rule,$t)))

$(INTEGRATION): %: %.o $(SUPPORT) $(foreach m,client wire ring,$(call lib,$m))
	@echo '  LINK  $(@:$(B)/%=%)'
	$(Q)$(link) $@ $^ $(call pkgs,--libs,cmocka libprotobuf-c libpcre2-8 jansson sqlite3 vterm) -lpthread -lutil

# Benchmarks are programs of their own; tests/bench/run.sh knows their peers.
$(BENCHES): %: %.o $(BENCH_SUPPORT) $(foreach m,client wire ring,$(call lib,$m))
	@echo '  LINK  $(@:$(B)/%=%)'
	$(Q)$(link) $@ $^ $(call pkgs,--libs,libprotobuf-c libpcre2-8) -lpthread -lutil

# tests/torture/torture_NAME.c: what must hold for thousands of rounds, longer than a test may take.
TORTURE := $(patsubst %.c,$(B)/%,$(wildcard tests/torture/torture_*.c))
$(TORTURE): %: %.o $(foreach m,consoles wire ring,$(call lib,$m))
	@echo '  LINK  $(@:$(B)/%=%)'
	$(Q)$(link) $@ $^ $(call pkgs,--libs,libuv libprotobuf-c) -lpthread

# tests/fuzz/fuzz_PARSER.c, in VARIANT=fuzz with CC=clang; a parser outside wire and ring is named here with its modules.
define fuzz_rule
$(B)/$1: $(B)/$1.o $(foreach m,$(or $(fuzz_deps_$(notdir $1)),wire ring),$(call lib,$m))
	@echo '  LINK  $1'
	$(Q)$(link) $$@ -fsanitize=fuzzer $$^ $$(call pkgs,--libs,libuv libprotobuf-c libpcre2-8) -lpthread
endef
$(foreach t,$(FUZZ:$(B)/%=%),$(eval $(call fuzz_rule,$t)))

# tests/preload/NAME.c → lib/NAME.so: what a test puts between a program and its C library. Not for the sanitizers, which stand
# there themselves, nor for static programs: VARIANT=debug.
PRELOADS := $(patsubst tests/preload/%.c,$(LIBDIR)/%.so,$(wildcard tests/preload/*.c))
$(PRELOADS): $(LIBDIR)/%.so: $(B)/tests/preload/%.o
	@mkdir -p $(@D) && echo '  LINK  $(@F)'
	$(Q)$(link) $@ -shared $^ -ldl
preloads: $(PRELOADS)
.PHONY: preloads

# Every object, compiled and not linked: what a second compiler is asked to accept.
objects: $(foreach m,$(MODULES),$(call objs,$m)) $(UNIT:=.o) $(INTEGRATION:=.o) $(SUPPORT) $(BENCHES:=.o) $(BENCH_SUPPORT)

programs: $(PROGS:%=$(B)/bin/%)
tests: all $(UNIT) $(INTEGRATION)
unit-tests: $(UNIT)
fuzzers: $(FUZZ)
benches: programs $(BENCHES)
tortures: $(TORTURE)

.PHONY: all programs objects tests unit-tests fuzzers benches tortures
.DELETE_ON_ERROR:
include Makefile.tasks
-include $(shell find $(B) -name '*.d' 2>/dev/null)
