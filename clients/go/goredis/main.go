// How to take locks and orders of lockstock with go-redis. Compiled and run with go-redis 9.22.0 and Go 1.27.
//
//	go run ./goredis redis://127.0.0.1:6379
//
// The part to take over is Lock; the rest is a story that uses it. A *redis.ClusterClient has no WithTimeout: set its ReadTimeout to the
// longest wait and some seconds. Everything else is the same there.
package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"regexp"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	// How much later than asked for the answer to a wait may come before the server is taken for dead.
	grace = 5 * time.Second
	// How long to wait before asking a server again that could not answer.
	pause = 50 * time.Millisecond
)

// ErrLost is the cause of the end of a lock's context when the hold ended before it was released, or may have.
var ErrLost = errors.New("the lock was lost")

// Lock is a lock that this process holds.
type Lock struct {
	// Fence is larger than that of every grant before: have what you write to refuse smaller ones.
	Fence int64

	rdb    *redis.Client
	key    string
	token  string
	lease  time.Duration
	ctx    context.Context
	cancel context.CancelCauseFunc
	kept   sync.WaitGroup
}

// Acquire stands in line for at most wait. The lock is nil if others had it all the time. When ctx ends, so does the wait.
func Acquire(ctx context.Context, rdb *redis.Client, key string, wait, lease time.Duration) (*Lock, error) {
	// One token for this request and all its repetitions: go-redis sends a request again when its answer does not come, and the
	// server then finds its place in line, or its grant.
	lock := &Lock{rdb: rdb, key: key, token: rand.Text(), lease: lease}
	// A context does not end a read, but a release ends a wait, from any connection.
	asked := make(chan struct{})
	defer close(asked)
	go func() {
		select {
		case <-ctx.Done():
			lock.withdraw(asked)
		case <-asked:
		}
	}()
	for end := time.Now().Add(wait); ; {
		sent := time.Now()
		granted, err := lock.ask(ctx, time.Until(end))
		switch {
		case ctx.Err() != nil:
			lock.Release()
			return nil, context.Cause(ctx)
		case err == nil && granted:
			pause := lease / 3
			if wait > 0 {
				// At once: nobody knows how long the answer took.
				sent, pause = time.Now(), 0
			}
			lock.ctx, lock.cancel = context.WithCancelCause(ctx)
			lock.kept.Add(1)
			go lock.keep(sent, pause)
			return lock, nil
		case err == nil:
			return nil, nil
		case passes(err) && time.Now().Before(end):
			time.Sleep(pause)
		default:
			if !isAnswer(err) {
				// The request may stand in line, and would be granted the lock though nobody is here.
				lock.Release()
			}
			return nil, err
		}
	}
}

// Context ends when the hold does. Hand it to the work.
func (lock *Lock) Context() context.Context { return lock.ctx }

// Release ends the hold, and a wait; false if there was no hold to end: somebody else may have had the lock meanwhile.
func (lock *Lock) Release() (bool, error) {
	if lock.cancel != nil {
		lock.cancel(context.Canceled)
		lock.kept.Wait()
	}
	// Not with the caller's context: what is over must be released, too.
	ctx, cancel := context.WithTimeout(context.Background(), grace)
	defer cancel()
	return lock.rdb.Do(ctx, "LOCK.RELEASE", lock.key, lock.token).Bool()
}

func (lock *Lock) ask(ctx context.Context, wait time.Duration) (bool, error) {
	words := []any{"LOCK.ACQUIRE", lock.key, "TOKEN", lock.token, "PX", lock.lease.Milliseconds()}
	if wait > 0 {
		words = append(words, "WAIT", max(wait.Milliseconds(), 1))
	}
	// Shares the pool, and reads for as long as the server may wait. A parked call has its connection for itself.
	reply, err := lock.rdb.WithTimeout(max(wait, 0)+grace).Do(ctx, words...).Slice()
	if errors.Is(err, redis.Nil) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	lock.Fence = reply[1].(int64)
	return true, nil
}

// withdraw says that nobody waits any more until the request has its answer: it may still have been on its way.
func (lock *Lock) withdraw(asked <-chan struct{}) {
	for {
		lock.Release()
		select {
		case <-asked:
			return
		case <-time.After(pause):
		}
	}
}

