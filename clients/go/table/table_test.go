// What docs/clients.md says of go-redis and rueidis, against real servers: `make test-clients-go`.
package table

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"
)

var background = context.Background()

// Eye sees what a server has, over a connection of its own.
type eye struct {
	*testing.T
	rdb *redis.Client
	key string
}

// look makes an eye on a key of this test, which "holder" holds.
func look(t *testing.T) eye {
	options := must(redis.ParseURL(os.Getenv("LOCKSTOCK_URL")))
	e := eye{t, redis.NewClient(options), t.Name()}
	t.Cleanup(func() {
		e.rdb.Del(background, e.key)
		e.rdb.Close()
	})
	e.do("DEL", e.key)
	e.do("LOCK.ACQUIRE", e.key, "TOKEN", "holder")
	return e
}

func (e eye) do(words ...any) any {
	e.Helper()
	reply, err := e.rdb.Do(background, words...).Result()
	if err != nil && !errors.Is(err, redis.Nil) {
		e.Fatal(words, err)
	}
	return reply
}

func (e eye) waiters() (tokens []string) {
	info := e.do("LOCK.INFO", e.key)
	if info == nil {
		return nil
	}
	for _, row := range info.(map[any]any)["waiters"].([]any) {
		tokens = append(tokens, row.(map[any]any)["token"].(string))
	}
	return tokens
}

func (e eye) until(waiters ...string) {
	e.Helper()
	e.eventually(fmt.Sprint(waiters, " wait"), func() bool { return fmt.Sprint(e.waiters()) == fmt.Sprint(waiters) })
}

func (e eye) eventually(what string, condition func() bool) {
	e.Helper()
	for end := time.Now().Add(10 * time.Second); !condition(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			e.Fatal(what)
		}
	}
}

// cut closes all connections but the eye's.
func (e eye) cut() { e.do("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes") }

func ask(e eye, token string) []any {
	return []any{"LOCK.ACQUIRE", e.key, "TOKEN", token, "WAIT", 60_000}
}

func must[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}

func goRedis(t *testing.T, change func(*redis.Options)) *redis.Client {
	options := must(redis.ParseURL(os.Getenv("LOCKSTOCK_URL")))
	if change != nil {
		change(options)
	}
	rdb := redis.NewClient(options)
	t.Cleanup(func() { rdb.Close() })
	return rdb
}

func TestGoRedisHasTheDefaultsOfItsRow(t *testing.T) {
	options := goRedis(t, nil).Options()
	if options.ReadTimeout != 5*time.Second || options.MaxRetries != 3 || options.ContextTimeoutEnabled {
		t.Fatal(options.ReadTimeout, options.MaxRetries, options.ContextTimeoutEnabled)
	}
	row(t, "go-redis "+minor(redis.Version()), "`ReadTimeout`, 5 s", "yes, 3 times", "only with `ContextTimeoutEnabled`")
}

func TestGoRedisClosesTheConnectionOfACallThatExpires(t *testing.T) {
	e := look(t)
	rdb := goRedis(t, func(options *redis.Options) { options.ReadTimeout, options.MaxRetries = 300*time.Millisecond, -1 })
	if err := rdb.Do(background, ask(e, "impatient")...).Err(); err == nil {
		t.Fatal("granted")
	}
	e.until()
}

func TestGoRedisEndsAReadByItsContextOnlyIfToldTo(t *testing.T) {
	e := look(t)
	for _, enabled := range []bool{false, true} {
		rdb := goRedis(t, func(options *redis.Options) {
			options.ReadTimeout, options.MaxRetries, options.ContextTimeoutEnabled = 2*time.Second, -1, enabled
		})
		ctx, cancel := context.WithTimeout(background, 200*time.Millisecond)
		begun := time.Now()
		err := rdb.Do(ctx, ask(e, "impatient")...).Err()
		cancel()
		if took := time.Since(begun); err == nil || (took < time.Second) != enabled {
			t.Fatal(enabled, took, err)
		}
		e.until()
	}
}

func TestGoRedisSendsAgainAndFindsItsPlace(t *testing.T) {
	e := look(t)
	rdb := goRedis(t, func(options *redis.Options) { options.ReadTimeout = time.Minute })
	granted := make(chan error, 1)
	go func() { granted <- rdb.Do(background, ask(e, "first")...).Err() }()
	e.until("first")
	behind := goRedis(t, func(options *redis.Options) { options.ReadTimeout = time.Minute })
	go behind.Do(background, ask(e, "second")...)
	e.until("first", "second")
	id := e.do("LOCK.INFO", e.key).(map[any]any)["waiters"].([]any)[0].(map[any]any)["client"]
	e.do("CLIENT", "KILL", "ID", id)
	e.until("first", "second")
	e.do("LOCK.RELEASE", e.key, "holder")
	if err := <-granted; err != nil {
		t.Fatal(err)
	}
	e.do("LOCK.RELEASE", e.key, "second")
}

func TestGoRedisParksACallOnAConnectionOfItsPool(t *testing.T) {
	e := look(t)
	rdb := goRedis(t, func(options *redis.Options) { options.PoolSize, options.PoolTimeout = 1, 100*time.Millisecond })
	// WithTimeout shares the pool.
	go rdb.WithTimeout(time.Minute).Do(background, ask(e, "parked")...)
	e.until("parked")
	if err := rdb.Ping(background).Err(); !errors.Is(err, redis.ErrPoolTimeout) {
		t.Fatal(err)
	}
	e.do("LOCK.RELEASE", e.key, "parked")
	e.eventually("the connection is free again", func() bool { return rdb.Ping(background).Err() == nil })
}

