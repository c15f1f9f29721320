//! Processes of a simulated host: scripts that read, write, wait and end.
//!
//! A process has three streams: the end of a pipe, an opened file it shares with whoever started it, the host's console
//! or nothing. It begins a short while after it was started, and goes through its steps in no time until one has to
//! wait: for a span, for room in a pipe, for input. It waits on that one object, and goes on when the object changes,
//! in the same [`settle`](State::settle) as the ops that wait there, after them.
//!
//! Whoever started it holds a descriptor of it that becomes readable at its end, and asks for its status by number. A
//! process outlives the program that started it, as on Linux; it goes with its host's power. One that has ended is
//! kept until it was waited for, or its descriptor is closed.

use std::collections::{BTreeMap, VecDeque};
use std::ffi::OsString;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::plane::backend::sim::events::Event;
use crate::plane::backend::sim::script::{Invocation, Script, Step, Stream};
use crate::plane::backend::sim::site::HostId;
use crate::plane::backend::sim::world::{Body, Errno, ObjectId, State, World, call_out};
use crate::plane::fd::RawDescriptor;

/// From the call to the first step.
const START_NANOS: std::ops::Range<u64> = 300_000..1_500_000;
/// The most a process moves at once.
const CHUNK_BYTES: usize = 65_536;
/// What a host keeps of what was written to its console; more of it is dropped.
const CONSOLE_BYTES_MAX: usize = 1 << 20;
/// The number of a host's first process.
const FIRST_PID: u32 = 100;

/// Where a stream of a process leads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    Nothing,
    Console,
    Object(ObjectId),
}

/// Where whoever starts a process wants a stream to lead.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Lead {
    Nothing,
    /// Where the starter's own leads, which is the host's console.
    Inherit,
    /// A pipe to the starter.
    Pipe,
    /// What the starter has open.
    Descriptor(RawDescriptor),
    /// Of the error stream: where the output leads.
    Output,
}

/// How a process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Status {
    Code(i32),
    Signal(i32),
}

/// What a program is that a host knows.
pub(super) type Program = Box<dyn FnMut(&Invocation) -> Script + Send>;

/// A process.
#[derive(Debug)]
struct Process {
    name: String,
    script: Script,
    /// The step it is at, and how far in it: bytes written, or lines read.
    at: usize,
    done: usize,
    /// Read and not written yet.
    carried: VecDeque<u8>,
    streams: [End; 3],
    /// What it waits on; none while it sleeps.
    waits_on: Option<ObjectId>,
    /// Tells its sleeps apart.
    sleeps: u64,
    asleep: bool,
    status: Option<Status>,
    /// What stands for it in the hands of who started it; none once that was closed.
    handle: Option<ObjectId>,
}

/// The programs and processes of a host.
#[derive(Default)]
pub(super) struct Processes {
    programs: BTreeMap<OsString, Program>,
    processes: BTreeMap<u32, Process>,
    made: u32,
    console: Vec<u8>,
}

impl Processes {
    pub(super) fn install(&mut self, name: OsString, program: Program) {
        self.programs.insert(name, program);
    }

    pub(super) fn console(&self) -> &[u8] {
        &self.console
    }

    /// The power is gone: so is every process. The programs are on no disk that could be lost.
    pub(super) fn end_all(&mut self) {
        self.processes.clear();
    }

    fn names(&self) -> String {
        let names: Vec<String> = self.programs.keys().map(|name| name.display().to_string()).collect();
        if names.is_empty() { "none".to_owned() } else { names.join(", ") }
    }
}

impl fmt::Debug for Processes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Processes").field("processes", &self.processes).finish_non_exhaustive()
    }
}

/// Why a process was not started.
#[derive(Debug)]
pub(crate) enum Refusal {
    /// There is no such program; those are.
    Unknown(String),
    Errno(Errno),
}

/// A process that runs, and the starter's ends of its pipes.
#[derive(Debug)]
pub(crate) struct Started {
    pub(crate) pid: u32,
    /// Readable at its end.
    pub(crate) handle: RawDescriptor,
    pub(crate) pipes: [Option<RawDescriptor>; 3],
}

/// What a step came to.
enum Went {
    On,
    /// It waits on this.
    Waits(ObjectId),
    Sleeps(Duration),
    /// It waits for nothing but a signal.
    Lingers,
    Ended(Status),
}

