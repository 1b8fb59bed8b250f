//! Rows become Avro payloads by the schema of `jobs/frazil/outputs/avro_schema.py`, in which each column may be null.

use std::ops::Range;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{
    Date32Type, Decimal128Type, Float32Type, Float64Type, Int32Type, Int64Type, Time64MicrosecondType,
    TimestampMicrosecondType,
};
use arrow_array::{Array, ArrayRef, BinaryArray, RecordBatch};
use arrow_buffer::{Buffer, NullBuffer, OffsetBuffer, ScalarBuffer};
use arrow_pyarrow::{FromPyArrow, ToPyArrow};
use arrow_schema::{DataType, Field, Fields, TimeUnit};
use pyo3::prelude::*;

use crate::decoding::unusable;

/// The branches of `["null", type]`.
const NULL: u8 = 0;
const VALUE: u8 = 2;
const UUID: &str = "arrow.uuid";
/// About what a value takes, to begin with.
const VALUE_BYTES: usize = 8;

/// Return a payload for each row: `prefix`, then the columns in their order.
#[pyfunction]
pub fn avro_payloads<'py>(py: Python<'py>, rows: &Bound<'py, PyAny>, prefix: &[u8]) -> PyResult<Bound<'py, PyAny>> {
    let rows = RecordBatch::from_pyarrow_bound(rows)?;
    let columns = columns(rows.schema().fields(), rows.columns()).map_err(unusable)?;
    let payloads = py.detach(|| encoded(&columns, rows.num_rows(), prefix)).map_err(unusable)?;
    payloads.to_data().to_pyarrow(py)
}

fn encoded(columns: &[Column], rows: usize, prefix: &[u8]) -> Result<BinaryArray, String> {
    let mut bytes = Vec::with_capacity(rows * (prefix.len() + columns.len() * VALUE_BYTES));
    let mut ends = Vec::with_capacity(rows + 1);
    ends.push(0);
    for row in 0..rows {
        bytes.extend_from_slice(prefix);
        for column in columns {
            column.write(row, &mut bytes);
        }
        ends.push(i32::try_from(bytes.len()).map_err(|_| "the payloads of a batch have more than 2 GB".to_owned())?);
    }
    let offsets = OffsetBuffer::new(ScalarBuffer::from(ends));
    Ok(BinaryArray::new(offsets, Buffer::from_vec(bytes), None))
}

/// A column and which of its values are null.
struct Column {
    nulls: Option<NullBuffer>,
    values: Values,
}

enum Values {
    Boolean(arrow_array::BooleanArray),
    Int(ScalarBuffer<i32>),
    Long(ScalarBuffer<i64>),
    Float(ScalarBuffer<f32>),
    Double(ScalarBuffer<f64>),
    Decimal(ScalarBuffer<i128>),
    Bytes(OffsetBuffer<i32>, Buffer),
    LargeBytes(OffsetBuffer<i64>, Buffer),
    Fixed(arrow_array::FixedSizeBinaryArray),
    Uuid(arrow_array::FixedSizeBinaryArray),
    Record(Vec<Column>),
    Items(OffsetBuffer<i64>, Box<Column>),
    Map(OffsetBuffer<i32>, Box<Column>, Box<Column>),
    Entries(OffsetBuffer<i32>, Box<Column>, Box<Column>),
}

fn columns(fields: &Fields, arrays: &[ArrayRef]) -> Result<Vec<Column>, String> {
    fields.iter().zip(arrays).map(|(field, array)| column(array, field)).collect()
}

fn column(array: &ArrayRef, field: &Field) -> Result<Column, String> {
    let is_uuid = field.extension_type_name() == Some(UUID);
    Ok(Column { nulls: array.nulls().cloned(), values: values(array, is_uuid)? })
}

