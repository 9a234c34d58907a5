//! All fuzz targets by name. Each crate lists its own targets.

use teak_base::fuzzing::Target;

/// The targets of every crate.
pub fn targets() -> impl Iterator<Item = &'static Target> {
    let lists = [
        teak_base::fuzzing::TARGETS,
        teak_block_file::fuzzing::TARGETS,
        teak_write_ahead_log::fuzzing::TARGETS,
        teak_tree::fuzzing::TARGETS,
        teak_engine::fuzzing::TARGETS,
    ];
    lists.into_iter().flatten()
}

/// Runs a target.
///
/// # Panics
/// When the target finds a bug, or there is no such target.
pub fn run(name: &str, bytes: &[u8]) {
    match targets().find(|target| target.name == name) {
        Some(target) => (target.run)(bytes),
        None => panic!("there is no target {name}"),
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn every_target_has_a_program() {
        let manifest = include_str!("../Cargo.toml");
        let mut programs: Vec<&str> = manifest
            .split("[[bin]]\nname = \"")
            .skip(1)
            .filter_map(|rest| rest.split('"').next())
            .collect();
        let mut targets: Vec<&str> = super::targets().map(|target| target.name).collect();
        programs.sort_unstable();
        targets.sort_unstable();
        assert_eq!(programs, targets);
    }
}
