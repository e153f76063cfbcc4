// Package overrueidis has lockstock speak over rueidis.
package overrueidis

import (
	"context"
	"crypto/tls"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/redis/rueidis"

	lockstock "lockstock/clients/go"
	"lockstock/clients/go/internal/reset"
)

// For how many places more than there are callers a pool may be asked: a server that went silent answers none of them for a while.
const spare = 16

// Client is a lockstock.Client over a rueidis client, of one server, behind Sentinel or in a cluster. Each wait and each session has a
// connection of its BlockingPoolSize; all other requests go over its shared connections.
type Client struct {
	client rueidis.Client
	// Whether a command finds its server by its key.
	cluster bool

	mutex sync.Mutex
	// Those that are in use.
	conns map[*conn]struct{}
	// The callers that wait for a place in the pool, and how many places the pool was asked for.
	queue  []chan *conn
	asked  int
	closed bool
}

// New makes one. Close it before client.
func New(client rueidis.Client) *Client {
	return &Client{client: client, cluster: client.Mode() == rueidis.ClientModeCluster, conns: map[*conn]struct{}{}}
}

// Dial is for the DialCtxFn of a rueidis client's options. It connects as rueidis does by itself, but the end of a connection drops what that
// has not delivered. Otherwise, a request that was given up may arrive after its successors.
func Dial(ctx context.Context, address string, dialer *net.Dialer, secured *tls.Config) (net.Conn, error) {
	if secured == nil {
		return reset.OnClose(dialer.DialContext(ctx, "tcp", address))
	}
	return reset.OnClose((&tls.Dialer{NetDialer: dialer, Config: secured}).DialContext(ctx, "tcp", address))
}

// Close ends the waits, and gives the connections back; client stays open. Locks that are still held end with their leases, those of a
// session at once.
func (c *Client) Close() error {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	c.closed = true
	for conn := range c.conns {
		conn.end()
	}
	clear(c.conns)
	for _, place := range c.queue {
		close(place)
	}
	c.queue = nil
	return nil
}

func (c *Client) isClosed() bool {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	return c.closed
}

// Do sends a command to the server of its key.
func (c *Client) Do(ctx context.Context, command lockstock.Command) (any, error) {
	if c.isClosed() {
		return nil, lockstock.ErrClosed
	}
	if !c.cluster {
		// Without a key, it goes over the first of the connections that all share, and so arrives after those before it.
		command.Key = 0
	}
	return said(c.client.Do(listener{ctx}, words(c.client.B(), command, false)))
}

// listener is a context after whose end rueidis sends nothing, but listens on: a late answer does not close the connection that all share, and
// Do returns when the command can arrive no more. For such a context rueidis also reads all the time, so that it does not send over a
// connection that was closed meanwhile.
type listener struct{ context.Context }

func (listener) Deadline() (time.Time, bool) { return time.Time{}, false }

func (listener) Done() <-chan struct{} { return never }

var never = make(chan struct{})

// Dedicate gives a connection to the server of this key that no other caller uses.
func (c *Client) Dedicate(ctx context.Context, _ string) (lockstock.Conn, error) {
	place := make(chan *conn, 1)
	c.mutex.Lock()
	if c.closed {
		c.mutex.Unlock()
		return nil, lockstock.ErrClosed
	}
	c.queue = append(c.queue, place)
	if c.asked < len(c.queue)+spare {
		c.asked++
		go c.dedicate()
	}
	c.mutex.Unlock()
	select {
	case one := <-place:
		if one == nil {
			return nil, lockstock.ErrClosed
		}
		return one, nil
	case <-ctx.Done():
		c.mutex.Lock()
		defer c.mutex.Unlock()
		if at := slices.Index(c.queue, place); at >= 0 {
			c.queue = slices.Delete(c.queue, at, at+1)
		} else if one := <-place; one != nil {
			delete(c.conns, one)
			one.release()
		}
		return nil, context.Cause(ctx)
	}
}

