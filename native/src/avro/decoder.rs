//! The decoder of Avro that Python uses: payloads become the columns of a table in one walk.

use std::sync::Arc;

use arrow_schema::Schema;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::avro::read::{columns, read_record, Reading};
use crate::avro::rules::Bytes;
use crate::avro::shape::{kept_fields, Member, Shape};
use crate::columns::Column;
use crate::decoding::{decode, decode_together, unusable, Decoded, Reader, Together};
use crate::faults::{Checked, Used};

/// Decodes payloads of one writer schema, given as the JSON text of its shape.
#[pyclass(module = "frazil_native", frozen)]
pub struct AvroDecoder {
    rows: Rows,
    schema: Arc<Schema>,
}

struct Rows(Vec<Member>);

#[pymethods]
impl AvroDecoder {
    #[new]
    fn new(shape: &str) -> PyResult<Self> {
        let Shape::Record { fields } = serde_json::from_str::<Shape>(shape).map_err(unusable)? else {
            return Err(PyValueError::new_err("the shape of a row is a record"));
        };
        let schema = Arc::new(Schema::new(kept_fields(&fields)));
        Ok(Self { rows: Rows(fields), schema })
    }

    /// Return the rows, the rejects, and how many timestamps lost nanoseconds.
    fn decode<'py>(&self, py: Python<'py>, payloads: &Bound<'py, PyAny>, skip: usize) -> PyResult<Decoded<'py>> {
        decode(py, &self.rows, &self.schema, payloads, skip)
    }

    /// Return the same for payloads of several decoders.
    #[staticmethod]
    fn decode_together<'py>(
        py: Python<'py>,
        decoders: Vec<Py<Self>>,
        payloads: &Bound<'py, PyAny>,
        together: Together,
        skip: usize,
    ) -> PyResult<Decoded<'py>> {
        let each: Vec<_> = decoders.iter().map(|each| (&each.get().rows, &each.get().schema)).collect();
        decode_together(py, &each, payloads, together, skip)
    }
}

impl Reader for Rows {
    type Field<'s> = Reading<'s>;
    type Scratch = ();

    fn columns<'s>(&'s self, capacity: usize) -> Vec<Column<'s, Reading<'s>>> {
        columns(&self.0, capacity)
    }

    fn read<'s>(
        &'s self,
        columns: &mut [Column<'s, Reading<'s>>],
        _: &mut (),
        payload: &[u8],
        used: &mut Used,
    ) -> Checked {
        let mut bytes = Bytes::new(payload, used);
        read_record(columns, &mut bytes)?;
        bytes.end()
    }
}
