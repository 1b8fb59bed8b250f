//! Protobuf payloads become columns by the rules of the wire format.
//!
//! `jobs/frazil/formats/protobuf/` implements the same rules and gives the same error messages; tests compare both.

mod decoder;
mod known;
mod read;
mod shape;
mod wire;

pub use decoder::ProtobufDecoder;
