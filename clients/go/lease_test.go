package lockstock_test

import (
	"context"
	"log/slog"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	lockstock "lockstock/clients/go"
)

// logged has what is logged.
type logged struct {
	slog.Handler
	warnings sync.Map
}

func (l *logged) Enabled(context.Context, slog.Level) bool { return true }

func (l *logged) Handle(ctx context.Context, record slog.Record) error {
	record.Attrs(func(attr slog.Attr) bool {
		l.warnings.Store(attr.Value.String(), record.Level)
		return true
	})
	return nil
}

// It is for the whole process, so each lock has a name of its own.
func TestALockThatIsDroppedIsWarnedOf(t *testing.T) {
	log, before := &logged{Handler: slog.DiscardHandler}, slog.Default()
	slog.SetDefault(slog.New(log))
	t.Cleanup(func() { slog.SetDefault(before) })
	t.Run("over", func(t *testing.T) {
		over(t, func(s *server, client lockstock.Client) {
			for _, name := range []string{"unattended", "released", "lost", "dropped"} {
				key, options := s.Name()+name, []lockstock.Option{lockstock.Lease(time.Second)}
				if name == "unattended" {
					options = []lockstock.Option{lockstock.Unattended()}
				}
				lock := must(lockstock.Acquire(background, client, key, options...))
				switch name {
				case "released":
					s.is(lock.Release(background), nil)
				case "lost":
					s.do("DEL", key)
					<-lock.Context().Done()
				}
				runtime.KeepAlive(lock)
			}
			warned := func(name string) bool {
				level, _ := log.warnings.Load(s.Name() + name)
				return level == slog.LevelWarn
			}
			s.eventually("it is warned of", func() bool {
				runtime.GC()
				return warned("dropped")
			})
			equal(s, warned("unattended") || warned("released") || warned("lost"), false)
		})
	})
}

func TestALockThatIsDroppedIsNotExtendedAnyMore(t *testing.T) {
	over(t, func(s *server, client lockstock.Client) {
		ctx := func() context.Context {
			return must(lockstock.Acquire(background, client, "job", lockstock.Lease(time.Second))).Context()
		}()
		s.eventually("its context ends", func() bool {
			runtime.GC()
			return ctx.Err() != nil
		})
		s.is(context.Cause(ctx), lockstock.ErrLost)
		s.eventually("it is free", func() bool { return s.locks() == 0 })
	})
}

func TestTheContextOfALockEndsWithTheOneItIsMadeOf(t *testing.T) {
	over(t, func(s *server, client lockstock.Client) {
		ctx, cancel := context.WithCancel(background)
		lock := must(lockstock.Acquire(ctx, client, "job", lockstock.Lease(time.Second)))
		cancel()
		<-lock.Context().Done()
		// The work may not have stopped yet.
		time.Sleep(2 * time.Second)
		equal(s, must(lock.Owned(background)), true)
		s.is(lock.Release(background), nil)
	})
}

func TestALeaseMayBeChanged(t *testing.T) {
	over(t, func(s *server, client lockstock.Client) {
		lock := must(lockstock.Acquire(background, client, "job", lockstock.Unattended(), lockstock.Lease(time.Second)))
		s.is(lock.Extend(background, time.Minute), nil)
		equal(s, lock.Left() > 50*time.Second, true)
		s.is(lock.Extend(background, time.Second), nil)
		s.within(0, 2*time.Second, func() { <-lock.Context().Done() })
		s.is(context.Cause(lock.Context()), lockstock.ErrLost)
	})
}

func TestALeaseThatIsMadeShorterIsExtendedInTime(t *testing.T) {
	over(t, func(s *server, client lockstock.Client) {
		lock := must(lockstock.Acquire(background, client, "job", lockstock.Lease(time.Minute)))
		s.is(lock.Extend(background, time.Second), nil)
		select {
		case <-lock.Context().Done():
			s.Fatal("it was lost")
		case <-time.After(2500 * time.Millisecond):
		}
		equal(s, lock.Left() <= time.Second, true)
		s.is(lock.Release(background), nil)
	})
}

