package lockstock_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	lockstock "lockstock/clients/go"
)

func TestASaleFromItsCreationToItsEnd(t *testing.T) {
	over(t, func(s *server, client lockstock.Client) {
		mug := lockstock.NewStock(client, "mug")
		status := func(outcome lockstock.Outcome, err error) lockstock.Status { return must(outcome, err).Status }
		equal(s, status(mug.Take(background, "ann", lockstock.Order{})), lockstock.NoStock)
		_, err := mug.Info(background)
		s.is(err, lockstock.ErrNoSale)
		_, _, err = mug.Buyer(background, "ann")
		s.is(err, lockstock.ErrNoSale)
		_, err = mug.Adjust(background, 1, "")
		s.is(err, lockstock.ErrNoSale)
		start, end := time.Now().Add(-time.Hour).Truncate(time.Millisecond), time.Now().Add(time.Hour).Truncate(time.Millisecond)
		terms := lockstock.Terms{Limit: 4, Start: start, End: end, Rebuy: true, Stream: "mug:events", Deadlines: true}
		s.is(mug.Create(background, 6, terms), nil)
		s.is(mug.Create(background, 6, terms), lockstock.ErrSaleExists)

		order := lockstock.Order{Units: 3, Buyer: "ann", Ref: "r", Hold: time.Minute}
		taken := must(mug.Take(background, "one", order))
		equal(s, taken.Status == lockstock.OK && taken.Units == 3 && taken.Remaining == 3 && taken.Ref == "r" && taken.Done(), true)
		left := time.Until(taken.Deadline)
		equal(s, left > 50*time.Second && left <= time.Minute, true)
		equal(s, status(mug.Take(background, "one", order)), lockstock.Duplicate)
		equal(s, status(mug.Take(background, "two", lockstock.Order{Units: 2, Buyer: "ann"})), lockstock.OverLimit)
		units, limit, err := mug.Buyer(background, "ann")
		equal(s, units == 3 && limit == 4 && err == nil, true)
		extended := must(mug.Extend(background, "one", time.Hour))
		equal(s, extended.Deadline.After(taken.Deadline), true)
		equal(s, must(mug.Confirm(background, "one", lockstock.Keep(2))).Units, 2)
		equal(s, must(mug.Cancel(background, "one", lockstock.Keep(1))).Remaining, 5)
		equal(s, status(mug.Take(background, "bob", lockstock.Order{Units: 4})), lockstock.OK)
		equal(s, status(mug.Take(background, "cid", lockstock.Order{Units: 2, Waitlist: true})), lockstock.Queued)
		waits := must(mug.Order(background, "cid"))
		equal(s, waits.State == lockstock.Waiting && waits.Place == 1 && waits.ID == "cid", true)
		equal(s, must(mug.Adjust(background, 2, "restock")), 1)
		equal(s, must(mug.Adjust(background, 2, "restock")), 1)
		equal(s, must(mug.Order(background, "cid")), lockstock.Placed{ID: "cid", State: lockstock.Sold, Units: 2, Buyer: "cid"})
		_, err = mug.Order(background, "nobody")
		s.is(err, lockstock.ErrNoOrder)
		equal(s, status(mug.Confirm(background, "nobody")), lockstock.NoOrder)

		info := must(mug.Info(background))
		equal(s, info.Total, 8)
		equal(s, info.Remaining+info.Held+info.Sold, info.Total)
		equal(s, info.Start.Equal(start) && info.End.Equal(end) && info.Rebuy && info.Stream == "mug:events" && info.Deadlines, true)
		equal(s, info.Limit == 4 && info.Orders == 3 && info.Counters["ok"] > 0, true)
		none, zero := int64(0), time.Time{}
		s.is(mug.Alter(background, lockstock.Change{Limit: &none, Start: &zero, End: &zero, Rebuy: new(bool)}), nil)
		info = must(mug.Info(background))
		equal(s, info.Limit == 0 && info.Start.IsZero() && info.End.IsZero() && !info.Rebuy, true)
		early := time.Now().Add(time.Hour)
		s.is(mug.Alter(background, lockstock.Change{Start: &early}), nil)
		waiting := must(mug.Take(background, "dan", lockstock.Order{}))
		equal(s, waiting.Status == lockstock.NotStarted && waiting.Deadline.UnixMilli() == early.UnixMilli(), true)
	})
}

