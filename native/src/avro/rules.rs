//! Read a payload as values of its schema, exactly as the Avro 1.12 specification defines them.
//!
//! `jobs/frazil/formats/avro/rules.py` implements the same rules and gives the same error messages; tests compare both.

use crate::avro::shape::Item;
use crate::avro::skip::Steps;
use crate::avro::varint;
use crate::faults::{broken, counted, unscaled, utf8, Checked, Used};

pub const MOST_MILLIS: i64 = i64::MAX / 1000;
/// The maximum number of items per payload that take no bytes. They cost a producer nothing, so the limit is lower.
const MOST_EMPTY_ITEMS: u64 = 1 << 12;

fn check_block(count: u64, size: Option<i64>, least: u64, left: usize) -> Checked {
    if let Some(size) = size.filter(|size| *size < 0 || *size as u64 > left as u64) {
        return bad_length("block", size, left);
    }
    if count.saturating_mul(least) > left as u64 {
        return broken("bad_length", || {
            let (items, remaining) = (counted(count, "item"), counted(left as u64, "byte"));
            format!("the block has {items}, but the payload has {remaining} left")
        });
    }
    Ok(())
}

/// The fault of a length in bytes that is negative or more than the `left` bytes of the payload.
fn bad_length<T>(what: &str, length: i64, left: usize) -> Checked<T> {
    broken("bad_length", || match length {
        ..0 => format!("the length of the {what} is negative: {length}"),
        _ => format!("the {what} is {} long, but the payload has {left} left", counted(length, "byte")),
    })
}

/// The unread rest of a payload, with readers for the primitive types.
pub struct Bytes<'a> {
    rest: &'a [u8],
    pub used: &'a mut Used,
    empty_items: u64,
}

impl<'a> Bytes<'a> {
    pub fn new(payload: &'a [u8], used: &'a mut Used) -> Self {
        Self { rest: payload, used, empty_items: 0 }
    }

    pub fn end(&self) -> Checked {
        if self.rest.is_empty() {
            return Ok(());
        }
        broken("trailing_bytes", || {
            format!("expected the end of the payload, found {}", counted(self.rest.len() as u64, "more byte"))
        })
    }

    /// Read an array or a map: blocks of items, ended by an empty block.
    pub fn blocks(&mut self, item: &Item, mut read: impl FnMut(&mut Self) -> Checked) -> Checked {
        loop {
            let count = self.long()?;
            if count == 0 {
                return Ok(());
            }
            let size = if count < 0 { Some(self.long()?) } else { None };
            let count = count.unsigned_abs();
            let left = self.rest.len();
            check_block(count, size, item.least, left)?;
            self.reserve(count, item)?;
            for _ in 0..count {
                read(self)?;
            }
            let taken = (left - self.rest.len()) as i64;
            if let Some(size) = size.filter(|size| *size != taken) {
                return broken("bad_length", || {
                    format!("the block is said to be {} long, but its items take {taken}", counted(size, "byte"))
                });
            }
        }
    }

    fn reserve(&mut self, items: u64, item: &Item) -> Checked {
        if item.least == 0 {
            self.empty_items = self.empty_items.saturating_add(items);
        }
        if self.empty_items > MOST_EMPTY_ITEMS {
            return broken("too_large", || {
                format!("the payload has more than {MOST_EMPTY_ITEMS} items that take no bytes")
            });
        }
        self.used.reserve(items.saturating_mul(item.slots))
    }

    #[inline]
    pub fn array<const SIZE: usize>(&mut self) -> Checked<[u8; SIZE]> {
        let mut taken = [0; SIZE];
        taken.copy_from_slice(self.take(SIZE)?);
        Ok(taken)
    }

