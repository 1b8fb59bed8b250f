//! The consumer that Python uses: librdkafka's messages become one Arrow batch, without an object for each.

use std::sync::{Mutex, MutexGuard};
use std::time::{Duration, Instant};

use arrow_pyarrow::ToPyArrow;
use pyo3::exceptions::{PyRuntimeError, PyValueError};
use pyo3::prelude::*;

use crate::batch::BatchBuilder;
use crate::librdkafka::{Consumer, Failure, Happened, Library, Place, END_OF_PARTITION};

/// The first messages are few, since their size is not known.
const FIRST_STEP: usize = 16;
/// The maximum number of events that one call returns: a client without a broker has many times the same.
const MOST_EVENTS: usize = 50;

type Coded = (i32, String);
/// A topic, a partition and the offset to begin at.
type Start = (String, i32, i64);
/// Columns; the partition's end, if it was met; the code and text of an error, if one came.
type Polled<'py> = (Vec<Bound<'py, PyAny>>, Option<i64>, Option<Coded>);

fn failed(failure: Failure) -> PyErr {
    PyRuntimeError::new_err((failure.code, failure.text))
}

/// Return librdkafka's version if it can be used through `module`, which is linked with it. Raises ValueError if not.
#[pyfunction]
pub fn librdkafka_version(module: &str) -> PyResult<i32> {
    Library::open(module).map(|library| library.version).map_err(PyValueError::new_err)
}

/// A consumer of partitions. Raises ValueError if librdkafka cannot be used or refuses a setting.
///
/// The interpreter's lock is released during every call.
#[pyclass(module = "frazil_native")]
pub struct BatchConsumer {
    open: Mutex<Option<Open>>,
}

struct Open {
    consumer: Consumer,
    /// Of the last batch: about what the next one needs.
    value_bytes: usize,
}

#[pymethods]
impl BatchConsumer {
    #[new]
    fn new(py: Python<'_>, module: &str, settings: Vec<(String, String)>, takes_tokens: bool) -> PyResult<Self> {
        let library = Library::open(module).map_err(PyValueError::new_err)?;
        let started = py.detach(|| Consumer::start(&library, &settings, takes_tokens));
        let consumer = started.map_err(PyValueError::new_err)?;
        Ok(Self { open: Mutex::new(Some(Open { consumer, value_bytes: 0 })) })
    }

    /// Read these partitions, and no others.
    fn assign(&self, py: Python<'_>, starts: Vec<Start>) -> PyResult<()> {
        self.with(py, |open| open.consumer.assign(&placed(starts)).map_err(failed))
    }

    /// Read these partitions as well.
    fn add(&self, py: Python<'_>, starts: Vec<Start>) -> PyResult<()> {
        self.with(py, |open| open.consumer.add(&placed(starts)).map_err(failed))
    }

    /// Read these partitions no longer, and discard what was fetched of them.
    fn remove(&self, py: Python<'_>, places: Vec<Place>) -> PyResult<()> {
        self.with(py, |open| open.consumer.remove(&places).map_err(failed))
    }

    fn unassign(&self, py: Python<'_>) -> PyResult<()> {
        self.with(py, |open| open.consumer.unassign().map_err(failed))
    }

    /// Return the offset after the last record or control record that was passed; negative before the first.
    fn position(&self, py: Python<'_>, topic: String, partition: i32) -> PyResult<i64> {
        self.with(py, |open| open.consumer.position(&(topic, partition)).map_err(failed))
    }

