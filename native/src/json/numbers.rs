//! Numbers of JSON as values of columns: never through a float where the column is exact.

use crate::faults::{broken, Checked, MICROS_A_DAY};

const MOST_EXPONENT: i64 = 1_000_000_000_000_000_000;
/// Longer numbers are refused by every column.
const MOST_DIGITS: i64 = 38;
const MOST_MILLIS: i64 = i64::MAX / 1000;

/// A number times a power of ten.
pub enum Scaled {
    Whole(i128),
    Fraction,
    TooLarge,
}

/// Return the number times 10 to the power of `scale`. The text is a number of JSON.
pub fn scaled(text: &[u8], scale: i64) -> Scaled {
    let mut digits = Vec::new();
    let (mut fraction, mut exponent, mut in_fraction) = (0i64, 0i64, false);
    for (at, byte) in text.iter().enumerate() {
        match byte {
            b'0'..=b'9' => {
                fraction += i64::from(in_fraction);
                if *byte != b'0' || !digits.is_empty() {
                    digits.push(*byte);
                }
            }
            b'.' => in_fraction = true,
            b'e' | b'E' => {
                exponent = power(&text[at + 1..]);
                break;
            }
            _ => {}
        }
    }
    let significant = digits.len();
    while digits.last() == Some(&b'0') {
        digits.pop();
    }
    let zeros = exponent - fraction + (significant - digits.len()) as i64 + scale;
    if digits.is_empty() {
        return Scaled::Whole(0);
    }
    if zeros < 0 {
        return Scaled::Fraction;
    }
    if digits.len() as i64 + zeros > MOST_DIGITS {
        return Scaled::TooLarge;
    }
    let value = digits.iter().fold(0i128, |value, digit| value * 10 + i128::from(digit - b'0'));
    let value = value * 10i128.pow(zeros as u32);
    Scaled::Whole(if text[0] == b'-' { -value } else { value })
}

fn power(exponent: &[u8]) -> i64 {
    let digits = exponent.iter().filter(|byte| byte.is_ascii_digit()).map(|digit| i64::from(digit - b'0'));
    let power = digits.fold(0i64, |power, digit| MOST_EXPONENT.min(power.saturating_mul(10).saturating_add(digit)));
    if exponent.first() == Some(&b'-') { -power } else { power }
}

/// Return an integer of so many bits. `whole`: a fraction or an exponent is accepted if the number has no fraction.
pub fn integer(text: &[u8], bits: u32, whole: bool) -> Checked<i64> {
    let is_plain = text.iter().all(|byte| byte.is_ascii_digit() || *byte == b'-');
    if !is_plain && !whole {
        return broken("wrong_type", || {
            "expected an integer, found a number with a fraction or an exponent".to_string()
        });
    }
    let most = (1i128 << (bits - 1)) - 1;
    match scaled(text, 0) {
        Scaled::Whole(value) if (-most - 1..=most).contains(&value) => Ok(value as i64),
        Scaled::Fraction => broken("wrong_type", || "expected an integer, found a number with a fraction".to_string()),
        _ => broken("out_of_range", || format!("the integer has more than {bits} bits")),
    }
}

/// Return the nearest double, which may be infinite.
pub fn nearest(text: &[u8]) -> f64 {
    std::str::from_utf8(text).ok().and_then(|text| text.parse().ok()).unwrap_or(f64::INFINITY)
}

pub fn double(value: f64) -> Checked<f64> {
    if value.is_infinite() {
        return broken("out_of_range", || "the number is larger than any double".to_string());
    }
    Ok(value)
}

/// Return the nearest float of the nearest double.
pub fn single(value: f64) -> Checked<f32> {
    let single = value as f32;
    if single.is_infinite() {
        return broken("out_of_range", || "the number is larger than any float".to_string());
    }
    Ok(single)
}

pub fn decimal(text: &[u8], precision: u8, scale: i8) -> Checked<i128> {
    match scaled(text, scale.into()) {
        Scaled::Whole(value) if fits(value, precision) => Ok(value),
        _ => too_precise(precision, scale),
    }
}

pub fn fits(unscaled: i128, precision: u8) -> bool {
    unscaled.unsigned_abs() < 10u128.pow(precision.into())
}

pub fn too_precise<T>(precision: u8, scale: i8) -> Checked<T> {
    broken("out_of_range", || format!("the number has more digits than decimal({precision}, {scale})"))
}

/// Return the microseconds of a time of day in milliseconds.
pub fn time_of_millis(value: i64) -> Checked<i64> {
    if (0..MICROS_A_DAY / 1000).contains(&value) {
        return Ok(value * 1000);
    }
    broken("out_of_range", || "expected the milliseconds of a time of day".to_string())
}

/// Return the microseconds of a timestamp in milliseconds.
pub fn timestamp_of_millis(value: i64) -> Checked<i64> {
    if (-MOST_MILLIS..=MOST_MILLIS).contains(&value) {
        return Ok(value * 1000);
    }
    broken("out_of_range", || "the timestamp has more than 64 bits in microseconds".to_string())
}
