// Package lockstock has distributed locks and flash-sale stock, kept by the Redis and Valkey module lockstock, over go-redis and rueidis.
//
//	locks := overgoredis.New(rdb) // or overrueidis.New(client); one for the whole process
//	defer locks.Close()
//
//	lock, err := lockstock.Acquire(ctx, locks, "job:42", lockstock.Wait(10*time.Second))
//	if errors.Is(err, lockstock.ErrNotAcquired) {
//		return nil // others had it for ten seconds
//	}
//	if err != nil {
//		return err
//	}
//	defer lock.Release(ctx)
//	err = work(lock.Context(), lock.Fence()) // the context ends when the lock is lost: context.Cause says so
//
// No call hangs, even if the server is dead, frozen or failing over: a wait ends at most two seconds after its time, a release within five
// seconds or the lease, any other request within two seconds, and all of them when their context does.
//
// A lock is not reentrant. A request with the context of a hold, or one made of it, gets an [ErrAlreadyHeld] for the same lock, as a second one
// of a [Token] does. Any other request of a holder stands in line behind itself.
package lockstock

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"time"
)

// errEnded: it was granted, and has ended since.
var errEnded = errors.New("the grant has ended")

// Acquire takes the lock of this key, and stands in line for it if Wait or WaitForever says so. It asks again when a connection breaks or a
// server is replaced, and keeps its place. When ctx ends, so does the wait, and the request is withdrawn in the background.
//
// The error is an [ErrNotAcquired] if others had the lock all the time. The context of the lock is made of ctx: let ctx live as long as the
// work, and limit the wait by [Wait].
func Acquire(ctx context.Context, client Client, key string, options ...Option) (*Lock, error) {
	return AcquireAll(ctx, client, []string{key}, options...)
}

// AcquireAll takes the locks of all these keys, or none of them. In a cluster the keys are of one slot.
func AcquireAll(ctx context.Context, client Client, keys []string, options ...Option) (*Lock, error) {
	r := &request{client: client, keys: slices.Clone(keys), token: rand.Text(), lease: 30 * time.Second}
	for _, option := range options {
		if option == nil {
			return nil, invalid("an option is nil")
		}
		option(r)
	}
	if err := r.check(); err != nil {
		return nil, err
	}
	if ctx.Err() != nil {
		return nil, fmt.Errorf("%w (%s)", stopped(ctx), r.name())
	}
	if err := r.refuseNested(around(ctx)); err != nil {
		return nil, err
	}
	// The time in which the token still leaves the lock counts, too.
	bounded, end := ctx, now()+r.wait
	// A wait of centuries is as good as one without limit.
	if r.wait > century {
		r.forever = true
	}
	if !r.forever {
		var cancel context.CancelFunc
		bounded, cancel = context.WithTimeoutCause(ctx, r.wait+overtime, errNoAnswer)
		defer cancel()
	}
	claimed, err := r.claim(bounded, ctx)
	if err != nil {
		return nil, fmt.Errorf("%w (%s)", err, r.name())
	}
	r.claimed = claimed
	lock, err := r.stand(bounded, ctx, end)
	if err != nil {
		r.leave(bounded, err)
		return nil, fmt.Errorf("%w (%s)", err, r.name())
	}
	return lock, nil
}

// leave ends a request in the background, if the server may know of it.
func (r *request) leave(ctx context.Context, err error) {
	r.claimed.leave()
	if !r.doubted {
		r.claimed.end()
		return
	}
	left := make(chan struct{})
	go func() {
		defer close(left)
		r.withdraw()
	}()
	if errors.Is(err, ErrNotReplicated) {
		select {
		case <-left:
		case <-ctx.Done():
		}
	}
}

// stand asks until the lock is granted or the time is over, at end.
func (r *request) stand(ctx, caller context.Context, end time.Duration) (*Lock, error) {
	// Without a wait at first: most locks are free, and this needs no connection of its own.
	for waits := false; ; waits = r.forever || now() < end {
		lock, err := r.try(ctx, caller, waits, end-now())
		switch {
		case err == nil && lock != nil:
			return lock, nil
		case caller.Err() != nil:
			return nil, stopped(caller)
		case err == nil && waits:
			return nil, ErrNotAcquired
		case err != nil && !errors.Is(err, errEnded) && !errors.Is(err, ErrUnreachable):
			return nil, err
		}
		switch {
		case errors.Is(err, ErrUnreachable):
			// Whether others have the lock is to be known, though the time may be over.
			if sleep(ctx, pause) != nil && caller.Err() == nil {
				return nil, err
			}
		case !r.forever && now() >= end:
			return nil, ErrNotAcquired
		}
	}
}

