//! Read Avro values into columns.

use arrow_buffer::BooleanBufferBuilder;
use arrow_schema::DataType;

use crate::avro::rules::{Bytes, MOST_MILLIS};
use crate::avro::shape::{variants, Item, Member, Shape, Variants};
use crate::avro::skip::Steps;
use crate::columns::{offsets, Column, Entries, Field, Texts, Values};
use crate::faults::{within, Checked, MICROS_A_DAY};

static KEY: Shape = Shape::String;

/// How values of a column are read.
pub struct Reading<'s> {
    name: &'s str,
    shape: &'s Shape,
    /// Of a union with one branch that is not null: the index of that branch, and the number of branches.
    only: Option<(usize, usize)>,
    /// Of a column for a union's branch: the index of that branch.
    branch: usize,
    /// Of fields that no column keeps: how to pass over them quickly.
    steps: Option<Steps>,
}

impl Field for Reading<'_> {
    fn arrow_type(&self) -> DataType {
        self.shape.arrow_type()
    }

    fn is_kept(&self) -> bool {
        !matches!(self.shape, Shape::Skipped { .. })
    }
}

type AvroColumn<'s> = Column<'s, Reading<'s>>;

/// The columns of a record.
pub fn columns(fields: &[Member], capacity: usize) -> Vec<AvroColumn<'_>> {
    fields.iter().map(|field| column(&field.name, &field.shape, 0, capacity)).collect()
}

fn column<'s>(name: &'s str, shape: &'s Shape, branch: usize, capacity: usize) -> AvroColumn<'s> {
    let (shape, only) = match shape {
        Shape::Union { branches } => match variants(branches) {
            Variants::One(index, only) => (only, Some((index, branches.len()))),
            Variants::Many => (shape, None),
        },
        _ => (shape, None),
    };
    let steps = if let Shape::Skipped { of } = shape { Steps::over(of) } else { None };
    Column::new(Reading { name, shape, only, branch, steps }, values(shape, capacity), capacity)
}

fn values(shape: &Shape, capacity: usize) -> Values<'_, Reading<'_>> {
    match shape {
        Shape::Null | Shape::Skipped { .. } => Values::Null,
        Shape::Boolean => Values::Boolean(BooleanBufferBuilder::new(capacity)),
        Shape::Int | Shape::Date => Values::Int(Vec::with_capacity(capacity)),
        Shape::Long | Shape::TimestampMicros { .. } => Values::Long(Vec::with_capacity(capacity)),
        Shape::TimeMillis | Shape::TimeMicros | Shape::TimestampMillis { .. } | Shape::TimestampNanos { .. } => {
            Values::Micros(Vec::with_capacity(capacity))
        }
        Shape::Float => Values::Float(Vec::with_capacity(capacity)),
        Shape::Double => Values::Double(Vec::with_capacity(capacity)),
        Shape::Decimal { .. } => Values::Decimal(Vec::with_capacity(capacity)),
        Shape::Fixed { size } => Values::Fixed(Vec::new(), *size),
        Shape::Uuid => Values::Fixed(Vec::new(), 16),
        Shape::String => Values::String(Texts::new(capacity)),
        Shape::Bytes => Values::Bytes(Texts::new(capacity)),
        Shape::Enum { symbols } => Values::Enum(Vec::with_capacity(capacity), symbols),
        Shape::Array { items, .. } => Values::List(offsets(capacity), Box::new(column("[]", items, 0, 0))),
        Shape::Packed { of } => Values::List(offsets(capacity), Box::new(column("", of, 0, capacity))),
        Shape::Map { values, .. } => {
            let entries = Entries::new(column("{key}", &KEY, 0, 0), column("{}", values, 0, 0));
            Values::Map(offsets(capacity), Box::new(entries))
        }
        Shape::Record { fields } => Values::Struct(columns(fields, capacity)),
        Shape::Union { branches } => {
            let kept = branches.iter().enumerate().filter(|(_, branch)| !matches!(branch.shape, Shape::Null));
            Values::Struct(kept.map(|(index, each)| column(&each.name, &each.shape, index, capacity)).collect())
        }
    }
}

/// Read one record. If it breaks a rule, its columns have to be truncated.
#[inline]
pub fn read_record(columns: &mut [AvroColumn], bytes: &mut Bytes) -> Checked {
    for column in columns {
        column.read_named(bytes)?;
    }
    Ok(())
}

impl<'s> AvroColumn<'s> {
    #[inline]
    fn read_named(&mut self, bytes: &mut Bytes) -> Checked {
        self.read(bytes).map_err(|fault| fault.inside(self.field.name))
    }

    /// Read one value. If it breaks a rule, the column has to be truncated.
    #[inline]
    fn read(&mut self, bytes: &mut Bytes) -> Checked {
        if let Some((only, branches)) = self.field.only {
            if bytes.index(branches, "branch")? != only {
                self.append_null();
                return Ok(());
            }
        }
        self.nulls.append_non_null();
        match &mut self.values {
            Values::String(texts) => texts.append(bytes.string()?),
            Values::Long(values) => values.push(bytes.long()?),
            Values::Double(values) => values.push(f64::from_le_bytes(bytes.array()?)),
            Values::Int(values) => values.push(bytes.int()?),
            Values::Boolean(values) => values.append(bytes.boolean()?),
            _ => self.read_other(bytes)?,
        }
        Ok(())
    }

