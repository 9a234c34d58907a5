//! Runs the fuzz targets on mutated valid inputs.

#[test]
fn decoders_and_recovery_accept_or_refuse_mutated_bytes() {
    teak_base::fuzzing::smoke(teak_engine::fuzzing::TARGETS, 1000);
}
