// How to take locks and orders of lockstock with rueidis: a story that prints what it does.
//
//	go run ./examples/rueidis redis://127.0.0.1:6379
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/redis/rueidis"

	lockstock "lockstock/clients/go"
	"lockstock/clients/go/overrueidis"
)

func main() {
	url := "redis://127.0.0.1:6379"
	if len(os.Args) > 1 {
		url = os.Args[1]
	}
	options := must(rueidis.ParseURL(url))
	options.DialCtxFn = overrueidis.Dial
	connection := must(rueidis.NewClient(options))
	defer connection.Close()
	client := overrueidis.New(connection)
	ctx := context.Background()

	held := must(lockstock.Acquire(ctx, client, "job:42", lockstock.Wait(time.Second), lockstock.Lease(10*time.Second)))
	fmt.Printf("held: %t, with a fence: %t\n", held.Context().Err() == nil, held.Fence() > 0)
	_, err := lockstock.Acquire(ctx, client, "job:42", lockstock.Wait(200*time.Millisecond))
	fmt.Printf("granted to who waits 200 ms: %t\n", !errors.Is(err, lockstock.ErrNotAcquired))
	// A caller that stops waiting before that leaves the line.
	soon, cancel := context.WithTimeout(ctx, 200*time.Millisecond)
	defer cancel()
	if _, err := lockstock.Acquire(soon, client, "job:42", lockstock.WaitForever()); !errors.Is(err, context.DeadlineExceeded) {
		panic(err)
	}

	// Three more stand in line and are served in order, each by the release of the one before it.
	served := make(chan int64)
	for range 3 {
		go func() {
			lock := must(lockstock.Acquire(ctx, client, "job:42", lockstock.Wait(20*time.Second)))
			served <- lock.Fence()
			if err := lock.Release(ctx); err != nil {
				panic(err)
			}
			served <- 0
		}()
		time.Sleep(200 * time.Millisecond) // Only so that they come one after another.
	}
	fmt.Printf("released: %t\n", held.Release(ctx) == nil)
	for number, last := 1, int64(0); number <= 3; {
		if fence := <-served; fence != 0 {
			fmt.Printf("worker %d, with a larger fence: %t\n", number, fence > last)
			number, last = number+1, fence
		}
	}
	<-served

	mug := lockstock.NewStock(client, "mug")
	if err := mug.Create(ctx, 1, lockstock.Terms{}); err != nil && !errors.Is(err, lockstock.ErrSaleExists) {
		panic(err)
	}
	order := lockstock.Order{Hold: 10 * time.Minute}
	for _, step := range []struct {
		what    string
		outcome lockstock.Outcome
	}{
		{"order", must(mug.Take(ctx, "ann", order))},
		{"again", must(mug.Take(ctx, "ann", order))},
		{"other", must(mug.Take(ctx, "bob", order))},
		{"paid", must(mug.Confirm(ctx, "ann"))},
		{"again", must(mug.Confirm(ctx, "ann"))},
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
