package ratelimit

import (
	"path/filepath"
	"testing"
	"time"
)

func TestSmokeShared(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s.db")
	open := func() *RateLimiter {
		rl, err := NewWithSQLiteConfig(path, Config{Shared: true, Quotas: map[string]ModelQuota{"m": {MaxRPM: 5, MaxTPM: 1000, MaxInFlight: 3}}})
		if err != nil {
			t.Fatal(err)
		}
		return rl
	}
	a, b := open(), open()
	r1, d := a.Reserve("m", 10, 5)
	t.Log(r1, d)
	t.Log(b.Stats("m"))
	r1.Commit(100, 50)
	t.Log(b.Stats("m"))
	for i := range 5 {
		r, d := b.Reserve("m", 10, 5)
		t.Log(i, r != nil, d.Code, d.RetryAfter)
	}
	t.Log(a.Stats("m"))
	started := time.Now()
	for range 1000 {
		a.RecordUsage("x", 1, 1)
	}
	t.Log("record", time.Since(started)/1000)
	started = time.Now()
	for range 1000 {
		b.Decide("x", 1)
	}
	t.Log("decide", time.Since(started)/1000, a.Err(), b.Err())
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	t.Log(a.Stats("m"))
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	c := open()
	t.Log(c.Stats("m"), c.Stats("x"))
	c.Close()
}