impl State {
    /// Starts what the host knows under the invocation's name.
    pub(super) fn start_process(&mut self, invocation: &Invocation, leads: [Lead; 3]) -> Result<Started, Refusal> {
        let name = std::iter::once(&invocation.program).chain(&invocation.args);
        let name = name.map(|word| word.display().to_string()).collect::<Vec<_>>().join(" ");
        let processes = &mut self.here.processes;
        let Some(program) = processes.programs.get_mut(&invocation.program) else {
            return Err(Refusal::Unknown(processes.names()));
        };
        let script = call_out(|| program(invocation));
        processes.made += 1;
        let pid = FIRST_PID + processes.made;
        let (streams, pipes) = self.open_streams(leads).map_err(Refusal::Errno)?;
        let object = self.add(Body::Process(pid));
        let handle = self.install(object).map_err(|errno| {
            for raw in pipes.iter().flatten() {
                // The number was given out a moment ago, so it is open.
                let _ = self.close(*raw);
            }
            self.close_ends(streams);
            Refusal::Errno(errno)
        })?;
        let process = Process {
            name,
            script,
            at: 0,
            done: 0,
            carried: VecDeque::new(),
            streams,
            waits_on: None,
            sleeps: 0,
            asleep: false,
            status: None,
            handle: Some(object),
        };
        self.here.processes.processes.insert(pid, process);
        let span = Duration::from_nanos(self.chance.within(START_NANOS));
        self.let_sleep(pid, span);
        self.settle();
        Ok(Started { pid, handle, pipes })
    }

    /// The streams of a new process, and the starter's ends of its pipes.
    #[allow(clippy::type_complexity, reason = "three ends of each side")]
    fn open_streams(&mut self, leads: [Lead; 3]) -> Result<([End; 3], [Option<RawDescriptor>; 3]), Errno> {
        let (mut streams, mut pipes) = ([End::Nothing; 3], [None; 3]);
        for place in 0..3 {
            let end = match leads[place] {
                Lead::Nothing => Ok(End::Nothing),
                Lead::Inherit if place == 0 => Ok(End::Nothing),
                Lead::Inherit => Ok(End::Console),
                Lead::Output => Ok(streams[1]),
                Lead::Descriptor(raw) => self.lookup(raw).map(End::Object),
                Lead::Pipe => {
                    let (reader, writer) = self.make_pipe();
                    let (own, theirs) = if place == 0 { (writer, reader) } else { (reader, writer) };
                    match self.install(own) {
                        Ok(raw) => {
                            pipes[place] = Some(raw);
                            streams[place] = End::Object(theirs);
                            continue;
                        }
                        Err(errno) => {
                            self.end(theirs);
                            Err(errno)
                        }
                    }
                }
            };
            match end {
                Ok(end) => {
                    if let End::Object(object) = end {
                        self.share(object);
                    }
                    streams[place] = end;
                }
                Err(errno) => {
                    for raw in pipes.iter().flatten() {
                        // As above.
                        let _ = self.close(*raw);
                    }
                    self.close_ends(streams);
                    return Err(errno);
                }
            }
        }
        Ok((streams, pipes))
    }

    fn close_ends(&mut self, streams: [End; 3]) {
        for end in streams {
            if let End::Object(object) = end {
                self.end(object);
            }
        }
    }

    /// It goes on after so long.
    fn let_sleep(&mut self, pid: u32, span: Duration) {
        let Some(process) = self.here.processes.processes.get_mut(&pid) else { return };
        process.sleeps += 1;
        process.asleep = true;
        let sleep = process.sleeps;
        self.time.plan(self.time.now() + span, self.current, Event::Process { pid, sleep });
    }

    /// A sleep of a process is over.
    pub(super) fn wake_process(&mut self, pid: u32, sleep: u64) {
        match self.here.processes.processes.get_mut(&pid) {
            Some(process) if process.asleep && process.sleeps == sleep => process.asleep = false,
            _ => return,
        }
        self.go_on(pid);
    }

    /// An object has changed: the processes that wait there go on, the oldest first.
    pub(super) fn stir_processes(&mut self, object: ObjectId) {
        let waiting = |process: &Process| process.waits_on == Some(object) && process.status.is_none();
        let processes = &self.here.processes.processes;
        let pids: Vec<u32> = processes.iter().filter(|(_, process)| waiting(process)).map(|(pid, _)| *pid).collect();
        for pid in pids {
            self.go_on(pid);
        }
    }

