package lockstock_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"regexp"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	lockstock "lockstock/clients/go"
)

// Whatever happens to the network and the server, two are never inside, fences grow, every task returns in time, and nothing is left.
func TestAStormLeavesNothing(t *testing.T) {
	t.Run("over", func(t *testing.T) { over(t, storm) })
	for end := time.Now().Add(20 * time.Second); ; time.Sleep(50 * time.Millisecond) {
		stacks := make([]byte, 1<<20)
		stacks = stacks[:runtime.Stack(stacks, true)]
		left := leftover.FindString(string(stacks))
		if left == "" {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("a goroutine is left in %s:\n%s", left, stacks)
		}
	}
}

// leftover is a function of the package, or of what it speaks over, in which a goroutine is.
var leftover = regexp.MustCompile(`lockstock/clients/go(/over\w+)?\.[^\n]+`)

func storm(s *server, client lockstock.Client) {
	ctx, cancel := context.WithTimeout(background, 10*time.Second)
	defer cancel()
	var inside atomic.Pointer[lockstock.Lock]
	var granted atomic.Int64
	var last int64
	var done sync.WaitGroup
	for range 30 {
		done.Go(func() {
			for ctx.Err() == nil {
				one, cancel := context.WithTimeout(ctx, time.Duration(rand.Int64N(int64(3*time.Second))))
				begun := time.Now()
				options := []lockstock.Option{lockstock.Wait(time.Second), lockstock.Lease(2 * time.Second)}
				session := rand.IntN(4) == 0
				if session {
					options = append(options, lockstock.Session())
				}
				lock, err := lockstock.Acquire(one, client, "job", options...)
				if took := time.Since(begun); took > 4*time.Second {
					s.Error("a wait took", took)
				}
				if err == nil {
					granted.Add(1)
					if lock.Held() {
						// A session ends with its connection, at once, and hears of it later.
						if !session {
							if other := inside.Swap(lock); other != nil && other.Held() && lock.Held() {
								s.Error("two are inside")
							}
						} else if other := inside.Load(); other != nil && other.Held() && lock.Held() {
							s.Error("two are inside")
						}
						if lock.Held() && lock.Fence() <= atomic.SwapInt64(&last, lock.Fence()) && lock.Held() {
							s.Error("a smaller fence")
						}
						time.Sleep(time.Millisecond)
						inside.CompareAndSwap(lock, nil)
					}
					begun = time.Now()
					err = lock.Release(background)
					if took := time.Since(begun); took > 6*time.Second {
						s.Error("a release took", took)
					}
				}
				for _, kind := range []error{
					nil, lockstock.ErrNotAcquired, lockstock.ErrUnreachable, lockstock.ErrLost, context.DeadlineExceeded,
				} {
					if errors.Is(err, kind) {
						err = nil
					}
				}
				if err != nil {
					s.Error(err)
				}
				cancel()
			}
		})
	}
	for ctx.Err() == nil {
		time.Sleep(time.Duration(rand.IntN(300)) * time.Millisecond)
		switch rand.IntN(3) {
		case 0:
			thaw := s.freeze()
			time.Sleep(time.Duration(rand.IntN(800)) * time.Millisecond)
			thaw()
		default:
			s.rdb.Do(background, "CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
		}
	}
	done.Wait()
	equal(s, granted.Load() > 10, true)
	s.eventually("nothing is left", func() bool { return s.locks() == 0 && s.waiters() == 0 })
}