// dedicate waits for a place in the pool. This cannot be broken off, so the place is for any caller.
func (c *Client) dedicate() {
	one := &conn{client: c}
	one.dedicated, one.release = c.client.Dedicate()
	c.mutex.Lock()
	defer c.mutex.Unlock()
	c.asked--
	if c.closed || len(c.queue) == 0 {
		one.release()
		return
	}
	c.conns[one] = struct{}{}
	c.queue[0] <- one
	c.queue = c.queue[1:]
}

// conn is a connection of its own. What it has is guarded by the mutex of its Client.
type conn struct {
	client    *Client
	dedicated rueidis.DedicatedClient
	release   func()
	// Whether ASK has led here.
	asks bool
}

// Do sends a command over this connection; where ASK says so to one that acquires, this is from then on one to another server.
func (c *conn) Do(ctx context.Context, command lockstock.Command) (any, error) {
	c.client.mutex.Lock()
	dedicated, asks := c.dedicated, c.asks
	c.client.mutex.Unlock()
	result := send(ctx, dedicated, command, asks)
	refused, ok := rueidis.IsRedisErr(result.Error())
	if !ok {
		return said(result)
	}
	address, ok := refused.IsAsk()
	if !ok || !command.Acquires() {
		return said(result)
	}
	node := c.client.client.Nodes()[address]
	if node == nil {
		// The library knows a server that it has followed to, though that has no slots yet.
		_, _ = c.client.Do(ctx, lockstock.Command{Words: []string{"LOCK.INFO", command.Words[command.Key]}, Key: 1})
		if node = c.client.client.Nodes()[address]; node == nil {
			return said(result)
		}
	}
	there, release := node.Dedicate()
	old := c.become(there, release)
	if old == nil {
		release()
		return said(result)
	}
	old()
	return said(send(ctx, there, command, true))
}

// send sends a command over a connection, also where ASK has led to.
func send(ctx context.Context, dedicated rueidis.DedicatedClient, command lockstock.Command, asks bool) rueidis.RedisResult {
	built := words(dedicated.B(), command, true)
	if !asks {
		return dedicated.Do(ctx, built)
	}
	return dedicated.DoMulti(ctx, dedicated.B().Arbitrary("ASKING").Build(), built)[1]
}

// become takes over another connection, and returns what gives the old one back; nil: this one is closed.
func (c *conn) become(there rueidis.DedicatedClient, release func()) (old func()) {
	c.client.mutex.Lock()
	defer c.client.mutex.Unlock()
	if _, used := c.client.conns[c]; !used {
		return nil
	}
	old = c.release
	c.dedicated, c.release, c.asks = there, release, true
	return old
}

// Close closes the connection, or keeps it for the next.
func (c *conn) Close(reuse bool) {
	c.client.mutex.Lock()
	_, used := c.client.conns[c]
	delete(c.client.conns, c)
	c.client.mutex.Unlock()
	switch {
	case used && reuse:
		c.release()
	case used:
		c.end()
	}
}

// end may wait a second for a server that does not answer, so it is not waited for.
func (c *conn) end() { go c.dedicated.Close() }

// words builds a command, which may block if the connection is dedicated to it.
func words(builder rueidis.Builder, command lockstock.Command, blocks bool) rueidis.Completed {
	words, key := command.Words, command.Key
	built := builder.Arbitrary(words[:max(key, 1)]...)
	if key > 0 {
		built = built.Keys(words[key])
	}
	built = built.Args(words[key+1:]...)
	if blocks {
		return built.Blocking()
	}
	return built.Build()
}

// said tells the server's errors from the network's; a missing value is none.
func said(result rueidis.RedisResult) (any, error) {
	reply, err := result.ToAny()
	if err == nil || rueidis.IsRedisNil(err) {
		return reply, nil
	}
	if answer, ok := rueidis.IsRedisErr(err); ok {
		return nil, &lockstock.ServerError{Text: answer.Error(), Err: err}
	}
	return nil, err
}
