//go:build !nosqlite

// Shared: what the processes say of quotas, against one limiter alone.

package ratelimit_test

import (
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"testing"
	"testing/synctest"

	ratelimit "dappco.re/go/core/go-ratelimit"
	"dappco.re/go/core/go-ratelimit/internal/sharedlog/sharedlogtest"
)

// Three limiters of a file change quotas, tell the account's limits and take quotas back. Each of
// them then has the quotas of one limiter alone, and decides as that does.
func TestSharedQuotasAreThoseOfOneLimiter(t *testing.T) {
	t.Parallel()
	for seed := range times(6, 2, 500) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), "state.db")
			synctest.Test(t, func(t *testing.T) {
				s := newSharedSession(t, path, uint64(seed))
				s.runQuotas(func() {
					if s.random.IntN(2) == 0 {
						s.step()
					} else {
						s.requote(s.random.IntN(len(s.shared)))
					}
					s.compare()
				})
			})
		})
	}
}

// The same where steps conflict and the log fails: what was said meanwhile of the same model by
// another origin stays.
func TestSharedQuotasAreThoseOfOneLimiterWhateverConflicts(t *testing.T) {
	t.Parallel()
	for seed := range times(20, 5, 1000) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				fake := sharedlogtest.NewFake()
				s := newSharedSessionOver(t, fake, uint64(seed))
				s.conflictQuotas(fake)
				s.runQuotas(func() {
					if i := s.random.IntN(len(s.shared)); s.random.IntN(20) == 0 {
						s.reopen(i)
					} else {
						s.requote(i)
					}
				})
			})
		})
	}
}

// conflictQuotas has others change quotas before a step is written, and has steps fail.
func (s *sharedSession) conflictQuotas(fake *sharedlogtest.Fake) {
	within := false
	fail := func(when string) error {
		if !s.calm.Load() && !within && s.random.IntN(15) == 0 {
			return errors.New("made up, " + when + " the write")
		}
		return nil
	}
	fake.Before = func(int64) error {
		if !s.calm.Load() && !within && s.random.IntN(3) == 0 {
			within = true
			defer func() { within = false }()
			by := s.by
			s.requote((by + 1) % len(s.shared))
			s.by = by
		}
		return fail("before")
	}
	fake.After = func(int64) error { return fail("after") }
}

// runQuotas is run for other steps. After each, the quotas are compared.
func (s *sharedSession) runQuotas(step func()) {
	defer func() {
		s.calm.Store(true)
		for _, rl := range s.shared {
			if err := rl.Close(); err != nil {
				s.t.Error(err)
			}
		}
		s.alone.Close()
	}()
	for range 200 {
		step()
		s.recover()
		if s.compareQuotas(); s.t.Failed() {
			for _, line := range s.script {
				s.t.Log(line)
			}
			return
		}
	}
}

// requote changes what is said of quotas.
func (s *sharedSession) requote(i int) {
	s.by = i
	rl, model := s.shared[i], sharedModels[s.random.IntN(len(sharedModels))]
	if s.random.IntN(6) == 0 {
		model = "*"
	}
	quota := func() (q ratelimit.ModelQuota) {
		q = ratelimit.ModelQuota{MaxRPM: s.random.IntN(10), MaxTPM: s.random.IntN(600), MaxInFlight: s.random.IntN(5), MaxRPD: s.random.IntN(50)}
		switch s.random.IntN(4) {
		case 0:
			q.DayZone = "Europe/Berlin"
		case 1:
			q.MaxRPM, q.MaxRPD = 0, 0
		}
		return q
	}
	switch s.random.IntN(3) {
	case 0:
		s.say("%d: RemoveQuota %s", i, model)
		rl.RemoveQuota(model)
		s.alone.RemoveQuota(model)
	case 1:
		account := make(map[string]ratelimit.ModelQuota)
		for range s.random.IntN(4) {
			account[sharedModels[s.random.IntN(len(sharedModels))]] = quota()
		}
		s.say("%d: SetAccountQuotas %+v", i, account)
		rl.SetAccountQuotas(account)
		s.alone.SetAccountQuotas(account)
	default:
		q := quota()
		s.say("%d: SetQuota %s %+v", i, model, q)
		rl.SetQuota(model, q)
		s.alone.SetQuota(model, q)
	}
}

// compareQuotas compares the quotas that the limiters decide by.
func (s *sharedSession) compareQuotas() {
	for i, rl := range s.shared {
		rl.Stats("a") // brings its memory up to date
		if !maps.Equal(rl.Quotas, s.alone.Quotas) {
			s.t.Errorf("the quotas of limiter %d are %v, alone %v", i, rl.Quotas, s.alone.Quotas)
		}
	}
}
