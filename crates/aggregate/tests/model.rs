//! The aggregates of any rows are those that a simple program computes.

// A test fails by a panic, and its numbers are small.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss
)]

use num_bigint::BigInt;
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::convert::Infallible;
use teak_aggregate::{
    Aggregate, Aggregator, Columns, Comparison, Condition, Expression, Key, KeyValue, Query, Step,
    TextRules, Total, number_of_float,
};
use teak_columns::{Vector, Zone};

/// Three numbers, of which the last is large, and a string.
type Row = ([Option<i64>; 3], Option<String>);

const TEXT: usize = 3;

/// A float that is computed from the first number.
const FLOAT: usize = 4;

/// Not exact, so that the order of additions matters; -0.0 for 1.
fn float_of(row: &Row) -> Option<f64> {
    let number = row.0[0]?;
    Some(if number == 1 {
        -0.0
    } else {
        number as f64 / 3.0
    })
}

struct Rows<'a>(&'a [Row]);

impl Columns for Rows<'_> {
    type Error = Infallible;

    fn rows(&self) -> usize {
        self.0.len()
    }

    fn vector(&mut self, column: usize) -> Result<Vector, Infallible> {
        let mut vector = Vector::new(column < TEXT);
        for (numbers, text) in self.0 {
            if column == FLOAT {
                match float_of(&(*numbers, None)) {
                    Some(float) => assert!(vector.push_text(&float.to_le_bytes())),
                    None => vector.push_null(),
                }
                continue;
            }
            let is_pushed = match numbers.get(column) {
                Some(number) => number.map(|number| vector.push_number(number)),
                None => text.as_ref().map(|text| vector.push_text(text.as_bytes())),
            };
            match is_pushed {
                None => vector.push_null(),
                Some(is_pushed) => assert!(is_pushed),
            }
        }
        Ok(vector)
    }
}

/// Strings that differ only in case are equal.
struct IgnoresCase;

impl TextRules for IgnoresCase {
    fn weigh(&mut self, _key: usize, text: &[u8], out: &mut Vec<u8>) {
        out.extend(text.iter().map(u8::to_ascii_lowercase));
    }

    fn accepts(&mut self, condition: usize, text: &[u8]) -> bool {
        accepts(condition, std::str::from_utf8(text).unwrap())
    }
}

/// Two conditions of strings.
fn accepts(condition: usize, text: &str) -> bool {
    match condition {
        0 => text.to_ascii_lowercase().as_str() < "b",
        _ => text.len() == condition,
    }
}

fn matches(condition: &Condition, row: &Row) -> bool {
    let number = |column: &usize| match *column {
        FLOAT => float_of(row).map(number_of_float),
        column => row.0[column],
    };
    let is_null = |column: &usize| match *column {
        TEXT => row.1.is_none(),
        column => row.0[column].is_none(),
    };
    match condition {
        Condition::All(of) => of.iter().all(|condition| matches(condition, row)),
        Condition::Any(of) => of.iter().any(|condition| matches(condition, row)),
        Condition::Within { column, min, max } => {
            number(column).is_some_and(|n| (*min..=*max).contains(&n))
        }
        Condition::Outside { column, min, max } => {
            number(column).is_some_and(|n| n < *min || n > *max)
        }
        Condition::In { column, numbers } => number(column).is_some_and(|n| numbers.contains(&n)),
        Condition::NotIn { column, numbers } => {
            number(column).is_some_and(|n| !numbers.contains(&n))
        }
        Condition::Compare {
            left,
            right,
            comparison,
        } => match (number(left), number(right)) {
            (Some(left), Some(right)) => match comparison {
                Comparison::Less => left < right,
                Comparison::LessOrEqual => left <= right,
                Comparison::Equal => left == right,
                Comparison::NotEqual => left != right,
            },
            _ => false,
        },
        Condition::Accepted { condition, .. } => {
            let text = row.1.as_ref();
            text.is_some_and(|text| accepts(*condition, text))
        }
        Condition::IsNull { column } => is_null(column),
        Condition::IsNotNull { column } => !is_null(column),
    }
}

fn evaluate(steps: &[Step], row: &Row) -> Option<BigInt> {
    let mut stack: Vec<BigInt> = Vec::new();
    for step in steps {
        let result = match step {
            Step::Column(column) => BigInt::from(row.0[*column]?),
            Step::Constant(number) => BigInt::from(*number),
            Step::Negate => -stack.pop().unwrap(),
            Step::Add | Step::Subtract | Step::Multiply => {
                let second: BigInt = stack.pop().unwrap();
                let first: BigInt = stack.pop().unwrap();
                match step {
                    Step::Add => first + second,
                    Step::Subtract => first - second,
                    _ => first * second,
                }
            }
        };
        stack.push(result);
    }
    stack.pop()
}

