package lockstock_test

import (
	"context"
	"errors"
	"math"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	lockstock "lockstock/clients/go"
	"lockstock/clients/go/overgoredis"
)

// hundred is as many goroutines as share one client.
const hundred = 100

func TestAHoldIsExtendedWhileItLivesAndItsContextEndsWithIt(t *testing.T) {
	over(t, func(s *server, client lockstock.Client) {
		lock := must(lockstock.Acquire(background, client, "job", lockstock.Lease(time.Second)))
		time.Sleep(2 * time.Second)
		equal(s, lock.Held(), true)
		equal(s, lock.Context().Err(), nil)
		equal(s, must(lock.Owned(background)), true)
		equal(s, must(lockstock.Locked(background, client, "job")), true)
		_, err := lockstock.Acquire(background, client, "job")
		s.is(err, lockstock.ErrNotAcquired)
		equal(s, strings.Contains(err.Error(), "job"), true)
		s.is(lock.Release(background), nil)
		s.is(lock.Release(background), nil)
		s.is(context.Cause(lock.Context()), lockstock.ErrReleased)
		equal(s, lock.Held(), false)
		equal(s, must(lockstock.Locked(background, client, "job")), false)
		again := must(lockstock.Acquire(background, client, "job"))
		equal(s, again.Fence() > lock.Fence(), true)
		s.is(again.Release(background), nil)
		equal(s, s.do("EXISTS", "job"), any(int64(0)))
	})
}

func TestAHundredGoroutinesAreInsideOneByOne(t *testing.T) {
	over(t, func(s *server, client lockstock.Client) {
		var inside atomic.Int32
		var done sync.WaitGroup
		for range hundred {
			done.Go(func() {
				lock, err := lockstock.Acquire(background, client, "job", lockstock.Wait(time.Minute), lockstock.Lease(3*time.Second))
				if err != nil {
					s.Error(err)
					return
				}
				if inside.Add(1) != 1 {
					s.Error("two were inside")
				}
				time.Sleep(time.Millisecond)
				inside.Add(-1)
				if err := lock.Release(background); err != nil {
					s.Error(err)
				}
			})
		}
		done.Wait()
		equal(s, s.locks(), 0)
	})
}

func TestAHoldThatAnAdministratorEndedIsLost(t *testing.T) {
	over(t, func(s *server, client lockstock.Client) {
		lock := must(lockstock.Acquire(background, client, "job", lockstock.Lease(time.Second)))
		s.do("DEL", "job")
		equal(s, must(lock.Owned(background)), false)
		s.within(0, time.Second, func() { <-lock.Context().Done() })
		s.is(context.Cause(lock.Context()), lockstock.ErrLost)
		equal(s, lock.Held(), false)
		s.is(lock.Extend(background, 0), lockstock.ErrLost)
		s.is(lock.Release(background), lockstock.ErrLost)
	})
}

func TestALeaseThatNobodyCouldExtendIsLostByTheClock(t *testing.T) {
	over(t, func(s *server, client lockstock.Client) {
		lock := must(lockstock.Acquire(background, client, "job", lockstock.Lease(time.Second)))
		thaw := s.freeze()
		s.within(600*time.Millisecond, 1200*time.Millisecond, func() { <-lock.Context().Done() })
		s.is(context.Cause(lock.Context()), lockstock.ErrLost)
		s.within(0, time.Second, func() { s.is(lock.Release(background), lockstock.ErrNotReleased) })
		thaw()
		s.eventually("the lease is over", func() bool { return s.locks() == 0 })
	})
}

func TestAReleaseEndsInTimeAndSaysThatItIsNotSure(t *testing.T) {
	over(t, func(s *server, client lockstock.Client) {
		lock := must(lockstock.Acquire(background, client, "job"))
		other := must(lockstock.Acquire(background, client, "other"))
		thaw := s.freeze()
		brief, cancel := context.WithTimeout(background, 100*time.Millisecond)
		defer cancel()
		s.within(0, time.Second, func() {
			err := other.Release(brief)
			s.is(err, lockstock.ErrNotReleased)
			s.is(err, context.DeadlineExceeded)
		})
		s.within(4*time.Second, 6*time.Second, func() { s.is(lock.Release(background), lockstock.ErrNotReleased) })
		thaw()
		over := must(lockstock.Acquire(background, client, "third"))
		ended, cancel := context.WithCancel(background)
		cancel()
		// Deferred with a context that is over, it releases all the same.
		over.Release(ended)
		s.eventually("it is released in the background", func() bool { return s.do("EXISTS", "third") == any(int64(0)) })
	})
}

