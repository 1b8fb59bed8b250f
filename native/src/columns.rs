//! The columns of a table, filled from payloads in the one walk that checks the rules.
//!
//! A payload that breaks a rule may have filled some columns before: `truncate` takes its values out again.

use std::collections::HashMap;

use arrow_array::cast::AsArray;
use arrow_array::{Array, MapArray, StructArray, UInt32Array};
use arrow_buffer::{BooleanBufferBuilder, Buffer, NullBufferBuilder, OffsetBuffer};
use arrow_data::ArrayData;
use arrow_schema::{ArrowError, DataType};
use arrow_select::take::take;

use crate::rules::{within, Bytes, Checked, MICROS_A_DAY, MOST_MILLIS};
use crate::shape::{entry_fields, variants, Item, Member, Shape, Strings, Variants};

/// Memory that a column keeps after values were taken out, in slots.
const MOST_SPARE: usize = 1 << 16;

/// One column, or what is inside one.
pub struct Column<'s> {
    shape: &'s Shape,
    /// Of a union with one branch that is not null: the index of that branch, and the number of branches.
    only: Option<(usize, usize)>,
    nulls: NullBufferBuilder,
    values: Values<'s>,
}

enum Values<'s> {
    Null,
    Boolean(BooleanBufferBuilder),
    Int(Vec<i32>),
    Long(Vec<i64>),
    /// Milliseconds, microseconds or nanoseconds as microseconds.
    Time(Vec<i64>),
    Float(Vec<f32>),
    Double(Vec<f64>),
    Decimal(Vec<i128>),
    Fixed(Vec<u8>, usize),
    String(Texts),
    Bytes(Texts),
    /// Indexes of symbols.
    Enum(Vec<u32>, &'s [String]),
    List(Vec<i64>, Box<Column<'s>>, &'s Item),
    Map(Vec<i32>, Box<Entries<'s>>, &'s Item),
    Record(Vec<(&'s str, Column<'s>)>),
    /// A column for each branch, but for the null branch.
    Union(Vec<(&'s str, Option<Column<'s>>)>),
}

struct Entries<'s> {
    keys: Texts,
    values: Column<'s>,
    /// Of the map that is read: the entries whose timestamps lost nanoseconds, and how many did.
    lost: Vec<(usize, u64)>,
}

/// Strings or bytes.
struct Texts {
    offsets: Vec<i64>,
    bytes: Vec<u8>,
}

impl Texts {
    fn new(capacity: usize) -> Self {
        Self { offsets: offsets(capacity), bytes: Vec::new() }
    }

    fn get(&self, index: usize) -> &[u8] {
        &self.bytes[self.offsets[index] as usize..self.offsets[index + 1] as usize]
    }

    #[inline]
    fn append(&mut self, text: &[u8]) {
        self.bytes.extend_from_slice(text);
        self.offsets.push(self.bytes.len() as i64);
    }

    fn truncate(&mut self, len: usize) {
        shorten(&mut self.offsets, len + 1);
        shorten(&mut self.bytes, self.offsets[len] as usize);
    }
}

/// The offsets of no values yet.
fn offsets<T: Default>(capacity: usize) -> Vec<T> {
    let mut offsets = Vec::with_capacity(capacity + 1);
    offsets.push(T::default());
    offsets
}

/// Take out the last values, and free their memory where it is a lot: a hostile payload may have asked for it.
fn shorten<T>(values: &mut Vec<T>, len: usize) {
    values.truncate(len);
    if values.capacity() - len > MOST_SPARE.max(len) {
        values.shrink_to(len);
    }
}

impl<'s> Column<'s> {
    pub fn new(shape: &'s Shape, capacity: usize) -> Self {
        let (shape, only) = match shape {
            Shape::Union { branches } => match variants(branches) {
                Variants::One(index, only) => (only, Some((index, branches.len()))),
                Variants::Many => (shape, None),
            },
            _ => (shape, None),
        };
        Self { shape, only, nulls: NullBufferBuilder::new(capacity), values: Values::new(shape, capacity) }
    }

    /// The number of values, nulls included.
    fn len(&self) -> usize {
        self.nulls.len()
    }

