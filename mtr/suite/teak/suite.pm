package My::Suite::Teak;

# The suite `teak`: needs the plugin in the plugin directory (mtr/run.sh puts a link there).

@ISA = qw(My::Suite);

return "ha_teak.so is not built" unless $ENV{HA_TEAK_SO} and -e "$::plugindir/ha_teak.so";

sub is_default { 1 }

bless { };
