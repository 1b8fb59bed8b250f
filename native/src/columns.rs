//! The columns of a table, filled from payloads in the one walk that checks the rules of their format.
//!
//! A payload that breaks a rule may have filled some columns before: `truncate` takes its values out again.

use std::collections::HashMap;

use arrow_array::{make_array, Array, LargeStringArray, UInt32Array};
use arrow_buffer::{BooleanBufferBuilder, Buffer, NullBufferBuilder};
use arrow_data::ArrayData;
use arrow_schema::{ArrowError, DataType};
use arrow_select::take::take;

/// Memory that a column keeps after values were taken out, in slots.
const MOST_SPARE: usize = 1 << 16;

/// Columns of strings, of symbols, and of the keys of maps. The offsets have 64 bits, as in the table's files.
pub type Strings = LargeStringArray;

/// What a format knows about a column while it reads values.
pub trait Field {
    /// The type of the finished column.
    fn arrow_type(&self) -> DataType;

    /// Whether the finished column is part of its struct or of the rows.
    fn is_kept(&self) -> bool {
        true
    }
}

/// One column, or what is inside one. `F` is what the format knows about it.
pub struct Column<'s, F> {
    pub field: F,
    pub nulls: NullBufferBuilder,
    pub values: Values<'s, F>,
}