    /// Goes through the steps until one has to wait.
    fn go_on(&mut self, pid: u32) {
        loop {
            // It is out of the list while it does something.
            let Some(mut process) = self.here.processes.processes.remove(&pid) else { return };
            process.waits_on = None;
            let went = self.step_process(&mut process);
            match went {
                Went::On => {}
                Went::Waits(object) => process.waits_on = Some(object),
                Went::Sleeps(_) | Went::Lingers | Went::Ended(_) => {}
            }
            self.here.processes.processes.insert(pid, process);
            match went {
                Went::On => {}
                Went::Waits(_) | Went::Lingers => return,
                Went::Sleeps(span) => return self.let_sleep(pid, span),
                Went::Ended(status) => return self.end_process(pid, status),
            }
        }
    }

    fn step_process(&mut self, process: &mut Process) -> Went {
        let step = process.script.steps.get(process.at).cloned();
        let went = match step {
            None => return Went::Ended(Status::Code(0)),
            Some(Step::Exit(code)) => return Went::Ended(Status::Code(code & 0xff)),
            Some(Step::Die(signal)) => return Went::Ended(Status::Signal(signal)),
            Some(Step::Linger) => return Went::Lingers,
            Some(Step::Sleep(span)) => {
                process.at += 1;
                return Went::Sleeps(span);
            }
            Some(Step::Write(stream, bytes)) => {
                let rest = bytes.get(process.done..).unwrap_or_default();
                if rest.is_empty() {
                    Ok(true)
                } else {
                    let end = process.streams[if stream == Stream::Output { 1 } else { 2 }];
                    self.write_for(end, rest).map(|count| {
                        process.done += count;
                        false
                    })
                }
            }
            Some(Step::Read { lines, copy }) => self.read_for(process, lines, copy),
        };
        match went {
            Ok(true) => {
                (process.at, process.done) = (process.at + 1, 0);
                Went::On
            }
            Ok(false) => Went::On,
            Err(Held::By(object)) => Went::Waits(object),
            Err(Held::Broken) if process.script.ignored.contains(&libc::SIGPIPE) => {
                (process.at, process.done) = (process.at + 1, 0);
                process.carried.clear();
                Went::On
            }
            Err(Held::Broken) => Went::Ended(Status::Signal(libc::SIGPIPE)),
            // Programs say so and give up.
            Err(Held::Failed) => Went::Ended(Status::Code(1)),
        }
    }

    /// One read or write of a step that reads; true when the step is over.
    fn read_for(&mut self, process: &mut Process, lines: Option<u32>, copy: bool) -> Result<bool, Held> {
        if !process.carried.is_empty() {
            let bytes: Vec<u8> = process.carried.iter().copied().collect();
            let count = self.write_for(process.streams[1], &bytes)?;
            process.carried.drain(..count);
            return Ok(false);
        }
        if lines.is_some_and(|lines| process.done >= lines as usize) {
            return Ok(true);
        }
        // A line at a time is taken byte by byte: what comes after it is for whoever reads next.
        let want = if lines.is_some() { 1 } else { CHUNK_BYTES };
        let bytes = self.read_by(process.streams[0], want)?;
        if bytes.is_empty() {
            return Ok(true);
        }
        if lines.is_some() {
            process.done += usize::from(bytes == b"\n");
        }
        if copy {
            process.carried.extend(bytes);
        }
        Ok(false)
    }

    /// Reads for a process; nothing is the end.
    fn read_by(&mut self, end: End, want: usize) -> Result<Vec<u8>, Held> {
        let End::Object(object) = end else { return Ok(Vec::new()) };
        let answer = match self.body(object).map_err(|_| Held::Failed)? {
            Body::File(_) => self.read_on(object, want).map(Some),
            _ => self.take_from_pipe(object, want),
        };
        answer.map_err(|_| Held::Failed)?.ok_or(Held::By(object))
    }

    /// Writes for a process: how much went.
    fn write_for(&mut self, end: End, bytes: &[u8]) -> Result<usize, Held> {
        let object = match end {
            End::Nothing => return Ok(bytes.len()),
            End::Console => {
                let console = &mut self.here.processes.console;
                let room = CONSOLE_BYTES_MAX.saturating_sub(console.len());
                console.extend_from_slice(&bytes[..bytes.len().min(room)]);
                return Ok(bytes.len());
            }
            End::Object(object) => object,
        };
        let answer = match self.body(object).map_err(|_| Held::Failed)? {
            Body::File(_) => {
                if self.here.power.is_watched() {
                    self.show_disk();
                }
                let written = self.write_on(object, bytes);
                self.here.fs.stamp(self.time.now());
                written.map(Some)
            }
            _ => self.put_into_pipe(object, bytes),
        };
        match answer {
            Ok(Some(count)) if count > 0 => Ok(count),
            Ok(None) => Err(Held::By(object)),
            Err(libc::EPIPE) => Err(Held::Broken),
            Ok(Some(_)) | Err(_) => Err(Held::Failed),
        }
    }

