//! Keyed hashes of texts and bytes, for columns that a table spec masks (`jobs/frazil/formats/masks/hashes.py`).

use std::sync::Arc;

use arrow_array::{make_array, Array, LargeBinaryArray, LargeStringArray};
use arrow_buffer::{Buffer, OffsetBuffer, ScalarBuffer};
use arrow_data::ArrayData;
use arrow_pyarrow::{FromPyArrow, ToPyArrow};
use pyo3::prelude::*;
use sha2::digest::generic_array::GenericArray;
use sha2::{compress256, Digest, Sha256};

use crate::decoding::unusable;
use crate::sha256_lanes::{self, LANES};
use crate::sha256_pairs;

/// Bytes of a hash that are kept: half of it, the least that RFC 2104 recommends.
const KEPT: usize = 16;
const DIGITS_OF_HASH: usize = 2 * KEPT;
type Digits = [u8; DIGITS_OF_HASH];
/// The two digits of each byte.
const DIGITS: [[u8; 2]; 256] = digits_of_bytes();

const BLOCK: usize = 64;
/// Values of at most so many bytes fit in one block with the bit and the length after them.
pub const MOST_IN_ONE_BLOCK: usize = BLOCK - 9;
/// How many short values wait to be hashed together.
const MOST_WAITING: usize = 16 * LANES;
/// The initial state of SHA-256 (FIPS 180-4, 5.3.3).
const INITIAL: [u32; 8] =
    [0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19];

/// Return the hash of each value as 32 hexadecimal digits: the first half of its HMAC-SHA-256 (RFC 2104). Null is null.
#[pyfunction]
pub fn keyed_hashes<'py>(py: Python<'py>, values: &Bound<'py, PyAny>, key: &[u8]) -> PyResult<Bound<'py, PyAny>> {
    let given = make_array(ArrayData::from_pyarrow_bound(values)?);
    let values = given.as_any().downcast_ref::<LargeBinaryArray>();
    let values = values.ok_or_else(|| unusable(format!("values are large_binary, not {}", given.data_type())))?;
    py.detach(|| hashes(values, &Keyed::new(key))).to_data().to_pyarrow(py)
}

fn hashes(values: &LargeBinaryArray, keyed: &Keyed) -> Arc<dyn Array> {
    let mut ends = Vec::with_capacity(values.len() + 1);
    ends.push(0);
    ends.extend((0..values.len()).scan(0, |end, index| {
        *end += if values.is_valid(index) { DIGITS_OF_HASH as i64 } else { 0 };
        Some(*end)
    }));
    let digits = keyed.digits_of_all(values.iter().flatten(), values.len() - values.null_count());
    let offsets = OffsetBuffer::new(ScalarBuffer::from(ends));
    Arc::new(LargeStringArray::new(offsets, Buffer::from_vec(digits.into_flattened()), values.nulls().cloned()))
}

fn in_digits(hash: &[u32; 8]) -> Digits {
    let mut digits = [0; DIGITS_OF_HASH];
    for (two, byte) in digits.chunks_exact_mut(2).zip(in_bytes(*hash)) {
        two.copy_from_slice(&DIGITS[usize::from(byte)]);
    }
    digits
}

const fn digits_of_bytes() -> [[u8; 2]; 256] {
    let (each, mut found, mut byte) = (b"0123456789abcdef", [[0; 2]; 256], 0);
    while byte < 256 {
        found[byte] = [each[byte >> 4], each[byte & 15]];
        byte += 1;
    }
    found
}

/// HMAC-SHA-256 after the blocks that depend on the key only, which are the same for all values.
struct Keyed {
    inner: [u32; 8],
    outer: [u32; 8],
}

impl Keyed {
    fn new(key: &[u8]) -> Self {
        let mut block = [0; BLOCK];
        if key.len() <= BLOCK {
            block[..key.len()].copy_from_slice(key);
        } else {
            block[..32].copy_from_slice(&Sha256::digest(key));
        }
        Keyed { inner: after(INITIAL, &block.map(|byte| byte ^ 0x36)), outer: after(INITIAL, &block.map(|byte| byte ^ 0x5c)) }
    }

