package lockstock

import (
	"context"
	"strconv"
	"time"
)

// words are those of a command on sales as they are put together, with the first thing that is wrong with them.
type words struct {
	client Client
	words  []string
	key    int
	err    error
}

// words begins a command on the sale; one on several sales names them later.
func (s *Stock) words(verb string) *words {
	w := &words{client: s.client, words: []string{"STOCK." + verb}, key: 3}
	if s.client == nil {
		w.fail("the client is nil")
	}
	if verb[0] != 'M' {
		w.key = 1
		w.sale(s.sale)
	}
	return w
}

func (w *words) fail(format string, args ...any) *words {
	if w.err == nil {
		w.err = invalid(format, args...)
	}
	return w
}

func (w *words) add(more ...string) *words {
	w.words = append(w.words, more...)
	return w
}

func (w *words) option(given bool, word string) *words {
	if given {
		w.add(word)
	}
	return w
}

func (w *words) sale(key string) *words {
	if key == "" {
		w.fail("a sale needs a key that is not empty")
	}
	return w.add(key)
}

func (w *words) name(what, name string) *words {
	if err := checkName(what, name); err != nil && w.err == nil {
		w.err = err
	}
	return w.add(name)
}

func (w *words) whole(what string, n, least int64) *words {
	if n < least || n > most {
		w.fail("%s is from %d to 2^53 - 1, not %d", what, least, n)
	}
	return w.add(number(n))
}

func (w *words) span(what string, span time.Duration) *words {
	if span < time.Millisecond {
		w.fail("%s is at least a millisecond, not %v", what, span)
	}
	return w.add(ms(span))
}

// moment is a time in Unix milliseconds; the zero time is 0.
func (w *words) moment(what string, at time.Time) *words {
	if at.IsZero() {
		return w.add("0")
	}
	return w.whole(what+", in Unix milliseconds,", at.UnixMilli(), 1)
}

func (w *words) keep(keep []Keep) *words {
	if len(keep) > 1 {
		w.fail("one Keep is enough")
	}
	for _, units := range keep {
		w.add("KEEP").whole("what is kept", int64(units), 1)
	}
	return w
}

func (w *words) order(order Order) *words {
	if order.Buyer != "" {
		w.add("BUYER").name("a buyer", order.Buyer)
	}
	if order.Hold != 0 {
		w.add("HOLD").span("a hold", order.Hold)
	}
	if order.Ref != "" {
		w.add("REF").name("a reference", order.Ref)
	}
	return w
}

func (w *words) ask(ctx context.Context, repeatable bool) (any, error) {
	if w.err != nil {
		return nil, w.err
	}
	return ask(ctx, w.client, Command{Words: w.words, Key: w.key}, patience, repeatable, &pending{})
}

func (w *words) outcome(ctx context.Context) (Outcome, error) {
	reply, err := w.ask(ctx, true)
	if err != nil {
		return Outcome{}, err
	}
	return outcome(reply)
}

func (w *words) cart(ctx context.Context, legs int) (Cart, error) {
	if legs == 0 {
		w.fail("a cart needs a sale")
	}
	reply, err := w.ask(ctx, true)
	if err != nil {
		return Cart{}, err
	}
	return cart(reply, legs)
}

// read sends the words and has parse read the reply; for a null reply it returns the error none.
func read[T any](ctx context.Context, w *words, none error, parse func(any) (T, error)) (T, error) {
	reply, err := w.ask(ctx, true)
	if err == nil && reply == nil {
		err = none
	}
	if err != nil {
		var nothing T
		return nothing, err
	}
	return parse(reply)
}

// texts are the words that arguments of any of these types are sent as.
func texts(args []any) ([]string, error) {
	if len(args) == 0 {
		return nil, invalid("a command is needed: its name, then its arguments")
	}
	words := make([]string, 0, len(args))
	for _, arg := range args {
		switch arg := arg.(type) {
		case string:
			words = append(words, arg)
		case []byte:
			words = append(words, string(arg))
		case int:
			words = append(words, strconv.Itoa(arg))
		case int64:
			words = append(words, number(arg))
		case uint64:
			words = append(words, strconv.FormatUint(arg, 10))
		case float64:
			words = append(words, strconv.FormatFloat(arg, 'f', -1, 64))
		default:
			return nil, invalid("an argument of a command is a string, []byte, int, int64, uint64 or float64, not %T", arg)
		}
	}
	return words, nil
}
