//! Frazil's fast path from Avro payloads to Arrow. `jobs/frazil/formats/avro/` has a slow twin of everything here.

use pyo3::prelude::*;

mod columns;
mod decoder;
mod framing;
mod rules;
mod shape;

#[pymodule]
fn frazil_native(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<decoder::AvroDecoder>()?;
    module.add_function(wrap_pyfunction!(framing::schema_ids, module)?)
}
