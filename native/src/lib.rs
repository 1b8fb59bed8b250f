//! The fast paths from Kafka to Arrow, and from Avro payloads to Arrow. Both have slower implementations in Python, in
//! `jobs/frazil/adapters/kafka/` and `jobs/frazil/formats/avro/`.

use pyo3::prelude::*;

mod batch;
mod columns;
mod decoder;
mod fetch;
mod librdkafka;
mod rules;
mod shape;

#[pymodule]
fn frazil_native(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<decoder::AvroDecoder>()?;
    module.add_class::<fetch::BatchConsumer>()?;
    module.add_function(wrap_pyfunction!(fetch::librdkafka_version, module)?)
}
