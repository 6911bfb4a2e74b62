package llmhttp

import (
	"context"
	"errors"
	"fmt"
	"time"

	"dappco.re/go/core/go-ratelimit"
)

// EventKind is the type of an [Event].
type EventKind string

const (
	// EventAdmitted reports that a call has its place in the quota and is about to be sent. Wait
	// and Charged are set.
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

// Event is a step of a call. It contains no key, no prompt, no reply and no address.
type Event struct {
	Kind      EventKind
	Adapter   string // the adapter that recognized the call, such as "openai"
	Operation string // such as "chat.completions"
	Model     string // the name under which the model is counted
	Stream    bool   // the request asked for a streamed answer
	Attempt   int    // 0 at first, 1 for the first retry of Transport.Retry

	Wait     time.Duration   // time that the call waited for its place, and for its retry
	Charged  ratelimit.Usage // the charge at admission; zero before
	Status   int             // of the answer; 0 without one
	Settled  ratelimit.Usage // the final charge, as the provider counts
	Source   Source          // the origin of the final charge
	Reported Usage           // the usage as the answer reported it
	Problem  *Problem        // the reason why the provider did not answer as asked
	Until    time.Time       // end of the model's pause; zero without one
	Err      error           // why the call was refused or failed; an error of Base shows its type only
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
	e.Adapter, e.Operation = f.call.Adapter, f.call.Operation
	e.Model, e.Stream = f.name, f.call.Stream
	e.Attempt, e.Charged = f.attempt, f.charged
	t.OnEvent(e)
}
