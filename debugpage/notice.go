package debugpage

import "dappco.re/go/core/go-ratelimit"

// notice is what stands above the models: what is wrong with the limiter as a whole.
type notice struct {
	storeError string
	warnings   []string
}

func noticeOf(rl *ratelimit.RateLimiter) notice {
	var n notice
	if err := rl.Err(); err != nil {
		n.storeError = err.Error()
	}
	return n
}
