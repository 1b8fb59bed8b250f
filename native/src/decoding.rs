//! What decoders of all formats have in common: payloads from Python become rows and rejects.

#[cfg(target_arch = "x86_64")]
use std::arch::x86_64::{_mm_prefetch, _MM_HINT_T0};
use std::fmt::Display;
use std::sync::Arc;

use arrow_array::types::Int64Type;
use arrow_array::{make_array, Array, DictionaryArray, LargeBinaryArray, RecordBatch, UInt16Array};
use arrow_buffer::ScalarBuffer;
use arrow_data::ArrayData;
use arrow_pyarrow::{FromPyArrowUnchecked, PyArrowType, ToPyArrow};
use arrow_schema::{ArrowError, Schema};
use pyo3::exceptions::{PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::columns::{Column, Field};
use crate::faults::{Checked, Used, MOST_SLOTS};
use crate::gather::{gather, Place, NOWHERE};

/// The index, reason, detail and path of a payload that breaks a rule.
type Reject = (usize, &'static str, String, String);
/// The indexes as numbers of 64 bits, and the reasons, details and paths.
pub type Rejects<'py> = (Bound<'py, PyBytes>, Vec<&'static str>, Vec<String>, Vec<String>);
pub type Decoded<'py> = (Bound<'py, PyAny>, Rejects<'py>, u64, u64);

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
    let rows = || {
        let (mut filled, read) = run(&[reader], &given, None, 0..given.len(), skip);
        let arrays = filled.remove(0).finish()?.into_iter().map(make_array).collect();
        Ok((RecordBatch::try_new(schema.clone(), arrays)?, read))
    };
    returned(py, py.detach(rows))
}

/// The columns of rows that several decoders decode together.
#[derive(FromPyObject)]
pub struct Together {
    /// The names of the columns.
    names: Vec<String>,
    /// For each decoder: which of its columns each one is; None for a column that it does not have.
    columns: Vec<Vec<Option<usize>>>,
    /// For each payload: the number of its decoder.
    numbers: PyArrowType<ArrayData>,
}

/// Return the same as `decode` for payloads of several decoders, as rows in the order of the payloads.
pub fn decode_together<'py, R: Reader>(
    py: Python<'py>,
    decoders: &[(&R, &Arc<Schema>)],
    payloads: &Bound<'py, PyAny>,
    together: Together,
    skip: usize,
) -> PyResult<Decoded<'py>> {
    let given = Payloads::of(payloads)?;
    let Together { names, columns, numbers } = together;
    let numbers = UInt16Array::from(numbers.0);
    let is_number = |number: &u16| usize::from(*number) < decoders.len();
    if numbers.len() != given.len() || columns.len() != decoders.len() || !numbers.values().iter().all(is_number) {
        return Err(PyValueError::new_err("each payload needs the number of its decoder, and each decoder its columns"));
    }
    let rows = || {
        let readers: Vec<&R> = decoders.iter().map(|(reader, _)| *reader).collect();
        let (filled, read) = run_by_reader(&readers, &given, numbers.values(), skip);
        let filled = filled.into_iter().map(Filled::finish).collect::<Result<Vec<_>, _>>()?;
        let (mut fields, mut arrays) = (Vec::new(), Vec::new());
        for (place, name) in names.iter().enumerate() {
            let sources: Vec<_> = columns.iter().zip(&filled).map(|(has, data)| has[place].map(|at| &data[at])).collect();
            let field = columns.iter().zip(decoders).find_map(|(has, (_, schema))| Some(schema.field(has[place]?)));
            let field = field.ok_or_else(|| ArrowError::SchemaError(format!("no decoder has the column {name}")))?;
            arrays.push(gather(&sources, field.data_type(), &read.places)?);
            fields.push(field.clone().with_name(name));
        }
        Ok((RecordBatch::try_new(Arc::new(Schema::new(fields)), arrays)?, read))
    };
    returned(py, py.detach(rows))
}

fn returned<'py>(py: Python<'py>, rows: Result<(RecordBatch, Read), ArrowError>) -> PyResult<Decoded<'py>> {
    let (batch, read) = rows.map_err(defect)?;
    Ok((batch.to_pyarrow(py)?, in_columns(py, read.rejects), read.truncated_nanos, read.undeclared))
}

