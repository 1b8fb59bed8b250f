//! Longs, which are numbers of variable length with their sign in the last bit.

use crate::varint::{first_eight, within_eight};

/// Return the number and what follows it; None if it breaks a rule.
#[inline]
pub fn long(rest: &[u8]) -> Option<(i64, &[u8])> {
    let (value, rest) = match rest {
        [byte, rest @ ..] if *byte < 0x80 => (u64::from(*byte), rest),
        _ => unsigned(rest)?,
    };
    Some((signed(value), rest))
}

/// The same before the sign is taken from the last bit.
#[inline]
fn unsigned(rest: &[u8]) -> Option<(u64, &[u8])> {
    let Some(eight) = rest.first_chunk::<8>() else { return near_the_end(rest) };
    if let Some((value, taken)) = within_eight(eight) {
        return Some((value, &rest[taken..]));
    }
    let first = first_eight(eight);
    match &rest[8..] {
        [last, rest @ ..] if *last < 0x80 => Some((first | u64::from(*last) << 56, rest)),
        [ninth, last @ (0 | 1), rest @ ..] => {
            Some((first | u64::from(*ninth & 0x7F) << 56 | u64::from(*last) << 63, rest))
        }
        _ => None,
    }
}

/// Read a number where fewer than eight bytes are left.
fn near_the_end(rest: &[u8]) -> Option<(u64, &[u8])> {
    let last = rest.iter().position(|byte| *byte < 0x80)?;
    let (bytes, rest) = rest.split_at(last + 1);
    let value = bytes.iter().rev().fold(0, |value, byte| value << 7 | u64::from(byte & 0x7F));
    Some((value, rest))
}

/// Avro's zigzag encoding: the last bit is the sign.
#[inline]
pub fn signed(value: u64) -> i64 {
    (value >> 1) as i64 ^ -((value & 1) as i64)
}
