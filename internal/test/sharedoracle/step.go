package sharedoracle

import (
	"slices"
	"time"

	ratelimit "dappco.re/go/core/go-ratelimit"
)

// step makes one step of a random limiter, and the same alone.
func (s *Session) step() {
	i := s.Random.IntN(len(s.shared))
	s.by = i
	model := s.model()
	switch p := s.Random.IntN(100); {
	case p < 35:
		s.reserve("", i, model, s.Random.IntN(120), s.Random.IntN(120))
	case p < 45:
		s.record("", i, model, s.Random.IntN(120), s.Random.IntN(120))
	case p < 65:
		s.settle()
	case p < 85:
		s.sleep()
	case p < 88:
		if s.Random.IntN(6) == 0 {
			model = ""
		}
		s.reset("", i, model)
	case p < 91:
		s.cool("", i, model, 30*time.Second)
	case p < 94 && s.cfg.Pools != nil && s.Random.IntN(3) == 0:
		s.setPool("", i)
	case p < 94:
		q := s.quota()
		if s.Random.IntN(4) == 0 {
			q.DayZone = "Europe/Berlin"
		}
		if model == paced {
			q.Burst = 5 * time.Second * time.Duration(s.Random.IntN(4))
			s.repaced = true
		}
		s.setQuota("", i, model, q)
	case p < 97:
		s.arrive()
	default:
		s.reopen(i)
	}
}

// Between makes a step of any limiter but the one whose step it is. A store calls it to have a
// Commit conflict.
func (s *Session) Between() {
	const within = "    " // the step that conflicts
	i := s.Random.IntN(len(s.shared) - 1)
	if i >= s.by {
		i++
	}
	model := s.model()
	in, out := s.Random.IntN(60), s.Random.IntN(60)
	switch s.Random.IntN(6) {
	case 2:
		if s.cfg.Pools != nil && s.Random.IntN(2) == 0 {
			s.setPool(within, i)
			return
		}
		s.setQuota(within, i, model, s.quota())
	case 0:
		s.reset(within, i, model)
	case 1:
		s.cool(within, i, model, 10*time.Second)
	case 3:
		s.record(within, i, model, in, out)
	default:
		s.reserve(within, i, model, in, out)
	}
}

func (s *Session) model() string { return s.models[s.Random.IntN(len(s.models))] }

func (s *Session) quota() ratelimit.ModelQuota {
	return ratelimit.ModelQuota{
		MaxRPM: s.Random.IntN(10), MaxTPM: s.Random.IntN(600), MaxInFlight: s.Random.IntN(5), MaxRPD: s.Random.IntN(50),
	}
}

// duration returns a duration below most, in grains.
func (s *Session) duration(most time.Duration) time.Duration {
	d := time.Duration(s.Random.Int64N(int64(most)))
	return d - d%max(s.setup.Grain, 1)
}

func (s *Session) reserve(indent string, i int, model string, in, out int) {
	r, d := s.shared[i].Reserve(model, in, out)
	byShare := s.setup.Shares && s.shared[i].Err() != nil
	s.say("%s%d: Reserve %s %d %d: %s, by its share: %t", indent, i, model, in, out, d.Code, byShare)
	if byShare && r == nil {
		return
	}
	ra, da := s.alone.Reserve(model, in, out)
	if d.Allowed != da.Allowed || !byShare && !s.sameDecision(d, da) {
		s.t.Errorf("Reserve is %+v, alone %+v", d, da)
	}
	if r != nil && ra != nil {
		s.open = append(s.open, pair{i, r, ra})
	}
}

func (s *Session) record(indent string, i int, model string, in, out int) {
	s.say("%s%d: RecordUsage %s %d %d", indent, i, model, in, out)
	s.shared[i].RecordUsage(model, in, out)
	s.alone.RecordUsage(model, in, out)
}

func (s *Session) reset(indent string, i int, model string) {
	s.say("%s%d: Reset %q", indent, i, model)
	s.shared[i].Reset(model)
	s.alone.Reset(model)
}

func (s *Session) cool(indent string, i int, model string, most time.Duration) {
	until := time.Now().Add(s.duration(most) + s.setup.Grain/2)
	s.say("%s%d: Cooldown %s until %v", indent, i, model, until)
	s.shared[i].Cooldown(model, until)
	s.alone.Cooldown(model, until)
}

func (s *Session) setQuota(indent string, i int, model string, q ratelimit.ModelQuota) {
	s.say("%s%d: SetQuota %s %+v", indent, i, model, q)
	s.shared[i].SetQuota(model, q)
	s.alone.SetQuota(model, q)
}

func (s *Session) sleep() {
	pause := s.duration(20 * time.Second)
	if s.Random.IntN(40) == 0 {
		pause = s.duration(20 * time.Hour)
	}
	s.say("sleep %v", pause)
	s.calm.Store(true) // leases are renewed meanwhile
	s.setup.sleep(pause)
	s.calm.Store(false)
}

func (s *Session) settle() {
	if len(s.open) == 0 {
		return
	}
	at := s.Random.IntN(len(s.open))
	pair := s.open[at]
	s.by = pair.by
	s.open = append(s.open[:at], s.open[at+1:]...)
	in, out := s.Random.IntN(200), s.Random.IntN(200)
	if s.Random.IntN(3) == 0 {
		s.say("%d: Cancel %s of %v", pair.by, pair.shared.Model(), pair.shared.ReservedAt())
		pair.shared.Cancel()
		pair.alone.Cancel()
		return
	}
	s.say("%d: Commit %s of %v %d %d", pair.by, pair.shared.Model(), pair.shared.ReservedAt(), in, out)
	pair.shared.Commit(in, out)
	pair.alone.Commit(in, out)
}

func (s *Session) arrive() {
	if len(s.open) == 0 {
		return
	}
	pair := s.open[s.Random.IntN(len(s.open))]
	s.by = pair.by
	at := time.Now().Add(-s.duration(90*time.Second) - s.setup.Grain/2)
	s.say("%d: Arrived %s of %v at %v", pair.by, pair.shared.Model(), pair.shared.ReservedAt(), at)
	pair.shared.Arrived(at)
	pair.alone.Arrived(at)
}

// reopen closes a limiter and opens it again, after its reservations are settled: with it their
// slots would go.
//
// A limiter that is opened knows the charges of the last minute, and not what is left of earlier
// ones in a bucket. That is no more than the quota's Burst, which counts as filled then; but it may
// be more once the quota has changed, and then none is opened until the bucket is empty.
func (s *Session) reopen(i int) {
	settles := slices.ContainsFunc(s.open, func(p pair) bool { return p.shared.Model() == paced })
	if s.repaced && (settles || time.Since(s.usedPaced) <= time.Minute) {
		return
	}
	s.calm.Store(true)
	defer s.calm.Store(false)
	s.stopWaiting(i)
	kept := s.open[:0]
	for _, pair := range s.open {
		if pair.by == i {
			pair.shared.Commit(1, 1)
			pair.alone.Commit(1, 1)
		} else {
			kept = append(kept, pair)
		}
	}
	s.open = kept
	if s.cfg.LearnQuotas {
		s.forget() // what a limiter has learned is its own
	}
	s.say("%d: reopen", i)
	if err := s.shared[i].Close(); err != nil {
		s.t.Error(err)
	}
	cfg := s.cfg
	cfg.Quotas, cfg.Pools = nil, nil // or they would take the place of what SetQuota said
	cfg.Providers = []ratelimit.Provider{ratelimit.ProviderLocal}
	s.shared[i] = s.openShared(i, cfg)
}
