package llmhttp

import (
	"context"
	"errors"
	"net"
	"time"

	"dappco.re/go/core/go-ratelimit"
)

// problemTimeout is the problem of a call without an answer: see ratelimit.ProviderRefusal.
const problemTimeout = "timeout"

const (
	// downAfter is how long a provider is overloaded and answers nothing until calls pause for it
	// where the lowered limit of calls in flight is otherwise the answer.
	downAfter = 10 * time.Second
	// downFailures is the number of failures in a row that are no chance.
	downFailures = 3
)

// adapts reports whether the model had a limit that is found by refusals when the call was sent.
func (f *flight) adapts() bool { return f.counted.AdaptiveRPM > 0 || f.counted.AdaptiveInFlight > 0 }

// fallbackPause returns how long to pause for a problem that names no time; zero for not at all.
// Where the refusal lowers a limit, that is the answer: a pause would cost more than the refusal.
// But a provider that answers nothing is not asked all the time.
func (f *flight) fallbackPause(kind ProblemKind, now time.Time) time.Duration {
	models := &f.transport.models
	switch {
	case kind == RateLimited && f.counted.AdaptiveRPM > 0:
		return 0
	case kind == Overloaded && f.counted.AdaptiveInFlight > 0 && !models.down(f.model, now):
		return 0
	}
	return models.pause(f.model, now)
}

// observeRefusal reports a refusal, or a call without an answer, to the limiter.
func (f *flight) observeRefusal(problem string, retryAfter time.Duration) {
	f.transport.Limiter.ObserveRefusal(&f.ctx, ratelimit.ProviderRefusal{
		Model: f.name, Status: f.status, Problem: problem, RetryAfter: retryAfter, SentAt: f.sent,
	})
}

// unanswered reports a call that Base failed with err, if the model's limits are to follow: one
// whose time was over, and one of several failures in a row.
func (f *flight) unanswered(err error) {
	if !f.adapts() || errors.Is(f.ctx.Err(), context.Canceled) {
		return
	}
	if f.outOfTime(err) || f.transport.models.failed(f.model) {
		f.observeRefusal(problemTimeout, 0)
	}
}

// outOfTime reports whether the provider had the time for a call, and did not answer. A deadline
// that passed because the call waited for its place says nothing of the provider: if it lowered a
// limit, further calls would wait longer and miss theirs, too.
func (f *flight) outOfTime(err error) bool {
	if errors.Is(f.ctx.Err(), context.DeadlineExceeded) {
		return time.Since(f.sent) >= f.waited
	}
	var timeout net.Error
	return errors.As(err, &timeout) && timeout.Timeout() && !errors.As(err, new(*net.DNSError))
}
