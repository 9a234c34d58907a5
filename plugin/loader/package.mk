# The plugin as packages contain it: ha_teak.so has the core and a loader, and teak_shim.so the code that depends on the
# release of the server (loader.cc). Run in the directory above plugin/:
#   make -f plugin/loader/package.mk shim   OUT=DIR CORE_ID=TEXT SERVER=DIR
#   make -f plugin/loader/package.mk loader OUT=DIR CORE_ID=TEXT SERVER=DIR CORE=libteak_c_api.a SHIM=OUT/teak_shim.so
#   make -f plugin/loader/package.mk check  SHIM=teak_shim.so LOADER=ha_teak.so
# SERVER has the headers of one release, as debian/server_headers.sh collects them. CORE_ID is the version of the core.

SHELL := /bin/bash
MAKEFLAGS += --no-builtin-rules
.PHONY: shim loader check
SERVER_HEADERS := $(SERVER)/public
SOURCE := $(SERVER)/source
GENERATED := $(SERVER)/generated
SERVER_STAMP := $(SERVER_HEADERS)/mysql_version.h
OBJECTS := $(OUT)/objects
FLAVOUR_FLAGS := -O2 -g -DTEAK_CORE_ID='"$(CORE_ID)"'
# An unknown release may cause new warnings.
WARNINGS := -Wall -Wextra
CFLAGS ?=
LDFLAGS ?=
SHIMS := /usr/lib/mysql/teak
LOCAL_SHIMS := /var/lib/mariadb-plugin-teak
include plugin/objects.mk
LINK = $(CXX) $(FLAVOUR_FLAGS) $(CXXFLAGS) -shared -Wl,-Bsymbolic -Wl,-z,nodelete -Wl,--gc-sections $(LDFLAGS)

shim: $(OUT)/teak_shim.so

# At run time the linker takes ha_teak.so, which is loaded already, for the empty library of the same name.
$(OUT)/teak_shim.so: $(PLUGIN_OBJECTS) $(OBJECTS)/loader/shim.o plugin/loader/shim.map
	@printf -- '-- linking %s\n' $@
	@$(CXX) -shared -nostdlib -Wl,-soname,ha_teak.so -o $(OBJECTS)/ha_teak.so -x c++ /dev/null
	@$(LINK) -Wl,--version-script=plugin/loader/shim.map -Wl,--no-as-needed -o $@ $(filter %.o,$^) $(OBJECTS)/ha_teak.so -lpthread

# What the shims use of archives: $(call used,PATTERN) has an option for each name that makes the linker take it.
used = $$(nm -D --undefined-only $(SHIM) | awk '$$2 ~ /$(1)/ { print "-Wl,-u," $$2 }')
SERVICES := $(patsubst $(SOURCE)/libservices/%.c,$(OBJECTS)/services/%.o,$(wildcard $(SOURCE)/libservices/*.c))

$(OBJECTS)/services/%.o: $(SOURCE)/libservices/%.c
	@mkdir -p $(@D)
	@$(CC) -fPIC -O2 $(CFLAGS) -DHAVE_CONFIG_H -I $(SERVER_HEADERS) -I $(SOURCE)/include -c -o $@ $<

loader: $(OUT)/ha_teak.so

$(OBJECTS)/libservices.a: $(SERVICES)
	@ar rcs $@ $^

$(OBJECTS)/loader.o: plugin/loader/loader.cc plugin/loader/shim.h
	@mkdir -p $(@D)
	@printf -- '-- compiling %s\n' $<
	@$(CXX) -std=gnu++17 -fPIC $(FLAVOUR_FLAGS) $(WARNINGS) $(CXXFLAGS) -fno-exceptions -Iplugin -isystem $(SERVER_HEADERS) \
		-DMYSQL_DYNAMIC_PLUGIN -DTEAK_SHIMS='"$(SHIMS)"' -DTEAK_LOCAL_SHIMS='"$(LOCAL_SHIMS)"' -c -o $@ $<

$(OUT)/ha_teak.so: $(OBJECTS)/loader.o $(OBJECTS)/libservices.a $(CORE) $(SHIM) plugin/loader/loader.map
	@printf -- '-- linking %s\n' $@
	@$(LINK) -Wl,-soname,ha_teak.so -Wl,--version-script=plugin/loader/loader.map -o $@ $(call used,^teak_|_service$$) \
		$(OBJECTS)/loader.o $(OBJECTS)/libservices.a $(CORE) -lpthread -ldl -lm -lrt

# The server's own names are resolved only in a server.
check:
	@missing=$$(comm -23 <(nm -D --undefined-only $(SHIM) | awk '$$2 ~ /^teak_|_service$$/ { print $$2 }' | sort -u) \
		<(nm -D --defined-only $(LOADER) | awk '{ print $$3 }' | sort -u)); \
	[ -z "$$missing" ] || { printf 'error: %s lacks what %s needs: %s\n' $(LOADER) $(SHIM) "$$(xargs <<<"$$missing")" >&2; exit 1; }
