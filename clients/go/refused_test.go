package lockstock_test

import (
	"context"
	"io"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	lockstock "lockstock/clients/go"
)

func TestAServerThatRunsALongScriptIsAskedAgain(t *testing.T) {
	over(t, func(s *server, client lockstock.Client) {
		lock := must(lockstock.Acquire(background, client, "job"))
		s.do("CONFIG", "SET", "busy-reply-threshold", "50")
		script := "local function now() local t = redis.call('TIME') return t[1] * 1000 + t[2] / 1000 end local e = now() + 1500 repeat until now() > e"
		go s.rdb.Do(background, "EVAL", script, "0")
		time.Sleep(300 * time.Millisecond)
		other := must(lockstock.Acquire(background, client, "other", lockstock.Wait(10*time.Second)))
		s.is(other.Release(background), nil)
		go s.rdb.Do(background, "EVAL", script, "0")
		time.Sleep(300 * time.Millisecond)
		s.is(lock.Release(background), nil)
	})
}

func TestAReleaseIsSentAgainWhileTheServerMayNotWrite(t *testing.T) {
	over(t, func(s *server, client lockstock.Client) {
		replicas := func(number int) { s.do("CONFIG", "SET", "min-replicas-to-write", number) }
		lock := must(lockstock.Acquire(background, client, "job"))
		replicas(1)
		released := make(chan error, 1)
		go func() { released <- lock.Release(background) }()
		time.Sleep(time.Second)
		replicas(0)
		s.is(<-released, nil)
		// A grant that could not be heard of is given back.
		_, err := lockstock.Acquire(background, &deaf{Client: client, then: func() { replicas(1) }}, "job", lockstock.Lease(time.Hour))
		s.is(err, lockstock.ErrRefused)
		time.Sleep(time.Second)
		replicas(0)
		s.eventually("nothing is left", func() bool { return s.locks() == 0 })
	})
}

// deaf is a client that does not hear the first answer, and then does something.
type deaf struct {
	lockstock.Client
	then  func()
	heard atomic.Bool
}

func (d *deaf) Do(ctx context.Context, command lockstock.Command) (any, error) {
	reply, err := d.Client.Do(ctx, command)
	if !d.heard.Swap(true) {
		d.then()
		return nil, io.EOF
	}
	return reply, err
}

func TestARefusalDoesNotHideAGrantThatWasNotHeard(t *testing.T) {
	over(t, func(s *server, client lockstock.Client) {
		full := func() { s.do("CONFIG", "SET", "maxmemory", "1") }
		_, err := lockstock.Acquire(background, &deaf{Client: client, then: full}, "job", lockstock.Lease(time.Hour))
		s.is(err, lockstock.ErrRefused)
		s.eventually("the grant is given back", func() bool { return s.locks() == 0 })
	})
}

func TestAGrantThatWasNotHeardIsGivenBackThoughOneOfItsKeysHasAnotherValue(t *testing.T) {
	over(t, func(s *server, client lockstock.Client) {
		taken := func() { s.do("SET", "b", "text") }
		_, err := lockstock.AcquireAll(background, &deaf{Client: client, then: taken}, []string{"a", "b"}, lockstock.Lease(time.Hour))
		s.is(err, lockstock.ErrRefused)
		s.eventually("the other key is given back", func() bool { return s.locks() == 0 })
	})
}

func TestAHoldWhoseKeyHasAnotherValueIsLost(t *testing.T) {
	over(t, func(s *server, client lockstock.Client) {
		for _, asks := range []bool{false, true} {
			lock := must(lockstock.Acquire(background, client, "job", lockstock.Lease(12*time.Second)))
			s.do("SET", "job", "text")
			if asks {
				equal(s, must(lock.Owned(background)), false)
			}
			s.within(0, 8*time.Second, func() { <-lock.Context().Done() })
			s.is(context.Cause(lock.Context()), lockstock.ErrLost)
			s.is(lock.Release(background), lockstock.ErrLost)
			s.do("DEL", "job")
		}
	})
}

func TestTheOtherKeysOfAHoldAreReleasedThoughOneHasAnotherValue(t *testing.T) {
	over(t, func(s *server, client lockstock.Client) {
		lock := must(lockstock.AcquireAll(background, client, []string{"a", "b", "c"}))
		s.do("SET", "b", "text")
		s.is(lock.Release(background), lockstock.ErrLost)
		equal(s, s.locks(), 0)
	})
}

func TestALostHoldIsNotReleasedThoughAnAnswerToItsReleaseWasLost(t *testing.T) {
	through(t, func(s *server, r *relay, client lockstock.Client) {
		lock := must(lockstock.Acquire(background, client, "job", lockstock.Lease(3*time.Second)))
		s.do("DEL", "job")
		<-lock.Context().Done()
		r.cut.Store(true)
		time.AfterFunc(100*time.Millisecond, func() { r.cut.Store(false) })
		s.is(lock.Release(background), lockstock.ErrLost)
	})
}

