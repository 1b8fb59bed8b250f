//! The decoder of Protobuf that Python uses: payloads become the columns of a table in one walk.

use std::sync::Arc;

use arrow_schema::Schema;
use pyo3::prelude::*;

use crate::columns::Column;
use crate::decoding::{decode, decode_together, unusable, Decoded, Reader, Together};
use crate::faults::{broken, Checked, Used};
use crate::protobuf::read::{columns, read_message, Reading, Scratch};
use crate::protobuf::shape::{Member, Root};
use crate::protobuf::wire::{Input, Span};

/// The maximum number of message indexes. Protobuf's libraries support no deeper nesting of messages.
const MOST_INDEXES: i64 = 100;

/// Decodes payloads of one writer schema, given as the JSON text of its shape.
#[pyclass(module = "frazil_native", frozen)]
pub struct ProtobufDecoder {
    root: Root,
    schema: Arc<Schema>,
}

#[pymethods]
impl ProtobufDecoder {
    #[new]
    fn new(shape: &str) -> PyResult<Self> {
        let root: Root = serde_json::from_str(shape).map_err(unusable)?;
        let schema = Arc::new(Schema::new(root.message.fields.iter().map(Member::field).collect::<Vec<_>>()));
        Ok(Self { root, schema })
    }

    /// Return the rows, the rejects, and how many timestamps lost nanoseconds.
    fn decode<'py>(&self, py: Python<'py>, payloads: &Bound<'py, PyAny>, skip: usize) -> PyResult<Decoded<'py>> {
        decode(py, &self.root, &self.schema, payloads, skip)
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
        let each: Vec<_> = decoders.iter().map(|each| (&each.get().root, &each.get().schema)).collect();
        decode_together(py, &each, payloads, together, skip)
    }
}

impl Reader for Root {
    type Field<'s> = Reading<'s>;
    type Scratch = Scratch;

    fn columns<'s>(&'s self, capacity: usize) -> Vec<Column<'s, Reading<'s>>> {
        columns(&self.message, capacity)
    }

    fn read<'s>(
        &'s self,
        columns: &mut [Column<'s, Reading<'s>>],
        scratch: &mut Scratch,
        payload: &[u8],
        used: &mut Used,
    ) -> Checked {
        let mut input = Input::new(payload, used);
        let start = self.read_path(&input)?;
        read_message(&self.message, columns, scratch, &[Span { start, end: payload.len() }], &mut input)
    }
}

impl Root {
    /// Check which message of the file the payload is, and return where it begins.
    #[inline]
    fn read_path(&self, input: &Input) -> Checked<usize> {
        if input.data.first() == Some(&0) && self.path == [0] {
            return Ok(1);
        }
        let (path, start) = path(input)?;
        if path == self.path {
            return Ok(start);
        }
        let name = |path: &[i32]| self.names.iter().find(|(each, _)| each == path).map(|(_, name)| name.as_str());
        match (name(&path), name(&self.path)) {
            (Some(found), Some(expected)) => {
                broken("wrong_message", || format!("the record is a {found}, expected a {expected}"))
            }
            _ => broken("bad_index", || format!("the schema has no message with the index path {path:?}")),
        }
    }
}

/// Read the message indexes: how many there are, then each. A single 0 is the first message of the file.
fn path(input: &Input) -> Checked<(Vec<i32>, usize)> {
    let (count, mut at) = index(input, 0)?;
    if !(0..=MOST_INDEXES).contains(&i64::from(count)) {
        return broken("bad_index", || format!("expected at most {MOST_INDEXES} message indexes, found {count}"));
    }
    if count == 0 {
        return Ok((vec![0], at));
    }
    let mut path = Vec::new();
    for _ in 0..count {
        let number;
        (number, at) = index(input, at)?;
        path.push(number);
    }
    Ok((path, at))
}

fn index(input: &Input, at: usize) -> Checked<(i32, usize)> {
    let (value, next) = input.short_varint(at, input.data.len(), "a message index")?;
    Ok(((value as u32 >> 1) as i32 ^ -((value & 1) as i32), next))
}
