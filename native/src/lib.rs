//! A fast decoder from Avro payloads to Arrow. `jobs/frazil/formats/avro/` has a slower implementation in Python.

use pyo3::prelude::*;

mod columns;
mod decoder;
mod rules;
mod shape;

#[pymodule]
fn frazil_native(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<decoder::AvroDecoder>()
}
