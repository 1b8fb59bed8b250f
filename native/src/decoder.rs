//! The decoder that Python uses: check the rules, decode with arrow-avro, convert to the columns of a table.

use std::fmt::Display;

use arrow_array::{make_array, Array, LargeBinaryArray, RecordBatch};
use arrow_avro::reader::{Decoder, DecoderMode, ReaderBuilder};
use arrow_avro::schema::{AvroSchema, Fingerprint, FingerprintAlgorithm, SchemaStore};
use arrow_data::ArrayData;
use arrow_pyarrow::{FromPyArrow, ToPyArrow};
use arrow_schema::Schema;
use pyo3::exceptions::{PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use std::sync::Arc;

use crate::columns::Finisher;
use crate::rules::{examine, MOST_SLOTS};
use crate::shape::{Member, Shape};

const LEAST_CAPACITY: usize = 1024;
/// The maximum size of all payloads of a call, since offsets into strings and bytes have 32 bits.
const MOST_BYTES: i64 = i32::MAX as i64;

/// The index, reason, detail and path of a payload that breaks a rule.
type Reject = (usize, &'static str, String, String);
type Decoded<'py> = (Bound<'py, PyAny>, Vec<Reject>, u64);

fn unusable<E: Display>(error: E) -> PyErr {
    PyValueError::new_err(error.to_string())
}

fn defect<E: Display>(error: E) -> PyErr {
    PyRuntimeError::new_err(format!("a payload that the rules accept was not decoded: {error}"))
}

/// Decodes payloads of one writer schema, given as the JSON text of its shape.
#[pyclass(module = "frazil_native")]
pub struct AvroDecoder {
    fields: Vec<Member>,
    row: Shape,
    decoder: Decoder,
    capacity: usize,
}

#[pymethods]
impl AvroDecoder {
    #[new]
    fn new(shape: &str) -> PyResult<Self> {
        let row = || serde_json::from_str::<Shape>(shape).map_err(unusable);
        let Shape::Record { fields } = row()? else {
            return Err(PyValueError::new_err("the shape of a row is a record"));
        };
        let row = row()?;
        let decoder = build(&row, LEAST_CAPACITY)?;
        Ok(Self { fields, row, decoder, capacity: LEAST_CAPACITY })
    }

    /// Return the rows, the rejects, and how many timestamps lost nanoseconds. Decoding stops before the payload whose
    /// items would bring the total above `MOST_SLOTS` slots in columns; rows and rejects are then fewer than payloads.
    /// The interpreter's lock is released while decoding.
    fn decode<'py>(&mut self, py: Python<'py>, payloads: &Bound<'py, PyAny>, skip: usize) -> PyResult<Decoded<'py>> {
        let given = payloads_of(payloads)?;
        let (batch, rejects, truncated_nanos) = py.detach(|| self.run(&given, skip))?;
        Ok((batch.to_pyarrow(py)?, rejects, truncated_nanos))
    }
}

/// Import the payloads from Python through Arrow's C interface, without copying their bytes.
fn payloads_of(given: &Bound<'_, PyAny>) -> PyResult<LargeBinaryArray> {
    let array = make_array(ArrayData::from_pyarrow_bound(given)?);
    let expected = || PyValueError::new_err(format!("payloads are large_binary without nulls, not {}", array.data_type()));
    match array.as_any().downcast_ref::<LargeBinaryArray>() {
        Some(payloads) if payloads.null_count() == 0 => Ok(payloads.clone()),
        _ => Err(expected()),
    }
}

impl AvroDecoder {
    fn run(&mut self, payloads: &LargeBinaryArray, skip: usize) -> PyResult<(RecordBatch, Vec<Reject>, u64)> {
        let offsets = payloads.value_offsets();
        if offsets[payloads.len()] - offsets[0] > MOST_BYTES {
            return Err(PyValueError::new_err("the payloads of one call hold at most 2 GiB together"));
        }
        self.reserve(payloads.len())?;
        let mut rejects = Vec::new();
        let mut slots = 0;
        for index in 0..payloads.len() {
            let payload = payloads.value(index).get(skip..).unwrap_or_default();
            match examine(&self.row, payload) {
                Ok(more) if slots > 0 && slots + more > MOST_SLOTS => break,
                Ok(more) => {
                    slots += more;
                    self.accept(payload)?;
                }
                Err(fault) => rejects.push((index, fault.reason, fault.detail.clone(), fault.path())),
            }
        }
        let mut finisher = Finisher::default();
        let batch = match self.decoder.flush().map_err(defect)? {
            Some(batch) => finisher.batch(&self.fields, batch).map_err(defect)?,
            None => self.no_rows(),
        };
        Ok((batch, rejects, finisher.truncated_nanos))
    }

    fn accept(&mut self, payload: &[u8]) -> PyResult<()> {
        let taken = self.decoder.decode(payload).map_err(defect)?;
        if taken == payload.len() {
            return Ok(());
        }
        Err(defect(format!("{taken} of {} bytes were read", payload.len())))
    }

    fn reserve(&mut self, rows: usize) -> PyResult<()> {
        if rows > self.capacity || !self.decoder.batch_is_empty() {
            self.capacity = rows.max(self.capacity);
            self.decoder = build(&self.row, self.capacity)?;
        }
        Ok(())
    }

    fn no_rows(&self) -> RecordBatch {
        RecordBatch::new_empty(Arc::new(Schema::new(self.fields.iter().map(Member::field).collect::<Vec<_>>())))
    }
}

fn build(row: &Shape, capacity: usize) -> PyResult<Decoder> {
    let mut schemas = SchemaStore::new_with_type(FingerprintAlgorithm::Id);
    let only = Fingerprint::Id(1);
    schemas.set(only, AvroSchema::new(row.avro(&mut 0).to_string())).map_err(unusable)?;
    ReaderBuilder::new()
        .with_writer_schema_store(schemas)
        .with_active_fingerprint(only)
        .with_batch_size(capacity)
        .with_decoder_mode(DecoderMode::UnframedDatum)
        .build_decoder()
        .map_err(unusable)
}
