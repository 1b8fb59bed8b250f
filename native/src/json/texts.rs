//! Texts in a format: dates and times of RFC 3339 ("Internet Date/Time Format"), base64, and decimals in it.

use crate::faults::{broken, unscaled, Checked, MICROS_A_DAY};
use crate::json::numbers::{fits, too_precise};

/// The days from 1 March of the year 0 to 1970.
const DAYS_BEFORE_1970: i64 = 719_468;
const DATE_LENGTH: usize = "2024-12-31".len();
const TIME_LENGTH: usize = "23:59:58".len();

fn bad<T>(detail: &'static str) -> Checked<T> {
    broken("bad_format", || detail.to_string())
}

/// Return the days since 1970.
pub fn date(text: &[u8]) -> Checked<i32> {
    match date_parts(text) {
        Some(parts) if text.len() == DATE_LENGTH => Ok(days(parts)? as i32),
        _ => bad("expected a date such as 2024-12-31"),
    }
}

/// Return the microseconds of the day in UTC, and whether digits below the microsecond were lost.
pub fn time(text: &[u8]) -> Checked<(i64, bool)> {
    let Some(parts) = time_parts(text) else {
        return bad("expected a time with a zone such as 23:59:58.5Z");
    };
    let (micros, is_cut) = micros(parts)?;
    Ok((micros.rem_euclid(MICROS_A_DAY), is_cut))
}

/// Return the microseconds since 1970 in UTC, and whether digits below the microsecond were lost.
#[inline]
pub fn timestamp(text: &[u8]) -> Checked<(i64, bool)> {
    let parts = date_parts(text).zip(text.get(DATE_LENGTH).filter(|byte| matches!(byte, b'T' | b't' | b' ')));
    let Some(((date, _), time)) = parts.and_then(|found| Some(found).zip(time_parts(&text[DATE_LENGTH + 1..]))) else {
        return bad("expected a date and time with a zone such as 2024-12-31T23:59:58.5Z");
    };
    let days = days(date)?;
    let (micros, is_cut) = micros(time)?;
    Ok((days * MICROS_A_DAY + micros, is_cut))
}

/// Return the number of two digits.
#[inline]
fn two(text: &[u8], at: usize) -> Option<i64> {
    let (tens, ones) = (text.get(at)?.wrapping_sub(b'0'), text.get(at + 1)?.wrapping_sub(b'0'));
    (tens < 10 && ones < 10).then(|| i64::from(tens) * 10 + i64::from(ones))
}

/// Return year, month and day of the date that the text begins with.
#[inline]
fn date_parts(text: &[u8]) -> Option<(i64, i64, i64)> {
    let (year, month, day) = (two(text, 0)? * 100 + two(text, 2)?, two(text, 5)?, two(text, 8)?);
    (text[4] == b'-' && text[7] == b'-').then_some((year, month, day))
}

fn days((year, month, day): (i64, i64, i64)) -> Checked<i64> {
    let is_leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let last = match month {
        2 if is_leap => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        1..=12 => 31,
        _ => 0,
    };
    if !(1..=last).contains(&day) {
        return bad("the date does not exist");
    }
    let year = year - i64::from(month <= 2);
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    Ok(365 * year + year.div_euclid(4) - year.div_euclid(100) + year.div_euclid(400) + day_of_year - DAYS_BEFORE_1970)
}

/// A time of day as it is written.
struct TimeParts<'a> {
    hour: i64,
    minute: i64,
    second: i64,
    fraction: &'a [u8],
    /// The sign, hours and minutes of the zone.
    zone: (i64, i64, i64),
}

/// Return the parts of a text that is a time with a zone.
#[inline]
fn time_parts(text: &[u8]) -> Option<TimeParts<'_>> {
    let (hour, minute, second) = (two(text, 0)?, two(text, 3)?, two(text, 6)?);
    if text[2] != b':' || text[5] != b':' {
        return None;
    }
    let rest = &text[TIME_LENGTH..];
    let (fraction, zone) = match rest.strip_prefix(b".") {
        Some(rest) => {
            let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
            (digits > 0).then(|| rest.split_at(digits))?
        }
        None => rest.split_at(0),
    };
    Some(TimeParts { hour, minute, second, fraction, zone: zone_parts(zone)? })
}

#[inline]
fn zone_parts(text: &[u8]) -> Option<(i64, i64, i64)> {
    match text {
        b"Z" | b"z" => Some((1, 0, 0)),
        [sign @ (b'+' | b'-'), _, _, b':', _, _] => {
            Some((if *sign == b'-' { -1 } else { 1 }, two(text, 1)?, two(text, 4)?))
        }
        _ => None,
    }
}

/// Return the microseconds since midnight in UTC, which may be of the day before or after.
fn micros(time: TimeParts) -> Checked<(i64, bool)> {
    if time.hour > 23 || time.minute > 59 || time.second > 59 {
        return bad("the time does not exist; a leap second has no time in a table");
    }
    let (sign, hours, minutes) = time.zone;
    if hours > 23 || minutes > 59 {
        return bad("the zone does not exist");
    }
    let seconds = (time.hour * 60 + time.minute) * 60 + time.second - sign * (hours * 60 + minutes) * 60;
    let digits = (0..6).map(|at| time.fraction.get(at).map_or(0, |digit| i64::from(digit - b'0')));
    let micros = digits.fold(0, |micros, digit| micros * 10 + digit);
    let is_cut = time.fraction.iter().skip(6).any(|digit| *digit != b'0');
    Ok((seconds * 1_000_000 + micros, is_cut))
}

/// Decode base64 with padding (RFC 4648, section 4).
pub fn base64(text: &[u8]) -> Checked<Vec<u8>> {
    decoded(text).map_or_else(|| bad("expected base64 with padding"), Ok)
}

fn decoded(text: &[u8]) -> Option<Vec<u8>> {
    let padding = text.iter().rev().take(2).take_while(|byte| **byte == b'=').count();
    let digits = &text[..text.len() - padding];
    let mut bytes = Vec::with_capacity(text.len() / 4 * 3);
    let (mut bits, mut count) = (0u32, 0);
    for digit in digits {
        bits = bits << 6 | value_of(*digit)?;
        count += 6;
        if count >= 8 {
            count -= 8;
            bytes.push((bits >> count) as u8);
        }
    }
    text.len().is_multiple_of(4).then_some(bytes)
}

fn value_of(digit: u8) -> Option<u32> {
    let value = match digit {
        b'A'..=b'Z' => digit - b'A',
        b'a'..=b'z' => digit - b'a' + 26,
        b'0'..=b'9' => digit - b'0' + 52,
        b'+' => 62,
        b'/' => 63,
        _ => return None,
    };
    Some(value.into())
}

/// Return the unscaled value of a decimal whose base64 is in two's complement, as Kafka Connect writes it.
pub fn decimal(text: &[u8], precision: u8, scale: i8) -> Checked<i128> {
    let Some(digits) = decoded(text) else {
        return bad("expected a number, or Kafka Connect's base64 of a decimal");
    };
    if digits.is_empty() {
        return broken("out_of_range", || "expected a decimal of at least 1 byte, found 0".to_string());
    }
    match unscaled(&digits) {
        Some(value) if fits(value, precision) => Ok(value),
        _ => too_precise(precision, scale),
    }
}
