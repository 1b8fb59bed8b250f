//! Numbers of variable length, eight bytes at a time.

/// The bits of a byte that say whether another byte follows, in each of eight bytes.
const MORE: u64 = 0x8080_8080_8080_8080;

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
    let word = u64::from_le_bytes(*eight);
    let ends = !word & MORE;
    if ends == 0 {
        return match &rest[8..] {
            [last, rest @ ..] if *last < 0x80 => Some((joined(word) | u64::from(*last) << 56, rest)),
            [ninth, last @ (0 | 1), rest @ ..] => {
                Some((joined(word) | u64::from(*ninth & 0x7F) << 56 | u64::from(*last) << 63, rest))
            }
            _ => None,
        };
    }
    let bits = ends.trailing_zeros() + 1;
    Some((joined(word & (u64::MAX >> (64 - bits))), &rest[(bits / 8) as usize..]))
}

/// Read a number where fewer than eight bytes are left.
fn near_the_end(rest: &[u8]) -> Option<(u64, &[u8])> {
    let last = rest.iter().position(|byte| *byte < 0x80)?;
    let (bytes, rest) = rest.split_at(last + 1);
    let value = bytes.iter().rev().fold(0, |value, byte| value << 7 | u64::from(byte & 0x7F));
    Some((value, rest))
}

/// Join the lower seven bits of each byte.
#[inline]
fn joined(word: u64) -> u64 {
    let word = word & !MORE;
    let word = (word & 0x7F00_7F00_7F00_7F00) >> 1 | word & 0x007F_007F_007F_007F;
    let word = (word & 0xFFFF_0000_FFFF_0000) >> 2 | word & 0x0000_FFFF_0000_FFFF;
    (word & 0xFFFF_FFFF_0000_0000) >> 4 | word & 0x0000_0000_FFFF_FFFF
}

/// Avro's zigzag encoding: the last bit is the sign.
#[inline]
pub fn signed(value: u64) -> i64 {
    (value >> 1) as i64 ^ -((value & 1) as i64)
}
