//go:build !linux

package lockstock

import "time"

// now is the time since some beginning.
func now() time.Duration { return steady.now() }