pub enum Values<'s, F> {
    Null,
    Boolean(BooleanBufferBuilder),
    Int(Vec<i32>),
    Long(Vec<i64>),
    /// Microseconds, of a time that the format writes in another unit.
    Micros(Vec<i64>),
    Float(Vec<f32>),
    Double(Vec<f64>),
    Decimal(Vec<i128>),
    Fixed(Vec<u8>, usize),
    String(Texts),
    Bytes(Texts),
    /// Indexes of symbols.
    Enum(Vec<u32>, &'s [String]),
    List(Vec<i64>, Box<Column<'s, F>>),
    Map(Vec<i32>, Box<Entries<'s, F>>),
    Struct(Vec<Column<'s, F>>),
}

/// The entries of maps.
pub struct Entries<'s, F> {
    pub keys: Column<'s, F>,
    pub values: Column<'s, F>,
    /// Of the map that is read: the entries whose timestamps lost nanoseconds, and how many did.
    lost: Vec<(usize, u64)>,
}

/// Strings or bytes.
pub struct Texts {
    offsets: Vec<i64>,
    bytes: Vec<u8>,
}

impl Texts {
    pub fn new(capacity: usize) -> Self {
        Self { offsets: offsets(capacity), bytes: Vec::new() }
    }

    fn get(&self, index: usize) -> &[u8] {
        &self.bytes[self.offsets[index] as usize..self.offsets[index + 1] as usize]
    }

    #[inline]
    pub fn append(&mut self, text: &[u8]) {
        self.bytes.extend_from_slice(text);
        self.offsets.push(self.bytes.len() as i64);
    }

    fn truncate(&mut self, len: usize) {
        shorten(&mut self.offsets, len + 1);
        shorten(&mut self.bytes, self.offsets[len] as usize);
    }
}

/// The offsets of no values yet.
pub fn offsets<T: Default>(capacity: usize) -> Vec<T> {
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

impl<'s, F: Field> Column<'s, F> {
    pub fn new(field: F, values: Values<'s, F>, capacity: usize) -> Self {
        Self { field, nulls: NullBufferBuilder::new(capacity), values }
    }

    /// The number of values, nulls included.
    pub fn len(&self) -> usize {
        self.nulls.len()
    }

    pub fn append_null(&mut self) {
        self.nulls.append_null();
        match &mut self.values {
            Values::Null => {}
            Values::Boolean(values) => values.append(false),
            Values::Int(values) => values.push(0),
            Values::Long(values) | Values::Micros(values) => values.push(0),
            Values::Float(values) => values.push(0.0),
            Values::Double(values) => values.push(0.0),
            Values::Decimal(values) => values.push(0),
            Values::Fixed(values, size) => values.resize(values.len() + *size, 0),
            Values::String(texts) | Values::Bytes(texts) => texts.append(&[]),
            Values::Enum(indexes, _) => indexes.push(0),
            Values::List(offsets, items) => offsets.push(items.len() as i64),
            Values::Map(offsets, entries) => offsets.push(entries.values.len() as i32),
            Values::Struct(columns) => columns.iter_mut().for_each(Column::append_null),
        }
    }

    /// Take out all values after the first `len`.
    pub fn truncate(&mut self, len: usize) {
        self.nulls.truncate(len);
        match &mut self.values {
            Values::Null => {}
            Values::Boolean(values) => values.truncate(len),
            Values::Int(values) => shorten(values, len),
            Values::Long(values) | Values::Micros(values) => shorten(values, len),
            Values::Float(values) => shorten(values, len),
            Values::Double(values) => shorten(values, len),
            Values::Decimal(values) => shorten(values, len),
            Values::Fixed(values, size) => shorten(values, len * *size),
            Values::String(texts) | Values::Bytes(texts) => texts.truncate(len),
            Values::Enum(indexes, _) => shorten(indexes, len),
            Values::List(offsets, items) => {
                shorten(offsets, len + 1);
                items.truncate(offsets[len] as usize);
            }
            Values::Map(offsets, entries) => {
                shorten(offsets, len + 1);
                entries.truncate(offsets[len] as usize);
            }
            Values::Struct(columns) => columns.iter_mut().for_each(|column| column.truncate(len)),
        }
    }

    /// Return the column as Arrow data of the field's type.
    pub fn finish(self) -> Result<ArrayData, ArrowError> {
        let (len, data_type, mut nulls) = (self.len(), self.field.arrow_type(), self.nulls);
        let nulls = nulls.finish();
        if matches!(self.values, Values::Null) {
            return ArrayData::builder(data_type).len(len).build();
        }
        let builder = ArrayData::builder(data_type.clone()).len(len).nulls(nulls.clone());
        match self.values {
            Values::Null => builder.build(),
            Values::Boolean(mut values) => builder.add_buffer(values.finish().into_inner()).build(),
            Values::Int(values) => builder.add_buffer(Buffer::from_vec(values)).build(),
            Values::Long(values) | Values::Micros(values) => builder.add_buffer(Buffer::from_vec(values)).build(),
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
            Values::List(offsets, items) => {
                builder.add_buffer(Buffer::from_vec(offsets)).add_child_data(items.finish()?).build()
            }
            Values::Map(mut offsets, entries) => {
                let entries = entries.finish(&data_type, &mut offsets)?;
                builder.add_buffer(Buffer::from_vec(offsets)).add_child_data(entries).build()
            }
            Values::Struct(columns) => {
                let kept = columns.into_iter().filter(|column| column.field.is_kept());
                builder.child_data(kept.map(Column::finish).collect::<Result<Vec<_>, _>>()?).build()
            }
        }
    }

    fn key(&self, index: usize) -> Key<'_> {
        match &self.values {
            Values::String(texts) => Key::Text(texts.get(index)),
            Values::Boolean(values) => Key::Number(values.get_bit(index).into()),
            Values::Int(values) => Key::Number(values[index].into()),
            Values::Long(values) => Key::Number(values[index].into()),
            Values::Decimal(values) => Key::Number(values[index]),
            _ => unreachable!("no keys of a map are of another type"),
        }
    }
}

/// The key of a map's entry.
#[derive(PartialEq, Eq, Hash)]
enum Key<'a> {
    Text(&'a [u8]),
    Number(i128),
}

impl<'s, F: Field> Entries<'s, F> {
    pub fn new(keys: Column<'s, F>, values: Column<'s, F>) -> Self {
        Self { keys, values, lost: Vec::new() }
    }

    /// Note how many timestamps in the last entry lost nanoseconds.
    #[inline]
    pub fn note_lost(&mut self, count: u64) {
        if count > 0 {
            self.lost.push((self.values.len() - 1, count));
        }
    }

    /// End the map that begins at the entry `start`, and return how many of the noted nanoseconds are those of entries
    /// that `last_entries` removes from it.
    pub fn lost_again(&mut self, start: usize) -> u64 {
        if self.lost.is_empty() {
            return 0;
        }
        let last: HashMap<Key, usize> = (start..self.values.len()).map(|entry| (self.keys.key(entry), entry)).collect();
        let again = self.lost.iter().filter(|(entry, _)| last[&self.keys.key(*entry)] != *entry);
        let again = again.map(|(_, count)| count).sum();
        self.lost.clear();
        again
    }

    fn truncate(&mut self, len: usize) {
        self.keys.truncate(len);
        self.values.truncate(len);
        self.lost.clear();
    }

    /// Return the entries without duplicate keys, and change the offsets of the maps accordingly.
    fn finish(self, map_type: &DataType, offsets: &mut Vec<i32>) -> Result<ArrayData, ArrowError> {
        let DataType::Map(entries, _) = map_type else { unreachable!("the type of a map is a map") };
        let kept = last_entries(&self.keys, offsets);
        let mut columns = vec![self.keys.finish()?, self.values.finish()?];
        if let Some(kept) = kept {
            let first = UInt32Array::from_iter_values(kept.iter().map(|(first, _)| *first));
            let last = UInt32Array::from_iter_values(kept.iter().map(|(_, last)| *last));
            let [keys, values] = [&columns[0], &columns[1]].map(|column| make_array(column.clone()));
            columns = vec![take(&keys, &first, None)?.to_data(), take(&values, &last, None)?.to_data()];
        }
        ArrayData::builder(entries.data_type().clone()).len(columns[0].len()).child_data(columns).build()
    }
}

/// Return which entries maps keep, and change their offsets: a key keeps its first position and its last value, as in
/// most languages. None if every key occurs once.
fn last_entries<F: Field>(keys: &Column<F>, offsets: &mut Vec<i32>) -> Option<Vec<(u32, u32)>> {
    let mut kept: Vec<(u32, u32)> = Vec::with_capacity(keys.len());
    let mut ends = Vec::with_capacity(offsets.len());
    ends.push(0);
    for bounds in offsets.windows(2) {
        keep_entries(keys, bounds[0] as usize..bounds[1] as usize, &mut kept);
        ends.push(kept.len() as i32);
    }
    if kept.len() == keys.len() {
        return None;
    }
    *offsets = ends;
    Some(kept)
}

fn keep_entries<F: Field>(keys: &Column<F>, range: std::ops::Range<usize>, kept: &mut Vec<(u32, u32)>) {
    if range.len() < 2 {
        kept.extend(range.map(|index| (index as u32, index as u32)));
        return;
    }
    let mut places: HashMap<Key, usize> = HashMap::with_capacity(range.len());
    for index in range {
        let place = *places.entry(keys.key(index)).or_insert(kept.len());
        match kept.get_mut(place) {
            Some(entry) => entry.1 = index as u32,
            None => kept.push((index as u32, index as u32)),
        }
    }
}