fn total_of(aggregate: &Aggregate, steps: &[Step], rows: &[&Row]) -> Total {
    let numbers = |column: &usize| {
        let column = *column;
        rows.iter().filter_map(move |row| row.0[column])
    };
    match aggregate {
        Aggregate::CountRows => Total::Count(rows.len() as u64),
        Aggregate::Count(column) => Total::Count(numbers(column).count() as u64),
        Aggregate::Sum(_) => {
            let results: Vec<BigInt> = rows.iter().filter_map(|row| evaluate(steps, row)).collect();
            Total::Sum {
                count: results.len() as u64,
                sum: results.into_iter().sum(),
            }
        }
        Aggregate::Min(column) => Total::Extreme(numbers(column).min()),
        Aggregate::Max(column) => Total::Extreme(numbers(column).max()),
        Aggregate::SumFloats(_) => {
            let floats = rows.iter().filter_map(|row| float_of(row));
            Total::Float(floats.reduce(|sum, float| sum + float))
        }
        Aggregate::MinFloat(_) | Aggregate::MaxFloat(_) => {
            let is_min = matches!(aggregate, Aggregate::MinFloat(_));
            let floats = rows.iter().filter_map(|row| float_of(row));
            let better = |one: f64, other: f64| if is_min { other < one } else { other > one };
            Total::Float(floats.reduce(|one, other| if better(one, other) { other } else { one }))
        }
    }
}

/// The key of a row, with the weights of its string.
fn key_of(keys: &[Key], row: &Row) -> Vec<Option<String>> {
    let part = |key: &Key| match key.column {
        TEXT if key.is_weighed => row.1.as_ref().map(|text| text.to_ascii_lowercase()),
        TEXT => row.1.clone(),
        column => row.0[column].map(|number| number.to_string()),
    };
    keys.iter().map(part).collect()
}

