package sharedoracle

import (
	"slices"

	ratelimit "dappco.re/go/core/go-ratelimit"
)

// pools are those of every second session. Where calls wait, they limit the minute little: who is
// served later than alone, by the time in which limiters hear of each other, makes the next one in
// line later, and after some minutes in line that is near the end of a minute whatever the Grain.
func pools(wide bool) map[string]ratelimit.Pool {
	if wide {
		return map[string]ratelimit.Pool{
			"every": {Models: []string{"*"}, Quota: ratelimit.ModelQuota{MaxRPM: 300, MaxTPM: 25_000, MaxRPD: 300}},
			"some":  {Models: []string{"a", "zoned", "un*"}, Quota: ratelimit.ModelQuota{MaxRPM: 120, MaxInFlight: 6, MaxTPD: 8000, DayZone: "Asia/Tokyo"}},
		}
	}
	return map[string]ratelimit.Pool{
		"every": {Models: []string{"*"}, Quota: ratelimit.ModelQuota{MaxRPM: 30, MaxTPM: 2500, MaxRPD: 300}},
		"some":  {Models: []string{"a", "zoned", "un*"}, Quota: ratelimit.ModelQuota{MaxRPM: 12, MaxOTPM: 600, MaxInFlight: 6, MaxTPD: 8000, DayZone: "Asia/Tokyo"}},
		"none":  {Models: []string{"absent"}, Quota: ratelimit.ModelQuota{MaxRPM: 1}},
	}
}

// comparePools compares what the limiters say of all pools.
func (s *Session) comparePools() {
	names := slices.Collect(s.alone.Pools())
	for i, rl := range s.shared {
		if got := slices.Collect(rl.Pools()); !slices.Equal(got, names) {
			s.t.Errorf("limiter %d has the pools %q, alone %q", i, got, names)
		}
	}
	for _, name := range names {
		alone := s.alone.PoolStats(name)
		for i, rl := range s.shared {
			if got := rl.PoolStats(name); !s.sameStats(got, alone) {
				s.t.Errorf("limiter %d says of the pool %s\n%+v, alone\n%+v", i, name, got, alone)
			}
		}
	}
}

// setPool changes a pool, or takes it away.
func (s *Session) setPool(indent string, i int) {
	name := []string{"every", "some", "new"}[s.Random.IntN(3)]
	if s.Random.IntN(3) == 0 {
		s.say("%s%d: RemovePool %s", indent, i, name)
		s.shared[i].RemovePool(name)
		s.alone.RemovePool(name)
		return
	}
	pool := ratelimit.Pool{Quota: s.quota()}
	if s.setup.Wide {
		pool.Quota.MaxRPM, pool.Quota.MaxTPM = 0, 0
	}
	pool.Quota.MaxRPD, pool.Quota.MaxRPM, pool.Quota.MaxTPM = 5*pool.Quota.MaxRPD, 3*pool.Quota.MaxRPM, 5*pool.Quota.MaxTPM
	for range s.Random.IntN(3) {
		pool.Models = append(pool.Models, []string{s.model(), "*", "u*"}[s.Random.IntN(3)])
	}
	s.say("%s%d: SetPool %s %+v", indent, i, name, pool)
	s.shared[i].SetPool(name, pool)
	s.alone.SetPool(name, pool)
}
