package lockstock_test

import (
	"context"
	"errors"
	"math"
	"net"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"

	lockstock "lockstock/clients/go"
	"lockstock/clients/go/overgoredis"
	"lockstock/clients/go/overrueidis"
)

// relay is a network to a server.
type relay struct {
	address string
	// How long what goes through it takes, in each direction.
	delay atomic.Int64
	// Whether a connection ends in place of its next answer.
	cut atomic.Bool
	// What overtakes the next request of a kind, or nil.
	overtakes atomic.Pointer[overtakes]
	// How many connections there were, and how many of them, the first ones, are dead without a word, or late with what is asked.
	made, dead, late atomic.Int64
}

// lateness is longer than a request without an answer is waited for.
const lateness = 5 * time.Second

// overtakes has the connection of the next request with this word cut, the network be dead from then on if it says so, and the request come to the
// server so much later.
type overtakes struct {
	word string
	by   time.Duration
	dead bool
}

// overtake begins that, and returns what waits until the connection is cut.
func (s *server) overtake(r *relay, what overtakes) (cut func()) {
	r.overtakes.Store(&what)
	return func() { s.eventually("it is overtaken", func() bool { return r.overtakes.Load() == nil }) }
}

// relay makes a way to the server.
func (s *server) relay() *relay {
	listener := must(net.Listen("tcp", "127.0.0.1:0"))
	s.Cleanup(func() { listener.Close() })
	r := &relay{address: listener.Addr().String()}
	go func() {
		for {
			near, err := listener.Accept()
			if err != nil {
				return
			}
			far, err := net.Dial("tcp", s.address)
			if err != nil {
				near.Close()
				continue
			}
			number := r.made.Add(1)
			go r.carry(near, far, number, false)
			go r.carry(far, near, number, true)
		}
	}()
	return r
}

func (r *relay) carry(from, to net.Conn, number int64, answers bool) {
	type parcel struct {
		bytes []byte
		due   time.Time
	}
	parcels := make(chan parcel, 1_000)
	var reset atomic.Bool
	go func() {
		defer to.Close()
		for one := range parcels {
			time.Sleep(time.Until(one.due))
			if reset.Load() {
				continue
			}
			if _, err := to.Write(one.bytes); err != nil {
				from.Close()
			}
		}
	}()
	defer close(parcels)
	for lost := false; ; {
		bytes := make([]byte, 1<<16)
		count, err := from.Read(bytes)
		if err != nil || answers && r.cut.Load() {
			// After an ordinary end, what was sent before it is delivered.
			reset.Store(errors.Is(err, syscall.ECONNRESET))
			return
		}
		lost = lost || number <= r.dead.Load()
		due := time.Now().Add(time.Duration(r.delay.Load()))
		if !answers && number <= r.late.Load() {
			due = due.Add(lateness)
		}
		one := r.overtakes.Load()
		if one != nil && !answers && strings.Contains(string(bytes[:count]), one.word) && r.overtakes.CompareAndSwap(one, nil) {
			parcels <- parcel{bytes[:count], time.Now().Add(one.by)}
			if one.dead {
				r.dead.Store(math.MaxInt64)
			}
			from.Close()
			return
		}
		if !lost {
			parcels <- parcel{bytes[:count], due}
		}
	}
}

// through plays a test over each of the libraries, with a server of its own that is reached by a relay.
func through(t *testing.T, play func(*server, *relay, lockstock.Client)) {
	for name, connect := range libraries {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := start(t)
			r := s.relay()
			client := connect(t, r.address)
			// The first request of a process takes its time; and rueidis takes one of several connections by chance.
			for range 20 {
				s.eventually("the server is reached", func() bool {
					_, err := lockstock.Locked(background, client, "any")
					return err == nil
				})
			}
			play(s, r, client)
		})
	}
}

func TestAHoldGoesOnThoughAnswersTakeAFifthOfItsLease(t *testing.T) {
	through(t, func(s *server, r *relay, client lockstock.Client) {
		lock := must(lockstock.Acquire(background, client, "job", lockstock.Lease(9*time.Second)))
		r.delay.Store(int64(900 * time.Millisecond))
		select {
		case <-lock.Context().Done():
			s.Fatal("it was lost")
		case <-time.After(13 * time.Second):
		}
		equal(s, lock.Held(), true)
		r.delay.Store(0)
		s.is(lock.Release(background), nil)
	})
}

