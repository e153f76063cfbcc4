package lockstock_test

import (
	"context"
	"errors"
	"math"
	"testing"
	"time"

	lockstock "lockstock/clients/go"
	"lockstock/clients/go/overgoredis"
)

func TestATokenHasALockOnceAtATime(t *testing.T) {
	over(t, func(s *server, client lockstock.Client) {
		acquire := func(key string, options ...lockstock.Option) (*lockstock.Lock, error) {
			return lockstock.Acquire(background, client, key, append(options, lockstock.Token("worker-7"))...)
		}
		lock := must(acquire("job"))
		for _, options := range [][]lockstock.Option{nil, {lockstock.Shared()}, {lockstock.Wait(time.Minute)}} {
			s.within(0, time.Second, func() {
				_, err := acquire("job", options...)
				s.is(err, lockstock.ErrAlreadyHeld)
			})
		}
		_, err := lockstock.AcquireAll(background, client, []string{"other", "job"}, lockstock.Token("worker-7"))
		s.is(err, lockstock.ErrAlreadyHeld)
		equal(s, must(lock.Owned(background)), true)
		// Another lock is another thing, and so is a later time.
		s.is(must(acquire("other")).Release(background), nil)
		s.is(lock.Release(background), nil)
		s.is(must(acquire("job")).Release(background), nil)
		// One that waits has asked for it, too.
		s.do("LOCK.ACQUIRE", "job", "TOKEN", "another", "PX", 60_000)
		granted := make(chan *lockstock.Lock, 1)
		go func() { granted <- must(acquire("job", lockstock.Wait(time.Minute))) }()
		s.eventually("it waits", func() bool { return s.waiters() == 1 })
		_, err = acquire("job", lockstock.Wait(time.Minute))
		s.is(err, lockstock.ErrAlreadyHeld)
		s.do("LOCK.RELEASE", "job", "another")
		s.is((<-granted).Release(background), nil)
		equal(s, s.locks(), 0)
	})
}

// loose is a client that cannot be compared.
type loose struct {
	lockstock.Client
	_ []int
}

// odd is a client that cannot be compared, though its type can.
type odd struct {
	lockstock.Client
	more any
}

// With the context of a hold, a request would wait for its own end.
func TestARequestUnderTheContextOfItsLockIsRefused(t *testing.T) {
	over(t, func(s *server, client lockstock.Client) {
		outer := must(lockstock.Acquire(background, client, "job"))
		inner := must(lockstock.AcquireAll(outer.Context(), client, []string{"a", "b"}))
		pool := must(lockstock.Acquire(inner.Context(), client, "pool", lockstock.Limit(2)))
		ctx, cancel := context.WithTimeout(pool.Context(), time.Minute)
		defer cancel()
		for _, key := range []string{"job", "b", "pool"} {
			for _, option := range []lockstock.Option{lockstock.Wait(0), lockstock.WaitForever(), lockstock.Shared()} {
				s.within(0, time.Second, func() {
					_, err := lockstock.Acquire(ctx, client, key, option)
					s.is(err, lockstock.ErrAlreadyHeld)
				})
			}
		}
		_, err := lockstock.AcquireAll(ctx, client, []string{"x", "b"})
		s.is(err, lockstock.ErrAlreadyHeld)
		// One more permit is another thing; two are all that there are.
		second := must(lockstock.Acquire(ctx, client, "pool", lockstock.Limit(2)))
		_, err = lockstock.Acquire(second.Context(), client, "pool", lockstock.Limit(2), lockstock.WaitForever())
		s.is(err, lockstock.ErrAlreadyHeld)
		// So are another context, a client that cannot be compared, and a hold that is over.
		_, err = lockstock.Acquire(background, client, "job")
		s.is(err, lockstock.ErrNotAcquired)
		for _, other := range []lockstock.Client{loose{Client: client}, odd{client, []int{}}} {
			outside := must(lockstock.Acquire(ctx, other, "free"))
			_, err = lockstock.Acquire(outside.Context(), other, "free")
			s.is(err, lockstock.ErrNotAcquired)
			s.is(outside.Release(background), nil)
			_, err = lockstock.Acquire(background, other, "free", lockstock.Token("me"))
			s.is(err, lockstock.ErrInvalid)
		}
		kept := context.WithoutCancel(second.Context())
		for _, lock := range []*lockstock.Lock{second, pool, inner, outer} {
			s.is(lock.Release(background), nil)
		}
		s.is(must(lockstock.AcquireAll(kept, client, []string{"job", "a", "pool"})).Release(background), nil)
	})
}

