//! The scenes: the five programs that people write by hand today, played with the commands that replace them, a railway, and orders that
//! are settled for less.

mod flash_sale;
mod one_per_person;
mod order_lock;
mod outlived_lease;
mod railway;
mod sale;
mod seckill;
mod settling;
mod tickets;

use anyhow::Result;

use crate::stage::{Act, Stage};

/// One scene.
pub struct Scene {
    /// The scenario it belongs to, 1 to 7, and a letter where that has several scenes.
    pub number: &'static str,
    /// What happens.
    pub title: &'static str,
    /// With which commands.
    pub how: &'static str,
    /// Plays it.
    pub play: fn(&mut Stage<'_>) -> Result<Act>,
}

/// All scenes in the order they are played.
pub const SCENES: [Scene; 11] = [
    Scene {
        number: "1a",
        title: "One order per person, with one command",
        how: "STOCK.DECR_ONCE sale person",
        play: one_per_person::play,
    },
    Scene {
        number: "1b",
        title: "One order per person, with real work under a lock",
        how: "LOCK.ACQUIRE lock PX 10000 WAIT 10000, the work, LOCK.RELEASE lock token",
        play: order_lock::play,
    },
    Scene {
        number: "2",
        title: "A flash sale: ten processes, a few units each",
        how: "STOCK.DECR_ONCE sale buyer QTY 2, 4 or 6; then QTY what is left",
        play: flash_sale::play,
    },
    Scene {
        number: "3",
        title: "Many users grab tickets: all they asked for, or none",
        how: "STOCK.DECR_ONCE tickets user QTY 2, 4 or 6, then STOCK.ORDER tickets user",
        play: tickets::play,
    },
    Scene {
        number: "4a",
        title: "The holder crashes in the middle of its work",
        how: "LOCK.ACQUIRE lock PX 60000 WAIT 15000 SESSION, then kill -9",
        play: outlived_lease::crash::play,
    },
    Scene {
        number: "4b",
        title: "The holder freezes and outlives its lease",
        how: "LOCK.ACQUIRE lock PX 400 …, then SIGSTOP; the resource checks the fence",
        play: outlived_lease::freeze::play,
    },
    Scene {
        number: "4c",
        title: "The work takes longer than the lease",
        how: "LOCK.EXTEND lock token PX 400, from a second thread while the work goes on",
        play: outlived_lease::extend::play,
    },
    Scene {
        number: "5",
        title: "Seckill: 20 units, 25 buyers, and every one of them clicks and clicks",
        how: "STOCK.DECR_ONCE sale buyer, again after every lost reply",
        play: seckill::play,
    },
    Scene {
        number: "6",
        title: "A train of ten stops: journeys over several legs, and waitlists",
        how: "STOCK.MDECR_ONCE journey 3 leg 1 leg 1 leg 1, or STOCK.DECR_ONCE leg journey WAITLIST; STOCK.MCANCEL",
        play: railway::play,
    },
    Scene {
        number: "7a",
        title: "The budget of an API: reserve an estimate, pay what was used",
        how: "STOCK.DECR_ONCE budget call QTY 100 HOLD 60000, then STOCK.CONFIRM budget call KEEP used",
        play: settling::budget,
    },
    Scene {
        number: "7b",
        title: "A refund of one ticket of three, to the first in line",
        how: "STOCK.CANCEL tickets buyer KEEP 2, twice; STOCK.DECR_ONCE tickets late WAITLIST",
        play: settling::refund,
    },
];
