//! Randomness that can be had again.

/// Random numbers; the seed is printed where a failing test shows it, and `LOCKSTOCK_SEED` takes it back.
pub fn random() -> fastrand::Rng {
    let seed = std::env::var("LOCKSTOCK_SEED").ok().and_then(|seed| seed.parse().ok());
    let seed = seed.unwrap_or_else(|| fastrand::u64(..));
    println!("LOCKSTOCK_SEED={seed}");
    fastrand::Rng::with_seed(seed)
}