// lossy is a client whose first release is lost before it comes to the server, and then something is done.
type lossy struct {
	lockstock.Client
	then func()
	lost atomic.Bool
}

func (l *lossy) Do(ctx context.Context, command lockstock.Command) (any, error) {
	if strings.HasSuffix(command.Words[0], "RELEASE") && !l.lost.Swap(true) {
		l.then()
		return nil, io.EOF
	}
	return l.Client.Do(ctx, command)
}

func TestAReleaseThatWasLostIsNotTakenForTheEndOfTheHold(t *testing.T) {
	over(t, func(s *server, client lockstock.Client) {
		for _, words := range [][]any{{"DEL", "a", "b"}, {"SET", "a", "text"}} {
			for _, keys := range [][]string{{"a"}, {"a", "b"}} {
				lossy := &lossy{Client: client, then: func() { s.do(words...) }}
				lock := must(lockstock.AcquireAll(background, lossy, keys))
				// Another token may have had the lock since.
				s.is(lock.Release(background), lockstock.ErrNotReleased)
				s.is(lock.Release(background), lockstock.ErrNotReleased)
				s.do("DEL", "a", "b")
			}
		}
		// A part of it is no doubt.
		lossy := &lossy{Client: client, then: func() { s.do("DEL", "a") }}
		lock := must(lockstock.AcquireAll(background, lossy, []string{"a", "b"}))
		s.is(lock.Release(background), lockstock.ErrLost)
		equal(s, s.locks(), 0)
	})
}

// The successor of the server does not know the hold.
func TestARefusedConnectionHasReleasedNothing(t *testing.T) {
	over(t, func(s *server, client lockstock.Client) {
		lock := must(lockstock.Acquire(background, client, "job", lockstock.Unattended()))
		s.kill()
		// A connection that is there may have taken a request.
		_, err := lockstock.Locked(background, client, "job")
		s.is(err, lockstock.ErrUnreachable)
		released := make(chan error, 1)
		go func() { released <- lock.Release(background) }()
		time.Sleep(300 * time.Millisecond)
		s.run()
		s.is(<-released, lockstock.ErrLost)
	})
}

func TestAReleaseWithTheContextOfItsLockIsWaitedFor(t *testing.T) {
	over(t, func(s *server, client lockstock.Client) {
		for range 20 {
			lock := must(lockstock.Acquire(background, client, "job"))
			ctx, cancel := context.WithCancel(lock.Context())
			defer cancel()
			s.is(lock.Release(ctx), nil)
			equal(s, s.locks(), 0)
		}
	})
}

// The connection was closed while nothing was asked over it, so the release was sent once.
func TestAReleaseAfterTheEndOfAConnectionSaysThatTheHoldWasLost(t *testing.T) {
	over(t, func(s *server, client lockstock.Client) {
		// rueidis takes one of several connections by chance.
		for range 10 {
			lock := must(lockstock.Acquire(background, client, "job", lockstock.Unattended(), lockstock.Wait(time.Second)))
			s.do("DEL", "job")
			s.do("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
			time.Sleep(100 * time.Millisecond)
			s.is(lock.Release(background), lockstock.ErrLost)
		}
	})
}

func TestWhatIsAskedForCountsAfterAWaitToo(t *testing.T) {
	over(t, func(s *server, client lockstock.Client) {
		for mode, option := range map[string]lockstock.Option{"shared": lockstock.Shared(), "limit": lockstock.Limit(2)} {
			s.do("LOCK.ACQUIRE", "job", "TOKEN", "other", "PX", 60_000)
			granted := make(chan *lockstock.Lock, 1)
			go func() {
				options := []lockstock.Option{option, lockstock.Token("me"), lockstock.Session(), lockstock.Lease(45 * time.Second), lockstock.Wait(20 * time.Second)}
				granted <- must(lockstock.Acquire(background, client, "job", options...))
			}()
			s.eventually("it waits", func() bool { return s.waiters() == 1 })
			s.do("LOCK.RELEASE", "job", "other")
			lock := <-granted
			info := s.do("LOCK.INFO", "job").(map[any]any)
			equal(s, info["mode"], any(mode))
			equal(s, info["limit"] == any(int64(2)), mode == "limit")
			holder := info["holders"].([]any)[0].(map[any]any)
			equal(s, holder["token"], any("me"))
			equal(s, holder["session"], any("yes"))
			lease := holder["lease-ms"].(int64)
			equal(s, lease > 30_000 && lease <= 45_000, true)
			s.is(lock.Release(background), nil)
		}
	})
}