fn values(array: &ArrayRef, is_uuid: bool) -> Result<Values, String> {
    Ok(match array.data_type() {
        DataType::Boolean => Values::Boolean(array.as_boolean().clone()),
        DataType::Int32 => Values::Int(array.as_primitive::<Int32Type>().values().clone()),
        DataType::Date32 => Values::Int(array.as_primitive::<Date32Type>().values().clone()),
        DataType::Int64 => Values::Long(array.as_primitive::<Int64Type>().values().clone()),
        DataType::Time64(TimeUnit::Microsecond) => {
            Values::Long(array.as_primitive::<Time64MicrosecondType>().values().clone())
        }
        DataType::Timestamp(TimeUnit::Microsecond, _) => {
            Values::Long(array.as_primitive::<TimestampMicrosecondType>().values().clone())
        }
        DataType::Float32 => Values::Float(array.as_primitive::<Float32Type>().values().clone()),
        DataType::Float64 => Values::Double(array.as_primitive::<Float64Type>().values().clone()),
        DataType::Decimal128(_, _) => Values::Decimal(array.as_primitive::<Decimal128Type>().values().clone()),
        DataType::Utf8 => {
            Values::Bytes(array.as_string::<i32>().offsets().clone(), array.as_string::<i32>().values().clone())
        }
        DataType::LargeUtf8 => {
            Values::LargeBytes(array.as_string::<i64>().offsets().clone(), array.as_string::<i64>().values().clone())
        }
        DataType::Binary => {
            Values::Bytes(array.as_binary::<i32>().offsets().clone(), array.as_binary::<i32>().values().clone())
        }
        DataType::LargeBinary => {
            Values::LargeBytes(array.as_binary::<i64>().offsets().clone(), array.as_binary::<i64>().values().clone())
        }
        DataType::FixedSizeBinary(16) if is_uuid => Values::Uuid(array.as_fixed_size_binary().clone()),
        DataType::FixedSizeBinary(_) => Values::Fixed(array.as_fixed_size_binary().clone()),
        _ => nested(array)?,
    })
}

fn nested(array: &ArrayRef) -> Result<Values, String> {
    Ok(match array.data_type() {
        DataType::Struct(fields) => Values::Record(columns(fields, array.as_struct().columns())?),
        DataType::List(item) => {
            let list = array.as_list::<i32>();
            let offsets: Vec<i64> = list.offsets().iter().map(|&each| i64::from(each)).collect();
            let offsets = OffsetBuffer::new(ScalarBuffer::from(offsets));
            Values::Items(offsets, Box::new(column(list.values(), item)?))
        }
        DataType::LargeList(item) => {
            let list = array.as_list::<i64>();
            Values::Items(list.offsets().clone(), Box::new(column(list.values(), item)?))
        }
        DataType::Map(_, _) => {
            let map = array.as_map();
            let fields = map.entries().fields();
            let keys = Box::new(column(map.keys(), &fields[0])?);
            let values = Box::new(column(map.values(), &fields[1])?);
            match map.keys().data_type() {
                DataType::Utf8 | DataType::LargeUtf8 => Values::Map(map.offsets().clone(), keys, values),
                _ => Values::Entries(map.offsets().clone(), keys, values),
            }
        }
        other => return Err(format!("{other} has no Avro type")),
    })
}

impl Column {
    /// Write the branch of the union, and the value if there is one.
    fn write(&self, row: usize, into: &mut Vec<u8>) {
        if self.nulls.as_ref().is_some_and(|nulls| nulls.is_null(row)) {
            into.push(NULL);
        } else {
            into.push(VALUE);
            self.values.write(row, into);
        }
    }
}

