//! First come, first served, in Rust, as a shared library for hpcosim (../../c/hpcosim_scheduler.h).
//!
//!     cargo build --release
//!     hpcosim run demo --scheduler target/release/libfcfs.so
//!
//! It needs no crate. Jobs of a placement other than `cores` are rejected. Modules: `msgpack`, what
//! of it the protocol needs; then the policy, the messages and the interface.

use std::collections::{HashMap, VecDeque};
use std::panic::{catch_unwind, AssertUnwindSafe};

type Result<T> = std::result::Result<T, String>;

mod msgpack {
    use super::Result;

    /// A value of a message; `Other`: of a type that no field has that matters here.
    #[derive(Debug)]
    pub enum Value<'a> {
        Int(i64),
        Text(&'a str),
        List(Vec<Value<'a>>),
        Map(Vec<(&'a str, Value<'a>)>),
        Other,
    }

    impl<'a> Value<'a> {
        /// A field of a map; None: it is absent and has its default.
        pub fn get(&self, name: &str) -> Option<&Value<'a>> {
            match self {
                Value::Map(fields) => fields.iter().find(|(key, _)| *key == name).map(|(_, v)| v),
                _ => None,
            }
        }

        pub fn int(&self, name: &str) -> Result<i64> {
            match self.get(name) {
                Some(Value::Int(value)) => Ok(*value),
                _ => Err(format!("invalid message: field {name}: expected an integer")),
            }
        }

        pub fn text(&self, name: &str) -> Result<&'a str> {
            match self.get(name) {
                Some(Value::Text(value)) => Ok(value),
                _ => Err(format!("invalid message: field {name}: expected a text")),
            }
        }

        pub fn list(&self, name: &str) -> Result<&[Value<'a>]> {
            match self.get(name) {
                Some(Value::List(values)) => Ok(values),
                _ => Err(format!("invalid message: field {name}: expected a list")),
            }
        }
    }

    const MOST_NESTED: usize = 64;

    /// Decodes a message: one value, and no byte after it.
    pub fn decode(data: &[u8]) -> Result<Value<'_>> {
        let mut rest = data;
        let value = value(&mut rest, 0)?;
        if rest.is_empty() {
            Ok(value)
        } else {
            Err("invalid message: bytes after its end".into())
        }
    }

    fn take<'a>(rest: &mut &'a [u8], size: usize) -> Result<&'a [u8]> {
        if rest.len() < size {
            return Err("invalid message: it ends too early".into());
        }
        let (taken, left) = rest.split_at(size);
        *rest = left;
        Ok(taken)
    }

    fn number(rest: &mut &[u8], bytes: usize) -> Result<u64> {
        Ok(take(rest, bytes)?.iter().fold(0, |value, byte| value << 8 | u64::from(*byte)))
    }

    fn integer(value: u64) -> Result<i64> {
        i64::try_from(value).map_err(|_| "invalid message: an integer above 2^63 - 1".into())
    }

    fn text<'a>(rest: &mut &'a [u8], size: u64) -> Result<Value<'a>> {
        let bytes = take(rest, size as usize)?;
        std::str::from_utf8(bytes).map(Value::Text).map_err(|e| format!("invalid message: {e}"))
    }

    fn list<'a>(rest: &mut &'a [u8], size: u64, depth: usize) -> Result<Value<'a>> {
        (0..size).map(|_| value(rest, depth)).collect::<Result<_>>().map(Value::List)
    }

    fn map<'a>(rest: &mut &'a [u8], size: u64, depth: usize) -> Result<Value<'a>> {
        let mut fields = Vec::new();
        for _ in 0..size {
            let key = value(rest, depth)?;
            let field = value(rest, depth)?;
            if let Value::Text(name) = key {
                fields.push((name, field));
            } // no field that matters here has another key
        }
        Ok(Value::Map(fields))
    }

    fn value<'a>(rest: &mut &'a [u8], depth: usize) -> Result<Value<'a>> {
        if depth > MOST_NESTED {
            return Err("invalid message: nested too deeply".into());
        }
        let (kind, depth) = (take(rest, 1)?[0], depth + 1);
        match kind {
            0x00..=0x7f => Ok(Value::Int(i64::from(kind))),
            0x80..=0x8f => map(rest, u64::from(kind & 0x0f), depth),
            0x90..=0x9f => list(rest, u64::from(kind & 0x0f), depth),
            0xa0..=0xbf => text(rest, u64::from(kind & 0x1f)),
            0xca..=0xcb => number(rest, 4 << (kind - 0xca)).map(|_| Value::Other),
            0xcc..=0xcf => Ok(Value::Int(integer(number(rest, 1 << (kind - 0xcc))?)?)),
            0xd0 => Ok(Value::Int(i64::from(number(rest, 1)? as i8))),
            0xd1 => Ok(Value::Int(i64::from(number(rest, 2)? as i16))),
            0xd2 => Ok(Value::Int(i64::from(number(rest, 4)? as i32))),
            0xd3 => Ok(Value::Int(number(rest, 8)? as i64)),
            0xd9..=0xdb => number(rest, 1 << (kind - 0xd9)).and_then(|size| text(rest, size)),
            0xdc..=0xdd => {
                number(rest, 2 << (kind - 0xdc)).and_then(|size| list(rest, size, depth))
            }
            0xde..=0xdf => number(rest, 2 << (kind - 0xde)).and_then(|size| map(rest, size, depth)),
            0xe0..=0xff => Ok(Value::Int(i64::from(kind as i8))),
            0xc4..=0xc6 => {
                let size = number(rest, 1 << (kind - 0xc4))?;
                take(rest, size as usize).map(|_| Value::Other)
            }
            _ => Ok(Value::Other), // null, true, false
        }
    }

    /// Encodes into a buffer.
    pub trait Encode {
        fn map(&mut self, size: u32) -> &mut Self;
        fn list(&mut self, size: u32) -> &mut Self;
        fn text(&mut self, value: &str) -> &mut Self;
        fn int(&mut self, value: i64) -> &mut Self;
    }

    fn head(out: &mut Vec<u8>, kind: u8, value: u32) {
        out.push(kind);
        out.extend(value.to_be_bytes());
    }

    impl Encode for Vec<u8> {
        fn map(&mut self, size: u32) -> &mut Self {
            head(self, 0xdf, size);
            self
        }
        fn list(&mut self, size: u32) -> &mut Self {
            head(self, 0xdd, size);
            self
        }
        fn text(&mut self, value: &str) -> &mut Self {
            head(self, 0xdb, value.len() as u32);
            self.extend(value.bytes());
            self
        }
        fn int(&mut self, value: i64) -> &mut Self {
            self.push(0xd3);
            self.extend(value.to_be_bytes());
            self
        }
    }
}

