package main

import (
	"math/rand/v2"
	"time"

	"dappco.re/go/core/go-ratelimit/internal/test/fakeprovider"
)

// provider answers chat completions and enforces its limits as OpenAI does: it charges the larger
// of max_tokens and a quarter of the prompt's characters when a call arrives, and refunds
// nothing. It is the judge of this program, so it shares no code with the limiter, nor with the
// estimate of the agents.
type provider struct {
	*fakeprovider.Server
	latency func() time.Duration // until an answer is ready
}

// maxLimit is the largest limit that the provider enforces.
const maxLimit = 100_000_000

// newProvider returns a provider with limits for a minute. Zero is unlimited.
func newProvider(rpm, tpm int) *provider {
	p := &provider{latency: func() time.Duration { return 50*time.Millisecond + rand.N(350*time.Millisecond) }}
	p.Server = fakeprovider.New(fakeprovider.Options{
		Answer: func(c *fakeprovider.Call) fakeprovider.Answer {
			a := fakeprovider.DefaultAnswer(c)
			a.Delay = p.latency()
			return a
		},
	}, map[string]fakeprovider.Config{"": {
		Limits: fakeprovider.Limits{fakeprovider.RPM: min(rpm, maxLimit), fakeprovider.TPM: min(tpm, maxLimit)},
		Count:  fakeprovider.CountAdmission,
	}})
	return p
}

// logged is what the server's log says of all runs since the last whole one.
type logged struct {
	calls, refused int // of them
	now, nowTokens int // calls and charged tokens of this run
}

// readLog returns what the server's log says; this run began at a time.
func readLog(server *fakeprovider.Host, began time.Time) (l logged, err error) {
	records, err := server.Records()
	for _, r := range records {
		l.calls++
		if r.Refused {
			l.refused++
		}
		if !r.At.Before(began) {
			l.now++
			if !r.Refused {
				l.nowTokens += r.Charge[fakeprovider.TPM]
			}
		}
	}
	return l, err
}
