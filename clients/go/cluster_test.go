package lockstock_test

import (
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"

	lockstock "lockstock/clients/go"
	"lockstock/clients/go/overgoredis"
	"lockstock/clients/go/overrueidis"
)

// cluster is made of three servers.
func cluster(t *testing.T, timeout int) (nodes []*server) {
	words := []string{"--cluster", "create"}
	for range 3 {
		node := start(t, "--cluster-enabled", "yes", "--cluster-node-timeout", fmt.Sprint(timeout))
		nodes, words = append(nodes, node), append(words, node.address)
	}
	if said, err := exec.Command("redis-cli", append(words, "--cluster-yes")...).CombinedOutput(); err != nil {
		t.Fatal(string(said))
	}
	for _, node := range nodes {
		node.eventually("the cluster stands", func() bool {
			return strings.Contains(node.do("CLUSTER", "INFO").(string), "cluster_state:ok")
		})
	}
	return nodes
}

func overCluster(t *testing.T, timeout int, play func([]*server, lockstock.Client)) {
	connect := map[string]func(*testing.T, string) lockstock.Client{
		"go-redis": func(t *testing.T, address string) lockstock.Client {
			rdb := redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{address}, PoolSize: 1})
			client := overgoredis.NewCluster(rdb)
			t.Cleanup(func() {
				client.Close()
				rdb.Close()
			})
			return client
		},
		"rueidis": func(t *testing.T, address string) lockstock.Client {
			client := must(rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{address}}))
			t.Cleanup(client.Close)
			return overrueidis.New(client)
		},
	}
	for name, connect := range connect {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			nodes := cluster(t, timeout)
			play(nodes, connect(t, nodes[0].address))
		})
	}
}

func TestEveryKeyOfAClusterIsFound(t *testing.T) {
	overCluster(t, 60_000, func(nodes []*server, client lockstock.Client) {
		s := nodes[0]
		var done sync.WaitGroup
		for number := range 30 {
			done.Go(func() {
				key := fmt.Sprintf("{%d}job", number)
				options := []lockstock.Option{lockstock.Wait(5 * time.Second)}
				if number%2 == 0 {
					options = append(options, lockstock.Session())
				}
				keys := []string{key, key + "2"}[:1+number%3%2]
				lock := must(lockstock.AcquireAll(background, client, keys, options...))
				_, err := lockstock.Acquire(background, client, key, lockstock.Wait(100*time.Millisecond))
				if !errors.Is(err, lockstock.ErrNotAcquired) {
					s.Error(err)
				}
				if must(lock.Guard(background, "SET", key+"3", "x")) != "OK" || lock.Release(background) != nil {
					s.Error(key)
				}
				sale := lockstock.NewStock(client, key+"s")
				if err := sale.Create(background, 1, lockstock.Terms{}); err != nil {
					s.Error(err)
				}
				cart := must(lockstock.TakeAll(background, client, "1", []lockstock.Leg{{Sale: key + "s", Units: 1}}, lockstock.Order{}))
				if !cart.Done() {
					s.Error(cart)
				}
			})
		}
		done.Wait()
		_, err := lockstock.AcquireAll(background, client, []string{"a", "b"})
		s.is(err, lockstock.ErrRefused)
	})
}

func TestASlotMovesWhileSomebodyWaitsAndWhileSomebodyHolds(t *testing.T) {
	overCluster(t, 60_000, func(nodes []*server, client lockstock.Client) {
		s := nodes[0]
		slot := s.do("CLUSTER", "KEYSLOT", "job")
		held := must(lockstock.Acquire(background, client, "job", lockstock.Lease(3*time.Second)))
		waits := make(chan *lockstock.Lock, 1)
		go func() {
			waits <- must(lockstock.Acquire(background, client, "job", lockstock.Wait(time.Minute), lockstock.Session()))
		}()
		var from, to *server
		for _, node := range nodes {
			if strings.Contains(fmt.Sprint(node.rdb.Do(background, "GET", "job").Err()), "WRONGTYPE") {
				from = node
			} else {
				to = node
			}
		}
		s.eventually("one waits", func() bool { return from.waiters() == 1 })
		// The lock's key is not there yet, or not there any more: ASK.
		to.do("CLUSTER", "SETSLOT", slot, "IMPORTING", from.do("CLUSTER", "MYID"))
		from.do("CLUSTER", "SETSLOT", slot, "MIGRATING", to.do("CLUSTER", "MYID"))
		host, port, _ := strings.Cut(to.address, ":")
		from.do("MIGRATE", host, port, "job", 0, 5000)
		s.is(held.Extend(background, 0), nil)
		other := must(lockstock.Acquire(background, client, "{job}other", lockstock.Wait(time.Second)))
		s.is(other.Release(background), nil)
		_, err := lockstock.Acquire(background, client, "job", lockstock.Wait(100*time.Millisecond))
		s.is(err, lockstock.ErrNotAcquired)
		for _, node := range []*server{to, from, nodes[0], nodes[1], nodes[2]} {
			node.do("CLUSTER", "SETSLOT", slot, "NODE", to.do("CLUSTER", "MYID"))
		}
		time.Sleep(4 * time.Second)
		equal(s, must(held.Owned(background)), true)
		s.is(held.Release(background), nil)
		lock := <-waits
		equal(s, must(lock.Owned(background)), true)
		equal(s, to.locks(), 1)
		s.is(lock.Release(background), nil)
	})
}

