package lockstock

import (
	"context"
	"errors"
	"net"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"time"
)

const (
	// How long a request that does not wait may take.
	patience = 2 * time.Second
	// How much later than its time a wait ends at most.
	overtime = 1900 * time.Millisecond
	// How long a release or the withdrawal of a wait is tried.
	farewell = 5 * time.Second
	// How long to wait before asking a server again that could not answer.
	pause = 50 * time.Millisecond
	// How often a wait looks whether its server is still there.
	probe = 15 * time.Second
	// How long replicas have to take a grant.
	replication = time.Second
	// The largest integer that the server takes.
	most = 1<<53 - 1
)

// Command is one command: its words, and the place of its (first) key among them, by which a cluster's client finds the server.
type Command struct {
	Words []string
	Key   int

	// Where one is noted that sets the lease of a token, and to what.
	late  *late
	lease time.Duration
}

func (c Command) setting(late *late, lease time.Duration) Command {
	c.late, c.lease = late, lease
	return c
}

// Acquires says whether the command asks for a lock.
func (c Command) Acquires() bool { return strings.HasSuffix(c.Words[0], "ACQUIRE") }

// Client sends commands. The packages overgoredis and overrueidis make one of go-redis's and rueidis's clients; any number of goroutines
// may share it.
//
// A reply is nil, an int64, a string, a float64, a bool, a []any of such, or a map with string (or any) keys. An error that the server has
// answered is a [*ServerError]. A [*net.OpError] of a dial means that nothing was sent. Every other error means that the outcome of the
// command is unknown, and an [ErrClosed] means that a repetition does not help. A client sends a command once, follows MOVED and ASK, and sends
// nothing more when ctx has ended. Do may return later than that: when the command is answered, or can arrive no more.
type Client interface {
	Do(ctx context.Context, command Command) (any, error)
	// Dedicate gives a connection to the server of this key that no other caller uses.
	Dedicate(ctx context.Context, key string) (Conn, error)
}

// Conn is one connection, for requests that wait and for sessions. It follows a redirection only with a command that acquires, for it would
// leave the connection of a session. Where ASK has led, it sends ASKING before each command. Close may be called at any time: it ends a Do that is under way,
// unless reuse says that none is and the connection may serve again.
type Conn interface {
	Do(ctx context.Context, command Command) (any, error)
	Close(reuse bool)
}

// sender is a Client or a Conn.
type sender interface {
	Do(ctx context.Context, command Command) (any, error)
}

// session is the connection that a session lasts as long as. A library closes one whose answer is late, so no end of a context gets there; and
// while an answer is late, nothing else is sent.
type session struct {
	Conn
	turn sync.Mutex
}

func (s *session) Do(ctx context.Context, command Command) (any, error) {
	if !s.turn.TryLock() {
		return nil, errNoAnswer
	}
	defer s.turn.Unlock()
	return s.Conn.Do(context.WithoutCancel(ctx), command)
}

// Close does not let a connection serve again over which an answer is late.
func (s *session) Close(reuse bool) { s.Conn.Close(reuse && s.turn.TryLock()) }

// pending counts the commands that may still arrive: they were sent, and are neither answered nor dropped.
type pending struct {
	mutex sync.Mutex
	count int
	// Is closed when there are none.
	over chan struct{}
}

func (p *pending) add(count int) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	if p.count == 0 {
		p.over = make(chan struct{})
	}
	if p.count += count; p.count == 0 {
		close(p.over)
		p.over = nil
	}
}

// wait waits until there are none, and says whether there were any.
func (p *pending) wait() bool {
	p.mutex.Lock()
	over := p.over
	p.mutex.Unlock()
	if over != nil {
		<-over
	}
	return over != nil
}

// once sends a command, and stops listening when ctx ends. The library below may go on for a while; sent counts what it goes on with.
func once(ctx context.Context, via sender, command Command, sent *pending) (any, error) {
	type answer struct {
		reply any
		err   error
	}
	if err := ctx.Err(); err != nil {
		return nil, context.Cause(ctx)
	}
	answers := make(chan answer, 1)
	sent.add(1)
	end := command.late.begin(command.lease)
	go func() {
		reply, err := via.Do(ctx, command)
		end(err)
		sent.add(-1)
		answers <- answer{reply, err}
	}()
	select {
	case one := <-answers:
		return one.reply, one.err
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// ask sends a command until it is answered, within patience. One that must not be repeated is sent again only if it is known that nothing was
// done.
func ask(ctx context.Context, client Client, command Command, within time.Duration, repeatable bool, sent *pending) (any, error) {
	caller := ctx
	ctx, cancel := context.WithTimeoutCause(ctx, within, errNoAnswer)
	defer cancel()
	for {
		reply, err := once(ctx, client, command, sent)
		switch {
		case err == nil:
			return reply, nil
		case passes(err) && (isNothingDone(err) || repeatable) && sleep(ctx, pause) == nil:
		case caller.Err() != nil:
			return nil, stopped(caller)
		default:
			return nil, classify(err)
		}
	}
}

// dedicate is Client.Dedicate, and ends when ctx does.
func dedicate(ctx context.Context, client Client, key string) (Conn, error) {
	type made struct {
		conn Conn
		err  error
	}
	ctx, cancel := context.WithTimeoutCause(ctx, patience, errNoAnswer)
	// Not as soon as the connection is made. Both cases below would be ready then, and the wrong one might be taken.
	defer cancel()
	connections := make(chan made, 1)
	go func() {
		conn, err := client.Dedicate(ctx, key)
		connections <- made{conn, err}
	}()
	select {
	case one := <-connections:
		return one.conn, one.err
	case <-ctx.Done():
		go func() {
			if late := <-connections; late.err == nil {
				late.conn.Close(true)
			}
		}()
		return nil, context.Cause(ctx)
	}
}

func sleep(ctx context.Context, span time.Duration) error {
	select {
	case <-time.After(span):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// ServerError is an error that the server has answered. It wraps that of the client's library.
type ServerError struct {
	Text string
	Err  error
}

func (e *ServerError) Error() string { return e.Text }

func (e *ServerError) Unwrap() error { return e.Err }

func isAnswer(err error) bool {
	var answer *ServerError
	return errors.As(err, &answer)
}

// isNothingDone says whether it is known that a command was not carried out: the server has said so, or no connection to it was made.
func isNothingDone(err error) bool {
	var failure *net.OpError
	return isAnswer(err) || errors.As(err, &failure) && failure.Op == "dial"
}

var passing = regexp.MustCompile(`^((ERR )?max number of clients|UNBLOCKED (force|this server)|(MOVED|ASK|TRYAGAIN|CLUSTERDOWN|READONLY|LOADING|MASTERDOWN|BUSY)\b)`)

// passes says whether asking again, of the same server or another, may help.
func passes(err error) bool {
	if isAnswer(err) {
		return passing.MatchString(err.Error())
	}
	return !errors.Is(err, ErrClosed)
}

var unwritable = regexp.MustCompile(`^(NOREPLICAS|MISCONF)\b`)

// passesForRelease is like passes. A release is also sent again to a server that may not write now.
func passesForRelease(err error) bool {
	return passes(err) || isAnswer(err) && unwritable.MatchString(err.Error())
}

func ms(span time.Duration) string {
	return strconv.FormatInt(max(int64((span+time.Millisecond-1)/time.Millisecond), 1), 10)
}

func number(n int64) string { return strconv.FormatInt(n, 10) }