func TestAWithdrawalDoesNotEndALaterHoldOfItsToken(t *testing.T) {
	over(t, func(s *server, client lockstock.Client) {
		for range 10 {
			s.do("LOCK.ACQUIRE", "job", "TOKEN", "other", "PX", 60_000)
			ctx, cancel := context.WithCancel(background)
			failed := make(chan error)
			go func() {
				_, err := lockstock.Acquire(ctx, client, "job", lockstock.WaitForever(), lockstock.Token("me"))
				failed <- err
			}()
			s.eventually("it waits", func() bool { return s.waiters() == 1 })
			cancel()
			s.is(<-failed, context.Canceled)
			s.do("LOCK.RELEASE", "job", "other")
			lock := must(lockstock.Acquire(background, client, "job", lockstock.Wait(10*time.Second), lockstock.Token("me")))
			time.Sleep(100 * time.Millisecond)
			equal(s, must(lock.Owned(background)), true)
			s.is(lock.Release(background), nil)
		}
	})
}

func TestARequestThatWaitsForItsTokenToLeaveIsCancelledAtOnce(t *testing.T) {
	over(t, func(s *server, client lockstock.Client) {
		s.do("LOCK.ACQUIRE", "job", "TOKEN", "other", "PX", 60_000)
		acquire := func(ctx context.Context) error {
			_, err := lockstock.Acquire(ctx, client, "job", lockstock.WaitForever(), lockstock.Token("me"))
			return err
		}
		ctx, cancel := context.WithCancel(background)
		failed := make(chan error, 1)
		go func() { failed <- acquire(ctx) }()
		s.eventually("it waits", func() bool { return s.waiters() == 1 })
		s.freeze()
		cancel()
		s.is(<-failed, context.Canceled)
		brief, cancel := context.WithTimeout(background, 100*time.Millisecond)
		defer cancel()
		s.within(0, time.Second, func() {
			err := acquire(brief)
			s.is(err, context.DeadlineExceeded)
			equal(s, errors.Is(err, lockstock.ErrUnreachable), false)
		})
	})
}

// The server has extended the first hold, though it did not hear of it; asked again, it gives the same hold.
func TestALostHoldDoesNotTouchALaterOneWithItsFence(t *testing.T) {
	through(t, func(s *server, r *relay, client lockstock.Client) {
		acquire := func() *lockstock.Lock {
			options := []lockstock.Option{lockstock.Token("me"), lockstock.Wait(10 * time.Second), lockstock.Lease(4 * time.Second)}
			return must(lockstock.Acquire(background, client, "job", options...))
		}
		first := acquire()
		r.dead.Store(math.MaxInt64)
		s.do("LOCK.EXTEND", "job", "me", "PX", 60_000)
		<-first.Context().Done()
		s.is(context.Cause(first.Context()), lockstock.ErrLost)
		r.dead.Store(r.made.Load())
		second := acquire()
		equal(s, second.Fence(), first.Fence())
		s.is(first.Extend(background, 100*time.Millisecond), lockstock.ErrLost)
		time.Sleep(500 * time.Millisecond)
		s.is(first.Release(background), lockstock.ErrLost)
		equal(s, s.locks(), 1)
		// rueidis needs some seconds to give its connections up.
		s.eventually("it is released", func() bool { return second.Release(background) == nil || s.locks() == 0 })
	})
}

func TestAClientThatIsClosedEndsWhatWaits(t *testing.T) {
	over(t, func(s *server, client lockstock.Client) {
		s.do("LOCK.ACQUIRE", "taken", "TOKEN", "other", "PX", 60_000)
		session := must(lockstock.Acquire(background, client, "session", lockstock.Session(), lockstock.Lease(time.Minute)))
		lock := must(lockstock.Acquire(background, client, "job", lockstock.Lease(time.Second)))
		failed := make(chan error, 1)
		go func() {
			_, err := lockstock.Acquire(background, client, "taken", lockstock.WaitForever())
			failed <- err
		}()
		s.eventually("it waits", func() bool { return s.waiters() == 1 })
		s.within(0, 3*time.Second, func() {
			s.is(client.(interface{ Close() error }).Close(), nil)
			s.is(<-failed, lockstock.ErrClosed)
			_, err := lockstock.Acquire(background, client, "free", lockstock.WaitForever(), lockstock.Session())
			s.is(err, lockstock.ErrClosed)
			_, err = lockstock.NewStock(client, "mug").Info(background)
			s.is(err, lockstock.ErrClosed)
			<-lock.Context().Done()
			s.is(lock.Release(background), lockstock.ErrClosed)
		})
		s.eventually("nothing is left", func() bool { return s.waiters() == 0 && s.do("EXISTS", "session", "job") == any(int64(0)) })
		s.within(0, 2*time.Second, func() { <-session.Context().Done() })
		s.is(context.Cause(session.Context()), lockstock.ErrLost)
	})
}

