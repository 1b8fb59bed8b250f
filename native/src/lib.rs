//! The fast paths from Kafka to Arrow, and from payloads of the value formats to Arrow. All have slower implementations
//! in Python, in `jobs/frazil/adapters/kafka/` and `jobs/frazil/formats/`.

use pyo3::prelude::*;

mod avro;
mod batch;
mod columns;
mod decoding;
mod faults;
mod fetch;
mod framing;
mod gather;
mod identity;
mod json;
mod keyed_hashes;
mod librdkafka;
mod protobuf;
mod sha256_lanes;
mod sha256_pairs;
mod varint;

#[pymodule]
fn frazil_native(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<avro::AvroDecoder>()?;
    module.add_class::<json::JsonDecoder>()?;
    module.add_class::<protobuf::ProtobufDecoder>()?;
    module.add_class::<fetch::BatchConsumer>()?;
    module.add_function(wrap_pyfunction!(avro::avro_payloads, module)?)?;
    module.add_function(wrap_pyfunction!(avro::partition_hashes, module)?)?;
    module.add_function(wrap_pyfunction!(json::json_suspects, module)?)?;
    module.add_function(wrap_pyfunction!(framing::schema_id_groups, module)?)?;
    module.add_function(wrap_pyfunction!(identity::identities, module)?)?;
    module.add_function(wrap_pyfunction!(keyed_hashes::keyed_hashes, module)?)?;
    module.add_function(wrap_pyfunction!(fetch::librdkafka_version, module)?)
}
