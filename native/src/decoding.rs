//! What decoders of all formats have in common: payloads from Python become rows and rejects.

#[cfg(target_arch = "x86_64")]
use std::arch::x86_64::{_mm_prefetch, _MM_HINT_T0};
use std::fmt::Display;
use std::sync::Arc;

use arrow_array::types::Int64Type;
use arrow_array::{make_array, Array, DictionaryArray, LargeBinaryArray, RecordBatch};
use arrow_buffer::ScalarBuffer;
use arrow_data::ArrayData;
use arrow_pyarrow::{FromPyArrowUnchecked, ToPyArrow};
use arrow_schema::{ArrowError, Schema};
use pyo3::exceptions::{PyRuntimeError, PyValueError};
use pyo3::prelude::*;

use crate::columns::{Column, Field};
use crate::faults::{Checked, Used, MOST_SLOTS};

/// The index, reason, detail and path of a payload that breaks a rule.
pub type Reject = (usize, &'static str, String, String);
pub type Decoded<'py> = (Bound<'py, PyAny>, Vec<Reject>, u64, u64);
type Rows = (RecordBatch, Vec<Reject>, u64, u64);

#[cfg(target_arch = "x86_64")]
const CACHE_LINE: usize = 64;
#[cfg(target_arch = "x86_64")]
const LINES_LOADED: usize = 16;

pub fn unusable<E: Display>(error: E) -> PyErr {
    PyValueError::new_err(error.to_string())
}

fn defect<E: Display>(error: E) -> PyErr {
    PyRuntimeError::new_err(format!("decoded payloads are no columns: {error}"))
}

/// Reads payloads of one writer schema.
pub trait Reader: Sync {
    type Field<'s>: Field
    where
        Self: 's;
    /// Memory that one row uses after another.
    type Scratch: Default;

    /// The columns of no rows yet.
    fn columns<'s>(&'s self, capacity: usize) -> Vec<Column<'s, Self::Field<'s>>>;

    /// Read one payload as a row. If it breaks a rule, the columns have to be truncated.
    fn read<'s>(
        &'s self,
        columns: &mut [Column<'s, Self::Field<'s>>],
        scratch: &mut Self::Scratch,
        payload: &[u8],
        used: &mut Used,
    ) -> Checked;
}

/// Return the rows, the rejects, how many timestamps lost nanoseconds, and how many fields were undeclared. Decoding
/// stops before the payload whose items would bring the total above `MOST_SLOTS` slots in columns, those of rejects
/// included, since filling them takes time; rows and rejects are then fewer than payloads. The interpreter's lock is
/// released while decoding.
pub fn decode<'py>(
    py: Python<'py>,
    reader: &impl Reader,
    schema: &Arc<Schema>,
    payloads: &Bound<'py, PyAny>,
    skip: usize,
) -> PyResult<Decoded<'py>> {
    let given = Payloads::of(payloads)?;
    let (batch, rejects, truncated_nanos, undeclared) =
        py.detach(|| run(reader, schema, &given, skip)).map_err(defect)?;
    Ok((batch.to_pyarrow(py)?, rejects, truncated_nanos, undeclared))
}

/// Payloads to decode: all of an array, or those at the places `chosen`.
struct Payloads {
    values: LargeBinaryArray,
    chosen: Option<ScalarBuffer<i64>>,
}

impl Payloads {
    /// Import the payloads from Python through Arrow's C interface, without copying their bytes.
    fn of(given: &Bound<'_, PyAny>) -> PyResult<Self> {
        // SAFETY: Arrow's own arrays are valid. Checking all values would take longer than decoding a few of them.
        let data = unsafe { ArrayData::from_pyarrow_bound_unchecked(given)? };
        data.validate().map_err(unusable)?;
        let array = make_array(data);
        let chosen = array.as_any().downcast_ref::<DictionaryArray<Int64Type>>();
        let values = chosen.map_or(&array, DictionaryArray::values).as_any().downcast_ref::<LargeBinaryArray>();
        let Some(values) = values.filter(|_| array.logical_null_count() == 0) else {
            let expected = "large_binary without nulls, or a dictionary of them";
            return Err(PyValueError::new_err(format!("payloads are {expected}, not {}", array.data_type())));
        };
        Ok(Self { values: values.clone(), chosen: chosen.map(|chosen| chosen.keys().values().clone()) })
    }

    fn len(&self) -> usize {
        self.chosen.as_ref().map_or(self.values.len(), |chosen| chosen.len())
    }

    #[inline]
    fn get(&self, index: usize) -> &[u8] {
        let place = self.chosen.as_ref().map_or(index, |chosen| chosen[index] as usize);
        let ends = self.values.value_offsets();
        &self.values.value_data()[ends[place] as usize..ends[place + 1] as usize]
    }

    /// Load the payload after this one into the processor's cache if payloads are apart: it does not expect them there.
    #[inline]
    fn load_next(&self, index: usize) {
        if self.chosen.as_ref().is_some_and(|chosen| index + 1 < chosen.len()) {
            load(self.get(index + 1));
        }
    }
}

#[cfg(not(target_arch = "x86_64"))]
fn load(_: &[u8]) {}

/// Begin to load the first bytes. The processor expects those that follow.
#[cfg(target_arch = "x86_64")]
fn load(payload: &[u8]) {
    for line in payload.chunks(CACHE_LINE).take(LINES_LOADED) {
        // SAFETY: the address is only a hint, and it is one of the payload.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(line.as_ptr().cast()) };
    }
}

fn run<R: Reader>(
    reader: &R,
    schema: &Arc<Schema>,
    payloads: &Payloads,
    skip: usize,
) -> Result<Rows, ArrowError> {
    let (mut columns, mut scratch) = (reader.columns(payloads.len()), R::Scratch::default());
    let (mut rejects, mut rows, mut slots, mut truncated_nanos, mut undeclared) = (Vec::new(), 0, 0, 0, 0);
    for index in 0..payloads.len() {
        payloads.load_next(index);
        let payload = payloads.get(index).get(skip..).unwrap_or_default();
        let mut used = Used::new(MOST_SLOTS.saturating_sub(slots));
        match reader.read(&mut columns, &mut scratch, payload, &mut used) {
            Ok(()) => {
                rows += 1;
                truncated_nanos += used.truncated_nanos;
                undeclared += used.undeclared;
            }
            Err(fault) => {
                columns.iter_mut().for_each(|column| column.truncate(rows));
                if used.is_crowded {
                    break;
                }
                rejects.push((index, fault.reason, fault.detail.clone(), fault.path()));
            }
        }
        slots += used.slots;
    }
    let kept = columns.into_iter().filter(|column| column.field.is_kept());
    let arrays: Result<Vec<_>, _> = kept.map(|column| column.finish().map(make_array)).collect();
    Ok((RecordBatch::try_new(schema.clone(), arrays?)?, rejects, truncated_nanos, undeclared))
}