func TestAWaitEndsInTimeWhateverTheServerDoes(t *testing.T) {
	over(t, func(s *server, client lockstock.Client) {
		s.do("LOCK.ACQUIRE", "job", "TOKEN", "other", "PX", 60_000)
		s.within(500*time.Millisecond, 2*time.Second, func() {
			_, err := lockstock.Acquire(background, client, "job", lockstock.Wait(500*time.Millisecond))
			s.is(err, lockstock.ErrNotAcquired)
		})
		failed := make(chan error)
		begun := time.Now()
		go func() {
			_, err := lockstock.Acquire(background, client, "job", lockstock.Wait(time.Second))
			failed <- err
		}()
		s.eventually("it waits", func() bool { return s.waiters() == 1 })
		thaw := s.freeze()
		s.is(<-failed, lockstock.ErrUnreachable)
		equal(s, time.Since(begun) <= 3500*time.Millisecond, true)
		s.within(time.Second, 3500*time.Millisecond, func() {
			_, err := lockstock.Acquire(background, client, "free", lockstock.Wait(time.Second))
			s.is(err, lockstock.ErrUnreachable)
		})
		thaw()
		s.eventually("nobody waits, and nothing is held", func() bool {
			return s.waiters() == 0 && s.do("EXISTS", "free") == any(int64(0))
		})
		s.kill()
		s.within(time.Second, 3500*time.Millisecond, func() {
			_, err := lockstock.Acquire(background, client, "job", lockstock.Wait(time.Second))
			s.is(err, lockstock.ErrUnreachable)
		})
		s.within(0, 3*time.Second, func() {
			_, err := lockstock.NewStock(client, "mug").Take(background, "ann", lockstock.Order{})
			s.is(err, lockstock.ErrUnreachable)
		})
	})
}

func TestACancelledWaitIsWithdrawn(t *testing.T) {
	over(t, func(s *server, client lockstock.Client) {
		s.do("LOCK.ACQUIRE", "job", "TOKEN", "other", "PX", 60_000)
		for _, frozen := range []bool{false, true} {
			ctx, cancel := context.WithCancelCause(background)
			failed := make(chan error)
			for range hundred {
				go func() {
					_, err := lockstock.Acquire(ctx, client, "job", lockstock.WaitForever())
					failed <- err
				}()
			}
			s.eventually("they wait", func() bool { return s.waiters() == hundred })
			thaw := func() {}
			if frozen {
				thaw = s.freeze()
			}
			enough := errors.New("enough")
			cancel(enough)
			s.within(0, 500*time.Millisecond, func() {
				for range hundred {
					s.is(<-failed, enough)
				}
			})
			thaw()
			s.eventually("nobody waits", func() bool { return s.waiters() == 0 })
		}
		s.do("LOCK.RELEASE", "job", "other")
		equal(s, s.do("EXISTS", "job"), any(int64(0)))
	})
}

func TestACancelledWaitReturnsAtOnce(t *testing.T) {
	over(t, func(s *server, client lockstock.Client) {
		s.do("LOCK.ACQUIRE", "job", "TOKEN", "other", "PX", 60_000)
		for range 2 {
			// A busy machine may be late now and then, but not each time.
			late := time.Hour
			for range 10 {
				ctx, cancel := context.WithCancel(background)
				failed := make(chan error)
				go func() {
					_, err := lockstock.Acquire(ctx, client, "job", lockstock.WaitForever())
					failed <- err
				}()
				time.Sleep(100 * time.Millisecond)
				begun := time.Now()
				cancel()
				s.is(<-failed, context.Canceled)
				late = min(late, time.Since(begun))
			}
			equal(s, late < 100*time.Millisecond, true)
			s.freeze()
		}
	})
}

func TestARequestThatIsCancelledAtAnyTimeLeavesNothing(t *testing.T) {
	over(t, func(s *server, client lockstock.Client) {
		var done sync.WaitGroup
		for number := range 3 * hundred {
			done.Go(func() {
				ctx, cancel := context.WithTimeout(background, time.Duration(number)*20*time.Microsecond)
				defer cancel()
				lock, err := lockstock.Acquire(ctx, client, "job", lockstock.Wait(time.Minute), lockstock.Lease(time.Minute))
				if err == nil {
					err = lock.Release(background)
				}
				if err != nil && !errors.Is(err, context.DeadlineExceeded) {
					s.Error(err)
				}
			})
		}
		done.Wait()
		s.eventually("nothing is left", func() bool { return s.waiters() == 0 && s.locks() == 0 })
	})
}

