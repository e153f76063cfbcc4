package lockstock

import (
	"context"
	"slices"
	"strings"
	"time"
)

// Option says how a lock is asked for.
type Option func(*request)

// Wait stands in line for at most that long. Without it, and without WaitForever, a lock that others have is not waited for.
func Wait(span time.Duration) Option {
	return func(r *request) { r.wait, r.forever = span, false }
}

// WaitForever stands in line as long as it takes, or until the context ends.
func WaitForever() Option { return func(r *request) { r.forever = true } }

// Lease is how long the lock outlasts this process if it dies or freezes: 30 s without this option. While the process lives, it extends the
// hold each third of it.
func Lease(span time.Duration) Option { return func(r *request) { r.lease = span } }

// Shared takes the lock together with other readers.
func Shared() Option { return func(r *request) { r.shared = true } }

// Limit takes the lock as one of n.
func Limit(n int64) Option {
	return func(r *request) { r.limit, r.limited = n, true }
}

// Session has the hold end with its connection, too: at once when this process dies. That its connection has ended is noticed within a
// second.
func Session() Option { return func(r *request) { r.session = true } }

// Replicas has the grant count only when n replicas have it, within a second; else it is released, in ErrNotReplicated.
func Replicas(n int) Option { return func(r *request) { r.replicas = n } }

// Token names the token of the request, instead of a random one for each hold. One token for all locks of a task lets the server see when two
// tasks wait for each other (ErrDeadlock). A token is one holder, so it has a lock, or asks for it, only once at a time: ErrAlreadyHeld. Two
// processes with one token are not kept apart.
func Token(token string) Option {
	return func(r *request) { r.token, r.named = token, true }
}

// Unattended leaves the hold to Extend: it is not extended by itself.
func Unattended() Option { return func(r *request) { r.unattended = true } }

// request is one acquisition: its options, and its commands that are still under way.
type request struct {
	client                              Client
	keys                                []string
	token                               string
	wait, lease                         time.Duration
	limit                               int64
	replicas                            int
	forever, shared, limited            bool
	session, named, unattended, doubted bool

	// The acquisitions that may still arrive, and the other commands.
	asked, sent pending
	claimed     *claim
	late        late
}

func (r *request) check() error {
	if r.client == nil {
		return invalid("the client is nil")
	}
	if len(r.keys) == 0 || slices.Contains(r.keys, "") {
		return invalid("a lock needs a key that is not empty")
	}
	if r.wait < 0 {
		return invalid("a wait is from 0, not %v", r.wait)
	}
	if err := checkLease(r.lease); err != nil {
		return err
	}
	if r.shared && r.limited {
		return invalid("Shared and Limit do not go together: a lock is for all readers, or for so many")
	}
	if len(r.keys) > 1 && (r.shared || r.limited) {
		return invalid("several keys are locked exclusively: neither Shared nor Limit goes with them")
	}
	if r.limited && (r.limit < 1 || r.limit > most) {
		return invalid("a limit is from 1 to 2^53 - 1, not %d", r.limit)
	}
	if r.replicas < 0 {
		return invalid("the number of replicas is from 0, not %d", r.replicas)
	}
	if r.named {
		if !isComparable(r.client) {
			return invalid("Token needs a client that can be compared, so a pointer")
		}
		return checkName("a token", r.token)
	}
	return nil
}

// century is longer than anything lasts, and may be added to a time of the clock.
const century = 100 * 365 * 24 * time.Hour

func checkLease(lease time.Duration) error {
	if lease < time.Millisecond || lease > century {
		return invalid("a lease is from a millisecond to a hundred years, not %v", lease)
	}
	return nil
}

func checkName(what, name string) error {
	if len(name) < 1 || len(name) > 512 {
		return invalid("%s has from 1 to 512 bytes, not %d", what, len(name))
	}
	return nil
}

// name is the name of the lock in errors.
func (r *request) name() string { return strings.Join(r.keys, ", ") }

// count is the number of different keys.
func (r *request) count() int64 {
	return int64(len(slices.Compact(slices.Sorted(slices.Values(r.keys)))))
}

// acquisition asks for the lock; waits is the option WAIT with its time, or nothing.
func (r *request) acquisition(waits ...string) Command {
	words, key := []string{"LOCK.ACQUIRE"}, 1
	if len(r.keys) > 1 {
		words, key = []string{"LOCK.MACQUIRE", number(int64(len(r.keys)))}, 2
	}
	words = append(append(words, r.keys...), "TOKEN", r.token, "PX", ms(r.lease))
	if r.shared {
		words = append(words, "SHARED")
	}
	if r.limited {
		words = append(words, "LIMIT", number(r.limit))
	}
	if r.session {
		words = append(words, "SESSION")
	}
	return Command{Words: append(words, waits...), Key: key}.setting(&r.late, r.lease)
}

// words are those of RELEASE or EXTEND, or of their forms for several keys, then more.
func (r *request) words(verb string, keys []string, more ...string) Command {
	words, key := []string{"LOCK." + verb, keys[0], r.token}, 1
	if len(keys) > 1 {
		words, key = append([]string{"LOCK.M" + verb, r.token, number(int64(len(keys)))}, keys...), 3
	}
	return Command{Words: append(words, more...), Key: key}
}

func (r *request) extension(fence int64, lease time.Duration) Command {
	return r.words("EXTEND", r.keys, "PX", ms(lease), "FENCE", number(fence)).setting(&r.late, lease)
}

// release releases some of the keys. Without a fence, one that comes late may end the next hold of the token.
func (r *request) release(keys []string, fence ...string) Command {
	command := r.words("RELEASE", keys, fence...)
	if len(fence) > 0 {
		return command
	}
	return command.setting(&r.late, brief)
}

func look(key string) Command { return Command{Words: []string{"LOCK.INFO", key}, Key: 1} }

// Locked says whether the lock of this key is held.
func Locked(ctx context.Context, client Client, key string) (bool, error) {
	if err := (&request{client: client, keys: []string{key}, lease: time.Second}).check(); err != nil {
		return false, err
	}
	reply, err := ask(ctx, client, look(key), patience, true, &pending{})
	if err != nil || reply == nil {
		return false, err
	}
	info, err := fields(reply)
	return err == nil && info["mode"] != "free", err
}
