//! Pass over values that no column keeps, quickly, as long as nothing about them is unusual.
//!
//! `read::skip` knows every rule and every message. Here a value that breaks one, and any rarer type, only means that
//! `read::skip` has to look: a change event of Debezium has twenty such fields, and most payloads have no fault.

use crate::avro::shape::{variants, Shape, Variants};
use crate::avro::varint;
use crate::faults::is_ascii;

const MOST_BYTES_OF_INT: usize = 5;

/// What to do next at the place in the payload.
enum Step {
    Boolean,
    Int,
    Long,
    Text,
    Bytes,
    Take(usize),
    /// A union of two branches: the value of the index of the one that takes no bytes, and how many steps the other has.
    Optional {
        null: u8,
        steps: usize,
    },
}

/// The steps over a shape.
pub struct Steps(Vec<Step>);

impl Steps {
    /// None if the shape has a type that only `read::skip` knows.
    pub fn over(shape: &Shape) -> Option<Self> {
        let mut steps = Vec::new();
        add(shape, &mut steps)?;
        Some(Self(steps))
    }

    /// Return what follows the value; None if `read::skip` has to look.
    #[inline]
    pub fn pass<'a>(&self, mut rest: &'a [u8]) -> Option<&'a [u8]> {
        let mut steps = self.0.as_slice();
        while let Some((step, others)) = steps.split_first() {
            steps = others;
            rest = match step {
                Step::Boolean => rest.split_first().filter(|(byte, _)| **byte <= 1)?.1,
                Step::Int => {
                    let (value, after) = varint::long(rest)?;
                    let is_int = i32::try_from(value).is_ok() && rest.len() - after.len() <= MOST_BYTES_OF_INT;
                    is_int.then_some(after)?
                }
                Step::Long => varint::long(rest)?.1,
                Step::Text => bytes(rest).filter(|(text, _)| is_ascii(text))?.1,
                Step::Bytes => bytes(rest)?.1,
                Step::Take(count) => rest.split_at_checked(*count)?.1,
                Step::Optional { null, steps: inside } => {
                    let (branch, rest) = rest.split_first()?;
                    if branch == null {
                        steps = &steps[*inside..];
                    } else if *branch != 2 - null {
                        return None;
                    }
                    rest
                }
            };
        }
        Some(rest)
    }
}

#[inline]
fn bytes(rest: &[u8]) -> Option<(&[u8], &[u8])> {
    let (length, after) = varint::long(rest)?;
    after.split_at_checked(usize::try_from(length).ok()?)
}

fn add(shape: &Shape, steps: &mut Vec<Step>) -> Option<()> {
    match shape {
        Shape::Null => {}
        Shape::Boolean => steps.push(Step::Boolean),
        Shape::Int | Shape::Date => steps.push(Step::Int),
        Shape::Long | Shape::TimestampMicros { .. } | Shape::TimestampNanos { .. } => steps.push(Step::Long),
        Shape::String => steps.push(Step::Text),
        Shape::Bytes => steps.push(Step::Bytes),
        Shape::Float => steps.push(Step::Take(4)),
        Shape::Double => steps.push(Step::Take(8)),
        Shape::Fixed { size } => steps.push(Step::Take(*size)),
        Shape::Uuid => steps.push(Step::Take(16)),
        Shape::Record { fields } => fields.iter().try_for_each(|field| add(&field.shape, steps))?,
        Shape::Union { branches } if branches.len() == 2 => {
            let Variants::One(index, only) = variants(branches) else {
                return None;
            };
            let at = steps.len();
            steps.push(Step::Optional { null: 0, steps: 0 });
            add(only, steps)?;
            steps[at] = Step::Optional { null: if index == 0 { 2 } else { 0 }, steps: steps.len() - at - 1 };
        }
        Shape::Skipped { of } | Shape::Packed { of } => add(of, steps)?,
        _ => return None,
    }
    Some(())
}
