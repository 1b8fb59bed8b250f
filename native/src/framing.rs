//! Payloads grouped by the schema id in Confluent's wire format (`jobs/frazil/formats/framing.py`).

use std::collections::HashMap;
use std::mem;

use arrow_array::{make_array, Array, Int64Array, LargeBinaryArray};
use arrow_data::ArrayData;
use arrow_pyarrow::{FromPyArrowUnchecked, PyArrowType};
use pyo3::prelude::*;

use crate::decoding::{load, unusable};

/// In place of the id of a null, and of a payload without a header.
const NULL: i64 = -1;
const UNFRAMED: i64 = -2;
/// How many payloads ahead are loaded: their headers are too far from each other for the processor to expect them.
const AHEAD: usize = 16;

/// The ids in the order of first use; unless all payloads have the first one: how many payloads have it or one before,
/// and the indexes of these payloads.
type Groups = (Vec<i64>, Vec<usize>, Option<PyArrowType<ArrayData>>);

/// Group payloads by schema id.
#[pyfunction]
pub fn schema_id_groups(py: Python<'_>, values: &Bound<'_, PyAny>) -> PyResult<Groups> {
    // SAFETY: Arrow's own arrays are valid.
    let data = unsafe { ArrayData::from_pyarrow_bound_unchecked(values)? };
    data.validate().map_err(unusable)?;
    let array = make_array(data);
    let values = array.as_any().downcast_ref::<LargeBinaryArray>();
    let values = values.ok_or_else(|| unusable(format!("payloads are large_binary, not {}", array.data_type())))?;
    Ok(py.detach(|| groups(values)))
}

fn groups(values: &LargeBinaryArray) -> Groups {
    let Some(first) = (!values.is_empty()).then(|| id(values, 0)) else { return (vec![], vec![], None) };
    let alike = (1..values.len()).find(|index| id(values, *index) != first).unwrap_or(values.len());
    if alike == values.len() {
        return (vec![first], vec![], None);
    }
    let mut leading: Vec<i64> = Vec::with_capacity(values.len());
    leading.extend(0..alike as i64);
    let (mut ids, mut indexes) = (vec![first], vec![leading]);
    let mut places = HashMap::from([(first, 0)]);
    let mut last = (first, 0);
    for index in alike..values.len() {
        let id = id(values, index);
        if id != last.0 {
            let place = *places.entry(id).or_insert(ids.len());
            if place == ids.len() {
                ids.push(id);
                indexes.push(Vec::new());
            }
            last = (id, place);
        }
        indexes[last.1].push(index as i64);
    }
    let mut all = mem::take(&mut indexes[0]);
    let mut ends = vec![all.len()];
    for each in &indexes[1..] {
        all.extend_from_slice(each);
        ends.push(all.len());
    }
    (ids, ends, Some(PyArrowType(Int64Array::from(all).into_data())))
}

#[inline]
fn id(values: &LargeBinaryArray, index: usize) -> i64 {
    if let Some(start) = values.value_offsets().get(index + AHEAD) {
        load(values.value_data().get(*start as usize..*start as usize + 1).unwrap_or_default());
    }
    if values.is_null(index) {
        return NULL;
    }
    match values.value(index) {
        [0, a, b, c, d, ..] => u32::from_be_bytes([*a, *b, *c, *d]).into(),
        _ => UNFRAMED,
    }
}
