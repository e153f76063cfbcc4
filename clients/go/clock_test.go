package lockstock

import (
	"slices"
	"testing"
	"time"
)

func TestALeapOfTheWallClockAheadIsASleep(t *testing.T) {
	timer, wall := time.Duration(0), 1000*time.Second
	clock := newClock(func() time.Duration { return timer }, func() time.Duration { return wall })
	var times []float64
	// Then it is set back, and gets on.
	for _, at := range [][]time.Duration{{0, 1000}, {5, 1005}, {6, 1066}, {7, 1067}, {8, 500}, {9, 501}, {10, 532}} {
		timer, wall = at[0]*time.Second, at[1]*time.Second
		times = append(times, clock.now().Seconds())
	}
	if !slices.Equal(times, []float64{0, 5, 66, 67, 68, 69, 100}) {
		t.Fatal(times)
	}
}

func TestAPauseBetweenTwoLooksIsNoSleep(t *testing.T) {
	at := time.Duration(0)
	look := func() time.Duration {
		at += time.Second / 2
		return at
	}
	clock := newClock(look, look)
	for range 3 {
		if now := clock.now(); now != at {
			t.Fatal(now, at)
		}
	}
}