func TestGoRedisKnowsTheNodeOfAKey(t *testing.T) {
	rdb := redis.NewClusterClient(must(redis.ParseClusterURL(os.Getenv("LOCKSTOCK_CLUSTER_URL"))))
	defer rdb.Close()
	for number := range 20 {
		key := fmt.Sprint(t.Name(), number)
		must(rdb.Do(background, "LOCK.ACQUIRE", key, "TOKEN", "me").Slice())
		if !must(rdb.Do(background, "LOCK.RELEASE", key, "me").Bool()) {
			t.Fatal(key)
		}
	}
}

func client(t *testing.T, url string, change func(*rueidis.ClientOption)) rueidis.Client {
	options := must(rueidis.ParseURL(os.Getenv(url)))
	if change != nil {
		change(&options)
	}
	client := must(rueidis.NewClient(options))
	t.Cleanup(client.Close)
	return client
}

// parked is a wait on a connection of its own.
func parked(c rueidis.Client, e eye, token string) rueidis.Completed {
	return c.B().Arbitrary("LOCK.ACQUIRE").Keys(e.key).Args("TOKEN", token, "WAIT", "60000").Blocking()
}

func TestRueidisHasItsRow(t *testing.T) {
	row(t, "rueidis "+strings.TrimPrefix(rueidis.LibVer, "v"), "none for blocking calls", "reads only", "`BlockingPoolSize`")
}

func TestRueidisWaitsOnAConnectionOfItsOwnWithoutATimeOut(t *testing.T) {
	e := look(t)
	c := client(t, "LOCKSTOCK_URL", func(options *rueidis.ClientOption) { options.ConnWriteTimeout = time.Second })
	granted := make(chan error, 1)
	go func() { granted <- c.Do(background, parked(c, e, "parked")).Error() }()
	e.until("parked")
	for end := time.Now().Add(2 * time.Second); time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
		if err := c.Do(background, c.B().Ping().Build()).Error(); err != nil {
			t.Fatal(err)
		}
	}
	e.until("parked")
	e.do("LOCK.RELEASE", e.key, "holder")
	if err := <-granted; err != nil {
		t.Fatal(err)
	}
}

func TestRueidisClosesTheConnectionOfACallThatExpires(t *testing.T) {
	e := look(t)
	c := client(t, "LOCKSTOCK_URL", nil)
	ctx, cancel := context.WithTimeout(background, 300*time.Millisecond)
	defer cancel()
	if err := c.Do(ctx, parked(c, e, "impatient")).Error(); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatal(err)
	}
	e.until()
}

func TestRueidisDoesNotSendAWaitAgain(t *testing.T) {
	e := look(t)
	c := client(t, "LOCKSTOCK_URL", nil)
	answered := make(chan error, 1)
	go func() { answered <- c.Do(background, parked(c, e, "parked")).Error() }()
	e.until("parked")
	e.cut()
	if err := <-answered; err == nil || rueidis.IsRedisNil(err) {
		t.Fatal(err)
	}
	e.until()
}

func TestRueidisHasAPoolForCallsThatBlock(t *testing.T) {
	e := look(t)
	c := client(t, "LOCKSTOCK_URL", func(options *rueidis.ClientOption) { options.BlockingPoolSize = 1 })
	go c.Do(background, parked(c, e, "parked"))
	e.until("parked")
	waits := make(chan error, 1)
	go func() { waits <- c.Do(background, parked(c, e, "next")).Error() }()
	for range 20 {
		if err := c.Do(background, c.B().Ping().Build()).Error(); err != nil {
			t.Fatal(err)
		}
		time.Sleep(10 * time.Millisecond)
	}
	e.until("parked")
	e.do("LOCK.RELEASE", e.key, "parked")
	e.until("next")
	e.do("LOCK.RELEASE", e.key, "next")
	<-waits
}

func TestRueidisKnowsTheNodeOfAKey(t *testing.T) {
	c := client(t, "LOCKSTOCK_CLUSTER_URL", nil)
	for number := range 20 {
		key := fmt.Sprint(t.Name(), number)
		if err := c.Do(background, c.B().Arbitrary("LOCK.ACQUIRE").Keys(key).Args("TOKEN", "me").Blocking()).Error(); err != nil {
			t.Fatal(err)
		}
		if !must(c.Do(background, c.B().Arbitrary("LOCK.RELEASE").Keys(key).Args("me").Build()).AsBool()) {
			t.Fatal(key)
		}
	}
}

// row expects the table to have a row of this client, with these words.
func row(t *testing.T, name string, words ...string) {
	t.Helper()
	for line := range strings.Lines(string(must(os.ReadFile("../../../docs/clients.md")))) {
		if !strings.HasPrefix(line, "| "+name+" |") {
			continue
		}
		for _, word := range words {
			if !strings.Contains(line, word) {
				t.Fatalf("%s is not in: %s", word, line)
			}
		}
		return
	}
	t.Fatalf("the table has no row for %s", name)
}

// minor is a version without its patch.
func minor(version string) string { return strings.Join(strings.Split(version, ".")[:2], ".") }
