package redisstore

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"dappco.re/go/core/go-ratelimit/internal/store"
	"dappco.re/go/core/go-ratelimit/redisstore/internal/redistest"
)

var start = store.Image{At: store.Position{Log: 5, Sum: 6, Seq: 7}, Bytes: []byte("start")}

// begun opens a log that has begun.
func begun(t *testing.T, client redis.UniversalClient, options Options, keep time.Duration) store.Log {
	t.Helper()
	options.Prefix = "test"
	if options.Timeout == 0 {
		options.Timeout = 10 * time.Second // the machine may be busy
	}
	s, err := New(t.Context(), client, options)
	if err != nil {
		t.Fatal(err)
	}
	l, err := s.Open(t.Context(), store.Options{Process: 1, Keep: keep})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	if err := l.Begin(t.Context(), 0, start); err != nil {
		t.Fatal(err)
	}
	numbersOf(t, l) // so that the server knows the script
	return l
}

func oneEntry(n int64) []store.Entry {
	return []store.Entry{{Process: 1, N: n, Command: []byte("command")}}
}

func clientOf(t *testing.T, address string) *redis.Client {
	t.Helper()
	client := redis.NewClient(&redis.Options{Addr: address, ContextTimeoutEnabled: true})
	t.Cleanup(func() { client.Close() })
	return client
}

// numbersOf returns the numbers of all entries that the log has.
func numbersOf(t *testing.T, l store.Log) (all []int64) {
	t.Helper()
	news, err := l.Read(t.Context(), start.At, 0, 0)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range news.Entries {
		all = append(all, e.N)
	}
	return all
}

// What the server refuses is not written; and it is said so.
func TestRefused(t *testing.T) {
	server := redistest.Start(t)
	l := begun(t, clientOf(t, server.Addr()), Options{}, 0)
	for name, commands := range map[string][2][]any{
		"it has no memory": {{"config", "set", "maxmemory", "1"}, {"config", "set", "maxmemory", "0"}},
		"it is a replica":  {{"replicaof", "127.0.0.1", "1"}, {"replicaof", "no", "one"}},
		"nobody may write": {{"acl", "setuser", "default", "-evalsha"}, {"acl", "setuser", "default", "+evalsha"}},
	} {
		server.Do(commands[0]...)
		if _, err := l.Append(t.Context(), start.At, oneEntry(1)); !errors.Is(err, store.ErrNotWritten) || errors.Is(err, store.ErrLost) {
			t.Errorf("%s: error %v", name, err)
		}
		server.Do(commands[1]...)
		if all := numbersOf(t, l); len(all) != 0 {
			t.Errorf("%s: written are %v", name, all)
		}
	}
	server.Do("script", "flush")
	if _, err := l.Append(t.Context(), start.At, oneEntry(1)); err != nil {
		t.Error(err)
	}
}

// An append without an answer may be there, and is not sent again behind the caller's back.
func TestReplyLost(t *testing.T) {
	server := redistest.Start(t)
	proxy := redistest.NewProxy(t, server.Addr())
	l := begun(t, clientOf(t, proxy.Addr()), Options{}, 0)
	proxy.Set(redistest.Faults{Close: 1})
	_, err := l.Append(t.Context(), start.At, oneEntry(1))
	if err == nil || errors.Is(err, store.ErrNotWritten) {
		t.Errorf("error %v", err)
	}
	proxy.Set(redistest.Faults{})
	redistest.Eventually(t, "the entry", func() bool { return len(numbersOf(t, l)) > 0 })
	if all := numbersOf(t, l); len(all) != 1 {
		t.Errorf("written are %v", all)
	}
}

// A server that stands still holds nobody longer than the context, and writes late.
func TestStandsStill(t *testing.T) {
	server := redistest.Start(t)
	l := begun(t, clientOf(t, server.Addr()), Options{}, 0)
	server.Pause()
	began := time.Now()
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	_, err := l.Append(ctx, start.At, oneEntry(1))
	if err == nil || errors.Is(err, store.ErrNotWritten) {
		t.Errorf("error %v", err)
	}
	if took := time.Since(began); took > 2*time.Second {
		t.Errorf("the append took %v", took)
	}
	server.Resume()
	redistest.Eventually(t, "the late entry", func() bool { return len(numbersOf(t, l)) == 1 })
}

// All keys end when nobody uses the log for the time that it is kept, and pieces of an image that
// nobody sees soon.
func TestKeys(t *testing.T) {
	client := clientOf(t, redistest.Start(t).Addr())
	lives := func(want func(key string, left time.Duration) bool) {
		t.Helper()
		keys, err := client.Keys(t.Context(), "*").Result()
		if err != nil || len(keys) < 3 {
			t.Errorf("keys %v, error %v", keys, err)
		}
		for _, key := range keys {
			if left := client.PTTL(t.Context(), key).Val(); !strings.HasPrefix(key, "{test}:ratelimit:") || !want(key, left) {
				t.Errorf("%s lives for %v", key, left)
			}
		}
	}
	l := begun(t, client, Options{}, time.Hour)
	if _, err := l.Append(t.Context(), start.At, oneEntry(1)); err != nil {
		t.Fatal(err)
	}
	lives(func(_ string, left time.Duration) bool { return left > 59*time.Minute && left <= time.Hour })
	if err := l.(*Log).stage(t.Context(), l.(*Log).keys[keyMeta]+":image:x", []byte("x")); err != nil {
		t.Fatal(err)
	}
	lives(func(key string, left time.Duration) bool {
		return strings.HasSuffix(key, ":x") == (left > 0 && left <= stageFor)
	})
	if err := client.FlushAll(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
	l = begun(t, client, Options{}, 0)
	if _, err := l.Append(t.Context(), start.At, oneEntry(1)); err != nil {
		t.Fatal(err)
	}
	lives(func(_ string, left time.Duration) bool { return left < 0 })
}

// In a Cluster all keys of a log lie in one slot.
func TestCluster(t *testing.T) {
	client := redistest.Cluster(t).Client()
	l := begun(t, client, Options{}, time.Hour)
	at := start.At
	for n := range int64(3) {
		news, err := l.Append(t.Context(), at, oneEntry(n))
		if err != nil {
			t.Fatal(err)
		}
		at = news.End(at)
		if err := l.Save(t.Context(), store.Image{At: at, Bytes: make([]byte, 300_000)}); err != nil {
			t.Fatal(err)
		}
	}
	if image, err := l.Load(t.Context()); err != nil || image.At != at || len(image.Bytes) != 300_000 {
		t.Errorf("the image is of %+v with %d bytes, error %v", image.At, len(image.Bytes), err)
	}
	if _, err := l.Read(t.Context(), start.At, 0, 0); !errors.Is(err, store.ErrTrimmed) {
		t.Errorf("read: error %v", err)
	}
}
