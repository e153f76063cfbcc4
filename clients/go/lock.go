package lockstock

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"sync"
	"time"
)

// The longest look away from the clock, which goes on while the machine sleeps though timers do not. So often a session is looked after,
// too.
const glance = time.Second

// Lock is a lock that this process holds. Any number of goroutines may use it.
//
// One that is dropped without a Release is not extended any more, and ends with its lease. A warning is logged then, but for one that is
// [Unattended].
type Lock struct {
	// Not embedded: a deferred call of a promoted method would keep the hold, and not the lock.
	hold *hold
}

// hold has the data that the keeper of a lock needs. The keeper does not keep the Lock itself.
type hold struct {
	request *request
	fence   int64
	// With whose context it was asked for, or nil.
	outer *hold
	// Of a session, or nil.
	conn   *session
	ctx    context.Context
	cancel context.CancelCauseFunc

	stopping sync.Once
	stopped  chan struct{}

	// Extensions go one after another, so that the last one counts; and the keeper is told of each.
	turn, changed chan struct{}

	mutex       sync.Mutex
	lease       time.Duration
	until, next time.Duration
	lost        bool
	// Not nil from the release on, and closed when it is over.
	ended   chan struct{}
	outcome error
}

// begin makes the lock of a grant whose lease counts from since, unless that is over.
func begin(ctx context.Context, r *request, fence int64, since time.Duration, conn *session) (*Lock, error) {
	h := &hold{request: r, fence: fence, outer: around(ctx), conn: conn, stopped: make(chan struct{}), turn: make(chan struct{}, 1), changed: make(chan struct{}, 1)}
	h.last(r.lease, since)
	if h.left() == 0 {
		return nil, fmt.Errorf("%w: the grant came when its lease was over", ErrUnreachable)
	}
	h.ctx, h.cancel = context.WithCancelCause(context.WithValue(ctx, inside{}, h))
	lock := &Lock{h}
	runtime.AddCleanup(lock, (*hold).drop, h)
	go h.keep()
	return lock, nil
}

// inside is the key of the hold in its context.
type inside struct{}

// around is the hold whose context ctx was made of, or nil.
func around(ctx context.Context) *hold {
	h, _ := ctx.Value(inside{}).(*hold)
	return h
}

// drop is called when nothing has the lock any more.
func (h *hold) drop() {
	if h.left() > 0 && !h.request.unattended {
		slog.Warn("lockstock: a lock was dropped without a Release, so its lease ends it", "lock", h.request.name())
	}
	h.stop()
}

// last has the lease count from since, or as much of it as no late request cuts short.
func (h *hold) last(lease, since time.Duration) {
	counts := h.request.late.counts(lease, since)
	h.lease, h.until, h.next = lease, since+counts, since+counts/3
}

// Context ends when the hold does, or the context that the lock was acquired with. [context.Cause] is then [ErrLost], [ErrReleased] or
// the cause of the latter. Hand it to the work. That the context it was made of has ended releases nothing: the work may not have
// stopped yet.
func (l *Lock) Context() context.Context { return l.hold.ctx }

// Fence is larger than that of every grant before. Let the resource that you write refuse smaller
// fences.
func (l *Lock) Fence() int64 { return l.hold.fence }

// Token is the token that holds the lock.
func (l *Lock) Token() string { return l.hold.request.token }

// Keys are the locked keys.
func (l *Lock) Keys() []string { return append([]string(nil), l.hold.request.keys...) }

// Left is how long the hold lasts at least, by this process's clock; 0 if it is over.
func (l *Lock) Left() time.Duration { return l.hold.left() }

// Held says whether the hold should still last. Look before each step that must not be done twice, and send the fence with it.
func (l *Lock) Held() bool { return l.Left() > 0 }

// Owned asks the server whether the hold lasts, with all of its keys.
func (l *Lock) Owned(ctx context.Context) (bool, error) {
	h := l.hold
	for _, key := range h.request.keys {
		_, err := ask(ctx, h.request.client, h.guard(key, "PING"), patience, true, &pending{})
		if ended(err) {
			h.lose()
			return false, nil
		}
		if err != nil {
			return false, err
		}
	}
	return true, nil
}