func TestAWaitGoesOnWhenItsConnectionIsCut(t *testing.T) {
	over(t, func(s *server, client lockstock.Client) {
		s.do("LOCK.ACQUIRE", "job", "TOKEN", "other", "PX", 60_000)
		fences := make(chan int64, 1)
		go func() {
			lock := must(lockstock.Acquire(background, client, "job", lockstock.WaitForever(), lockstock.Token("first")))
			fences <- lock.Fence()
		}()
		s.eventually("it waits", func() bool { return s.waiters() == 1 })
		for range 3 {
			s.do("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
			s.eventually("it waits again", func() bool { return s.waiters() == 1 })
		}
		s.do("LOCK.RELEASE", "job", "other")
		equal(s, <-fences > 0, true)
	})
}

func TestASessionIsLostWithItsConnection(t *testing.T) {
	over(t, func(s *server, client lockstock.Client) {
		for _, extends := range []lockstock.Option{lockstock.Lease(time.Minute), lockstock.Unattended()} {
			lock := must(lockstock.Acquire(background, client, "job", lockstock.Session(), lockstock.Wait(time.Second), extends))
			time.Sleep(1500 * time.Millisecond)
			equal(s, lock.Held(), true)
			s.do("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
			s.eventually("the lock is free", func() bool { return s.do("EXISTS", "job") == any(int64(0)) })
			s.within(0, 3*time.Second, func() { <-lock.Context().Done() })
			s.is(context.Cause(lock.Context()), lockstock.ErrLost)
			s.is(lock.Release(background), lockstock.ErrLost)
		}
		lock := must(lockstock.Acquire(background, client, "job", lockstock.Session()))
		s.is(lock.Release(background), nil)
		equal(s, s.locks(), 0)
	})
}

func TestModesAndSeveralKeys(t *testing.T) {
	over(t, func(s *server, client lockstock.Client) {
		acquire := func(key string, options ...lockstock.Option) (*lockstock.Lock, error) {
			return lockstock.Acquire(background, client, key, options...)
		}
		reader := must(acquire("page", lockstock.Shared()))
		other := must(acquire("page", lockstock.Shared()))
		_, err := acquire("page")
		s.is(err, lockstock.ErrNotAcquired)
		s.is(errors.Join(reader.Release(background), other.Release(background)), nil)
		must(acquire("pool", lockstock.Limit(1)))
		_, err = acquire("pool", lockstock.Limit(1))
		s.is(err, lockstock.ErrNotAcquired)
		must(acquire("pool", lockstock.Limit(2)))
		both := must(lockstock.AcquireAll(background, client, []string{"a", "b", "a"}, lockstock.Lease(time.Second)))
		_, err = acquire("b")
		s.is(err, lockstock.ErrNotAcquired)
		time.Sleep(2 * time.Second)
		equal(s, must(both.Owned(background)), true)
		s.is(both.Release(background), nil)
		both = must(lockstock.AcquireAll(background, client, []string{"a", "b"}, lockstock.Wait(time.Second)))
		s.do("DEL", "a")
		equal(s, must(both.Owned(background)), false)
		s.is(both.Release(background), lockstock.ErrLost)
		equal(s, s.do("EXISTS", "b"), any(int64(0)))
	})
}

func TestBadArgumentsAreRefusedWhereTheyAreMade(t *testing.T) {
	over(t, func(s *server, client lockstock.Client) {
		for _, wrong := range [][]lockstock.Option{
			{lockstock.Lease(0)}, {lockstock.Lease(math.MaxInt64)}, {lockstock.Lease(-time.Second)}, {lockstock.Lease(time.Microsecond)}, {lockstock.Wait(-1)},
			{lockstock.Limit(0)}, {lockstock.Limit(-1)}, {lockstock.Limit(2), lockstock.Shared()}, {lockstock.Replicas(-1)},
			{lockstock.Token("")}, {lockstock.Token(strings.Repeat("x", 513))}, {nil},
		} {
			_, err := lockstock.Acquire(background, client, "job", wrong...)
			s.is(err, lockstock.ErrInvalid)
			s.is(err, lockstock.Err)
		}
		for _, keys := range [][]string{nil, {""}, {"a", ""}} {
			_, err := lockstock.AcquireAll(background, client, keys)
			s.is(err, lockstock.ErrInvalid)
		}
		_, err := lockstock.AcquireAll(background, client, []string{"a", "b"}, lockstock.Shared())
		s.is(err, lockstock.ErrInvalid)
		_, err = lockstock.Acquire(background, nil, "job")
		s.is(err, lockstock.ErrInvalid)
		_, err = lockstock.Locked(background, client, "")
		s.is(err, lockstock.ErrInvalid)
		lock := must(lockstock.Acquire(background, client, "job"))
		s.is(lock.Extend(background, -1), lockstock.ErrInvalid)
		_, err = lock.Guard(background)
		s.is(err, lockstock.ErrInvalid)
		_, err = lock.Guard(background, "SET", "x", struct{}{})
		s.is(err, lockstock.ErrInvalid)
		equal(s, s.locks(), 1)
	})
}

func TestAGrantCountsOnlyWithItsReplicas(t *testing.T) {
	over(t, func(s *server, client lockstock.Client) {
		_, err := lockstock.Acquire(background, client, "job", lockstock.Replicas(1), lockstock.Wait(time.Second))
		s.is(err, lockstock.ErrNotReplicated)
		s.is(err, lockstock.ErrNotAcquired)
		equal(s, s.do("EXISTS", "job"), any(int64(0)))
		host, port, _ := strings.Cut(s.address, ":")
		replica := start(s.T, "--replicaof", host+" "+port, "--repl-diskless-sync-delay", "0")
		s.eventually("it follows", func() bool {
			return strings.Contains(replica.do("INFO", "replication").(string), "master_link_status:up")
		})
		lock := must(lockstock.Acquire(background, client, "job", lockstock.Replicas(1)))
		equal(s, replica.do("EXISTS", "job"), any(int64(1)))
		s.is(lock.Release(background), nil)
	})
}

func TestAGuardedCommandRunsOnlyWhileTheHoldLasts(t *testing.T) {
	over(t, func(s *server, client lockstock.Client) {
		lock := must(lockstock.Acquire(background, client, "job"))
		equal(s, must(lock.Guard(background, "SET", "x", 1)), any("OK"))
		equal(s, must(lock.Guard(background, "INCRBY", []byte("x"), int64(2))), any(int64(3)))
		equal(s, must(lock.Guard(background, "GET", "none")), nil)
		_, err := lock.Guard(background, "NONSENSE")
		s.is(err, lockstock.ErrRefused)
		equal(s, errors.Is(err, lockstock.ErrNoModule), false)
		s.do("DEL", "job")
		_, err = lock.Guard(background, "SET", "x", 4)
		s.is(err, lockstock.ErrLost)
		s.is(context.Cause(lock.Context()), lockstock.ErrLost)
		equal(s, lock.Held(), false)
		equal(s, s.do("GET", "x"), any("3"))
	})
}

func TestALateReleaseDoesNotEndALaterHoldOfItsToken(t *testing.T) {
	over(t, func(s *server, client lockstock.Client) {
		first := must(lockstock.Acquire(background, client, "job", lockstock.Token("me")))
		s.do("DEL", "job")
		// That of another process.
		other := overgoredis.New(s.rdb)
		defer other.Close()
		second := must(lockstock.Acquire(background, other, "job", lockstock.Token("me")))
		equal(s, second.Token(), "me")
		s.is(first.Release(background), lockstock.ErrLost)
		equal(s, must(second.Owned(background)), true)
		s.is(second.Release(background), nil)
	})
}

func TestErrorsOfTheServerHaveNames(t *testing.T) {
	over(t, func(s *server, client lockstock.Client) {
		s.do("SET", "text", "x")
		_, err := lockstock.Acquire(background, client, "text", lockstock.Wait(math.MaxInt64))
		s.is(err, lockstock.ErrRefused)
		var answer *lockstock.ServerError
		equal(s, errors.As(err, &answer) && strings.HasPrefix(answer.Text, "WRONGTYPE"), true)
		one := must(lockstock.Acquire(background, client, "one", lockstock.Token("ann")))
		must(lockstock.Acquire(background, client, "two", lockstock.Token("bob")))
		go lockstock.Acquire(background, client, "two", lockstock.Token("ann"), lockstock.Wait(5*time.Second))
		s.eventually("ann waits", func() bool { return s.waiters() == 1 })
		_, err = lockstock.Acquire(background, client, "one", lockstock.Token("bob"), lockstock.Wait(time.Second))
		s.is(err, lockstock.ErrDeadlock)
		s.is(one.Release(background), nil)
		plain := startPlain(s.T)
		for _, connect := range libraries {
			_, err = lockstock.Acquire(background, connect(s.T, plain.address), "job", lockstock.Wait(time.Minute))
			s.is(err, lockstock.ErrNoModule)
		}
	})
}

func TestALockOfWhichOnlyTheReleaseIsDeferredIsExtended(t *testing.T) {
	over(t, func(s *server, client lockstock.Client) {
		lock := must(lockstock.Acquire(background, client, "job", lockstock.Lease(time.Second)))
		defer lock.Release(background)
		ctx := lock.Context()
		for range 30 {
			runtime.GC()
			time.Sleep(100 * time.Millisecond)
		}
		equal(s, context.Cause(ctx), nil)
		equal(s, s.locks(), 1)
	})
}
