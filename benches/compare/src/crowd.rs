//! Any number of clients on one thread: each is a state machine that sends commands and is told the replies.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::io::{ErrorKind, Read, Write};
use std::mem::MaybeUninit;
use std::net::TcpStream;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use harness::PATIENCE;
use rustix::event::{PollFd, PollFlags, Timespec, epoll, poll};
use rustix::net::sockopt::set_socket_linger;

use crate::tally::Tally;
use crate::wire::{self, Reply};

/// A client that talks to the server.
pub trait Member {
    /// How many connections it has. A subscriber needs one of its own.
    fn lanes(&self) -> usize {
        1
    }

    /// Begins, again if the crowd was closed.
    fn start(&mut self, desk: &mut Desk<'_>);

    /// A reply came on one of its connections.
    fn hear(&mut self, lane: usize, reply: Reply<'_>, desk: &mut Desk<'_>);

    /// A pause is over that it asked for.
    fn resume(&mut self, _desk: &mut Desk<'_>) {}
}

/// Where a member sends from and keeps its accounts.
pub struct Desk<'a> {
    pub tally: &'a mut Tally,
    /// The number of the member.
    pub number: usize,
    /// No more work is wanted: what was asked for is answered, and nothing new is asked.
    pub closing: bool,
    lanes: &'a mut [Lane],
    pause: Option<Duration>,
}

impl Desk<'_> {
    /// Sends a command, together with all others of this moment.
    pub fn send(&mut self, lane: usize, words: &[&[u8]]) {
        wire::command(&mut self.lanes[lane].outbox, words);
        self.tally.sent += 1;
    }

    /// Wants to be resumed after so long.
    pub fn pause(&mut self, pause: Duration) {
        self.pause = Some(pause);
    }
}

struct Lane {
    stream: TcpStream,
    inbox: Vec<u8>,
    outbox: Vec<u8>,
    member: usize,
}

struct Place {
    member: Box<dyn Member>,
    first: usize,
    lanes: usize,
}

/// All clients of a load, each with connections of its own.
pub struct Crowd {
    epoll: OwnedFd,
    lanes: Vec<Lane>,
    places: Vec<Place>,
    pauses: BinaryHeap<Reverse<(Instant, usize)>>,
    pub tally: Tally,
    closing: bool,
}

/// How often to look whether there is enough, where nothing happens.
const LOOK: Duration = Duration::from_millis(10);

/// So many connections are opened before the server is given the time to accept them.
const BURST: usize = 100;