// keep extends the hold, the first time after next, until it is released or lost.
func (lock *Lock) keep(since time.Time, next time.Duration) {
	defer lock.kept.Done()
	until := since.Add(lock.lease)
	for {
		select {
		case <-lock.ctx.Done():
			return
		case <-time.After(min(next, time.Until(until))):
		}
		sent := time.Now()
		extend := []any{"LOCK.EXTEND", lock.key, lock.token, "PX", lock.lease.Milliseconds()}
		held, err := lock.rdb.WithTimeout(lock.lease/3).Do(lock.ctx, extend...).Bool()
		switch {
		case err == nil && held:
			// The lease counts from before it was asked for.
			until, next = sent.Add(lock.lease), lock.lease/3
		case err == nil, !time.Now().Before(until):
			lock.cancel(ErrLost)
			return
		default:
			// No answer says nothing; the clock does.
			next = lock.lease / 20
		}
	}
}

var (
	answer  = regexp.MustCompile(`^[A-Z]{3,} `)
	passing = regexp.MustCompile(`^(UNBLOCKED force|MOVED|ASK|TRYAGAIN|CLUSTERDOWN|READONLY|LOADING|MASTERDOWN) `)
)

// isAnswer says whether the server has answered with this error: they begin with a code.
func isAnswer(err error) bool { return answer.MatchString(err.Error()) }

// passes says whether asking again, of the same server or another, may help.
func passes(err error) bool { return !isAnswer(err) || passing.MatchString(err.Error()) }

// Outcome is what came of a request for an order. None of the statuses is an error.
type Outcome struct {
	Status           string
	Units, Remaining int64
	Deadline         int64
	Ref              string
}

func outcome(reply []any, err error) (Outcome, error) {
	if err != nil {
		return Outcome{}, err
	}
	return Outcome{reply[0].(string), reply[1].(int64), reply[2].(int64), reply[3].(int64), reply[4].(string)}, nil
}

// Order reserves a unit for id. Sent again with the same id, because an answer was lost, it reserves no second one.
func Order(ctx context.Context, rdb *redis.Client, sale, id string, hold time.Duration) (Outcome, error) {
	return outcome(rdb.Do(ctx, "STOCK.DECR_ONCE", sale, id, "HOLD", hold.Milliseconds()).Slice())
}

// Confirm: the payment is there, what was held is sold, once.
func Confirm(ctx context.Context, rdb *redis.Client, sale, id string) (Outcome, error) {
	return outcome(rdb.Do(ctx, "STOCK.CONFIRM", sale, id).Slice())
}

func main() {
	url := "redis://127.0.0.1:6379"
	if len(os.Args) > 1 {
		url = os.Args[1]
	}
	options := must(redis.ParseURL(url))
	rdb := redis.NewClient(options)
	defer rdb.Close()
	ctx := context.Background()

	held := must(Acquire(ctx, rdb, "job:42", time.Second, 10*time.Second))
	fmt.Printf("held: %t, with a fence: %t\n", held.Context().Err() == nil, held.Fence > 0)
	brief := must(Acquire(ctx, rdb, "job:42", 200*time.Millisecond, time.Second))
	fmt.Printf("granted to who waits 200 ms: %t\n", brief != nil)
	// Whoever stops waiting before that leaves the line.
	soon, cancel := context.WithTimeout(ctx, 200*time.Millisecond)
	defer cancel()
	if _, err := Acquire(soon, rdb, "job:42", time.Minute, time.Second); !errors.Is(err, context.DeadlineExceeded) {
		panic(err)
	}

	// Three more stand in line and are served in order, each by the release of the one before it.
	served := make(chan int64)
	for range 3 {
		go func() {
			lock := must(Acquire(ctx, rdb, "job:42", 20*time.Second, 10*time.Second))
			served <- lock.Fence
			released := must(lock.Release())
			if !released {
				panic("lost")
			}
			served <- 0
		}()
		time.Sleep(200 * time.Millisecond) // Only so that they come one after another.
	}
	fmt.Printf("released: %t\n", must(held.Release()))
	for number, last := 1, int64(0); number <= 3; {
		if fence := <-served; fence != 0 {
			fmt.Printf("worker %d, with a larger fence: %t\n", number, fence > last)
			number, last = number+1, fence
		}
	}
	<-served

	rdb.Do(ctx, "STOCK.CREATE", "mug", 1) // BUSYKEY the second time.
	hold := 10 * time.Minute
	for _, step := range []struct {
		what    string
		outcome Outcome
	}{
		{"order", must(Order(ctx, rdb, "mug", "ann", hold))},
		{"again", must(Order(ctx, rdb, "mug", "ann", hold))},
		{"other", must(Order(ctx, rdb, "mug", "bob", hold))},
		{"paid", must(Confirm(ctx, rdb, "mug", "ann"))},
		{"again", must(Confirm(ctx, rdb, "mug", "ann"))},
	} {
		fmt.Printf("%s: %s, has %d, left %d\n", step.what, step.outcome.Status, step.outcome.Units, step.outcome.Remaining)
	}
}

func must[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}
