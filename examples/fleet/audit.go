package main

import (
	"time"

	"dappco.re/go/core/go-ratelimit/internal/test/fakeprovider"
)

// audit is what the provider's log says. It knows nothing of the machines and of Redis.
type audit struct {
	calls, refused int
	admitted       []fakeprovider.Record // in the order in which they came
}

// usage is what a time holds.
type usage struct{ requests, tokens int }

func (u *usage) add(r fakeprovider.Record) {
	u.requests++
	u.tokens += r.Charge[fakeprovider.TPM]
}

func newAudit(records []fakeprovider.Record) *audit {
	a := &audit{calls: len(records)}
	for _, r := range records {
		if r.Refused {
			a.refused++
		} else {
			a.admitted = append(a.admitted, r)
		}
	}
	return a
}

// fullest returns the most requests, and the most tokens, that any minute held.
func (a *audit) fullest() (most usage) {
	var now usage
	first := 0
	for _, r := range a.admitted {
		now.add(r)
		for r.At.Sub(a.admitted[first].At) >= time.Minute {
			now.requests--
			now.tokens -= a.admitted[first].Charge[fakeprovider.TPM]
			first++
		}
		most.requests = max(most.requests, now.requests)
		most.tokens = max(most.tokens, now.tokens)
	}
	return most
}

// between returns what came from one time to another, the latter excluded.
func (a *audit) between(from, to time.Time) (u usage) {
	for _, r := range a.admitted {
		if !r.At.Before(from) && r.At.Before(to) {
			u.add(r)
		}
	}
	return u
}

// reached returns when the n-th call came that was admitted; zero if it did not.
func (a *audit) reached(n int) time.Time {
	if n < 1 || n > len(a.admitted) {
		return time.Time{}
	}
	return a.admitted[n-1].At
}