    #[inline(never)]
    fn read_other(&mut self, bytes: &mut Bytes) -> Checked {
        match &mut self.values {
            Values::Bytes(texts) => texts.append(bytes.bytes()?),
            Values::Micros(values) => values.push(time(self.field.shape, bytes)?),
            Values::Float(values) => values.push(f32::from_le_bytes(bytes.array()?)),
            Values::Fixed(values, size) => values.extend_from_slice(bytes.take(*size)?),
            Values::Decimal(values) => {
                let Shape::Decimal { precision, size, .. } = self.field.shape else { unreachable!() };
                values.push(bytes.decimal(*precision, *size)?);
            }
            Values::Enum(indexes, symbols) => indexes.push(bytes.index(symbols.len(), "symbol")? as u32),
            Values::List(offsets, items) => {
                match self.field.shape {
                    Shape::Packed { .. } => items.read(bytes)?,
                    _ => bytes.blocks(item(self.field.shape), |bytes| items.read_named(bytes))?,
                }
                offsets.push(items.len() as i64);
            }
            Values::Map(offsets, entries) => {
                bytes.blocks(item(self.field.shape), |bytes| read_entry(entries, bytes))?;
                bytes.used.truncated_nanos -= entries.lost_again(offsets[offsets.len() - 1] as usize);
                offsets.push(entries.values.len() as i32);
            }
            Values::Struct(columns) => match self.field.shape {
                Shape::Union { branches } => {
                    let index = bytes.index(branches.len(), "branch")?;
                    if matches!(branches[index].shape, Shape::Null) {
                        self.nulls.truncate(self.nulls.len() - 1);
                        self.append_null();
                        return Ok(());
                    }
                    for column in columns.iter_mut() {
                        if column.field.branch == index {
                            column.read_named(bytes)?;
                        } else {
                            column.append_null();
                        }
                    }
                }
                _ => read_record(columns, bytes)?,
            },
            _ if self.field.steps.as_ref().is_some_and(|steps| bytes.passed(steps)) => {}
            _ => skip(self.field.shape, bytes)?,
        }
        Ok(())
    }
}

/// Read a value by the rules, and keep nothing of it.
fn skip(shape: &Shape, bytes: &mut Bytes) -> Checked {
    match shape {
        Shape::Null => {}
        Shape::Boolean => drop(bytes.boolean()?),
        Shape::Int | Shape::Date => drop(bytes.int()?),
        Shape::Long | Shape::TimestampMicros { .. } | Shape::TimestampNanos { .. } => drop(bytes.long()?),
        Shape::TimeMillis | Shape::TimeMicros | Shape::TimestampMillis { .. } => drop(time(shape, bytes)?),
        Shape::Float => drop(bytes.take(4)?),
        Shape::Double => drop(bytes.take(8)?),
        Shape::Bytes => drop(bytes.bytes()?),
        Shape::String => drop(bytes.string()?),
        Shape::Fixed { size } => drop(bytes.take(*size)?),
        Shape::Uuid => drop(bytes.take(16)?),
        Shape::Decimal { precision, size, .. } => drop(bytes.decimal(*precision, *size)?),
        Shape::Enum { symbols } => drop(bytes.index(symbols.len(), "symbol")?),
        Shape::Array { items, item } => bytes.blocks(item, |bytes| skip_named("[]", items, bytes))?,
        Shape::Map { values, item } => bytes.blocks(item, |bytes| {
            skip_named("{key}", &KEY, bytes)?;
            skip_named("{}", values, bytes)
        })?,
        Shape::Record { fields } => fields.iter().try_for_each(|field| skip_named(&field.name, &field.shape, bytes))?,
        Shape::Union { branches } => {
            let branch = &branches[bytes.index(branches.len(), "branch")?];
            match variants(branches) {
                Variants::One(..) => skip(&branch.shape, bytes)?,
                Variants::Many => skip_named(&branch.name, &branch.shape, bytes)?,
            }
        }
        Shape::Skipped { of } | Shape::Packed { of } => skip(of, bytes)?,
    }
    Ok(())
}

fn skip_named(name: &str, shape: &Shape, bytes: &mut Bytes) -> Checked {
    skip(shape, bytes).map_err(|fault| fault.inside(name))
}

fn read_entry<'s>(entries: &mut Entries<'s, Reading<'s>>, bytes: &mut Bytes) -> Checked {
    let before = bytes.used.truncated_nanos;
    entries.keys.read_named(bytes)?;
    entries.values.read_named(bytes)?;
    entries.note_lost(bytes.used.truncated_nanos - before);
    Ok(())
}

fn item(shape: &Shape) -> &Item {
    match shape {
        Shape::Array { item, .. } | Shape::Map { item, .. } => item,
        _ => unreachable!("only arrays and maps have items"),
    }
}

/// Read a time or a timestamp as microseconds.
fn time(shape: &Shape, bytes: &mut Bytes) -> Checked<i64> {
    match shape {
        Shape::TimeMillis => Ok(1000 * within(bytes.int()?.into(), 0, MICROS_A_DAY / 1000 - 1, "time-millis")?),
        Shape::TimeMicros => within(bytes.long()?, 0, MICROS_A_DAY - 1, "time-micros"),
        Shape::TimestampMillis { .. } => Ok(1000 * within(bytes.long()?, -MOST_MILLIS, MOST_MILLIS, "timestamp-millis")?),
        _ => bytes.nanos(),
    }
}