// Both libraries close a connection whose answer comes after its deadline.
func TestASessionOutlivesAServerThatSaysNothingForAWhile(t *testing.T) {
	over(t, func(s *server, client lockstock.Client) {
		lock := must(lockstock.Acquire(background, client, "job", lockstock.Session(), lockstock.Lease(30*time.Second)))
		for _, silence := range []time.Duration{7 * time.Second, 14 * time.Second} {
			thaw := s.freeze()
			time.Sleep(silence)
			thaw()
			time.Sleep(3 * time.Second)
			equal(s, must(lock.Owned(background)), true)
			s.is(lock.Context().Err(), nil)
		}
		s.is(lock.Release(background), nil)
	})
}

func TestAGrantThatComesAfterItsLeaseIsNone(t *testing.T) {
	through(t, func(s *server, r *relay, client lockstock.Client) {
		r.delay.Store(int64(400 * time.Millisecond))
		_, err := lockstock.Acquire(background, client, "job", lockstock.Lease(500*time.Millisecond))
		s.is(err, lockstock.ErrUnreachable)
		r.delay.Store(0)
		s.eventually("nothing is left", func() bool { return s.locks() == 0 })
	})
}

func TestASaleWhoseCreationWasNotAnsweredIsNotSaidToBeAnothers(t *testing.T) {
	through(t, func(s *server, r *relay, client lockstock.Client) {
		mug := lockstock.NewStock(client, "mug")
		r.cut.Store(true)
		// A library may find the connection cut before it sends anything.
		s.eventually("it is made", func() bool {
			s.is(mug.Create(background, 5, lockstock.Terms{}), lockstock.ErrUnreachable)
			return s.do("EXISTS", "mug") == any(int64(1))
		})
		r.cut.Store(false)
		s.eventually("it is said to exist", func() bool {
			err := mug.Create(background, 5, lockstock.Terms{})
			equal(s, errors.Is(err, lockstock.ErrSaleExists) || errors.Is(err, lockstock.ErrUnreachable), true)
			return errors.Is(err, lockstock.ErrSaleExists)
		})
	})
}

func TestAnOrderWhoseAnswersWereLostIsTakenOnce(t *testing.T) {
	through(t, func(s *server, r *relay, client lockstock.Client) {
		mug := lockstock.NewStock(client, "mug")
		s.is(mug.Create(background, 100, lockstock.Terms{}), nil)
		var asking sync.WaitGroup
		over := make(chan struct{})
		asking.Go(func() {
			for cut := false; ; cut = !cut {
				r.cut.Store(cut)
				select {
				case <-over:
					r.cut.Store(false)
					return
				case <-time.After(2 * time.Millisecond):
				}
			}
		})
		for number := range 50 {
			id := string(rune('A' + number))
			s.eventually("it is answered", func() bool {
				outcome, err := mug.Take(background, id, lockstock.Order{Units: 2, Ref: id})
				if err == nil && (!outcome.Done() || outcome.Units != 2 || outcome.Ref != id) {
					s.Fatal(outcome)
				}
				return err == nil
			})
		}
		close(over)
		asking.Wait()
		equal(s, s.do("STOCK.INFO", "mug") != nil, true)
		equal(s, must(mug.Info(background)).Sold, 100)
	})
}

// A host that is gone, or a gate that has forgotten its connections, says nothing.
func TestConnectionsThatAreDeadWithoutAWordAreGivenUpTogether(t *testing.T) {
	through(t, func(s *server, r *relay, client lockstock.Client) {
		held := must(lockstock.Acquire(background, client, "held"))
		s.do("LOCK.ACQUIRE", "job", "TOKEN", "other", "PX", 60_000)
		var waits sync.WaitGroup
		for range hundred {
			waits.Go(func() {
				_, err := lockstock.Acquire(background, client, "job", lockstock.Wait(time.Second))
				s.is(err, lockstock.ErrNotAcquired)
			})
		}
		waits.Wait()
		s.do("LOCK.RELEASE", "job", "other")
		r.dead.Store(r.made.Load())
		// rueidis gives up those of its own that all share after ten seconds.
		s.within(0, 16*time.Second, func() {
			lock := must(lockstock.Acquire(background, client, "job", lockstock.Wait(time.Minute), lockstock.Session()))
			s.eventually("it is released", func() bool { return lock.Release(background) == nil || s.locks() == 1 })
		})
		s.is(held.Extend(background, 0), nil)
		s.is(held.Release(background), nil)
	})
}