// try asks once; the lock is nil if others have it.
func (r *request) try(ctx, caller context.Context, waits bool, left time.Duration) (*Lock, error) {
	since := now()
	if !waits && !r.session && r.replicas == 0 {
		reply, err := r.quick(ctx, r.client, r.acquisition())
		fence, err := r.granted(reply, err)
		if fence == 0 {
			return nil, err
		}
		return begin(caller, r, fence, since, nil)
	}
	conn, err := dedicate(ctx, r.client, r.keys[0])
	if err != nil {
		return nil, classify(err)
	}
	kept, whole := false, false
	defer func() {
		if !kept {
			conn.Close(whole)
		}
	}()
	var words []string
	if waits {
		words = []string{"WAIT", "0"}
		if !r.forever {
			words[1] = ms(left)
		}
	}
	reply, err := r.listen(ctx, conn, r.acquisition(words...), waits)
	fence, err := r.granted(reply, err)
	if fence == 0 {
		whole = err == nil
		return nil, err
	}
	// After a wait it is unknown how long the answer took, so the lease counts from this extension. WAIT counts the writes of this
	// connection, so the extension is needed for replicas, too.
	if waits || r.replicas > 0 {
		since = now()
		if reply, err = r.quick(ctx, conn, r.extension(fence, r.lease)); err != nil {
			return nil, err
		}
		if reply != int64(1) {
			whole = true
			return nil, errEnded
		}
	}
	if r.replicas > 0 {
		if err := r.replicate(ctx, conn); err != nil {
			return nil, err
		}
	}
	whole = true
	if !r.session {
		return begin(caller, r, fence, since, nil)
	}
	lock, err := begin(caller, r, fence, since, &session{Conn: conn})
	kept = err == nil
	return lock, err
}

// granted reads an answer to an acquisition; 0: others have the lock. Unless it is known that nothing was granted, and until there is a lock
// that may be released, the request is one to withdraw.
func (r *request) granted(reply any, err error) (int64, error) {
	if reply == nil && err == nil || isNothingDone(err) {
		return 0, classify(err)
	}
	r.doubted = true
	if err != nil {
		return 0, classify(err)
	}
	if row, ok := reply.([]any); ok && len(row) == 3 {
		if fence, ok := row[1].(int64); ok && fence > 0 {
			return fence, nil
		}
	}
	return 0, unexpected(reply)
}

// once sends a request that does not wait over conn, or over the client.
func (r *request) once(ctx context.Context, via sender, command Command) (any, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, patience, errNoAnswer)
	defer cancel()
	sent := &r.sent
	if command.Acquires() {
		sent = &r.asked
	}
	return once(ctx, via, command, sent)
}

// quick is once, and gives an error its meaning.
func (r *request) quick(ctx context.Context, via sender, command Command) (any, error) {
	reply, err := r.once(ctx, via, command)
	return reply, classify(err)
}

// free sends a release until it is answered, and says whether an attempt may have done it without an answer. If one of the keys has another
// value, nothing is released together: then each is by itself.
func (r *request) free(ctx context.Context, more ...string) (reply any, doubted bool, err error) {
	reply, doubted, err = r.insist(ctx, r.release(r.keys, more...))
	if len(r.keys) > 1 && errors.Is(classify(err), errOtherValue) {
		for _, key := range r.keys {
			_, _, _ = r.insist(ctx, r.release([]string{key}, more...))
		}
	}
	return reply, doubted, err
}

// insist sends a release until it is answered.
func (r *request) insist(ctx context.Context, command Command) (reply any, doubted bool, err error) {
	for {
		reply, err = r.once(ctx, r.client, command)
		doubted = doubted || err != nil && !isNothingDone(err)
		if err == nil || !passesForRelease(err) || sleep(ctx, pause) != nil {
			return reply, doubted, err
		}
	}
}

// listen sends an acquisition over conn. In a long wait it looks whether the request still stands in line at the server of its key: one that is
// gone without a word, and perhaps has a successor, would be listened to for as long.
func (r *request) listen(ctx context.Context, conn Conn, command Command, waits bool) (any, error) {
	if !waits {
		return r.quick(ctx, conn, command)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	go func() {
		for sleep(ctx, probe) == nil {
			// It may have left the line just now, and the answer be on its way.
			if !r.stands(ctx) && sleep(ctx, time.Second) == nil {
				cancel(errNoAnswer)
			}
		}
	}()
	return once(ctx, conn, command, &r.asked)
}

// stands says whether the request is known to stand in line, or may.
func (r *request) stands(ctx context.Context) bool {
	reply, err := ask(ctx, r.client, look(r.keys[0]), patience, true, &pending{})
	if err != nil {
		return !errors.Is(err, ErrUnreachable)
	}
	if reply == nil {
		return false
	}
	info, err := fields(reply)
	rows, _ := info["waiters"].([]any)
	// The first ones of the line are told, and how many there are.
	if waiting, _ := info["waiting"].(int64); err != nil || waiting > int64(len(rows)) {
		return true
	}
	return slices.ContainsFunc(rows, func(row any) bool {
		waiter, err := fields(row)
		return err != nil || waiter["token"] == r.token
	})
}

// replicate waits until the replicas have the grant.
func (r *request) replicate(ctx context.Context, conn Conn) error {
	reply, err := r.quick(ctx, conn, Command{Words: []string{"WAIT", number(int64(r.replicas)), ms(replication)}})
	if err != nil {
		return err
	}
	if took, ok := reply.(int64); !ok || took < int64(r.replicas) {
		return fmt.Errorf("%w: %v of %d", ErrNotReplicated, reply, r.replicas)
	}
	return nil
}

// withdraw leaves the line, and whatever was granted, as far as a server can be told within 5 s; else the lease ends it.
func (r *request) withdraw() {
	ctx, cancel := context.WithTimeoutCause(context.Background(), farewell, errNoAnswer)
	defer cancel()
	_, _, _ = r.free(ctx)
	r.vacate(true)
}

// vacate ends the claim when nothing that was sent for it can arrive any more. An acquisition that was given up may have arrived after the
// release, so another one follows.
func (r *request) vacate(again bool) {
	if r.asked.wait() || again {
		time.Sleep(pause)
		_, _ = ask(context.Background(), r.client, r.release(r.keys), patience, true, &r.sent)
	}
	r.sent.wait()
	r.claimed.end()
}