func TestAReleaseThatArrivesLateDoesNotEndALaterHoldOfItsToken(t *testing.T) {
	through(t, func(s *server, r *relay, client lockstock.Client) {
		s.do("LOCK.ACQUIRE", "job", "TOKEN", "other", "PX", 60_000)
		ctx, cancel := context.WithCancel(background)
		failed := make(chan error, 1)
		go func() {
			_, err := lockstock.Acquire(ctx, client, "job", lockstock.WaitForever(), lockstock.Token("me"))
			failed <- err
		}()
		s.eventually("it waits", func() bool { return s.waiters() == 1 })
		r.late.Store(r.made.Load())
		cancel()
		s.is(<-failed, context.Canceled)
		s.do("LOCK.RELEASE", "job", "other")
		lock := must(lockstock.Acquire(background, client, "job", lockstock.Wait(time.Minute), lockstock.Token("me")))
		r.late.Store(0)
		time.Sleep(lateness + time.Second)
		equal(s, must(lock.Owned(background)), true)
		equal(s, lock.Held(), true)
		s.is(lock.Release(background), nil)
	})
}

func TestTheTimeInWhichATokenLeavesIsPartOfTheWait(t *testing.T) {
	over(t, func(s *server, client lockstock.Client) {
		replicas := func(number int) { s.rdb.Do(background, "CONFIG", "SET", "min-replicas-to-write", number) }
		lock := must(lockstock.Acquire(background, client, "a", lockstock.Token("me")))
		s.do("LOCK.ACQUIRE", "b", "TOKEN", "other", "PX", 60_000)
		replicas(1)
		released := make(chan error, 1)
		go func() { released <- lock.Release(background) }()
		time.Sleep(100 * time.Millisecond)
		time.AfterFunc(2200*time.Millisecond, func() { replicas(0) })
		_, err := lockstock.AcquireAll(background, client, []string{"a", "b"}, lockstock.Token("me"), lockstock.Wait(time.Second))
		s.is(err, lockstock.ErrNotAcquired)
		s.is(<-released, nil)
	})
}

// busy is a client that has no connection left for a wait or a session.
type busy struct{ lockstock.Client }

func (b *busy) Dedicate(ctx context.Context, _ string) (lockstock.Conn, error) {
	<-ctx.Done()
	return nil, context.Cause(ctx)
}

func TestARequestThatWasNotSentIsNotWithdrawn(t *testing.T) {
	over(t, func(s *server, client lockstock.Client) {
		// The token's hold is one of another process.
		other := overgoredis.New(s.rdb)
		defer other.Close()
		lock := must(lockstock.Acquire(background, other, "job", lockstock.Token("me")))
		ended, cancel := context.WithCancel(background)
		cancel()
		_, err := lockstock.Acquire(ended, client, "job", lockstock.Token("me"))
		s.is(err, context.Canceled)
		brief, cancel := context.WithTimeout(background, 100*time.Millisecond)
		defer cancel()
		_, err = lockstock.Acquire(brief, &busy{client}, "job", lockstock.Token("me"), lockstock.Session())
		s.is(err, context.DeadlineExceeded)
		time.Sleep(500 * time.Millisecond)
		equal(s, must(lock.Owned(background)), true)
		s.is(lock.Release(background), nil)
	})
}

func TestALostHoldOfSeveralKeysDoesNotEndALaterOneOfItsToken(t *testing.T) {
	over(t, func(s *server, client lockstock.Client) {
		first := must(lockstock.AcquireAll(background, client, []string{"a", "b"}, lockstock.Token("me")))
		s.do("DEL", "b")
		s.is(first.Extend(background, 0), lockstock.ErrLost)
		second := must(lockstock.Acquire(background, client, "a", lockstock.Token("me")))
		equal(s, second.Fence(), first.Fence())
		s.is(first.Release(background), lockstock.ErrLost)
		equal(s, must(second.Owned(background)), true)
		s.is(second.Release(background), nil)
	})
}