fn found_key(keys: &[Key], parts: &[KeyValue<'_>]) -> Vec<Option<String>> {
    let part = |(key, value): (&Key, &KeyValue<'_>)| match value {
        KeyValue::Null => None,
        KeyValue::Number(number) => Some(number.to_string()),
        KeyValue::Text(text) => {
            let text = String::from_utf8(text.to_vec()).unwrap();
            Some(match key.is_weighed {
                true => text.to_ascii_lowercase(),
                false => text,
            })
        }
    };
    keys.iter().zip(parts).map(part).collect()
}

fn row() -> impl Strategy<Value = Row> {
    let number = |range: std::ops::Range<i64>| proptest::option::weighted(0.9, range);
    let large = proptest::option::weighted(0.9, prop_oneof![any::<i64>(), -9i64..9]);
    let text = proptest::option::weighted(0.9, "[abAB]{0,3}");
    (number(-5..5), number(-1000..1000), large, text)
        .prop_map(|(first, second, third, text)| ([first, second, third], text))
}

fn condition() -> impl Strategy<Value = Condition> {
    let numbers = || proptest::collection::btree_set(-20i64..20, 0..6);
    let leaf = (0usize..3, -20i64..20, 0i64..20, numbers(), 0u8..11).prop_map(
        |(column, min, distance, numbers, kind)| {
            let numbers: Vec<i64> = numbers.into_iter().collect();
            let max = min + distance;
            if kind > 8 {
                let all = [
                    Comparison::Less,
                    Comparison::LessOrEqual,
                    Comparison::Equal,
                    Comparison::NotEqual,
                ];
                return Condition::Compare {
                    left: column,
                    right: (column + usize::from(kind) - 8) % 3,
                    comparison: all[numbers.len() % all.len()],
                };
            }
            if kind == 8 {
                return Condition::Accepted {
                    column: TEXT,
                    condition: column,
                };
            }
            if kind > 5 {
                let [min, max] = [min, max].map(|number| number_of_float(number as f64 / 7.0));
                let column = FLOAT;
                return match kind {
                    6 => Condition::Within { column, min, max },
                    _ => Condition::Outside { column, min, max },
                };
            }
            match kind {
                0 => Condition::Within { column, min, max },
                1 => Condition::Outside { column, min, max },
                2 => Condition::In { column, numbers },
                3 => Condition::NotIn { column, numbers },
                4 => Condition::IsNull { column: column + 1 },
                _ => Condition::IsNotNull { column: column + 1 },
            }
        },
    );
    leaf.prop_recursive(3, 12, 3, |inner| {
        let list = proptest::collection::vec(inner, 0..4);
        (list, any::<bool>()).prop_map(|(list, all)| match all {
            true => Condition::All(list),
            false => Condition::Any(list),
        })
    })
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let leaf = prop_oneof![
        (0usize..3).prop_map(|column| vec![Step::Column(column)]),
        (-100i64..100).prop_map(|number| vec![Step::Constant(number)]),
    ];
    leaf.prop_recursive(3, 8, 2, |inner| {
        (inner.clone(), inner, 0u8..4).prop_map(|(mut first, second, kind)| {
            if kind == 0 {
                first.push(Step::Negate);
                return first;
            }
            first.extend(second);
            first.push(match kind {
                1 => Step::Add,
                2 => Step::Subtract,
                _ => Step::Multiply,
            });
            first
        })
    })
}

#[test]
fn without_rows_there_is_one_group_unless_rows_are_grouped() {
    let query = |keys: Vec<Key>| Query {
        columns: 1,
        condition: None,
        keys,
        aggregates: vec![Aggregate::CountRows, Aggregate::Max(0)],
    };
    let whole = Aggregator::new(query(vec![]), 1000).unwrap();
    assert_eq!(whole.groups(), 1);
    assert_eq!(whole.total(0, 0), Some(Total::Count(0)));
    assert_eq!(whole.total(0, 1), Some(Total::Extreme(None)));
    assert_eq!(whole.total(0, 2), None);
    let key = |column| Key {
        column,
        is_weighed: false,
    };
    let grouped = Aggregator::new(query(vec![key(0)]), 1000).unwrap();
    assert_eq!(grouped.groups(), 0);
    assert!(Aggregator::new(query(vec![key(1)]), 1000).is_none());
}

#[test]
fn a_zone_excludes_conditions_without_its_values() {
    let zone = |min, max| Zone {
        min,
        max,
        has_values: true,
        has_nulls: false,
    };
    let may_match = |condition: &Condition, zone: Zone| condition.may_match(&|_| Some(zone));
    let column = 0;
    let within = Condition::Within {
        column,
        min: 5,
        max: 9,
    };
    assert!(may_match(&within, zone(9, 20)) && may_match(&within, zone(6, 7)));
    assert!(!may_match(&within, zone(10, 20)) && !may_match(&within, zone(-1, 4)));
    let outside = Condition::Outside {
        column,
        min: 5,
        max: 9,
    };
    assert!(may_match(&outside, zone(9, 10)) && !may_match(&outside, zone(5, 9)));
    let numbers = vec![3, 8];
    let one_of = Condition::In { column, numbers };
    assert!(may_match(&one_of, zone(4, 8)) && !may_match(&one_of, zone(4, 7)));
    assert!(!may_match(&one_of, zone(9, 12)));
    let numbers = vec![3, 8];
    let none_of = Condition::NotIn { column, numbers };
    assert!(may_match(&none_of, zone(3, 4)) && !may_match(&none_of, zone(8, 8)));
    let (is_null, is_not_null) = (
        Condition::IsNull { column },
        Condition::IsNotNull { column },
    );
    assert!(!may_match(&is_null, zone(0, 1)) && may_match(&is_not_null, zone(0, 1)));
    let nulls = Zone::of_any_values(false, true);
    assert!(may_match(&is_null, nulls) && !may_match(&is_not_null, nulls));
    assert!(!may_match(&within, nulls) && !may_match(&outside, nulls));
    for (comparison, left, right, expected) in [
        (Comparison::Less, zone(5, 9), zone(1, 5), false),
        (Comparison::Less, zone(5, 9), zone(1, 6), true),
        (Comparison::LessOrEqual, zone(5, 9), zone(1, 5), true),
        (Comparison::LessOrEqual, zone(5, 9), zone(1, 4), false),
        (Comparison::Equal, zone(5, 9), zone(9, 12), true),
        (Comparison::Equal, zone(5, 9), zone(10, 12), false),
        (Comparison::Equal, zone(5, 9), zone(1, 4), false),
        (Comparison::NotEqual, zone(5, 5), zone(5, 5), false),
        (Comparison::NotEqual, zone(5, 5), zone(5, 6), true),
        (Comparison::Equal, zone(5, 9), nulls, false),
    ] {
        let compare = Condition::Compare {
            left: 0,
            right: 1,
            comparison,
        };
        let found = compare.may_match(&|column| Some([left, right][column]));
        assert_eq!(found, expected, "{comparison:?} {left:?} {right:?}");
        assert!(compare.may_match(&|_| None));
        let only_left = compare.may_match(&|column| (column == 0).then_some(left));
        assert!(only_left);
    }
    let both = Condition::All(vec![within.clone(), is_null.clone()]);
    assert!(
        !may_match(&both, zone(6, 7))
            && may_match(&Condition::Any(vec![within, is_null]), zone(6, 7))
    );
    assert!(both.may_match(&|_| None));
}

#[test]
fn an_expression_leaves_one_number() {
    assert!(Expression::new(vec![Step::Column(0)]).is_some());
    for steps in [
        vec![],
        vec![Step::Add],
        vec![Step::Column(0), Step::Column(1)],
        vec![Step::Column(0), Step::Multiply],
    ] {
        assert!(Expression::new(steps).is_none());
    }
}

/// What is known of a column of rows; `wider`: how much the range exceeds that of the numbers.
fn zone_of(rows: &[Row], column: usize, wider: i64) -> Zone {
    let is_null = |row: &Row| match column {
        TEXT => row.1.is_none(),
        FLOAT => row.0[0].is_none(),
        column => row.0[column].is_none(),
    };
    let has_nulls = rows.iter().any(is_null);
    let has_values = !rows.iter().all(is_null);
    let numbers = rows.iter().filter_map(|row| match column {
        FLOAT => float_of(row).map(number_of_float),
        column => row.0[column],
    });
    if column == TEXT {
        return Zone::of_any_values(has_values, has_nulls);
    }
    let (min, max) = (numbers.clone().min(), numbers.max());
    Zone {
        min: min.unwrap_or(7).saturating_sub(wider),
        max: max.unwrap_or(-7).saturating_add(wider),
        has_values,
        has_nulls,
    }
}

proptest! {
    #[test]
    fn no_row_matches_that_a_zone_excludes(
        rows in proptest::collection::vec(row(), 1..8), condition in condition(), wider in 0i64..5, known in 0usize..6,
    ) {
        let zone = |column: usize| (column != known).then(|| zone_of(&rows, column, wider));
        if !condition.may_match(&zone) {
            prop_assert!(!rows.iter().any(|row| matches(&condition, row)));
        }
    }

    #[test]
    fn totals_are_those_of_the_model(
        rows in proptest::collection::vec(row(), 0..600),
        condition in proptest::option::of(condition()),
        columns in proptest::collection::vec((0usize..4, any::<bool>()), 0..3),
        steps in steps(), batch in 1usize..300, memory_max in prop_oneof![Just(0usize), 1000usize..100_000],
    ) {
        let keys: Vec<Key> = columns.iter().map(|(column, is_weighed)| Key {
            column: *column,
            is_weighed: *is_weighed && *column == TEXT,
        }).collect();
        let expression = Expression::new(steps.clone()).unwrap();
        let aggregates = vec![
            Aggregate::CountRows, Aggregate::Count(1), Aggregate::Sum(expression), Aggregate::Min(2), Aggregate::Max(0),
            Aggregate::SumFloats(FLOAT), Aggregate::MinFloat(FLOAT), Aggregate::MaxFloat(FLOAT),
        ];
        let query = Query { columns: 5, condition: condition.clone(), keys: keys.clone(), aggregates: aggregates.clone() };
        let mut model: BTreeMap<Vec<Option<String>>, Vec<&Row>> = BTreeMap::new();
        if keys.is_empty() {
            model.insert(vec![], vec![]);
        }
        for row in rows.iter().filter(|row| condition.as_ref().is_none_or(|of| matches(of, row))) {
            model.entry(key_of(&keys, row)).or_default().push(row);
        }
        let mut aggregator = Aggregator::new(query, memory_max).unwrap();
        for _ in 0..2 {
            let mut found = BTreeMap::new();
            loop {
                for batch in rows.chunks(batch) {
                    let Ok(()) = aggregator.add(&mut Rows(batch), &mut IgnoresCase);
                }
                for group in 0..aggregator.groups() {
                    let totals: Vec<Total> =
                        (0..aggregates.len()).map(|n| aggregator.total(group, n).unwrap()).collect();
                    let before = found.insert(found_key(&keys, &aggregator.key(group)), totals);
                    prop_assert!(before.is_none(), "a group was found twice");
                }
                if !aggregator.next_pass() {
                    break;
                }
            }
            prop_assert_eq!(found.len(), model.len());
            for (key, rows) in &model {
                let expected: Vec<Total> = aggregates.iter().map(|of| total_of(of, &steps, rows)).collect();
                // Their texts differ for 0.0 and -0.0, too.
                let texts = |of: &Vec<Total>| of.iter().map(|total| format!("{total:?}")).collect::<Vec<_>>();
                prop_assert_eq!(found.get(key).map(texts), Some(texts(&expected)), "{:?}", key);
            }
            aggregator.restart();
        }
    }
}
