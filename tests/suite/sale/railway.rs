//! The train of `examples/railway`: 10 stops, 9 legs, random journeys by many at once, cancellations served from the waitlists. No leg is
//! ever oversold, and nobody is passed over.

use std::collections::BTreeMap;
use std::thread;

use harness::shop::{Replay, events, orders};
use harness::{Server, random};
use lockstock_railway::{Journey, Standing, Train, passed_over};
use redis::{Client, Connection};

const SEATS: u64 = 5;

fn connect(server: &Server) -> Connection {
    let client = Client::open(format!("redis://127.0.0.1:{}", server.port())).expect("a URL");
    client.get_connection().expect("a connection")
}

fn train(server: &Server) -> Train {
    let train = Train { name: "train".into(), stops: 10 };
    train.open(&mut connect(server), SEATS).expect("a new train");
    train
}

fn journey(id: &str, from: usize, to: usize) -> Journey {
    Journey { id: id.into(), from, to }
}

#[test]
fn a_seat_that_comes_back_goes_to_who_waits_and_leg_by_leg() {
    let server = Server::start();
    let (mut redis, train) = (connect(&server), Train { name: "train".into(), stops: 10 });
    train.open(&mut redis, 1).expect("a new train");
    let [ann, bob, cid] = [journey("ann", 2, 5), journey("bob", 1, 4), journey("cid", 3, 10)];
    let mut book = |journey| train.book(&mut redis, journey).expect("an answer");
    assert_eq!(book(&ann), Standing::Booked);
    assert_eq!(book(&bob), Standing::Waits(2), "it holds the first leg");
    assert_eq!(book(&cid), Standing::Waits(3));
    assert_eq!(book(&bob), Standing::Waits(2), "asked again, it waits in the same place");
    train.cancel(&mut redis, &ann).expect("an answer");
    // The second leg is bob's now, and the third is cid's, because cid came there first.
    let mut book = |journey| train.book(&mut redis, journey).expect("an answer");
    assert_eq!(book(&bob), Standing::Waits(3));
    assert_eq!(book(&cid), Standing::Booked);
    assert_eq!(book(&ann), Standing::Waits(2), "behind who was there");
    train.cancel(&mut redis, &cid).expect("an answer");
    assert_eq!(train.book(&mut redis, &bob).expect("an answer"), Standing::Booked);
    for leg in train.legs() {
        assert_eq!(passed_over(&train.story(&mut redis, leg).expect("a story")), None, "leg {leg}");
    }
}

#[test]
fn somebody_who_is_passed_over_is_noticed() {
    let story = |events: &[(&str, &str)]| -> Vec<(String, String)> {
        events.iter().map(|(event, id)| ((*event).to_owned(), (*id).to_owned())).collect()
    };
    let fair = [
        ("ok", "a"),
        ("wait", "b"),
        ("wait", "c"),
        ("wait", "d"),
        ("cancel", "c"),
        ("cancel", "a"),
        ("ok", "b"),
        ("ok", "d"),
        ("ok", "e"),
    ];
    assert_eq!(passed_over(&story(&fair)), None);
    assert_eq!(passed_over(&story(&[("wait", "b"), ("wait", "c"), ("ok", "c")])), Some("c".into()));
    assert_eq!(passed_over(&story(&[("wait", "b"), ("ok", "x")])), Some("x".into()));
}

/// Many book and cancel at random; then the waiting journeys go on for as long as one of them gets any further.
#[test]
fn no_leg_is_oversold_and_nobody_is_passed_over() {
    const PASSENGERS: usize = 8;
    const JOURNEYS: usize = 60;

    let server = Server::start();
    let train = train(&server);
    let mut random = random();
    let mut standing: BTreeMap<String, (Journey, Option<Standing>)> = thread::scope(|scope| {
        let passengers: Vec<_> = (0..PASSENGERS)
            .map(|passenger| {
                let (train, mut random, mut redis) = (&train, random.fork(), connect(&server));
                scope.spawn(move || {
                    let mut mine: Vec<(Journey, Option<Standing>)> = vec![];
                    for number in 0..JOURNEYS {
                        let from = random.usize(1..10);
                        let journey = journey(&format!("{passenger}-{number}"), from, random.usize(from + 1..=10));
                        let standing = train.book(&mut redis, &journey).expect("an answer");
                        mine.push((journey, Some(standing)));
                        // Some passengers ask again, and some stay at home.
                        for _ in 0..random.usize(..3) {
                            let (journey, standing) = &mut mine[random.usize(..=number)];
                            if standing.is_some() && random.bool() {
                                train.cancel(&mut redis, journey).expect("an answer");
                                *standing = None;
                            } else if standing.is_some() {
                                *standing = Some(train.book(&mut redis, journey).expect("an answer"));
                            }
                        }
                    }
                    mine
                })
            })
            .collect();
        let all = passengers.into_iter().flat_map(|passenger| passenger.join().expect("a passenger"));
        all.map(|(journey, standing)| (journey.id.clone(), (journey, standing))).collect()
    });
    let mut redis = connect(&server);
    loop {
        let before = standing.clone();
        for (journey, standing) in standing.values_mut().filter(|(_, standing)| standing.is_some()) {
            *standing = Some(train.book(&mut redis, journey).expect("an answer"));
        }
        if standing == before {
            break;
        }
    }

    let mut client = server.client();
    for leg in train.legs() {
        let Some(look) = train.look(&mut redis, leg).ok() else { panic!("leg {leg}") };
        assert!(look.seats == SEATS && look.free + look.held + look.sold == SEATS, "leg {leg}: {look:?}");
        assert!(look.free == 0 || look.waiting == 0, "leg {leg}: there is a seat for who waits: {look:?}");
        assert_eq!(passed_over(&train.story(&mut redis, leg).expect("a story")), None, "leg {leg}");
        let told = events(&mut client, &train.events(leg));
        Replay::of(i64::try_from(SEATS).expect("few"), &told).agrees_with(&mut client, &train.leg(leg));
        // Each journey has the seats that it should have, and no others.
        let orders = orders(&mut client, &train.leg(leg));
        for (id, (journey, standing)) in &standing {
            let state = orders.get(id).map(|order| order.state.as_str());
            let wanted = match standing {
                _ if !(journey.from..journey.to).contains(&leg) => &[None][..],
                Some(Standing::Booked) => &[Some("sold")],
                Some(Standing::Waits(at)) if leg < *at => &[Some("held")],
                Some(Standing::Waits(at)) if leg == *at => &[Some("waiting")],
                // It was never there, or has left.
                Some(Standing::Waits(_)) | None => &[None, Some("cancelled")],
            };
            assert!(wanted.contains(&state), "{id} on leg {leg}: {state:?} of {standing:?}");
        }
    }
    let booked = standing.values().filter(|(_, standing)| *standing == Some(Standing::Booked)).count();
    let waiting = standing.values().filter(|(_, standing)| matches!(standing, Some(Standing::Waits(_)))).count();
    assert!(booked > 4 && waiting > 4, "{booked} booked, {waiting} wait");
}
