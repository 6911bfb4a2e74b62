package redisstore

import (
	"errors"
	"testing"

	"github.com/redis/go-redis/v9"

	"dappco.re/go/core/go-ratelimit/redisstore/internal/redistest"
)

// On a server without memory for more, what counts no more is deleted although nothing can be
// written, and so makes room. A part of an entry is noted as deleted.
func TestFullServerIsRelieved(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	client := redis.NewClient(&redis.Options{Addr: server.Addr(), ContextTimeoutEnabled: true})
	t.Cleanup(func() { client.Close() })
	s := testStore(t, client, Options{})
	a, _ := joined(t, s, 1)
	commit(t, a, 0, batchOf(use(1, 1), use(1, 2), use(1, 3)))
	commit(t, a, 3, batchOf(use(1, 4)))
	commit(t, a, 4, batchOf(use(1, 5)))

	server.Do("CONFIG", "SET", "maxmemory", "1")
	full := batchOf(use(1, 6))
	full.Drops = [][2]int64{{1, 2}, {4, 4}}
	_, err := begin(t, a, 5).Commit(full)
	var answer redis.Error
	if !errors.As(err, &answer) || !isFull(err) {
		t.Fatalf("the error is %v, want OOM", err)
	}
	a.doChores(t.Context())
	if n := server.Do("XLEN", s.keys[keyLog]); n != int64(2) {
		t.Errorf("%v entries are left, want 2", n)
	}
	server.Do("CONFIG", "SET", "maxmemory", "0")
	if events := everythingOf(t, s).Events; len(events) != 2 || events[0].N != 3 || events[1].N != 5 {
		t.Errorf("the log has %d events, want those numbered 3 and 5", len(events))
	}
}
