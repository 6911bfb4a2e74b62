//go:build !nosqlite

// Reservations.Cancel with Config.Shared: one step for all of them.

package ratelimit_test

import (
	"encoding/binary"
	"os"
	"path/filepath"
	"testing"

	ratelimit "dappco.re/go/core/go-ratelimit"
)

// sharedCommits counts the transactions in the write-ahead log of a database.
func sharedCommits(t *testing.T, path string) (n int) {
	t.Helper()
	log, err := os.ReadFile(path + "-wal")
	if err != nil {
		t.Fatal(err)
	}
	const header, frameHeader = 32, 24
	page := int(binary.BigEndian.Uint32(log[8:]))
	for frame := header; frame+frameHeader+page <= len(log); frame += frameHeader + page {
		if binary.BigEndian.Uint32(log[frame+4:]) != 0 { // the last frame of a transaction
			n++
		}
	}
	return n
}

func TestSharedCancelOfSeveralIsOneStep(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state.db")
	quotas := func(cfg *ratelimit.Config) {
		cfg.Quotas = map[string]ratelimit.ModelQuota{"a": {MaxInFlight: 30, MaxTPM: 1000}, "b": {MaxInFlight: 30}}
	}
	a, b := openShared(t, path, quotas), openShared(t, path, quotas)
	var reqs []ratelimit.Request
	for range 10 {
		reqs = append(reqs, ratelimit.Request{Model: "a", PromptTokens: 3}, ratelimit.Request{Model: "b"})
	}
	rs, d := a.ReserveAll(reqs...)
	if !d.Allowed {
		t.Fatalf("%+v", d)
	}
	rs[3].Commit(5, 5) // settled already
	before := sharedCommits(t, path)
	rs.Cancel()
	if n := sharedCommits(t, path) - before; n != 1 {
		t.Errorf("%d transactions, want 1", n)
	}
	rs.Cancel()
	ratelimit.Reservations{nil}.Cancel()
	ratelimit.Reservations(nil).Cancel()
	if n := sharedCommits(t, path) - before; n != 1 {
		t.Errorf("%d transactions after nothing was cancelled, want 1", n)
	}
	for name, rl := range map[string]*ratelimit.RateLimiter{"itself": a, "another": b} {
		if s := rl.Stats("a"); s.InFlight != 0 || s.RPM != 0 || s.TPM != 0 || s.RPD != 0 {
			t.Errorf("%s: a is %+v", name, s)
		}
		if s := rl.Stats("b"); s.InFlight != 0 || s.RPM != 1 || s.TPM != 10 {
			t.Errorf("%s: b is %+v", name, s)
		}
	}
}

// A program may put the reservations of several limiters together.
func TestCancelOfReservationsOfSeveralLimiters(t *testing.T) {
	var limiters []*ratelimit.RateLimiter
	var rs ratelimit.Reservations
	for i := range 3 {
		rl := newLimiter(t, ratelimit.ModelQuota{MaxInFlight: 3})
		if i == 1 {
			rl = openShared(t, filepath.Join(t.TempDir(), "state.db"))
		}
		limiters = append(limiters, rl)
	}
	for _, i := range []int{0, 1, 0, 2, 1} {
		rs = append(rs, reserve(t, limiters[i], "m", 1, 1))
	}
	rs.Cancel()
	for i, rl := range limiters {
		if s := rl.Stats("m"); s.InFlight != 0 || s.RPM != 0 {
			t.Errorf("limiter %d: %+v", i, s)
		}
	}
}
