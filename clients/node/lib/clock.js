// The time, on a clock that goes on while the machine sleeps, as that of the server does.
"use strict";

/** The wall clock may differ from Node's own by so much before it counts. */
const LEAP_MS = 50;

/** How far the wall clock is ahead of Node's own. Node's is read first: what passes between the two looks must not count as a leap. */
let ahead = -performance.now() + Date.now();
let slept = 0;

/**
 * Milliseconds since some beginning. On Linux Node's own clock stands still while the machine sleeps, and only the wall clock has leapt
 * forward after that. It leaps also when it is set; a hold that is then thought to be over too early does no harm.
 */
function now() {
  const before = performance.now();
  const wall = Date.now();
  const time = performance.now();
  // What passes between two looks is no leap.
  if (wall - time > ahead + LEAP_MS) {
    slept += wall - time - ahead;
    ahead = wall - time;
  } else if (wall - before < ahead - LEAP_MS) {
    ahead = wall - before;
  }
  return time + slept;
}

module.exports = { now };
