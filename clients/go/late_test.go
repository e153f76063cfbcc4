package lockstock_test

import (
	"context"
	"testing"
	"time"

	lockstock "lockstock/clients/go"
)

// A request whose connection was cut may come to the server after its repetition, and after what was sent then.
func TestARequestThatComesLateDoesNotCutALongerLeaseShort(t *testing.T) {
	for word, keys := range map[string][]string{"ACQUIRE": {"one", "two"}, "EXTEND": {"job"}} {
		t.Run(word, func(t *testing.T) {
			through(t, func(s *server, r *relay, client lockstock.Client) {
				cut := s.overtake(r, overtakes{word: word, by: lateness})
				options := []lockstock.Option{lockstock.Unattended(), lockstock.Lease(3 * time.Second), lockstock.Wait(20 * time.Second)}
				lock := must(lockstock.AcquireAll(background, client, keys, options...))
				if word == "EXTEND" {
					s.is(lock.Extend(background, 0), nil)
				}
				cut()
				s.is(lock.Extend(background, time.Minute), nil)
				time.Sleep(lateness + 4*time.Second)
				equal(s, s.locks(), 0)
				equal(s, lock.Held(), false)
			})
		})
	}
}

func TestAHoldThatIsExtendedOutlastsARequestThatComesLate(t *testing.T) {
	through(t, func(s *server, r *relay, client lockstock.Client) {
		lock := must(lockstock.Acquire(background, client, "job", lockstock.Lease(3*time.Second)))
		s.overtake(r, overtakes{word: "EXTEND", by: lateness})()
		s.eventually("it is extended", func() bool { return lock.Extend(background, time.Minute) == nil })
		time.Sleep(lateness + 4*time.Second)
		equal(s, lock.Held(), true)
		equal(s, must(lock.Owned(background)), true)
		s.is(lock.Release(background), nil)
	})
}

func TestARequestForAnEarlierHoldOfTheTokenThatComesLateDoesNotCutALongerLeaseShort(t *testing.T) {
	through(t, func(s *server, r *relay, client lockstock.Client) {
		acquire := func(lease time.Duration) *lockstock.Lock {
			options := []lockstock.Option{lockstock.Token("me"), lockstock.Unattended(), lockstock.Lease(lease), lockstock.Wait(20 * time.Second)}
			return must(lockstock.Acquire(background, client, "job", options...))
		}
		cut := s.overtake(r, overtakes{word: "ACQUIRE", by: lateness})
		s.is(acquire(3*time.Second).Release(background), nil)
		cut()
		lock := acquire(time.Minute)
		time.Sleep(lateness + 4*time.Second)
		equal(s, s.locks(), 0)
		equal(s, lock.Held(), false)
	})
}

// It has no fence, so nothing keeps it from the next hold of the token.
func TestAHoldThatAWithdrawalEndsThatComesLateIsSoonLost(t *testing.T) {
	through(t, func(s *server, r *relay, client lockstock.Client) {
		acquire := func(ctx context.Context) (*lockstock.Lock, error) {
			return lockstock.Acquire(ctx, client, "job", lockstock.WaitForever(), lockstock.Token("me"), lockstock.Lease(time.Minute))
		}
		s.do("LOCK.ACQUIRE", "job", "TOKEN", "other", "PX", 60_000)
		ctx, cancel := context.WithCancel(background)
		failed := make(chan error, 1)
		go func() {
			_, err := acquire(ctx)
			failed <- err
		}()
		s.eventually("it waits", func() bool { return s.waiters() == 1 })
		cut := s.overtake(r, overtakes{word: "RELEASE", by: lateness})
		cancel()
		s.is(<-failed, context.Canceled)
		cut()
		s.do("LOCK.RELEASE", "job", "other")
		s.isSoonLost(must(acquire(background)))
	})
}

// No attempt to release it was answered, so its token has it again.
func TestAHoldThatAReleaseEndsThatComesLateIsSoonLost(t *testing.T) {
	through(t, func(s *server, r *relay, client lockstock.Client) {
		acquire := func() *lockstock.Lock {
			return must(lockstock.Acquire(background, client, "job", lockstock.Token("me"), lockstock.Wait(time.Minute), lockstock.Lease(4*time.Minute)))
		}
		lock := acquire()
		cut := s.overtake(r, overtakes{word: "RELEASE", by: 6 * lateness, dead: true})
		released := make(chan error, 1)
		go func() { released <- lock.Release(background) }()
		cut()
		s.is(<-released, lockstock.ErrNotReleased)
		r.dead.Store(r.made.Load())
		again := acquire()
		equal(s, again.Fence(), lock.Fence())
		s.isSoonLost(again)
	})
}

func (s *server) isSoonLost(lock *lockstock.Lock) {
	s.Helper()
	equal(s, lock.Held(), true)
	s.eventually("it is ended", func() bool { return s.locks() == 0 })
	s.within(0, 5*time.Second, func() { <-lock.Context().Done() })
	s.is(context.Cause(lock.Context()), lockstock.ErrLost)
}