    /// Take records of a partition until there are `most` of them, one reaches `most_bytes` together or the offset
    /// before `end`, the partition ends, or `wait_ms` have passed.
    #[pyo3(signature = (topic, partition, *, most, most_bytes, one_by_one, end, wait_ms))]
    #[allow(clippy::too_many_arguments)] // they are named in Python
    fn poll<'py>(
        &self,
        py: Python<'py>,
        topic: String,
        partition: i32,
        most: usize,
        most_bytes: usize,
        one_by_one: bool,
        end: i64,
        wait_ms: u64,
    ) -> PyResult<Polled<'py>> {
        let limits = Limits { most, most_bytes, one_by_one, end, wait: Duration::from_millis(wait_ms) };
        let (batch, partition_end, failure) = self.with(py, |open| open.poll(&(topic, partition), &limits))?;
        let columns = batch.finish().map_err(|problem| PyRuntimeError::new_err(problem.to_string()))?;
        let columns: PyResult<Vec<_>> = columns.iter().map(|column| column.to_pyarrow(py)).collect();
        Ok((columns?, partition_end, failure.map(|failure| (failure.code, failure.text))))
    }

    /// Return the errors that the client reported, and whether it wants a token. Returns at once.
    fn events(&self, py: Python<'_>) -> PyResult<(Vec<Coded>, bool)> {
        self.with(py, |open| {
            let (mut errors, mut token_wanted) = (Vec::new(), false);
            for _ in 0..MOST_EVENTS {
                match open.consumer.event() {
                    Some(Happened::Error(failure)) => errors.push((failure.code, failure.text)),
                    Some(Happened::TokenWanted) => token_wanted = true,
                    None => break,
                }
            }
            Ok((errors, token_wanted))
        })
    }

    /// Set the token of SASL/OAUTHBEARER, which ends at `ends_ms` since 1970. Raises ValueError if it is not one.
    fn set_token(&self, py: Python<'_>, token: &str, ends_ms: i64) -> PyResult<()> {
        self.with(py, |open| open.consumer.set_token(token, ends_ms).map_err(PyValueError::new_err))
    }

    /// Report that there is no new token: it becomes an error of the client, which asks again after some seconds.
    fn fail_token(&self, py: Python<'_>, why: &str) -> PyResult<()> {
        self.with(py, |open| {
            open.consumer.fail_token(why);
            Ok(())
        })
    }

    /// Leave the cluster, and wait until the client has ended. Later calls raise RuntimeError.
    fn close(&self, py: Python<'_>) {
        py.detach(|| drop(self.lock().take()));
    }
}

impl BatchConsumer {
    fn with<T: Send>(&self, py: Python<'_>, act: impl FnOnce(&mut Open) -> PyResult<T> + Send) -> PyResult<T> {
        py.detach(|| match self.lock().as_mut() {
            Some(open) => act(open),
            None => Err(PyRuntimeError::new_err("the consumer is closed")),
        })
    }

    fn lock(&self) -> MutexGuard<'_, Option<Open>> {
        self.open.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

fn placed(starts: Vec<Start>) -> Vec<(Place, i64)> {
    starts.into_iter().map(|(topic, partition, offset)| ((topic, partition), offset)).collect()
}

/// `PollLimits` of `partition_consumer.py`, whose `step` is the same.
struct Limits {
    most: usize,
    most_bytes: usize,
    one_by_one: bool,
    end: i64,
    wait: Duration,
}

impl Limits {
    /// How many messages to take at once: as many as fit, if the next ones are as large as those that came.
    fn step(&self, batch: &BatchBuilder) -> usize {
        let left = self.most - batch.len();
        if self.one_by_one || batch.len() == 0 {
            return left.min(if self.one_by_one { 1 } else { FIRST_STEP });
        }
        let mean = (batch.memory() / batch.len()).max(1);
        left.min((self.most_bytes - batch.memory()) / mean + 1).min(4 * batch.len())
    }

    fn reached(&self, batch: &BatchBuilder) -> bool {
        batch.len() >= self.most || batch.memory() >= self.most_bytes
    }
}

impl Open {
    fn poll(
        &mut self,
        place: &Place,
        limits: &Limits,
    ) -> PyResult<(BatchBuilder, Option<i64>, Option<Failure>)> {
        let deadline = Instant::now() + limits.wait;
        let mut batch = BatchBuilder::new(limits.most, self.value_bytes);
        let mut partition_end = None;
        let mut ended = false;
        while !ended && !limits.reached(&batch) {
            let left = deadline.saturating_duration_since(Instant::now());
            let wait_ms = left.as_millis().try_into().unwrap_or(i32::MAX);
            let messages = self.consumer.messages(place, limits.step(&batch), wait_ms).map_err(failed)?;
            for message in messages.iter() {
                if let Some(failure) = message.failure() {
                    if failure.code != END_OF_PARTITION {
                        return Ok((batch, partition_end, Some(failure)));
                    }
                    partition_end = Some(message.offset());
                    ended = true;
                    continue;
                }
                if message.partition() != place.1 {
                    return Err(other_partition(message.partition(), place.1));
                }
                ended |= message.offset() >= limits.end - 1;
                batch.add(&message);
            }
            ended |= messages.len() == 0;
        }
        self.value_bytes = batch.value_bytes();
        Ok((batch, partition_end, self.consumer.failure()))
    }
}

/// Only a librdkafka whose messages have another layout can cause this.
fn other_partition(found: i32, expected: i32) -> PyErr {
    PyRuntimeError::new_err(format!("librdkafka returned a record of partition {found}, expected {expected}"))
}
