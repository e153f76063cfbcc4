package overgoredis

import (
	"context"
	"errors"
	"net"
	"sync/atomic"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"lockstock/clients/go/internal/reset"
)

// errEnded: a session ends with its connection, and WAIT counts the writes of its own, so no other one takes its place.
var errEnded = errors.New("lockstock: the connection of a wait or a session has ended")

// own are the options of a client that reaches the same server, and that only contexts end the requests of.
func own(options *redis.Options, connections int) *redis.Options {
	own := *options
	own.PoolSize, own.MinIdleConns, own.MaxIdleConns, own.MaxActiveConns, own.MaxConcurrentDials = connections, 0, 0, 0, 0
	own.PoolTimeout, own.DialTimeout, own.ConnMaxIdleTime = patience, patience, idleness
	own.ReadTimeout, own.WriteTimeout, own.ContextTimeoutEnabled = -1, -1, true
	own.MaxRetries, own.DialerRetries = -1, 1
	own.Limiter, own.ClientSideCache, own.ClientSideCacheConfig = nil, nil, nil
	own.PipelinePoolSize, own.PipelineReadBufferSize, own.PipelineWriteBufferSize = 0, 0, 0
	own.MaintNotificationsConfig = &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
	if connections == 1 {
		own.ConnMaxLifetime, own.ConnMaxLifetimeJitter, own.ConnMaxIdleTime = 0, 0, -1
	}
	var made atomic.Bool
	own.Dialer = func(ctx context.Context, network, address string) (net.Conn, error) {
		if connections == 1 && made.Swap(true) {
			return nil, errEnded
		}
		return reset.OnClose(options.Dialer(ctx, network, address))
	}
	return &own
}