    fn end_process(&mut self, pid: u32, status: Status) {
        let Some(process) = self.here.processes.processes.get_mut(&pid) else { return };
        process.status = Some(status);
        process.waits_on = None;
        process.asleep = false;
        let streams = std::mem::replace(&mut process.streams, [End::Nothing; 3]);
        let handle = process.handle;
        match handle {
            Some(handle) => self.touch(handle),
            None => drop(self.here.processes.processes.remove(&pid)),
        }
        self.close_ends(streams);
    }

    /// The descriptor of a process was closed: nobody will ask for its status.
    pub(super) fn end_process_handle(&mut self, pid: u32) {
        let Some(process) = self.here.processes.processes.get_mut(&pid) else { return };
        process.handle = None;
        if process.status.is_some() {
            self.here.processes.processes.remove(&pid);
        }
    }

    pub(super) fn has_ended(&self, pid: u32) -> bool {
        self.here.processes.processes.get(&pid).is_none_or(|process| process.status.is_some())
    }

    /// How a process ended, if it has.
    pub(super) fn status_of(&self, pid: u32) -> Result<Option<Status>, Errno> {
        self.here.processes.processes.get(&pid).map(|process| process.status).ok_or(libc::ECHILD)
    }

    /// Sends a signal: the process ends by it, or takes no notice.
    pub(super) fn signal_process(&mut self, pid: u32, signal: i32) -> Result<(), Errno> {
        let process = self.here.processes.processes.get(&pid).ok_or(libc::ESRCH)?;
        let unnoticed = process.script.ignored.contains(&signal) && signal != libc::SIGKILL
            || matches!(signal, 0 | libc::SIGCHLD | libc::SIGCONT | libc::SIGURG | libc::SIGWINCH);
        match signal {
            _ if process.status.is_some() || unnoticed => {}
            libc::SIGSTOP | libc::SIGTSTP | libc::SIGTTIN | libc::SIGTTOU => return Err(libc::ENOSYS),
            signal => {
                self.end_process(pid, Status::Signal(signal));
                self.settle();
            }
        }
        Ok(())
    }

    /// What the processes here wait for, in words, one to a line of a report.
    pub(super) fn describe_processes(&self) -> Vec<String> {
        let running = self.here.processes.processes.iter().filter(|(_, process)| process.status.is_none());
        running
            .map(|(pid, process)| {
                let name = &process.name;
                let stream = |place: usize| process.streams[place];
                match process.waits_on.map(End::Object) {
                    None => format!("process {pid} ({name}) runs until it is killed"),
                    Some(end) if end == stream(0) => format!("process {pid} ({name}) waits for input"),
                    Some(_) => format!("process {pid} ({name}) waits for somebody to read what it writes"),
                }
            })
            .collect()
    }

    /// A process's number and name, for a report.
    pub(super) fn name_of_process(&self, pid: u32) -> String {
        match self.here.processes.processes.get(&pid) {
            Some(process) => format!("process {pid} ({})", process.name),
            None => format!("process {pid}"),
        }
    }
}

/// Why a process does not get on with a read or write.
enum Held {
    By(ObjectId),
    /// Nobody reads what it writes.
    Broken,
    Failed,
}

/// A process as the program knows it that started it.
#[derive(Clone)]
pub(crate) struct ProcessHandle {
    pub(super) world: Arc<World>,
    pub(super) host: HostId,
    pub(super) pid: u32,
}

impl ProcessHandle {
    pub(crate) fn pid(&self) -> u32 {
        self.pid
    }

    /// How it ended, if it has; the positive errno where there is no such process, which went with its host's power.
    pub(crate) fn status(&self) -> Result<Option<Status>, Errno> {
        self.world.at(self.host).status_of(self.pid)
    }

    /// Sends it a signal.
    pub(crate) fn signal(&self, signal: i32) -> Result<(), Errno> {
        self.world.at(self.host).signal_process(self.pid, signal)
    }
}

impl fmt::Debug for ProcessHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ProcessHandle").field("pid", &self.pid).finish_non_exhaustive()
    }
}