// A reshard that was broken off leaves a slot so, perhaps on its way to a server that has no slots yet.
func TestLocksOfASlotThatStaysOnItsWay(t *testing.T) {
	overCluster(t, 60_000, func(nodes []*server, client lockstock.Client) {
		s := nodes[0]
		to := start(s.T, "--cluster-enabled", "yes", "--cluster-node-timeout", "60000")
		host, port, _ := strings.Cut(s.address, ":")
		to.do("CLUSTER", "MEET", host, port)
		var from *server
		for _, node := range append(nodes, to) {
			node.eventually("all know it", func() bool {
				info := node.do("CLUSTER", "INFO").(string)
				return strings.Contains(info, "cluster_state:ok") && strings.Contains(info, "cluster_known_nodes:4")
			})
			if node.rdb.Do(background, "GET", "job").Err() == redis.Nil {
				from = node
			}
		}
		slot := s.do("CLUSTER", "KEYSLOT", "job")
		to.do("CLUSTER", "SETSLOT", slot, "IMPORTING", from.do("CLUSTER", "MYID"))
		from.do("CLUSTER", "SETSLOT", slot, "MIGRATING", to.do("CLUSTER", "MYID"))
		ask := func(words ...any) {
			pipe := to.rdb.Pipeline()
			pipe.Do(background, "ASKING")
			pipe.Do(background, words...)
			must(pipe.Exec(background))
		}

		session := must(lockstock.Acquire(background, client, "job", lockstock.Session(), lockstock.Wait(5*time.Second)))
		time.Sleep(4 * time.Second)
		equal(s, must(session.Owned(background)), true)
		s.is(session.Context().Err(), nil)
		s.is(session.Release(background), nil)
		equal(s, to.locks(), 0)
		for _, options := range [][]lockstock.Option{nil, {lockstock.Session()}} {
			ask("LOCK.ACQUIRE", "job", "TOKEN", "other", "PX", 60_000)
			granted := make(chan *lockstock.Lock, 1)
			go func() {
				granted <- must(lockstock.Acquire(background, client, "job", append(options, lockstock.WaitForever())...))
			}()
			to.eventually("one waits", func() bool { return to.waiters() == 1 })
			ask("LOCK.RELEASE", "job", "other")
			s.within(0, 2*time.Second, func() { s.is((<-granted).Release(background), nil) })
			equal(s, to.locks(), 0)
		}
	})
}

// The library may take for ever to learn that a frozen primary has a successor.
func TestLocksGoOnAtTheSuccessorOfAFrozenPrimary(t *testing.T) {
	overCluster(t, 2_000, func(nodes []*server, client lockstock.Client) {
		held := must(lockstock.Acquire(background, client, "job", lockstock.Lease(30*time.Second)))
		waits := make(chan *lockstock.Lock, 1)
		go func() { waits <- must(lockstock.Acquire(background, client, "job", lockstock.WaitForever())) }()
		var primary *server
		for _, node := range nodes {
			if node.locks() == 1 {
				primary = node
			}
		}
		replica := start(primary.T, "--cluster-enabled", "yes", "--cluster-node-timeout", "2000", "--repl-diskless-sync-delay", "0")
		host, port, _ := strings.Cut(nodes[0].address, ":")
		replica.do("CLUSTER", "MEET", host, port)
		id := primary.do("CLUSTER", "MYID")
		replica.eventually("it is a replica", func() bool { return replica.rdb.Do(background, "CLUSTER", "REPLICATE", id).Err() == nil })
		replica.eventually("it has the lock", func() bool { return replica.locks() == 1 })
		for _, node := range nodes {
			node.eventually("all know it", func() bool { return strings.Contains(node.do("CLUSTER", "NODES").(string), "slave") })
		}
		primary.eventually("one waits", func() bool { return primary.waiters() == 1 })
		primary.freeze()
		replica.eventually("it waits at the new primary", func() bool { return replica.waiters() == 1 })
		time.Sleep(20 * time.Second)
		equal(replica, must(held.Owned(background)), true)
		replica.is(held.Release(background), nil)
		replica.is((<-waits).Release(background), nil)
		equal(replica, replica.locks(), 0)
	})
}

// holdsUpNobody expects calls to end in time when nothing answers them any more.
func holdsUpNobody(s *server, client lockstock.Client, lock *lockstock.Lock) {
	s.Helper()
	s.within(time.Second, 3500*time.Millisecond, func() {
		_, err := lockstock.Acquire(background, client, "other", lockstock.Wait(time.Second))
		s.is(err, lockstock.ErrUnreachable)
	})
	s.within(0, 3*time.Second, func() {
		_, err := lockstock.NewStock(client, "mug").Take(background, "ann", lockstock.Order{})
		s.is(err, lockstock.ErrUnreachable)
	})
	s.within(4*time.Second, 6*time.Second, func() { s.is(lock.Release(background), lockstock.ErrNotReleased) })
}

func TestAClusterThatIsGoneHoldsUpNobody(t *testing.T) {
	overCluster(t, 60_000, func(nodes []*server, client lockstock.Client) {
		lock := must(lockstock.Acquire(background, client, "job", lockstock.Wait(5*time.Second), lockstock.Lease(time.Minute)))
		for _, node := range nodes {
			node.freeze()
		}
		holdsUpNobody(nodes[0], client, lock)
	})
}
