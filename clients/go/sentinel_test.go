package lockstock_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"

	lockstock "lockstock/clients/go"
	"lockstock/clients/go/overgoredis"
	"lockstock/clients/go/overrueidis"
)

// behindSentinel are the libraries, with the address of a Sentinel.
var behindSentinel = map[string]func(*testing.T, string) lockstock.Client{
	"go-redis": func(t *testing.T, sentinel string) lockstock.Client {
		rdb := redis.NewFailoverClient(&redis.FailoverOptions{MasterName: "main", SentinelAddrs: []string{sentinel}})
		client := overgoredis.New(rdb)
		t.Cleanup(func() {
			client.Close()
			rdb.Close()
		})
		return client
	},
	"rueidis": func(t *testing.T, sentinel string) lockstock.Client {
		options := rueidis.ClientOption{InitAddress: []string{sentinel}, Sentinel: rueidis.SentinelOption{MasterSet: "main"}}
		client := must(rueidis.NewClient(options))
		t.Cleanup(client.Close)
		return overrueidis.New(client)
	},
}

// guarded starts a primary, its replica and a Sentinel that decides alone.
func guarded(t *testing.T) (primary, replica, sentinel *server) {
	primary = start(t)
	host, port, _ := strings.Cut(primary.address, ":")
	replica = start(t, "--replicaof", host+" "+port, "--repl-diskless-sync-delay", "0")
	replica.eventually("it follows", func() bool {
		return strings.Contains(replica.do("INFO", "replication").(string), "master_link_status:up")
	})
	file := filepath.Join(t.TempDir(), "sentinel.conf")
	text := fmt.Sprintf("sentinel monitor main %s %s 1\nsentinel down-after-milliseconds main 1000\n", host, port)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	sentinel = startProcess(t, file, "--sentinel")
	sentinel.eventually("Sentinel knows the replica", func() bool {
		return strings.Contains(fmt.Sprint(sentinel.do("SENTINEL", "REPLICAS", "main")), "slave-repl-offset")
	})
	return primary, replica, sentinel
}

func TestAWaitGoesOnAtTheNewPrimaryThatSentinelNames(t *testing.T) {
	for name, connect := range behindSentinel {
		for how, ends := range map[string]func(*server){"is killed": (*server).kill, "is frozen": func(s *server) { s.freeze() }} {
			t.Run(name+", the old one "+how, func(t *testing.T) {
				t.Parallel()
				primary, replica, sentinel := guarded(t)
				client := connect(t, sentinel.address)
				held := must(lockstock.Acquire(background, client, "job", lockstock.Lease(time.Minute)))
				granted := make(chan *lockstock.Lock, 1)
				go func() { granted <- must(lockstock.Acquire(background, client, "job", lockstock.Wait(2*time.Minute))) }()
				primary.eventually("one waits", func() bool { return primary.waiters() == 1 })
				replica.eventually("the replica has the lock", func() bool { return replica.do("EXISTS", "job") == any(int64(1)) })
				ends(primary)
				replica.eventually("it waits at the new primary", func() bool { return replica.waiters() == 1 })
				replica.is(held.Release(background), nil)
				replica.is((<-granted).Release(background), nil)
				equal(replica, replica.locks(), 0)
			})
		}
	}
}

func TestASentinelThatIsGoneHoldsUpNobody(t *testing.T) {
	for name, connect := range behindSentinel {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			primary, replica, sentinel := guarded(t)
			client := connect(t, sentinel.address)
			lock := must(lockstock.Acquire(background, client, "job", lockstock.Wait(5*time.Second), lockstock.Lease(time.Minute)))
			for _, one := range []*server{primary, replica, sentinel} {
				one.freeze()
			}
			holdsUpNobody(primary, client, lock)
		})
	}
}
