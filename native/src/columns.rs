//! Convert the arrays of arrow-avro to the columns of a table: logical types, unions as structs, enums as strings.

use std::collections::HashMap;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{Decimal128Type, Int32Type, Int64Type, Time64MicrosecondType, TimestampMicrosecondType};
use arrow_array::{
    Array, ArrayRef, Decimal128Array, ListArray, MapArray, PrimitiveArray, RecordBatch, StringArray, StructArray,
    UInt32Array, UnionArray,
};
use arrow_schema::{ArrowError, Schema};
use arrow_select::take::take;

use crate::rules::unscaled;
use crate::shape::{branch_fields, entries_field, entry_fields, variants, Member, Shape, Variants};

type Column = Result<ArrayRef, ArrowError>;

/// Converts arrays, and counts the nanosecond timestamps that lost digits below the microsecond.
#[derive(Default)]
pub struct Finisher {
    pub truncated_nanos: u64,
}

impl Finisher {
    pub fn batch(&mut self, fields: &[Member], batch: RecordBatch) -> Result<RecordBatch, ArrowError> {
        let columns: Result<Vec<_>, _> =
            fields.iter().zip(batch.columns()).map(|(field, array)| self.column(&field.shape, array)).collect();
        let schema = Schema::new(fields.iter().map(Member::field).collect::<Vec<_>>());
        RecordBatch::try_new(Arc::new(schema), columns?)
    }

    fn column(&mut self, shape: &Shape, array: &ArrayRef) -> Column {
        Ok(match shape {
            Shape::Date => retyped(array, shape)?,
            Shape::TimestampMicros { .. } => retyped(array, shape)?,
            Shape::TimeMicros => retyped(array, shape)?,
            Shape::TimeMillis => {
                let micros = |value| i64::from(value) * 1000;
                Arc::new(array.as_primitive::<Int32Type>().unary::<_, Time64MicrosecondType>(micros))
            }
            Shape::TimestampMillis { utc } => {
                // Null slots may hold any number, so the product may overflow; the rules bound all other values.
                timestamps(array.as_primitive::<Int64Type>().unary(|value| value.wrapping_mul(1000)), *utc)
            }
            Shape::TimestampNanos { utc } => self.nanos(array, *utc),
            Shape::Decimal { precision, scale, size } => decimals(array, *precision, *scale, size.is_some())?,
            Shape::Enum { symbols } => texts(array, symbols)?,
            Shape::Array { items, .. } => self.list(items, array)?,
            Shape::Map { values, .. } => self.map(values, array)?,
            Shape::Record { fields } => self.record(fields, array)?,
            Shape::Union { branches } => self.union(branches, array)?,
            _ => array.clone(),
        })
    }

    fn nanos(&mut self, array: &ArrayRef, utc: bool) -> ArrayRef {
        let nanos = array.as_primitive::<Int64Type>();
        let lost = nanos.iter().flatten().filter(|value| value % 1000 != 0).count();
        self.truncated_nanos += lost as u64;
        timestamps(nanos.unary(|value| value.div_euclid(1000)), utc)
    }

    fn list(&mut self, items: &Shape, array: &ArrayRef) -> Column {
        let list = array.as_list::<i32>();
        let values = self.column(items, list.values())?;
        Ok(Arc::new(ListArray::try_new(items.field("item"), list.offsets().clone(), values, list.nulls().cloned())?))
    }

    fn map(&mut self, values: &Shape, array: &ArrayRef) -> Column {
        let map = last_entries(array.as_map())?;
        let items = self.column(values, map.values())?;
        let entries = StructArray::try_new(entry_fields(values), vec![map.keys().clone(), items], None)?;
        let nulls = map.nulls().cloned();
        Ok(Arc::new(MapArray::try_new(entries_field(values), map.offsets().clone(), entries, nulls, false)?))
    }

    fn record(&mut self, fields: &[Member], array: &ArrayRef) -> Column {
        let record = array.as_struct();
        let columns: Result<Vec<_>, _> =
            fields.iter().zip(record.columns()).map(|(field, column)| self.column(&field.shape, column)).collect();
        let fields = fields.iter().map(Member::field).collect();
        Ok(Arc::new(StructArray::try_new(fields, columns?, record.nulls().cloned())?))
    }

    fn union(&mut self, branches: &[Member], array: &ArrayRef) -> Column {
        let Some(union) = array.as_any().downcast_ref::<UnionArray>() else {
            return match variants(branches) {
                Variants::One(_, only) => self.column(only, array),
                Variants::Many => Err(ArrowError::SchemaError("a union is missing".to_string())),
            };
        };
        if let Variants::One(index, _) = variants(branches) {
            return self.branch(union, branches, index);
        }
        let values = (0..branches.len()).filter(|index| !matches!(branches[*index].shape, Shape::Null));
        let columns: Result<Vec<_>, _> = values.map(|index| self.branch(union, branches, index)).collect();
        let nulls = union.type_ids().iter().map(|id| !matches!(branches[*id as usize].shape, Shape::Null)).collect();
        Ok(Arc::new(StructArray::try_new(branch_fields(branches), columns?, Some(nulls))?))
    }

    /// Return the column of one branch, with null in the rows of other branches.
    fn branch(&mut self, union: &UnionArray, branches: &[Member], index: usize) -> Column {
        let id = index as i8;
        let column = self.column(&branches[index].shape, union.child(id))?;
        let rows: UInt32Array = (0..union.len())
            .map(|row| (union.type_id(row) == id).then(|| union.value_offset(row) as u32))
            .collect();
        take(&column, &rows, None)
    }
}

/// Return the same numbers with another Arrow type of the same width.
fn retyped(array: &ArrayRef, shape: &Shape) -> Column {
    let data = array.to_data().into_builder().data_type(shape.arrow_type()).build()?;
    Ok(arrow_array::make_array(data))
}

fn timestamps(micros: PrimitiveArray<TimestampMicrosecondType>, utc: bool) -> ArrayRef {
    Arc::new(if utc { micros.with_timezone("UTC") } else { micros })
}

fn decimals(array: &ArrayRef, precision: u8, scale: i8, fixed: bool) -> Column {
    let number = |digits: Option<&[u8]>| digits.map(|digits| unscaled(digits).unwrap_or_default());
    let numbers: PrimitiveArray<Decimal128Type> = if fixed {
        array.as_fixed_size_binary().iter().map(number).collect()
    } else {
        array.as_binary::<i32>().iter().map(number).collect()
    };
    let numbers: Decimal128Array = numbers.with_precision_and_scale(precision, scale)?;
    Ok(Arc::new(numbers))
}

fn texts(array: &ArrayRef, symbols: &[String]) -> Column {
    let symbols = StringArray::from_iter_values(symbols);
    take(&symbols, array.as_dictionary::<Int32Type>().keys(), None)
}

/// Remove duplicate keys from maps: a key keeps its first position and its last value, as in most languages.
fn last_entries(map: &MapArray) -> Result<MapArray, ArrowError> {
    let keys = map.keys().as_string::<i32>();
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
    MapArray::try_new(field, arrow_buffer::OffsetBuffer::new(offsets.into()), entries, nulls, ordered)
}

fn keep_entries(keys: &StringArray, range: std::ops::Range<usize>, kept: &mut Vec<(u32, u32)>) {
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
