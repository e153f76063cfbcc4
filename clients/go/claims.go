package lockstock

import (
	"context"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"sync"
	"time"
)

// claims are the acquisitions by named tokens, until their holds have ended. A token is one holder for the server: two holds of one token
// on one lock would both count as held, and the end of the one would end the other.
var claims = struct {
	sync.Mutex
	of map[place]*claim
	// The requests of those that are over, where some may arrive late.
	late map[place]*late
}{of: map[place]*claim{}, late: map[place]*late{}}

// place is a token's place in a lock.
type place struct {
	client     Client
	key, token string
}

// claim is nil for a token that is used once.
type claim struct {
	places []place
	late   *late
	// How many ends follow, and the channel that is closed by the last one.
	leaving int
	over    chan struct{}
}

// refuseNested refuses a request that would wait for the end of a hold with whose context it is made: this ends with the hold. More permits of
// one [Limit] may be had, but not all of them and one more.
func (r *request) refuseNested(around *hold) error {
	for _, key := range r.keys {
		spare := r.limit
		for h := around; h != nil; h = h.outer {
			if !same(h.request.client, r.client) || !slices.Contains(h.request.keys, key) || h.left() == 0 {
				continue
			}
			if spare--; !h.request.limited || spare < 1 {
				return fmt.Errorf("%w by the holder of this context (%s): hand the lock on, or release it before", ErrAlreadyHeld, key)
			}
		}
	}
	return nil
}

// same says whether two clients are one. Those that cannot be compared are not known to be.
func same(one, other Client) bool {
	return isComparable(one) && isComparable(other) && one == other
}

// isComparable looks at the value: a struct whose type can be compared may have an interface with a value that cannot.
func isComparable(client Client) bool { return reflect.ValueOf(client).Comparable() }

// claim notes the acquisition, or refuses it. It waits for one of the same token that is being withdrawn or released.
func (r *request) claim(ctx, caller context.Context) (*claim, error) {
	if !r.named {
		return nil, nil
	}
	c := &claim{late: &r.late}
	for _, key := range r.keys {
		c.places = append(c.places, place{r.client, key, r.token})
	}
	for {
		claims.Lock()
		other := c.other()
		if other == nil {
			c.take()
			for _, place := range c.places {
				if earlier := claims.late[place]; earlier != nil {
					c.late.join(earlier)
				}
			}
			claims.Unlock()
			return c, nil
		}
		leaving, over := other.leaving > 0, other.over
		claims.Unlock()
		if !leaving {
			return nil, fmt.Errorf("%w by this token: give each acquisition its own", ErrAlreadyHeld)
		}
		select {
		case <-over:
		case <-ctx.Done():
			if caller.Err() != nil {
				return nil, stopped(caller)
			}
			return nil, fmt.Errorf("%w: the token is still leaving the lock", classify(context.Cause(ctx)))
		}
	}
}

// other is a claim on the same places.
func (c *claim) other() *claim {
	for _, place := range c.places {
		if one := claims.of[place]; one != nil && one != c {
			return one
		}
	}
	return nil
}

func (c *claim) take() {
	for _, place := range c.places {
		claims.of[place] = c
	}
}

// leave goes before each end. It says whether the server may be told that this acquisition ends: not if a later one of its token has taken its
// place, and then no end follows.
func (c *claim) leave() bool {
	if c == nil {
		return true
	}
	claims.Lock()
	defer claims.Unlock()
	if c.other() != nil {
		return false
	}
	if c.leaving == 0 {
		c.over = make(chan struct{})
	}
	c.leaving++
	c.take()
	return true
}

// end lets the next one have the places, unless another end follows.
func (c *claim) end() {
	if c == nil {
		return
	}
	claims.Lock()
	defer claims.Unlock()
	if c.leaving--; c.leaving > 0 {
		return
	}
	c.warn()
	for _, place := range c.places {
		if claims.of[place] == c {
			delete(claims.of, place)
		}
	}
	close(c.over)
}

// warn has later claims know for a while what may arrive late.
func (c *claim) warn() {
	if c.late.counts(century, now()) == century {
		// None may.
		return
	}
	for _, place := range c.places {
		claims.late[place] = c.late
	}
	time.AfterFunc(lateness, func() {
		claims.Lock()
		defer claims.Unlock()
		maps.DeleteFunc(claims.late, func(_ place, one *late) bool { return one == c.late })
	})
}
