package lockstock_test

import (
	"net"
	"sync/atomic"
	"testing"
	"time"

	lockstock "lockstock/clients/go"
)

// slow is the address of a relay to the server: what goes through it takes as long as delay says, in each direction.
func (s *server) slow(delay *atomic.Int64) string {
	listener := must(net.Listen("tcp", "127.0.0.1:0"))
	s.Cleanup(func() { listener.Close() })
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
			go carry(near, far, delay)
			go carry(far, near, delay)
		}
	}()
	return listener.Addr().String()
}

func carry(from, to net.Conn, delay *atomic.Int64) {
	type parcel struct {
		bytes []byte
		due   time.Time
	}
	parcels := make(chan parcel, 1_000)
	go func() {
		defer to.Close()
		for one := range parcels {
			time.Sleep(time.Until(one.due))
			if _, err := to.Write(one.bytes); err != nil {
				from.Close()
			}
		}
	}()
	defer close(parcels)
	for {
		bytes := make([]byte, 1<<16)
		count, err := from.Read(bytes)
		if err != nil {
			return
		}
		parcels <- parcel{bytes[:count], time.Now().Add(time.Duration(delay.Load()))}
	}
}

func TestAHoldGoesOnThoughAnswersTakeAFifthOfItsLease(t *testing.T) {
	for name, connect := range libraries {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := start(t)
			var delay atomic.Int64
			lock := must(lockstock.Acquire(background, connect(t, s.slow(&delay)), "job", lockstock.Lease(6*time.Second)))
			delay.Store(int64(550 * time.Millisecond))
			select {
			case <-lock.Context().Done():
				t.Fatal("it was lost")
			case <-time.After(9 * time.Second):
			}
			equal(s, lock.Held(), true)
			delay.Store(0)
			s.is(lock.Release(background), nil)
		})
	}
}
