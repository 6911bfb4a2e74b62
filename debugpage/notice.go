package debugpage

import "dappco.re/go/core/go-ratelimit"

// notice is what stands above the models: what is wrong with the limiter as a whole.
type notice struct {
	storeError string
	warnings   []string
}

func noticeOf(rl *ratelimit.RateLimiter) notice {
	var n notice
	health := rl.Health()
	if health.Err != nil {
		n.storeError = cut(health.Err.Error())
	}
	for _, warning := range health.Warnings {
		n.warnings = append(n.warnings, cut(warning.Error()))
	}
	return n
}
