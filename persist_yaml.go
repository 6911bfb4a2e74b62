package ratelimit

import (
	"io"
	"maps"
	"time"

	"dappco.re/go/core/go-ratelimit/internal/account"
	"dappco.re/go/core/go-ratelimit/internal/fsx"
	"dappco.re/go/core/go-ratelimit/internal/ring"
	"dappco.re/go/core/go-ratelimit/internal/state"
	"dappco.re/go/core/go-ratelimit/internal/yamlfile"
)

// persistYAML writes the state file.
func (s *storage) persistYAML(rl *RateLimiter) error {
	if s.path == "" {
		return errNoFile
	}
	save, replace := &saving{rl: rl}, fsx.Replace
	save.pinned.Store(true)
	defer save.pinned.Store(false)
	snapshot := save.snapshot()
	if s.suspect {
		replace = fsx.ReplaceKeepingOld
	}
	err := replace(s.path, func(w io.Writer) error {
		return yamlfile.EncodeState(w, snapshot, time.Now())
	})
	if err == nil {
		s.suspect, s.spent = false, snapshot.Spend
	}
	return err
}

// snapshot notes what is to be stored. Other calls wait for a copy of the slices' ends alone, and
// room for those is made before the lock is taken.
func (s *saving) snapshot() *state.Snapshot {
	type entry struct {
		model string
		usage account.Usage
	}
	rl := s.rl
	rl.adoptAll()
	f, _ := s.catalog()
	maps.DeleteFunc(f.Quotas, func(model string, q state.Quota) bool {
		said := f.Said[model]
		return q.Validate(model) != nil || said.Validate(model) != nil // a Load would not accept it
	})
	rl.mu.RLock()
	room := len(rl.State) + len(f.Pools)
	rl.mu.RUnlock()
	entries := ring.Room[entry](room + room/8)
	begin := func() { entries = entries[:0] }
	is := s.walk(begin, func(a *account.Account, _ account.Now) {
		a.Pin(&s.pinned)
		entries = append(entries, entry{a.Name, *a.Usage()})
	})
	for i := range entries {
		u := &entries[i].usage // of which the file shares the slices
		is.Usage[entries[i].model] = &state.Usage{
			Requests: u.Requests, Tokens: u.Tokens, DayStart: u.DayStart, DayCount: u.DayCount, DayTokens: u.DayTokens,
		}
	}
	is.Quotas, is.Said, is.Pools, is.Answers = f.Quotas, f.Said, f.Pools, rl.answers.All()
	return is
}
