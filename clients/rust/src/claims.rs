//! The acquisitions by named tokens, until their holds have ended. A token is one holder for the server: two holds of one token on one lock
//! would both count as held, and the end of the one would end the other.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::watch::{Receiver, Sender};

use crate::{Client, Error};

/// Those of a client, by key and token.
#[derive(Default)]
pub struct Claims(Mutex<HashMap<Place, Receiver<Stage>>>);

/// A token's place in a lock.
type Place = (Vec<u8>, Vec<u8>);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// The token asks for the lock, or has it.
    Stands,
    /// The server is being told that the claim ends.
    Leaves,
    Over,
}

/// One acquisition. It has no places if its token is used once.
#[derive(Debug)]
pub struct Claim {
    client: Client,
    places: Vec<Place>,
    stage: Sender<Stage>,
}

impl Claim {
    pub fn new(client: Client, keys: &[Vec<u8>], token: Option<&Vec<u8>>) -> Self {
        let places = token.iter().flat_map(|token| keys.iter().map(|key| (key.clone(), (*token).clone()))).collect();
        Self { client, places, stage: Sender::new(Stage::Stands) }
    }

    /// Takes the places, or refuses to. Waits for a claim of the same token that is leaving.
    pub async fn take(&self) -> Result<(), Error> {
        while let Err(mut other) = self.enter(None) {
            if *other.borrow() == Stage::Stands {
                return Err(Error::AlreadyHeld);
            }
            // If its sender is gone, it is over, too.
            let _ = other.wait_for(|stage| *stage == Stage::Over).await;
        }
        Ok(())
    }

    /// Whether the server may be told that this claim ends: not if a later one of its token has taken its place.
    pub fn leave(&self) -> bool {
        self.enter(Some(Stage::Leaves)).is_ok()
    }

    /// The caller has given up. The next claim of the token waits until the background has noticed.
    pub fn give_up(&self) {
        self.pass(Stage::Leaves, |stage| stage == Stage::Stands);
    }

    /// The hold has ended by itself: a later claim may have the places. One that is leaving ends when the server knows.
    pub fn lose(&self) {
        self.pass(Stage::Over, |stage| stage == Stage::Stands);
    }

    /// A later claim may have the places.
    pub fn end(&self) {
        self.pass(Stage::Over, |_| true);
    }

    /// Passes to this stage from one that allows it.
    fn pass(&self, next: Stage, from: impl FnOnce(Stage) -> bool) {
        let mut claims = self.claims();
        if !from(*self.stage.borrow()) {
            return;
        }
        if next == Stage::Over {
            for place in &self.places {
                if claims.get(place).is_some_and(|one| self.has(one)) {
                    claims.remove(place);
                }
            }
        }
        self.stage.send_replace(next);
    }

    /// Notes the claim, or tells of another one that has one of its places.
    fn enter(&self, stage: Option<Stage>) -> Result<(), Receiver<Stage>> {
        let mut claims = self.claims();
        if let Some(other) = self.places.iter().find_map(|place| claims.get(place).filter(|one| !self.has(one))) {
            return Err(other.clone());
        }
        claims.extend(self.places.iter().map(|place| (place.clone(), self.stage.subscribe())));
        if let Some(stage) = stage {
            self.stage.send_replace(stage);
        }
        Ok(())
    }

    fn has(&self, one: &Receiver<Stage>) -> bool {
        one.same_channel(&self.stage.subscribe())
    }

    fn claims(&self) -> MutexGuard<'_, HashMap<Place, Receiver<Stage>>> {
        self.client.claims().0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        self.end();
    }
}
