//! JSON payloads become columns by the rules of RFC 8259, and RFC 3339 for dates and times.
//!
//! `jobs/frazil/formats/json_values/` implements the same rules and gives the same error messages; tests compare both.

mod check;
mod decoder;
mod numbers;
mod read;
mod shape;
mod strings;
mod texts;
mod walk;

pub use check::json_suspects;
pub use decoder::JsonDecoder;
