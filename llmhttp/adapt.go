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
		Model: f.name, Status: f.refusalStatus(), Problem: problem, RetryAfter: retryAfter, SentAt: f.sent,
	})
}

// unanswered reports a call that Base failed with err, if the model's limits are to follow: one for
// which the provider had the time, and one of several failures in a row.
func (f *flight) unanswered(err error) {
	ended := f.ctx.Err()
	if !f.adapts() || errors.Is(ended, context.Canceled) {
		return
	}
	if ended != nil {
		if f.hadTime() {
			f.observeRefusal(problemTimeout, 0)
		}
		return
	}
	if isTimeout(err) || f.transport.models.failed(f.model) {
		f.observeRefusal(problemTimeout, 0)
	}
}

// hadTime reports whether the provider could have answered a call whose deadline has passed: it had
// as long as the call waited for its place, and longer than its slowest answers take. A caller that
// was less patient says nothing of the provider. If it lowered a limit, further calls would wait
// longer and miss their deadlines, too.
func (f *flight) hadTime() bool {
	took := time.Since(f.sent)
	return took >= f.waited && took > f.transport.models.slowest(f.model)
}

// isTimeout reports whether a timeout of Base ended a call that the provider may have had.
func isTimeout(err error) bool {
	var timeout net.Error
	return errors.As(err, &timeout) && timeout.Timeout() && !errors.As(err, new(*net.DNSError))
}
