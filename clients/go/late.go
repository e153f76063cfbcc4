package lockstock

import (
	"maps"
	"sync"
	"time"
)

const (
	// How late a request may arrive, at most: a network brings what it was given, though its sender has no connection to it any more.
	lateness = time.Minute
	// The lease of a hold that a late release may end: it is extended, and so looked after, each second.
	brief = 3 * glance
)

// late are the requests of a token that set its lease and may arrive yet, after those that were sent later: then the lease is theirs.
type late struct {
	mutex sync.Mutex
	// By the lease that they set.
	all map[time.Duration]*alike
}

// alike are requests for one lease: how many are under way, and when those that were not answered have arrived at the latest.
type alike struct {
	underway int
	until    time.Duration
}

// begin notes one that is sent now. When it ends, it may still arrive, unless it was answered or was not sent.
func (l *late) begin(lease time.Duration) (end func(error)) {
	if l == nil {
		return func(error) {}
	}
	l.mutex.Lock()
	defer l.mutex.Unlock()
	// Those that are over count for what was sent before.
	maps.DeleteFunc(l.all, func(_ time.Duration, some *alike) bool { return some.underway == 0 && some.until+lateness < now() })
	some := l.of(lease)
	some.underway++
	return func(err error) {
		l.mutex.Lock()
		defer l.mutex.Unlock()
		some.underway--
		if err != nil && !isNothingDone(err) {
			some.until = now() + lateness
		}
	}
}

func (l *late) of(lease time.Duration) *alike {
	if l.all == nil {
		l.all = map[time.Duration]*alike{}
	}
	if l.all[lease] == nil {
		l.all[lease] = &alike{}
	}
	return l.all[lease]
}

// counts is how much of a lease counts that was asked for at that time.
func (l *late) counts(lease, sent time.Duration) time.Duration {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	for other, some := range l.all {
		if some.underway > 0 || some.until >= sent {
			lease = min(lease, other)
		}
	}
	return lease
}

// join adds those of an earlier acquisition of the token, of which none is under way any more.
func (l *late) join(earlier *late) {
	earlier.mutex.Lock()
	defer earlier.mutex.Unlock()
	l.mutex.Lock()
	defer l.mutex.Unlock()
	for lease, some := range earlier.all {
		own := l.of(lease)
		own.until = max(own.until, some.until)
	}
}
