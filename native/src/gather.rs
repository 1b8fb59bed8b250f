//! Rows of several decoders become one array per column, in the order of the payloads.

use arrow_array::{make_array, new_null_array, Array, ArrayRef};
use arrow_buffer::{ArrowNativeType, BooleanBuffer, Buffer, NullBuffer};
use arrow_data::ArrayData;
use arrow_schema::{ArrowError, DataType};
use arrow_select::interleave::interleave;

/// Where a row is: the number of its source, and its place there.
pub type Place = (u32, u32);
/// In place of a place for what is no row.
pub const NOWHERE: Place = (u32::MAX, u32::MAX);

/// Bytes that are copied at once of a short text: a copy of a known length takes a fraction of the time.
const SHORT: usize = 32;

/// Return the values at these places of the sources, which have the same type. A source without the column has nulls.
pub fn gather(sources: &[Option<&ArrayData>], data_type: &DataType, places: &[Place]) -> Result<ArrayRef, ArrowError> {
    if let [Some(only)] = sources {
        return Ok(make_array((*only).clone()));
    }
    let buffers = match data_type {
        DataType::Boolean => vec![bits(&each(sources, |source| source.buffers()[0].as_slice()), places).into_inner()],
        DataType::Int32 | DataType::Float32 | DataType::Date32 => vec![numbers::<i32>(sources, places)],
        DataType::Int64 | DataType::Float64 | DataType::Time64(_) | DataType::Timestamp(..) => {
            vec![numbers::<i64>(sources, places)]
        }
        DataType::Decimal128(..) => vec![numbers::<i128>(sources, places)],
        DataType::LargeUtf8 | DataType::LargeBinary => texts(sources, places),
        _ => return others(sources, data_type, places),
    };
    let built = ArrayData::builder(data_type.clone()).len(places.len()).buffers(buffers).nulls(nulls(sources, places));
    // SAFETY: the values are those of valid arrays, texts are copied whole, and there is one for each place.
    Ok(make_array(unsafe { built.build_unchecked() }))
}

/// Return the values of each source; none where it lacks the column.
fn each<'a, T>(sources: &[Option<&'a ArrayData>], values: impl Fn(&'a ArrayData) -> T) -> Vec<Option<T>> {
    sources.iter().map(|source| source.map(&values)).collect()
}

fn nulls(sources: &[Option<&ArrayData>], places: &[Place]) -> Option<NullBuffer> {
    if sources.iter().all(|source| source.is_some_and(|source| source.null_count() == 0)) {
        return None;
    }
    let all = vec![0xff; places.len() / 8 + 1];
    let valid = each(sources, |source| source.nulls().map_or(all.as_slice(), NullBuffer::validity));
    Some(NullBuffer::new(bits(&valid, places)))
}

/// Gather bits. A decoder's arrays begin with the first bit of their buffers.
fn bits(sources: &[Option<&[u8]>], places: &[Place]) -> BooleanBuffer {
    let from: Vec<&[u8]> = sources.iter().map(|source| source.unwrap_or_default()).collect();
    BooleanBuffer::collect_bool(places.len(), |row| {
        let (source, place) = places[row];
        from[source as usize].get(place as usize / 8).is_some_and(|bits| bits >> (place % 8) & 1 == 1)
    })
}

fn numbers<T: ArrowNativeType>(sources: &[Option<&ArrayData>], places: &[Place]) -> Buffer {
    let from = each(sources, |source| source.buffer::<T>(0));
    let number = |(source, place): &Place| from[*source as usize].map_or(T::default(), |from| from[*place as usize]);
    Buffer::from_vec(places.iter().map(number).collect::<Vec<T>>())
}

fn texts(sources: &[Option<&ArrayData>], places: &[Place]) -> Vec<Buffer> {
    let from = each(sources, |source| (source.buffer::<i64>(0), source.buffers()[1].as_slice()));
    let from: Vec<(&[i64], &[u8])> = from.into_iter().map(|source| source.unwrap_or((&[], &[]))).collect();
    let size = from.iter().map(|(_, bytes)| bytes.len()).sum::<usize>();
    let (mut ends, mut bytes) = (Vec::with_capacity(places.len() + 1), vec![0u8; size + SHORT]);
    let mut end = 0;
    ends.push(0i64);
    for (source, place) in places {
        let (from_ends, data) = from[*source as usize];
        if let Some(&[first, last]) = from_ends.get(*place as usize..*place as usize + 2) {
            let (first, last) = (first as usize, last as usize);
            match data.get(first..first + SHORT).filter(|_| last - first <= SHORT) {
                Some(short) => bytes[end..end + SHORT].copy_from_slice(short),
                None => bytes[end..end + last - first].copy_from_slice(&data[first..last]),
            }
            end += last - first;
        }
        ends.push(end as i64);
    }
    bytes.truncate(end);
    vec![Buffer::from_vec(ends), Buffer::from_vec(bytes)]
}

fn others(sources: &[Option<&ArrayData>], data_type: &DataType, places: &[Place]) -> Result<ArrayRef, ArrowError> {
    let array = |source: &Option<&ArrayData>| {
        source.map_or_else(|| new_null_array(data_type, 1), |source| make_array(source.clone()))
    };
    let arrays: Vec<_> = sources.iter().map(array).collect();
    let place = |(source, place): &Place| {
        (*source as usize, if sources[*source as usize].is_some() { *place as usize } else { 0 })
    };
    interleave(
        &arrays.iter().map(|each| each as &dyn Array).collect::<Vec<_>>(),
        &places.iter().map(place).collect::<Vec<_>>(),
    )
}
