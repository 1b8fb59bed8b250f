//! Avro payloads become columns by the rules of the specification, and rows become payloads.

mod decoder;
mod encode;
mod read;
mod rules;
mod shape;
mod skip;
mod varint;

pub use decoder::AvroDecoder;
pub use encode::{avro_payloads, partition_hashes};
