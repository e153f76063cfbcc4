// Package overrueidis has lockstock speak over rueidis.
package overrueidis

import (
	"context"
	"sync"

	"github.com/redis/rueidis"

	lockstock "lockstock/clients/go"
)

// Client is a lockstock.Client over a rueidis client, of one server, behind Sentinel or in a cluster. What waits, and sessions, have a
// connection out of its BlockingPoolSize; everything else goes over its shared connections.
type Client struct {
	client rueidis.Client
}

// New makes one. It has nothing of its own that would have to be closed.
func New(client rueidis.Client) *Client { return &Client{client} }

// Do sends a command to the server of its key.
func (c *Client) Do(ctx context.Context, command lockstock.Command) (any, error) {
	return said(c.client.Do(ctx, words(c.client.B(), command, false)))
}

// Dedicate gives a connection to the server of this key that nobody else uses.
func (c *Client) Dedicate(context.Context, string) (lockstock.Conn, error) {
	dedicated, release := c.client.Dedicate()
	return &conn{client: c.client, dedicated: dedicated, release: release}, nil
}

type conn struct {
	client rueidis.Client

	mutex     sync.Mutex
	dedicated rueidis.DedicatedClient
	release   func()
	closed    bool
}

// Do sends a command over this connection; where ASK says so, this is from then on one to another server.
func (c *conn) Do(ctx context.Context, command lockstock.Command) (any, error) {
	c.mutex.Lock()
	dedicated := c.dedicated
	c.mutex.Unlock()
	result := dedicated.Do(ctx, words(dedicated.B(), command, true))
	refused, ok := rueidis.IsRedisErr(result.Error())
	if !ok {
		return said(result)
	}
	address, ok := refused.IsAsk()
	if !ok {
		return said(result)
	}
	node := c.client.Nodes()[address]
	if node == nil {
		// The next who asks finds it.
		return said(result)
	}
	there, release := node.Dedicate()
	c.mutex.Lock()
	if c.closed {
		c.mutex.Unlock()
		release()
		return said(result)
	}
	old := c.release
	c.dedicated, c.release = there, release
	c.mutex.Unlock()
	old()
	results := there.DoMulti(ctx, there.B().Arbitrary("ASKING").Build(), words(there.B(), command, true))
	return said(results[1])
}

// Close closes the connection, or keeps it for the next.
func (c *conn) Close(reuse bool) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	if c.closed {
		return
	}
	c.closed = true
	if reuse {
		c.release()
		return
	}
	// It may wait a second for a server that does not answer.
	go c.dedicated.Close()
}

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
