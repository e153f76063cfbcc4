package lockstock

import (
	"context"
	"iter"
	"time"
)

// Stock is one sale, and the requests to it. Every request but a Create, and an Adjust without an id, may be repeated, and is when a
// connection breaks.
type Stock struct {
	client Client
	sale   string
}

// NewStock is the sale of this key. Nothing is sent.
func NewStock(client Client, sale string) *Stock { return &Stock{client, sale} }

// Terms are the conditions of a new sale, beside its total. Start and End are its window (zero: open), Limit is the most that one buyer
// may have (0: no limit). With Rebuy, an id whose order lapsed or was cancelled may buy again. Each change is an entry of the stream named
// Stream, with Deadlines all that is needed to rebuild the orders.
type Terms struct {
	Limit            int64
	Start, End       time.Time
	Rebuy, Deadlines bool
	Stream           string
}

// Change has the changes of Alter; a field that is nil stays. A limit of 0 and a zero time take the limit and the end of the
// window away.
type Change struct {
	Limit      *int64
	Start, End *time.Time
	Rebuy      *bool
}

// Order is a request for an order: so many units (0: one) for a buyer (the id itself if it is empty), reserved for Hold, or sold at once if
// that is 0. Ref is stored with the order. With Waitlist the order stands in line if too little is left.
type Order struct {
	Units      int64
	Buyer, Ref string
	Hold       time.Duration
	Waitlist   bool
}

// Keep is how many units a Confirm or a Cancel leaves the order; the others go back.
type Keep int64

// Leg is one sale of a cart, and how many units of it.
type Leg struct {
	Sale  string
	Units int64
}

// Create makes the sale, with so many units. The error is an [ErrSaleExists] if the key is in use. It is sent once: after a lost answer, a
// second one would be told that the sale exists.
func (s *Stock) Create(ctx context.Context, total int64, terms Terms) error {
	w := s.words("CREATE").whole("a total", total, 0)
	if terms.Limit != 0 {
		w.add("LIMIT").whole("a limit", terms.Limit, 1)
	}
	if !terms.Start.IsZero() {
		w.add("START").moment("a start", terms.Start)
	}
	if !terms.End.IsZero() {
		w.add("END").moment("an end", terms.End)
	}
	w.option(terms.Rebuy, "REBUY")
	if terms.Stream != "" {
		w.add("STREAM", terms.Stream).option(terms.Deadlines, "DEADLINES")
	} else if terms.Deadlines {
		w.fail("Deadlines needs a Stream")
	}
	_, err := w.ask(ctx, false)
	return err
}

// Alter changes the terms of the sale. The error is an [ErrNoSale] if there is none.
func (s *Stock) Alter(ctx context.Context, change Change) error {
	w := s.words("ALTER")
	if change.Limit != nil {
		w.add("LIMIT").whole("a limit", *change.Limit, 0)
	}
	if change.Start != nil {
		w.add("START").moment("a start", *change.Start)
	}
	if change.End != nil {
		w.add("END").moment("an end", *change.End)
	}
	if change.Rebuy != nil {
		w.add("REBUY").add(map[bool]string{true: "yes", false: "no"}[*change.Rebuy])
	}
	if len(w.words) == 2 {
		w.fail("a change changes something")
	}
	_, err := w.ask(ctx, true)
	return err
}

// Adjust adds units, or withdraws unsold ones, and returns the units that remain. The sale remembers the id, so that the adjustment may be
// repeated; without one ("") it is sent once.
func (s *Stock) Adjust(ctx context.Context, delta int64, id string) (int64, error) {
	w := s.words("ADJUST").whole("a delta", delta, -most)
	if id != "" {
		w.add("ID").name("an id", id)
	}
	reply, err := w.ask(ctx, id != "")
	if err != nil {
		return 0, err
	}
	remaining, ok := reply.(int64)
	if !ok {
		return 0, unexpected(reply)
	}
	return remaining, nil
}

// Take takes units for an id, once: a repetition returns Duplicate. The id names the thing that must happen once.
func (s *Stock) Take(ctx context.Context, id string, order Order) (Outcome, error) {
	w := s.words("DECR_ONCE").name("an id", id)
	if order.Units != 0 {
		w.add("QTY").whole("the number of units", order.Units, 1)
	}
	return w.order(order).option(order.Waitlist, "WAITLIST").outcome(ctx)
}