impl Values {
    #[inline]
    fn write(&self, row: usize, into: &mut Vec<u8>) {
        match self {
            Self::Boolean(values) => into.push(u8::from(values.value(row))),
            Self::Int(values) => long(i64::from(values[row]), into),
            Self::Long(values) => long(values[row], into),
            Self::Float(values) => into.extend_from_slice(&values[row].to_le_bytes()),
            Self::Double(values) => into.extend_from_slice(&values[row].to_le_bytes()),
            Self::Decimal(values) => bytes(shortest(&values[row].to_be_bytes()), into),
            Self::Bytes(offsets, all) => bytes(&all[offsets[row] as usize..offsets[row + 1] as usize], into),
            Self::LargeBytes(offsets, all) => bytes(&all[offsets[row] as usize..offsets[row + 1] as usize], into),
            Self::Fixed(values) => into.extend_from_slice(values.value(row)),
            Self::Uuid(values) => bytes(&text_of_uuid(values.value(row)), into),
            Self::Record(columns) => columns.iter().for_each(|column| column.write(row, into)),
            Self::Items(offsets, items) => {
                let (start, end) = (offsets[row] as usize, offsets[row + 1] as usize);
                block(start..end, into, |item, into| items.write(item, into));
            }
            Self::Map(offsets, keys, values) => {
                let (start, end) = (offsets[row] as usize, offsets[row + 1] as usize);
                block(start..end, into, |entry, into| {
                    keys.values.write(entry, into);
                    values.write(entry, into);
                });
            }
            Self::Entries(offsets, keys, values) => {
                let (start, end) = (offsets[row] as usize, offsets[row + 1] as usize);
                block(start..end, into, |entry, into| {
                    keys.write(entry, into);
                    values.write(entry, into);
                });
            }
        }
    }
}

/// Write items as one block, and the end of blocks.
fn block(items: Range<usize>, into: &mut Vec<u8>, write: impl Fn(usize, &mut Vec<u8>)) {
    if !items.is_empty() {
        long(items.len() as i64, into);
        items.for_each(|item| write(item, into));
    }
    into.push(0);
}

fn bytes(value: &[u8], into: &mut Vec<u8>) {
    long(value.len() as i64, into);
    into.extend_from_slice(value);
}

#[inline]
fn long(value: i64, into: &mut Vec<u8>) {
    let mut left = (value << 1 ^ value >> 63) as u64;
    while left > 0x7F {
        into.push(left as u8 | 0x80);
        left >>= 7;
    }
    into.push(left as u8);
}

/// Return a number in two's complement without the first bytes that only repeat its sign.
fn shortest(number: &[u8; 16]) -> &[u8] {
    let repeats = |pair: &[u8]| matches!((pair[0], pair[1] >> 7), (0, 0) | (0xFF, 1));
    let dropped = number.windows(2).take_while(|pair| repeats(pair)).count();
    &number[dropped..]
}

fn text_of_uuid(value: &[u8]) -> [u8; 36] {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let mut text = [b'-'; 36];
    let mut at = 0;
    for (index, byte) in value.iter().enumerate() {
        if matches!(index, 4 | 6 | 8 | 10) {
            at += 1;
        }
        text[at] = DIGITS[usize::from(byte >> 4)];
        text[at + 1] = DIGITS[usize::from(byte & 15)];
        at += 2;
    }
    text
}

/// Return the hash by which Kafka's Java clients choose a partition, without its sign; null where the key is null.
#[pyfunction]
pub fn partition_hashes<'py>(py: Python<'py>, keys: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    let keys = arrow_array::make_array(arrow_data::ArrayData::from_pyarrow_bound(keys)?);
    let keys = keys.as_binary_opt::<i32>().ok_or_else(|| unusable("keys are not binary"))?;
    let hashes: arrow_array::Int32Array = keys.iter().map(|key| key.map(|key| murmur2(key) & i32::MAX)).collect();
    Arc::new(hashes).to_data().to_pyarrow(py)
}

/// The variant of MurmurHash2 of Kafka's `Utils.murmur2`.
fn murmur2(data: &[u8]) -> i32 {
    const M: u32 = 0x5bd1_e995;
    let mut hash = 0x9747_b28c ^ data.len() as u32;
    let mut words = data.chunks_exact(4);
    for word in &mut words {
        let mut k = u32::from_le_bytes(word.try_into().expect("four bytes")).wrapping_mul(M);
        k ^= k >> 24;
        hash = hash.wrapping_mul(M) ^ k.wrapping_mul(M);
    }
    let rest = words.remainder();
    if !rest.is_empty() {
        for (index, byte) in rest.iter().enumerate() {
            hash ^= u32::from(*byte) << (8 * index);
        }
        hash = hash.wrapping_mul(M);
    }
    hash ^= hash >> 13;
    hash = hash.wrapping_mul(M);
    (hash ^ hash >> 15) as i32
}