func TestAConnectionThatWasForgottenWhileItWasIdleIsNotUsed(t *testing.T) {
	through(t, func(s *server, r *relay, client lockstock.Client) {
		s.is(must(lockstock.Acquire(background, client, "job", lockstock.Session())).Release(background), nil)
		if _, ok := client.(*overgoredis.Client); !ok {
			// rueidis keeps its connections in use.
			return
		}
		time.Sleep(30 * time.Second)
		r.dead.Store(r.made.Load())
		s.within(0, time.Second, func() {
			s.is(must(lockstock.Acquire(background, client, "job")).Release(background), nil)
			s.is(must(lockstock.Acquire(background, client, "job", lockstock.Session())).Release(background), nil)
		})
	})
}

func TestCallersOfAnExhaustedPoolLeaveNothing(t *testing.T) {
	s := start(t)
	rueidis := must(rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{s.address}, BlockingPoolSize: 1}))
	defer rueidis.Close()
	client := overrueidis.New(rueidis)
	s.do("LOCK.ACQUIRE", "job", "TOKEN", "other", "PX", 60_000)
	ctx, cancel := context.WithCancel(background)
	var waits sync.WaitGroup
	for range 20 {
		waits.Go(func() {
			_, err := lockstock.Acquire(ctx, client, "job", lockstock.WaitForever())
			s.is(err, context.Canceled)
		})
	}
	s.eventually("one waits", func() bool { return s.waiters() == 1 })
	time.Sleep(time.Second)
	before := runtime.NumGoroutine()
	time.Sleep(8 * time.Second)
	equal(s, runtime.NumGoroutine() < before+50, true)
	cancel()
	waits.Wait()
	// The places that were asked for serve the next callers.
	for range 20 {
		lock := must(lockstock.Acquire(background, client, "free", lockstock.Session(), lockstock.Wait(10*time.Second)))
		s.is(lock.Release(background), nil)
	}
	s.is(client.Close(), nil)
	_, err := lockstock.Acquire(background, client, "free", lockstock.Session())
	s.is(err, lockstock.ErrClosed)
}

func TestAnAcquisitionThatArrivesLateLeavesNothing(t *testing.T) {
	through(t, func(s *server, r *relay, client lockstock.Client) {
		r.late.Store(r.made.Load())
		lock := must(lockstock.Acquire(background, client, "job", lockstock.Wait(time.Minute)))
		r.late.Store(0)
		// The connection that rueidis shares is late still. An answer that comes too late is none.
		if err := lock.Release(background); !errors.Is(err, lockstock.ErrNotReleased) {
			s.is(err, nil)
		}
		time.Sleep(lateness + time.Second)
		equal(s, s.locks(), 0)
	})
}

// A pool closes a connection when its time is over, also one that a session lasts as long as.
func TestASessionOutlivesTheTimeOfAConnectionOfThePool(t *testing.T) {
	t.Parallel()
	s := start(t)
	rdb := redis.NewClient(&redis.Options{Addr: s.address, ConnMaxLifetime: 2 * time.Second})
	defer rdb.Close()
	client := overgoredis.New(rdb)
	defer client.Close()
	lock := must(lockstock.Acquire(background, client, "job", lockstock.Session(), lockstock.Lease(time.Minute)))
	time.Sleep(5 * time.Second)
	equal(s, lock.Held(), true)
	equal(s, must(lock.Owned(background)), true)
	s.is(lock.Release(background), nil)
}

// cutting is a client whose connections for waits and sessions are cut after an extension.
type cutting struct {
	lockstock.Client
	cut func()
}

func (c *cutting) Dedicate(ctx context.Context, key string) (lockstock.Conn, error) {
	conn, err := c.Client.Dedicate(ctx, key)
	return &cuttingConn{conn, c.cut}, err
}

type cuttingConn struct {
	lockstock.Conn
	cut func()
}

func (c *cuttingConn) Do(ctx context.Context, command lockstock.Command) (any, error) {
	reply, err := c.Conn.Do(ctx, command)
	if command.Words[0] == "LOCK.EXTEND" {
		c.cut()
	}
	return reply, err
}

// WAIT counts the writes of its connection, so over a new one all replicas have all of them.
func TestReplicasAreNotCountedOverAnotherConnection(t *testing.T) {
	over(t, func(s *server, client lockstock.Client) {
		host, port, _ := strings.Cut(s.address, ":")
		replica := start(s.T, "--replicaof", host+" "+port, "--repl-diskless-sync-delay", "0")
		s.eventually("it follows", func() bool { return s.do("WAIT", 1, 100) == any(int64(1)) })
		replica.freeze()
		cut := func() {
			s.rdb.Do(background, "CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
			time.Sleep(50 * time.Millisecond)
		}
		_, err := lockstock.Acquire(background, &cutting{client, cut}, "job", lockstock.Replicas(1))
		s.is(err, lockstock.ErrUnreachable)
	})
}
