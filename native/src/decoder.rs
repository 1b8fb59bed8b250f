//! The decoder that Python uses: payloads become the columns of a table in one walk.

use std::fmt::Display;
use std::sync::Arc;

use arrow_array::{make_array, Array, LargeBinaryArray, RecordBatch};
use arrow_data::ArrayData;
use arrow_pyarrow::{FromPyArrow, ToPyArrow};
use arrow_schema::{ArrowError, Schema};
use pyo3::exceptions::{PyRuntimeError, PyValueError};
use pyo3::prelude::*;

use crate::columns::{columns, read_record, Column};
use crate::rules::{Bytes, MOST_SLOTS};
use crate::shape::{Member, Shape};

/// The index, reason, detail and path of a payload that breaks a rule.
type Reject = (usize, &'static str, String, String);
type Decoded<'py> = (Bound<'py, PyAny>, Vec<Reject>, u64);

fn unusable<E: Display>(error: E) -> PyErr {
    PyValueError::new_err(error.to_string())
}

fn defect<E: Display>(error: E) -> PyErr {
    PyRuntimeError::new_err(format!("decoded payloads are no columns: {error}"))
}

/// Decodes payloads of one writer schema, given as the JSON text of its shape.
#[pyclass(module = "frazil_native", frozen)]
pub struct AvroDecoder {
    fields: Vec<Member>,
    schema: Arc<Schema>,
}

#[pymethods]
impl AvroDecoder {
    #[new]
    fn new(shape: &str) -> PyResult<Self> {
        let Shape::Record { fields } = serde_json::from_str::<Shape>(shape).map_err(unusable)? else {
            return Err(PyValueError::new_err("the shape of a row is a record"));
        };
        let schema = Arc::new(Schema::new(fields.iter().map(Member::field).collect::<Vec<_>>()));
        Ok(Self { fields, schema })
    }

    /// Return the rows, the rejects, and how many timestamps lost nanoseconds. Decoding stops before the payload whose
    /// items would bring the total above `MOST_SLOTS` slots in columns, those of rejects included, since filling them
    /// takes time; rows and rejects are then fewer than payloads.
    /// The interpreter's lock is released while decoding.
    fn decode<'py>(&self, py: Python<'py>, payloads: &Bound<'py, PyAny>, skip: usize) -> PyResult<Decoded<'py>> {
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
    fn run(&self, payloads: &LargeBinaryArray, skip: usize) -> PyResult<(RecordBatch, Vec<Reject>, u64)> {
        let mut columns = columns(&self.fields, payloads.len());
        let (mut rejects, mut rows, mut slots, mut truncated_nanos) = (Vec::new(), 0, 0, 0);
        for index in 0..payloads.len() {
            let payload = payloads.value(index).get(skip..).unwrap_or_default();
            let mut bytes = Bytes::new(payload, MOST_SLOTS.saturating_sub(slots));
            let read = read_record(&mut columns, &mut bytes).and_then(|()| bytes.end());
            match read {
                Ok(()) => {
                    rows += 1;
                    truncated_nanos += bytes.truncated_nanos;
                }
                Err(fault) => {
                    columns.iter_mut().for_each(|(_, column)| column.truncate(rows));
                    if bytes.is_crowded {
                        break;
                    }
                    rejects.push((index, fault.reason, fault.detail.clone(), fault.path()));
                }
            }
            slots += bytes.slots;
        }
        let batch = self.batch(columns).map_err(defect)?;
        Ok((batch, rejects, truncated_nanos))
    }

    fn batch(&self, columns: Vec<(&str, Column)>) -> Result<RecordBatch, ArrowError> {
        let arrays: Result<Vec<_>, _> = columns.into_iter().map(|(_, column)| column.finish().map(make_array)).collect();
        RecordBatch::try_new(self.schema.clone(), arrays?)
    }
}
