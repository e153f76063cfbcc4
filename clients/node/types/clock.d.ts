/**
 * Milliseconds since some beginning. On Linux Node's own clock stands still while the machine sleeps, and only the wall clock has leapt
 * forward after that. It leaps also when it is set; a hold that is then thought to be over too early does no harm.
 */
export function now(): number;
