//! The registry's wire format: a zero byte, then the schema's id in four bytes, big end first.

use arrow_array::{Array, Int64Array};
use arrow_pyarrow::ToPyArrow;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList};

const NULL: i64 = -1;
const UNFRAMED: i64 = -2;

/// The schema id of each value; -1 for None, -2 for a value that is not framed.
#[pyfunction]
pub fn schema_ids<'py>(py: Python<'py>, values: &Bound<'py, PyList>) -> PyResult<Bound<'py, PyAny>> {
    let ids: Vec<i64> = values.iter().map(|value| schema_id(&value)).collect::<PyResult<_>>()?;
    Int64Array::from(ids).to_data().to_pyarrow(py)
}

fn schema_id(value: &Bound<'_, PyAny>) -> PyResult<i64> {
    if value.is_none() {
        return Ok(NULL);
    }
    Ok(match value.cast::<PyBytes>()?.as_bytes() {
        [0, a, b, c, d, ..] => i64::from(u32::from_be_bytes([*a, *b, *c, *d])),
        _ => UNFRAMED,
    })
}
