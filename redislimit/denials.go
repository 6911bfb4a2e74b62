package redislimit

import (
	"sync"
	"time"

	"dappco.re/go/core/go-ratelimit/limit"
)

// denials are the last denials of some keys, each until its RetryAfter.
type denials struct {
	most int

	mu  sync.Mutex
	all map[string]denial
}

// denial is of n units at a time.
type denial struct {
	n        int
	decision limit.Decision
	at       time.Time
}

func newDenials(most int) *denials { return &denials{most: most, all: make(map[string]denial)} }

// find returns the decision on n units of a key if it is known to be a refusal.
func (s *denials) find(key string, n int, now time.Time) (limit.Decision, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	known, ok := s.all[key]
	if !ok {
		return limit.Decision{}, false
	}
	age := now.Sub(known.at)
	if age >= known.decision.RetryAfter {
		delete(s.all, key)
		return limit.Decision{}, false
	}
	if n != known.n || age < 0 {
		return limit.Decision{}, false
	}
	known.decision.RetryAfter -= age
	known.decision.ResetAfter -= min(age, known.decision.ResetAfter)
	return known.decision, true
}

// add remembers a denial that was asked for at a time.
func (s *denials) add(key string, n int, d limit.Decision, sent time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, ok := s.all[key]; !ok && len(s.all) >= s.most {
		for victim := range s.all { // any, as they end soon
			delete(s.all, victim)
			break
		}
	}
	s.all[key] = denial{n, d, sent}
}
