//! Numbers of variable length, eight bytes at a time.

/// The bits of a byte that say whether another byte follows, in each of eight bytes.
const MORE: u64 = 0x8080_8080_8080_8080;

/// Return the number and what follows it; None if it takes more than eight bytes, breaks a rule, or is that near the
/// end of the payload.
#[inline]
pub fn long(rest: &[u8]) -> Option<(i64, &[u8])> {
    match rest {
        [byte, rest @ ..] if *byte < 0x80 => Some((unsigned_to_signed(u64::from(*byte)), rest)),
        _ => {
            let (value, rest) = eight(rest)?;
            Some((unsigned_to_signed(value), rest))
        }
    }
}

/// The same, before the sign is taken from the last bit.
#[inline]
pub fn eight(rest: &[u8]) -> Option<(u64, &[u8])> {
    let word = u64::from_le_bytes(*rest.first_chunk::<8>()?);
    let ends = !word & MORE;
    if ends == 0 {
        return None;
    }
    let bits = ends.trailing_zeros() + 1;
    Some((joined(word & (u64::MAX >> (64 - bits))), &rest[(bits / 8) as usize..]))
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
pub fn unsigned_to_signed(value: u64) -> i64 {
    (value >> 1) as i64 ^ -((value & 1) as i64)
}
