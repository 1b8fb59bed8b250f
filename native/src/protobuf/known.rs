//! Messages that become one value: Google's and Confluent's types for times and decimals.

use crate::faults::{broken, unscaled, within, Checked};
use crate::protobuf::shape::Scalar;
use crate::protobuf::wire::{expect, Input, Raw, Span};

const LEAST_SECONDS: i64 = -62_135_596_800;
const MOST_SECONDS: i64 = 253_402_300_799;
const MOST_DURATION: i64 = 315_576_000_000;
const MOST_NANOS: i64 = 999_999_999;

/// The fields of a message, numbered from 1.
type Fields<const N: usize> = [(&'static str, Scalar); N];

const SECONDS: Fields<2> = [("seconds", Scalar::Int64), ("nanos", Scalar::Int32)];
const DATE: Fields<3> = [("year", Scalar::Int32), ("month", Scalar::Int32), ("day", Scalar::Int32)];
const TIME: Fields<4> =
    [("hours", Scalar::Int32), ("minutes", Scalar::Int32), ("seconds", Scalar::Int32), ("nanos", Scalar::Int32)];
const DECIMAL: Fields<3> = [("value", Scalar::Bytes), ("precision", Scalar::Uint32), ("scale", Scalar::Int32)];

/// Read seconds and nanos as most writers write them, in this order; any other message is read by `read_fields`.
#[inline]
fn seconds_and_nanos(parts: &[Span], input: &mut Input) -> Checked<[Raw; 2]> {
    let &[Span { start, end }] = parts else { return read_fields(SECONDS, parts, input) };
    let Some(0x08) = input.data[start..end].first() else { return read_fields(SECONDS, parts, input) };
    let (mut values, mut at) = ([Raw::default(); 2], start + 1);
    if let Ok((seconds, next)) = input.varint(at, end) {
        (values[0].bits, at) = (seconds, next);
        if at == end {
            return Ok(values);
        }
        if let (0x10, Ok((nanos, next))) = (input.data[at], input.varint(at + 1, end)) {
            if next == end {
                values[1].bits = nanos;
                return Ok(values);
            }
        }
    }
    read_fields(SECONDS, parts, input)
}

/// Read the last value of each field of a message; absent fields have their default.
pub fn read_fields<const N: usize>(fields: Fields<N>, parts: &[Span], input: &mut Input) -> Checked<[Raw; N]> {
    let mut values = [Raw::default(); N];
    input.enter()?;
    for part in parts {
        let mut at = part.start;
        while at < part.end {
            let (tag, next) = input.tag(at, part.end)?;
            let number = tag.number();
            let Some((name, scalar)) = fields.get(number as usize - 1) else {
                at = input.skip(tag, next, part.end)?;
                continue;
            };
            let read = expect(tag.wire(), scalar.wire()).and_then(|()| input.scalar(*scalar, next, part.end));
            (values[number as usize - 1], at) = read.map_err(|fault| fault.inside(name))?;
        }
    }
    input.leave();
    Ok(values)
}

fn ranged(value: i64, least: i64, most: i64, name: &str) -> Checked<i64> {
    within(value, least, most, "value").map_err(|fault| fault.inside(name))
}

fn int(raw: Raw) -> i64 {
    i64::from(raw.bits as i32)
}

/// Return the microseconds of a time with nanoseconds, which are cut and counted.
fn micros(seconds: i64, nanos: i64, input: &mut Input) -> i64 {
    input.used.truncated_nanos += u64::from(nanos % 1000 != 0);
    seconds * 1_000_000 + nanos / 1000
}

pub fn timestamp(parts: &[Span], input: &mut Input) -> Checked<i64> {
    let [seconds, nanos] = seconds_and_nanos(parts, input)?;
    let seconds = ranged(seconds.bits as i64, LEAST_SECONDS, MOST_SECONDS, "seconds")?;
    let nanos = ranged(int(nanos), 0, MOST_NANOS, "nanos")?;
    Ok(micros(seconds, nanos, input))
}

pub fn duration(parts: &[Span], input: &mut Input) -> Checked<i64> {
    let [seconds, nanos] = seconds_and_nanos(parts, input)?;
    let seconds = ranged(seconds.bits as i64, -MOST_DURATION, MOST_DURATION, "seconds")?;
    let nanos = ranged(int(nanos), -MOST_NANOS, MOST_NANOS, "nanos")?;
    if seconds.signum() * nanos.signum() < 0 {
        return broken("out_of_range", || format!("{seconds} seconds and {nanos} nanos have different signs"));
    }
    Ok(micros(seconds, nanos, input))
}

/// Return the days since 1970-01-01 in the proleptic Gregorian calendar.
pub fn date(parts: &[Span], input: &mut Input) -> Checked<i32> {
    let [year, month, day] = read_fields(DATE, parts, input)?;
    let year = ranged(int(year), 1, 9999, "year")?;
    let month = ranged(int(month), 1, 12, "month")?;
    let day = ranged(int(day), 1, days_in(year, month), "day")?;
    // years begin in March, so that a leap day is a year's last
    let (from_march, of_year) = ((month + 9) % 12, year - i64::from(month < 3));
    let days = 365 * of_year + of_year / 4 - of_year / 100 + of_year / 400 + (153 * from_march + 2) / 5 + day - 1;
    Ok((days - 719_468) as i32)
}

fn days_in(year: i64, month: i64) -> i64 {
    let is_leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    match month {
        2 => 28 + i64::from(is_leap),
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

pub fn time_of_day(parts: &[Span], input: &mut Input) -> Checked<i64> {
    let [hours, minutes, seconds, nanos] = read_fields(TIME, parts, input)?;
    let hours = ranged(int(hours), 0, 23, "hours")?;
    let minutes = ranged(int(minutes), 0, 59, "minutes")?;
    let seconds = ranged(int(seconds), 0, 59, "seconds")?;
    let nanos = ranged(int(nanos), 0, MOST_NANOS, "nanos")?;
    Ok(micros(3600 * hours + 60 * minutes + seconds, nanos, input))
}

/// Return the digits of a decimal at the column's scale. Each record has a scale of its own.
pub fn decimal(precision: u8, scale: i8, parts: &[Span], input: &mut Input) -> Checked<i128> {
    let [value, _, given] = read_fields(DECIMAL, parts, input)?;
    let digits = input.bytes(value.span());
    if digits.is_empty() {
        return broken("out_of_range", || "expected a decimal of at least 1 byte, found 0".to_string());
    }
    let exact = unscaled(digits).map(|value| rescaled(value, i64::from(scale) - int(given)));
    match exact {
        Some(Some(None)) => {
            broken("out_of_range", || format!("the decimal has digits below the scale of {scale}"))
        }
        Some(Some(Some(value))) if value.unsigned_abs() < 10u128.pow(precision.into()) => Ok(value),
        _ => broken("out_of_range", || format!("the decimal has more digits than its precision of {precision}")),
    }
}

/// Multiply by a power of ten. None: too large; Some(None): digits would be lost.
fn rescaled(value: i128, shift: i64) -> Option<Option<i128>> {
    if value == 0 {
        return Some(Some(0));
    }
    let power = u32::try_from(shift.unsigned_abs()).ok().and_then(|shift| 10i128.checked_pow(shift));
    match power {
        Some(power) if shift >= 0 => value.checked_mul(power).map(Some),
        Some(power) => Some((value % power == 0).then(|| value / power)),
        None if shift >= 0 => None,
        None => Some(None),
    }
}
