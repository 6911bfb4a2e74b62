package main

import (
	"path/filepath"
	"time"

	"dappco.re/go/core/go-ratelimit"
	"dappco.re/go/core/go-ratelimit/internal/test/fakeprovider"
)

const (
	model     = "gpt-4o-mini"
	maxAnswer = 200 // tokens
)

// quota is what the account may use in a minute.
type quota struct{ RPM, TPM int }

// accountQuota is used up in some 50 seconds, as 24 callers of two seconds a call make 12 calls a
// second.
var accountQuota = quota{RPM: 600, TPM: 150_000}

// limits is the quota as each machine sets it.
func (q quota) limits() map[string]ratelimit.ModelQuota {
	return map[string]ratelimit.ModelQuota{model: {MaxRPM: q.RPM, MaxTPM: q.TPM}}
}

// startProvider starts a provider that enforces the quota by itself, shares no code with the
// limiter, and writes each request to a log in folder before it answers. The caller must close it.
func startProvider(folder string, q quota) (*fakeprovider.Host, error) {
	server := fakeprovider.New(fakeprovider.Options{Answer: answer}, map[string]fakeprovider.Config{
		model: {Limits: fakeprovider.Limits{fakeprovider.RPM: q.RPM, fakeprovider.TPM: q.TPM}},
	})
	return fakeprovider.Listen(server, filepath.Join(folder, logName))
}

// answer takes 1.5 to 2.5 seconds, and half of the allowed length or more.
func answer(c *fakeprovider.Call) fakeprovider.Answer {
	most := max(c.MaxOutput, 2)
	a := fakeprovider.Answer{Delay: 1500 * time.Millisecond, Spread: time.Second}
	a.Prompt = (c.Characters + 3) / 4
	a.Output = most/2 + c.Rand.IntN(most/2+1)
	return a
}
