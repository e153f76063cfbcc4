package lockstock

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"
)

// kind is an error to be compared with by errors.Is. One kind may be a case of another.
type kind struct {
	text string
	of   error
}

func (k *kind) Error() string { return k.text }

func (k *kind) Unwrap() error {
	if k.of == nil {
		return Err
	}
	return k.of
}

// The errors that errors.Is finds in the errors of this package. These also wrap their cause: an error of the client's library, or the
// cause of the end of a context, unless that is one of these, of another lock.
var (
	// Err is in all of them.
	Err = errors.New("lockstock")
	// ErrNotAcquired: others had the lock during the whole wait.
	ErrNotAcquired error = &kind{text: "lockstock: not acquired: others had the lock"}
	// ErrNotReplicated is an ErrNotAcquired: fewer replicas than asked for had the grant within a second, and it was released.
	ErrNotReplicated error = &kind{"lockstock: too few replicas took the grant, so it was released", ErrNotAcquired}
	// ErrAlreadyHeld: the token that was named has the lock or asks for it already, and a token is one holder; or the request has the context of
	// a hold of this lock.
	ErrAlreadyHeld error = &kind{text: "lockstock: held or asked for already"}
	// ErrLost: the hold had ended before it was released, or may have. Another token may have the lock.
	ErrLost error = &kind{text: "lockstock: the lock was lost"}
	// ErrReleased is the cause of the end of a lock's context after Release.
	ErrReleased error = &kind{text: "lockstock: the lock was released"}
	// ErrUnreachable: no server answered in time. The request may have been carried out.
	ErrUnreachable error = &kind{text: "lockstock: no server answers"}
	// ErrNotReleased is an ErrUnreachable: it is unknown whether the lock was released, and its lease ends it; or it has ended, but perhaps not
	// by this release, because an answer was lost.
	ErrNotReleased error = &kind{"lockstock: it is not known whether the lock was released", ErrUnreachable}
	// ErrRefused: the server has answered with an error, which errors.As finds as a *ServerError.
	ErrRefused error = &kind{text: "lockstock: refused"}
	// ErrDeadlock is an ErrRefused: the holder of this lock waits for one that this token holds.
	ErrDeadlock error = &kind{"lockstock: deadlock", ErrRefused}
	// ErrNoModule is an ErrRefused: the server has not loaded the module.
	ErrNoModule error = &kind{"lockstock: the server has not loaded the module lockstock", ErrRefused}
	// ErrNoSale: there is no such sale.
	ErrNoSale error = &kind{text: "lockstock: no such sale"}
	// ErrSaleExists is an ErrRefused: the key is in use.
	ErrSaleExists error = &kind{"lockstock: the key of the sale is in use", ErrRefused}
	// ErrNoOrder: there is no such order.
	ErrNoOrder error = &kind{text: "lockstock: no such order"}
	// ErrClosed: the client is closed.
	ErrClosed error = &kind{text: "lockstock: the client is closed"}
	// ErrInvalid: an argument means nothing; nothing was sent.
	ErrInvalid error = &kind{text: "lockstock: invalid argument"}

	errNoAnswer = errors.New("no answer in time")

	errOtherValue error = &kind{"lockstock: refused", ErrRefused}
)

// rueidis leaves ERR out.
var unknown = regexp.MustCompile(`^(ERR )?unknown command .(LOCK|STOCK)\.`)

var answers = []struct {
	code string
	kind error
}{
	{"NOTHELD ", ErrLost},
	{"WRONGTYPE ", errOtherValue},
	{"DEADLOCK ", ErrDeadlock},
	{"NOSTOCK ", ErrNoSale},
	{"BUSYKEY ", ErrSaleExists},
}

// classify gives the meaning of an error of the client's library.
func classify(err error) error {
	var already *kind
	if err == nil || errors.As(err, &already) {
		return err
	}
	if passes(err) {
		return fmt.Errorf("%w: %w", ErrUnreachable, err)
	}
	if unknown.MatchString(err.Error()) {
		return fmt.Errorf("%w: %w", ErrNoModule, err)
	}
	for _, answer := range answers {
		if strings.HasPrefix(err.Error(), answer.code) {
			return fmt.Errorf("%w: %w", answer.kind, err)
		}
	}
	return fmt.Errorf("%w: %w", ErrRefused, err)
}

// stopped is the error of a call whose own context has ended: how, and why if that is known.
func stopped(ctx context.Context) error {
	cause, own := context.Cause(ctx), (*kind)(nil)
	switch {
	case errors.As(cause, &own):
		// Of another lock. The error of this call is of no such kind.
		return fmt.Errorf("%w: %w: %v", Err, ctx.Err(), cause)
	case !errors.Is(cause, ctx.Err()):
		return fmt.Errorf("%w: %w: %w", Err, ctx.Err(), cause)
	}
	return fmt.Errorf("%w: %w", Err, cause)
}

func invalid(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrInvalid, fmt.Sprintf(format, args...))
}

// unexpected is the error of a reply of the wrong form.
func unexpected(reply any) error { return fmt.Errorf("%w: unexpected reply %v", ErrRefused, reply) }
