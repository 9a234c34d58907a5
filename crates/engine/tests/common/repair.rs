//! Repairing the table.

use super::{TABLE, definition};
use teak_engine::{
    AddedIndex, Alteration, AlterationPlan, Engine, EngineResult, EntryOrder, PlannedIndex,
    SalvageReport,
};

/// All indexes of the table, as indexes to add.
pub fn added() -> Vec<AddedIndex> {
    let indexes = definition(TABLE).indexes.into_iter().enumerate();
    indexes
        .map(|(number, definition)| AddedIndex {
            definition,
            unique: number == 0,
            entry_order: match number {
                0 => EntryOrder::ByKey,
                _ => EntryOrder::Any,
            },
        })
        .collect()
}

/// Repairs the table as the plugin does.
pub fn repair(engine: &Engine, findings: &mut Vec<String>) -> EngineResult<SalvageReport> {
    let table = engine.open_damaged_table(TABLE)?;
    let mut alteration = engine.begin_alteration(&table, &added(), Box::new(|| false))?;
    alteration.repair(10);
    let report = table.salvage(
        Box::new(|| false),
        &mut |row| {
            alteration.add(0, row.key, row.value)?;
            let second = [row.value, b"\0", row.key].concat();
            alteration.add(1, &second, &[])
        },
        &mut |text| findings.push(text.into()),
    )?;
    alteration.build(&mut |_, _| {})?;
    let plan = AlterationPlan {
        indexes: vec![PlannedIndex::Added(0), PlannedIndex::Added(1)],
        metadata: b"metadata".to_vec(),
    };
    Alteration::commit(vec![(alteration, plan)])?;
    Ok(report)
}
