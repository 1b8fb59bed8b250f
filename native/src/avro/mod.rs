//! Avro payloads become columns by the rules of the specification.

mod decoder;
mod read;
mod rules;
mod shape;
mod skip;
mod varint;

pub use decoder::AvroDecoder;
