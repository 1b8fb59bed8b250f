//! Identities of rows, for tables that follow keys (`jobs/frazil/modes/identity.py`, which defines the encoding).

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{Date32Type, Decimal128Type, Int32Type, Int64Type, Time64MicrosecondType, TimestampMicrosecondType};
use arrow_array::{Array, Int64Array, RecordBatch, StructArray};
use arrow_buffer::NullBuffer;
use arrow_pyarrow::{FromPyArrow, ToPyArrow};
use arrow_schema::{DataType, Field, Fields, Schema, TimeUnit};
use pyo3::prelude::*;
use sha2::{Digest, Sha256};

use crate::decoding::unusable;

const NUMBER: u8 = 1;
const TEXT: u8 = 2;
const BYTES: u8 = 3;
const BOOLEAN: u8 = 4;
const UUID: u8 = 5;
const DATE: u8 = 6;
const TIME: u8 = 7;
const TIMESTAMP: u8 = 8;
const TIMESTAMPTZ: u8 = 9;
const STRUCT: u8 = 10;

/// Return the identity of each row as two columns; both are null if any part of the identity is null.
#[pyfunction]
pub fn identities<'py>(py: Python<'py>, rows: &Bound<'py, PyAny>, names: [String; 2]) -> PyResult<Bound<'py, PyAny>> {
    let rows = RecordBatch::from_pyarrow_bound(rows)?;
    let parts = parts(rows.schema().fields(), rows.columns()).map_err(unusable)?;
    let length = rows.num_rows();
    let (first, second) = py.detach(|| hashed(&parts, length));
    let fields = names.map(|name| Field::new(name, DataType::Int64, true));
    let columns: Vec<Arc<dyn Array>> = vec![Arc::new(first), Arc::new(second)];
    let made = RecordBatch::try_new(Arc::new(Schema::new(fields.to_vec())), columns);
    made.map_err(|problem| unusable(problem.to_string()))?.to_pyarrow(py)
}

fn hashed(parts: &[Part], length: usize) -> (Int64Array, Int64Array) {
    let mut encoding = Vec::new();
    let halves: Vec<Option<(i64, i64)>> = (0..length)
        .map(|row| {
            encoding.clear();
            encode_all(parts, row, &mut encoding).then(|| halves(&encoding))
        })
        .collect();
    let side = |choose: fn((i64, i64)) -> i64| halves.iter().map(|each| each.map(choose)).collect();
    (side(|two| two.0), side(|two| two.1))
}

fn halves(encoding: &[u8]) -> (i64, i64) {
    let hash = Sha256::digest(encoding);
    let half = |from: usize| i64::from_be_bytes(hash[from..from + 8].try_into().expect("eight bytes"));
    (half(0), half(8))
}

/// One value is encoded as it is, several as a struct of them. Returns false if a part is null.
fn encode_all(parts: &[Part], row: usize, into: &mut Vec<u8>) -> bool {
    match parts {
        [part] => part.encode(row, into),
        parts => encode_struct(parts, row, into),
    }
}

fn encode_struct(parts: &[Part], row: usize, into: &mut Vec<u8>) -> bool {
    into.push(STRUCT);
    into.extend((parts.len() as u32).to_be_bytes());
    parts.iter().all(|part| part.encode(row, into))
}

/// A column of an identity.
struct Part<'a> {
    nulls: Option<&'a NullBuffer>,
    values: Values<'a>,
}

