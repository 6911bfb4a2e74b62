package sharedoracle

import ratelimit "dappco.re/go/core/go-ratelimit"

// RunQuotas is Run for steps that change quotas, tell the account's limits and take quotas back,
// and with others also all that Run does.
func (s *Session) RunQuotas(steps int, others bool) {
	defer s.close()
	for range steps {
		s.quotaStep(others)
		s.recover()
		if s.compareQuotas(); s.failed() {
			return
		}
	}
}

func (s *Session) quotaStep(others bool) {
	switch {
	case !others:
		if i := s.Random.IntN(len(s.shared)); s.Random.IntN(20) == 0 {
			s.reopen(i)
		} else {
			s.requote(i)
		}
		return
	case s.Random.IntN(2) == 0:
		s.step()
	default:
		s.requote(s.Random.IntN(len(s.shared)))
	}
	s.compare()
}

// RequoteBetween is Between with a change of what is said of quotas.
func (s *Session) RequoteBetween() {
	by := s.by
	s.requote((by + 1) % len(s.shared))
	s.by = by
}

// requote changes what is said of quotas.
func (s *Session) requote(i int) {
	s.by = i
	model := s.model()
	if s.Random.IntN(6) == 0 {
		model = "*"
	}
	switch s.Random.IntN(3) {
	case 0:
		s.say("%d: RemoveQuota %s", i, model)
		s.shared[i].RemoveQuota(model)
		s.alone.RemoveQuota(model)
	case 1:
		account := make(map[string]ratelimit.ModelQuota)
		for range s.Random.IntN(4) {
			account[s.model()] = s.anyQuota()
		}
		s.say("%d: SetAccountQuotas %+v", i, account)
		s.shared[i].SetAccountQuotas(account)
		s.alone.SetAccountQuotas(account)
	default:
		s.setQuota("", i, model, s.anyQuota())
	}
}

func (s *Session) anyQuota() ratelimit.ModelQuota {
	q := s.quota()
	switch s.Random.IntN(4) {
	case 0:
		q.DayZone = "Europe/Berlin"
	case 1:
		q.MaxRPM, q.MaxRPD = 0, 0
	}
	return q
}