use msgpack::{Encode, Value};

// ---- The policy ----

struct Job {
    id: i64,
    cores: i64,
    order: u64,              // position in the order of submission
    held: Vec<(usize, i64)>, // nodes and the cores on each
}

#[derive(Default)]
struct Cluster {
    free: Vec<i64>, // cores by node
    free_cores: i64,
    queue: VecDeque<Job>,
    running: HashMap<i64, Job>,
    submitted: u64,
}

impl Cluster {
    fn submit(&mut self, id: i64, cores: i64) {
        self.queue.push_back(Job { id, cores, order: self.submitted, held: Vec::new() });
        self.submitted += 1;
    }

    /// Frees the cores of a job that runs.
    fn release(&mut self, id: i64) -> Option<Job> {
        let mut job = self.running.remove(&id)?;
        for (node, cores) in job.held.drain(..) {
            self.free[node] += cores;
            self.free_cores += cores;
        }
        Some(job)
    }

    fn take_back(&mut self, id: i64) {
        if let Some(job) = self.release(id) {
            let place = self.queue.partition_point(|other| other.order < job.order);
            self.queue.insert(place, job);
        }
    }

    /// Starts jobs in the order of submission until one does not fit; returns their numbers.
    fn start_in_order(&mut self) -> Vec<i64> {
        let mut started = Vec::new();
        while self.queue.front().is_some_and(|job| job.cores <= self.free_cores) {
            let Some(mut job) = self.queue.pop_front() else { break };
            let mut missing = job.cores;
            for (node, free) in self.free.iter_mut().enumerate() {
                let taken = missing.min(*free);
                if taken > 0 {
                    *free -= taken;
                    missing -= taken;
                    job.held.push((node, taken));
                }
            }
            self.free_cores -= job.cores;
            started.push(job.id);
            self.running.insert(job.id, job);
        }
        started
    }
}

// ---- The messages ----

/// A scheduler; the interface passes pointers to it.
#[derive(Default)]
pub struct Scheduler {
    cluster: Cluster,
    session: String,
    seq: i64,
    out: Vec<u8>, // the last answer, or the text of the last error
}

