package lockstock

import (
	"time"

	"golang.org/x/sys/unix"
)

// now is the time on a clock that goes on while the machine sleeps, as the server's does.
func now() time.Duration {
	var at unix.Timespec
	if unix.ClockGettime(unix.CLOCK_BOOTTIME, &at) != nil {
		return steady.now()
	}
	return time.Duration(at.Nano())
}
