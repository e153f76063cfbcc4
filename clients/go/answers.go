package lockstock

import (
	"fmt"
	"time"
)

// Status is the status in a sale's answer. None is an error.
type Status string

// The statuses; a later server may have more.
const (
	// OK: done by this request.
	OK Status = "OK"
	// Duplicate: already so, by an earlier request of this id.
	Duplicate Status = "DUPLICATE"
	// SoldOut and Insufficient: nothing is left, or fewer than asked for.
	SoldOut      Status = "SOLDOUT"
	Insufficient Status = "INSUFFICIENT"
	// OverLimit: the buyer would pass the sale's limit.
	OverLimit Status = "LIMIT"
	// NotStarted and Ended: outside of the sale's window.
	NotStarted Status = "NOTSTARTED"
	Ended      Status = "ENDED"
	// Expired and Cancelled: this id's hold has lapsed or was cancelled, and the sale does not sell to it again.
	Expired   Status = "EXPIRED"
	Cancelled Status = "CANCELLED"
	// Queued: the order stands on the waitlist.
	Queued Status = "QUEUED"
	// Skipped: it could have been taken, but another sale of the cart refused.
	Skipped Status = "SKIPPED"
	// NoOrder and NoStock: there is no such order, or no such sale.
	NoOrder Status = "NOORDER"
	NoStock Status = "NOSTOCK"
)

// Outcome is the outcome of a request for an order: the status, the units that the id has now, the units that may be sold now, the time at
// which a hold ends (zero: never; with NotStarted, when the sale starts), and the reference that was stored with the order.
type Outcome struct {
	Status           Status
	Units, Remaining int64
	Deadline         time.Time
	Ref              string
}

// Done says whether it is as asked, by this request or an earlier one.
func (o Outcome) Done() bool { return o.Status == OK || o.Status == Duplicate }

// Cart is the outcome of one order over several sales: the outcome of all, and that of each sale in the order
// of the request.
type Cart struct {
	Status Status
	Legs   []Outcome
}

// Done says whether it is as asked in all sales, by this request or an earlier one.
func (c Cart) Done() bool { return c.Status == OK || c.Status == Duplicate }

// State is the state of an order.
type State string

// The states of orders; Any stands for all of them in [Stock.Orders].
const (
	Any            State = ""
	Held           State = "held"
	Sold           State = "sold"
	StateCancelled State = "cancelled"
	StateExpired   State = "expired"
	Waiting        State = "waiting"
)

// Placed is an order. Place is its place on the waitlist (1: next; 0: it does not wait), and only [Stock.Order] tells it.
type Placed struct {
	ID         string
	State      State
	Units      int64
	Buyer, Ref string
	Deadline   time.Time
	Place      int64
}

// Sale has the sums and conditions of a sale. Total is Remaining, Held and Sold together. Seq counts its changes. Counters are how often
// this server has given each answer since it loaded the sale.
type Sale struct {
	Total, Remaining, Held, Sold            int64
	Orders, Buyers, Waiting, Limit, Changes int64
	Start, End                              time.Time
	Rebuy, Deadlines                        bool
	Stream                                  string
	Counters                                map[string]int64
}

// fields are those of an answer that is a map with RESP3 and a flat list with RESP2.
func fields(reply any) (map[string]any, error) {
	found := map[string]any{}
	switch pairs := reply.(type) {
	case map[string]any:
		return pairs, nil
	case map[any]any:
		for name, value := range pairs {
			found[fmt.Sprint(name)] = value
		}
	case []any:
		for i := 0; i+1 < len(pairs); i += 2 {
			found[fmt.Sprint(pairs[i])] = pairs[i+1]
		}
	default:
		return nil, unexpected(reply)
	}
	return found, nil
}

// scan reads the values of a row into strings, integers and times.
func scan(row []any, into ...any) error {
	if len(row) < len(into) {
		return unexpected(row)
	}
	for i, place := range into {
		var ok bool
		switch place := place.(type) {
		case *string:
			*place, ok = row[i].(string)
		case *Status:
			var text string
			text, ok = row[i].(string)
			*place = Status(text)
		case *State:
			var text string
			text, ok = row[i].(string)
			*place = State(text)
		case *int64:
			*place, ok = row[i].(int64)
		case *time.Time:
			var at int64
			at, ok = row[i].(int64)
			*place = moment(at)
		}
		if !ok {
			return unexpected(row)
		}
	}
	return nil
}

func moment(at int64) time.Time {
	if at <= 0 {
		return time.Time{}
	}
	return time.UnixMilli(at)
}

func outcome(reply any) (one Outcome, err error) {
	row, _ := reply.([]any)
	return one, scan(row, &one.Status, &one.Units, &one.Remaining, &one.Deadline, &one.Ref)
}

func cart(reply any, legs int) (all Cart, err error) {
	row, _ := reply.([]any)
	if len(row) != legs+1 {
		return all, unexpected(reply)
	}
	if err := scan(row, &all.Status); err != nil {
		return all, err
	}
	for _, leg := range row[1:] {
		one, err := outcome(leg)
		if err != nil {
			return all, err
		}
		all.Legs = append(all.Legs, one)
	}
	return all, nil
}

func placed(id string, reply any) (one Placed, err error) {
	found, err := fields(reply)
	if err != nil {
		return one, err
	}
	one.ID = id
	err = scan([]any{found["state"], found["units"], found["buyer"], found["ref"], found["deadline"]},
		&one.State, &one.Units, &one.Buyer, &one.Ref, &one.Deadline)
	one.Place, _ = found["place"].(int64)
	return one, err
}

type orders struct {
	next   string
	orders []Placed
}

func page(reply any) (one orders, err error) {
	row, _ := reply.([]any)
	if len(row) != 2 {
		return one, unexpected(reply)
	}
	if one.next = fmt.Sprint(row[0]); one.next == "" {
		return one, unexpected(reply)
	}
	rows, _ := row[1].([]any)
	for _, row := range rows {
		var order Placed
		values, _ := row.([]any)
		if err := scan(values, &order.ID, &order.State, &order.Units, &order.Buyer, &order.Ref, &order.Deadline); err != nil {
			return one, err
		}
		one.orders = append(one.orders, order)
	}
	return one, nil
}

func sale(reply any) (one Sale, err error) {
	found, err := fields(reply)
	if err != nil {
		return one, err
	}
	one.Stream, _ = found["stream"].(string)
	one.Rebuy, one.Deadlines = found["rebuy"] == "yes", found["deadlines"] == "yes"
	for name, place := range map[string]*int64{
		"total": &one.Total, "remaining": &one.Remaining, "held": &one.Held, "sold": &one.Sold, "orders": &one.Orders,
		"buyers": &one.Buyers, "waiting": &one.Waiting, "limit": &one.Limit, "seq": &one.Changes,
	} {
		*place, _ = found[name].(int64)
	}
	one.Counters = map[string]int64{}
	for _, name := range []string{"ok", "duplicate", "soldout", "limited", "expired", "cancelled", "confirmed"} {
		one.Counters[name], _ = found[name].(int64)
	}
	start, _ := found["start"].(int64)
	end, _ := found["end"].(int64)
	one.Start, one.End = moment(start), moment(end)
	return one, nil
}

// whole reads so many integers.
func whole(reply any, count int) ([]int64, error) {
	row, _ := reply.([]any)
	numbers, into := make([]int64, count), make([]any, count)
	for i := range numbers {
		into[i] = &numbers[i]
	}
	return numbers, scan(row, into...)
}