func TestAllOrdersOfASale(t *testing.T) {
	over(t, func(s *server, client lockstock.Client) {
		mug := lockstock.NewStock(client, "mug")
		for _, err := range mug.Orders(background, lockstock.Any) {
			s.Fatal("an order of no sale", err)
		}
		s.is(mug.Create(background, 2000, lockstock.Terms{}), nil)
		for number := range 1200 {
			must(mug.Take(background, fmt.Sprint(number), lockstock.Order{Hold: time.Hour}))
		}
		must(mug.Confirm(background, "7"))
		found := map[string]bool{}
		for order, err := range mug.Orders(background, lockstock.Any) {
			s.is(err, nil)
			equal(s, order.Units, 1)
			found[order.ID] = true
		}
		equal(s, len(found), 1200)
		for order, err := range mug.Orders(background, lockstock.Sold) {
			s.is(err, nil)
			equal(s, order.ID, "7")
		}
		for range mug.Orders(background, lockstock.Held) {
			break
		}
		ended, cancel := context.WithCancel(background)
		cancel()
		for _, err := range mug.Orders(ended, lockstock.Any) {
			s.is(err, context.Canceled)
		}
	})
}

func TestACartIsTakenAsAWholeOrNotAtAll(t *testing.T) {
	over(t, func(s *server, client lockstock.Client) {
		for _, sale := range []string{"there", "back"} {
			s.is(lockstock.NewStock(client, sale).Create(background, 1, lockstock.Terms{}), nil)
		}
		trip := []lockstock.Leg{{Sale: "there", Units: 1}, {Sale: "back", Units: 1}}
		order := lockstock.Order{Buyer: "ann", Ref: "r", Hold: time.Minute}
		cart := must(lockstock.TakeAll(background, client, "1", trip, order))
		equal(s, cart.Done() && len(cart.Legs) == 2 && cart.Legs[1].Units == 1, true)
		back := must(lockstock.NewStock(client, "back").Order(background, "1"))
		equal(s, back.State == lockstock.Held && back.Buyer == "ann" && back.Ref == "r" && time.Until(back.Deadline) > 50*time.Second, true)
		equal(s, must(lockstock.TakeAll(background, client, "1", trip, order)).Status, lockstock.Duplicate)
		equal(s, must(lockstock.ConfirmAll(background, client, "1", "there", "back")).Status, lockstock.OK)
		equal(s, must(lockstock.CancelAll(background, client, "1", "back")).Status, lockstock.OK)
		refused := must(lockstock.TakeAll(background, client, "2", trip, order))
		equal(s, refused.Status == lockstock.SoldOut && refused.Legs[1].Status == lockstock.Skipped, true)
	})
}

func TestAHundredGoroutinesBuyNoMoreThanThereIs(t *testing.T) {
	over(t, func(s *server, client lockstock.Client) {
		mug := lockstock.NewStock(client, "mug")
		s.is(mug.Create(background, hundred/2, lockstock.Terms{}), nil)
		var sold atomic.Int32
		var done sync.WaitGroup
		for number := range hundred {
			done.Go(func() {
				for range 3 {
					outcome, err := mug.Take(background, fmt.Sprint(number), lockstock.Order{})
					if err != nil {
						s.Error(err)
					}
					if outcome.Status == lockstock.OK {
						sold.Add(1)
					}
				}
			})
		}
		done.Wait()
		equal(s, sold.Load(), hundred/2)
	})
}

func TestBadArgumentsOfSalesAreRefusedWhereTheyAreMade(t *testing.T) {
	over(t, func(s *server, client lockstock.Client) {
		mug, take := lockstock.NewStock(client, "mug"), lockstock.Order{}
		s.is(mug.Create(background, 5, lockstock.Terms{}), nil)
		ms := lockstock.Order{Hold: time.Microsecond}
		_, none := mug.Take(background, "", take)
		_, units := mug.Take(background, "a", lockstock.Order{Units: -1})
		_, short := mug.Take(background, "a", ms)
		_, negative := mug.Take(background, "a", lockstock.Order{Hold: -time.Second})
		_, unnamed := lockstock.NewStock(client, "").Take(background, "a", take)
		_, nowhere := lockstock.NewStock(nil, "mug").Take(background, "a", take)
		_, kept := mug.Confirm(background, "a", 0)
		_, twice := mug.Cancel(background, "a", 1, 2)
		_, extended := mug.Extend(background, "a", 0)
		_, empty := lockstock.TakeAll(background, client, "a", nil, take)
		_, line := lockstock.TakeAll(background, client, "a", []lockstock.Leg{{Sale: "mug", Units: 1}}, lockstock.Order{Waitlist: true})
		_, nothing := lockstock.TakeAll(background, client, "a", []lockstock.Leg{{Sale: "mug"}}, take)
		_, legs := lockstock.ConfirmAll(background, client, "a")
		for _, err := range []error{
			none, units, short, negative, unnamed, nowhere, kept, twice, extended, empty, line, nothing, legs,
			mug.Create(background, -1, lockstock.Terms{}), mug.Create(background, 1, lockstock.Terms{Limit: -1}),
			mug.Create(background, 1, lockstock.Terms{Deadlines: true}), mug.Alter(background, lockstock.Change{}),
		} {
			s.is(err, lockstock.ErrInvalid)
		}
		for _, err := range mug.Orders(background, "nonsense") {
			s.is(err, lockstock.ErrInvalid)
		}
		equal(s, must(mug.Info(background)).Changes, 0)
	})
}
