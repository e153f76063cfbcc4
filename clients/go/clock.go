package lockstock

import (
	"sync"
	"time"
)

// leap is how far two clocks may go apart before it counts.
const leap = 50 * time.Millisecond

// clock is one where the timer of the system may stand still while the machine sleeps: a leap of the wall clock ahead is taken for a sleep. It
// leaps also when it is set; a hold that is then thought to be over too early does no harm.
type clock struct {
	timer, wall func() time.Duration

	mutex        sync.Mutex
	ahead, slept time.Duration
}

func newClock(timer, wall func() time.Duration) *clock {
	return &clock{timer: timer, wall: wall, ahead: -timer() + wall()}
}

func (c *clock) now() time.Duration {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	// What passes between two looks is no leap.
	before, wall, after := c.timer(), c.wall(), c.timer()
	switch {
	case wall-after > c.ahead+leap:
		c.slept += wall - after - c.ahead
		c.ahead = wall - after
	case wall-before < c.ahead-leap:
		c.ahead = wall - before
	}
	return after + c.slept
}

var (
	begun  = time.Now()
	steady = newClock(
		func() time.Duration { return time.Since(begun) },
		func() time.Duration { return time.Duration(time.Now().UnixNano()) },
	)
)
