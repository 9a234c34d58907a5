//! Runs the fuzz targets on mutations of valid inputs.

#[test]
fn decoders_accept_or_refuse_mutated_bytes() {
    teak_base::fuzzing::smoke(teak_write_ahead_log::fuzzing::TARGETS, 4000);
}