// Extend has the hold last for lease from now on (0: the lease that it was acquired with), and every extension after it. It is only needed
// with [Unattended], or to change the lease. A shorter lease counts from now on even if no answer comes. For a minute after a request that was
// not answered, and may arrive late, a longer lease counts as that of this request. The error is an [ErrLost] if the hold has ended.
func (l *Lock) Extend(ctx context.Context, lease time.Duration) error {
	h := l.hold
	if lease == 0 {
		lease = h.request.lease
	}
	if err := checkLease(lease); err != nil {
		return err
	}
	if ctx.Err() != nil {
		return stopped(ctx)
	}
	since := now()
	select {
	case h.turn <- struct{}{}:
	case <-ctx.Done():
		return stopped(ctx)
	case <-time.After(patience):
		return fmt.Errorf("%w: %w", ErrUnreachable, errNoAnswer)
	}
	extended := make(chan error, 1)
	// When ctx ends, it goes on in the background: it might arrive after the next one.
	go func() {
		err := h.extend(context.WithoutCancel(ctx), lease, true, nil, since+patience-now())
		<-h.turn
		extended <- err
	}()
	select {
	case err := <-extended:
		return err
	case <-ctx.Done():
		return stopped(ctx)
	}
}

// Guard has the server carry out a command in the same step in which it sees that this hold has the (first) lock: LOCK.GUARD. It is sent
// once. The error is an [ErrLost] if the hold has ended: nothing was done then. Arguments are strings, []byte, integers and floats.
func (l *Lock) Guard(ctx context.Context, args ...any) (any, error) {
	h := l.hold
	words, err := texts(args)
	if err != nil {
		return nil, err
	}
	reply, err := ask(ctx, h.request.client, h.guard(h.request.keys[0], words...), patience, false, &pending{})
	if isLost(err) {
		h.lose()
	}
	return reply, err
}

func (h *hold) guard(key string, words ...string) Command {
	return Command{Words: append([]string{"LOCK.GUARD", key, h.request.token, "FENCE", number(h.fence)}, words...), Key: 1}
}

// Release ends the hold, within five seconds or the rest of its lease, and its context at once. The error is an [ErrLost] if it had ended
// before, an [ErrNotReleased] if the server could not be told, or if an answer was lost and the hold may have ended before. When ctx ends first,
// Release returns an ErrNotReleased, and goes on in the background; so it may be deferred with a context that is over by then. It may be
// repeated, and then says the same.
func (l *Lock) Release(ctx context.Context) error {
	h := l.hold
	h.mutex.Lock()
	if h.ended == nil {
		left := h.until - now()
		h.ended = make(chan struct{})
		go h.release(left)
	}
	h.mutex.Unlock()
	h.cancel(ErrReleased)
	select {
	case <-h.ended:
		return h.outcome
	case <-ctx.Done():
		// A context made of that of the lock has just ended with it, which is no reason to stop.
		if errors.Is(context.Cause(ctx), ErrReleased) {
			<-h.ended
		}
		// It may have ended at the same time.
		select {
		case <-h.ended:
			return h.outcome
		default:
			return fmt.Errorf("%w: %w", ErrNotReleased, stopped(ctx))
		}
	}
}

func (h *hold) release(left time.Duration) {
	h.stop()
	if !h.request.claimed.leave() {
		h.outcome = h.over()
		h.close(false)
		close(h.ended)
		return
	}
	tried := min(max(left, 200*time.Millisecond), farewell)
	ctx, cancel := context.WithTimeoutCause(context.Background(), tried, errNoAnswer)
	defer cancel()
	// With the fence, a repeated release cannot end a later hold of the token.
	reply, doubted, err := h.request.free(ctx, "FENCE", number(h.fence))
	gone := ended(classify(err)) || err == nil && reply == int64(0)
	switch {
	case err == nil && reply == h.request.count():
	case err != nil && !gone:
		if doubted {
			// It may come late. If the token has asked again by then, it has the same hold, with this fence.
			h.request.late.begin(brief)(errNoAnswer)
		}
		h.outcome = fmt.Errorf("%w (%s): %w", ErrNotReleased, h.request.name(), err)
	case gone && doubted && !h.lost:
		// An attempt that was not answered may have done it, but not for a hold that was lost before.
		h.outcome = fmt.Errorf("%w (%s): it has ended, but perhaps before: an answer was lost", ErrNotReleased, h.request.name())
	default:
		h.outcome = h.over()
	}
	h.close(h.outcome == nil)
	close(h.ended)
	h.request.vacate(false)
}

func (h *hold) close(reuse bool) {
	if h.conn != nil {
		h.conn.Close(reuse)
	}
}

// stop ends the keeper's extensions.
func (h *hold) stop() { h.stopping.Do(func() { close(h.stopped) }) }

