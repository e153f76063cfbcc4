package lockstock_test

import (
	"context"
	"errors"
	"testing"
	"time"

	lockstock "lockstock/clients/go"
)

func TestACancelledCallSaysThatItWasAndWhy(t *testing.T) {
	over(t, func(s *server, client lockstock.Client) {
		s.do("LOCK.ACQUIRE", "job", "TOKEN", "other", "PX", "60000")
		ctx, cancel := context.WithCancelCause(background)
		outcome := make(chan error, 1)
		go func() {
			_, err := lockstock.Acquire(ctx, client, "job", lockstock.WaitForever())
			outcome <- err
		}()
		s.eventually("it waits", func() bool { return s.waiters() == 1 })
		why := errors.New("the deploy was called off")
		cancel(why)
		err := <-outcome
		s.is(err, context.Canceled)
		s.is(err, why)
		_, err = lockstock.Locked(ctx, client, "job")
		s.is(err, context.Canceled)
		s.is(err, why)
		late, cancelLate := context.WithDeadlineCause(background, time.Now(), why)
		defer cancelLate()
		_, err = lockstock.Acquire(late, client, "job")
		s.is(err, context.DeadlineExceeded)
		s.is(err, why)
		s.is(err, lockstock.Err)
	})
}

// Its work may use another lock with the context of the lost one.
func TestTheLossOfALockIsNotTakenForThatOfAnother(t *testing.T) {
	over(t, func(s *server, client lockstock.Client) {
		outer := must(lockstock.Acquire(background, client, "outer", lockstock.Lease(time.Second)))
		inner := must(lockstock.Acquire(background, client, "inner"))
		s.do("DEL", "outer")
		<-outer.Context().Done()
		_, owned := inner.Owned(outer.Context())
		_, guarded := inner.Guard(outer.Context(), "INCR", "n")
		for _, err := range []error{owned, guarded, inner.Extend(outer.Context(), 0)} {
			s.is(err, context.Canceled)
			equal(s, errors.Is(err, lockstock.ErrLost), false)
		}
		s.is(inner.Context().Err(), nil)
		s.is(inner.Release(background), nil)
	})
}

// A connection that was made in the same instant in which nothing waited for it any more was taken for none.
func TestASessionIsAcquiredEachTime(t *testing.T) {
	over(t, func(s *server, client lockstock.Client) {
		for range 2_000 {
			lock, err := lockstock.Acquire(background, client, "job", lockstock.Session())
			if err != nil {
				s.Fatal(err)
			}
			s.is(lock.Release(background), nil)
		}
	})
}