// Confirm sells the held units: the payment is there. With a [Keep], of that many units; the others go back.
func (s *Stock) Confirm(ctx context.Context, id string, keep ...Keep) (Outcome, error) {
	return s.words("CONFIRM").name("an id", id).keep(keep).outcome(ctx)
}

// Cancel gives units back, once. With a [Keep], all but that many.
func (s *Stock) Cancel(ctx context.Context, id string, keep ...Keep) (Outcome, error) {
	return s.words("CANCEL").name("an id", id).keep(keep).outcome(ctx)
}

// Extend moves the deadline of a hold to that long from now.
func (s *Stock) Extend(ctx context.Context, id string, hold time.Duration) (Outcome, error) {
	return s.words("EXTEND").name("an id", id).add("PX").span("a hold", hold).outcome(ctx)
}

// Info gives the sums and conditions of the sale. The error is an [ErrNoSale] if there is none.
func (s *Stock) Info(ctx context.Context) (Sale, error) {
	return read(ctx, s.words("INFO"), ErrNoSale, sale)
}

// Order gives the state of an order. The error is an [ErrNoOrder] if there is none.
func (s *Stock) Order(ctx context.Context, id string) (Placed, error) {
	return read(ctx, s.words("ORDER").name("an id", id), ErrNoOrder, func(reply any) (Placed, error) { return placed(id, reply) })
}

// Buyer says how many units a buyer has or waits for, and the sale's limit (0: none). The error is an [ErrNoSale] if there is none.
func (s *Stock) Buyer(ctx context.Context, buyer string) (units, limit int64, err error) {
	pair, err := read(ctx, s.words("BUYER").name("a buyer", buyer), ErrNoSale, func(reply any) ([]int64, error) { return whole(reply, 2) })
	if err != nil {
		return 0, 0, err
	}
	return pair[0], pair[1], nil
}

// Orders are all orders of the sale in this state (Any: in every), as SCAN gives them: one that changes meanwhile may come twice.
func (s *Stock) Orders(ctx context.Context, state State) iter.Seq2[Placed, error] {
	return func(yield func(Placed, error) bool) {
		switch state {
		case Any, Held, Sold, StateCancelled, StateExpired, Waiting:
		default:
			yield(Placed{}, invalid("a state is one of those that are named here, not %q", string(state)))
			return
		}
		for cursor := "0"; ; {
			w := s.words("ORDERS").add(cursor, "COUNT", "500")
			if state != Any {
				w.add("STATE", string(state))
			}
			page, err := read(ctx, w, ErrNoSale, page)
			if err != nil {
				yield(Placed{}, err)
				return
			}
			for _, one := range page.orders {
				if !yield(one, nil) {
					return
				}
			}
			if cursor = page.next; cursor == "0" {
				return
			}
		}
	}
}

// TakeAll is one order over several sales, of one slot in a cluster: all of it or nothing. What an Order says of units is said by the legs, and
// there is no waitlist.
func TakeAll(ctx context.Context, client Client, id string, legs []Leg, order Order) (Cart, error) {
	w := (&Stock{client, ""}).words("MDECR_ONCE").name("an id", id).add(number(int64(len(legs))))
	for _, leg := range legs {
		w.sale(leg.Sale).whole("the number of units", leg.Units, 1)
	}
	if order.Units != 0 || order.Waitlist {
		w.fail("a cart's legs say how many units, and it has no waitlist")
	}
	return w.order(order).cart(ctx, len(legs))
}

// ConfirmAll confirms an order in all these sales, or in none.
func ConfirmAll(ctx context.Context, client Client, id string, sales ...string) (Cart, error) {
	return legs(client, "MCONFIRM", id, sales).cart(ctx, len(sales))
}

// CancelAll cancels an order in each of these sales.
func CancelAll(ctx context.Context, client Client, id string, sales ...string) (Cart, error) {
	return legs(client, "MCANCEL", id, sales).cart(ctx, len(sales))
}

func legs(client Client, verb, id string, sales []string) *words {
	w := (&Stock{client, ""}).words(verb).name("an id", id).add(number(int64(len(sales))))
	for _, sale := range sales {
		w.sale(sale)
	}
	return w
}
