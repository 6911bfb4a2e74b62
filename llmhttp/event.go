package llmhttp

import (
	"context"
	"errors"
	"fmt"
	"time"

	"dappco.re/go/core/go-ratelimit"
	"dappco.re/go/core/go-ratelimit/money"
)

// EventKind is the type of an [Event].
type EventKind string

const (
	// EventAdmitted reports that a call has its place in the quota and is about to be sent. Wait,
	// Estimated and Charged are set.
	EventAdmitted EventKind = "admitted"
	// EventRefused reports that a call was not sent. Err is the reason.
	EventRefused EventKind = "refused"
	// EventAnswered reports that the headers of an answer have arrived. Status is set.
	EventAnswered EventKind = "answered"
	// EventProblem reports that the provider did not answer a call as asked. Status and Problem
	// are set, and Until if the model pauses.
	EventProblem EventKind = "problem"
	// EventRetry reports that a call is to be sent again. Problem or Err is the reason.
	// EventAdmitted follows if there is room in time.
	EventRetry EventKind = "retry"
	// EventSettled reports the final charge of a call. Settled, Source and Reported are set, and
	// Err if there is no answer. It is the last event of each admission.
	EventSettled EventKind = "settled"
)

// Source is the origin of the final charge of a call.
type Source string

const (
	// SourceReported means the usage that the answer reported.
	SourceReported Source = "reported"
	// SourceText means the size of the text that was read.
	SourceText Source = "text"
	// SourceEstimate means the estimate made before the call.
	SourceEstimate Source = "estimate"
	// SourceRefused means that the provider refused the call: the request counts, tokens do not.
	SourceRefused Source = "refused"
	// SourceUnsent means that the call was never sent: nothing counts.
	SourceUnsent Source = "unsent"
)

// Event is a step of a call. It contains no key, no prompt, no reply and no address, apart from
// what the caller has put into Context.
type Event struct {
	Kind EventKind
	// ID is the same in all events of a call, those of its retries by Transport.Retry and those
	// that the limiter's Config.Events gets of it included, and differs from that of every other
	// call of the process. The tries of an SDK and the
	// requests after a redirect are calls of their own, which Context can join.
	ID uint64
	// Context is the context of the request, with the values of the caller. It may have ended.
	Context context.Context

	Adapter   string // the adapter that recognized the call, such as "openai"
	Operation string // such as "chat.completions"
	Requested string // the model that the request names; at Azure, the deployment
	// Model is the name under which the model is counted, after Transport.Model, Config.Aliases
	// and Config.MatchVersions: "gpt-4o" for a request of "gpt-4o-2024-08-06". A model that only
	// "*" covers is counted under its own name. It is the same in all events of a call, but for
	// those of a Route: there it is that at Backend, and the first one's before one was chosen.
	Model   string
	Backend string // of a Route, where the call goes; empty without one
	Stream  bool   // the request asked for a streamed answer
	Attempt int    // 0 at first, 1 for the first retry of Transport.Retry or at another backend

	Wait time.Duration // time that the call waited for its place, and for its retry
	// Estimated is the expected usage, as the provider charges it on arrival, before it is cut to
	// the quota. It is zero before the call asks for its place.
	Estimated ratelimit.Usage
	Charged   ratelimit.Usage // the charge at admission: Estimated, cut to the quota; zero before
	Status    int             // of the answer; 0 without one
	Settled   ratelimit.Usage // the final charge, as the provider counts, see Transport.NoRefund
	// Booked is what counts for the model as of this event: Charged, and Settled once the call is
	// settled. It does not include what WithCharge added.
	Booked   ratelimit.Usage
	Source   Source    // the origin of the final charge
	Reported Usage     // the usage as the answer reported it
	Problem  *Problem  // the reason why the provider did not answer as asked
	Until    time.Time // end of the model's pause; zero without one
	Err      error     // why the call was refused or failed; an error of Base shows its type only
}

// quietError is an error of Base, whose text may contain an address or a part of an answer.
type quietError struct{ err error }

// Error returns the type of the error alone, and the whole text of a context's error.
func (e quietError) Error() string {
	switch {
	case errors.Is(e.err, context.Canceled):
		return context.Canceled.Error()
	case errors.Is(e.err, context.DeadlineExceeded):
		return context.DeadlineExceeded.Error()
	}
	return fmt.Sprintf("call failed: %T", e.err)
}

// Unwrap returns the error of Base.
func (e quietError) Unwrap() error { return e.err }

// quiet returns an error of Base in the form for events; nil for nil.
func quiet(err error) error {
	if err == nil {
		return nil
	}
	return quietError{err}
}

// report passes an event to OnEvent, with the fields that all events of the flight share.
func (t *Transport) report(f *flight, e Event) {
	if t.OnEvent == nil {
		return
	}
	e.ID, e.Context = f.ctx.ID, f.ctx.Context
	e.Adapter, e.Operation = f.call.Adapter, f.call.Operation
	e.Requested, e.Model, e.Stream = f.call.Model, f.countedAs, f.call.Stream
	if b := f.backend(); b != nil {
		e.Backend = b.name
	}
	e.Attempt, e.Estimated, e.Charged = f.attempt, f.estimated, f.charged
	if e.Booked = f.charged; e.Kind == EventSettled {
		e.Booked = e.Settled
	}
	returned := false
	defer func() {
		if !returned { // OnEvent panics, or ends the goroutine
			f.abandon()
		}
	}()
	t.OnEvent(e)
	returned = true
}

// abandon settles a try whose goroutine is being unwound, as far as it is not settled. It reports
// nothing: OnEvent is not to be called again.
func (f *flight) abandon() {
	f.mu.Lock()
	f.stage = settled
	if f.stream != nil {
		f.stream.end()
		f.stream.release()
		f.stream = nil
	}
	f.transport.idles.stop(&f.idle)
	f.transport.arrivals.stop(&f.arrival)
	if f.stopContext != nil {
		f.stopContext()
	}
	f.mu.Unlock()
	switch {
	case f.reservation == nil:
	case f.sent.IsZero():
		f.cancel()
	default:
		f.commit(f.charged, money.Usage{Input: f.charged.PromptTokens, Output: max(f.charged.OutputTokens, f.billedOutput)})
	}
}