func TestAShorterLeaseCountsThoughItsAnswerIsNotHeard(t *testing.T) {
	through(t, func(s *server, r *relay, client lockstock.Client) {
		lock := must(lockstock.Acquire(background, client, "job", lockstock.Unattended(), lockstock.Lease(time.Minute)))
		r.delay.Store(int64(300 * time.Millisecond))
		ctx, cancel := context.WithTimeout(background, 100*time.Millisecond)
		defer cancel()
		s.is(lock.Extend(ctx, time.Second), context.DeadlineExceeded)
		equal(s, lock.Left() <= time.Second, true)
		s.within(0, 2*time.Second, func() { <-lock.Context().Done() })
		s.is(context.Cause(lock.Context()), lockstock.ErrLost)
	})
}

func TestAGrantThatCannotBeKeptIsGivenBack(t *testing.T) {
	over(t, func(s *server, client lockstock.Client) {
		s.do("ACL", "SETUSER", "default", "-lock.extend")
		s.do("LOCK.ACQUIRE", "job", "TOKEN", "other", "PX", 60_000)
		failed := make(chan error, 1)
		go func() {
			_, err := lockstock.Acquire(background, client, "job", lockstock.Wait(time.Minute))
			failed <- err
		}()
		s.eventually("it waits", func() bool { return s.waiters() == 1 })
		s.do("LOCK.RELEASE", "job", "other")
		s.is(<-failed, lockstock.ErrRefused)
		s.within(0, 10*time.Second, func() { s.eventually("the lock is free", func() bool { return s.locks() == 0 }) })
	})
}

func TestAServerThatHasNoRoomIsAskedAgain(t *testing.T) {
	over(t, func(s *server, client lockstock.Client) {
		lock := must(lockstock.Acquire(background, client, "job"))
		full := func() {
			s.do("CONFIG", "SET", "maxclients", "1")
			s.do("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
			time.AfterFunc(time.Second, func() { s.rdb.Do(background, "CONFIG", "SET", "maxclients", "1000") })
		}
		full()
		other, err := lockstock.Acquire(background, client, "other", lockstock.Wait(10*time.Second))
		s.is(err, nil)
		s.is(other.Release(background), nil)
		full()
		s.is(lock.Release(background), nil)
		s.eventually("it is released", func() bool { return s.locks() == 0 })
	})
}

func TestAnExtensionThatArrivesLateDoesNotChangeALaterOne(t *testing.T) {
	through(t, func(s *server, r *relay, client lockstock.Client) {
		lock := must(lockstock.Acquire(background, client, "job", lockstock.Unattended(), lockstock.Lease(time.Minute)))
		r.late.Store(r.made.Load())
		s.is(lock.Extend(background, 8*time.Second), lockstock.ErrUnreachable)
		r.late.Store(0)
		s.eventually("it is extended", func() bool { return lock.Extend(background, time.Minute) == nil })
		time.Sleep(lateness + 8*time.Second)
		equal(s, must(lock.Owned(background)), true)
		s.is(lock.Release(background), nil)
	})
}

// slow is a client whose first extension takes a second to the server.
type slow struct {
	lockstock.Client
	slept atomic.Bool
}

func (c *slow) Do(ctx context.Context, command lockstock.Command) (any, error) {
	if command.Words[0] == "LOCK.EXTEND" && !c.slept.Swap(true) {
		time.Sleep(time.Second)
		ctx = context.WithoutCancel(ctx)
	}
	return c.Client.Do(ctx, command)
}

func TestAnExtensionThatIsCancelledIsNotOvertaken(t *testing.T) {
	over(t, func(s *server, client lockstock.Client) {
		options := []lockstock.Option{lockstock.Unattended(), lockstock.Lease(time.Minute)}
		lock := must(lockstock.Acquire(background, &slow{Client: client}, "job", options...))
		brief, cancel := context.WithTimeout(background, 100*time.Millisecond)
		defer cancel()
		s.is(lock.Extend(brief, 3*time.Second), context.DeadlineExceeded)
		s.is(lock.Extend(background, time.Minute), nil)
		time.Sleep(4500 * time.Millisecond)
		equal(s, must(lock.Owned(background)), true)
		s.is(lock.Release(background), nil)
	})
}
