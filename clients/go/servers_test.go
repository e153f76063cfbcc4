package lockstock_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"

	lockstock "lockstock/clients/go"
	"lockstock/clients/go/overgoredis"
	"lockstock/clients/go/overrueidis"
)

var background = context.Background()

// server is a real server with the module, which the test owns: LOCKSTOCK_SERVER and LOCKSTOCK_MODULE name both.
type server struct {
	*testing.T
	address string
	words   []string
	process *exec.Cmd
	// Looks at it, by a way of its own.
	rdb *redis.Client
}

func start(t *testing.T, options ...string) *server {
	t.Helper()
	module, err := filepath.Abs(cmp.Or(os.Getenv("LOCKSTOCK_MODULE"), "../../target/release/liblockstock.so"))
	if err != nil {
		t.Fatal(err)
	}
	return startPlain(t, append([]string{"--loadmodule", module}, options...)...)
}

func startPlain(t *testing.T, options ...string) *server {
	t.Helper()
	return startProcess(t, append([]string{"--save", "", "--dir", t.TempDir()}, options...)...)
}

func startProcess(t *testing.T, words ...string) *server {
	t.Helper()
	s := &server{T: t, address: free(t)}
	_, port, _ := net.SplitHostPort(s.address)
	// A file of settings comes first.
	words = append(words, "--port", port, "--bind", "127.0.0.1")
	s.words = words
	s.run()
	t.Cleanup(s.kill)
	s.rdb = redis.NewClient(&redis.Options{Addr: s.address, MaxRetries: -1})
	t.Cleanup(func() { s.rdb.Close() })
	s.eventually("the server answers", func() bool { return s.rdb.Ping(background).Err() == nil })
	return s
}

// free is an address of which the port 10,000 above is free, too, for the bus of a cluster.
func free(t *testing.T) string {
	t.Helper()
	for range 100 {
		port := 12_000 + rand.IntN(10_000)
		one, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
		if err != nil {
			continue
		}
		two, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port+10_000))
		one.Close()
		if err == nil {
			two.Close()
			return one.Addr().String()
		}
	}
	t.Fatal("no port is free")
	return ""
}

// run starts the process, also one more time.
func (s *server) run() {
	s.process = exec.Command(cmp.Or(os.Getenv("LOCKSTOCK_SERVER"), "redis-server"), s.words...)
	if err := s.process.Start(); err != nil {
		s.Fatal(err)
	}
}

func (s *server) kill() {
	s.process.Process.Kill()
	s.process.Wait()
}

// freeze stops the server's process, so that its connections stand and no answer comes.
func (s *server) freeze() (thaw func()) {
	s.process.Process.Signal(syscall.SIGSTOP)
	thaw = func() { s.process.Process.Signal(syscall.SIGCONT) }
	s.Cleanup(thaw)
	return thaw
}

func (s *server) do(words ...any) any {
	s.Helper()
	reply, err := s.rdb.Do(background, words...).Result()
	if errors.Is(err, io.EOF) {
		// Sentinel closes the connections to a server that it promotes.
		reply, err = s.rdb.Do(background, words...).Result()
	}
	if err != nil && !errors.Is(err, redis.Nil) {
		s.Fatal(words, err)
	}
	return reply
}

// waiters are how many wait, and locks how many holds there are.
func (s *server) waiters() int { return s.info("lockstock_lock_waiters") }

func (s *server) locks() int { return s.info("lockstock_locks_held") }

func (s *server) info(field string) (value int) {
	s.Helper()
	for line := range strings.Lines(s.do("INFO", "lockstock").(string)) {
		if text, ok := strings.CutPrefix(strings.TrimSpace(line), field+":"); ok {
			fmt.Sscan(text, &value)
			return value
		}
	}
	s.Fatal("no field ", field)
	return 0
}

func (s *server) eventually(what string, condition func() bool) {
	s.Helper()
	for end := time.Now().Add(time.Minute); !condition(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			s.Fatal("never: ", what)
		}
	}
}

// libraries are those that lockstock speaks over.
var libraries = map[string]func(*testing.T, string) lockstock.Client{
	"go-redis": func(t *testing.T, address string) lockstock.Client {
		rdb := redis.NewClient(&redis.Options{Addr: address, PoolSize: 1})
		client := overgoredis.New(rdb)
		t.Cleanup(func() {
			client.Close()
			rdb.Close()
		})
		return client
	},
	"rueidis": func(t *testing.T, address string) lockstock.Client {
		client := must(rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{address}, DialCtxFn: overrueidis.Dial}))
		t.Cleanup(client.Close)
		return overrueidis.New(client)
	},
}

// over plays a test over each of the libraries, with a server of its own.
func over(t *testing.T, play func(*server, lockstock.Client)) {
	for name, connect := range libraries {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := start(t)
			s.T = t
			play(s, connect(t, s.address))
		})
	}
}

func must[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}

// within expects something to take from least to most.
func (s *server) within(least, most time.Duration, what func()) {
	s.Helper()
	begun := time.Now()
	what()
	if took := time.Since(begun); took < least || took > most {
		s.Fatalf("it took %v, not %v to %v", took, least, most)
	}
}

// is expects an error of this kind.
func (s *server) is(err, kind error) {
	s.Helper()
	if !errors.Is(err, kind) {
		s.Fatalf("%v, not %v", err, kind)
	}
}

// equal expects two values to be the same.
func equal[T comparable](s *server, got, expected T) {
	s.Helper()
	if got != expected {
		s.Fatalf("%v, not %v", got, expected)
	}
}
