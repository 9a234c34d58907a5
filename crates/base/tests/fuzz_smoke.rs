//! Runs the fuzz targets on mutated valid inputs.

#[test]
fn decoders_take_or_refuse_mutated_bytes() {
    teak_base::fuzzing::smoke(teak_base::fuzzing::TARGETS, 4000);
}