    /// Return the digits of the hashes of `count` values. Several short values at once take less time than one after the
    /// other. Few of them wait at a time: memory for all would take longer to get than their hashes.
    fn digits_of_all<'v>(&self, values: impl Iterator<Item = &'v [u8]>, count: usize) -> Vec<Digits> {
        let mut digits = vec![[0; DIGITS_OF_HASH]; count];
        let mut short = Vec::with_capacity(MOST_WAITING);
        for (place, value) in values.enumerate() {
            if value.len() > MOST_IN_ONE_BLOCK {
                digits[place] = in_digits(&self.hash(value));
                continue;
            }
            short.push((place, value));
            if short.len() == MOST_WAITING {
                self.hash_short(&short, &mut digits);
                short.clear();
            }
        }
        self.hash_short(&short, &mut digits);
        digits
    }

    /// Hash values that fit in one block each, and put the digits in their places.
    fn hash_short(&self, short: &[(usize, &[u8])], digits: &mut [Digits]) {
        let (sixteens, rest) = if sha256_lanes::is_available() { short.as_chunks::<LANES>() } else { (&[][..], short) };
        for values in sixteens {
            let found = sha256_lanes::digits(&self.inner, &self.outer, &values.map(|(_, value)| value));
            values.iter().zip(found).for_each(|((place, _), found)| digits[*place] = found);
        }
        let (pairs, rest) = if sha256_pairs::is_available() { rest.as_chunks::<2>() } else { (&[][..], rest) };
        for &[(one, first), (other, second)] in pairs {
            [digits[one], digits[other]] = self.digits_of_two([first, second]);
        }
        rest.iter().for_each(|(place, value)| digits[*place] = in_digits(&self.hash(value)));
    }

    /// Return the digits of two values that fit in one block each.
    fn digits_of_two(&self, values: [&[u8]; 2]) -> [Digits; 2] {
        sha256_pairs::digits(&self.inner, &self.outer, &values.map(|value| last_block(value, BLOCK + value.len())))
    }

    fn hash(&self, value: &[u8]) -> [u32; 8] {
        let mut state = self.inner;
        let whole = value.chunks_exact(BLOCK);
        let rest = whole.remainder();
        for block in whole {
            state = after(state, block.try_into().expect("a whole block"));
        }
        state = ended(state, rest, BLOCK + value.len());
        ended(self.outer, &in_bytes(state), BLOCK + 32)
    }
}

fn in_bytes(state: [u32; 8]) -> [u8; 32] {
    let mut bytes = [0; 32];
    for (four, word) in bytes.chunks_exact_mut(4).zip(state) {
        four.copy_from_slice(&word.to_be_bytes());
    }
    bytes
}

/// The last block of a message of `length` bytes, of which `rest` are in this block.
fn last_block(rest: &[u8], length: usize) -> [u8; BLOCK] {
    let mut block = [0; BLOCK];
    block[..rest.len()].copy_from_slice(rest);
    block[rest.len()] = 0x80;
    block[BLOCK - 8..].copy_from_slice(&(8 * length as u64).to_be_bytes());
    block
}

/// The state after the last bytes of a message of `length` bytes, of which `rest` are less than a block.
fn ended(mut state: [u32; 8], rest: &[u8], length: usize) -> [u32; 8] {
    if rest.len() <= MOST_IN_ONE_BLOCK {
        return after(state, &last_block(rest, length));
    }
    let mut block = [0; BLOCK];
    block[..rest.len()].copy_from_slice(rest);
    block[rest.len()] = 0x80;
    state = after(state, &block);
    block = [0; BLOCK];
    block[BLOCK - 8..].copy_from_slice(&(8 * length as u64).to_be_bytes());
    after(state, &block)
}

fn after(mut state: [u32; 8], block: &[u8; BLOCK]) -> [u32; 8] {
    compress256(&mut state, std::slice::from_ref(GenericArray::from_slice(block)));
    state
}
