// How to take locks and orders of lockstock with rueidis. Compiled and run with rueidis 1.0.76 and Go 1.27.
//
//	go run ./rueidis redis://127.0.0.1:6379
//
// The part to take over is Lock; the rest is a story that uses it. Keys(…) tells the client of a cluster where to send a command, so
// everything is the same there.
package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"regexp"
	"strconv"
	"sync"
	"time"

	"github.com/redis/rueidis"
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

	client rueidis.Client
	key    string
	token  string
	lease  time.Duration
	ctx    context.Context
	cancel context.CancelCauseFunc
	kept   sync.WaitGroup
}

// Acquire stands in line for at most wait. The lock is nil if others had it all the time. When ctx ends, so does the wait.
func Acquire(ctx context.Context, client rueidis.Client, key string, wait, lease time.Duration) (*Lock, error) {
	// One token for this request and all its repetitions: the server then finds its place in line, or its grant. rueidis sends
	// nothing again that may write, so this loop does.
	lock := &Lock{client: client, key: key, token: rand.Text(), lease: lease}
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

// Release ends the hold, and a wait; false if there was no hold to end: somebody else may have had the lock meanwhile, or the answer was
// lost and this is that to its repetition.
func (lock *Lock) Release() (bool, error) {
	if lock.cancel != nil {
		lock.cancel(context.Canceled)
		lock.kept.Wait()
	}
	// Not with the caller's context: what is over must be released, too.
	ctx, cancel := context.WithTimeout(context.Background(), grace)
	defer cancel()
	return do(ctx, lock.client, lock.client.B().Arbitrary("LOCK.RELEASE").Keys(lock.key).Args(lock.token).Build()).AsBool()
}

// do sends a command that may be repeated, until it is answered or ctx ends: rueidis sends nothing again that may write, and a connection
// that was cut is noticed by the next who uses it.
func do(ctx context.Context, client rueidis.Client, command rueidis.Completed) rueidis.RedisResult {
	command = command.Pin()
	for {
		reply := client.Do(ctx, command)
		if err := reply.Error(); err == nil || !passes(err) || ctx.Err() != nil {
			return reply
		}
		time.Sleep(pause)
	}
}

func (lock *Lock) ask(ctx context.Context, wait time.Duration) (bool, error) {
	words := []string{"TOKEN", lock.token, "PX", ms(lock.lease)}
	if wait > 0 {
		words = append(words, "WAIT", ms(wait))
	}
	ctx, cancel := context.WithTimeout(ctx, max(wait, 0)+grace)
	defer cancel()
	// Blocking gives it a connection for itself and no time-out but the context's.
	ask := lock.client.B().Arbitrary("LOCK.ACQUIRE").Keys(lock.key).Args(words...).Blocking()
	reply, err := lock.client.Do(ctx, ask).ToArray()
	if rueidis.IsRedisNil(err) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	lock.Fence, err = reply[1].AsInt64()
	return err == nil, err
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
		ctx, cancel := context.WithDeadline(lock.ctx, until)
		extend := lock.client.B().Arbitrary("LOCK.EXTEND").Keys(lock.key).Args(lock.token, "PX", ms(lock.lease)).Build()
		held, err := lock.client.Do(ctx, extend).AsBool()
		cancel()
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

func outcome(reply []rueidis.RedisMessage, err error) (Outcome, error) {
	if err != nil {
		return Outcome{}, err
	}
	status, ref := must(reply[0].ToString()), must(reply[4].ToString())
	return Outcome{status, must(reply[1].AsInt64()), must(reply[2].AsInt64()), must(reply[3].AsInt64()), ref}, nil
}

// Order reserves a unit for id. Sent again with the same id, because an answer was lost, it reserves no second one.
func Order(ctx context.Context, client rueidis.Client, sale, id string, hold time.Duration) (Outcome, error) {
	order := client.B().Arbitrary("STOCK.DECR_ONCE").Keys(sale).Args(id, "HOLD", ms(hold)).Build()
	return outcome(do(ctx, client, order).ToArray())
}

// Confirm: the payment is there, what was held is sold, once.
func Confirm(ctx context.Context, client rueidis.Client, sale, id string) (Outcome, error) {
	return outcome(do(ctx, client, client.B().Arbitrary("STOCK.CONFIRM").Keys(sale).Args(id).Build()).ToArray())
}

func ms(time time.Duration) string { return strconv.FormatInt(max(time.Milliseconds(), 1), 10) }

func main() {
	url := "redis://127.0.0.1:6379"
	if len(os.Args) > 1 {
		url = os.Args[1]
	}
	client := must(rueidis.NewClient(must(rueidis.ParseURL(url))))
	defer client.Close()
	ctx := context.Background()

	held := must(Acquire(ctx, client, "job:42", time.Second, 10*time.Second))
	fmt.Printf("held: %t, with a fence: %t\n", held.Context().Err() == nil, held.Fence > 0)
	brief := must(Acquire(ctx, client, "job:42", 200*time.Millisecond, time.Second))
	fmt.Printf("granted to who waits 200 ms: %t\n", brief != nil)
	// Whoever stops waiting before that leaves the line.
	soon, cancel := context.WithTimeout(ctx, 200*time.Millisecond)
	defer cancel()
	if _, err := Acquire(soon, client, "job:42", time.Minute, time.Second); !errors.Is(err, context.DeadlineExceeded) {
		panic(err)
	}

	// Three more stand in line and are served in order, each by the release of the one before it.
	served := make(chan int64)
	for range 3 {
		go func() {
			lock := must(Acquire(ctx, client, "job:42", 20*time.Second, 10*time.Second))
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

	do(ctx, client, client.B().Arbitrary("STOCK.CREATE").Keys("mug").Args("1").Build()) // BUSYKEY the second time.
	hold := 10 * time.Minute
	for _, step := range []struct {
		what    string
		outcome Outcome
	}{
		{"order", must(Order(ctx, client, "mug", "ann", hold))},
		{"again", must(Order(ctx, client, "mug", "ann", hold))},
		{"other", must(Order(ctx, client, "mug", "bob", hold))},
		{"paid", must(Confirm(ctx, client, "mug", "ann"))},
		{"again", must(Confirm(ctx, client, "mug", "ann"))},
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