impl Crowd {
    /// Connects `members` to the server at `port`; which they say nothing to before [`Crowd::open`].
    pub fn connect(port: u16, members: Vec<Box<dyn Member>>) -> Self {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC).expect("an epoll instance");
        let mut lanes: Vec<Lane> = vec![];
        let mut places = vec![];
        for (number, member) in members.into_iter().enumerate() {
            let (first, count) = (lanes.len(), member.lanes());
            for _ in 0..count {
                let stream = connect(port, lanes.len().is_multiple_of(BURST));
                let event = epoll::EventData::new_u64(lanes.len() as u64);
                epoll::add(&epoll, &stream, event, epoll::EventFlags::IN).expect("a socket can be watched");
                lanes.push(Lane { stream, inbox: vec![], outbox: vec![], member: number });
            }
            places.push(Place { member, first, lanes: count });
        }
        let tally = Tally::of(places.len());
        Self { epoll, lanes, places, pauses: BinaryHeap::new(), tally, closing: false }
    }

    /// Lets all members begin.
    pub fn open(&mut self) {
        self.closing = false;
        for number in 0..self.places.len() {
            self.visit(number, |member, desk| member.start(desk));
        }
    }

    /// Goes on until there is `enough`.
    pub fn run(&mut self, mut enough: impl FnMut(&Tally) -> bool) {
        let mut buffer = vec![0; 1 << 16];
        let mut quiet = Instant::now();
        while !enough(&self.tally) {
            let timeout = self.pauses.peek().map(|Reverse((due, _))| due.saturating_duration_since(Instant::now()));
            let timeout = timespec(timeout.unwrap_or(LOOK).min(LOOK));
            let mut events = [MaybeUninit::<epoll::Event>::uninit(); 512];
            let (ready, _) = epoll::wait(&self.epoll, &mut events, Some(&timeout)).expect("epoll works");
            let lanes: Vec<usize> =
                ready.iter().map(|event| usize::try_from(event.data.u64()).expect("ours")).collect();
            if !lanes.is_empty() {
                quiet = Instant::now();
            }
            assert!(quiet.elapsed() < PATIENCE, "the server has fallen silent: {:?}", self.tally);
            for lane in lanes {
                self.receive(lane, &mut buffer);
            }
            self.wake();
        }
    }

    /// Lets all members finish their requests. For members whose every command is answered at once.
    pub fn close(&mut self) {
        self.closing = true;
        self.run(|tally| tally.sent == tally.heard);
    }

    fn wake(&mut self) {
        let now = Instant::now();
        while let Some(&Reverse((due, number))) = self.pauses.peek()
            && due <= now
        {
            self.pauses.pop();
            self.visit(number, |member, desk| member.resume(desk));
        }
    }

    fn receive(&mut self, number: usize, buffer: &mut [u8]) {
        let lane = &mut self.lanes[number];
        let count = match lane.stream.read(buffer) {
            Ok(0) => panic!("the server hung up"),
            Ok(count) => count,
            Err(error) if error.kind() == ErrorKind::WouldBlock => return,
            Err(error) => panic!("the connection broke: {error}"),
        };
        let mut inbox = std::mem::take(&mut lane.inbox);
        inbox.extend_from_slice(&buffer[..count]);
        let owner = lane.member;
        let own = number - self.places[owner].first;
        let mut at = 0;
        while let Some(reply) = Reply::first(&inbox[at..]) {
            self.tally.heard += 1;
            assert!(!reply.is_error(), "the server refuses: {}", reply.show());
            self.visit(owner, |member, desk| member.hear(own, reply, desk));
            at += reply.len();
        }
        inbox.drain(..at);
        self.lanes[number].inbox = inbox;
    }

    /// Gives a member the word, and sends what it has to say.
    fn visit(&mut self, number: usize, turn: impl FnOnce(&mut dyn Member, &mut Desk<'_>)) {
        let place = &mut self.places[number];
        let lanes = &mut self.lanes[place.first..place.first + place.lanes];
        let mut desk = Desk { tally: &mut self.tally, number, closing: self.closing, lanes, pause: None };
        turn(place.member.as_mut(), &mut desk);
        if let Some(pause) = desk.pause {
            self.pauses.push(Reverse((Instant::now() + pause, number)));
        }
        for lane in lanes.iter_mut().filter(|lane| !lane.outbox.is_empty()) {
            lane.flush();
        }
    }
}

impl Lane {
    fn flush(&mut self) {
        let mut rest = &self.outbox[..];
        while !rest.is_empty() {
            match self.stream.write(rest) {
                Ok(count) => rest = &rest[count..],
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    let mut writable = [PollFd::new(&self.stream, PollFlags::OUT)];
                    poll(&mut writable, None).expect("a socket can be polled");
                }
                Err(error) => panic!("the connection broke: {error}"),
            }
        }
        self.outbox.clear();
    }
}

fn connect(port: u16, wait: bool) -> TcpStream {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).expect("the server accepts");
    stream.set_nodelay(true).expect("a socket's option");
    // A closed connection leaves no port behind in TIME_WAIT: there would be none left soon.
    set_socket_linger(&stream, Some(Duration::ZERO)).expect("a socket's option");
    if wait {
        stream.write_all(b"PING\r\n").and_then(|()| stream.read_exact(&mut [0; 7])).expect("the server answers");
    }
    stream.set_nonblocking(true).expect("a socket's option");
    stream
}

fn timespec(duration: Duration) -> Timespec {
    let seconds = i64::try_from(duration.as_secs()).expect("a short time");
    Timespec { tv_sec: seconds, tv_nsec: i64::from(duration.subsec_nanos()) }
}