func (h *hold) left() time.Duration {
	h.mutex.Lock()
	defer h.mutex.Unlock()
	if h.lost || h.ended != nil {
		return 0
	}
	return max(h.until-now(), 0)
}

// keep extends the hold in time, and tells when it is over.
func (h *hold) keep() {
	extends, stopped := !h.request.unattended, h.stopped
	for left := h.left(); left > 0; left = h.left() {
		span := min(left, glance)
		if extends {
			span = min(span, h.due())
		}
		select {
		case <-stopped:
			// Released; or dropped, and then nobody but its context hears when it ends.
			extends, stopped = false, nil
		case <-h.changed:
		case <-time.After(span):
			if h.conn != nil && stopped != nil || extends && h.due() == 0 {
				h.look(extends)
			}
		}
	}
	h.lose()
}

// due is how long it is to the next extension.
func (h *hold) due() time.Duration {
	h.mutex.Lock()
	defer h.mutex.Unlock()
	return max(h.next-now(), 0)
}

// term is the lease of the next extension.
func (h *hold) term() time.Duration {
	h.mutex.Lock()
	defer h.mutex.Unlock()
	return h.lease
}

// look extends the hold, or asks only whether its session lasts.
func (h *hold) look(extends bool) {
	within := min(max(h.term()/2, pause), farewell, max(h.left(), time.Millisecond))
	ctx, cancel := context.WithTimeoutCause(context.Background(), within, errNoAnswer)
	defer cancel()
	select {
	case h.turn <- struct{}{}:
		defer func() { <-h.turn }()
	case <-ctx.Done():
		return
	}
	lease := h.term()
	// No answer says nothing; the clock does.
	if h.extend(ctx, lease, extends, h.conn, within) != nil {
		h.mutex.Lock()
		defer h.mutex.Unlock()
		h.next = now() + h.request.late.counts(lease, now())/20
	}
}

// extend asks over the client; or over conn, if there is one, and over the client if no answer comes there in half of the time. It is the
// caller's turn.
func (h *hold) extend(ctx context.Context, lease time.Duration, extends bool, conn *session, within time.Duration) error {
	// A later hold of the token may have the same fence. It begins when nothing of this one is sent any more.
	h.request.sent.add(1)
	defer h.request.sent.add(-1)
	if h.left() == 0 {
		return h.over()
	}
	since := now()
	command := h.guard(h.request.keys[0], "PING")
	if extends {
		command = h.request.extension(h.fence, lease)
		// A shorter lease counts from now on, for its answer may be lost.
		h.mutex.Lock()
		h.until, h.next = min(h.until, since+lease), min(h.next, since+lease/3)
		h.mutex.Unlock()
		h.tell()
	}
	var reply any
	err := errNoAnswer
	if conn != nil {
		within /= 2
		half, cancel := context.WithTimeoutCause(ctx, within, errNoAnswer)
		defer cancel()
		reply, err = once(half, conn, command, &h.request.sent)
	}
	if err != nil && passes(err) {
		since = now()
		reply, err = ask(ctx, h.request.client, command, within, true, &h.request.sent)
	}
	err = classify(err)
	if ended(err) || err == nil && extends && reply != int64(1) || h.conn != nil && errors.Is(err, ErrClosed) {
		h.lose()
		return h.over()
	}
	if err != nil || !extends {
		return err
	}
	h.mutex.Lock()
	defer h.mutex.Unlock()
	if h.lost {
		return h.over()
	}
	h.last(lease, since)
	h.tell()
	return nil
}

// over is the error of a call when the hold is over.
func (h *hold) over() error { return fmt.Errorf("%w (%s)", ErrLost, h.request.name()) }

// tell has the keeper look at the times again.
func (h *hold) tell() {
	select {
	case h.changed <- struct{}{}:
	default:
	}
}

// ended says whether an answer to a request about the hold means that it is over.
func ended(err error) bool { return isLost(err) || errors.Is(err, errOtherValue) }

// isLost says whether the server has answered that the token does not hold the lock.
func isLost(err error) bool { return isAnswer(err) && errors.Is(err, ErrLost) }

// lose notes that the hold is over, and ends its session, unless it was released.
func (h *hold) lose() {
	h.mutex.Lock()
	defer h.mutex.Unlock()
	if h.lost || h.ended != nil {
		return
	}
	h.lost = true
	left := h.request.claimed.leave()
	h.cancel(ErrLost)
	go func() {
		h.close(false)
		if left {
			h.request.vacate(false)
		}
	}()
}
