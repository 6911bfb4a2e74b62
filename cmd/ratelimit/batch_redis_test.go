package main_test

import (
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"dappco.re/go/core/go-ratelimit/internal/test/redistest"
)

// Batches of several machines share a quota in Redis.
func TestBatchRedis(t *testing.T) {
	server := redistest.Start(t, redistest.Config("requirepass redis-secret"))
	t.Setenv("REDIS_URL", "redis://:redis-secret@"+server.Addr())
	g := newGate()
	var flying, most atomic.Int64
	u := provider(t, func(w http.ResponseWriter, r *http.Request) {
		if n := flying.Add(1); n > most.Load() {
			most.Store(n)
		}
		g.handle(w, r)
		flying.Add(-1)
	})
	flags := []string{"in.jsonl", "-o", "out.jsonl", "--redis", server.Addr(), "--upstream", u.URL, "--in-flight", "3"}
	dirs := []string{t.TempDir(), t.TempDir()}
	for _, dir := range dirs {
		put(t, dir, "in.jsonl", chatLines(10))
	}
	first, firstSaid := startBatch(t, dirs[0], flags...)
	for range 3 {
		wait(t, g.came, "call of the first")
	}
	second, secondSaid := startBatch(t, dirs[1], flags...)
	secondSaid.waitFor(t, "0 of 10 done")
	close(g.open)
	first.Wait()  //nolint:errcheck // its status is looked at
	second.Wait() //nolint:errcheck // as above
	for i, dir := range dirs {
		if got := len(ids(t, take(t, dir, "out.jsonl"))); got != 10 {
			t.Errorf("%d lines: %s", got, []*output{firstSaid, secondSaid}[i])
		}
	}
	if most.Load() > 3 {
		t.Errorf("%d calls in flight", most.Load())
	}
	if said := firstSaid.String() + secondSaid.String(); strings.Contains(said, "redis-secret") {
		t.Errorf("the password is told:\n%s", said)
	}
}
