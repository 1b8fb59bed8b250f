//! The decoder of JSON that Python uses: payloads become the columns of a table in one walk.

use std::sync::Arc;

use arrow_schema::Schema;
use pyo3::prelude::*;

use crate::columns::{Column, Values};
use crate::decoding::{decode, decode_together, unusable, Decoded, Reader, Together};
use crate::faults::{Checked, Used};
use crate::json::read::{column, columns, read, read_members, Reading};
use crate::json::shape::{Row, Shape};
use crate::json::walk::{wrong, Walk};

static EXTRA: Shape = Shape::Json;

/// Decodes payloads of one shape, given as JSON text.
#[pyclass(module = "frazil_native", frozen)]
pub struct JsonDecoder {
    row: Row,
    schema: Arc<Schema>,
}

#[pymethods]
impl JsonDecoder {
    #[new]
    fn new(shape: &str) -> PyResult<Self> {
        let row: Row = serde_json::from_str(shape).map_err(unusable)?;
        let mut fields = row.fields.arrow_fields();
        if row.keeps_extra {
            fields.push(EXTRA.field("_extra"));
        }
        Ok(Self { row, schema: Arc::new(Schema::new(fields)) })
    }

    /// Return the rows, the rejects, how many timestamps lost nanoseconds, and how many fields were undeclared.
    fn decode<'py>(&self, py: Python<'py>, payloads: &Bound<'py, PyAny>, skip: usize) -> PyResult<Decoded<'py>> {
        decode(py, &self.row, &self.schema, payloads, skip)
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
        let each: Vec<_> = decoders.iter().map(|each| (&each.get().row, &each.get().schema)).collect();
        decode_together(py, &each, payloads, together, skip)
    }
}

impl Reader for Row {
    type Field<'s> = Reading<'s>;
    type Scratch = ();

    fn columns<'s>(&'s self, capacity: usize) -> Vec<Column<'s, Reading<'s>>> {
        let mut columns = columns(&self.fields, capacity);
        if self.keeps_extra {
            columns.push(column(&EXTRA, capacity));
        }
        columns
    }

    fn read<'s>(
        &'s self,
        columns: &mut [Column<'s, Reading<'s>>],
        (): &mut (),
        payload: &[u8],
        used: &mut Used,
    ) -> Checked {
        let mut walk = Walk::new(payload, used, self.keeps_extra);
        walk.used.reserve(self.slots)?;
        let (extra, columns) = match self.keeps_extra {
            true => columns.split_last_mut().map(|(extra, columns)| (Some(extra), columns)).unwrap_or_default(),
            false => (None, columns),
        };
        if self.is_object {
            let before = columns.first().map_or(0, Column::len);
            let first = walk.next()?;
            if first != b'{' {
                return wrong("an object", first);
            }
            read_members(&self.fields, columns, before, first, &mut walk)?;
        } else {
            read(&mut columns[0], &mut walk)?;
        }
        walk.end()?;
        match (extra, walk.extra()) {
            (Some(column), Some(text)) => {
                column.nulls.append_non_null();
                if let Values::String(texts) = &mut column.values {
                    texts.append(&text);
                }
            }
            (Some(column), None) => column.append_null(),
            (None, _) => {}
        }
        Ok(())
    }
}
