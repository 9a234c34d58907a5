# How the plugin's C++ files are compiled. The including makefile sets OBJECTS, SERVER_HEADERS (the installed headers), SOURCE
# (the server's source), GENERATED (with probes_mysql_nodtrace.h), FLAVOUR_FLAGS, and SERVER_STAMP, a file that is newer than
# the objects if the server's headers have changed.

CXX ?= g++
CXXFLAGS ?=
WARNINGS ?= -Wall -Wextra -Werror
PLUGIN_FLAGS := -std=gnu++17 -fPIC $(FLAVOUR_FLAGS) $(WARNINGS) -fno-strict-aliasing \
	-DMYSQL_DYNAMIC_PLUGIN -DMYSQL_SERVER -DHAVE_CONFIG_H -DDBUG_OFF
# The server's headers are system headers: their warnings are not ours.
PLUGIN_INCLUDES := -Iplugin -Icrates/c_api/include -isystem $(SERVER_HEADERS) -isystem $(SOURCE)/sql -isystem $(SOURCE)/include \
	-isystem $(GENERATED) -isystem $(SOURCE)/wsrep-lib/include -isystem $(SOURCE)/wsrep-lib/wsrep-API/v26
PLUGIN_FOLDERS := base format monitor session statistics table reports alter condition handler pushdown
PLUGIN_SOURCES := $(sort $(wildcard plugin/*.cc $(PLUGIN_FOLDERS:%=plugin/%/*.cc)))
PLUGIN_OBJECTS := $(PLUGIN_SOURCES:plugin/%.cc=$(OBJECTS)/%.o)

# Most of the time to compile a file goes into the server's headers, so they are compiled once.
SERVER_PRECOMPILED := $(OBJECTS)/server.h
$(SERVER_PRECOMPILED).gch: plugin/base/server_version.h $(SERVER_STAMP) $(firstword $(MAKEFILE_LIST)) plugin/objects.mk
	@mkdir -p $(@D)
	@printf -- '-- compiling the headers of the server\n'
	@echo '#include "base/server_version.h"' >$(SERVER_PRECOMPILED)
	@$(CXX) $(PLUGIN_FLAGS) $(CXXFLAGS) $(PLUGIN_INCLUDES) -x c++-header -o $@ $(SERVER_PRECOMPILED)

$(OBJECTS)/%.o: plugin/%.cc $(SERVER_PRECOMPILED).gch
	@mkdir -p $(@D)
	@printf -- '-- compiling %s\n' $<
	@$(CXX) $(PLUGIN_FLAGS) $(CXXFLAGS) $(PLUGIN_INCLUDES) -include $(SERVER_PRECOMPILED) -MMD -MP -c -o $@ $<

-include $(PLUGIN_OBJECTS:.o=.d)
