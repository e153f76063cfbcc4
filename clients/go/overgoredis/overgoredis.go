// Package overgoredis has lockstock speak over go-redis.
package overgoredis

import (
	"context"
	"crypto/rand"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	lockstock "lockstock/clients/go"
)

const (
	// How long it may take to connect.
	patience = 2 * time.Second
	// How many idle connections for waits are kept for each server.
	spare = 64
	// How long a connection may be idle: a gate between here and the server may forget it then, without a word.
	idleness = 30 * time.Second
	// For how long a server says nothing that has perhaps lost its connections.
	silence = time.Second
	// How many redirections are followed.
	redirections = 5
	// How many other slots are looked at to find another server.
	detours = 16
)

// Client is a lockstock.Client that reaches the servers of a go-redis client with its addresses, its credentials and its TLS, but over
// connections of its own: a lock must be extended and released though the pool is exhausted, and neither retries nor time-outs of the pool
// may add to its own. Make one for the whole process.
type Client struct {
	place func(ctx context.Context, key string) (*redis.Options, error)
	moved func(ctx context.Context)

	mutex sync.Mutex
	nodes map[string]*node
	// Those that are in use.
	conns  map[*conn]struct{}
	closed bool
}

// node is one server.
type node struct {
	options *redis.Options
	shared  *redis.Client
	idle    []idle
	// Whether the last request was not answered.
	mute atomic.Bool
}

// idle is a client of one connection that nobody uses since then, by the clock that goes on while the machine sleeps.
type idle struct {
	rdb   *redis.Client
	since time.Time
}

// New is for one server, or for the primary that a client made by redis.NewFailoverClient finds behind Sentinel.
func New(rdb *redis.Client) *Client {
	options := rdb.Options()
	return client(func(context.Context, string) (*redis.Options, error) { return options, nil }, func(context.Context) {})
}

func client(place func(context.Context, string) (*redis.Options, error), moved func(context.Context)) *Client {
	return &Client{place: place, moved: moved, nodes: map[string]*node{}, conns: map[*conn]struct{}{}}
}

// NewCluster is for a cluster.
func NewCluster(rdb *redis.ClusterClient) *Client {
	place := func(ctx context.Context, key string) (*redis.Options, error) {
		primary, err := rdb.MasterForKey(ctx, key)
		if err != nil {
			return nil, err
		}
		return primary.Options(), nil
	}
	return client(place, rdb.ReloadState)
}

// Close closes the connections, and ends the waits. Locks that are still held end with their leases, those of a session at once.
func (c *Client) Close() error {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	c.closed = true
	var failures []error
	for conn := range c.conns {
		failures = append(failures, conn.rdb.Close())
	}
	clear(c.conns)
	for _, node := range c.nodes {
		failures = append(failures, node.shared.Close())
		for _, one := range node.idle {
			failures = append(failures, one.rdb.Close())
		}
	}
	clear(c.nodes)
	return errors.Join(failures...)
}

// Do sends a command to the server of its key.
func (c *Client) Do(ctx context.Context, command lockstock.Command) (any, error) {
	node, err := c.of(ctx, command.Words[command.Key])
	if err != nil {
		return nil, err
	}
	reply, err := c.send(ctx, node, command)
	for range redirections {
		if address, ok := redis.IsMovedError(err); ok {
			c.moved(ctx)
			if node, err = c.at(node, address); err != nil {
				return nil, err
			}
			reply, err = c.send(ctx, node, command)
		} else if address, ok := redis.IsAskError(err); ok {
			there, failure := c.at(node, address)
			if failure != nil {
				return nil, failure
			}
			reply, err = asking(ctx, c.shared(there), command)
		} else {
			break
		}
	}
	return reply, err
}

// send sends a command over the connections that all share. A network that says nothing, for long, has perhaps lost them: new ones take their
// place.
func (c *Client) send(ctx context.Context, node *node, command lockstock.Command) (any, error) {
	rdb, begun := c.shared(node), time.Now()
	reply, err := send(ctx, rdb, command)
	c.hear(ctx, node, rdb, begun, err)
	return reply, err
}

// hear notes whether a server has answered.
func (c *Client) hear(ctx context.Context, node *node, shared *redis.Client, begun time.Time, err error) {
	var answer *lockstock.ServerError
	answered, long := err == nil || errors.As(err, &answer), time.Since(begun) > silence
	if answered || long || ctx.Err() == nil {
		node.mute.Store(!answered)
	}
	if !answered && long {
		c.renew(node, shared)
	}
}

func (c *Client) shared(node *node) *redis.Client {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	return node.shared
}

// renew gives up the connections to a server, but for those that are in use, unless that was done.
func (c *Client) renew(node *node, silent *redis.Client) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	if c.closed || node.shared != silent {
		return
	}
	node.shared = redis.NewClient(own(node.options, max(node.options.PoolSize, 10)))
	for _, one := range node.idle {
		go one.rdb.Close()
	}
	node.idle = nil
	// What was sent lately may be answered yet.
	time.AfterFunc(patience, func() { silent.Close() })
}

// Dedicate gives a connection to the server of this key that no other caller uses.
func (c *Client) Dedicate(ctx context.Context, key string) (lockstock.Conn, error) {
	node, err := c.of(ctx, key)
	if err != nil {
		return nil, err
	}
	return c.connect(ctx, node)
}

func (c *Client) connect(ctx context.Context, node *node) (*conn, error) {
	for {
		shared, begun := c.shared(node), time.Now()
		rdb, used := c.take(node)
		err := said(rdb.Ping(ctx).Err())
		c.hear(ctx, node, shared, begun, err)
		if err == nil {
			return c.use(node, rdb)
		}
		rdb.Close()
		if !used || ctx.Err() != nil {
			return nil, err
		}
	}
}