impl Scheduler {
    fn decide(&mut self, message: &[u8]) -> Result<()> {
        let message = msgpack::decode(message)?;
        let (mut rejected, mut started) = (Vec::new(), Vec::new());
        self.out.clear();
        match message.text("type")? {
            "simulation_ended" => return Ok(()),
            "welcome" => self.welcome(&message)?,
            _ => {
                for event in message.list("events")? {
                    self.apply(event, &mut rejected)?;
                }
                started = self.cluster.start_in_order();
            }
        }
        self.seq += 1;
        self.out.map(4).text("type").text("decisions").text("session").text(&self.session);
        self.out.text("seq").int(self.seq).text("decisions");
        self.out.list((rejected.len() + started.len()) as u32);
        for id in rejected {
            self.out.map(2).text("type").text("reject_job").text("job_id").int(id);
        }
        for id in started {
            let held = &self.cluster.running[&id].held;
            self.out.map(3).text("type").text("allocate_job").text("job_id").int(id).text("nodes");
            self.out.list(held.len() as u32);
            for (node, _) in held {
                self.out.int(*node as i64);
            }
        }
        Ok(())
    }

    fn welcome(&mut self, message: &Value) -> Result<()> {
        if message.int("version")? != 1 {
            return Err("invalid message: a version that was not offered".into());
        }
        self.session = message.text("session")?.to_string();
        let platform = message.get("platform").ok_or("invalid message: no platform")?;
        for group in platform.list("nodes")? {
            let processors = group.list("processors")?.iter().map(|each| each.int("cores"));
            let cores = processors.sum::<Result<i64>>()?;
            let count = usize::try_from(group.int("count")?).map_err(|error| error.to_string())?;
            self.cluster.free.resize(self.cluster.free.len() + count, cores);
            self.cluster.free_cores += cores * count as i64;
        }
        Ok(())
    }

    fn apply(&mut self, event: &Value, rejected: &mut Vec<i64>) -> Result<()> {
        let cluster = &mut self.cluster;
        match event.text("type")? {
            "job_submitted" => {
                let (id, cores) = (event.int("job_id")?, event.int("cores")?);
                match event.get("placement") {
                    None | Some(Value::Text("cores")) => cluster.submit(id, cores),
                    _ => rejected.push(id),
                }
            }
            "job_completed" => {
                let id = event.int("job_id")?;
                if cluster.release(id).is_none() {
                    cluster.queue.retain(|job| job.id != id); // its user cancelled it
                }
            }
            "decision_rejected" if event.text("decision")? == "allocate_job" => {
                cluster.take_back(event.int("job_id")?);
            }
            _ => {} // other events do not matter to this policy
        }
        Ok(())
    }
}

// ---- The interface ----

/// Bytes that the library owns until the next call.
#[repr(C)]
pub struct Bytes {
    data: *const u8,
    size: usize,
}

/// # Safety
/// `scheduler` and `hello` are valid for writes; see `hpcosim_scheduler.h`.
#[no_mangle]
pub unsafe extern "C" fn hpcosim_scheduler_begin(
    _options: *const u8,
    size: usize,
    scheduler: *mut *mut Scheduler,
    hello: *mut Bytes,
) -> i32 {
    if size > 0 {
        let why = "options: this scheduler has none";
        *scheduler = std::ptr::null_mut();
        *hello = Bytes { data: why.as_ptr(), size: why.len() };
        return 1;
    }
    let mut made = Box::<Scheduler>::default();
    made.out.map(3).text("type").text("hello").text("client").text("fcfs");
    made.out.text("versions").list(1).int(1);
    *hello = Bytes { data: made.out.as_ptr(), size: made.out.len() };
    *scheduler = Box::into_raw(made);
    0
}

/// # Safety
/// `scheduler` is from `hpcosim_scheduler_begin`, `message` has `size` bytes.
#[no_mangle]
pub unsafe extern "C" fn hpcosim_scheduler_decide(
    scheduler: *mut Scheduler,
    message: *const u8,
    size: usize,
    request: *mut Bytes,
) -> i32 {
    let (own, message) = (&mut *scheduler, std::slice::from_raw_parts(message, size));
    // A panic must not leave the library.
    let done = catch_unwind(AssertUnwindSafe(|| own.decide(message)))
        .unwrap_or_else(|_| Err("it panicked; its message is on stderr".into()));
    if let Err(why) = &done {
        own.out = why.clone().into_bytes();
    }
    *request = Bytes { data: own.out.as_ptr(), size: own.out.len() };
    i32::from(done.is_err())
}

/// # Safety
/// `scheduler` is from `hpcosim_scheduler_begin`, or null.
#[no_mangle]
pub unsafe extern "C" fn hpcosim_scheduler_end(scheduler: *mut Scheduler) {
    if !scheduler.is_null() {
        drop(Box::from_raw(scheduler));
    }
}