    #[inline]
    pub fn take(&mut self, count: usize) -> Checked<&'a [u8]> {
        match self.rest.split_at_checked(count) {
            Some((taken, rest)) => {
                self.rest = rest;
                Ok(taken)
            }
            None => broken("truncated", || {
                format!("expected {}, found {}", counted(count as u64, "more byte"), self.rest.len())
            }),
        }
    }

    #[inline]
    pub fn boolean(&mut self) -> Checked<bool> {
        match self.take(1)?[0] {
            byte @ (0 | 1) => Ok(byte == 1),
            byte => broken("bad_boolean", || format!("expected a boolean of 0 or 1, found the byte {byte}")),
        }
    }

    #[inline]
    pub fn int(&mut self) -> Checked<i32> {
        let value = match self.rest.split_first() {
            Some((byte, rest)) if *byte < 0x80 => {
                self.rest = rest;
                u64::from(*byte)
            }
            _ => self.varint("an int", 5, 32)?,
        };
        Ok((value >> 1) as i32 ^ -((value & 1) as i32))
    }

    #[inline]
    pub fn long(&mut self) -> Checked<i64> {
        let Some((value, rest)) = varint::long(self.rest) else {
            return self.varint("a long", 10, 64).map(varint::signed);
        };
        self.rest = rest;
        Ok(value)
    }

    /// Read a timestamp in nanoseconds as microseconds.
    pub fn nanos(&mut self) -> Checked<i64> {
        let nanos = self.long()?;
        self.used.truncated_nanos += u64::from(nanos % 1000 != 0);
        Ok(nanos.div_euclid(1000))
    }

    /// Read the digits of a decimal, of which there are `size` bytes, or as many as their length says.
    pub fn decimal(&mut self, precision: u8, size: Option<usize>) -> Checked<i128> {
        let digits = match size {
            Some(size) => self.take(size)?,
            None => self.bytes()?,
        };
        if digits.is_empty() {
            return broken("out_of_range", || "expected a decimal of at least 1 byte, found 0".to_string());
        }
        match unscaled(digits) {
            Some(value) if value.unsigned_abs() < 10u128.pow(precision.into()) => Ok(value),
            _ => broken("out_of_range", || format!("the decimal has more digits than its precision of {precision}")),
        }
    }

    /// Pass over a value, if nothing about it is unusual; else stay before it.
    #[inline]
    pub fn passed(&mut self, steps: &Steps) -> bool {
        match steps.pass(self.rest) {
            Some(rest) => {
                self.rest = rest;
                true
            }
            None => false,
        }
    }

    fn varint(&mut self, name: &str, most_bytes: usize, bits: u32) -> Checked<u64> {
        let mut value = 0u64;
        for (index, byte) in self.rest.iter().take(most_bytes).enumerate() {
            value |= u64::from(byte & 0x7F) << (7 * index);
            if *byte < 0x80 {
                if index + 1 == most_bytes && u32::from(*byte) >> (bits - 7 * index as u32) != 0 {
                    return broken("bad_varint", || format!("{name} has more than {bits} bits"));
                }
                self.rest = &self.rest[index + 1..];
                return Ok(value);
            }
        }
        if self.rest.len() < most_bytes {
            return broken("truncated", || format!("the payload ends inside {name}"));
        }
        broken("bad_varint", || format!("{name} takes more than {most_bytes} bytes"))
    }

    #[inline]
    pub fn bytes(&mut self) -> Checked<&'a [u8]> {
        let length = self.long()?;
        match usize::try_from(length).ok().and_then(|length| self.rest.split_at_checked(length)) {
            Some((taken, rest)) => {
                self.rest = rest;
                Ok(taken)
            }
            None => bad_length("value", length, self.rest.len()),
        }
    }

    #[inline]
    pub fn string(&mut self) -> Checked<&'a [u8]> {
        utf8(self.bytes()?)
    }

    #[inline]
    pub fn index(&mut self, count: usize, what: &str) -> Checked<usize> {
        let index = self.int()?;
        match usize::try_from(index) {
            Ok(index) if index < count => Ok(index),
            _ => broken("bad_index", || {
                format!("expected a {what} index of at least 0 and less than {count}, found {index}")
            }),
        }
    }
}
