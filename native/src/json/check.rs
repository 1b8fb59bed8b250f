//! A quick check of JSON that is kept as text, by the rules of `jobs/frazil/formats/plain.py`.

use arrow_array::{Array, LargeBinaryArray};
use arrow_data::ArrayData;
use arrow_pyarrow::FromPyArrow;
use pyo3::prelude::*;
use serde::de::IgnoredAny;

/// Return the indexes of payloads that are not shown to be one JSON text, nested at most `deepest` levels.
///
/// Python examines them again and says what is wrong, if anything is: the depth is only estimated here.
#[pyfunction]
pub fn json_suspects(py: Python<'_>, payloads: &Bound<'_, PyAny>, deepest: usize) -> PyResult<Vec<usize>> {
    let payloads = LargeBinaryArray::from(ArrayData::from_pyarrow_bound(payloads)?);
    Ok(py.detach(|| {
        let there = (0..payloads.len()).filter(|&index| payloads.is_valid(index));
        there.filter(|&index| !is_json(payloads.value(index), deepest)).collect()
    }))
}

fn is_json(payload: &[u8], deepest: usize) -> bool {
    let opened = payload.iter().filter(|&&byte| byte == b'[' || byte == b'{').count();
    let text = std::str::from_utf8(payload);
    opened <= deepest && text.is_ok_and(|text| serde_json::from_str::<IgnoredAny>(text).is_ok())
}
