package main

import (
	"path/filepath"
	"time"

	"dappco.re/go/core/go-ratelimit"
	"dappco.re/go/core/go-ratelimit/internal/test/fakeprovider"
)

// startProvider starts the provider of the demo. It enforces a quota by itself, shares no code
// with the limiter, and writes each request to a log in folder before it answers. It goes on with
// the log of a run that was interrupted. The caller must close it.
func startProvider(folder string, quota ratelimit.ModelQuota) (*fakeprovider.Host, error) {
	return fakeprovider.Listen(fakeprovider.New(fakeprovider.Options{Answer: answer}, map[string]fakeprovider.Config{
		"": {Limits: fakeprovider.Limits{
			fakeprovider.RPM: quota.MaxRPM, fakeprovider.TPM: quota.MaxTPM,
		}},
	}), filepath.Join(folder, "provider.jsonl"))
}

// answer takes one to three seconds and half of the allowed length or more.
func answer(c *fakeprovider.Call) fakeprovider.Answer {
	most := max(c.MaxOutput, 2)
	a := fakeprovider.Answer{
		Delay: 200 * time.Millisecond, Spread: 400 * time.Millisecond, Pause: 40 * time.Millisecond,
	}
	a.Prompt = (c.Characters + 3) / 4
	a.Output = most/2 + c.Rand.IntN(most/2+1)
	a.Chunks = max(a.Output/6, 1)
	return a
}