func (c *Client) use(node *node, rdb *redis.Client) (*conn, error) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	if c.closed {
		rdb.Close()
		return nil, lockstock.ErrClosed
	}
	one := &conn{client: c, node: node, rdb: rdb, way: send}
	c.conns[one] = struct{}{}
	return one, nil
}

// take gives an idle client of one connection, or a new one.
func (c *Client) take(node *node) (rdb *redis.Client, used bool) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	for last := len(node.idle) - 1; last >= 0; last-- {
		one := node.idle[last]
		node.idle = node.idle[:last]
		if time.Since(one.since) < idleness {
			return one.rdb, true
		}
		go one.rdb.Close()
	}
	return redis.NewClient(own(node.options, 1)), false
}

// of is the server of a key. In a cluster, another server stands in for one that does not answer: its MOVED names a successor.
func (c *Client) of(ctx context.Context, key string) (*node, error) {
	own, err := c.find(ctx, key)
	if err != nil || !own.mute.Load() {
		return own, err
	}
	for range detours {
		if other, err := c.find(ctx, rand.Text()); err == nil && !other.mute.Load() {
			return other, nil
		}
	}
	return own, nil
}

func (c *Client) find(ctx context.Context, key string) (*node, error) {
	options, err := c.place(ctx, key)
	if err != nil {
		return nil, said(err)
	}
	return c.node(options)
}

// at is the server of this address, reached as its neighbour is.
func (c *Client) at(neighbour *node, address string) (*node, error) {
	options := *neighbour.options
	options.Addr, options.NodeAddress = address, address
	return c.node(&options)
}

func (c *Client) node(options *redis.Options) (*node, error) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	if c.closed {
		return nil, lockstock.ErrClosed
	}
	known := c.nodes[options.Addr]
	if known == nil {
		known = &node{options: options, shared: redis.NewClient(own(options, max(options.PoolSize, 10)))}
		c.nodes[options.Addr] = known
	}
	return known, nil
}

// way sends a command: send or asking.
type way func(context.Context, *redis.Client, lockstock.Command) (any, error)

// conn is a client of one connection. What it has is guarded by the mutex of its Client.
type conn struct {
	client *Client
	node   *node
	rdb    *redis.Client
	// Asking, where ASK has led here.
	way way
}

// Do sends a command over this connection; where MOVED or ASK says so to one that acquires, this is from then on one to another server.
func (c *conn) Do(ctx context.Context, command lockstock.Command) (any, error) {
	c.client.mutex.Lock()
	node, rdb, way := c.node, c.rdb, c.way
	c.client.mutex.Unlock()
	begun := time.Now()
	reply, err := way(ctx, rdb, command)
	way = asking
	address, ok := redis.IsAskError(err)
	if !ok {
		if address, ok = redis.IsMovedError(err); ok {
			c.client.moved(ctx)
			way = send
		}
	}
	// After a wait, its time is another one.
	if !ok || !command.Acquires() || time.Since(begun) > silence {
		return reply, err
	}
	if node, err = c.client.at(node, address); err != nil {
		return nil, err
	}
	there, err := c.client.connect(ctx, node)
	if err != nil {
		return nil, err
	}
	if !c.become(there, way) {
		there.Close(true)
		return nil, redis.ErrClosed
	}
	rdb.Close()
	return way(ctx, there.rdb, command)
}

// become takes over the connection of another, unless this one is closed.
func (c *conn) become(there *conn, way way) bool {
	c.client.mutex.Lock()
	defer c.client.mutex.Unlock()
	if _, used := c.client.conns[c]; !used {
		return false
	}
	delete(c.client.conns, there)
	c.node, c.rdb, c.way = there.node, there.rdb, way
	return true
}

// Close closes the connection, or keeps it for the next.
func (c *conn) Close(reuse bool) {
	if c.leave(reuse) {
		// Also in the middle of a read.
		c.rdb.Close()
	}
}

// leave says whether the connection is to be closed.
func (c *conn) leave(reuse bool) bool {
	c.client.mutex.Lock()
	defer c.client.mutex.Unlock()
	if _, used := c.client.conns[c]; !used {
		return false
	}
	delete(c.client.conns, c)
	if reuse && len(c.node.idle) < spare {
		c.node.idle = append(c.node.idle, idle{c.rdb, time.Now().Round(0)})
		return false
	}
	return true
}

func send(ctx context.Context, rdb *redis.Client, command lockstock.Command) (any, error) {
	reply, err := rdb.Do(ctx, args(command)...).Result()
	return reply, said(err)
}

func asking(ctx context.Context, rdb *redis.Client, command lockstock.Command) (any, error) {
	pipe := rdb.Pipeline()
	pipe.Do(ctx, "ASKING")
	asked := pipe.Do(ctx, args(command)...)
	// Each command has its own error.
	_, _ = pipe.Exec(ctx)
	reply, err := asked.Result()
	return reply, said(err)
}

func args(command lockstock.Command) []any {
	args := make([]any, len(command.Words))
	for i, word := range command.Words {
		args[i] = word
	}
	return args
}

// said tells the server's errors from the network's; a missing value is none.
func said(err error) error {
	if err == nil || errors.Is(err, redis.Nil) {
		return nil
	}
	var answer redis.Error
	if errors.As(err, &answer) {
		return &lockstock.ServerError{Text: err.Error(), Err: err}
	}
	return err
}