    /// Read one value. If it breaks a rule, the column has to be truncated.
    #[inline]
    pub fn read(&mut self, bytes: &mut Bytes) -> Checked {
        if let Some((only, branches)) = self.only {
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
            Values::Time(values) => values.push(time(self.shape, bytes)?),
            Values::Float(values) => values.push(f32::from_le_bytes(bytes.array()?)),
            Values::Fixed(values, size) => values.extend_from_slice(bytes.take(*size)?),
            Values::Decimal(values) => {
                let Shape::Decimal { precision, size, .. } = self.shape else { unreachable!() };
                values.push(bytes.decimal(*precision, *size)?);
            }
            Values::Enum(indexes, symbols) => indexes.push(bytes.index(symbols.len(), "symbol")? as u32),
            Values::List(offsets, items, item) => {
                bytes.blocks(item, |bytes| items.read(bytes).map_err(|fault| fault.inside("[]")))?;
                offsets.push(items.len() as i64);
            }
            Values::Map(offsets, entries, item) => {
                entries.lost.clear();
                bytes.blocks(item, |bytes| entries.read(bytes))?;
                bytes.truncated_nanos -= entries.lost_again(offsets[offsets.len() - 1] as usize);
                offsets.push(entries.values.len() as i32);
            }
            Values::Record(fields) => read_record(fields, bytes)?,
            Values::Union(branches) => {
                let index = bytes.index(branches.len(), "branch")?;
                if branches[index].1.is_none() {
                    self.nulls.truncate(self.nulls.len() - 1);
                    self.append_null();
                    return Ok(());
                }
                for (at, (name, column)) in branches.iter_mut().enumerate() {
                    match column {
                        Some(column) if at == index => column.read(bytes).map_err(|fault| fault.inside(name))?,
                        Some(column) => column.append_null(),
                        None => {}
                    }
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn append_null(&mut self) {
        self.nulls.append_null();
        match &mut self.values {
            Values::Null => {}
            Values::Boolean(values) => values.append(false),
            Values::Int(values) => values.push(0),
            Values::Long(values) | Values::Time(values) => values.push(0),
            Values::Float(values) => values.push(0.0),
            Values::Double(values) => values.push(0.0),
            Values::Decimal(values) => values.push(0),
            Values::Fixed(values, size) => values.resize(values.len() + *size, 0),
            Values::String(texts) | Values::Bytes(texts) => texts.append(&[]),
            Values::Enum(indexes, _) => indexes.push(0),
            Values::List(offsets, items, _) => offsets.push(items.len() as i64),
            Values::Map(offsets, entries, _) => offsets.push(entries.values.len() as i32),
            Values::Record(fields) => fields.iter_mut().for_each(|(_, column)| column.append_null()),
            Values::Union(branches) => branches.iter_mut().filter_map(|(_, c)| c.as_mut()).for_each(Column::append_null),
        }
    }

    /// Take out all values after the first `len`.
    pub fn truncate(&mut self, len: usize) {
        self.nulls.truncate(len);
        match &mut self.values {
            Values::Null => {}
            Values::Boolean(values) => values.truncate(len),
            Values::Int(values) => shorten(values, len),
            Values::Long(values) | Values::Time(values) => shorten(values, len),
            Values::Float(values) => shorten(values, len),
            Values::Double(values) => shorten(values, len),
            Values::Decimal(values) => shorten(values, len),
            Values::Fixed(values, size) => shorten(values, len * *size),
            Values::String(texts) | Values::Bytes(texts) => texts.truncate(len),
            Values::Enum(indexes, _) => shorten(indexes, len),
            Values::List(offsets, items, _) => {
                shorten(offsets, len + 1);
                items.truncate(offsets[len] as usize);
            }
            Values::Map(offsets, entries, _) => {
                shorten(offsets, len + 1);
                entries.keys.truncate(offsets[len] as usize);
                entries.values.truncate(offsets[len] as usize);
            }
            Values::Record(fields) => fields.iter_mut().for_each(|(_, column)| column.truncate(len)),
            Values::Union(branches) => {
                branches.iter_mut().filter_map(|(_, c)| c.as_mut()).for_each(|column| column.truncate(len))
            }
        }
    }

    /// Return the column as Arrow data of the shape's type.
    pub fn finish(self) -> Result<ArrayData, ArrowError> {
        let (len, shape, mut nulls) = (self.len(), self.shape, self.nulls);
        let nulls = nulls.finish();
        let builder = ArrayData::builder(shape.arrow_type()).len(len).nulls(nulls.clone());
        match self.values {
            Values::Null => ArrayData::builder(shape.arrow_type()).len(len).build(),
            Values::Boolean(mut values) => builder.add_buffer(values.finish().into_inner()).build(),
            Values::Int(values) => builder.add_buffer(Buffer::from_vec(values)).build(),
            Values::Long(values) | Values::Time(values) => builder.add_buffer(Buffer::from_vec(values)).build(),
            Values::Float(values) => builder.add_buffer(Buffer::from_vec(values)).build(),
            Values::Double(values) => builder.add_buffer(Buffer::from_vec(values)).build(),
            Values::Decimal(values) => builder.add_buffer(Buffer::from_vec(values)).build(),
            Values::Fixed(values, _) => builder.add_buffer(Buffer::from_vec(values)).build(),
            Values::String(texts) | Values::Bytes(texts) => {
                builder.add_buffer(Buffer::from_vec(texts.offsets)).add_buffer(Buffer::from_vec(texts.bytes)).build()
            }
            Values::Enum(indexes, symbols) => {
                let indexes = UInt32Array::new(indexes.into(), nulls);
                Ok(take(&Strings::from_iter_values(symbols), &indexes, None)?.to_data())
            }
            Values::List(offsets, items, _) => {
                builder.add_buffer(Buffer::from_vec(offsets)).add_child_data(items.finish()?).build()
            }
            Values::Map(offsets, entries, _) => {
                let entries = entries.finish(shape)?;
                let map = builder.add_buffer(Buffer::from_vec(offsets)).add_child_data(entries).build()?;
                Ok(last_entries(&MapArray::from(map))?.to_data())
            }
            Values::Record(fields) => {
                let columns: Result<Vec<_>, _> = fields.into_iter().map(|(_, column)| column.finish()).collect();
                builder.child_data(columns?).build()
            }
            Values::Union(branches) => {
                let columns = branches.into_iter().filter_map(|(_, column)| column.map(Column::finish));
                builder.child_data(columns.collect::<Result<Vec<_>, _>>()?).build()
            }
        }
    }
}

impl<'s> Values<'s> {
    fn new(shape: &'s Shape, capacity: usize) -> Self {
        match shape {
            Shape::Null => Self::Null,
            Shape::Boolean => Self::Boolean(BooleanBufferBuilder::new(capacity)),
            Shape::Int | Shape::Date => Self::Int(Vec::with_capacity(capacity)),
            Shape::Long | Shape::TimestampMicros { .. } => Self::Long(Vec::with_capacity(capacity)),
            Shape::TimeMillis | Shape::TimeMicros | Shape::TimestampMillis { .. } | Shape::TimestampNanos { .. } => {
                Self::Time(Vec::with_capacity(capacity))
            }
            Shape::Float => Self::Float(Vec::with_capacity(capacity)),
            Shape::Double => Self::Double(Vec::with_capacity(capacity)),
            Shape::Decimal { .. } => Self::Decimal(Vec::with_capacity(capacity)),
            Shape::Fixed { size } => Self::Fixed(Vec::new(), *size),
            Shape::Uuid => Self::Fixed(Vec::new(), 16),
            Shape::String => Self::String(Texts::new(capacity)),
            Shape::Bytes => Self::Bytes(Texts::new(capacity)),
            Shape::Enum { symbols } => Self::Enum(Vec::with_capacity(capacity), symbols),
            Shape::Array { items, item } => Self::List(offsets(capacity), Box::new(Column::new(items, 0)), item),
            Shape::Map { values, item } => {
                let entries = Entries { keys: Texts::new(0), values: Column::new(values, 0), lost: Vec::new() };
                Self::Map(offsets(capacity), Box::new(entries), item)
            }
            Shape::Record { fields } => Self::Record(columns(fields, capacity)),
            Shape::Union { branches } => {
                let column = |branch: &'s Member| match branch.shape {
                    Shape::Null => None,
                    _ => Some(Column::new(&branch.shape, capacity)),
                };
                Self::Union(branches.iter().map(|branch| (branch.name.as_str(), column(branch))).collect())
            }
        }
    }
}

impl Entries<'_> {
    fn read(&mut self, bytes: &mut Bytes) -> Checked {
        let before = bytes.truncated_nanos;
        self.keys.append(bytes.string().map_err(|fault| fault.inside("{key}"))?);
        self.values.read(bytes).map_err(|fault| fault.inside("{}"))?;
        if bytes.truncated_nanos > before {
            self.lost.push((self.values.len() - 1, bytes.truncated_nanos - before));
        }
        Ok(())
    }

    /// Return how many of the lost nanoseconds are those of entries that `last_entries` removes from the map, which
    /// begins at the entry `start`.
    fn lost_again(&self, start: usize) -> u64 {
        if self.lost.is_empty() {
            return 0;
        }
        let last: HashMap<&[u8], usize> = (start..self.values.len()).map(|entry| (self.keys.get(entry), entry)).collect();
        self.lost.iter().filter(|(entry, _)| last[self.keys.get(*entry)] != *entry).map(|(_, count)| count).sum()
    }

    fn finish(self, shape: &Shape) -> Result<ArrayData, ArrowError> {
        let Shape::Map { values, .. } = shape else { unreachable!() };
        let len = self.values.len();
        let keys = ArrayData::builder(Strings::DATA_TYPE).len(len).add_buffer(Buffer::from_vec(self.keys.offsets));
        let keys = keys.add_buffer(Buffer::from_vec(self.keys.bytes)).build()?;
        let entries = ArrayData::builder(DataType::Struct(entry_fields(values))).len(len);
        entries.add_child_data(keys).add_child_data(self.values.finish()?).build()
    }
}

/// The columns of a record by the names of its fields.
pub fn columns(fields: &[Member], capacity: usize) -> Vec<(&str, Column<'_>)> {
    fields.iter().map(|field| (field.name.as_str(), Column::new(&field.shape, capacity))).collect()
}

/// Read one record. If it breaks a rule, its columns have to be truncated.
#[inline]
pub fn read_record(fields: &mut [(&str, Column)], bytes: &mut Bytes) -> Checked {
    for (name, column) in fields {
        column.read(bytes).map_err(|fault| fault.inside(name))?;
    }
    Ok(())
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

/// Remove duplicate keys from maps: a key keeps its first position and its last value, as in most languages.
fn last_entries(map: &MapArray) -> Result<MapArray, ArrowError> {
    let keys = map.keys().as_string::<i64>();
    let mut kept: Vec<(u32, u32)> = Vec::with_capacity(keys.len());
    let mut offsets = Vec::with_capacity(map.len() + 1);
    offsets.push(0);
    for bounds in map.offsets().windows(2) {
        keep_entries(keys, bounds[0] as usize..bounds[1] as usize, &mut kept);
        offsets.push(kept.len() as i32);
    }
    if kept.len() == keys.len() {
        return Ok(map.clone());
    }
    let first = UInt32Array::from_iter_values(kept.iter().map(|(first, _)| *first));
    let last = UInt32Array::from_iter_values(kept.iter().map(|(_, last)| *last));
    let columns = vec![take(map.keys(), &first, None)?, take(map.values(), &last, None)?];
    let (field, _, entries, nulls, ordered) = map.clone().into_parts();
    let entries = StructArray::try_new(entries.fields().clone(), columns, None)?;
    MapArray::try_new(field, OffsetBuffer::new(offsets.into()), entries, nulls, ordered)
}

fn keep_entries(keys: &Strings, range: std::ops::Range<usize>, kept: &mut Vec<(u32, u32)>) {
    if range.len() < 2 {
        kept.extend(range.map(|index| (index as u32, index as u32)));
        return;
    }
    let mut places: HashMap<&str, usize> = HashMap::with_capacity(range.len());
    for index in range {
        let place = *places.entry(keys.value(index)).or_insert(kept.len());
        match kept.get_mut(place) {
            Some(entry) => entry.1 = index as u32,
            None => kept.push((index as u32, index as u32)),
        }
    }
}
