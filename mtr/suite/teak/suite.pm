package My::Suite::Teak;

# The suite `teak`: needs the plugin in the plugin directory (mtr/run.sh puts a link there).

@ISA = qw(My::Suite);

return "ha_teak.so is not built" unless $ENV{HA_TEAK_SO} and -e "$::plugindir/ha_teak.so";

sub is_default { 1 }

# Each server runs one of the suite's combinations, that of its series.
sub skip_combinations {
  my $other = $::mysql_version_id >= 110000 ? 'mariadb_10_11' : 'mariadb_11_8';
  return ( combinations => [ $other ] );
}

bless { };