fn in_columns(py: Python<'_>, rejects: Vec<Reject>) -> Rejects<'_> {
    let indexes: Vec<u8> = rejects.iter().flat_map(|(index, ..)| (*index as i64).to_ne_bytes()).collect();
    let (mut reasons, mut details, mut paths) = (Vec::new(), Vec::new(), Vec::new());
    for (_, reason, detail, path) in rejects {
        reasons.push(reason);
        details.push(detail);
        paths.push(path);
    }
    (PyBytes::new(py, &indexes), reasons, details, paths)
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

    /// Whether most payloads do not follow the one before them: the processor then does not expect them. Those that are
    /// left without a few bad ones do.
    fn are_apart(&self) -> bool {
        self.chosen.as_ref().is_some_and(|chosen| chosen.len() < self.values.len() / 2)
    }

    #[inline]
    fn get(&self, index: usize) -> &[u8] {
        let place = self.chosen.as_ref().map_or(index, |chosen| chosen[index] as usize);
        let ends = self.values.value_offsets();
        &self.values.value_data()[ends[place] as usize..ends[place + 1] as usize]
    }

}

#[cfg(not(target_arch = "x86_64"))]
pub fn load(_: &[u8]) {}

/// Begin to load the first bytes. The processor expects those that follow.
#[cfg(target_arch = "x86_64")]
pub fn load(payload: &[u8]) {
    for line in payload.chunks(CACHE_LINE).take(LINES_LOADED) {
        // SAFETY: the address is only a hint, and it is one of the payload.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(line.as_ptr().cast()) };
    }
}

/// The columns of one reader's rows.
struct Filled<'s, R: Reader + 's> {
    reader: &'s R,
    columns: Vec<Column<'s, R::Field<'s>>>,
    scratch: R::Scratch,
    rows: usize,
}

impl<'s, R: Reader> Filled<'s, R> {
    fn new(reader: &'s R, capacity: usize) -> Self {
        Self { reader, columns: reader.columns(capacity), scratch: R::Scratch::default(), rows: 0 }
    }

    /// Return the columns that the rows keep.
    fn finish(self) -> Result<Vec<ArrayData>, ArrowError> {
        self.columns.into_iter().filter(|column| column.field.is_kept()).map(Column::finish).collect()
    }
}

/// What became of payloads.
#[derive(Default)]
struct Read {
    /// Where the rows are, in the order of the payloads; nothing if there is one reader.
    places: Vec<Place>,
    rejects: Vec<Reject>,
    truncated_nanos: u64,
    undeclared: u64,
    is_crowded: bool,
}

/// Read the payloads of one reader after those of another: what a reader needs then stays in the processor's cache.
fn run_by_reader<'s, R: Reader>(
    readers: &[&'s R],
    payloads: &Payloads,
    numbers: &[u16],
    skip: usize,
) -> (Vec<Filled<'s, R>>, Read) {
    let mut indexes = vec![Vec::new(); readers.len()];
    for (index, number) in numbers.iter().enumerate() {
        indexes[usize::from(*number)].push(index);
    }
    let order = indexes.iter().flatten().copied();
    let (filled, mut read) = run(readers, payloads, Some(numbers), order, skip);
    if read.is_crowded {
        return run(readers, payloads, Some(numbers), 0..payloads.len(), skip);
    }
    read.rejects.sort_by_key(|(index, ..)| *index);
    (filled, read)
}

/// Read payloads in this order, each with the reader of its number; None is the first reader for all.
fn run<'s, R: Reader>(
    readers: &[&'s R],
    payloads: &Payloads,
    numbers: Option<&[u16]>,
    order: impl Iterator<Item = usize> + Clone,
    skip: usize,
) -> (Vec<Filled<'s, R>>, Read) {
    let mut counts = vec![if numbers.is_some() { 0 } else { payloads.len() }; readers.len()];
    numbers.unwrap_or_default().iter().for_each(|number| counts[usize::from(*number)] += 1);
    let mut filled: Vec<_> = readers.iter().zip(counts).map(|(reader, count)| Filled::new(*reader, count)).collect();
    let (mut read, mut slots, mut next) = (Read::default(), 0, order.clone().skip(1));
    let are_apart = numbers.is_some() || payloads.are_apart();
    read.places.resize(if numbers.is_some() { payloads.len() } else { 0 }, NOWHERE);
    for index in order {
        if let Some(next) = next.next().filter(|_| are_apart) {
            load(payloads.get(next));
        }
        let payload = payloads.get(index).get(skip..).unwrap_or_default();
        let number = numbers.map_or(0, |numbers| usize::from(numbers[index]));
        let Filled { reader, columns, scratch, rows } = &mut filled[number];
        let mut used = Used::new(MOST_SLOTS.saturating_sub(slots));
        match reader.read(columns, scratch, payload, &mut used) {
            Ok(()) => {
                if let Some(place) = read.places.get_mut(index) {
                    *place = (number as u32, *rows as u32);
                }
                *rows += 1;
                read.truncated_nanos += used.truncated_nanos;
                read.undeclared += used.undeclared;
            }
            Err(fault) => {
                columns.iter_mut().for_each(|column| column.truncate(*rows));
                if used.is_crowded {
                    read.is_crowded = true;
                    break;
                }
                let path = fault.path();
                read.rejects.push((index, fault.reason, fault.detail, path));
            }
        }
        slots += used.slots;
    }
    read.places.retain(|place| *place != NOWHERE);
    (filled, read)
}
