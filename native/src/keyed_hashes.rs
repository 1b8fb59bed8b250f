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

/// Bytes of a hash that are kept: half of it, the least that RFC 2104 recommends.
const KEPT: usize = 16;
const DIGITS: &[u8; 16] = b"0123456789abcdef";

const BLOCK: usize = 64;
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
    let (mut texts, mut ends) = (Vec::with_capacity(values.len() * 2 * KEPT), Vec::with_capacity(values.len() + 1));
    ends.push(0);
    for index in 0..values.len() {
        if values.is_valid(index) {
            texts.extend_from_slice(&in_digits(&keyed.hash(values.value(index))));
        }
        ends.push(texts.len() as i64);
    }
    let offsets = OffsetBuffer::new(ScalarBuffer::from(ends));
    Arc::new(LargeStringArray::new(offsets, Buffer::from_vec(texts), values.nulls().cloned()))
}

fn in_digits(hash: &[u32; 8]) -> [u8; 2 * KEPT] {
    let mut digits = [0; 2 * KEPT];
    for (place, digit) in digits.iter_mut().enumerate() {
        *digit = DIGITS[(hash[place / 8] >> (28 - place % 8 * 4) & 15) as usize];
    }
    digits
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

    fn hash(&self, value: &[u8]) -> [u32; 8] {
        let mut state = self.inner;
        let whole = value.chunks_exact(BLOCK);
        let rest = whole.remainder();
        for block in whole {
            state = after(state, block.try_into().expect("a whole block"));
        }
        state = ended(state, rest, BLOCK + value.len());
        let mut inner = [0; 32];
        for (bytes, word) in inner.chunks_exact_mut(4).zip(state) {
            bytes.copy_from_slice(&word.to_be_bytes());
        }
        ended(self.outer, &inner, BLOCK + 32)
    }
}

/// The state after the last bytes of a message of `length` bytes, of which `rest` are less than a block.
fn ended(mut state: [u32; 8], rest: &[u8], length: usize) -> [u32; 8] {
    let mut block = [0; BLOCK];
    block[..rest.len()].copy_from_slice(rest);
    block[rest.len()] = 0x80;
    if rest.len() > BLOCK - 9 {
        state = after(state, &block);
        block = [0; BLOCK];
    }
    block[BLOCK - 8..].copy_from_slice(&(8 * length as u64).to_be_bytes());
    after(state, &block)
}

fn after(mut state: [u32; 8], block: &[u8; BLOCK]) -> [u32; 8] {
    compress256(&mut state, std::slice::from_ref(GenericArray::from_slice(block)));
    state
}