enum Values<'a> {
    Int(&'a [i32]),
    Long(&'a [i64]),
    Decimal(&'a [i128], i16),
    Boolean(&'a arrow_array::BooleanArray),
    Text(Box<dyn Fn(usize) -> &'a [u8] + Send + Sync + 'a>, u8),
    Uuid(&'a arrow_array::FixedSizeBinaryArray),
    Date(&'a [i32]),
    Micros(&'a [i64], u8),
    Struct(Vec<Part<'a>>),
}

impl Part<'_> {
    fn encode(&self, row: usize, into: &mut Vec<u8>) -> bool {
        if self.nulls.is_some_and(|nulls| nulls.is_null(row)) {
            return false;
        }
        match &self.values {
            Values::Int(values) => encode_number(i128::from(values[row]), 0, into),
            Values::Long(values) => encode_number(i128::from(values[row]), 0, into),
            Values::Decimal(values, scale) => encode_number(values[row], -scale, into),
            Values::Boolean(values) => into.extend([BOOLEAN, u8::from(values.value(row))]),
            Values::Text(value, tag) => {
                let value = value(row);
                into.push(*tag);
                into.extend((value.len() as u64).to_be_bytes());
                into.extend(value);
            }
            Values::Uuid(values) => {
                into.push(UUID);
                into.extend(values.value(row));
            }
            Values::Date(values) => {
                into.push(DATE);
                into.extend(values[row].to_be_bytes());
            }
            Values::Micros(values, tag) => {
                into.push(*tag);
                into.extend(values[row].to_be_bytes());
            }
            Values::Struct(parts) => return encode_struct(parts, row, into),
        }
        true
    }
}

/// Encode `digits` times ten to the power of `exponent`, without the zeros at the end of the digits.
fn encode_number(mut digits: i128, mut exponent: i16, into: &mut Vec<u8>) {
    if digits == 0 {
        exponent = 0;
    }
    while digits != 0 && digits % 10 == 0 {
        digits /= 10;
        exponent += 1;
    }
    into.push(NUMBER);
    into.extend(exponent.to_be_bytes());
    into.extend(digits.to_be_bytes());
}

fn parts<'a>(fields: &Fields, arrays: &'a [Arc<dyn Array>]) -> Result<Vec<Part<'a>>, String> {
    fields.iter().zip(arrays).map(|(field, array)| part(field, array)).collect()
}

fn part<'a>(field: &Field, array: &'a Arc<dyn Array>) -> Result<Part<'a>, String> {
    Ok(Part { nulls: array.nulls(), values: values(field, array)? })
}

fn values<'a>(field: &Field, array: &'a Arc<dyn Array>) -> Result<Values<'a>, String> {
    Ok(match field.data_type() {
        DataType::Int32 => Values::Int(array.as_primitive::<Int32Type>().values()),
        DataType::Int64 => Values::Long(array.as_primitive::<Int64Type>().values()),
        DataType::Decimal128(_, scale) => Values::Decimal(array.as_primitive::<Decimal128Type>().values(), i16::from(*scale)),
        DataType::Boolean => Values::Boolean(array.as_boolean()),
        DataType::LargeUtf8 => {
            let texts = array.as_string::<i64>();
            Values::Text(Box::new(|row| texts.value(row).as_bytes()), TEXT)
        }
        DataType::LargeBinary => {
            let bytes = array.as_binary::<i64>();
            Values::Text(Box::new(|row| bytes.value(row)), BYTES)
        }
        DataType::FixedSizeBinary(_) if field.extension_type_name() == Some("arrow.uuid") => {
            Values::Uuid(array.as_fixed_size_binary())
        }
        DataType::FixedSizeBinary(_) => {
            let bytes = array.as_fixed_size_binary();
            Values::Text(Box::new(|row| bytes.value(row)), BYTES)
        }
        DataType::Date32 => Values::Date(array.as_primitive::<Date32Type>().values()),
        DataType::Time64(TimeUnit::Microsecond) => {
            Values::Micros(array.as_primitive::<Time64MicrosecondType>().values(), TIME)
        }
        DataType::Timestamp(TimeUnit::Microsecond, zone) => {
            let tag = if zone.is_some() { TIMESTAMPTZ } else { TIMESTAMP };
            Values::Micros(array.as_primitive::<TimestampMicrosecondType>().values(), tag)
        }
        DataType::Struct(fields) => {
            let of_struct: &StructArray = array.as_struct();
            Values::Struct(parts(fields, of_struct.columns())?)
        }
        other => return Err(format!("{} has the type {other}, which no identity has", field.name())),
    })
}
