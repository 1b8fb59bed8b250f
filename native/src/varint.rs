//! Numbers of variable length, as Avro and Protobuf write them, eight bytes at a time.

/// The bits of eight bytes that say whether another byte follows.
const MORE: u64 = 0x8080_8080_8080_8080;

/// Return the number at the beginning of these bytes and how many it takes; None if it takes more.
#[inline]
pub fn within_eight(bytes: &[u8; 8]) -> Option<(u64, usize)> {
    let word = u64::from_le_bytes(*bytes);
    let last = !word & MORE;
    if last == 0 {
        return None;
    }
    Some((joined(word & (last ^ (last - 1))), last.trailing_zeros() as usize / 8 + 1))
}

/// Return the bits of a number that goes on after these bytes.
#[inline]
pub fn first_eight(bytes: &[u8; 8]) -> u64 {
    joined(u64::from_le_bytes(*bytes))
}

/// Join the 7 low bits of each byte.
#[inline]
fn joined(bytes: u64) -> u64 {
    let pairs = (bytes & 0x007F_007F_007F_007F) | (bytes & 0x7F00_7F00_7F00_7F00) >> 1;
    let fours = (pairs & 0x0000_3FFF_0000_3FFF) | (pairs & 0x3FFF_0000_3FFF_0000) >> 2;
    (fours & 0x0FFF_FFFF) | (fours & 0x0FFF_FFFF_0000_0000) >> 4
}
